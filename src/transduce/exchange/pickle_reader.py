"""Reads pickles without unpickling them: interprets only the opcodes that build plain data, and calls no function.

A pickle is a program for a stack machine, which can import and call any function that it names. This reader interprets
only the opcodes that build strings, numbers and containers. It does not import the names in a pickle, but represents
each name by a `Global`. A call of a known container type builds the container, and any other call is represented by a
`Call`. Names that `is_known` does not accept are rejected.

`torch.load(weights_only=True)` is no substitute for this reader. It does not run hostile code either, but it limits
neither time nor memory. The table shows how torch 2.13, with stand-ins for `argparse.Namespace` and NumPy's scalars,
handles files from `tests/exchange/test_hostile_files.py`:

| file | bytes of the file | `torch.load(weights_only=True)` |
|---|---|---|
| a dictionary whose key is a pair of equal pairs, nested 60 levels deep | 660 | never finishes hashing the key |
| a call of `bytearray(3_000_000_000)`, which it permits | 390 | allocates 3 GB |
| 400 dictionaries that are built from the same list of pairs | 536,000 | takes 784 MiB |
| a compressed storage | 973,000 | takes 968 MiB |

`torch.load` also reads every storage of a checkpoint, including the state of the optimiser, and needs a list of all
permitted names. Such a list cannot be complete, because the settings that fairseq writes may be of any class in
`omegaconf` or in its own code.
"""

import pickletools
from collections.abc import Callable, Iterator, Sequence
from mmap import mmap
from typing import IO, Any, BinaryIO, NamedTuple, cast

MAX_OPCODES = 5_000_000
"""The largest number of opcodes in a pickle, which is many times that of a checkpoint with a thousand tensors."""

Scalar = str | int | float | bool | bytes | None
"""A value that does not contain other values."""

MARK = object()


class Global(NamedTuple):
    """The name of an object that a pickle imports. This reader does not import the object."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call(NamedTuple):
    """A function call recorded in a pickle, with the state that the pickle sets on its result.

    The reader never executes the call.
    """

    function: Global
    arguments: tuple[Any, ...]
    state: dict[str, Any]


class Persistent(NamedTuple):
    """A reference to an object outside the pickle, for example to the storage of a tensor."""

    reference: Any


def read_pickle(file: BinaryIO | mmap, is_known: Callable[[Global], bool], place: str) -> Any:
    """Reads the pickle at the current position of the file, and advances the position to the end of the pickle.

    Raises ValueError, naming `place`, if the pickle is damaged, or if it contains an unknown name or an opcode that no
    checkpoint needs.
    """
    try:
        return _Machine(is_known).run(pickletools.genops(cast(IO[bytes], file)))
    except _UnknownNameError as error:
        raise ValueError(
            f"{place} names {error}, which no checkpoint names: the file may be an attack. Nothing of it was run"
        ) from None
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{place} is not a checkpoint, or is damaged: {error}") from None


class _UnknownNameError(Exception):
    """Raised when a pickle imports a name that is not known."""


class _Machine:
    """The stack machine that interprets a single pickle."""

    def __init__(self, is_known: Callable[[Global], bool]) -> None:
        self._is_known = is_known
        self._stack: list[Any] = []
        self._copied = 0  # the number of attributes set on objects, plus the number of pairs copied to dictionaries

    def run(self, opcodes: Iterator[tuple[Any, Any, int | None]]) -> Any:
        """Interprets the opcodes up to STOP, and returns the value that is left on the stack."""
        stack, memo = self._stack, dict[int, Any]()
        for number, (opcode, argument, _) in enumerate(opcodes):
            if number > MAX_OPCODES:
                raise ValueError(f"its pickle has more than {MAX_OPCODES:,} opcodes")
            if opcode.name in _LITERALS:
                stack.append(argument)
                continue
            if opcode.name in _CONSTANTS:
                stack.append(_CONSTANTS[opcode.name])
                continue
            match opcode.name:
                case "STOP":
                    (value,) = stack
                    return value
                case "PUT" | "BINPUT" | "LONG_BINPUT":
                    memo[argument] = stack[-1]
                case "MEMOIZE":
                    memo[len(memo)] = stack[-1]
                case "GET" | "BINGET" | "LONG_BINGET":
                    stack.append(memo[argument])
                case "EMPTY_LIST" | "EMPTY_SET":
                    stack.append([])
                case "EMPTY_DICT":
                    stack.append({})
                case "LIST" | "FROZENSET":
                    stack.append(self._pop_to_mark())
                case "TUPLE":
                    stack.append(tuple(self._pop_to_mark()))
                case "TUPLE1" | "TUPLE2" | "TUPLE3":
                    stack.append(self._pop(int(opcode.name[-1])))
                case "APPEND":
                    self._append(self._pop(1))
                case "APPENDS" | "ADDITEMS":
                    self._append(self._pop_to_mark())
                case "SETITEM":
                    self._set_items(self._pop(2))
                case "SETITEMS":
                    self._set_items(self._pop_to_mark())
                case "GLOBAL":
                    self._name(*argument.split(" ", 1))
                case "STACK_GLOBAL":
                    self._name(*self._pop(2))
                case "REDUCE" | "NEWOBJ":
                    self._call(*self._pop(2))
                case "BUILD":
                    target, state = self._pop(2)
                    if isinstance(target, Call) and isinstance(state, dict):
                        self._count_copies(len(state))
                        target.state.update(state)
                    elif not isinstance(target, Call | dict):  # the state of a container is ignored
                        raise ValueError("its pickle sets the state of something that is not an object")
                    stack.append(target)
                case "BINPERSID":
                    stack.append(Persistent(*self._pop(1)))
                case "POP":
                    self._pop(1)
                case "POP_MARK":
                    self._pop_to_mark()
                case "PROTO" | "FRAME":
                    pass
                case _:
                    raise ValueError(f"its pickle has the opcode {opcode.name}, which no checkpoint needs")
        raise ValueError("its pickle has no end")

    def _pop(self, count: int) -> tuple[Any, ...]:
        """Pops the top `count` values from the stack, and returns them in the order in which they were pushed."""
        values = tuple([self._stack.pop() for _ in range(count)][::-1])
        if any(value is MARK for value in values):
            raise ValueError("its pickle takes a mark for a value")
        return values

    def _pop_to_mark(self) -> list[Any]:
        """Pops the topmost mark and all values above it from the stack, and returns the values in order."""
        values: list[Any] = []
        while (value := self._stack.pop()) is not MARK:
            values.append(value)
        return values[::-1]

    def _set_items(self, pairs: Sequence[Any]) -> None:
        """Sets items of the dictionary on top of the stack. `pairs` contains keys and values alternately."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise ValueError("its pickle sets items of something that is not a dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[_checked_key(key)] = value

    def _append(self, values: Sequence[Any]) -> None:
        """Appends values to the list on top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError("its pickle appends to something that is not a list")
        target.extend(values)

    def _name(self, module: Any, name: Any) -> None:
        """Pushes an imported name on the stack; raises _UnknownNameError if the name is not known."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("its pickle imports a name that is not a string")
        imported = Global(module, name)
        if not self._is_known(imported):
            raise _UnknownNameError(ascii(str(imported)[:200]))
        self._stack.append(imported)

    def _call(self, function: Any, arguments: Any) -> None:
        """Pushes the result of a call on the stack: a container if the call builds one, and otherwise a `Call`."""
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise ValueError("its pickle calls something that is not a name")
        if str(function) in ("collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"):
            pairs = arguments[-1] if arguments and isinstance(arguments[-1], list) else []
            self._count_copies(len(pairs))
            self._stack.append({_checked_key(key): value for key, value in pairs})
        elif str(function) in ("builtins.set", "__builtin__.set", "builtins.frozenset"):
            self._stack.append(arguments[0] if arguments and isinstance(arguments[0], list) else [])
        else:
            self._stack.append(Call(function, arguments, {}))

    def _count_copies(self, count: int) -> None:
        """Counts copied items, and raises ValueError if there are too many.

        Without this limit, a small pickle could copy one large state to many objects.
        """
        self._copied += count
        if self._copied > MAX_OPCODES:
            raise ValueError(f"its pickle sets more than {MAX_OPCODES:,} attributes")


def _checked_key(key: Any) -> Scalar:
    """Returns the key of a dictionary; raises ValueError if it is not a scalar, because hashing it may take forever."""
    if not isinstance(key, Scalar):
        raise ValueError(f"its pickle has a dictionary with a key that is a {type(key).__name__}")
    return key


_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": MARK}

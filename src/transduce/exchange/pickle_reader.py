"""Reads pickles without unpickling: interprets the opcodes that build plain data, and calls nothing.

A pickle is a program for a stack machine, and may import and call anything that it names. This reader knows the opcodes
that build strings, numbers and containers. A name that a pickle imports stays a name (`Global`), and a call stays a
record of the call (`Call`) unless it builds a known container. Names that `is_known` does not accept are refused.

`torch.load(weights_only=True)` was tried instead of this reader (torch 2.13, with stand-ins for `argparse.Namespace`
and NumPy's scalars, on the files of `tests/exchange/test_hostile_files.py`). It runs nothing hostile either, but it
limits neither time nor memory:

| file | bytes of the file | `torch.load(weights_only=True)` |
|---|---|---|
| a dictionary whose key is a tuple of itself twice, 60 times | 660 | never finishes hashing the key |
| a call of `bytearray(3_000_000_000)`, which it permits | 390 | allocates 3 GB |
| 400 dictionaries that are made of one list of pairs | 536,000 | takes 784 MiB |
| a compressed storage | 973,000 | takes 968 MiB |

It also reads every storage of a checkpoint, including the optimiser's, and needs a list of all permitted names. fairseq
writes settings of any class from `omegaconf` and from its own code, so no list can be complete.
"""

import pickletools
from collections.abc import Callable, Iterator, Sequence
from mmap import mmap
from typing import IO, Any, BinaryIO, NamedTuple, cast

MAX_OPCODES = 5_000_000
"""Largest number of opcodes in a pickle: many times the number in a checkpoint with a thousand tensors."""

Scalar = str | int | float | bool | bytes | None
"""Values without parts."""

MARK = object()


class Global(NamedTuple):
    """A name that a pickle imports. This reader does not import it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call(NamedTuple):
    """A call that a pickle makes, with the state that it sets on the result. This reader does not make the call."""

    function: Global
    arguments: tuple[Any, ...]
    state: dict[str, Any]


class Persistent(NamedTuple):
    """A reference to something outside the pickle, for example a storage of tensors."""

    reference: Any


def read_pickle(file: BinaryIO | mmap, is_known: Callable[[Global], bool], place: str) -> Any:
    """Reads the pickle at the file's position, and leaves the position after it.

    Raises ValueError, which names `place`, if the pickle has an unknown name or an opcode that no checkpoint needs, or
    if it is damaged.
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
    """A pickle imports a name that is not known."""


class _Machine:
    """The stack, the marks and the memo of one pickle."""

    def __init__(self, is_known: Callable[[Global], bool]) -> None:
        self._is_known = is_known
        self._stack: list[Any] = []
        self._copied = 0  # number of attributes set on objects and of pairs put into dictionaries

    def run(self, opcodes: Iterator[tuple[Any, Any, int | None]]) -> Any:
        """Interprets opcodes up to STOP and returns the value on the stack."""
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
                    elif not isinstance(target, Call | dict):  # the state of a container is dropped
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
        """Takes `count` values from the top of the stack."""
        values = tuple([self._stack.pop() for _ in range(count)][::-1])
        if any(value is MARK for value in values):
            raise ValueError("its pickle takes a mark for a value")
        return values

    def _pop_to_mark(self) -> list[Any]:
        """Takes the values above the topmost mark, and removes the mark."""
        values: list[Any] = []
        while (value := self._stack.pop()) is not MARK:
            values.append(value)
        return values[::-1]

    def _set_items(self, pairs: Sequence[Any]) -> None:
        """Sets alternating keys and values in the dictionary on the top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise ValueError("its pickle sets items of something that is not a dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[_checked_key(key)] = value

    def _append(self, values: Sequence[Any]) -> None:
        """Appends values to the list on the top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError("its pickle appends to something that is not a list")
        target.extend(values)

    def _name(self, module: Any, name: Any) -> None:
        """Puts a name on the stack; raises _UnknownNameError if it is not known."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("its pickle imports a name that is not a string")
        imported = Global(module, name)
        if not self._is_known(imported):
            raise _UnknownNameError(ascii(str(imported)[:200]))
        self._stack.append(imported)

    def _call(self, function: Any, arguments: Any) -> None:
        """Puts a value on the stack: the container that a known call builds, or a record of any other call."""
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
        """Raises ValueError if too much was copied, for example one large state into many objects."""
        self._copied += count
        if self._copied > MAX_OPCODES:
            raise ValueError(f"its pickle sets more than {MAX_OPCODES:,} attributes")


def _checked_key(key: Any) -> Scalar:
    """Returns a dictionary's key; raises ValueError if it is not a scalar, because hashing it may take forever."""
    if not isinstance(key, Scalar):
        raise ValueError(f"its pickle has a dictionary with a key that is a {type(key).__name__}")
    return key


_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": MARK}

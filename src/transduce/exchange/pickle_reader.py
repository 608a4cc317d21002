"""Reads pickles without unpickling: interprets the opcodes that build plain data, and calls nothing.

A pickle is a program for a stack machine, which may import and call whatever it names. This reader knows the opcodes
that build strings, numbers and containers. A name that a pickle imports stays a name (`Global`), and a call stays a
record of the call (`Call`) unless it builds a known container; names that are not in `is_known` are refused.
"""

import pickletools
from collections.abc import Callable, Iterator
from mmap import mmap
from typing import IO, Any, BinaryIO, NamedTuple, cast

__all__ = ["Call", "Global", "Persistent", "Scalar", "read_pickle"]

MAX_OPCODES = 5_000_000
"""Opcodes of a pickle: many times what a checkpoint of a thousand tensors has."""

Scalar = str | int | float | bool | bytes | None
"""Values without parts."""

MARK = object()


class Global(NamedTuple):
    """A name that a pickle imports, which this reader does not import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call(NamedTuple):
    """A call that a pickle makes, which this reader does not make, and the state that the result is given."""

    function: Global
    arguments: tuple[Any, ...]
    state: dict[str, Any]


class Persistent(NamedTuple):
    """A reference to something outside of the pickle, such as a storage of tensors."""

    reference: Any


def read_pickle(file: BinaryIO | mmap, is_known: Callable[[Global], bool], place: str) -> Any:
    """Returns the value of the pickle at the file's position, and leaves the position after it.

    Raises ValueError with `place` for a name that is not known, an opcode that no checkpoint needs, and a pickle that
    is damaged.
    """
    try:
        return _Machine(is_known).run(pickletools.genops(cast(IO[bytes], file)))
    except _UnknownNameError as error:
        raise ValueError(
            f"{place} names {error}, which is no part of a checkpoint: the file may be an attack. Nothing of it was run"
        ) from None
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{place} is no checkpoint, or is damaged: {error}") from None


class _UnknownNameError(Exception):
    """A pickle names something that is not known."""


class _Machine:
    """The stack, the marks and the memo of one pickle."""

    def __init__(self, is_known: Callable[[Global], bool]) -> None:
        self._is_known = is_known
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._copied = 0  # attributes into the states of objects, and pairs into dictionaries

    def run(self, opcodes: Iterator[tuple[Any, Any, int | None]]) -> Any:
        """Interprets opcodes up to STOP and returns the value on the stack."""
        for number, (opcode, argument, _) in enumerate(opcodes):
            if number > MAX_OPCODES:
                raise ValueError(f"its pickle has more than {MAX_OPCODES:,} opcodes")
            if opcode.name == "STOP":
                (value,) = self._stack
                return value
            if opcode.name in _LITERALS:
                self._stack.append(argument)
            elif opcode.name in _ACTIONS:
                _ACTIONS[opcode.name](self, argument)
            else:
                raise ValueError(f"its pickle has the opcode {opcode.name}, which no checkpoint needs")
        raise ValueError("its pickle has no end")

    def push(self, value: Any) -> None:
        """Puts a value on the stack."""
        self._stack.append(value)

    def pop(self) -> Any:
        """Takes the value from the top of the stack."""
        value = self._stack.pop()
        if value is MARK:
            raise ValueError("its pickle takes a mark for a value")
        return value

    def drop(self) -> None:
        """Takes the value from the top of the stack away."""
        self.pop()

    def pop_to_mark(self) -> list[Any]:
        """Takes the values above the topmost mark, and the mark."""
        values: list[Any] = []
        while (value := self._stack.pop()) is not MARK:
            values.append(value)
        return values[::-1]

    def pop_many(self, count: int) -> tuple[Any, ...]:
        """Takes `count` values."""
        return tuple([self.pop() for _ in range(count)][::-1])

    def memoise(self, number: int | None) -> None:
        """Stores the top of the stack under a number, by default the next one."""
        self._memo[len(self._memo) if number is None else number] = self._stack[-1]

    def recall(self, number: int) -> None:
        """Puts a stored value on the stack."""
        self.push(self._memo[number])

    def set_items(self, pairs: list[Any]) -> None:
        """Sets keys and values, in turn, in the dictionary on the top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise ValueError("its pickle sets items of something that is no dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[_checked_key(key)] = value

    def append(self, values: list[Any]) -> None:
        """Appends values to the list on the top of the stack."""
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError("its pickle appends to something that is no list")
        target.extend(values)

    def name(self, module: Any, name: Any) -> None:
        """Puts a name on the stack; raises where it is not known."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("its pickle imports a name that is no string")
        imported = Global(module, name)
        if not self._is_known(imported):
            raise _UnknownNameError(ascii(str(imported)[:200]))
        self.push(imported)

    def call(self) -> None:
        """Puts a record of the call of a name with a tuple of arguments on the stack, or a known container."""
        function, arguments = self.pop_many(2)
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise ValueError("its pickle calls something that is no name")
        if str(function) in ("collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"):
            pairs = arguments[-1] if arguments and isinstance(arguments[-1], list) else []
            self._count_copies(len(pairs))
            self.push({_checked_key(key): value for key, value in pairs})
        elif str(function) in ("builtins.set", "__builtin__.set", "builtins.frozenset"):
            self.push(arguments[0] if arguments and isinstance(arguments[0], list) else [])
        else:
            self.push(Call(function, arguments, {}))

    def build(self) -> None:
        """Gives the record of a call its state; the state of a container is dropped."""
        target, state = self.pop_many(2)
        if isinstance(target, Call) and isinstance(state, dict):
            self._count_copies(len(state))
            target.state.update(state)
        elif not isinstance(target, Call | dict):
            raise ValueError("its pickle sets the state of something that is no object")
        self.push(target)

    def _count_copies(self, count: int) -> None:
        """Raises ValueError where too much was copied, as one large state into many objects."""
        self._copied += count
        if self._copied > MAX_OPCODES:
            raise ValueError(f"its pickle sets more than {MAX_OPCODES:,} attributes")


def _checked_key(key: Any) -> Scalar:
    """Returns a key of a dictionary; raises for a key that is no string or number, whose hash may take forever."""
    if not isinstance(key, Scalar):
        raise ValueError(f"its pickle has a dictionary with a key that is a {type(key).__name__}")
    return key


_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING"),
}

_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, argument: None,
    "FRAME": lambda machine, argument: None,
    "NONE": lambda machine, argument: machine.push(None),
    "NEWTRUE": lambda machine, argument: machine.push(True),
    "NEWFALSE": lambda machine, argument: machine.push(False),
    "MARK": lambda machine, argument: machine.push(MARK),
    "POP": lambda machine, argument: machine.drop(),
    "POP_MARK": lambda machine, argument: machine.pop_to_mark().clear(),
    "EMPTY_LIST": lambda machine, argument: machine.push([]),
    "EMPTY_SET": lambda machine, argument: machine.push([]),
    "EMPTY_DICT": lambda machine, argument: machine.push({}),
    "EMPTY_TUPLE": lambda machine, argument: machine.push(()),
    "LIST": lambda machine, argument: machine.push(machine.pop_to_mark()),
    "FROZENSET": lambda machine, argument: machine.push(machine.pop_to_mark()),
    "TUPLE": lambda machine, argument: machine.push(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, argument: machine.push(machine.pop_many(1)),
    "TUPLE2": lambda machine, argument: machine.push(machine.pop_many(2)),
    "TUPLE3": lambda machine, argument: machine.push(machine.pop_many(3)),
    "APPEND": lambda machine, argument: machine.append([machine.pop()]),
    "APPENDS": lambda machine, argument: machine.append(machine.pop_to_mark()),
    "ADDITEMS": lambda machine, argument: machine.append(machine.pop_to_mark()),
    "SETITEM": lambda machine, argument: machine.set_items(list(machine.pop_many(2))),
    "SETITEMS": lambda machine, argument: machine.set_items(machine.pop_to_mark()),
    "GLOBAL": lambda machine, argument: machine.name(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, argument: machine.name(*machine.pop_many(2)),
    "REDUCE": lambda machine, argument: machine.call(),
    "NEWOBJ": lambda machine, argument: machine.call(),
    "BUILD": lambda machine, argument: machine.build(),
    "BINPERSID": lambda machine, argument: machine.push(Persistent(machine.pop())),
    "PUT": lambda machine, argument: machine.memoise(argument),
    "BINPUT": lambda machine, argument: machine.memoise(argument),
    "LONG_BINPUT": lambda machine, argument: machine.memoise(argument),
    "MEMOIZE": lambda machine, argument: machine.memoise(None),
    "GET": lambda machine, argument: machine.recall(argument),
    "BINGET": lambda machine, argument: machine.recall(argument),
    "LONG_BINGET": lambda machine, argument: machine.recall(argument),
}

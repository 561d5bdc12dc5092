"""Reading pickles without executing them: an interpreter of their opcodes that imports and calls nothing of theirs.

A pickle is a program. Here its names are compared with a list: a name on the list becomes one of the functions below
`paddock.tmrl`, or an inert `Holder`; any other name ends the reading. The sizes of what is built follow the bytes of
the file, because an opcode builds at most what it read.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_OPCODES = 5_000_000
MOST_ON_STACK = 1_000_000  # values; a pickler writes long lists in batches of 1,000
DEEPEST = 200  # levels of containers and objects


class RefusedPickleError(ValueError):
    """A pickle that is cut short, too much, or names something that is not on the list; the text says which."""


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle names, as its dotted name."""

    path: str


@dataclass(eq=False)
class Holder:
    """An object of a class that is not loaded: what it was called with, its attributes and its entries."""

    name: str
    arguments: tuple[Any, ...] = ()
    attributes: dict[Any, Any] = field(default_factory=dict)
    state: Any = None
    entries: dict[Any, Any] = field(default_factory=dict)
    elements: list[Any] = field(default_factory=list)

    def build(self, state: Any) -> None:
        """Take what the pickle gives an object as its state."""
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if all(part is None or isinstance(part, dict) for part in parts):
            for part in parts:
                self.attributes.update(part or {})
        else:
            self.state = state


@dataclass(frozen=True)
class Rules:
    """What a pickle may name. calls: functions of Paddock that take the place of named ones. names: classes that may
    be mentioned. inert: modules (`torch.nn.`) and names whose objects become Holders."""

    calls: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    inert: tuple[str, ...] = ()
    purpose: str = "data"

    def check(self, path: str) -> Name:
        """The name, if it is on the list."""
        if path in self.calls or path in self.names or self.is_inert(path):
            return Name(path)
        raise RefusedPickleError(f"it names '{path[:100]}', which is not among the names that {self.purpose} needs")

    def is_inert(self, path: str) -> bool:
        return any(path.startswith(one) if one.endswith(".") else path == one for one in self.inert)

    def call(self, called: Any, arguments: Any) -> Any:
        """What takes the place of a call in a pickle."""
        if not isinstance(called, Name) or not isinstance(arguments, tuple):
            raise RefusedPickleError("it calls something that is not a name")
        if called.path in self.calls:
            return self.calls[called.path](*arguments)
        if self.is_inert(called.path):
            return Holder(called.path, arguments)
        raise RefusedPickleError(f"it calls '{called.path[:100]}', which may only be mentioned")


def read_pickle(
    data: bytes | io.BytesIO,
    rules: Rules,
    *,
    persistent: Callable[[Any], Any] | None = None,
    most_opcodes: int = MOST_OPCODES,
) -> Any:
    """The value that a pickle describes, with every object of a class as a Holder; RefusedPickleError where it cannot
    be read. A stream is left behind the pickle's end."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    machine = _Machine(rules, persistent, len(stream.getbuffer()))
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= most_opcodes:
                raise RefusedPickleError(f"it has more than {most_opcodes:,} instructions")
            machine.run(opcode.name, argument)
        value = machine.result()
    except RefusedPickleError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise RefusedPickleError("it is damaged or not a pickle") from error
    if is_deeper(value, DEEPEST):
        raise RefusedPickleError(f"it is nested deeper than {DEEPEST} levels")
    return value


def is_deeper(value: Any, depth: int) -> bool:
    """Whether containers and Holders lie in each other over more than `depth` levels; each is looked at once."""
    seen, level = {id(value)}, [value]
    for _ in range(depth + 1):
        following = []
        for one in level:
            for child in _children(one):
                if id(child) not in seen:
                    seen.add(id(child))
                    following.append(child)
        if not following:
            return False
        level = following
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, Holder):
        return [value.arguments, value.attributes, value.state, value.entries, value.elements]
    return value if isinstance(value, list | tuple | set | frozenset) else ()


_MARK = object()


def _keys(values: list[Any]) -> list[Any]:
    """Keys, if they are no tuples in tuples: their hash can take for ever."""
    nested = (tuple, frozenset)
    if any(isinstance(value, nested) and any(isinstance(one, nested) for one in value) for value in values):
        raise RefusedPickleError("it has a dictionary or a set with keys that no file of data needs")
    return values


_PUSHING = {
    "FLOAT", "BINFLOAT", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_COLLECTING: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": tuple,
    "LIST": list,
    "DICT": lambda values: dict(zip(_keys(values[::2]), values[1::2], strict=True)),
    "FROZENSET": lambda values: frozenset(_keys(values)),
}
_NOTHING_TO_DO = ("PROTO", "FRAME", "STOP")


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self, rules: Rules, persistent: Callable[[Any], Any] | None, size: int) -> None:
        self.rules, self.persistent = rules, persistent
        self.most_bytes, self.bytes_made = 2 * size + 1_024, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            raise RefusedPickleError("it is damaged or not a pickle")
        return self.stack[0]

    def run(self, name: str, argument: Any) -> None:
        if name in _PUSHING:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _COLLECTING:
            self.stack.append(_COLLECTING[name](self.above_mark()))
        elif name not in _NOTHING_TO_DO:
            handler = getattr(self, f"op_{name.lower()}", None)
            if handler is None:
                raise RefusedPickleError(f"it uses the instruction {name}, which no file of data needs")
            handler(argument)
        if len(self.stack) > MOST_ON_STACK:
            raise RefusedPickleError(f"it has more than {MOST_ON_STACK:,} values under way")

    def above_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                found = self.stack[index + 1 :]
                del self.stack[index:]
                return found
        raise RefusedPickleError("it is damaged or not a pickle")

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise RefusedPickleError("it is damaged or not a pickle")
        return value

    def op_mark(self, _: Any) -> None:
        self.stack.append(_MARK)

    def op_pop(self, _: Any) -> None:
        self.stack.pop()

    def op_pop_mark(self, _: Any) -> None:
        self.above_mark()

    def op_dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def op_tuple1(self, _: Any) -> None:
        self.stack.append((self.pop(),))

    def op_tuple2(self, _: Any) -> None:
        second, first = self.pop(), self.pop()
        self.stack.append((first, second))

    def op_tuple3(self, _: Any) -> None:
        third, second, first = self.pop(), self.pop(), self.pop()
        self.stack.append((first, second, third))

    def op_put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    op_binput = op_long_binput = op_put

    def op_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def op_get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    op_binget = op_long_binget = op_get

    def op_global(self, argument: str) -> None:
        self.stack.append(self.rules.check(argument.replace(" ", ".")))

    def op_stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise RefusedPickleError("it names something by what is not text")
        self.stack.append(self.rules.check(f"{module}.{name}"))

    def op_reduce(self, _: Any) -> None:
        arguments, called = self.pop(), self.pop()
        made = self.rules.call(called, arguments)
        if isinstance(made, bytes):  # From text that is there once, and may be encoded again and again.
            self.bytes_made += len(made)
            if self.bytes_made > self.most_bytes:
                raise RefusedPickleError("it makes more bytes than the file has")
        self.stack.append(made)

    op_newobj = op_reduce

    def op_newobj_ex(self, _: Any) -> None:
        keywords, arguments, called = self.pop(), self.pop(), self.pop()
        made = self.rules.call(called, arguments)
        if keywords and not isinstance(made, Holder):
            raise RefusedPickleError("it calls a name with keywords that no file of data needs")
        if isinstance(made, Holder):
            made.attributes.update(keywords)
        self.stack.append(made)

    def op_inst(self, argument: str) -> None:
        self.stack.append(self.rules.call(self.rules.check(argument.replace(" ", ".")), tuple(self.above_mark())))

    def op_obj(self, _: Any) -> None:
        called, *arguments = self.above_mark()
        self.stack.append(self.rules.call(called, tuple(arguments)))

    def op_build(self, _: Any) -> None:
        state, target = self.pop(), self.stack[-1]
        if hasattr(target, "build"):
            target.build(state)
        elif not isinstance(target, dict):  # The dictionary of a module's weights has attributes that say nothing.
            raise RefusedPickleError("it gives a state to what has none")

    def op_append(self, _: Any) -> None:
        value = self.pop()
        self.extend([value])

    def op_appends(self, _: Any) -> None:
        self.extend(self.above_mark())

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Holder):
            target = target.elements
        if not isinstance(target, list):
            raise RefusedPickleError("it appends to what is no list")
        target.extend(values)

    def op_additems(self, _: Any) -> None:
        values = _keys(self.above_mark())
        if not isinstance(self.stack[-1], set):
            raise RefusedPickleError("it adds to what is no set")
        self.stack[-1].update(values)

    def op_setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.update([key, value])

    def op_setitems(self, _: Any) -> None:
        self.update(self.above_mark())

    def update(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Holder):
            target = target.entries
        if not isinstance(target, dict):
            raise RefusedPickleError("it sets entries of what is no dictionary")
        target.update(zip(_keys(values[::2]), values[1::2], strict=True))

    def op_persid(self, argument: str) -> None:
        self.stack.append(self.find(argument))

    def op_binpersid(self, _: Any) -> None:
        self.stack.append(self.find(self.pop()))

    def find(self, identity: Any) -> Any:
        if self.persistent is None:
            raise RefusedPickleError("it refers to something outside of the file")
        return self.persistent(identity)

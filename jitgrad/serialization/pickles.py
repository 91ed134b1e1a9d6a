"""A reader of pickles that runs no code of theirs: what they may name stands in a table.

A pickle is a program of a stack machine, whose instructions `pickletools` takes apart. Of the classes and functions
that it names, only those mean something that the machine is given. Another one becomes a `Blank`, and so does what
would be made with it, so that afterwards `refusals` can say where in the object each of them stands. Memory is that of
the pickle's own length: the machine's memo is a dict, and nothing is made of a length that a number claims.

Source: the comments of CPython's pickletools.py; PyTorch's `weights_only` for what is allowed.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from jitgrad.serialization.archive import LoadError

#: how many parts a key of a dict may have: hashing tuples of tuples that share parts takes time without end
LONGEST_KEY = 1000


class Refused(LoadError, pickle.UnpicklingError):
    """A pickle that names a class or function which is not among those that loading builds."""


class Blank:
    """What stands for something that is not built: `name`d, or for a while None."""

    def __init__(self, name: str | None):
        self.name = name


class Named:
    """What a name stands for.

    Attributes:
        make: called where a pickle calls it; None: it is only named.
        fact: what those who are handed it must know.
    """

    def __init__(self, name: str, make: Callable[..., Any] | None = None, fact: Any = None):
        self.name, self.make, self.fact = name, make, fact


def _plain(*kinds: type[Any]) -> Callable[..., tuple[Any, ...]]:
    """A check of arguments: at most as many as `kinds`, each of its kind."""
    def check(*args: Any) -> tuple[Any, ...]:
        if len(args) > len(kinds) or not all(isinstance(a, k) for a, k in zip(args, kinds, strict=False)):
            raise LoadError(f"damaged file: arguments {tuple(type(a).__name__ for a in args)}")
        return args

    return check


_of_items, _of_text, _of_numbers = _plain(list), _plain(str, str), _plain(float, float)


def _encoded(*args: Any) -> bytes:
    text, encoding = _of_text(*args)
    if encoding != "latin1":
        raise LoadError(f"damaged file: bytes in the encoding `{encoding}`")
    return bytes(text, "latin1")


def _keys(*items: Any) -> list[list[Any]]:
    return [[_key(item) for item in given] for given in _of_items(*items)]


def _items(pairs: list[Any]) -> list[tuple[Any, Any]]:
    return [(_key(k), v) for k, v in pairs]


def _byte_array(source: bytes | str = b"", *encoding: str) -> bytearray:
    return bytearray(_encoded(source, "latin1") if encoding else _plain(bytes)(source)[0])


#: the standard library's names that a pickle may use, and what makes their objects
STANDARD: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": lambda *items: OrderedDict(*[_items(part) for part in _of_items(*items)]),
    "collections.Counter": lambda *counts: Counter(*_plain(dict)(*counts)), "_codecs.encode": _encoded,
    "builtins.set": lambda *items: set(*_keys(*items)), "builtins.complex": lambda *p: complex(*_of_numbers(*p)),
    "builtins.frozenset": lambda *items: frozenset(*_keys(*items)), "builtins.bytearray": _byte_array,
    "builtins.bytes": lambda: b""}
#: what Python 2 called modules; protocol 2, which PyTorch writes, uses these names
RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class Machine:
    """Runs one pickle after the other.

    Args:
        functions: what makes the objects of the classes and functions that a pickle may call, by full name.
        values: what other names stand for.
        persistent: the object of a persistent id, which is what a file keeps outside of its pickle.
        classes: classes of the user's, by full name, whose objects may be made and filled.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]], values: Mapping[str, Any],
                 persistent: Callable[[Any], Any], classes: Mapping[str, Any]):
        self._names = {**values, **{name: Named(name, make) for name, make in {**STANDARD, **functions}.items()}}
        self._persistent, self._classes = persistent, classes
        self._own = {id(made) for made in classes.values()}

    def run(self, file: IO[bytes]) -> Any:
        """The object of the pickle that begins where `file` stands."""
        from pickletools import genops

        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # stacks under marks
        self._memo: dict[int, Any] = {}
        for op, arg, _ in genops(file):
            if op.name == "STOP":
                return self._stack.pop()
            step = STEPS.get(op.name)
            if step is None:
                raise LoadError(f"damaged file: a pickle with the instruction {op.name}")
            step(self, arg)
        raise LoadError("damaged file: a pickle that does not end")

    # --- the parts of instructions ----------------------------------------------------------------------------------

    def marked(self) -> list[Any]:
        """What stands above the last mark, which goes."""
        items, self._stack = self._stack, self._below.pop()
        return items

    def take(self, count: int) -> list[Any]:
        """The topmost items."""
        if count > len(self._stack):
            raise LoadError("damaged file: a pickle takes more than there is")
        items = self._stack[len(self._stack) - count:]
        del self._stack[len(self._stack) - count:]
        return items

    def push(self, item: Any) -> None:
        self._stack.append(item)

    def mark(self, _: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def pop(self, _: Any) -> None:
        self._stack = self._stack[:-1] if self._stack else self._below.pop()

    def pop_mark(self, _: Any) -> None:
        self.marked()

    def fill(self, items: list[Any], kinds: tuple[type[Any], ...], add: Callable[[Any, Any], None]) -> None:
        """Put items into the topmost object, which is one of `kinds`."""
        target = self._stack[-1]
        if isinstance(target, Blank):
            return
        if type(target) not in kinds:
            raise LoadError(f"damaged file: a pickle adds items to a {type(target).__name__}")
        for item in items:
            add(target, item)

    def extend(self, items: list[Any]) -> None:
        self.fill(items, (list,), list.append)

    def update(self, items: list[Any]) -> None:
        self.fill(pairs(items), (dict, OrderedDict, Counter), lambda d, pair: d.__setitem__(*pair))

    def named(self, module: str, name: str) -> None:
        """Push what a class or function means."""
        full = f"{RENAMED.get(module, module)}.{name}"
        self.push(self._classes[full] if full in self._classes else self._names.get(full, Blank(full)))

    def instance(self, module: str, name: str) -> None:
        """Push what a class makes of what stands above the last mark."""
        self.named(module, name)
        self.call(self._stack.pop(), tuple(self.marked()))

    def call(self, function: Any, args: Any) -> None:
        """Push what a function returns, or a Blank where it or an argument is one."""
        if not isinstance(args, tuple):
            raise LoadError("damaged file: arguments that are no tuple")
        blanks = list(_blanks((function, args)))
        if blanks:
            self.push(next((b for b in blanks if b.name is not None), blanks[0]))
        elif isinstance(function, Named) and function.make is not None:
            self.push(function.make(*args))
        elif id(function) in self._own:
            self.push(function(*args))
        else:
            raise LoadError(f"damaged file: a pickle calls a {type(function).__name__}")

    def new(self, cls: Any, args: Any) -> None:
        """Push an object whose `__init__` has not run; only of the user's classes."""
        if id(cls) in self._own and isinstance(cls, type) and isinstance(args, tuple):
            self.push(cls.__new__(cls, *args))
        else:
            self.call(cls, args)

    def build(self, _: Any) -> None:
        """Give the topmost object its attributes."""
        target, state = self._stack[-2], self._stack.pop()
        if isinstance(target, Blank):
            return
        if isinstance(target, OrderedDict) and isinstance(state, dict) and state.keys() <= {"_metadata"}:
            target.__dict__.update(state)  # a state_dict, which says there what versions its modules were of
        elif id(type(target)) not in self._own:
            raise LoadError(f"damaged file: a pickle sets attributes of a {type(target).__name__}")
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            target.__dict__.update(values or {})
            for name, value in (slots or {}).items():
                setattr(target, name, value)

    def recall(self, index: int) -> None:
        self.push(self._memo[index])

    def remember(self, index: Any) -> None:
        self._memo[len(self._memo) if index is None else index] = self._stack[-1]


def pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    """Keys and values that alternate."""
    if len(items) % 2:
        raise LoadError("damaged file: a key without a value")
    return [(_key(k), v) for k, v in zip(items[::2], items[1::2], strict=True)]


def _key(key: Any) -> Any:
    """A key whose hash takes no time; LoadError for another one."""
    todo, seen = [key], 0
    while todo:
        part, seen = todo.pop(), seen + 1
        if isinstance(part, tuple):
            todo += part
        if seen + len(todo) > LONGEST_KEY:
            raise LoadError("damaged file: a key of too many parts")
    return key


def _blanks(value: Any) -> Iterable[Blank]:
    """The blanks among arguments, and in tuples among them."""
    todo, seen = [value], set()
    while todo:
        part = todo.pop()
        if isinstance(part, Blank):
            yield part
        elif isinstance(part, tuple) and id(part) not in seen:
            seen.add(id(part))
            todo += part


def refusals(obj: Any) -> list[tuple[str, str]]:
    """What could not be built in an object, and where it stands: `('torch.nn.Linear', "['model']")`."""
    todo: list[tuple[str, Any]] = [("", obj)]
    found, seen = [], set()
    while todo:
        path, part = todo.pop()
        if isinstance(part, (Blank, Named)):
            found += [(part.name, path)] if part.name is not None else []
            continue
        if id(part) in seen or isinstance(part, type):
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            inner = [(f"{path}[{k!r}]" if isinstance(k, (str, int)) else f"{path}[...]", v) for k, v in part.items()]
            inner += [(f"{path} key", k) for k in part if not isinstance(k, (str, int))]
        elif isinstance(part, (list, tuple)):
            inner = [(f"{path}[{i}]", v) for i, v in enumerate(part)]
        elif isinstance(part, (set, frozenset)):
            inner = [(f"{path} item", v) for v in part]
        else:
            inner = [(f"{path}.{name}", v) for name, v in getattr(part, "__dict__", {}).items()]
        todo += reversed(inner)
    return found


#: what each instruction does to the machine `m`, `a` being the instruction's argument
STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda m, a: None, "FRAME": lambda m, a: None,
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
                     "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
                     "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), lambda m, a: m.push(a)),
    "NONE": lambda m, a: m.push(None), "NEWTRUE": lambda m, a: m.push(True), "NEWFALSE": lambda m, a: m.push(False),
    "MARK": Machine.mark, "POP": Machine.pop, "POP_MARK": Machine.pop_mark,
    "DUP": lambda m, a: m.push(m._stack[-1]),
    "EMPTY_LIST": lambda m, a: m.push([]), "EMPTY_DICT": lambda m, a: m.push({}),
    "EMPTY_SET": lambda m, a: m.push(set()), "EMPTY_TUPLE": lambda m, a: m.push(()),
    "LIST": lambda m, a: m.push(m.marked()), "DICT": lambda m, a: m.push(dict(pairs(m.marked()))),
    "TUPLE": lambda m, a: m.push(tuple(m.marked())), "FROZENSET": lambda m, a: m.push(frozenset(map(_key, m.marked()))),
    **{f"TUPLE{n}": lambda m, a, n=n: m.push(tuple(m.take(n))) for n in (1, 2, 3)},  # type: ignore[misc]
    "APPEND": lambda m, a: m.extend(m.take(1)), "APPENDS": lambda m, a: m.extend(m.marked()),
    "SETITEM": lambda m, a: m.update(m.take(2)), "SETITEMS": lambda m, a: m.update(m.marked()),
    "ADDITEMS": lambda m, a: m.fill(m.marked(), (set,), lambda s, item: s.add(_key(item))),
    "GLOBAL": lambda m, a: m.named(*a.split(" ", 1)),
    "STACK_GLOBAL": lambda m, a: m.named(*_of_text(*m.take(2))),
    "INST": lambda m, a: m.instance(*a.split(" ", 1)),
    "REDUCE": lambda m, a: m.call(*m.take(2)), "NEWOBJ": lambda m, a: m.new(*m.take(2)), "BUILD": Machine.build,
    "PERSID": lambda m, a: m.push(m._persistent(a)), "BINPERSID": lambda m, a: m.push(m._persistent(m._stack.pop())),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.recall)}

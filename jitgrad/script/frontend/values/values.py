"""Values of the evaluator: what a Python variable may hold while a script is compiled.

A plain Python object stands for itself (static); a tuple is a Python tuple of values. Run-time values are:

    SymTensor   a reference: storage and view path; read when an op consumes it
    Number      a bool, int, float, or number of any kind, as a graph value or a size
    Text        a string by what it is made of, strings and run-time values; RunText, one as a graph value
    Union       one of several static objects, or one run-time value: a tag decides (None or a tensor, ...)
    SymList, SymDict   containers made by the script; items live in the heap: a tuple, a dict, or (a list whose length
                is known at run time) RunItems
    Instance    an object made by the script; attributes live in the heap
    Function    a function or lambda defined inside the script
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from jitgrad.script.frontend.state.context import NUMBERS
from jitgrad.script.frontend.state.paths import Path
from jitgrad.script.frontend.values.heap import Storage, SymTensor
from jitgrad.script.frontend.values.symnumbers import TYPES, Number, guarded_int, size_number
from jitgrad.script.graph.ir import Value

if TYPE_CHECKING:
    from jitgrad.script.frontend.source.source import Source
    from jitgrad.script.frontend.state.context import Context
    from jitgrad.script.frontend.state.frames import Frame
    from jitgrad.script.frontend.templates.template import Template

__all__ = [
    "HELD",
    "THROWN",
    "TYPES",
    "UNBOUND",
    "Borrowed",
    "Boxed",
    "Container",
    "Entry",
    "Function",
    "Instance",
    "Iterable",
    "Method",
    "Number",
    "Part",
    "Path",
    "Pool",
    "Range",
    "RunItems",
    "RunPairs",
    "RunText",
    "Storage",
    "Super",
    "SymDict",
    "SymList",
    "SymTensor",
    "SymTuple",
    "Tail",
    "TensorMap",
    "Text",
    "Union",
    "guarded_int",
    "is_entry",
    "is_held",
    "refers",
    "sequence",
    "size_number",
]


class _Unbound:
    """The content of a variable that was not assigned."""

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = _Unbound()


class _Thrown:
    """What a function returns that an exception leaves, on its way to a handler in another function."""

    def __repr__(self) -> str:
        return "<thrown>"


THROWN = _Thrown()


class Union:
    """One of several static objects or a run-time value.

    The tag is k for `statics[k]`; the run-time value, if there is one, has tag `len(statics)`. Its leaves are Optional
    graph values, absent under every other tag. With one static object and at least one leaf whose own type is not
    Optional, there is no tag: presence is `opt.has` of that leaf. `copied`: the run-time value is a copy of an object
    that something else refers to, so it is not written.
    """

    __slots__ = ("copied", "inner", "leaves", "statics", "tag")

    def __init__(self, statics: tuple[Any, ...], inner: Template | None, tag: Value | None,
                 leaves: tuple[Value, ...], copied: bool = False):
        self.statics, self.inner, self.tag, self.leaves, self.copied = statics, inner, tag, leaves, copied

    def __repr__(self) -> str:
        return f"<one of {self.statics} {self.inner or ''}>"


class Entry(NamedTuple):
    """Where a container is that lives in a pool: the pool, and its place there."""

    pool: Pool
    place: Value


class Container:
    """A list, dict or object of the script; its content is in the state under the object itself.

    Attributes:
        source: where it is found outside, if it was given; else None.
        entry: its place in a pool; its content is there then, and this object is one of many references to it.
        site: the expression that made it, as a key that other evaluations have too.
        number: containers made later have higher ones.
    """

    __slots__ = ("entry", "number", "site", "source")

    def __init__(self, source: Any = None):
        self.source = source
        self.entry: Entry | None = None
        self.site: Any = None
        self.number = next(NUMBERS)


class SymList(Container):
    """A list."""

    __slots__ = ()


class Pool(SymList):
    """The containers that some expressions make, as a list of run-time length of what they hold (`pools.py`).

    Attributes:
        initial: what it holds when the script is entered: nothing.
        prototype: an object of the containers' class.
    """

    __slots__ = ("initial", "prototype")

    def __init__(self) -> None:
        super().__init__("pool")
        self.initial: RunItems = None  # type: ignore[assignment]
        self.prototype: Any = None


class SymTuple(SymList):
    """A tuple that the script was given with any length, or a part of it: it holds RunItems, which stay."""

    __slots__ = ()


class RunItems:
    """What a list holds whose length is known at run time: a graph list per leaf of an element.

    Attributes:
        elem: the template of an element; sizes in `Context.open` may differ per element.
        leaves: the graph lists.
    """

    __slots__ = ("elem", "leaves")

    def __init__(self, elem: Template, leaves: tuple[Value, ...]):
        self.elem, self.leaves = elem, leaves


class Tail(tuple[Any, ...]):
    """The content of a list whose items at entry were not read: what was appended to them."""

    __slots__ = ()


class Part(enum.Enum):
    """The two lists of a `RunPairs`."""

    KEYS = "keys"
    VALUES = "values"


class RunPairs(dict[Any, Any]):
    """What a dict holds whose keys are known at run time: a SymList of its keys and one of its values, by `Part`."""

    __slots__ = ()


class SymDict(Container):
    """A dict; it holds a dict, or RunPairs."""

    __slots__ = ()


class OwnDict(SymDict):
    """A dict of another class that was given."""

    __slots__ = ("cls",)

    def __init__(self, source: Any, cls: type):
        super().__init__(source)
        self.cls = cls


class TensorMap:
    """A dict that the script did not make, keyed by tensors; its items are found one by one (`mappings.py`)."""

    __slots__ = ("real", "source")

    def __init__(self, real: dict[Any, Any], source: Any):
        self.real, self.source = real, source


class Instance(Container):
    """An object made by the script: its class; it holds a dict of its attributes."""

    __slots__ = ("cls",)

    def __init__(self, cls: type):
        super().__init__()
        self.cls = cls


class Attributes(NamedTuple):
    """The `__dict__` of an object that the script made."""

    of: Instance


class Boxed(Instance):
    """A value that a name is beside values of other types: one of several objects, which holds it as `value`.

    Values of one sort have boxes of one class, so that these are objects of a loop, or of both sides of a branch.
    """

    __slots__ = ()

    def __init__(self, sort: str):
        super().__init__(_SORTS.setdefault(sort, type(sort, (), {})))


_SORTS: dict[str, type] = {}


class Borrowed:
    """An object of the caller of which the class is assumed, and what is read of it: `real` is the first call's."""

    __slots__ = ("real", "source")

    def __init__(self, real: Any, source: Any):
        self.real, self.source = real, source


#: what has a content in the state
HELD = (Container,)


def is_held(value: Any) -> TypeGuard[Container]:
    """Whether a value is a container whose content is in the state: no entry of a pool, which is a number there."""
    return isinstance(value, Container) and value.entry is None


def refers(value: Any) -> TypeGuard[SymTensor | Container]:
    """Whether a value is a reference to something of which the content is in the state."""
    return isinstance(value, SymTensor) or is_held(value)


def is_entry(value: Any) -> TypeGuard[Container]:
    """Whether a value is a container that lives in a pool."""
    return isinstance(value, Container) and value.entry is not None


class Text:
    """A string with run-time parts: strings, and (value, conversion, format) of numbers, tensors and RunTexts
    (strings.py)."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Any]):
        self.parts = parts


class RunText:
    """A string of the run, as a graph value (`containers/texts.py`)."""

    __slots__ = ("value",)

    def __init__(self, value: Value):
        self.value = value


class Function:
    """A function or lambda defined in the script: source, the frame it closes over, default values."""

    __slots__ = ("defaults", "frame", "kw_defaults", "name", "node", "source")

    def __init__(self, node: ast.FunctionDef | ast.Lambda, source: Source, frame: Frame, defaults: tuple[Any, ...],
                 kw_defaults: dict[str, Any]):
        self.node, self.source, self.frame = node, source, frame
        self.defaults, self.kw_defaults = defaults, kw_defaults
        self.name = getattr(node, "name", "<lambda>")


class Method:
    """A method of a script-made value or of the evaluator, bound: `call(cx, args, kwargs)`."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Any):
        self.name, self.call = name, call


class ExceptionValue:
    """An exception that the script makes: class and arguments. `unknown`: why nobody can tell which one it is.

    `made`: the object that an `__init__` written in Python has made of it. `changed`: attributes of it were set.
    """

    __slots__ = ("args", "changed", "cls", "made", "unknown")

    def __init__(self, cls: type[BaseException], args: tuple[Any, ...], unknown: str = ""):
        self.cls, self.args, self.unknown = cls, args, unknown
        self.made: Instance | None = None
        self.changed = False


class Super:
    """`super()` inside a method."""

    __slots__ = ("instance", "owner")

    def __init__(self, owner: type, instance: Any):
        self.owner, self.instance = owner, instance


class Range:
    """`range` with a bound known at run time."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any):
        self.start, self.stop, self.step = start, stop, step


class Iterable:
    """What a `for` goes over.

    Attributes:
        length: int, or a Number where that is known only at run time.
        item: `(context, k) -> value`, k an int or a Number in [0, length).
        unrolled: the items are separate objects (a tuple, a list, modules), so that each gets a body of its own.
        now: `(context) -> length` by now, for what may change while a loop goes over it.
    """

    __slots__ = ("item", "length", "now", "unrolled")

    def __init__(self, length: Any, item: Callable[[Context, Any], Any], unrolled: bool,
                 now: Callable[[Context], Any] | None = None):
        self.length, self.item, self.unrolled = length, item, unrolled
        self.now = now or (lambda _: length)


def sequence(items: Sequence[Any]) -> Iterable:
    """An iterable of separate objects."""
    return Iterable(len(items), lambda cx, k: items[k], True)

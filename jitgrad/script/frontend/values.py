"""Values of the evaluator: what a Python variable may hold while a script is compiled.

A plain Python object stands for itself (static); a tuple is a Python tuple of values. Run-time values are:

    SymTensor   a reference: storage and view path; read when an op consumes it
    Number      a bool, int, float, or number of any kind, as a graph value or a size
    Union       one of several static objects, or one run-time value: a tag decides (None or a tensor, ...)
    SymList, SymDict   containers made by the script; items live in the heap: a tuple, a dict, or (a list whose length
                only the run knows) RunItems
    Instance    an object made by the script; attributes live in the heap
    Function    a function or lambda defined inside the script
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jitgrad.dims import Dim, Size
from jitgrad.dtypes import dtype
from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.ops.backend import SymNumber
from jitgrad.ops.tensorbase import Size as Shape
from jitgrad.ops.tensorbase import TensorBase
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TensorType, Type, short_name
from jitgrad.script.frontend.context import Context, current
from jitgrad.script.ir import Block, Value

if TYPE_CHECKING:
    from jitgrad.script.frontend.frames import Frame
    from jitgrad.script.frontend.source import Source
    from jitgrad.script.frontend.templates import Template


class _Unbound:
    """The content of a variable that was not assigned."""

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = _Unbound()

Path = tuple[tuple[str, Mapping[str, Any]], ...]


class Storage:
    """The memory behind tensors. Its current value is in the state, under the storage itself.

    Attributes:
        type: of the whole storage.
        input: the number of the graph input whose memory it is, or -1.
        alias: why it may be the same memory as another one, or "" (writing is refused then).
        requires_grad: a leaf that asks for a gradient.
        retains_grad: no leaf, but backward fills its `.grad` all the same.
        root: for a leaf that the script made, the value to which gradients lead.
        ordered: whether eager's memory is in row order; a pointwise result keeps the order of a permuted operand, and
            then a reshape of it copies.
        block: the block in which the script made it, if it did.
        was_leaf: a branch, loop or list brought it here, and it may be a leaf: its `.grad` is not known.
        origin: for an item of a list, which of the caller's tensors it is, if any (`origins.py`).
        unknown: it may be one of them, and nothing says which.
    """

    __slots__ = ("alias", "block", "input", "ordered", "origin", "requires_grad", "retains_grad", "root", "type",
                 "unknown", "was_leaf")

    def __init__(self, type_: TensorType, input_: int = -1, alias: str = "", requires_grad: bool = False):
        self.type, self.input, self.alias, self.requires_grad = type_, input_, alias, requires_grad
        self.ordered = True
        self.retains_grad = False
        self.root: Value | None = None
        self.block: Block | None = None
        self.was_leaf = False
        self.origin: tuple[Value, ...] = ()
        self.unknown = False


class SymTensor(TensorBase):
    """A tensor of the script: a view of a storage."""

    __slots__ = ("_type", "copied", "path", "storage")

    def __init__(self, storage: Storage, path: Path, type_: TensorType, copied: bool = False):
        self.storage, self.path, self._type = storage, path, type_
        self.copied = copied  # a reshape that eager may have to copy: not writable

    @property
    def type_(self) -> TensorType:
        """The tensor's type, sizes canonical."""
        sizes = current().sizes
        if sizes.changed:
            canonical = sizes.canonical_type(self._type)
            assert isinstance(canonical, TensorType)
            self._type = canonical
        return self._type

    @property
    def shape(self) -> Any:
        sizes: Any = [d if isinstance(d, int) else size_number(d) for d in self.type_.dims]
        return Shape(sizes)

    @property
    def dtype(self) -> dtype:
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return len(self._type.dims)

    @property
    def requires_grad(self) -> bool:
        from jitgrad.script.frontend.heap import current_value

        context = current()
        if any(op == "detach" for op, _ in self.path):
            return False
        return self.dtype.is_floating_point and context.has_history(current_value(context, self.storage))

    @property
    def is_leaf(self) -> bool:
        return not self.requires_grad or (not self.path and self.storage.requires_grad)

    def detach(self) -> SymTensor:
        """The same memory without history."""
        from jitgrad.script.frontend.heap import view

        return view(current(), self, "detach", {}, self.type_)

    def _refused(self, what: str) -> UnsupportedCall:
        return UnsupportedCall(f"`{what}` of a tensor of a script", current().span(),
                               hint="do it outside the script")

    def requires_grad_(self, requires_grad: bool = True) -> SymTensor:
        """Make a tensor that the script made a leaf."""
        from jitgrad.script.frontend.heap import require_grad

        if self.requires_grad and not self.is_leaf:
            if not requires_grad:
                raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                                   "computed variable in a subgraph that doesn't require differentiation use "
                                   "var_no_grad = var.detach().")
            return self
        if not self.dtype.is_floating_point:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if requires_grad is not (self.requires_grad and self.is_leaf):
            return require_grad(current(), self, requires_grad)
        return self

    def numpy(self, *, force: bool = False) -> Any:
        """Refused."""
        raise UnsupportedCall("`numpy()` of a tensor of a script", current().span(),
                              hint="use tensor operations, or mark the function that needs NumPy with "
                                   "`@jitgrad.ignore`")

    def tolist(self) -> Any:
        """Refused here: `attributes.py` makes the list."""
        raise self._refused("tolist")

    def is_contiguous(self) -> bool:
        """Whether eager's memory is in row order. Refused where views of an argument decide it."""
        from jitgrad.script.frontend.heap import keeps_order

        if self.storage.input >= 0 and not self.path:
            return bool(current().inputs.contiguous(self.storage))
        if self.storage.input < 0 and not self.path:
            if not self.storage.ordered and self.storage.alias:
                raise self._refused("is_contiguous")  # an item of a list: which, only the run knows
            return self.storage.ordered
        if not keeps_order(self) or not self._in_order():
            raise self._refused("is_contiguous")
        return self.storage.input < 0 or bool(current().inputs.contiguous(self.storage))

    def _in_order(self) -> bool:
        """For `contiguous`: whether the views on the way keep the order; what a caller passes counts as in order."""
        for op, attrs in self.path:
            leading = attrs.get("axis") == 0 and attrs.get("step", 1) == 1
            if op not in ("reshape", "unsqueeze", "squeeze", "detach") and not (op in ("select", "slice") and leading):
                return False
        return True

    def __repr__(self) -> str:
        return f"<tensor {self._type}>"

    __hash__ = object.__hash__


_KINDS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}
TYPES: dict[Type, type] = {BOOL: bool, INT: int, FLOAT: float}


class Number(SymNumber):
    """A run-time number.

    Attributes:
        number_type: bool, int, float; `object` where the kind is known only at run time.
        dim: the size that it is, for an int that is one.
        low, high: bounds low <= self < high of an int, None where unknown; high may be a size.
        denies: for a bool that is `not v`: v.
        span: for the length of a range, that is `max(span, 0)`: the span.
        maybe: for the bool that says whether a Union holds its run-time value: that union.
    """

    __slots__ = ("_value", "context", "denies", "dim", "high", "low", "maybe", "number_type", "size_equality",
                 "span")

    def __init__(self, context: Context, value: Value | None, number_type: type = int, dim: Dim | None = None):
        self.context, self._value, self.number_type, self.dim = context, value, number_type, dim
        self.low: int | None = None
        self.high: Size | None = None
        self.denies: Value | None = None
        self.maybe: Any = None
        self.span: Number | None = None
        self.size_equality = False

    @property
    def value(self) -> Value:
        """The graph value; for a size, `dim.value` in this scope."""
        if self._value is not None:
            return self._value
        assert self.dim is not None
        size = self.context.sizes.canonical(self.dim)
        if isinstance(size, int):
            return self.context.constant(size)
        key = ("size", size)
        found = self.context.recall(key)
        if found is None:
            found = self.context.remember(key, self.context.one("dim.value", dim=size))
        value: Value = found
        return value

    @property
    def type(self) -> Type:
        return _KINDS.get(self.number_type, NUMBER)

    @property
    def size(self) -> Size | None:
        """The size that this int is, if it is one."""
        return None if self.dim is None else self.context.sizes.canonical(self.dim)

    def __repr__(self) -> str:
        return f"<{self.number_type.__name__} {self.dim if self.dim is not None else self._value}>"

    def __str__(self) -> str:
        return str(self.dim) if self.dim is not None else repr(self)

    def _binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        from jitgrad.script.frontend import numbers

        if not isinstance(other, (bool, int, float, SymNumber)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return numbers.binary(self.context, op, a, b, checked=False)

    def _compare(self, op: str, other: Any) -> Any:
        from jitgrad.script.frontend import numbers

        if not isinstance(other, (bool, int, float, SymNumber)):
            return NotImplemented
        return numbers.compare(self.context, op, self, other)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("mod", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("truediv", other, True)

    def __pow__(self, other: Any) -> Any:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, True)

    def __neg__(self) -> Any:
        from jitgrad.script.frontend import numbers

        return numbers.unary(self.context, "neg", self)

    def __abs__(self) -> Any:
        from jitgrad.script.frontend import numbers

        return numbers.unary(self.context, "abs", self)

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("ge", other)

    def __eq__(self, other: object) -> Any:
        if other is self:
            return True
        result = self._compare("eq", other)
        if isinstance(result, Number):
            result.size_equality = True  # `shape == shape` asks whether they are known to be equal
        return result

    def __ne__(self, other: object) -> Any:
        if other is self:
            return False
        return self._compare("ne", other)

    __hash__ = object.__hash__

    def minimum(self, other: Any) -> Any:
        return self._extreme("min", other)

    def maximum(self, other: Any) -> Any:
        return self._extreme("max", other)

    def _extreme(self, fn: str, other: Any) -> Any:
        """The smaller or larger of two numbers; of two sizes a size, so that `x[1:]` and `x[:-1]` have equal ones."""
        from jitgrad.dims import call
        from jitgrad.script.frontend import numbers

        m, n = self.size, numbers.size_of(other)
        if m is None or n is None:
            return numbers.minimum(self.context, self, other, largest=fn == "max")
        if self.context.sizes.at_least(m - n, 0):
            return size_number(m if fn == "max" else n)
        if self.context.sizes.at_least(n - m, 0):
            return size_number(n if fn == "max" else m)
        return size_number(call(fn, m, n))

    def known_not_one(self) -> bool:
        from jitgrad.dims import is_not_one

        size = self.size
        return size is not None and is_not_one(size)

    def known_equal(self, other: Any) -> bool:
        if self is other:
            return True
        size = self.size
        theirs = other.size if isinstance(other, Number) else other
        return size is not None and theirs is not None and isinstance(theirs, (int, Dim)) and size == theirs

    def _not_static(self, what: str) -> NotStatic:
        return NotStatic(f"{what}, but this number is known only at run time", self.context.span(),
                         hint="use a literal or an attribute here, or compute the value outside the script")

    def __bool__(self) -> bool:
        if self.size_equality:
            return False
        raise self._not_static("a truth value is needed while compiling")

    def __index__(self) -> int:
        size = self.size
        if isinstance(size, int):
            return size
        return guarded_int(self)

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        raise self._not_static("a constant float is needed here")


def guarded_int(number: Number) -> int:
    """The value of a size at the first call, guarded: for places that need a constant. Raises NotStatic."""
    context, size = number.context, number.size
    hint = None if size is None else context.sizes.hint(size)
    if size is None or hint is None:
        raise number._not_static("a constant int is needed here")
    context.sizes.fix(size, hint)
    context.log.append(f"guarded the size {size} == {hint}")
    return hint


def size_number(size: Size) -> int | Number:
    """A size as an int or a Number."""
    context = current()
    size = context.sizes.canonical(size)
    if isinstance(size, int):
        return size
    number = Number(context, None, int, size)
    if context.sizes.at_least(size, 0):
        number.low = 0
    symbol = size.symbol
    if symbol is not None and symbol in context.ranges:
        number.low, number.high = context.ranges[symbol]
    return number


class Union:
    """One of several static objects or a run-time value.

    The tag is k for `statics[k]`; the run-time value, if there is one, has tag `len(statics)`. Its leaves are Optional
    graph values, absent under every other tag. With one static object and at least one leaf whose own type is not
    Optional, there is no tag: presence is `opt.has` of that leaf.
    """

    __slots__ = ("inner", "leaves", "statics", "tag")

    def __init__(self, statics: tuple[Any, ...], inner: Template | None, tag: Value | None,
                 leaves: tuple[Value, ...]):
        self.statics, self.inner, self.tag, self.leaves = statics, inner, tag, leaves

    def __repr__(self) -> str:
        return f"<one of {self.statics} {self.inner or ''}>"


class SymList:
    """A list made by the script; its items are in the state under the object itself."""

    __slots__ = ("source",)

    def __init__(self, source: Any = None):
        self.source = source


class SymTuple(SymList):
    """A tuple that the script was given with any length, or a part of it: it holds RunItems, which stay."""

    __slots__ = ()


class RunItems:
    """What a list holds whose length only the run knows: a graph list per leaf of an element.

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
    """What a dict holds whose keys only the run knows: a SymList of its keys and one of its values, by `Part`."""

    __slots__ = ()


class SymDict:
    """A dict made by the script; its items, or RunPairs, are in the state under the object itself."""

    __slots__ = ("source",)

    def __init__(self, source: Any = None):
        self.source = source


class TensorMap:
    """A dict that the script did not make, keyed by tensors; its items are found one by one (`mappings.py`)."""

    __slots__ = ("real", "source")

    def __init__(self, real: dict[Any, Any], source: Any):
        self.real, self.source = real, source


class Instance:
    """An object made by the script: its class; its attributes are in the state under the object itself."""

    __slots__ = ("cls", "source")

    def __init__(self, cls: type):
        self.cls = cls
        self.source: Any = None


class Borrowed:
    """An object of the caller of which the class is assumed, and what is read of it: `real` is the first call's."""

    __slots__ = ("real", "source")

    def __init__(self, real: Any, source: Any):
        self.real, self.source = real, source


#: containers whose content is in the state
HELD = (SymList, SymDict, Instance)


def class_of(value: Any) -> type:
    """The class of an object, made by the script or not."""
    if isinstance(value, Borrowed):
        return type(value.real)
    return value.cls if isinstance(value, Instance) else type(value)


class Text:
    """A string with run-time parts: strings, and (value, conversion, format) of numbers and tensors (strings.py)."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Any]):
        self.parts = parts


class Function:
    """A function or lambda defined in the script: source, the frame it closes over, default values."""

    __slots__ = ("defaults", "frame", "kw_defaults", "node", "source")

    def __init__(self, node: ast.FunctionDef | ast.Lambda, source: Source, frame: Frame, defaults: tuple[Any, ...],
                 kw_defaults: dict[str, Any]):
        self.node, self.source, self.frame = node, source, frame
        self.defaults, self.kw_defaults = defaults, kw_defaults


class Method:
    """A method of a script-made value or of the evaluator, bound: `call(cx, args, kwargs)`."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Any):
        self.name, self.call = name, call


class Range:
    """`range` with a bound known at run time."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any):
        self.start, self.stop, self.step = start, stop, step


def is_dynamic(value: Any) -> bool:
    """Whether `value` is or contains a run-time value."""
    if isinstance(value, (SymTensor, Number, Union, SymList, SymDict, TensorMap, Instance, Borrowed, Range, Text)):
        return True
    if isinstance(value, (tuple, list)):
        return any(is_dynamic(v) for v in value)
    if isinstance(value, dict):
        return any(is_dynamic(v) for v in value.values())
    if isinstance(value, slice):
        return is_dynamic(value.start) or is_dynamic(value.stop) or is_dynamic(value.step)
    return False


def tensor_word(type_: TensorType) -> str:
    """A tensor's type with the sizes of the first call: `f32[3, 4]`; `?` where only the run knows."""
    sizes = current().sizes
    hints = [sizes.hint(sizes.canonical(d)) for d in type_.dims]
    return f"{short_name(type_.dtype)}[{', '.join('?' if h is None else str(h) for h in hints)}]"


def type_word(value: Any) -> str:
    """What a value is, in the user's words: `tensor f32[N, 3]`, `int`, `None`, `str`."""
    if isinstance(value, SymTensor):
        return f"a tensor {tensor_word(value.type_)}"
    if isinstance(value, Number):
        return {bool: "a bool", int: "an int", float: "a float"}.get(value.number_type, "a number")
    if value is None:
        return "None"
    if value is UNBOUND:
        return "unbound"
    if isinstance(value, Union):
        parts = [type_word(s) for s in value.statics] + ([str(value.inner)] if value.inner is not None else [])
        return " or ".join(parts)
    if isinstance(value, SymList):
        return "a tuple" if isinstance(value, SymTuple) else "a list"
    if isinstance(value, (SymDict, TensorMap)):
        return "a dict"
    if isinstance(value, Range):
        return "a range"
    if isinstance(value, Text):
        return "a string with run-time parts"
    if isinstance(value, (Function, Method)):
        return "a function"
    name = class_of(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

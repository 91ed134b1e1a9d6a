"""Where the elements of a tensor are: strides, offsets, and addresses, which a script can only compare."""

from __future__ import annotations

from typing import Any

from jitgrad.classes import dataclass
from jitgrad.dims import Size, call, dim as dim_of, substitute, symbols
from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.ops.library.sizes import maximum, product
from jitgrad.ops.opdef import has_trait
from jitgrad.script.frontend.state import copies, layout
from jitgrad.script.frontend.state.context import LAYOUT, Context, Restart
from jitgrad.script.frontend.state.effects import raise_now
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.tensors import method
from jitgrad.script.frontend.values.values import SymTensor, size_number


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """The address of a tensor's first element. `offset`: how many elements after that of its memory."""

    tensor: SymTensor
    offset: Size


@method("stride")
def stride(context: Context, tensor: SymTensor, dim: Any = None) -> Any:
    """`x.stride()`, `x.stride(dim)`."""
    known, strides = _strides(context, tensor, "stride"), []
    if not tensor.path and layout.is_contiguous(context, tensor):  # an axis of nothing counts as one
        behind = [maximum(n, 1) for n in tensor.shape]
        strides = [product(behind[k + 1:]) for k in range(len(behind))]
    else:
        counted = {s: call("max", dim_of(s), 1) for n in known if not isinstance(n, int) for s in symbols(n)}
        strides = [n if isinstance(n, int) else size_number(substitute(n, counted)) for n in known]
    if dim is None:
        return tuple(strides)
    axis, n = static(context, dim, "the axis of a stride"), len(strides)
    if not -n <= axis < n:
        raise raise_now(context, IndexError, (
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {axis})",))
    return strides[axis]


@method("storage_offset")
def storage_offset(context: Context, tensor: SymTensor) -> Any:
    """`x.storage_offset()`, of memory that the script made."""
    if tensor.dtype.is_complex:
        raise _refused(context, "storage_offset", "a script has complex numbers as pairs")
    if tensor.storage.input >= 0:
        raise _refused(context, "storage_offset", "only the caller knows of which memory this tensor is a part")
    offset = _offset(context, tensor, "storage_offset")
    return offset if isinstance(offset, int) else size_number(offset)


@method("data_ptr")
def data_ptr(context: Context, tensor: SymTensor) -> Address:
    """`x.data_ptr()`, to be compared."""
    return Address(tensor, _offset(context, tensor, "data_ptr"))


def _strides(context: Context, tensor: SymTensor, what: str) -> tuple[Size, ...]:
    """Strides that eager's tensor surely has. An axis of size 1 may have any."""
    if tensor.dtype.is_complex:
        raise _refused(context, what, "a script has complex numbers as pairs")
    known = _known(context, tensor, what)
    dims = tensor.type_.dims
    if known is None or tensor.copied or (1 in dims and (tensor.path or tensor.storage.input >= 0)) or any(
            not layout.of(context).apart.keys().isdisjoint(symbols(s)) for s in known if not isinstance(s, int)):
        raise _refused(context, what, "where its elements are, sizes alone do not say")
    return known


def _known(context: Context, tensor: SymTensor, what: str) -> layout.Strides | None:
    """The strides that follow from sizes, and from how the caller's tensors lie; None where nothing says them."""
    found = layout.strides_of(context, tensor)
    if found is None and LAYOUT not in context.decisions:
        raise Restart(LAYOUT, f"`{what}` of a tensor: do those that it is made of lie in row order?")
    return found


def _offset(context: Context, tensor: SymTensor, what: str) -> Size:
    """How far from the first element of its memory a tensor's first element is."""
    offset: Size = 0
    seen = SymTensor(tensor.storage, (), tensor.storage.type)
    for k, (op, attrs) in enumerate(tensor.path):
        whole = has_trait(op, "lossless") or has_trait(op, "in_order")  # a view of all, from the first element on
        start = 0 if whole else attrs.get("index", attrs.get("start"))
        if start is None:
            raise _refused(context, what, f"it is a view by `{op}`")
        if start:
            seen = SymTensor(tensor.storage, tensor.path[:k], tensor.storage.type)
            strides = _known(context, seen, what)
            if strides is None:
                raise _refused(context, what, "where its elements are, sizes alone do not say")
            offset = offset + strides[attrs["axis"]] * start
    if tensor.copied:
        if LAYOUT not in context.decisions:
            raise Restart(LAYOUT, f"`{what}` of a reshape: is that a view or a copy?")
        raise _refused(context, what, "it may be a copy")
    return offset


def _refused(context: Context, what: str, why: str) -> UnsupportedCall:
    return UnsupportedCall(f"`{what}` of this tensor: {why}", context.span(), hint="ask for it outside the script")


@register(Address)
class AddressKind(Kind):
    """An address: what Python has as an int is known when the script runs, and only whether two are equal before."""

    dynamic = True
    rank = 4

    def class_of(self, obj: Address) -> type:
        return int

    def type_word(self, obj: Address) -> str:
        return "the address of a tensor"

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if op not in ("eq", "ne") or not (isinstance(a, Address) and isinstance(b, Address)):
            raise UnsupportedCall(f"comparison of {'an address' if op in ('eq', 'ne') else 'addresses by order'}",
                                  context.span(), hint="ask whether two addresses are equal")
        same = self._same(context, a, b)
        return numbers.negate(context, same) if op == "ne" else same

    def _same(self, context: Context, a: Address, b: Address) -> Any:
        one, other = a.tensor.storage, b.tensor.storage
        if one is other:
            return numbers.compare(context, "eq", *[v if isinstance(v, int) else size_number(v)
                                                    for v in (a.offset, b.offset)])
        for tensor in (a.tensor, b.tensor):
            copies.identify(context, tensor)
            if tensor.storage.alias:
                raise NotStatic("whether these are the same memory: a branch or a loop chose one of them",
                                context.span(), hint="keep a bool that says which one was chosen")
        if min(one.input, other.input) >= 0 and context.inputs.one_object(one, other) is not True:
            raise UnsupportedCall("whether two of the caller's tensors are in the same memory", context.span(),
                                  hint="ask whether they are the same tensor: `x is y`")
        return min(one.input, other.input) >= 0 and a.offset == b.offset

    def truth(self, context: Context, obj: Address) -> Any:
        return True

"""Tensors of a script: references to a storage, whose value is in the state, through a path of views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgrad.device import device as Device
from jitgrad.dtypes import dtype
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.tensorbase import Size as Shape
from jitgrad.ops.tensorbase import TensorBase
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.state.context import current
from jitgrad.script.frontend.values.symnumbers import size_number
from jitgrad.script.graph.ir import Block, Value

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
        made: what eager's `grad_fn` says of what it holds, "" if that is not certain; None if it may be a view of that.
        was_leaf: a branch, loop or list brought it here, and it may be a leaf: its `.grad` is not known.
        origin: for an item of a list, which of the caller's tensors it is, if any (`origins.py`).
        unknown: it may be one of them, and nothing says which.
        device: where eager would have it; None: made of numbers, where the script's other tensors are.
    """

    __slots__ = ("alias", "block", "device", "input", "made", "ordered", "origin", "requires_grad", "retains_grad",
                 "root", "type", "unknown", "was_leaf")

    def __init__(self, type_: TensorType, input_: int = -1, alias: str = "", requires_grad: bool = False):
        self.type, self.input, self.alias, self.requires_grad = type_, input_, alias, requires_grad
        self.ordered = True
        self.made: str | None = ""
        self.retains_grad = False
        self.root: Value | None = None
        self.block: Block | None = None
        self.was_leaf = False
        self.origin: tuple[Value, ...] = ()
        self.unknown = False
        self.device: Device | None = None


class SymTensor(TensorBase["SymTensor"]):
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
    def device(self) -> Device:
        """Where eager would have the tensor."""
        return self.storage.device or current().device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def requires_grad(self) -> bool:
        from jitgrad.script.frontend.state.heap import current_value

        context = current()
        if any(op == "detach" for op, _ in self.path):
            return False
        return self.dtype.is_floating_point and context.has_history(current_value(context, self.storage))

    @property
    def is_leaf(self) -> bool:
        return not self.requires_grad or (not self.path and self.storage.requires_grad)

    def detach(self) -> SymTensor:
        """The same memory without history."""
        from jitgrad.script.frontend.state.heap import view

        return view(current(), self, "detach", {}, self.type_)

    def _refused(self, what: str) -> UnsupportedCall:
        return UnsupportedCall(f"`{what}` of a tensor of a script", current().span(),
                               hint="do it outside the script")

    def requires_grad_(self, requires_grad: bool = True) -> SymTensor:
        """Make a tensor that the script made a leaf."""
        from jitgrad.script.frontend.state.heap import require_grad

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
        from jitgrad.script.frontend.state.heap import keeps_order

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
            if not has_trait(op, "in_order") and not (op in ("select", "slice") and leading):
                return False
        return True

    def __repr__(self) -> str:
        return f"<tensor {self._type}>"

    __hash__ = object.__hash__

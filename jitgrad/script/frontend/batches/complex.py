"""Complex tensors of a script: what is a tensor of reals to all but the library's functions.

The memory has the two parts of a number along a last axis, as eager's memory of complex numbers has. A complex tensor
is a reference to it with a mark at the end of its path, as an item of a batch is one: storages, types, branches, loops,
kernels, devices and files see real numbers. What is done with one is done to its parts (`ops/complex/pairs.py`), or,
by a view, to the memory. What refuses items of a batch refuses complex tensors.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import dtype
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import Batched, backend
from jitgrad.ops.batching.backend import BatchNamespace
from jitgrad.ops.complex.pairs import Pair, PairNamespace, interleaved
from jitgrad.ops.opdef import OPS, VIEW, OpDef
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.batches.items import item_of
from jitgrad.script.frontend.state import joined, layout
from jitgrad.script.frontend.state.context import current
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.heap import SymTensor


class SymComplex(Batched, SymTensor):
    """A complex tensor of the script."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The memory: a real tensor with one axis more, of size 2."""
        return SymTensor(self.storage, self.path[:-1], self._type, self.copied, self.unrecorded)

    @property
    def level(self) -> Any:
        """What the mark is."""
        return COMPLEX

    @property
    def shape(self) -> Any:
        """The sizes, without that of the parts."""
        found = super().shape
        return type(found)(found[:-1])

    @property
    def ndim(self) -> int:
        """The rank, without the axis of the parts."""
        return len(self._type.dims) - 1

    @property
    def dtype(self) -> dtype:
        """complex64 or complex128."""
        return self._type.dtype.to_complex()

    @property
    def requires_grad(self) -> bool:
        """Whether the memory has a history, or is a leaf."""
        return bool(self.value.requires_grad)

    def detach(self) -> Any:
        """The same memory without history."""
        return complex_of(self.value.detach())

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the numbers lie in memory in order."""
        return bool(self.value.is_contiguous())

    def _in_order(self) -> bool:
        return bool(self.value._in_order())

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Refused: leaves are made outside."""
        raise self._refused("requires_grad_")

    def item(self) -> Any:
        """Refused: a script has no complex numbers but tensors."""
        raise UnsupportedCall("a complex number that a script reads from a tensor", current().span(),
                              hint="take `.real` and `.imag` first")

    def __bool__(self) -> bool:
        raise UnsupportedCall("a decision by a complex number", current().span(),
                              hint="ask of `.real`, `.imag` or `abs()`")


class _Mark:
    """What the mark of a complex tensor names, in place of a vmap's backend."""

    reference = SymComplex
    over = False

    @property
    def around(self) -> Any:
        return backend()

    @staticmethod
    def spread(x: Any) -> Any:
        """The memory."""
        return x.value

    @staticmethod
    def item_of(value: Any) -> Any:
        """The complex tensor of memory."""
        return complex_of(value)

    def __repr__(self) -> str:
        return "complex"


COMPLEX: Any = _Mark()


def complex_of(whole: SymTensor) -> SymTensor:
    """The complex tensor whose parts lie along the last axis of a real one."""
    made: SymTensor = item_of(whole, COMPLEX)
    return made


class Conjugates:
    """What a backend does for conjugates, which eager code shows in what they are the conjugate of, and the other way
    round: who could see that is refused."""

    def conjugate(self: Any, tensor: SymComplex) -> Any:
        """The conjugate of a complex tensor, in memory of its own."""
        made = self.apply(OPS["conj"], (tensor,), {})
        made.storage.conjugations = tensor.storage.conjugations + 1
        layout.of(self.context).conjugates.setdefault(tensor.storage, []).append(made.storage)
        return made

    @staticmethod
    def is_conjugate(tensor: SymComplex) -> bool:
        """Whether it is one of what is none itself."""
        return bool(tensor.storage.conjugations % 2)


def apply(run: Any, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """An op on complex tensors, or one that makes them, by the ops on reals of the backend `run`."""
    if op.check is not None:
        types = [_type(x) for x in operands]
        op.check(run.checker, *types, **{k: run.attribute(a) for k, a in attrs.items()})
    F = PairNamespace(BatchNamespace(run))
    found = F.apply(op, tuple([_pair(F, x, op) if isinstance(x, SymComplex) else x for x in operands]), attrs)
    return tuple([_reference(F, y) for y in found]) if isinstance(found, tuple) else _reference(F, found)


def _pair(F: PairNamespace, x: SymComplex, op: OpDef) -> Pair:
    """The parts of an operand: what its memory was made of, where that is known and it is read as a whole."""
    context, whole = current(), x.value
    made = None if op.kind is VIEW else joined.parts(context, heap.read(context, whole))
    if made is None:
        return F.of_whole(whole)
    re, im = [heap.new_tensor(context, v) for v in made]
    re.storage.device = im.storage.device = whole.storage.device
    return Pair(F, re, im, whole)


def _type(x: Any) -> Any:
    return TensorType(x.dtype, x.type_.dims[:-1]) if isinstance(x, SymComplex) else x.type_


def _reference(F: PairNamespace, y: Any) -> Any:
    if not isinstance(y, Pair):
        return y
    whole = interleaved(F, y)
    if y.whole is None:
        context = current()
        re, im = [heap.read(context, part) for part in (y.re, y.im)]
        joined.join(context, heap.read(context, whole), (re, im))
    return complex_of(whole)

"""What eager and script tensors have in common: facts, and methods whose arguments are not those of the function.

A subclass has `shape`, `dtype`, `ndim`, `device` and `is_cuda`, and whatever belongs to its execution: gradients,
memory, printing.
"""

import builtins
from collections.abc import Callable
from typing import Any, Concatenate

from jitgrad.dtypes import dtype as dtype_, strided
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library import compare, pointwise, random, reduce
from jitgrad.ops.library.core import apply, named, write
from jitgrad.ops.library.elements import parts
from jitgrad.ops.library.keywords import complete_methods
from jitgrad.ops.library.shapes import rearrange, shape
from jitgrad.ops.library.sizes import Size as Size, flag, product
from jitgrad.ops.operators import Operators

__library__ = True


def _listed(args: tuple[Any, ...]) -> Any:
    """`x.permute(0, 1)` and `x.permute((0, 1))` as a tuple. TypeError where there is neither."""
    if not args:
        raise TypeError("sizes, or axes, are needed: ints, or a tuple of them")
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _one_by_one(fn: Callable[..., Any]) -> Callable[Concatenate[AnyTensor[Tensor], ...], Tensor]:
    """`fn(x, sizes)` as a method that takes sizes, or axes, one by one or in a tuple."""
    def method(self: Any, *given: Any) -> Any:
        return fn(self, _listed(given))

    return named(method, fn.__name__, fn.__doc__ or "")


@complete_methods
class TensorBase(Operators[Tensor]):
    """The torch-like interface of a tensor."""

    __slots__ = ()
    # --- facts -----------------------------------------------------------------------------------------------------

    requires_grad_: Any
    detach: Any
    is_contiguous: Any
    T = property(shape.reversed_axes)
    mT = property(shape.matrix_transpose)
    H = property(parts.hermitian)
    mH = property(parts.adjoint)
    real = property(parts.real, lambda self, value: parts.real(self).copy_(value))
    imag = property(parts.imag, lambda self, value: parts.imag(self).copy_(value))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.dtype.itemsize * product(self.shape))
    is_cpu = property(lambda self: not self.is_cuda)
    layout = property(lambda self: strided)
    # what tensors here never are
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_meta = is_mkldnn = property(lambda self: False)
    is_mps = is_mtia = is_xpu = is_xla = is_ipu = is_maia = is_vulkan = is_sparse

    def dim(self: Any) -> builtins.int:
        """The rank."""
        return self.ndim

    ndimension = dense_dim = dim

    def sparse_dim(self: Any) -> builtins.int:
        """0: no axis is that of a sparse tensor's indices."""
        return 0

    def is_distributed(self: Any) -> builtins.bool:
        """False."""
        return False

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
        """Itself, or with a dtype converted."""
        if dtype is not None and not isinstance(dtype, dtype_):
            raise TypeError(f"to_dense(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        if masked_grad is not None:
            flag(masked_grad, "masked_grad")
        return self if dtype is None else self.to(dtype)

    def element_size(self: Any) -> builtins.int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def get_device(self: Any) -> builtins.int:
        """-1, the CPU."""
        return -1

    # --- arguments that are not those of the function ---------------------------------------------------------------

    reshape = _one_by_one(shape.reshape)
    permute = _one_by_one(shape.permute)
    expand, broadcast_to = _one_by_one(shape.expand), _one_by_one(shape.broadcast_to)
    repeat = _one_by_one(shape.repeat)
    tile = _one_by_one(shape.tile)
    flip = _one_by_one(rearrange.flip)

    def view(self: Any, *shape_: Any) -> Tensor:
        """`reshape`; with a dtype the same bytes as numbers of that, in the same memory, without history."""
        if len(shape_) == 1 and isinstance(shape_[0], dtype_):
            return backend().reinterpret(self, shape_[0])
        return shape.reshape(self, _listed(shape_))

    def module_load(self: Any, other: Any, assign: bool = False) -> Any:
        """What `load_state_dict` puts in the tensor's place: `other` if `assign`, else the tensor with its numbers."""
        return other.detach() if assign else self.copy_(other).detach()

    def softmax(self: Any, dim: int, dtype: Any = None) -> Tensor:
        """exp(x) / sum(exp(x)) along dim."""
        return reduce.softmax(self, dim, dtype)

    def where(self: Any, condition: Any, other: Any) -> Tensor:
        """self where the condition holds, else other."""
        return compare.where(condition, self, other)

    def polygamma(self: Any, n: int) -> Tensor:
        """The n-th derivative of digamma."""
        return pointwise.polygamma(n, self)

    def polygamma_(self: Any, n: int) -> Tensor:
        """In-place version of `polygamma`."""
        since = backend().mark()
        return write(self, pointwise.polygamma(n, self), since)

    def normal_(self: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
        """Overwrite with normal numbers."""
        return random.normal_(self, mean, std, generator=generator)

    def _in_order(self: Any) -> builtins.bool:
        """Whether the elements lie in memory in their order, as far as is known."""
        return self.is_contiguous()

    def contiguous(self: Any, memory_format: Any = None) -> Tensor:
        """Itself where its memory is in order already, else a copy that is."""
        return self if self._in_order() else apply("contiguous", self)

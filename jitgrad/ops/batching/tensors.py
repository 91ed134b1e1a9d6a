"""What the items of a batch are as tensors, for eager and for scripts."""

from typing import Any

from jitgrad.ops.backend import AnyTensor, Batched
from jitgrad.ops.batching.backend import BRANCH, ESCAPED, ITEM
from jitgrad.ops.tensorbase import Size

BACKWARD = ("backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms.")
REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of "
    "a function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch "
    "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead.")
DATA = "accessing `data` under vmap transform is not allowed"
NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"


class Item(Batched):
    """The facts of one item; a class of tensors goes behind it."""

    __slots__ = ()

    _sizes, _is_empty = AnyTensor._sizes, AnyTensor._is_empty  # not those of the class behind it

    @property
    def shape(self) -> Any:
        """The sizes of an item."""
        return Size(self.value.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of an item's axes."""
        rank: int = self.value.ndim
        return rank - 1

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.value.dtype

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self.value.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return bool(self.value.is_cuda)

    def detach(self) -> Any:
        """The same memory without history."""
        return self.level.item_of(self.value.detach())

    def is_contiguous(self, memory_format: Any = None) -> Any:
        """Whether the elements of all items lie in memory in order."""
        return self.value.is_contiguous()

    def item(self) -> Any:
        """RuntimeError: there is one number per item."""
        raise RuntimeError(ESCAPED if self.level.over else ITEM)

    def __bool__(self) -> bool:
        raise RuntimeError(ESCAPED if self.level.over else BRANCH)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """RuntimeError: leaves are made outside."""
        raise RuntimeError(REQUIRES_GRAD)

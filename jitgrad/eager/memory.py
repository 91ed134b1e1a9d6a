"""What tensors tell of their memory and do with it: strided views, other memory, Python functions of each element.

A script has none of these: what is computed there has no layout before it is compiled.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jitgrad
from jitgrad.eager import inplace, record, shared
from jitgrad.eager.arrays.arrays import library
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import TapedArray, storage_of, whole_of
from jitgrad.eager.construct import wrap
from jitgrad.ops import OPS
from jitgrad.ops.library.core import class_word, write
from jitgrad.ops.library.keywords import complete_methods


def _root(x: TapedArray) -> TapedArray:
    """The tensor whose memory this is a part of."""
    mirrors = storage_of(x).mirrors
    if mirrors is not None and (whole := mirrors.whole(x._data)) is not None:
        root: TapedArray = wrap(whole)
        root._storage = x._storage
        return root
    root = x._base if x._base is not None else x._origin if x._origin is not None else x
    whole = whole_of(root)
    if whole.dtype != root._data.dtype and whole.flags.c_contiguous:  # of which it is seen in another type
        whole = whole.reshape(-1).view(root._data.dtype)
    if whole is not root._data and whole.dtype == root._data.dtype:  # of which it is a detached part
        root, part = wrap(whole), root
        root._storage = part._storage
    return root


def _in_row_order(root: TapedArray) -> TapedArray:
    """A tensor with its axes as they lie in memory, the largest stride first. RuntimeError where there are gaps."""
    strides = root._data.strides
    if not root._data.flags.c_contiguous:
        order = sorted(range(len(strides)), key=lambda a: -strides[a])
        root = record.apply(OPS["permute"], (root,), {"axes": tuple(order)})
    if not root._data.flags.c_contiguous:
        raise RuntimeError("the elements of this tensor's memory do not lie in order: use contiguous() first")
    return root


def sizes(function: str, argument: str, given: Any) -> tuple[int, ...]:
    """A tuple of ints. TypeError for anything else."""
    if not isinstance(given, (tuple, list)):
        raise TypeError(f"{function}(): argument '{argument}' must be tuple of ints, not {class_word(given)}")
    return tuple([int(n) for n in given])


def _require_no_negative(function: str, shape: tuple[int, ...]) -> None:
    """RuntimeError for a size below 0."""
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{function}: sizes must not be negative, got {list(shape)}")


def span(function: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """How many elements lie from a strided tensor's first to its last. RuntimeError for lengths that differ."""
    if len(shape) != len(strides):
        raise RuntimeError(f"{function}: dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
                           f"({len(strides)})")
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if all(shape) else 0


@complete_methods
class Memory(TapedArray):
    """Methods of eager tensors alone."""

    def stride(self: Any, dim: int | None = None) -> Any:
        """How many elements apart neighbours along each axis, or along one, are in memory."""
        array = self._data
        if not array.size and not any(array.strides):  # NumPy has none for nothing
            found = in_order(tuple([max(n, 1) for n in array.shape]))
        else:
            found = tuple([s // array.itemsize for s in array.strides])
        return found if dim is None else found[dim]

    def storage_offset(self: Any) -> int:
        """How many elements of the memory come before the first of this tensor."""
        array, root = self._data, _root(self)._data
        home = library(array)
        return (home.address(array) - home.address(root)) // array.itemsize  # type: ignore[no-any-return]

    def is_set_to(self: Any, tensor: Any) -> bool:
        """Whether the other has the same elements in the same memory."""
        home = library(self._data)
        return (type(tensor._data) is type(self._data) and self.shape == tensor.shape
                and home.address(self._data) == home.address(tensor._data)
                and self._data.strides == tensor._data.strides)

    def dim_order(self: Any, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The axes from that of the largest stride to that of the smallest."""
        strides = self._data.strides
        return tuple(sorted(range(len(strides)), key=lambda k: -strides[k]))

    def as_strided(self: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
        """A view of the memory: the element at offset + sum of index * stride. RuntimeError for one outside of it.

        Of a leaf that requires grad it is a view of the leaf: the rest of the memory is not what has its gradient.
        """
        root = _root(self)
        shape, strides = sizes("as_strided", "size", size), sizes("as_strided", "stride", stride)
        offset = self.storage_offset() if storage_offset is None else int(storage_offset)
        if len(shape) != len(strides):
            raise RuntimeError("mismatch in length of strides and shape")
        _require_no_negative("as_strided", shape)
        if any(s < 0 for s in strides):
            raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: "
                               f"{list(strides)}")
        need = offset + span("as_strided", shape, strides) if all(shape) else 0
        if need > root._data.size or offset < 0:
            item = root._data.itemsize
            raise RuntimeError(f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
                               f"and itemsize {item} requiring a storage size of {need * item} are out of bounds for "
                               f"storage of size {root._data.nbytes}")
        if mode.enabled and self is not root and self.is_leaf and self.requires_grad:
            start = self.storage_offset()
            if not self._data.flags.c_contiguous or offset < start or need > start + self._data.size:
                raise RuntimeError("as_strided: a leaf that requires grad has gradients of its own elements in order "
                                   "alone: make the view of the tensor whose memory it is a part of")
            root, offset = self, offset - start
        where = {"shape": shape, "strides": strides, "offset": offset}
        return record.apply(OPS["as_strided"], (_in_row_order(root),), where)

    def as_strided_(self: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
        """This tensor itself becomes `as_strided` of it."""
        return inplace.become(self, lambda: self.as_strided(size, stride, storage_offset))

    def as_strided_scatter(self: Any, src: Any, size: Sequence[int], stride: Sequence[int],
                           storage_offset: int | None = None) -> Any:
        """A copy with src written to `as_strided` of it."""
        copy = self.clone()
        place = copy.as_strided(size, stride, storage_offset)
        if place.shape != src.shape:
            raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
                               f"slice size = {list(place.shape)}")
        place.copy_(src)
        return copy

    def new_empty_strided(self: Any, size: Sequence[int], stride: Sequence[int], *, dtype: Any = None,
                          device: Any = None, requires_grad: bool = False) -> Any:
        """A tensor of these sizes and strides (zeros, so that runs repeat), in this one's dtype."""
        shape, strides = (sizes("new_empty_strided", "size", size), sizes("new_empty_strided", "stride", stride))
        need = span("new_empty_strided", shape, strides)
        made = self.new_zeros(need, dtype=dtype, device=device).as_strided(shape, strides).detach()
        return made.requires_grad_() if requires_grad else made

    def as_subclass(self: Any, cls: type) -> Any:
        """The same memory and history as a tensor of another class. TypeError for what is no class of tensors."""
        if not isinstance(cls, type) or not issubclass(cls, Memory):
            raise TypeError("cls must be a type that inherits from Tensor")
        made = wrap(self._data, cls)
        made._storage = storage_of(self)
        made._node, made._slot, made._needs = self._node, self._slot, self._needs
        made._base, made._path, made._seen, made._origin = self._base, self._path, self._seen, self._origin
        return made

    # --- other memory ----------------------------------------------------------------------------------------------

    def resize_(self: Any, *size: Any, memory_format: Any = None) -> Any:
        """Another size, in place: the first elements stay, new ones are zeros. RuntimeError where a gradient is."""
        if not size:
            raise TypeError('resize_() missing 1 required positional arguments: "size"')
        if self.requires_grad:
            raise RuntimeError("cannot resize variables that require grad")
        shape = sizes("resize_", "size", size[0] if isinstance(size[0], (tuple, list)) else size)
        _require_no_negative("resize_", shape)
        count, old = math.prod(shape), self._data
        xp = library(old).xp
        flat = old.reshape(-1) if old.flags.c_contiguous else old.ravel(order="K")  # in the order of the memory
        if count > flat.size:
            grown = xp.zeros(count, old.dtype)
            grown[:flat.size] = flat
            flat = grown
        self._data = flat[:count].reshape(shape)
        storage = storage_of(self)
        storage.version += 1
        storage.reshaped, storage.whole = True, None
        return self

    def resize_as_(self: Any, the_template: Any, *, memory_format: Any = None) -> Any:
        """`resize_` to another tensor's size."""
        return self.resize_(*the_template.shape)

    def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Any:
        """Take the memory of another tensor; without one, memory of no element."""
        if self.requires_grad and mode.enabled:
            raise RuntimeError("set_() of a tensor that requires grad: use it where gradients are off")
        self._base, self._origin, self._path, self._storage = None, None, (), None
        if source is None:
            self._data = self._data.reshape(-1)[:0].copy()
            return self
        if source.dtype is not self.dtype:
            raise RuntimeError("Could not set tensor of type "
                               f"{source.dtype.name} to a tensor of type {self.dtype.name}")
        part = source if size is None else source.as_strided(
            size, stride if stride is not None else in_order(sizes("set_", "size", size)), storage_offset)
        self._data, self._storage = part._data, storage_of(source)
        return self

    # --- other processes -------------------------------------------------------------------------------------------

    def share_memory_(self: Any) -> Any:
        """Move the memory to where processes that are forked from this one, or get the tensor sent, have it too."""
        shared.share(self)
        return self

    def is_shared(self: Any) -> bool:
        """Whether the memory is one that processes share."""
        return shared.is_shared(self)

    # --- sparse tensors, which are objects of ordinary ones ---------------------------------------------------------

    def to_sparse(self: Any, sparse_dim: int | None = None) -> Any:
        """What is not zero, by its coordinates: `jitgrad.sparse.to_sparse`."""
        return jitgrad.sparse.to_sparse(self, sparse_dim)

    def to_sparse_coo(self: Any) -> Any:
        """`to_sparse`."""
        return self.to_sparse()

    def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
        """What is not zero in a matrix, in rows."""
        if dense_dim:
            raise NotImplementedError("to_sparse_csr: a `dense_dim`")
        return self.to_sparse().to_sparse_csr()

    # --- Python functions of each element --------------------------------------------------------------------------

    def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
        """Replace each element by what a Python function makes of it. CPU tensors without a gradient."""
        return _each(self, "apply_", callable)

    def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Replace each element by what a Python function makes of it and another tensor's."""
        return _each(self, "map_", callable, tensor)

    def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
        """Replace each element by what a Python function makes of it and those of two other tensors."""
        return _each(self, "map2_", callable, x, y)


def in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of elements in order."""
    return tuple([math.prod(shape[k + 1:]) for k in range(len(shape))])


def _each(x: Any, name: str, function: Callable[..., Any], *others: Any) -> Any:
    if x.is_cuda:
        raise TypeError(f"{name} is only implemented on CPU tensors")
    if any(t.requires_grad for t in (x, *others)):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    columns = [t.expand(x.shape)._data.reshape(-1).tolist() for t in (x, *others)]
    found = [function(*row) for row in zip(*columns, strict=True)]
    made = np.empty(len(found), x._data.dtype)
    made[:] = found
    return write(x, wrap(made.reshape(x._data.shape)))

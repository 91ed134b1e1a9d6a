"""The eager Tensor: a NumPy array, a place on the tape, and torch's attributes."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from jitgrad import dtypes
from jitgrad.device import CPU
from jitgrad.device import device as Device
from jitgrad.dtypes import dtype
from jitgrad.eager import record
from jitgrad.eager.arrays import arrays
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import Hook, Node, RemovableHandle, Storage, edge_of, storage_of
from jitgrad.eager.format import to_text
from jitgrad.ops.opdef import OpDef
from jitgrad.ops.tensorbase import Size, TensorBase

Array = NDArray[Any]
T = TypeVar("T", bound="Tensor")
_ndarray = np.ndarray
_new = object.__new__
_FROM_NP = dtypes.FROM_NP

#: attributes that are the tensor itself; all others are the user's
_OWN = frozenset({"_data", "_node", "_slot", "_needs", "_base", "_path", "_seen", "_origin", "_storage", "_grad",
                  "_hooks", "_after_hooks", "_retains", "_inference"})


class Tensor(TensorBase["Tensor"]):
    """A multi-dimensional array whose operations can be differentiated.

    Make one with `tensor`, `zeros`, `from_numpy` and kin. `Tensor(2, 3)` is uninitialised memory of the default dtype,
    `Tensor([1, 2])` holds the data in it.
    """

    # Defaults live in the class, so that making a tensor sets one attribute.
    _data: Array
    _node: Node | None = None        # history: the node that computed it ...
    _slot: int = 0                   # ... and which of its outputs it is
    _needs: bool = False             # requires a gradient, by itself or through its history
    _base: Tensor | None = None      # a differentiable view: of this tensor ...
    _path: tuple[tuple[OpDef, dict[str, Any]], ...] = ()  # ... by these view ops ...
    _seen: int = 0                   # ... with `_node` valid for this version of the storage
    _origin: Tensor | None = None    # a view made while nothing was recorded: of this tensor
    _storage: Storage | None = None
    _grad: Tensor | None = None
    _hooks: dict[int, Hook] | None = None        # of a leaf; those of others are on their nodes
    _after_hooks: dict[int, Hook] | None = None  # after the gradient has been added to a leaf's
    _retains: bool = False
    _inference: bool = False

    __hash__ = object.__hash__

    def __new__(cls: type[T], *args: Any) -> T:
        return _legacy(cls, args)

    @staticmethod
    def _make_subclass(cls: type[Any], data: Tensor, requires_grad: bool = False) -> Any:
        """A leaf of class `cls` on the memory of `data`."""
        t = wrap(data._data, cls)
        if requires_grad:
            t.requires_grad = True
        return t

    # --- data --------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> dtype:
        """The type of the elements."""
        return _FROM_NP[self._data.dtype]

    @property
    def shape(self) -> Size:
        """The sizes of the axes."""
        return Size(self._data.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._data.ndim

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return CPU if type(self._data) is _ndarray else arrays.device_of(self._data)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return type(self._data) is not _ndarray

    def get_device(self) -> int:
        """The number of the GPU; -1 for the CPU."""
        index = self.device.index
        return -1 if index is None else index

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How CuPy, Numba and others share the memory. AttributeError on the CPU, RuntimeError where a gradient is."""
        if type(self._data) is _ndarray:
            raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type: "
                                 f"{self.type()} If CUDA data is required use tensor.cuda() to copy tensor to device "
                                 "memory.")
        if self.requires_grad:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
                               "aren't required, use var.detach() to get Variable that doesn't require grad.")
        return self._data.__cuda_array_interface__  # type: ignore[attr-defined, no-any-return]

    @property
    def data(self) -> Tensor:
        """The same memory without history and with a version of its own; assigning replaces the memory."""
        return wrap(self._data)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._needs and not value.dtype.is_floating_point:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._data = value._data

    def detach(self) -> Tensor:
        """The same memory without history; in-place writes to either are counted for both."""
        result: Tensor = wrap(self._data)
        result._storage = storage_of(self)
        return result

    def detach_(self) -> Tensor:
        """Forget the history; returns self. RuntimeError for a view."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._node, self._slot, self._needs, self._retains = None, 0, False, False
        return self

    def numpy(self, *, force: bool = False) -> Array:
        """The ndarray, sharing memory.

        Raises:
            RuntimeError: a gradient is required, and not `force`.
            TypeError: bfloat16, which NumPy itself does not have.
        """
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if type(self._data) is not _ndarray:
            if not force:
                raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
                                "the tensor to host memory first.")
            return self.cpu().detach().numpy()
        if self._data.dtype.kind == "V":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def item(self) -> bool | int | float:
        """The only element as a Python number. RuntimeError for more or fewer."""
        if self._data.size != 1:
            raise RuntimeError(f"a Tensor with {self._data.size} elements cannot be converted to Scalar")
        if type(self._data) is not _ndarray:
            arrays.library(self._data).settled()
        value: bool | int | float = self._data.item()
        return value

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-dim tensor."""
        return arrays.to_host(self._data).tolist()

    def __dlpack__(self, *, stream: Any = None, **more: Any) -> Any:
        """The memory for another library, by the DLPack protocol. BufferError where a gradient is required."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if type(self._data) is _ndarray:
            return self._data.__dlpack__(**more)
        return self._data.__dlpack__(stream=stream, **more)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of the kind of device, and the device's number."""
        return self._data.__dlpack_device__()

    # --- gradient ----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._needs or (self._base is not None and self._base._needs)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            if not value:
                raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                                   "computed variable in a subgraph that doesn't require differentiation use "
                                   "var_no_grad = var.detach().")
            return
        if value and self._data.dtype.kind not in dtypes.FLOAT_KINDS:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if value and self._inference and not mode.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        self._needs = bool(value)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set `requires_grad`; returns self."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed this tensor; None for a leaf."""
        if self._base is not None:
            edge_of(self)  # the node of a view follows writes to its base
        return self._node

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor has no history."""
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient; None if nothing was accumulated."""
        if self._grad is None and self._node is not None and not self._retains:
            warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                          "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
                          "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                          "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
                          UserWarning, stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type "
                                f"{type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._data.dtype != self._data.dtype:
                raise RuntimeError(f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with "
                                   f"dtype '{self.dtype.name}'. The gradient must match the tensor's dtype")
            if type(value._data) is not type(self._data) or value.device != self.device:
                raise RuntimeError(f"attempting to assign a gradient with device type '{value.device.type}' to a "
                                   f"tensor with device type '{self.device.type}'. Please ensure that the gradient "
                                   "and the tensor are on the same device")
            if value._data.shape != self._data.shape:
                raise RuntimeError(f"attempting to assign a gradient of size '{list(value._data.shape)}' to a tensor "
                                   f"of size '{list(self._data.shape)}'. Please ensure that the gradient and the "
                                   "tensor are the same size")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether a tensor with history gets its `.grad` filled."""
        return self._retains

    def retain_grad(self) -> None:
        """Let backward fill `.grad` although the tensor is no leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        node = self.grad_fn
        if node is None:
            return
        self._retains = True
        _retain(node, self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(gradient)` whenever this tensor's gradient is known; a result replaces it."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node = self.grad_fn
        if node is not None:
            return RemovableHandle(node.own_hooks().outputs.setdefault(self._slot, {}), hook)
        if self._hooks is None:
            self._hooks = {}
        return RemovableHandle(self._hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(tensor)` after backward has added to this leaf's `.grad`."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._after_hooks is None:
            self._after_hooks = {}
        return RemovableHandle(self._after_hooks, hook)

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Tensor | Sequence[Tensor] | None = None) -> None:
        """Add the gradient of this tensor to the `.grad` of the leaves that it was computed from.

        Args:
            gradient: the cotangent to start from, of this tensor's shape; may be left out for one element.
            retain_graph: keep what was saved, so that backward can run again; `create_graph` by default.
            create_graph: record the backward pass itself, for higher derivatives.
            inputs: add to these tensors' `.grad` only.

        Raises:
            RuntimeError: nothing to differentiate, no gradient given for more than one element, or saved values
                freed or overwritten.
        """
        _backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    # --- memory ------------------------------------------------------------------------------------------------

    @property
    def _version(self) -> int:
        """The number of in-place writes to this memory."""
        return 0 if self._storage is None else self._storage.version

    def _is_view(self) -> bool:
        return self._base is not None

    def is_contiguous(self) -> bool:
        """Whether the elements lie in memory in order, without gaps."""
        return self._data.flags.c_contiguous

    def stride(self, dim: int | None = None) -> Any:
        """How many elements apart neighbours along each axis, or along one, are in memory."""
        size = self._data.itemsize
        return tuple([s // size for s in self._data.strides]) if dim is None else self._data.strides[dim] // size

    def data_ptr(self) -> int:
        """The address of the first element."""
        return arrays.library(self._data).address(self._data)

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self._inference

    def _rebase(self, value: Tensor) -> None:
        """After this tensor's memory was written by other means: give it the history of `value`."""
        from jitgrad.eager.inplace import rebase

        rebase(self, value)

    def _bump(self) -> None:
        """Count a write to this tensor's memory that was made by other means."""
        storage_of(self).version += 1

    def _refresh(self) -> None:
        """Derive the history of this view again, from what its base now is."""
        from jitgrad.eager.inplace import refresh

        refresh(self)

    # --- copies ------------------------------------------------------------------------------------------------

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        if self.grad_fn is not None:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol at the moment. Use detach() first.")
        found: T | None = memo.get(id(self))
        if found is not None:
            return found
        result: T = wrap(arrays.copy(self._data), type(self))
        memo[id(self)] = result
        result._needs = self._needs
        if self._grad is not None:
            result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self._user_attributes(), memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.grad_fn is not None:
            raise RuntimeError("only leaf tensors can be pickled: this one has history. Use tensor.detach().")
        return _rebuild, (type(self), self._data, self._needs, self._user_attributes())

    def _user_attributes(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _OWN}

    def __repr__(self) -> str:
        return to_text(self)

    def __str__(self) -> str:
        return repr(self)

    def _text(self, about: str) -> str:
        """The text of what a script shows: `about` has first lines, if any, and last what is said of its history."""
        first, line, history = about.rpartition("\n")
        return first + line + to_text(self, history)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)


_backward: Callable[..., None]


def install_engine(backward: Callable[..., None]) -> None:
    """Called once by `engine.py`, which builds on this module."""
    global _backward
    _backward = backward


# --- making tensors ------------------------------------------------------------------------------------------------


def wrap(array: Any, cls: type[Any] = Tensor) -> Any:
    """A Tensor of an ndarray (or of a NumPy scalar), sharing memory, without history. The hot path: checks nothing."""
    t = _new(cls)
    t._data = array if type(array) is _ndarray else arrays.as_array(array)
    if mode.inference:
        t._inference = True
    return t


record.install(wrap, Tensor)


def lift(number: bool | int | float, d: dtype) -> Tensor:
    """A 0-dim Tensor; ints too large for a narrow integer dtype wrap, as in torch."""
    try:
        if -65504 <= number <= 65504:
            array = np.array(number, d.np)
        else:  # too large for a narrow float: infinite, of which NumPy would warn
            with np.errstate(all="ignore"):
                array = np.array(number, d.np)
    except OverflowError:
        if not -(1 << 63) <= number < 1 << 63:
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
        array = np.array(number, np.int64).astype(d.np)
    return wrap(array)  # type: ignore[no-any-return]


def from_numpy(array: Array) -> Tensor:
    """A Tensor that shares memory with `array`. TypeError for what is no ndarray or has no counterpart dtype."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtypes.from_numpy(array.dtype)
    return wrap(array.view(_ndarray))  # type: ignore[no-any-return]


def new_tensor(data: Any, d: dtype | None = None) -> Tensor:
    """A leaf with a copy of `data`: numbers, nested sequences, arrays, tensors. The dtype is inferred as torch does."""
    if isinstance(data, Tensor):
        return wrap(data._data.astype(data._data.dtype if d is None else d.np, order="C"))  # type: ignore[no-any-return]
    home = arrays.foreign(data)
    if home is not None:
        found = dtypes.from_numpy(data.dtype)
        return wrap(data.astype((d or found).np, order="C"))  # type: ignore[no-any-return]
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.array(data, copy=True, order="C")
        found = dtypes.from_numpy(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("="))
        return wrap(array.astype((d or found).np, copy=False))  # type: ignore[no-any-return]
    with np.errstate(all="ignore"):
        return wrap(_from_sequence(data, d))  # type: ignore[no-any-return]


def _from_sequence(data: Any, d: dtype | None) -> Array:
    shape, items = _flatten(data)
    if d is None:
        d = _infer(items)
    kinds = set(map(type, items))
    try:
        if d.category == dtypes.INTEGRAL and any(issubclass(k, (float, np.floating)) for k in kinds):
            array = np.array([int(v) for v in items], d.np)
        else:
            array = np.array(items, d.np)
    except OverflowError:
        if any(isinstance(v, (float, np.floating)) for v in items):
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
        if any(not -(1 << 63) <= int(v) < 1 << 63 for v in items):
            raise ValueError("Overflow when unpacking long long") from None
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
    return array.reshape(shape)


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and elements of nested sequences; ValueError where they are ragged."""
    shape: list[int] = []
    level: list[Any] = [data]
    while True:
        if any(isinstance(v, (np.ndarray, Tensor)) and v.ndim for v in level):
            level = [v.tolist() if isinstance(v, (np.ndarray, Tensor)) else v for v in level]
        if not level or not isinstance(level[0], Sequence) or isinstance(level[0], (str, bytes)):
            break
        length = len(level[0])
        below: list[Any] = []
        for v in level:
            if not isinstance(v, Sequence):
                raise TypeError(f"not a sequence at dim {len(shape)}: {v!r}")
            if len(v) != length:
                raise ValueError(f"expected sequence of length {length} at dim {len(shape)} (got {len(v)})")
            below.extend(v)
        shape.append(length)
        level = below
    items = [v.item() if isinstance(v, Tensor) or (isinstance(v, np.ndarray) and not v.ndim) else v for v in level]
    for kind in set(map(type, items)):
        if not issubclass(kind, (bool, int, float, np.generic)):
            raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    return tuple(shape), items


def _infer(items: Iterable[Any]) -> dtype:
    found: dtype | None = None
    for kind in set(map(type, items)):
        d = dtypes.from_numpy(np.dtype(kind)) if issubclass(kind, np.generic) else dtypes.of_number(
            bool if kind is bool else int if issubclass(kind, int) else float)
        found = d if found is None else dtypes.promote_types(found, d)
    return found if found is not None else dtypes.get_default_dtype()


def _legacy(cls: type[T], args: tuple[Any, ...]) -> T:
    """`Tensor()`, `Tensor(2, 3)`, `Tensor(data)`: always of the default dtype."""
    d = dtypes.get_default_dtype()
    if len(args) == 1 and not isinstance(args[0], int):
        data = args[0]
        return wrap(data._data if isinstance(data, Tensor) and data.dtype is d else new_tensor(data, d)._data, cls)  # type: ignore[no-any-return]
    return wrap(np.empty(args if args else (0,), d.np), cls)  # type: ignore[no-any-return]


def _rebuild(cls: type[Any], array: Array, needs: bool, attributes: dict[str, Any]) -> Any:
    t = wrap(array, cls)
    if needs:
        t._needs = True
    t.__dict__.update(attributes)
    return t


def _retain(node: Node, tensor: Tensor) -> None:
    if node.retained is None:
        node.retained = {}
    node.retained[tensor._slot] = weakref.ref(tensor)


def move_retained(tensor: Tensor, before: Node | None, slot: int) -> None:
    """Let a tensor that got a new node keep its `.grad` filled, no longer by node `before`."""
    if tensor._retains:
        if before is not None and before.retained is not None:
            before.retained.pop(slot, None)
        if tensor._node is not None:
            _retain(tensor._node, tensor)


__all__ = ["Tensor", "from_numpy", "lift", "move_retained", "new_tensor", "wrap"]

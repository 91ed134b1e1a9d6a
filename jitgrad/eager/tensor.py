"""The eager Tensor: a NumPy array, a place on the tape, and torch's attributes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from jitgrad.dtypes import dtype
from jitgrad.eager import construct
from jitgrad.eager.arrays import arrays, dlpack
from jitgrad.eager.autograd.node import Array, RemovableHandle, retain, storage_of, whole_of
from jitgrad.eager.construct import wrap
from jitgrad.eager.format import to_text
from jitgrad.eager.inplace import rebase, refresh
from jitgrad.eager.memory import Memory
from jitgrad.ops.library.core import class_word
from jitgrad.ops.library.creation import made_of
from jitgrad.ops.tensorbase import Size, TensorBase

S = TypeVar("S", bound="Tensor")
_ndarray = np.ndarray

#: attributes that are the tensor itself; all others are the user's
_OWN = frozenset({"_data", "_node", "_slot", "_needs", "_base", "_path", "_seen", "_origin", "_storage", "_grad",
                  "_hooks", "_after_hooks", "_retains", "_grad_dtype"})


class Tensor(Memory, TensorBase["Tensor"]):
    """A multi-dimensional array whose operations can be differentiated.

    Make one with `tensor`, `zeros`, `from_numpy` and kin. `Tensor(2, 3)` has zeros of the default dtype,
    `Tensor([1, 2])` holds the data in it.
    """

    _grad: Tensor | None = None
    _is_param = False

    __hash__ = object.__hash__

    def __new__(cls: type[S], *args: Any, size: Any = None) -> S:
        made = made_of(*args, size=size)
        return made if cls is Tensor else wrap(made._data, cls)  # type: ignore[no-any-return]

    @staticmethod
    def _make_subclass(cls: type[Any], data: Tensor, requires_grad: bool = False) -> Any:
        """A leaf of class `cls` on the memory of `data`."""
        t = wrap(data._data, cls)
        if requires_grad:
            t.requires_grad = True
        return t

    # --- data --------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the axes."""
        return Size(self._data.shape)

    @property
    def _sizes(self) -> tuple[Any, ...]:
        sizes: tuple[Any, ...] = self._data.shape
        return sizes

    @property
    def _is_empty(self) -> bool:
        return self._data.size == 0

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._data.ndim

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
        result: Tensor = wrap(self._data)
        storage_of(result).whole = whole_of(self)
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._needs and not value.dtype.is_inexact:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._data = value._data
        if self._storage is not None:
            self._storage.whole = None

    def detach(self) -> Tensor:
        """The same memory without history; in-place writes to either are counted for both."""
        result: Tensor = wrap(self._data)
        result._storage = storage_of(self)
        result._storage.whole = whole_of(self)
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

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Tensor:
        """What NumPy's functions make of tensors as a tensor; of bools as uint8, as torch does."""
        given = np.asarray(array)
        made: Tensor = wrap(given.astype(np.uint8) if given.dtype.kind == "b" else given)
        return made

    def item(self) -> Any:
        """The only element as a Python number. RuntimeError for more or fewer."""
        if self._data.size != 1:
            raise RuntimeError(f"a Tensor with {self._data.size} elements cannot be converted to Scalar")
        if type(self._data) is _ndarray:
            return self._data.item()
        return arrays.library(self._data).to_host(self._data).item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-dim tensor."""
        return arrays.to_host(self._data).tolist()

    def __dlpack__(self, *, stream: Any = None, **more: Any) -> Any:
        """The memory for another library, by the DLPack protocol. BufferError where a gradient is required."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if type(self._data) is _ndarray:
            half = self._data.dtype.kind == "V"
            return dlpack.exported(self._data, **more) if half else self._data.__dlpack__(**more)
        return self._data.__dlpack__(stream=stream, **more)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of the kind of device, and the device's number."""
        return self._data.__dlpack_device__()

    # --- gradient ----------------------------------------------------------------------------------------------

    def requires_grad_(self: S, requires_grad: bool = True) -> S:
        """Set `requires_grad`; returns self."""
        if not isinstance(requires_grad, bool):
            raise TypeError("requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                            + class_word(requires_grad))
        self.requires_grad = requires_grad
        return self

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
            data, given = self._data, value._data if isinstance(value, Tensor) else None
            if (type(given) is not _ndarray or type(data) is not _ndarray
                    or (given.dtype is not data.dtype and given.dtype != data.dtype) or given.shape != data.shape
                    or self._grad_dtype or value is self):
                self._require_gradient(value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def _require_gradient(self, value: Any) -> None:
        """What may be assigned to `grad`: another tensor of the same shape, on the same device, of `grad_dtype`."""
        if not isinstance(value, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type "
                            f"{type(value).__name__}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        wanted = self._grad_dtype[0] if self._grad_dtype else self.dtype
        if wanted is not None and value.dtype is not wanted:
            raise RuntimeError(f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with "
                               f"grad_dtype '{wanted.name}'. The gradient must match the tensor's grad_dtype "
                               "(defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute "
                               "with a specific dtype, or None to allow any dtype")
        if not arrays.together(value._data, self._data):
            raise RuntimeError(f"attempting to assign a gradient with device type '{value.device.type}' to a "
                               f"tensor with device type '{self.device.type}'. Please ensure that the gradient "
                               "and the tensor are on the same device")
        if value._data.shape != self._data.shape:
            raise RuntimeError(f"attempting to assign a gradient of size '{list(value._data.shape)}' to a tensor "
                               f"of size '{list(self._data.shape)}'. Please ensure that the gradient and the "
                               "tensor are the same size")

    @property
    def grad_dtype(self) -> dtype | None:
        """The dtype to which gradients of a leaf are cast, its own at first; None: as they come."""
        if self.grad_fn is not None:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        return self._grad_dtype[0] if self._grad_dtype else self.dtype

    @grad_dtype.setter
    def grad_dtype(self, value: dtype | None) -> None:
        if self.grad_fn is not None:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if value is not None and not isinstance(value, dtype):
            raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {class_word(value)}")
        if value is not None and self._grad is not None and self._grad.dtype is not value:
            raise RuntimeError(f"Cannot set grad_dtype to '{value.name}' because there is already a gradient with "
                               f"dtype '{self._grad.dtype.name}'. Please clear the gradient (.grad = None) before "
                               "changing grad_dtype, or ensure the new grad_dtype matches the existing gradient's "
                               "dtype.")
        self._grad_dtype = (value,)

    @property
    def output_nr(self) -> int:
        """Which of the results of its `grad_fn` the tensor is."""
        return 0 if self._node is None else self._slot

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
        retain(node, self)

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

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in order, without gaps; in the order of a format's axes if it has one."""
        order = getattr(memory_format, "order", ())
        if not order:
            return self._data.flags.c_contiguous
        if len(order) != self.ndim:
            return False
        expected = self._data.itemsize
        for k in reversed(order):
            n = self._data.shape[k]
            if n != 1 and self._data.strides[k] != expected:
                return False
            expected *= n
        return True

    def data_ptr(self) -> int:
        """The address of the first element."""
        return arrays.library(self._data).address(self._data)

    def _rebase(self, value: Tensor) -> None:
        """After this tensor's memory was written by other means: give it the history of `value`."""
        rebase(self, value)

    def _bump(self) -> None:
        """Count a write to this tensor's memory that was made by other means."""
        storage_of(self).wrote(self._data)

    def _refresh(self) -> None:
        refresh(self)

    # --- copies ------------------------------------------------------------------------------------------------

    def __deepcopy__(self: S, memo: dict[int, Any]) -> S:
        if self.grad_fn is not None:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol at the moment. Use detach() first.")
        found: S | None = memo.get(id(self))
        if found is not None:
            return found
        result: S = wrap(arrays.copy(self._data), type(self))
        memo[id(self)] = result
        result._needs = self._needs
        if self._grad is not None:
            result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self._user_attributes(), memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self), self._data, self._needs, self._user_attributes())

    def _user_attributes(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _OWN}

    def __repr__(self) -> str:
        return to_text(self)

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


def _rebuild(cls: type[Any], array: Array, needs: bool, attributes: dict[str, Any]) -> Any:
    t = wrap(array, cls)
    if needs:
        t._needs = True
    t.__dict__.update(attributes)
    return t


construct.install(Tensor)

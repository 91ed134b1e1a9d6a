"""Names of torch that are neither ops nor gradients: memory shared with NumPy, dtype limits, generator state."""

import os
from typing import Any

import numpy as np

from jitgrad import dtypes, random
from jitgrad.device import resolve
from jitgrad.dtypes import bfloat16, dtype, float32, given
from jitgrad.eager import EAGER
from jitgrad.eager.arrays.arrays import foreign
from jitgrad.eager.construct import exports, shared, wrap
from jitgrad.eager.factories import from_numpy
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.library.core import converted, library
from jitgrad.ops.library.creation import tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import clone
from jitgrad.random import initial_seed, manual_seed, seed

_warn_always = False


@library
def as_tensor(data: Any, *, dtype: dtype | None = None, device: Any = None) -> Any:
    """`data` as a tensor: a tensor, ndarray or what exports itself by DLPack (PyTorch's, CuPy's, JAX's arrays) shares
    its memory where the dtype fits, anything else is copied."""
    if isinstance(data, AnyTensor):
        there: Any = data if device is None else backend().move(data, resolve(device))
        return converted(there, dtypes.given(dtype, data.dtype))
    if backend() is EAGER:
        there = None
        if isinstance(data, np.ndarray):
            there = backend().move(from_numpy(data), resolve(device))
        elif foreign(data) is not None:
            dtypes.from_numpy(data.dtype)
            there = wrap(data) if device is None else backend().move(wrap(data), resolve(device))
        elif exports(data):
            there = shared(data) if device is None else backend().move(shared(data), resolve(device))
        if there is not None:
            return converted(there, dtypes.given(dtype, there.dtype))
    return tensor(data, dtype=dtype, device=device)


@library
def asarray(obj: Any, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Any:
    """`as_tensor`; with `copy` never shared memory, without (False) never a copy: ValueError where one is needed."""
    made = as_tensor(obj, dtype=dtype, device=device)
    shared = made is obj or (isinstance(obj, np.ndarray) and np.may_share_memory(made._data, obj))
    if copy and shared:
        made = clone(made)
    if copy is False and not shared:
        raise ValueError("can't alias tensor or ndarray: a copy is needed, and copy=False")
    return made.requires_grad_() if requires_grad else made


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array, by the DLPack protocol (or a capsule of it); with `copy`, or
    on another device, a copy."""
    made: Tensor = shared(ext_tensor)
    moved = made if device is None else backend().move(made, resolve(device))
    if copy is False and moved is not made:
        raise ValueError("cannot move DLPack tensor to another device without a copy")
    return clone(moved) if copy and moved is made else moved


def typename(obj: Any) -> str:
    """The qualified name of an object's type."""
    if isinstance(obj, Tensor):
        return f"torch.{obj.type().rpartition('.')[2]}"
    module = getattr(obj, "__module__", "") or type(obj).__module__
    name = getattr(obj, "__qualname__", "") or type(obj).__qualname__
    return name if module in ("builtins", "") else f"{module}.{name}"


def from_file(filename: str | os.PathLike[str], shared: bool | None = None, size: int | None = 0, *,
              dtype: dtypes.dtype | None = None, requires_grad: bool = False) -> Tensor:
    """A vector of `size` numbers on the bytes of a file, which are read when they are asked for.

    Args:
        shared: whether writes go to the file, which is made or made longer where it must be; else they go nowhere.

    Raises:
        RuntimeError: a file that is too short, and not shared.
        FileNotFoundError: none, and not shared.
    """
    count, d = size or 0, dtypes.given(dtype)
    needed = count * d.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    elif (found := os.path.getsize(filename)) < needed:
        raise RuntimeError(f"unable to map {needed} bytes of the file <{os.fspath(filename)}>, which has {found}")
    if count:
        made: Tensor = as_tensor(np.memmap(filename, d.np, "r+" if shared else "c", shape=(count,)))
    else:
        made = as_tensor(np.empty(0, d.np))
    return made.requires_grad_() if requires_grad else made


def to_dlpack(tensor: Any) -> Any:
    """The capsule that `from_dlpack` takes, once."""
    return tensor.__dlpack__(max_version=(1, 0))


def set_warn_always(b: bool, /) -> None:
    """What `is_warn_always_enabled` answers. Warnings come each time anyway: Python's filters say which show."""
    global _warn_always
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` said last; False at first."""
    return _warn_always


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, type: dtype = float32):
        type = given(type).to_real()  # of complex numbers: their parts' limits
        if not type.is_floating_point:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{type}'")
        if type is bfloat16:
            import ml_dtypes

            limits: Any = ml_dtypes.finfo(ml_dtypes.bfloat16)  # type: ignore[no-untyped-call]
        else:
            limits = np.finfo(type.np)
        self.dtype = type.name
        self.bits = int(limits.bits)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.tiny)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: dtype):
        if given(type).is_inexact or type.category == 0:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        limits = np.iinfo(type.np.name)
        self.dtype = type.name
        self.bits, self.max, self.min = int(limits.bits), int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


# --- the default generator -----------------------------------------------------------------------------------------


def get_rng_state() -> Any:
    """The default generator's state, uint8 (16,): seed and offset."""
    return random.default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go on from a state that `get_rng_state` gave: see `Generator.set_state`."""
    random.default_generator.set_state(new_state)

complete(globals(), "torch")

__all__ = ["as_tensor", "asarray", "finfo", "from_dlpack", "from_file", "get_rng_state", "iinfo", "initial_seed",
           "is_warn_always_enabled", "manual_seed", "seed", "set_rng_state", "set_warn_always", "to_dlpack",
           "typename"]

"""Devices: `device("cpu")`, and `device("cuda", index)` for a GPU whose tensors are CuPy arrays.

CuPy is imported by the first question about a GPU, never before; nothing here costs CPU users anything.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any

from jitgrad.determinism import are_deterministic_algorithms_enabled

KINDS = ("cpu", "cuda")


class device:
    """Where a tensor's memory is: `device("cpu")`, `device("cuda", 0)`, `device("cuda:0")`.

    As a context manager it is where new tensors go: `with device("cuda"):`.

    Raises:
        RuntimeError: an unknown kind of device, or an index given twice.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: str | device | int, index: int | None = None):
        if not isinstance(type, str):
            if isinstance(type, int):
                self.type, self.index = "cuda", type
            else:
                self.type, self.index = type.type, type.index
            return
        kind, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: "
                                   f"{type}")
            if not number.isdecimal():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        if kind not in KINDS:
            raise RuntimeError(f"Expected one of {', '.join(KINDS)} device type at start of device string: {type}")
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        _new.before.append(_new.device)
        _new.device = resolve(self)
        return self

    def __exit__(self, kind: builtins.type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _new.device = _new.before.pop()


CPU = device("cpu")


class _New(threading.local):
    """Where the tensors that this thread makes go, if nothing else is said; which `FACTS` were asked for."""

    device: device = CPU
    asked: set[str] | None = None

    def __init__(self) -> None:
        self.before: list[device] = []


_new = _New()


def set_default_device(device: device | str | int | None) -> None:
    """Make new tensors on a device from now on, in this thread; None: on the CPU. RuntimeError where it cannot be."""
    _new.device = CPU if device is None else resolve(device)


def get_default_device() -> device:
    """Where new tensors go in this thread."""
    return _new.device


def resolve(where: device | str | int | None) -> device:
    """The device that an argument `device=` names, the default one for None. RuntimeError for one that is not there."""
    if where is None:
        if _new.asked is not None:
            _new.asked.add("default")
        return _new.device
    found = where if isinstance(where, device) else device(where)
    if found.type == "cpu":
        return CPU
    if _new.asked is not None:
        _new.asked.add("named" if found.index is not None else "current")
    cupy = require_gpu()
    if found.index is None:
        return device("cuda", cupy.cuda.Device().id)
    count = cupy.cuda.runtime.getDeviceCount()
    if found.index >= count:
        raise RuntimeError(f"CUDA error: invalid device ordinal: there is no device '{found}', but "
                           f"{count} CUDA device{'s' * (count != 1)}")
    return found


# --- CuPy ----------------------------------------------------------------------------------------------------------

INSTALL = ('jitgrad computes on NVIDIA GPUs through CuPy: pip install "jitgrad[cuda13]" (CUDA 13) or '
           'pip install "jitgrad[cuda12]" (CUDA 12)')
_usable: Any = None


def require_gpu() -> Any:
    """The module `cupy`. RuntimeError, with what is missing and how to get it, where no GPU can be used."""
    global _usable
    found = sys.modules.get("cupy")
    if found is not None and found is _usable:
        return _usable
    try:
        import cupy  # noqa: TID251
    except ImportError as error:
        raise RuntimeError(f"CUDA is not available: {error}. {INSTALL}") from None
    if not cupy.cuda.is_available():
        try:
            trouble = f"the CUDA driver knows {cupy.cuda.runtime.getDeviceCount()} devices"
        except RuntimeError as error:
            trouble = f"the CUDA driver says: {error}"
        raise RuntimeError(f"No CUDA GPUs are available: CuPy {cupy.__version__} is installed, but {trouble}")
    _usable = cupy
    return cupy


_missing = False


def has_gpu() -> bool:
    """Whether there is a GPU that can be used. Where CuPy is not installed it is looked for once."""
    global _missing
    if _missing and "cupy" not in sys.modules:
        return False
    try:
        require_gpu()
    except RuntimeError:
        _missing = "cupy" not in sys.modules
        return False
    return True


_load_kernels: dict[str, Callable[[], Any]] = {}


def provide_kernels(**load: Callable[[], Any]) -> None:
    """Say what `cpu_kernels` and its kin answer: `jitgrad/__init__.py` does, which may name any module."""
    _load_kernels.update(load)


@cache
def cpu_kernels() -> Any:
    """`codegen/run/on_arrays.py`: what native code computes on NumPy's arrays."""
    return _load_kernels["cpu"]()


def has_cpu_kernels() -> bool:
    """Whether they are loaded."""
    return "jitgrad.codegen.run.on_arrays" in sys.modules


@cache
def composites() -> Any:
    """`jitgrad.script.composites`: functions of many operations as native programs."""
    return _load_kernels["composites"]()


@cache
def gpu_kernels() -> Any:
    """`jitgrad.cuda.elementwise`: the kernels that arrays on a GPU need and CuPy does not have."""
    return _load_kernels["gpu"]()


@cache
def gpu_products() -> Any:
    """`jitgrad.cuda.products`: the products of matrices that CuPy does not have."""
    return _load_kernels["products"]()


#: by GPU, where kernels were loaded that may never end: waits for a stream, None: for all, so that Ctrl-C gets through
patient: dict[int, Callable[[int | None], None]] = {}


# --- what programs are compiled for --------------------------------------------------------------------------------


def _current() -> device:
    return device("cuda", require_gpu().cuda.Device().id) if has_gpu() else CPU


def _count() -> int:
    return int(require_gpu().cuda.runtime.getDeviceCount()) if has_gpu() else 0


#: what is the same for all calls of a thread, but not of every machine, process or thread
FACTS: dict[str, Callable[[], Any]] = {"default": get_default_device, "current": _current, "named": has_gpu,
                                       "gpu": has_gpu, "count": _count,
                                       "deterministic": are_deterministic_algorithms_enabled}


@contextmanager
def asked() -> Iterator[set[str]]:
    """The names of the `FACTS` that this thread asks for inside."""
    before, _new.asked = _new.asked, set()
    try:
        yield _new.asked
    finally:
        _new.asked = before


def fact(name: str) -> Any:
    """One of the `FACTS`, as it is now."""
    if _new.asked is not None:
        _new.asked.add(name)
    return FACTS[name]()

__all__ = ["device", "get_default_device", "set_default_device"]

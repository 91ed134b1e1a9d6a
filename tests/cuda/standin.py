"""A module that takes CuPy's place in tests without a GPU: arrays on NumPy that refuse what CuPy refuses.

`install()` puts it into `sys.modules["cupy"]`. An array wraps a NumPy array and is none: it does not mix with NumPy's,
does not turn into one unasked, gives 0-dim arrays where NumPy gives scalars, has only the methods, functions and
keyword arguments of `NAMES` (which a test compares with the real CuPy where that is installed), knows no read-only
memory, and counts every time that the host would have to wait for the device (`waits`). It has two devices: kernels
take arrays of the current one only, streams and events belong to the device that they were made on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from unittest import mock

import numpy as np

from jitgrad.codegen.cuda.driver.blaslt import BlasLt
from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.cuda import products
from tests.codegen.cuda.fakeblas import FakeBlas
from tests.codegen.cuda.fakecuda import fake_driver
from tests.cuda.meanings import meaning

__version__ = "14.2.0"

#: how often the host had to wait for the device so far, by what for
waits: dict[str, int] = {}


def waited(what: str) -> None:
    waits[what] = waits.get(what, 0) + 1


# --- devices, streams, events --------------------------------------------------------------------------------------

COUNT = 2  # devices
_current = [0]
#: told of every change of the current device
switched: list[Callable[[int], None]] = []


def current() -> int:
    """The number of the current device."""
    return _current[-1]


def _switch() -> None:
    for tell in switched:
        tell(_current[-1])


def _here(*arrays: Any) -> None:
    """ValueError where a kernel is given arrays of another device than the current one."""
    for a in arrays:
        if isinstance(a, ndarray) and a.device.id != _current[-1]:
            raise ValueError("Array device must be same as the current device: "
                             f"array device = {a.device.id} while current = {_current[-1]}")
        if isinstance(a, (list, tuple)):
            _here(*a)


class CUDARuntimeError(RuntimeError):
    pass


class Device:
    def __init__(self, device: Any = None) -> None:
        self.id = _current[-1] if device is None else int(getattr(device, "id", device))
        if not 0 <= self.id < COUNT:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.compute_capability = "90"
        self.mem_info = (100 << 30, 139 << 30)
        self.attributes = {"MultiProcessorCount": 132}

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        _current.append(self.id)
        _switch()
        return self

    def __exit__(self, *error: Any) -> None:
        _current.pop()
        _switch()

    def use(self) -> None:
        _current[-1] = self.id
        _switch()

    def synchronize(self) -> None:
        waited("synchronize")


class Stream:
    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False,
                 priority: int | None = None) -> None:
        self.ptr = 0 if null else 2 if ptds else id(self)
        self.non_blocking, self.priority = non_blocking, priority or 0
        self.device_id = -1 if null else _current[-1]

    def _check(self) -> int:
        if self.device_id not in (-1, _current[-1]):
            raise RuntimeError(f"The device that the stream is created on ({self.device_id}) does not match with the "
                               f"current device ({_current[-1]})")
        return _current[-1]

    def __enter__(self) -> Stream:
        where = self._check()
        _streams[where].append(self)
        _entered.append(where)
        return self

    def __exit__(self, *error: Any) -> None:
        _streams[_entered.pop()].pop()

    def use(self) -> Stream:
        _streams[self._check()][-1] = self
        return self

    @property
    def done(self) -> bool:
        return True

    def synchronize(self) -> None:
        waited("synchronize")

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        assert event.time is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.ptr == self.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)


class ExternalStream(Stream):
    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(null=True)
        self.ptr, self.device_id = ptr, device_id


Stream.null = Stream(null=True)
_streams = [[Stream.null] for _ in range(COUNT)]
_entered: list[int] = []
_clock = itertools.count(1)


def get_current_stream(device_id: int = -1) -> Stream:
    return _streams[_current[-1] if device_id < 0 else device_id][-1]


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.time: int | None = None
        self.disable_timing = disable_timing
        self.ptr, self.device_id = id(self), _current[-1]

    @property
    def done(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        there = _current[-1] if stream is None or stream.device_id < 0 else stream.device_id
        if there != self.device_id:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        self.time = next(_clock)

    def synchronize(self) -> None:
        waited("synchronize")


def get_elapsed_time(start: Event, end: Event) -> float:
    if start.time is None or end.time is None or start.disable_timing or end.disable_timing:
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return float(end.time - start.time)


# --- memory --------------------------------------------------------------------------------------------------------


class Memory:
    """What arrays that share memory have in common."""

    def __init__(self, array: np.ndarray[Any, Any], device: int) -> None:
        self.size, self.device_id = -(-array.nbytes // 512) * 512, device
        pool.use(self.size)
        for hook in MemoryHook.entered:
            hook.malloc_postprocess(device_id=device, size=array.nbytes, mem_size=self.size, mem_ptr=0, pmem_id=0)

    def __del__(self) -> None:
        pool.use(-self.size)


class MemoryHook:
    entered: ClassVar[list[Any]] = []

    def __enter__(self) -> MemoryHook:
        self.entered.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        self.entered.remove(self)


class MemoryPointer:
    def __init__(self, mem: Memory, ptr: int) -> None:
        self.mem, self.ptr = mem, ptr
        self.device_id = mem.device_id


class MemoryPool:
    def __init__(self) -> None:
        self.used = self.held = 0

    def use(self, size: int) -> None:
        self.used += size
        self.held = max(self.held, self.used)

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.held

    def free_bytes(self) -> int:
        return self.held - self.used

    def free_all_blocks(self, stream: Any = None) -> None:
        self.held = self.used


pool = MemoryPool()


def alloc_pinned_memory(size: int) -> Any:
    """Host memory that the device reads directly."""
    kind = type("PinnedMemoryPointer", (ctypes.Array,), {"_type_": ctypes.c_ubyte, "_length_": size})
    return kind()


# --- arrays --------------------------------------------------------------------------------------------------------

IMPLICIT = ("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly.")


class Flags:
    def __init__(self, flags: Any, owndata: bool) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = owndata
        self.fnc, self.forc = flags.fnc, flags.forc

    def __getitem__(self, name: str) -> bool:
        return {"C_CONTIGUOUS": self.c_contiguous, "F_CONTIGUOUS": self.f_contiguous, "OWNDATA": self.owndata}[name]


#: methods and functions that jitgrad calls, and their parameters. "ufunc" has operands, `out`, `dtype`, `casting`.
METHODS = {
    "all": "axis out keepdims", "any": "axis out keepdims", "conj": "", "astype": "dtype order casting subok copy",
    "argmax": "axis out dtype keepdims", "argmin": "axis out dtype keepdims", "copy": "order", "fill": "value",
    "max": "axis out keepdims", "min": "axis out keepdims", "prod": "axis dtype out keepdims",
    "sum": "axis dtype out keepdims", "swapaxes": "axis1 axis2", "reshape": "", "transpose": "", "ravel": "order",
    "view": "dtype", "squeeze": "axis", "item": "", "tolist": "", "get": "stream order out blocking",
}
#: methods and functions that run no kernel
VIEWS = ("reshape", "transpose", "swapaxes", "view", "squeeze", "get", "broadcast_to", "diagonal", "expand_dims",
         "flip", "asnumpy")
FUNCTIONS = {
    "arange": "start stop step dtype", "argsort": "a axis kind", "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims", "argwhere": "a", "array": "obj dtype copy order subok ndmin blocking",
    "asarray": "a dtype order copy blocking", "ascontiguousarray": "a dtype",
    "asnumpy": "a stream order out blocking", "broadcast_to": "array shape",
    "concatenate": "tup axis out dtype casting", "copyto": "dst src casting where", "cumprod": "a axis dtype out",
    "cumsum": "a axis dtype out", "diagonal": "a offset axis1 axis2", "empty": "shape dtype order",
    "expand_dims": "a axis", "flip": "a axis", "full": "shape fill_value dtype order",
    "full_like": "a fill_value dtype order subok shape", "matmul": "",
    "ones": "shape dtype order", "ones_like": "a dtype order subok shape",
    "pad": "array pad_width mode constant_values",
    "squeeze": "a axis", "take_along_axis": "a indices axis", "where": "condition x y", "zeros": "shape dtype order",
    "zeros_like": "a dtype order subok shape",
}
#: functions of `cupy.fft`
FFT = {"fftn": "a s axes norm", "ifftn": "a s axes norm", "rfft": "a n axis norm", "irfft": "a n axis norm"}
UFUNCS = (
    "abs", "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "conjugate", "copysign", "cos", "cosh", "equal", "exp", "exp2",
    "expm1", "floor", "floor_divide", "fmod", "greater", "greater_equal", "invert", "isinf", "isnan",
    "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "not_equal", "power",
    "remainder", "right_shift", "rint", "sign", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "true_divide",
    "trunc")


def _numpy(x: Any, *, deep: bool = True) -> Any:
    """What NumPy computes with in place of an argument; TypeError for what CuPy does not take."""
    if isinstance(x, ndarray):
        return x._a
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    if deep and isinstance(x, (list, tuple)):
        return type(x)(_numpy(v) for v in x)
    return x


def _is_view(result: Any, of: np.ndarray[Any, Any]) -> bool:
    """Whether an array is another one or a view of it; one without elements, too."""
    if result is of:
        return True
    if result.size:
        return np.may_share_memory(result, of)
    return isinstance(result, np.ndarray) and _owner(result) is _owner(of)


def _made(result: Any, *sources: Any, device: int | None = None) -> Any:
    """Arrays of a result, views of the sources where they share their memory."""
    if isinstance(result, tuple):
        return tuple(_made(r, *sources, device=device) for r in result)
    if isinstance(result, (np.ndarray, np.generic)):
        for s in sources:
            if isinstance(s, ndarray) and _is_view(result, s._a):
                return s if result is s._a else ndarray._of(result, s)
        return ndarray._of(np.asarray(result), None, device)
    return result


class ndarray:
    """An array on the device."""

    __slots__ = ("__weakref__", "_a", "base", "data", "device")
    __module__ = "cupy"
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None,
                 order: str = "C") -> None:
        self._set(np.empty(shape, dtype, order), None, None)

    def _set(self, array: np.ndarray[Any, Any], base: ndarray | None, device: int | None) -> None:
        assert array.dtype != object
        if not array.flags.writeable:  # a device knows no such thing
            array = array.view()
            try:
                array.flags.writeable = True
            except ValueError:
                array = np.lib.stride_tricks.as_strided(_owner(array), array.shape, array.strides) \
                    if _owner(array).flags.writeable and not _offset(array) else array
        self._a = array
        root = None if base is None else base if base.base is None else base.base
        self.base = root
        memory = Memory(array, _current[-1] if device is None else device) if root is None else root.data.mem
        self.data = MemoryPointer(memory, array.__array_interface__["data"][0])
        self.device = Device(memory.device_id)

    @classmethod
    def _of(cls, array: np.ndarray[Any, Any], base: ndarray | None = None, device: int | None = None) -> ndarray:
        made: ndarray = object.__new__(cls)
        made._set(array, base, device)
        return made

    # --- facts
    dtype = property(lambda self: self._a.dtype)
    shape = property(lambda self: self._a.shape)
    strides = property(lambda self: self._a.strides)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    itemsize = property(lambda self: self._a.itemsize)
    flags = property(lambda self: Flags(self._a.flags, self.base is None))
    T = property(lambda self: _made(self._a.T, self))
    real = property(lambda self: _made(self._a.real, self), lambda self, value: self.real.__setitem__(..., value))
    imag = property(lambda self: _made(self._a.imag, self), lambda self, value: self.imag.__setitem__(..., value))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3,
                "strides": None if self._a.flags.c_contiguous else self.strides, "stream": 1}

    def __len__(self) -> int:
        return len(self._a)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    # --- to the host
    def _waits(self, what: str) -> np.ndarray[Any, Any]:
        waited(what)
        return self._a

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(IMPLICIT)

    def __bool__(self) -> bool:
        return bool(self._waits("bool"))

    def __int__(self) -> int:
        return int(self._waits("int"))

    def __float__(self) -> float:
        return float(self._waits("float"))

    def __index__(self) -> int:
        return self._waits("index").__index__()

    def item(self, *args: Any) -> Any:
        return self._waits("item").item(*args)

    def tolist(self) -> Any:
        return self._waits("get").tolist()

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        return self._waits("get").copy(order="C" if order == "C" else "K")

    def __reduce__(self) -> Any:
        return array, (self.get(),)

    def __repr__(self) -> str:
        return repr(self.get())

    # --- indexing
    def __getitem__(self, key: Any) -> ndarray:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, ndarray) for k in keys):
            _here(self, *keys)
        return _made(self._a[_wrapped(_key(key, True), self._a.shape)], self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        _here(self, key)
        self._a[_wrapped(_key(key, False), self._a.shape)] = _numpy(value)

    # --- NumPy's protocols
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        if method not in ("__call__", "at") or not hasattr(CUPY, ufunc.__name__):
            return NotImplemented
        function = getattr(CUPY, ufunc.__name__)
        return (function if method == "__call__" else getattr(function, method))(*inputs, **kwargs)

    def __array_function__(self, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        try:
            module = functools.reduce(getattr, func.__module__.split(".")[1:], CUPY)
            mine = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if not all(issubclass(t, (ndarray, np.ndarray, np.generic)) for t in kinds):
            return NotImplemented
        return mine(*args, **kwargs)


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _offset(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0] - _owner(array).__array_interface__["data"][0])


def _key(key: Any, reading: bool) -> Any:
    if isinstance(key, tuple):
        return tuple(_key(k, reading) for k in key)
    if isinstance(key, ndarray):
        if key.dtype.kind == "b" and reading:
            waited("mask")
        if key.dtype.kind not in "biu":
            raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {key.dtype.type})")
        return key._a
    if key is None or key is Ellipsis or isinstance(key, (int, np.integer, slice)):
        return key
    raise TypeError(f"an index of type {type(key)}: brought to the device by CuPy, which jitgrad means to do itself")


def _wrapped(key: Any, shape: tuple[int, ...]) -> Any:
    """A key with the indices in its arrays wrapped around: CuPy has no index out of range."""
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum(k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else 1 for k in items
               if k is not None and k is not Ellipsis)
    axis = 0
    for place, k in enumerate(items):
        if k is Ellipsis:
            axis += len(shape) - used
        elif isinstance(k, np.ndarray) and k.dtype == bool:
            axis += k.ndim
        elif k is not None:
            if isinstance(k, np.ndarray) and shape[axis]:
                items[place] = k % shape[axis]
            axis += 1
    return tuple(items) if isinstance(key, tuple) else items[0]


def _method(name: str, parameters: str) -> Callable[..., Any]:
    names = parameters.split()

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        if name in ("reshape", "transpose"):
            assert not kwargs
        elif len(args) > len(names) or set(kwargs) - set(names):
            raise TypeError(f"{name}() got an unexpected argument: {args[len(names):]} {kwargs}")
        if name == "copy":  # to the current device
            return ndarray._of(self._a.copy(order=(args or (kwargs.get("order", "C"),))[0]))
        if name not in VIEWS:
            _here(self, *args, *kwargs.values())
        with np.errstate(all="ignore"):
            return _made(getattr(self._a, name)(*map(_numpy, args), **{k: _numpy(v) for k, v in kwargs.items()}), self)

    method.__name__ = name
    return method


for _name, _parameters in METHODS.items():
    if _name not in ("item", "tolist", "get"):
        setattr(ndarray, _name, _method(_name, _parameters))


# --- functions -----------------------------------------------------------------------------------------------------


class ufunc:
    """A universal function."""

    def __init__(self, name: str) -> None:
        self.__name__, self._numpy = name, getattr(np, name)

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", **more: Any) -> Any:
        if more:
            raise TypeError(f"Wrong arguments {more}")
        if len(args) > self._numpy.nin:
            *args, out = args  # type: ignore[assignment]
        given = [_numpy(a, deep=False) for a in args]
        for a in given:
            if not isinstance(a, (np.ndarray, np.generic, bool, int, float)):
                raise TypeError(f"Unsupported type {type(a)}")
        _here(*args, out)
        how: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
        with np.errstate(all="ignore"):
            if out is None:
                return ndarray._of(np.asarray(self._numpy(*given, casting=casting, **how)))
            if not isinstance(out, ndarray):
                raise TypeError("return arrays must be of ArrayType")
            self._numpy(*given, out=out._a, casting=casting, **how)
            return out

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        if self.__name__ != "add":
            raise NotImplementedError(self.__name__)
        _here(a, indices, b)
        if a.dtype.name not in ("int32", "float16", "float32", "float64", "uint32", "uint64"):
            raise TypeError("cupy.add.at only supports int32, float16, float32, float64, uint32, uint64 as data type")
        self._numpy.at(a._a, _wrapped(_key(indices, False), a.shape), _numpy(b))


_UFUNCS = {name: ufunc(name) for name in UFUNCS}


def _binary(name: str, reflected: bool = False, inplace: bool = False) -> Callable[..., Any]:
    def operator(self: ndarray, other: Any) -> Any:
        function = _UFUNCS[name]
        if inplace:
            return function(self, other, self)
        return function(other, self) if reflected else function(self, other)
    return operator


for _sign, _name in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "pow": "power",
                     "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
                     "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift"}.items():
    setattr(ndarray, f"__{_sign}__", _binary(_name))
    setattr(ndarray, f"__r{_sign}__", _binary(_name, reflected=True))
    setattr(ndarray, f"__i{_sign}__", _binary(_name, inplace=True))
for _sign, _name in {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                     "ge": "greater_equal"}.items():
    setattr(ndarray, f"__{_sign}__", _binary(_name))
ndarray.__neg__ = lambda self: _UFUNCS["negative"](self)  # type: ignore[attr-defined]
ndarray.__abs__ = lambda self: _UFUNCS["absolute"](self)  # type: ignore[attr-defined]
ndarray.__invert__ = lambda self: _UFUNCS["invert"](self)  # type: ignore[attr-defined]
ndarray.__matmul__ = lambda self, other: matmul(self, other)  # type: ignore[attr-defined]


def _function(name: str, parameters: str) -> Callable[..., Any]:
    names = parameters.split()
    creates = name in ("arange", "empty", "full", "ones", "zeros")

    def function(*args: Any, **kwargs: Any) -> Any:
        if names and (len(args) > len(names) or set(kwargs) - set(names)):
            raise TypeError(f"{name}() got an unexpected argument: {args[len(names):]} {kwargs}")
        if not creates and not isinstance(args[0], (ndarray, list, tuple)):
            raise TypeError(f"Argument 'a' has incorrect type (expected cupy.ndarray, got {type(args[0])})")
        if name not in VIEWS and not name.endswith("_like"):  # which make theirs on the current device
            _here(*args, *kwargs.values())
        with np.errstate(all="ignore"):
            result = getattr(np, name)(*map(_numpy, args), **{k: _numpy(v) for k, v in kwargs.items()})
        if name == "argwhere":
            waited("nonzero")
        return _made(result, *args)

    function.__name__ = name
    return function


for _name, _parameters in FUNCTIONS.items():
    globals()[_name] = _function(_name, _parameters)


def array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False, ndmin: int = 0, *,
          blocking: bool = False) -> ndarray:
    inside = obj._a if isinstance(obj, ndarray) else obj
    return ndarray._of(np.array(inside, dtype, copy=True, order=order))


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype):
        return a
    return array(a, dtype)


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if not isinstance(condition, ndarray):
        raise TypeError(f"Unsupported type {type(condition)}")
    _here(condition, x, y)
    return ndarray._of(np.asarray(np.where(condition._a, _numpy(x), _numpy(y))))


def argsort(a: ndarray, axis: int = -1, kind: Any = None) -> ndarray:
    if not a.ndim:
        raise ValueError("Sorting arrays with the rank of zero is not supported")
    if a.dtype.kind == "V":
        raise TypeError("Sorting arrays with dtype 'bfloat16' is not supported")
    _here(a)
    return ndarray._of(np.argsort(_numpy(a), axis=axis, kind="stable"))


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    np.copyto(dst._a, _numpy(src), casting=casting)


def matmul(a: ndarray, b: ndarray, **kwargs: Any) -> ndarray:
    assert not kwargs
    _here(a, b)
    x, y = _numpy(a), _numpy(b)
    if x.dtype.name in ("float16", "bfloat16"):  # added up in float32
        assert x.ndim == y.ndim == 2, "CuPy's batches of products are float32's, or fail"
        return ndarray._of(np.matmul(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype))
    return ndarray._of(np.matmul(x, y))


def as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    """As CuPy's, the view does not know its base; its memory is the same."""
    made = ndarray._of(np.lib.stride_tricks.as_strided(x._a, shape, strides), x)
    made.base = None
    return made


class ElementwiseKernel:
    """Computes what the kernel of that name means on NumPy arrays; that its text says so, other tests show."""

    made: ClassVar[dict[str, ElementwiseKernel]] = {}

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel",
                 reduce_dims: bool = True, preamble: str = "") -> None:
        self.inputs = [p.removeprefix("raw ").split()[0] for p in in_params.split(", ")]
        self.raw = out_params.startswith("raw ")
        (self.output,) = [p.removeprefix("raw ").split()[0] for p in out_params.split(", ")]
        self.operation, self.name, self.preamble = operation, name, preamble
        self.made[name] = self

    def __call__(self, *args: Any) -> ndarray:
        _here(*args)
        *args_, out = args if len(args) > len(self.inputs) else (*args, None)
        for a, kind in zip(args_, self.inputs, strict=True):
            assert isinstance(a, (ndarray, np.generic)), "CuPy kernels take CuPy's arrays and scalars"
            if a.dtype != kind:
                raise TypeError(f"Type is mismatched: {kind} and {a.dtype}")
        if out is None and not any(isinstance(a, ndarray) for a in args_):
            raise ValueError("Loop size is undecided.")
        given = [_numpy(a) for a in args_]
        if self.raw:
            meaning(self.name)(*given, out._a)
            return out
        with np.errstate(all="ignore"):
            result = meaning(self.name)(*given, *([] if out is None else [out.shape]))
        assert result.dtype == self.output
        if out is None:
            return ndarray._of(np.array(result))
        out._a[...] = result
        return out


def get_default_memory_pool() -> MemoryPool:
    return pool


def _cuda() -> types.ModuleType:
    module = types.ModuleType("cupy.cuda")
    runtime = types.ModuleType("cupy.cuda.runtime")
    runtime.getDeviceCount = lambda: COUNT  # type: ignore[attr-defined]
    runtime.CUDARuntimeError = CUDARuntimeError  # type: ignore[attr-defined]
    runtime.driverGetVersion = runtime.runtimeGetVersion = lambda: 13000  # type: ignore[attr-defined]
    runtime.getDeviceProperties = lambda i: {  # type: ignore[attr-defined]
        "name": b"Stand-in", "totalGlobalMem": 139 << 30, "multiProcessorCount": 132, "major": 9, "minor": 0,
        "sharedMemPerBlock": 49152, "warpSize": 32, "maxThreadsPerMultiProcessor": 2048, "l2CacheSize": 60 << 20}
    found = {"Device": Device, "Stream": Stream, "Event": Event, "get_elapsed_time": get_elapsed_time,
             "runtime": runtime, "is_available": lambda: True, "get_current_stream": get_current_stream,
             "MemoryPointer": MemoryPointer, "MemoryPool": MemoryPool, "alloc_pinned_memory": alloc_pinned_memory,
             "MemoryHook": MemoryHook, "ExternalStream": ExternalStream}
    vars(module).update(found)
    return module


def _transform(name: str, parameters: str) -> Callable[..., Any]:
    """A function of `cupy.fft`."""
    names = parameters.split()

    def function(a: ndarray, *args: Any, **kwargs: Any) -> ndarray:
        assert len(args) < len(names)
        assert set(kwargs) <= set(names)
        assert isinstance(a, ndarray)
        _here(a)
        return ndarray._of(np.asarray(getattr(np.fft, name)(a._a, *args, **kwargs)))

    return function


def _module() -> types.ModuleType:
    module = types.ModuleType("cupy")
    for name in FUNCTIONS:
        setattr(module, name, globals()[name])
    vars(module).update(_UFUNCS)
    tricks = types.SimpleNamespace(as_strided=as_strided)
    vars(module).update(
        ndarray=ndarray, ElementwiseKernel=ElementwiseKernel, cuda=_cuda(), __version__=__version__,
        get_default_memory_pool=get_default_memory_pool,
        fft=types.SimpleNamespace(**{n: _transform(n, p) for n, p in FFT.items()}),
        lib=types.SimpleNamespace(stride_tricks=tricks), **{n: getattr(np, n) for n in (
            "float16", "float32", "float64", "int64", "int32", "uint8", "inf", "nan", "newaxis")})
    return module


CUPY = _module()


@functools.cache
def blas() -> FakeBlas:
    """cuBLASLt, of eager products; its `products` are the calls."""
    return FakeBlas()


@functools.cache
def _lt() -> BlasLt:
    return BlasLt(blas(), DriverApi(fake_driver()), bytearray, lambda source, names: [])


def _driver(index: int) -> Any:
    """What eager products need of a GPU's driver."""
    assert index == _current[-1]
    return types.SimpleNamespace(lt=_lt(), stream=lambda: get_current_stream().ptr)


@contextlib.contextmanager
def installed() -> Iterator[types.ModuleType]:
    """CuPy for the time of a `with`, and what multiplies besides."""
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = CUPY
    try:
        with mock.patch.object(products, "of_device", _driver):
            yield CUPY
    finally:
        _current[:] = [0]
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before

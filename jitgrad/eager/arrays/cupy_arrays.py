"""CuPy as the rows of the op table call an array library: NumPy's functions, with its own where CuPy's differ."""

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from jitgrad.determinism import are_deterministic_algorithms_enabled
from jitgrad.device import device, gpu_kernels, gpu_products, patient
from jitgrad.dtypes import HALF_CHARS, INEXACT_KINDS, dtype
from jitgrad.eager.arrays.bounds import Bounds
from jitgrad.eager.arrays.library import Library
from jitgrad.ops.namespaces import ArrayNamespace, Number
from jitgrad.ops.opdef import OPAQUE, REDUCE, OpDef

#: reductions that CuPy has no kernel for where there is nothing to reduce
_UNREDUCED: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.copy(), "prod": lambda x: x.copy(), "amax": lambda x: x.copy(), "amin": lambda x: x.copy(),
    "any": lambda x: x.astype(bool), "all": lambda x: x.astype(bool)}

#: what CuPy adds atomically, by what is added in its place
_ATOMIC = {"int64": np.uint64, "int16": np.int32, "int8": np.int32, "uint8": np.int32, "bool": np.int32,
           "bfloat16": np.float32}


class CupyModule:
    """The functions of `cupy`; those below stand in for NumPy's where CuPy has none or another.

    All others are CuPy's own, under NumPy's names.
    """

    def __init__(self, cupy: Any):
        self.cupy = cupy
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self.as_strided))

    def __getattr__(self, name: str) -> Any:
        function = self.__dict__[name] = getattr(self.cupy, name)
        return function

    def as_strided(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """A view; where it is all in a row, one that knows its base, as the engine's reuse of memory needs."""
        y = self.cupy.lib.stride_tricks.as_strided(x, shape, strides)
        if y.flags.c_contiguous and x.flags.c_contiguous and y.size <= x.size:
            return x.reshape(-1)[:y.size].reshape(shape)
        return y

    def add_at(self, x: Any, key: Any, values: Any) -> None:
        """x[key] += values, repeated places added up.

        In no order, so that sums of floats may differ in the last bit, unless algorithms must be deterministic.
        """
        if are_deterministic_algorithms_enabled() and x.dtype.kind in INEXACT_KINDS:
            self._in_order(x, key, values, "add")
            return
        if x.dtype.kind == "c":
            for part in ("real", "imag"):
                self.add_at(getattr(x, part), key, getattr(values, part))
            return
        wide = _ATOMIC.get(x.dtype.name)
        if wide is None:
            self.cupy.add.at(x, key, values)
        elif wide is np.uint64:  # the same sums, modulo 2^64
            self.cupy.add.at(x.view(np.uint64), key, values.astype(np.int64).view(np.uint64))
        else:
            total = x.astype(wide)
            self.cupy.add.at(total, key, values.astype(wide))
            x[...] = total

    def put_at(self, x: Any, key: Any, values: Any) -> None:
        """x[key] = values; of what goes to one place anything stays; the last if algorithms must be deterministic."""
        if are_deterministic_algorithms_enabled():
            self._in_order(x, key, values, "put")
        else:
            x[key] = values

    def _in_order(self, x: Any, key: Any, values: Any, what: str) -> None:
        """The same one after the other, in the order of the indices: places sorted, one thread for each."""
        kernels = gpu_kernels()
        places = self.cupy.arange(x.size).reshape(x.shape)[key]
        values = self.cupy.ascontiguousarray(self.cupy.broadcast_to(self.cupy.asarray(values, x.dtype), places.shape))
        places, line = places.reshape(-1), self.cupy.ascontiguousarray(x).reshape(-1)
        if places.size:
            kernels.in_order(self.cupy, what, places, self.cupy.argsort(places), values.reshape(-1), line)
        if line.base is not x:
            x[...] = line.reshape(x.shape)

    def flip(self, x: Any, axes: Any) -> Any:
        """A view with axes reversed."""
        return self.cupy.flip(x, axes) if axes != () else x

    def argsort(self, x: Any, axis: int, kind: Any = None) -> Any:
        """The order of the elements, equal ones as they come; of bfloat16, which CuPy does not sort, as float32."""
        return self.cupy.argsort(x.astype(np.float32) if x.dtype.kind == "V" else x, axis=axis)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """a where the condition, an array or a NumPy bool, holds."""
        if not isinstance(condition, self.cupy.ndarray):
            condition = self.cupy.asarray(condition)
        return self.cupy.where(condition, a, b)

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        """An array on the GPU of an array or number, wherever it is."""
        return self.cupy.asarray(x, dtype=dtype)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        """A view of an array, or of a NumPy scalar brought to the GPU."""
        return self.cupy.broadcast_to(self.cupy.asarray(x), shape)

    def concatenate(self, xs: Any, axis: int) -> Any:
        """A new array."""
        return self.cupy.concatenate(list(xs), axis=axis)


def _wait(cupy: Any, array: Any) -> None:
    """Wait for a CuPy array where Ctrl-C has to get through; not for a NumPy scalar."""
    wait = patient.get(array.device.id) if patient and isinstance(array, cupy.ndarray) else None
    if wait is not None:
        with array.device:
            wait(cupy.cuda.get_current_stream().ptr)


class CupyNamespace(ArrayNamespace):
    """The rows on CuPy arrays. 0-dim operands may be NumPy scalars, which kernels take as arguments."""

    xp: Any

    def bind(self, op: OpDef) -> Callable[..., Any]:
        xp = self.xp
        kernels = gpu_kernels()
        if op.name == "random.uniform":
            return functools.partial(_uniform, functools.partial(kernels.draw, xp.cupy))
        if op.name == "random.bits":
            return lambda seed, offset, shape: kernels.draw(xp.cupy, "int64", seed, offset, shape)
        run: Callable[..., Any] = super().bind(op)
        own = kernels.runner(xp.cupy, op)
        if own is not None:  # our kernels are of real numbers; CuPy has complex ones
            run = _by_numbers(own, run) if "complex" in op.traits else own
        if op.kind is OPAQUE:  # small matrices: computed by NumPy, as by compiled programs
            def on_host(*xs: Any, **attrs: Any) -> Any:
                assert op.impl is not None
                for x in xs:
                    _wait(xp.cupy, x)
                results = op.impl(np, *[xp.cupy.asnumpy(x) for x in xs], **attrs)
                return tuple(map(xp.asarray, results)) if isinstance(results, tuple) else xp.asarray(results)

            return on_host
        if op.infix == "@":
            return lambda a, b: _half_product(xp, a, b) if _is_half_product(a, b) else run(a, b)
        if op.name in _UNREDUCED and op.kind is REDUCE:
            unreduced = _UNREDUCED[op.name]
            return lambda x, axes, keepdim: unreduced(x) if axes == () else run(x, axes=axes, keepdim=keepdim)
        return run

    def literal(self, value: Number, like: Any) -> Any:
        return _np(like.dtype).type(value)


def _by_numbers(of_reals: Callable[..., Any], of_all: Callable[..., Any]) -> Callable[..., Any]:
    """`of_all` where an operand, or the result, has complex numbers."""
    def run(*xs: Any, **attrs: Any) -> Any:
        wanted = attrs.get("dtype")
        chosen = of_all if any(getattr(x, "dtype", None) is not None and x.dtype.kind == "c" for x in xs) or (
            wanted is not None and _np(wanted).kind == "c") else of_reals
        return chosen(*xs, **attrs)

    return run


def _is_half_product(a: Any, b: Any) -> bool:
    """Whether both are of one half type: added up in float32 and rounded once, as in float32 and then rounded."""
    kind = a.dtype.char
    return kind in HALF_CHARS and b.dtype.char == kind


def _half_product(xp: Any, a: Any, b: Any) -> Any:
    """By tensor cores: one matrix and all rows by CuPy, whose batches are float32's, or, of bfloat16, do not exist."""
    if b.ndim > 2:
        return gpu_products().batches(xp.cupy, a, b)
    if a.ndim > 2:
        rows = xp.matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b)
        return rows.reshape(*a.shape[:-1], b.shape[1])
    return xp.matmul(a, b)


def _uniform(draw: Callable[..., Any], seed: int, offset: int, shape: Sequence[int], dtype: Any) -> Any:
    """Uniform numbers; of a half type as float32's, rounded."""
    return draw("float32", seed, offset, shape).astype(dtype.np) if dtype.is_half else draw(
        dtype.name, seed, offset, shape)


def _np(d: Any) -> Any:
    return d.np if isinstance(d, dtype) else d


class CupyLibrary(Library):
    """CuPy's arrays, on whichever GPU they are."""

    def __init__(self, cupy: Any):
        self.cupy = cupy
        xp = CupyModule(cupy)
        super().__init__(xp, CupyNamespace(xp), cupy.ndarray)  # type: ignore[arg-type]
        self._devices: dict[int, device] = {}
        self.bounds = Bounds(cupy)
        self.several = cupy.cuda.runtime.getDeviceCount() > 1

    def device_of(self, array: Any) -> device:
        index: int = array.device.id
        found = self._devices.get(index)
        if found is None:
            found = self._devices[index] = device("cuda", index)
        return found

    def on(self, where: device) -> Any:
        return self.cupy.cuda.Device(where.index)

    def near(self, arrays: Sequence[Any]) -> Any:
        if not self.several:
            return nullcontext()
        return next(a.device for a in arrays if type(a) is self.ndarray)

    def from_host(self, array: Any, where: device) -> Any:
        with self.on(where):
            return self.cupy.asarray(array)

    def to_host(self, array: Any) -> Any:
        _wait(self.cupy, array)
        self.bounds.look()
        return self.cupy.asnumpy(array)

    def expect(self, worst: Any, error: type[Exception], head: str, tail: str) -> None:
        self.bounds.await_(worst, error, head, tail)

    def settled(self) -> None:
        self.bounds.look()

    def scalar(self, array: Any) -> Any:
        return array[()]

    def writable(self, array: Any) -> bool:
        return not any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))

    def owns(self, array: Any) -> bool:
        return array.base is None and bool(array.flags.c_contiguous)

    def shares(self, a: Any, b: Any) -> bool:
        return a.data.mem is b.data.mem  # of empty arrays too: a view is one

    def memory(self, array: Any) -> Any:
        return array.data.mem

    def together(self, a: Any, b: Any) -> bool:
        return not self.several or a.device.id == b.device.id

    def overlap(self, a: Any, b: Any) -> bool:
        return self.shares(a, b) and np.shares_memory(_placed(a), _placed(b))

    def address(self, array: Any) -> int:
        return array.data.ptr  # type: ignore[no-any-return]


class _Place:
    """Where an array's elements are, for NumPy, which does not look at them."""

    def __init__(self, array: Any):
        self.__array_interface__ = {"data": (array.data.ptr, False), "shape": array.shape, "strides": array.strides,
                                    "typestr": f"|V{array.itemsize}", "version": 3}


def _placed(array: Any) -> np.ndarray[Any, Any]:
    """An array of NumPy's at the same addresses, of which nothing may be read."""
    return np.asarray(_Place(array))

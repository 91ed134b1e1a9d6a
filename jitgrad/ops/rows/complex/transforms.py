"""Discrete Fourier transforms, all without a factor: the library multiplies by what `norm` says.

`fft` is y_k = sum of x_n exp(-2 pi i n k / N) along each of its axes, with the other sign where `inverse`; `rfft` the
first N // 2 + 1 of these of a real x along one axis; `irfft` the sum of n terms, with the other sign, of which the
operand is the first half and its conjugate the rest (imaginary parts of the first and of a middle one do not count).

The rows `..._parts` do the same on parts that are tensors of their own, as a script has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dims import floordiv
from jitgrad.ops.opdef import SCAN, register
from jitgrad.ops.rules import part_dtype
from jitgrad.ops.specs import same
from jitgrad.ops.types import TensorType

# --- NumPy's ---------------------------------------------------------------------------------------------------------


def _complex(xp: Any, re: Any, im: Any) -> Any:
    z = xp.empty(re.shape, np.result_type(re.dtype, np.complex64))
    z.real, z.imag = re, im
    return z


def _fft(xp: Any, x: Any, axes: tuple[int, ...], inverse: bool) -> Any:
    if not x.size:
        return x.copy()
    y = xp.fft.ifftn(x, axes=axes, norm="forward") if inverse else xp.fft.fftn(x, axes=axes)
    return y.astype(x.dtype, copy=False)


def _rfft(xp: Any, x: Any, axis: int) -> Any:
    d = np.result_type(x.dtype, np.complex64)
    if not x.size:
        return xp.zeros((*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1:]), d)
    return xp.fft.rfft(x, axis=axis).astype(d, copy=False)


def _irfft(xp: Any, x: Any, axis: int, n: int) -> Any:
    d = np.dtype(f"f{x.dtype.itemsize // 2}")
    if not x.size:
        return xp.zeros((*x.shape[:axis], n, *x.shape[axis + 1:]), d)
    return xp.fft.irfft(x, n, axis, norm="forward").astype(d, copy=False)


def _parts(z: Any) -> tuple[Any, Any]:
    return z.real.copy(), z.imag.copy()


# --- sizes -----------------------------------------------------------------------------------------------------------


def _half(x: TensorType, axis: int) -> tuple[Any, ...]:
    return (*x.dims[:axis], floordiv(x.dims[axis], 2) + 1, *x.dims[axis + 1:])


def _whole(x: TensorType, axis: int, n: Any) -> tuple[Any, ...]:
    return (*x.dims[:axis], n, *x.dims[axis + 1:])


# --- derivatives -----------------------------------------------------------------------------------------------------


def _padded(F: Any, g: Any, x: Any, axis: int) -> Any:
    """g, of half an axis, with zeros up to x's size of it."""
    missing = x.shape[axis] - g.shape[axis]
    return F.pad(g, pads=tuple([(0, missing if a == axis else 0) for a in range(g.ndim)]), value=0)


def _weights(F: Any, x: Any, axis: int, n: Any) -> Any:
    """How often each element counts in a real transform of length n: once at 0 and in the middle, else twice."""
    k = F.arange(length=x.shape[axis], dtype=dtypes.int64)
    once = F.logical_or(F.eq(k, 0), F.eq(k * 2, F.cast(_size(F, k, n), dtype=dtypes.int64)))
    w = F.where(once, F.cast(F.literal(1, k), dtype=part_dtype(x)), F.cast(F.literal(2, k), dtype=part_dtype(x)))
    return F.reshape(w, shape=(x.shape[axis], *(1,) * (x.ndim - axis - 1)))


def _size(F: Any, like: Any, n: Any) -> Any:
    """A size as a tensor: how many elements an axis of that size has."""
    return F.count(TensorType(dtypes.int64, (n,)), (0,))


def _rfft_vjp(F: Any, g: Any, y: Any, x: Any, axis: int) -> tuple[Any]:
    return (F.real(F.fft(_padded(F, g, x, axis), axes=(axis,), inverse=True)),)


def _irfft_vjp(F: Any, g: Any, y: Any, x: Any, axis: int, n: Any) -> tuple[Any]:
    return (F.rfft(g, axis=axis) * F.cast(_weights(F, x, axis, n), dtype=x.dtype),)


def _filled(F: Any, g: Any, y: Any) -> tuple[Any, Any]:
    """The cotangents of both parts: zeros for one that nothing was made of."""
    re, im = [F.zeros_like(v) if c is None else c for c, v in zip(g, y, strict=True)]
    return re, im


def _fft_parts_vjp(F: Any, g: Any, y: Any, *parts: Any, axes: tuple[int, ...], inverse: bool) -> tuple[Any, Any]:
    found: tuple[Any, Any] = F.fft_parts(*_filled(F, g, y), axes=axes, inverse=not inverse)
    return found


def _rfft_parts_vjp(F: Any, g: Any, y: Any, x: Any, axis: int) -> tuple[Any]:
    padded = [_padded(F, v, x, axis) for v in _filled(F, g, y)]
    return (F.fft_parts(*padded, axes=(axis,), inverse=True)[0],)


def _irfft_parts_vjp(F: Any, g: Any, y: Any, re: Any, im: Any, axis: int, n: Any) -> tuple[Any, Any]:
    w = _weights(F, re, axis, n)
    first, second = F.rfft_parts(g, axis=axis)
    return first * w, second * w


# --- rows ------------------------------------------------------------------------------------------------------------


def _z(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


register("fft", 1, SCAN, "The Fourier transform over axes, or with the other sign.", impl=_fft, spec=same,
         dtypes="complex", traits={"in_library"}, vjp=lambda F, g, y, x, **how: (F.fft(g, **how),),
         pair=lambda F, x, **how: F.pair(*F.fft_parts(x.re, x.im, **how)), samples=lambda rng: [
             ((_z(rng, 3, 5),), {"axes": axes, "inverse": back}) for axes in ((1,), (0, 1)) for back in (False, True)])
register("rfft", 1, SCAN, "The first half of the Fourier transform of a real tensor along an axis.", impl=_rfft,
         spec=lambda x, axis: TensorType(x.dtype.to_complex(), _half(x, axis)), dtypes="wide",
         traits={"in_library", "wirtinger"}, vjp=_rfft_vjp, pair=lambda F, x, axis: F.pair(*F.rfft_parts(x, axis=axis)),
         samples=lambda rng: [((rng.normal(size=(4, 5)),), {"axis": axis}) for axis in (0, 1)])
register("irfft", 1, SCAN, "The real tensor of n elements along an axis of whose transform this is the first half.",
         impl=_irfft, spec=lambda x, axis, n: TensorType(x.dtype.to_real(), _whole(x, axis, n)), dtypes="complex",
         traits={"in_library", "wirtinger"}, vjp=_irfft_vjp,
         pair=lambda F, x, **how: F.irfft_parts(x.re, x.im, **how),
         samples=lambda rng: [((_z(rng, 3, 4),), {"axis": 1, "n": n}) for n in (6, 7)])

register("fft_parts", 2, SCAN, "`fft` of a real and an imaginary part, in two parts.", dtypes="wide",
         impl=lambda xp, re, im, **how: _parts(_fft(xp, _complex(xp, re, im), **how)),
         spec=lambda re, im, **how: (re, im), traits={"in_library"}, vjp=_fft_parts_vjp, samples=lambda rng: [
             (tuple(rng.normal(size=(2, 3, 5))), {"axes": axes, "inverse": back})
             for axes in ((1,), (0, 1)) for back in (False, True)])
register("rfft_parts", 1, SCAN, "`rfft` in two parts.", dtypes="wide", traits={"in_library"}, vjp=_rfft_parts_vjp,
         impl=lambda xp, x, axis: _parts(_rfft(xp, x, axis)),
         spec=lambda x, axis: (TensorType(x.dtype, _half(x, axis)),) * 2,
         samples=lambda rng: [((rng.normal(size=(4, 5)),), {"axis": axis}) for axis in (0, 1)])
register("irfft_parts", 2, SCAN, "`irfft` of a real and an imaginary part.", dtypes="wide", traits={"in_library"},
         impl=lambda xp, re, im, **how: _irfft(xp, _complex(xp, re, im), **how), vjp=_irfft_parts_vjp,
         spec=lambda re, im, axis, n: TensorType(re.dtype, _whole(re, axis, n)),
         samples=lambda rng: [(tuple(rng.normal(size=(2, 3, 4))), {"axis": 1, "n": n}) for n in (6, 7)])

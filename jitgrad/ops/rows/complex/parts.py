"""Complex numbers: their parts, what makes them of reals, conjugates, sizes and directions.

Gradients are torch's: that of a real L with respect to z is dL/dRe z + i dL/dIm z.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops import specs
from jitgrad.ops.complex import pairs
from jitgrad.ops.opdef import VIEW, register
from jitgrad.ops.rows._pointwise import pointwise
from jitgrad.ops.rules import each
from jitgrad.ops.types import TensorType


def _numbers(*shape: int) -> Any:
    return lambda rng: [((rng.normal(size=shape) + 1j * rng.normal(size=shape),), {})]


def _complex(F: Any, re: Any, im: Any) -> Any:
    """The complex numbers that have these parts, of which one may be None: zeros."""
    re, im = F.zeros_like(im) if re is None else re, F.zeros_like(re) if im is None else im
    return F.complex(re, im)


# --- parts ---------------------------------------------------------------------------------------------------------


def _part_spec(x: TensorType) -> TensorType:
    return TensorType(x.dtype.to_real(), x.dims)


for _name, _doc, _part, _vjp in (
        ("real", "The real parts.", "re", lambda F, g, y, x: (_complex(F, g, None),)),
        ("imag", "The imaginary parts.", "im", lambda F, g, y, x: (_complex(F, None, g),))):
    register(_name, 1, VIEW, _doc, impl=lambda xp, x, _name=_name: getattr(x, _name), spec=_part_spec, vjp=_vjp,
             traits={"cheap"}, pair=lambda F, x, _part=_part: getattr(x, _part), samples=_numbers(2, 3),
             dtypes="complex")


def _as_real(xp: Any, x: Any) -> Any:
    x = xp.asarray(x)  # a NumPy scalar, as sums of cotangents are, has no memory behind its real part
    re = x.real
    strided = xp.lib.stride_tricks.as_strided
    return strided(re, (*x.shape, 2), (*x.strides, re.dtype.itemsize))


def _as_complex(xp: Any, x: Any) -> Any:
    d = np.dtype(f"c{2 * x.dtype.itemsize}")
    if not x.size:
        return xp.empty(x.shape[:-1], d)
    if x.strides[-1] != x.dtype.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % d.itemsize for s, n in zip(x.strides[:-1], x.shape[:-1], strict=True) if n > 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return x.view(d)[..., 0]


register("view_as_real", 1, VIEW, "The two parts along a new last axis.", impl=_as_real, traits={"cheap"},
         spec=lambda x: TensorType(x.dtype.to_real(), (*x.dims, 2)), dtypes="complex",
         vjp=lambda F, g, y, x: (F.complex(*_along_last(F, g)),), samples=_numbers(2, 3),
         pair=pairs.interleaved)
register("view_as_complex", 1, VIEW, "Complex numbers of the two parts along the last axis.", impl=_as_complex,
         spec=lambda x: TensorType(x.dtype.to_complex(), x.dims[:-1]), traits={"cheap"}, dtypes="wide",
         vjp=lambda F, g, y, x: (F.view_as_real(g),), pair=lambda F, x: F.of_whole(x),
         samples=lambda rng: [((rng.normal(size=(3, 2)),), {})])


def _along_last(F: Any, x: Any) -> tuple[Any, Any]:
    re, im = [F.select(x, axis=x.ndim - 1, index=k) for k in (0, 1)]
    return re, im


# --- made of reals -------------------------------------------------------------------------------------------------


def _joined(xp: Any, re: Any, im: Any) -> Any:
    y = xp.empty(np.broadcast_shapes(re.shape, im.shape), np.result_type(re.dtype, np.complex64))
    y.real, y.imag = re, im  # not re + 1j * im, of which infinities make NaN
    return y


pointwise("complex", 2, "re + i im.", _joined, spec=lambda re, im: TensorType(
              re.dtype.to_complex(), specs.pointwise(re, im).dims), traits={"cheap", "wirtinger", "converts"},
          pair=lambda F, re, im: F.pair(F.contiguous(re), F.contiguous(im)), dtypes="wide",
          vjp=each(lambda F, g, y, re, im: F.real(g), lambda F, g, y, re, im: F.imag(g)),
          samples=lambda rng: [((rng.normal(size=(2, 3)), rng.normal(size=(3,))), {})])
pointwise("conj", 1, "The conjugate.", "conjugate", vjp=lambda F, g, y, x: (F.conj(g),), dtypes="complex",
          traits={"cheap", "involution", "wirtinger"}, pair=lambda F, x: F.pair(F.contiguous(x.re), -x.im),
          samples=_numbers(2, 3))

# --- sizes and directions ------------------------------------------------------------------------------------------


def _scaled(F: Any, x: Any, by: Any) -> Any:
    """Complex numbers times real ones."""
    return x * F.cast(by, dtype=x.dtype)


pointwise("sgn", 1, "x / |x|, 0 at 0.", dtypes="complex", samples=_numbers(2, 3), pair=lambda F, x: _sgn_pair(F, x),
          compose=lambda F, x: F.where(F.eq(x, 0), 0.0, x / F.cast(_size(F, x), dtype=x.dtype)))


def _size(F: Any, x: Any) -> Any:
    """|x|, 1 at 0."""
    return F.where(F.eq(x, 0), 1.0, F.modulus(x))


def _sgn_pair(F: Any, x: Any) -> Any:
    size = _size(F, x)
    return F.pair(x.re / size, x.im / size)


pointwise("modulus", 1, "|x|; its slope at 0 is 0, as in torch.", lambda xp, x: xp.absolute(x), dtypes="complex",
          spec=_part_spec, vjp=lambda F, g, y, x: (_scaled(F, F.sgn(x), g),), traits={"wirtinger"},
          pair=pairs.modulus, ref="numpy.absolute", samples=_numbers(2, 3))

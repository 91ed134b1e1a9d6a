"""Whole numbers and the bits of floats, by NumPy: what it computes exactly and kernels have no form of."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import int32
from jitgrad.ops import checks, specs
from jitgrad.ops.batching.rules import pointwise
from jitgrad.ops.opdef import NONDIFF, OPAQUE, register
from jitgrad.ops.rules import each
from jitgrad.ops.types import TensorType


def _broadcasting(name: str, doc: str, *traits: str, **fields: Any) -> None:
    register(name, 2, OPAQUE, doc, traits={"in_library", *traits}, spec=specs.pointwise, check=checks.pointwise,
             batch=pointwise, **fields)


def _whole(rng: np.random.Generator) -> Any:
    return [((rng.integers(-20, 20, (3, 4)), rng.integers(-6, 6, (4,))), {})]


def _floats(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(3, 4)), rng.normal(size=(4,))), {})]


_broadcasting("gcd", "The greatest common divisor, not negative.", impl=lambda xp, a, b: np.gcd(a, b), vjp=NONDIFF,
              dtypes="int", samples=_whole, ref="numpy.gcd")
_broadcasting("lcm", "The least common multiple, not negative.", impl=lambda xp, a, b: np.abs(np.lcm(a, b)),
              vjp=NONDIFF, dtypes="int", samples=_whole, ref="numpy.lcm")
_broadcasting("nextafter", "The number next to a on the way to b.", "converts",
              impl=lambda xp, a, b: np.nextafter(a, b),
              samples=_floats, vjp=each(lambda F, g, y, a, b: F.where(F.ne(a, b), g, 0.0),
                                        lambda F, g, y, a, b: F.zeros_like(b)))


def _frexp(xp: Any, x: Any) -> Any:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


def _frexp_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    if g[0] is None:
        return (F.zeros_like(x),)
    return (g[0] / F.exp2(F.cast(y[1], dtype=x.dtype)),)


register("frexp", 1, OPAQUE, "The mantissa in [1/2, 1) and the exponent of 2.", impl=_frexp, vjp=_frexp_vjp,
         traits={"in_library"}, spec=lambda x: (x, TensorType(int32, x.dims)),
         samples=lambda rng: [((rng.uniform(0.6, 0.9, (3, 4)) * np.array([1.0, 4, 1024, 0.125]),), {})])

"""Accuracy of the run-time library: float32 over a walk of all bit patterns, float64 over random ranges.

Oracles: float64 NumPy, the C library and SciPy for float32; long double NumPy and the C library for float64. The
bounds are in units in the last place of the exact result; those above 2 are listed.
"""

import ctypes
import ctypes.util
import math

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.run import runtime
from jitgrad.dims import Symbol, dim
from jitgrad.kernels.functions import binary64, unary64
from jitgrad.kernels.runtime import CIRCULAR
from tests.codegen.kernels import run

special = pytest.importorskip("scipy.special")

NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
               "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


def lgamma(x):
    """The C library's (Python's own and SciPy's are inaccurate next to 1 and 2)."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.lgamma.restype, library.lgamma.argtypes = ctypes.c_double, [ctypes.c_double]
    return np.array([library.lgamma(v) for v in np.asarray(x).tolist()])


def digamma(x):
    """SciPy's right of 0; left of it by recurrence, since SciPy is inaccurate next to the poles; NaN below -40."""
    x = np.asarray(x, np.longdouble)
    steps = np.where((x < 0) & (x > -40), np.ceil(-x) + 1, 0)
    total, at = np.zeros_like(x), x.copy()
    for _ in range(41):
        more = steps > 0
        total = np.where(more, total - 1 / at, total)
        at, steps = np.where(more, at + 1, at), steps - 1
    value = special.digamma(at.astype(np.float64)) + total
    return np.where((x <= -40) | ((x < 0) & (x == np.floor(x))), np.nan, value)


BEYOND_NUMPY = {"erf": np.vectorize(math.erf, otypes=[float]), "erfc": np.vectorize(math.erfc, otypes=[float]),
                "erfinv": special.erfinv, "lgamma": lgamma, "digamma": digamma}
BOUND32 = 2.0
#: bounds of float64 functions above 2; those of digamma and erfinv contain SciPy's own error
BOUNDS64 = {"acosh": 2.5, "erfc": 4.0, "erfinv": 4.0, "lgamma": 4.0, "digamma": 4.0}
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1e-45, -1e-45]
needs_long_double = pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long double is no wider")


def apply(name, d, *xs):
    arity = len(xs)
    kernel = Kernel((dim(Symbol()),), (), (Operand(d, (1,)),) * arity + (Operand(d, (1,), "out"),), (),
                    (*[Stmt("load", operand=k) for k in range(arity)], Stmt(name, tuple(range(arity)), d),
                     Stmt("store", (arity,), operand=arity)))
    out = np.empty_like(xs[0])
    run(kernel, (len(out),), (*xs, out))
    return out


def reference(name, *xs):
    return (BEYOND_NUMPY.get(name) or getattr(np, NUMPY_NAMES.get(name, name)))(*xs)


def errors(got, exact):
    """Distance in units in the last place; inf where NaN or infinity is misplaced."""
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        spacing = np.spacing(np.where(np.isfinite(want), np.abs(want), 1).astype(got.dtype)).astype(exact.dtype)
        distance = np.abs(got.astype(exact.dtype) - exact) / spacing
        border = np.isinf(want) != np.isinf(got)  # overflow: half a unit decides
        top = np.finfo(got.dtype).max
        distance = np.where(border & (np.minimum(np.abs(got), np.abs(want)) >= top * (1 - 2e-7)), 1, distance)
        distance = np.where(same, np.where(np.isfinite(want), distance, 0), distance)
    return np.where(np.isnan(distance), np.where(same, 0, np.inf), distance)


def check(name, got, exact, bound, *xs, ignore=None):
    distance = errors(got, exact)
    if ignore is not None:
        distance = np.where(ignore, 0, distance)
    worst = int(np.argmax(distance))
    assert distance[worst] <= bound, (f"{name}{tuple(x[worst] for x in xs)} = {got[worst]!r}, exactly "
                                      f"{exact[worst]!r}: {distance[worst]:.2f} ulp")


def ill_conditioned(name, x, exact):
    """Left of 0 lgamma and digamma have zeros next to which only an absolute error means anything."""
    if name == "lgamma":
        return ((x < 0) & (np.abs(exact) < 2)) | np.isneginf(x)
    if name == "digamma":
        return (x < 0) & ~(np.abs(exact) > 30)
    return None


@pytest.mark.parametrize("name", [*unary64, *CIRCULAR])
def test_float32_over_the_bit_patterns(name):
    x = np.arange(0, 1 << 32, 40009 if name in BEYOND_NUMPY else 8009, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([x.view(np.float32), np.array(EDGES, np.float32)])
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble) if name in ("sin", "cos", "tan") else x.astype(np.float64)
        exact = reference(name, wide)
    check(name, apply(name, dtypes.float32, x), exact, BOUND32, x, ignore=ill_conditioned(name, x, exact))


@needs_long_double
@pytest.mark.parametrize("name", [*unary64, *CIRCULAR])
def test_float64(name):
    rng = np.random.default_rng(0)
    n = 4000
    x = np.concatenate([rng.standard_normal(n), rng.uniform(-1, 1, n), rng.uniform(-30, 30, n),
                        rng.uniform(-750, 750, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-300, 300, n),
                        1 + rng.standard_normal(n) * 1e-3, 2 + rng.standard_normal(n) * 1e-3, EDGES, [5e-324, 2e-310]])
    with np.errstate(all="ignore"):
        exact = reference(name, x if name in BEYOND_NUMPY else x.astype(np.longdouble)).astype(np.longdouble)
    bound = BOUNDS64.get(name, 2.0)
    check(name, apply(name, dtypes.float64, x), exact, bound, x, ignore=ill_conditioned(name, x, exact))


@needs_long_double
@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", [*binary64, "fmod"])
def test_two_operands(name, d):
    rng = np.random.default_rng(1)
    n = 5000
    spread = 10.0 ** rng.uniform(-30, 30, n)
    x = np.concatenate([rng.uniform(0, 5, n), spread, 1 + rng.standard_normal(n) * 1e-6, -rng.integers(0, 20, n)])
    y = np.concatenate([rng.standard_normal(n) * 3, rng.standard_normal(n), rng.standard_normal(n) * 1e6,
                        rng.integers(-20, 20, n)])
    ex, ey = (v.ravel() for v in np.meshgrid([*EDGES, -8.0, 2.5], [*EDGES, -3.0, 7.0]))
    x, y = np.concatenate([x, ex]).astype(d.np), np.concatenate([y, ey]).astype(d.np)
    with np.errstate(all="ignore"):
        exact = reference(name, x.astype(np.longdouble), y.astype(np.longdouble))
    got = apply(name, d, x, y)
    check(name, got, exact, 0 if name == "fmod" else 2.0, x, y)
    zero = got == 0
    with np.errstate(all="ignore"):
        rounded = exact.astype(d.np)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("name", ["exp", "log1p", "tanh", "sin", "erf", "sinh"])
def test_odd_functions_keep_the_sign_of_zero_and_scalars_equal_lanes(name):
    """The scalar form is a lane of the vector form: a number does not depend on where it is computed."""
    loaded = runtime.symbols()
    for suffix, ctype, d in (("f32", ctypes.c_float, dtypes.float32), ("f64", ctypes.c_double, dtypes.float64)):
        scalar = ctypes.CFUNCTYPE(ctype, ctype)(loaded[f"jg_{name}_{suffix}"])
        x = np.linspace(-0.9, 5, 33).astype(d.np)
        lanes = apply(name, d, x)
        np.testing.assert_array_equal(lanes, np.array([scalar(v) for v in x.tolist()], d.np))
        if name != "exp":
            assert np.signbit(apply(name, d, np.array([-0.0], d.np)))[0]


@needs_long_double
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles(name):
    rng = np.random.default_rng(2)
    x = np.concatenate([10.0 ** rng.uniform(10, 308, 2000) * rng.choice([-1, 1], 2000),
                        [6381956970095103 * 2.0**797, 5.31937264832654141671e255, 1e22]])
    check(name, apply(name, dtypes.float64, x), reference(name, x.astype(np.longdouble)), 2.0, x)


def test_half_conversions_over_all_patterns():
    """The library's own conversions, for machines that lack the instructions."""
    symbols = runtime.symbols()
    text = """
declare float @__extendhfsf2(half)
declare half @__truncsfhf2(float)
define void @widen(i64 %n, ptr %x, ptr %y) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %a = getelementptr half, ptr %x, i64 %i
  %h = load half, ptr %a
  %f = call float @__extendhfsf2(half %h)
  %b = getelementptr float, ptr %y, i64 %i
  store float %f, ptr %b
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %n
  br i1 %c, label %loop, label %end
end:
  ret void
}
define void @narrow(i64 %n, ptr %x, ptr %y) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %a = getelementptr float, ptr %x, i64 %i
  %f = load float, ptr %a
  %h = call half @__truncsfhf2(float %f)
  %b = getelementptr half, ptr %y, i64 %i
  store half %h, ptr %b
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %n
  br i1 %c, label %loop, label %end
end:
  ret void
}
"""
    loaded = engine.load(engine.compile_module(text), symbols, ["widen", "narrow"])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = np.empty(len(x), np.float32)
    kind(loaded.address("widen"))(len(x), x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, x.astype(np.float32))
    exact = x.astype(np.float32)
    with np.errstate(all="ignore"):
        w = np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), (exact[:-1] + exact[1:]) / 2])
        z = np.empty(len(w), np.float16)
        kind(loaded.address("narrow"))(len(w), w.ctypes.data, z.ctypes.data)
        np.testing.assert_array_equal(z, w.astype(np.float16))

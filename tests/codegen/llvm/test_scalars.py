"""Scalar primitives as LLVM instructions: every row of the op table, every dtype, in vectors and in scalars."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.llvm.scalars import EMIT
from jitgrad.codegen.program.kernel import RANDOM_WORD, Kernel, Operand, Stmt
from jitgrad.dims import Symbol, dim
from jitgrad.eager.interop import finfo
from jitgrad.ops import OPS
from jitgrad.ops.opdef import is_scalar
from tests.codegen.kernels import run

COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}
ACCEPTED = {"any": dtypes.REALS, "number": [d for d in dtypes.REALS if d is not dtypes.bool_], "float": dtypes.FLOATS,
            "int": dtypes.INTEGERS, "integral": (dtypes.bool_, *dtypes.INTEGERS), "bool": (dtypes.bool_,)}
CASES = [(OPS[name], d) for name in OPS if is_scalar(name) and name not in ("cast", "bitcast", "where")
         for d in ACCEPTED[OPS[name].dtypes]]


def samples(op, d, count, rng):
    """Operands with edge values, `count` each."""
    if d is dtypes.bool_:
        return [rng.integers(0, 2, count).astype(bool) for _ in range(op.arity)]
    if not d.is_floating_point:
        info = np.iinfo(d.np)
        shift = op.name.endswith("shift")
        low, high = (0, 8 * d.itemsize) if shift else (max(info.min, -20), 20)
        arrays = [rng.integers(low, high, count).astype(d.np) for _ in range(op.arity)]
        if op.name == "pow":
            arrays[1] = rng.integers(0, 9, count).astype(d.np)
        elif not shift:
            arrays[0][:4] = info.min, info.max, 0, 1
        if op.name in ("floor_divide", "remainder", "fmod"):
            arrays[1][arrays[1] == 0] = 3
        return arrays
    low, high = op.domain
    arrays = [rng.uniform(low, high, count).astype(d.np) for _ in range(op.arity)]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, finfo(d).tiny]
    for k, array in enumerate(arrays):
        tail = np.array(edges if k % 2 == 0 else edges[::-1], d.np)
        array[-len(tail):] = tail
    return arrays


def test_every_primitive_has_a_row():
    assert set(EMIT) == {*filter(is_scalar, OPS), RANDOM_WORD}


@pytest.mark.parametrize(("op", "d"), CASES, ids=[f"{op.name}-{d.name}" for op, d in CASES])
def test_row(op, d):
    count = 37  # whole vectors and a tail
    rng = np.random.default_rng(7)
    xs = samples(op, d, count, rng)
    attrs = {"n": 2} if op.name == "polygamma" else {}
    with np.errstate(all="ignore"):
        if d.is_half:
            expected = op.impl(np, *[x.astype(np.float32) for x in xs], **attrs)
            expected = expected if op.name in COMPARISONS else expected.astype(d.np)
        else:
            expected = op.impl(np, *xs, **attrs)
    out = dtypes.bool_ if op.name in COMPARISONS else d
    n, unit = dim(Symbol()), (1,)
    kernel = Kernel((n,), (), (*[Operand(d, unit) for _ in xs], Operand(out, unit, "out")), (),
                    (*[Stmt("load", operand=k, dtype=d) for k in range(op.arity)],
                     Stmt(op.name, tuple(range(op.arity)), out, value=attrs.get("n", 0)),
                     Stmt("store", (op.arity,), operand=op.arity)))
    got = np.empty(count, out.np)
    run(kernel, (count,), (*xs, got))
    assert np.asarray(expected).dtype == out.np
    if out.is_floating_point:
        ulps = {"lgamma": 16, "digamma": 16, "erfinv": 16, "polygamma": 64}.get(op.name, 4)
        eps = finfo(d).eps
        np.testing.assert_allclose(*[x.astype(np.float64) for x in (got, expected)], rtol=ulps * eps,
                                   atol=ulps * eps * 0.5)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", dtypes.REALS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", dtypes.REALS, ids=lambda d: d.name)
def test_cast(source, target):
    rng = np.random.default_rng(3)
    if source.is_floating_point:
        x = np.concatenate([rng.uniform(0 if not target.is_signed else -100, 100, 30), [0.0, -0.0, 0.5]])
    else:
        info = np.iinfo(source.np) if source is not dtypes.bool_ else None
        x = np.concatenate([rng.integers(0, 2, 30), [0, 1] if info is None else [info.min, info.max]])
    x = x.astype(source.np)
    n, got = dim(Symbol()), np.empty(len(x), target.np)
    kernel = Kernel((n,), (), (Operand(source, (1,)), Operand(target, (1,), "out")), (),
                    (Stmt("load", operand=0, dtype=source), Stmt("cast", (0,), target), Stmt("store", (1,), operand=1)))
    run(kernel, (len(x),), (x, got))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, OPS["cast"].impl(np, x, dtype=target))


@pytest.mark.skipif(not engine.host().triple.startswith("x86"), reason="what does not fit depends on the machine")
@pytest.mark.parametrize("source", [f for f in dtypes.FLOATS if f is not dtypes.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("target", [dtypes.int32, dtypes.int64], ids=lambda d: d.name)
def test_what_does_not_fit_an_integer_becomes_the_lowest(source, target):
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63)] * 4)
    x = x.astype(source.np)
    n, got = dim(Symbol()), np.empty(len(x), target.np)
    kernel = Kernel((n,), (), (Operand(source, (1,)), Operand(target, (1,), "out")), (),
                    (Stmt("load", operand=0), Stmt("cast", (0,), target), Stmt("store", (1,), operand=1)))
    run(kernel, (len(x),), (x, got))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, OPS["cast"].impl(np, x, dtype=target))


def test_float64_is_rounded_to_float16_once():
    tie = 1 + 2.0**-11
    x = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, -tie - 2.0**-40, 1e300, np.inf, np.nan, 6e-8, 65519.9999, 0.1])
    n, got = dim(Symbol()), np.empty(len(x), np.float16)
    kernel = Kernel((n,), (), (Operand(dtypes.float64, (1,)), Operand(dtypes.float16, (1,), "out")), (),
                    (Stmt("load", operand=0), Stmt("cast", (0,), dtypes.float16), Stmt("store", (1,), operand=1)))
    run(kernel, (len(x),), (x, got))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, x.astype(np.float16))


@pytest.mark.parametrize("d", dtypes.REALS, ids=lambda d: d.name)
def test_where(d):
    rng = np.random.default_rng(5)
    c = rng.integers(0, 2, 21).astype(bool)
    a, b = (rng.integers(0, 2, 21).astype(d.np) for _ in range(2))
    n, got = dim(Symbol()), np.empty(21, d.np)
    operand = Operand(d, (1,))
    kernel = Kernel((n,), (), (Operand(dtypes.bool_, (1,)), operand, operand, Operand(d, (1,), "out")),
                    (), (*[Stmt("load", operand=k) for k in range(3)], Stmt("where", (0, 1, 2), d),
                         Stmt("store", (3,), operand=3)))
    run(kernel, (21,), (c, a, b, got))
    np.testing.assert_array_equal(got, np.where(c, a, b))


@pytest.mark.parametrize("d", dtypes.INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_never_traps(name, d):
    info = np.iinfo(d.np)
    a = np.array([5, 0, info.min, info.max], d.np)
    for divisor in (0, -1 if d.is_signed else 1):
        b = np.full(4, divisor, d.np)
        n, got = dim(Symbol()), np.empty(4, d.np)
        kernel = Kernel((n,), (), (Operand(d, (1,)), Operand(d, (1,)), Operand(d, (1,), "out")), (),
                        (Stmt("load", operand=0), Stmt("load", operand=1), Stmt(name, (0, 1), d),
                         Stmt("store", (2,), operand=2)))
        run(kernel, (4,), (a, b, got))
        if divisor == 0:
            np.testing.assert_array_equal(got, 0)
        elif name == "floor_divide" and d.is_signed:
            np.testing.assert_array_equal(got, -a if d.itemsize > 2 else (-a.astype(np.int64)).astype(d.np))


@pytest.mark.parametrize("d", dtypes.INTEGERS, ids=lambda d: d.name)
def test_integer_powers_wrap(d):
    rng = np.random.default_rng(0)
    a = rng.integers(-9 if d.is_signed else 0, 10, 203).astype(d.np)
    b = rng.integers(0, 90, 203).astype(d.np)
    n, got = dim(Symbol()), np.empty(203, d.np)
    kernel = Kernel((n,), (), (Operand(d, (1,)), Operand(d, (1,)), Operand(d, (1,), "out")), (),
                    (Stmt("load", operand=0), Stmt("load", operand=1), Stmt("pow", (0, 1), d),
                     Stmt("store", (2,), operand=2)))
    run(kernel, (203,), (a, b, got))
    np.testing.assert_array_equal(got, a**b)


@pytest.mark.parametrize("d", [dtypes.float16, dtypes.float32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("bound", [0.0, -0.0, -1.5, float("inf"), float("nan"), -float("nan")])
def test_extrema_with_a_number_are_those_with_a_value(name, bound, d):
    given = np.array([0.0, -0.0, 1.0, -1.5, -2.0, np.nan, -np.nan, np.inf, -np.inf] * 5, d.np)
    n, operand = dim(Symbol()), Operand(d, (1,))
    found = []
    for second in (Stmt("load", operand=1), Stmt("const", (), d, value=bound)):
        got = np.empty_like(given)
        kernel = Kernel((n,), (), (operand, operand, Operand(d, (1,), "out")), (),
                        (Stmt("load", operand=0), second, Stmt(name, (0, 1), d), Stmt("store", (2,), operand=2)))
        run(kernel, (len(given),), (given, np.full_like(given, bound), got))
        found.append(got)
    assert np.array_equal(np.isnan(found[0]), np.isnan(found[1]))
    numbers = ~np.isnan(found[0])
    assert found[0][numbers].tobytes() == found[1][numbers].tobytes()

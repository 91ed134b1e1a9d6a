"""Rows as native programs compute what NumPy does, for every sample of the table."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run import on_arrays
from jitgrad.codegen.run.on_arrays import rows
from jitgrad.dtypes import float32
from jitgrad.eager import record
from jitgrad.eager.arrays.arrays import FEW, MANY
from jitgrad.eager.record import ARRAYS
from jitgrad.ops import OPS
from jitgrad.ops.opdef import GATHER, POINTWISE, REDUCE, has_trait
from jitgrad.ops.rules import has_derivative
from tests.ops.cases import DTYPES, cases, convert

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = sorted(op.name for op in OPS.values() if (op.kind in (POINTWISE, REDUCE) or op.name in ("gather", "index"))
               and not has_trait(op.name, "in_library"))
RULES = sorted(op.name for op in OPS.values() if op.kind in (POINTWISE, REDUCE, GATHER) and callable(op.vjp))


def samples(name):
    """The samples of a row, floats as float32 (and whole numbers where it takes no floats)."""
    op = OPS[name]
    for operands, attrs in cases(op):
        given = convert(operands, DTYPES[op.dtypes][-1] if op.dtypes in ("int", "integral") else float32, op)
        yield [np.asarray(a) for a in given], dict(attrs)


def close(found, expected, message=""):
    assert found.dtype == expected.dtype, message
    assert found.shape == expected.shape, message
    exact = found.dtype.kind != "f"
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 2e-5, atol=0 if exact else 2e-5, err_msg=message)


@pytest.mark.parametrize("name", NAMES)
def test_results(name):
    for arrays, attrs in samples(name):
        found = rows.computed(OPS[name], arrays, attrs)
        with np.errstate(all="ignore"):
            expected = getattr(ARRAYS, name)(*arrays, **attrs)
        if found is None:  # a type or an order that programs do not take
            continue
        for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, expected)], strict=True):
            close(a, np.asarray(b), f"{name} {attrs}")


@pytest.mark.parametrize("name", RULES)
def test_cotangents(name):
    op = OPS[name]
    for arrays, attrs in samples(name):
        with np.errstate(all="ignore"):
            y = getattr(ARRAYS, name)(*arrays, **attrs)
        if isinstance(y, tuple) or np.asarray(y).dtype.kind != "f":
            continue
        y = np.asarray(y)
        g = np.random.default_rng(1).normal(size=y.shape).astype(y.dtype)
        known = has_derivative(op, len(arrays))
        needs = tuple([a.dtype.kind == "f" and k for a, k in zip(arrays, known, strict=True)])
        found = rows.cotangents(op, needs, g, y, arrays, attrs)
        if found is None:
            continue
        with np.errstate(all="ignore"):
            expected = op.vjp(ARRAYS, g, y, *arrays, **attrs)
        for needed, a, b in zip(needs, found, expected, strict=False):
            assert (a is None) == (not needed or b is None)
            if a is not None:
                close(a, np.broadcast_to(b, a.shape), f"{name} {attrs}")


def test_most_rows_have_programs():
    """So that the tests above are not tests of nothing."""
    made = [rows.computed(OPS[name], *next(samples(name))) is not None for name in NAMES]
    assert np.mean(made) > 0.95


def test_which_arrays_are_taken():
    op = OPS["exp"]
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    assert rows.computed(op, [x], {}) is not None
    assert rows.computed(op, [x.T], {}) is None, "NumPy's result is transposed too, as torch's"
    assert rows.computed(op, [x[:, ::2]], {}) is None
    assert rows.computed(op, [x.astype(np.float16)], {}) is None
    assert rows.computed(OPS["matmul"], [x, x.T], {}) is None
    close(rows.computed(OPS["sum"], [x.T], {"axes": (0,), "keepdim": False}), x.T.sum(0))
    close(rows.computed(OPS["contiguous"], [x.T], {}), x.T)
    assert rows.computed(OPS["contiguous"], [x.T], {}).flags.c_contiguous
    many = np.broadcast_to(np.float32(3), (4, 6))
    close(rows.computed(OPS["add"], [x, many], {}), x + many)
    close(rows.computed(OPS["pow"], [x, np.float32(2)], {}), x**2)


def test_sizes_that_do_not_fit_are_for_numpy_to_refuse():
    a, b = np.ones((4, 6), np.float32), np.ones((4, 5), np.float32)
    assert rows.computed(OPS["add"], [a, b], {}) is None
    x, y = jitgrad.ones(MANY, 2), jitgrad.ones(MANY, 3)
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x + y


def test_one_program_for_all_sizes():
    before = len(rows._programs)
    for n in (3, 5, 70):
        x = np.ones((n, 2 * n), np.float32)
        close(rows.computed(OPS["tanh"], [x], {}), np.tanh(x))
    assert len(rows._programs) - before <= 1


def test_an_attribute_of_which_each_call_has_another():
    x = np.ones(5, np.float32)
    found = [rows.computed(OPS["leaky_relu"], [x], {"negative_slope": 0.001 * k}) is not None for k in range(40)]
    assert found[:20] == [True] * 20
    assert not found[-1]


def test_attributes_that_are_equal_but_not_the_same():
    x = np.full(5, -1.0, np.float32)
    for value in (0.0, -0.0, 0.0):
        found = rows.computed(OPS["threshold"], [x], {"threshold": 0.5, "value": value})
        assert np.signbit(found).tolist() == [np.signbit(value)] * 5


def test_negative_indices_are_for_numpy():
    x = jitgrad.rand(MANY // 64, 64, requires_grad=True)
    i = jitgrad.tensor([0, -1, 3, 3] * 300)
    y = x[i]
    y.backward(jitgrad.ones_like(y))
    expected = np.zeros(x.shape, np.float32)
    np.add.at(expected, i.numpy(), 1.0)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_what_is_gathered_and_its_gradient():
    """Operands that a rule does not read are types without numbers."""
    rng = np.random.default_rng(0)
    a, i = rng.normal(size=(256, 300)).astype(np.float32), rng.integers(0, 300, (256, 280))
    x = jitgrad.tensor(a, requires_grad=True)
    y = x.gather(1, jitgrad.tensor(i))
    np.testing.assert_array_equal(y.detach().numpy(), np.take_along_axis(a, i, 1))
    y.backward(y.detach())
    expected = np.zeros_like(a)
    np.add.at(expected, (np.arange(256)[:, None], i), np.take_along_axis(a, i, 1))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jitgrad.float32, jitgrad.float64, jitgrad.float16, jitgrad.bfloat16])
def test_large_draws_have_the_bits_of_small_ones(dtype):
    attrs = {"shape": (3, 50), "dtype": dtype}
    for numbers in ((7, 0), (67280421310721, 12345), ((1 << 64) - 1, (1 << 63) + 5)):
        found = rows.drawn(OPS["random.uniform"], numbers, attrs)
        expected = getattr(ARRAYS, "random.uniform")(*numbers, **attrs)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rows.drawn(OPS["random.bits"], (3, 4), {"shape": (9,)}),
                                  getattr(ARRAYS, "random.bits")(3, 4, shape=(9,)))


def test_large_eager_tensors_are_computed_so():
    n = MANY // 128
    x = jitgrad.randn(n, 128).requires_grad_()
    y = jitgrad.nn.functional.gelu(jitgrad.softmax(x * 3, -1)).clamp(min=0.001)
    (y * y).sum().backward()
    small = x.detach()[:8].clone().requires_grad_()
    z = jitgrad.nn.functional.gelu(jitgrad.softmax(small * 3, -1)).clamp(min=0.001)
    (z * z).sum().backward()
    close(y.detach().numpy()[:8], z.detach().numpy())
    close(x.grad.numpy()[:8], small.grad.numpy())
    assert y.dtype is float32


#: rows that stand for several operations, and those that NumPy computes a row at a time
SMALL = {"softmax": {"axis": 1}, "log_softmax": {"axis": 0}, "logsumexp": {"axes": (1,), "keepdim": False}, "gelu": {},
         "softplus": {"beta": 1.0, "threshold": 20.0}, "amax": {"axes": (1,), "keepdim": False},
         "var": {"axes": (0, 1), "keepdim": True, "correction": 1}}


@pytest.mark.parametrize("name", SMALL)
def test_few_elements_too_where_numpy_takes_several_calls(name):
    attrs = SMALL[name]
    before = len(rows._by_shape)
    a = np.random.default_rng(0).normal(size=(16, FEW // 16)).astype(np.float32)
    a[3, 3] = np.nan
    for dtype in (np.float32, np.float64):
        given = a.astype(dtype)
        for x in (given, given.T, given[:, ::-1], given[:, ::2], given[:0]):
            found = record.apply(OPS[name], (jitgrad.from_numpy(x),), attrs) if x.size else None
            if found is not None:
                with np.errstate(all="ignore"):
                    expected = np.asarray(getattr(ARRAYS, name)(x, **attrs))
                close(found.numpy(), expected, name)
    assert len(rows._by_shape) == before + 2, "arrays in row order of two types"


def test_which_few_elements_native_code_gets(monkeypatch):
    seen = []
    monkeypatch.setattr(on_arrays, "row", lambda op, arrays, attrs: seen.append(op.name))
    x = jitgrad.ones(FEW)
    x.softmax(0), x.exp(), x + x, x[1:].softmax(0), x.amax(), x.sum(), x.mean(), x.relu(), x.clamp(0.0, 1.0)
    assert seen == ["softmax", "amax", "mean"]


def test_shapes_are_forgotten_not_collected(monkeypatch):
    monkeypatch.setattr(rows, "SHAPES", 3)
    for n in range(1, 9):
        x = np.full((n, 3), 2.0, np.float32)
        for _ in range(2):
            close(rows.computed(OPS["softmax"], [x], {"axis": 1}), np.full((n, 3), 1 / 3, np.float32))
        assert len(rows._by_shape) <= 3


def test_memory_that_is_not_aligned():
    x = np.zeros(4 * FEW + 1, np.int8)[1:].view(np.float32)
    assert not x.flags.aligned
    for given in (x.copy(), x, x.copy()):
        found = rows.computed(OPS["softplus"], [given], {"beta": 1.0, "threshold": 20.0})
        assert (found is None) == (given is x)
        if found is not None:
            close(found, np.full(FEW, np.log(2.0), np.float32))


def test_second_order_of_large_tensors():
    x = jitgrad.linspace(-2.0, 2.0, MANY).requires_grad_()
    (g,) = jitgrad.autograd.grad(jitgrad.tanh(x).sum(), x, create_graph=True)
    (gg,) = jitgrad.autograd.grad(g.sum(), x)
    t = np.tanh(x.detach().numpy())
    close(gg.numpy(), -2 * t * (1 - t * t))

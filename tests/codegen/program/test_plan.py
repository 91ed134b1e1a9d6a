"""Placement of statements: random kernels of several sweeps and levels against NumPy over the whole space."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program.plan import make_plan, needed
from jitgrad.dims import Symbol, dim
from tests.codegen.kernels import Space, run

f32, f64, i64 = dtypes.float32, dtypes.float64, dtypes.int64
SIZES = (1, 2, 3, 7, 16, 17, 33)
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
UNARY = {"tanh": np.tanh, "neg": np.negative, "abs": np.abs, "exp": np.exp}


class RandomKernel:
    """A kernel and, statement by statement, its values over the whole space (axes of size 1 where they do not vary)."""

    def __init__(self, seed, d):
        rng = self.rng = np.random.default_rng(seed)
        self.d = d
        outer = tuple(int(s) for s in rng.choice(SIZES, rng.integers(0, 3)))
        inner = tuple(int(s) for s in rng.choice(SIZES, rng.integers(0 if outer else 1, 3)))
        self.n_outer, self.n = len(outer), len(outer) + len(inner)
        self.space = Space(outer, inner)
        self.body, self.values, self.row = [], [], []
        self.expected = []
        for _ in range(rng.integers(1, 4)):
            self.load()
        for _ in range(rng.integers(2, 9)):
            self.compute()
        element = [k for k, r in enumerate(self.row) if not r]
        rows = [k for k, r in enumerate(self.row) if r]
        for group, axes in ((element, self.n), (rows, self.n_outer)):
            for k in rng.permutation(group)[: rng.integers(1, 3)]:
                self.store(int(k), axes)

    def add(self, stmt, value):
        self.body.append(stmt)
        self.values.append(value)
        self.row.append(all(s == 1 for s in value.shape[self.n_outer:]) and not self.varies(stmt))

    def varies(self, stmt):
        """Whether the statement is at element level even if the inner sizes happen to be 1."""
        if stmt.op == "reduce":
            return False
        if stmt.operand >= 0:
            return any(s != 0 for s in self.space.operands[stmt.operand].strides[self.n_outer:])
        return any(not self.row[a] for a in stmt.args)

    def load(self):
        keep = self.rng.integers(0, 4, self.n) > 0
        shape = tuple(s if k else 1 for s, k in zip(self.space.sizes, keep, strict=True))
        x = self.rng.uniform(-1, 1, shape).astype(self.d.np)
        if self.rng.integers(0, 3) == 0 and self.n > 1:  # another layout of the same values
            x = np.ascontiguousarray(x.T).T
        self.add(Stmt("load", operand=self.space.operand(x), dtype=self.d), x)

    def compute(self):
        rng, last = self.rng, len(self.values)
        a, b = (int(v) for v in rng.integers(0, last, 2))
        kind = rng.integers(0, 4 if self.n > self.n_outer else 3)
        with np.errstate(all="ignore"):
            if kind == 0:
                name = str(rng.choice(list(UNARY)))
                self.add(Stmt(name, (a,), self.d), UNARY[name](self.values[a]))
                self.bound()
            elif kind < 3:
                name = str(rng.choice(list(BINARY)))
                self.add(Stmt(name, (a, b), self.d), BINARY[name](self.values[a], self.values[b]))
                self.bound()
            else:
                self.reduce(a, b, str(rng.choice(["sum", "max", "min", "dot"])))

    def bound(self):
        """Keep values small, so that errors stay comparable."""
        k = len(self.values) - 1
        self.add(Stmt("tanh", (k,), self.d), np.tanh(self.values[k]))

    def reduce(self, a, b, fn):
        axes = tuple(range(self.n_outer, self.n))
        full = tuple(1 if k < self.n_outer else s for k, s in enumerate(self.space.sizes))
        x, y = self.values[a], self.values[b]
        if fn == "dot":
            x = x * y
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, full))
        value = {"sum": np.sum, "dot": np.sum, "max": np.max, "min": np.min}[fn](x, axis=axes, keepdims=True)
        self.add(Stmt("reduce", (a, b) if fn == "dot" else (a,), self.d, fn=fn), value)
        self.bound()

    def store(self, k, axes):
        shape = self.space.sizes[:axes] + (1,) * (self.n - axes)
        out = np.full(shape, 99, self.d.np)
        number = self.space.operand(out, "out")
        strides = self.space.operands[number].strides
        fixed = tuple(0 if a >= axes else s for a, s in enumerate(strides))
        self.space.operands[number] = Operand(self.d, fixed, "out")
        self.body.append(Stmt("store", (k,), operand=number))
        self.values.append(np.zeros((1,) * self.n))
        self.row.append(True)
        self.expected.append((out, np.broadcast_to(self.values[k], shape)))

    def check(self):
        kernel = Kernel(self.space.outer, self.space.inner, tuple(self.space.operands), (), tuple(self.body))
        run(kernel, self.space.sizes, self.space.arrays, (), self.space.values)
        tolerance = 3e-5 if self.d is f32 else 1e-12
        for out, expected in self.expected:
            np.testing.assert_allclose(out, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("d", [f32, f64], ids=lambda d: d.name)
@pytest.mark.parametrize("block", range(8))
def test_random_kernels(block, d):
    for seed in range(block * 12, block * 12 + 12):
        RandomKernel(seed, d).check()


def softmax(strides=(1,), out="out"):
    n, m = dim(Symbol()), dim(Symbol())
    body = (Stmt("load", operand=0), Stmt("reduce", (0,), f32, fn="fastmax"), Stmt("sub", (0, 1), f32),
            Stmt("exp", (2,), f32), Stmt("reduce", (3,), f32, fn="sum"), Stmt("div", (3, 4), f32),
            Stmt("store", (5,), operand=1))
    return Kernel((n,), (m,), (Operand(f32, (m, 1)), Operand(f32, (m, *strides), out)), (), body)


def test_softmax_has_three_sweeps_and_computes_its_exponentials_once():
    plan = make_plan(softmax(), 64)
    assert plan.stages == 3
    assert plan.spill == {3: 1}
    assert needed(plan, 0) == [0, 1]
    assert needed(plan, 1) == [0, 2, 3, 4]
    assert needed(plan, 2) == [3, 5, 6]


def test_values_are_not_kept_in_memory_that_is_read():
    assert make_plan(softmax(out="inout"), 64).spill == {}


def test_lanes_follow_contiguous_axes():
    n, m = dim(Symbol()), dim(Symbol())
    body = (Stmt("load", operand=0), Stmt("reduce", (0,), f32, fn="sum"), Stmt("store", (1,), operand=1))
    rows = Kernel((n,), (m,), (Operand(f32, (m, 1)), Operand(f32, (1, 0), "out")), (), body)
    columns = Kernel((n,), (m,), (Operand(f32, (1, n)), Operand(f32, (1, 0), "out")), (), body)
    assert make_plan(rows, 64).lane == 1
    assert make_plan(columns, 64).lane == 0
    assert make_plan(rows, 64).lanes == 16
    assert make_plan(columns, 64, 4).lanes == 64
    assert (make_plan(rows, 64).is_downward, make_plan(columns, 64).is_downward) == (False, True)


def test_lane_count_follows_the_widest_need():
    def copy(d, source):
        return Kernel((3,), (), (Operand(source, (1,)), Operand(d, (1,), "out")), (),
                      (Stmt("load", operand=0, dtype=source), Stmt("cast", (0,), d), Stmt("store", (1,), operand=1)))
    assert make_plan(copy(f64, i64), 64).lanes == 8
    assert make_plan(copy(f64, f32), 64).lanes == 16
    assert make_plan(copy(dtypes.bool_, f64), 32).lanes == 4


def test_colliding_scatter_takes_one_lane():
    body = (Stmt("load", operand=0, dtype=i64), Stmt("load", operand=1, dtype=f32),
            Stmt("scatter_add", (1, 0), operand=2, strides=(1,)))
    operands = (Operand(i64, (1,)), Operand(f32, (1,)), Operand(f32, (0,), "inout"))
    assert make_plan(Kernel((5,), (), operands, (), body), 64).lane == -1

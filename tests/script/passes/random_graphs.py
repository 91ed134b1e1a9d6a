"""Random graphs with control flow, effects and sizes that change, for properties that every pass must have."""

from __future__ import annotations

import random

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import BOOL, FLOAT, INT, OptionalType, SeqType, TensorType
from jitgrad.script.graph.ir import Block, Builder, Graph, Value


class Generator:
    """Appends random nodes; `values` are those in scope."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.n = Symbol("N", not_one=True)
        f = dtypes.float64
        self.matrix = TensorType(f, (dim(self.n), 3))
        self.row = TensorType(f, (3,))
        self.scalar = TensorType(f, ())
        params = (Value(self.matrix, "x"), Value(self.matrix, "y"), Value(self.row, "r"), Value(self.scalar, "s"),
                  Value(BOOL, "c"), Value(INT, "n"), Value(FLOAT, "a"))
        self.builder = Builder(Block(params, binds=(self.n,)))
        self.values = list(params)

    def graph(self, size: int = 14) -> Graph:
        block = self.builder.block
        self.body(size, 3)
        tensors = [v for v in self.values if v.type != FLOAT]
        block.results = (*self.rng.choices(tensors, k=3), self.values[-1])
        return Graph(block)

    def pick(self, *types) -> Value:
        return self.rng.choice([v for v in self.values if v.type in types])

    def add(self, op, *inputs, **attrs) -> Value:
        value = self.builder.one(op, *inputs, **attrs)
        self.values.append(value)
        return value

    def body(self, size: int, depth: int) -> None:
        for _ in range(self.rng.randint(1, size)):
            self.rng.choice([self.unary, self.binary, self.binary, self.constant, self.view, self.number, self.number,
                             self.reduction, self.effect, self.merge])()
            if depth and self.rng.random() < 0.25:
                self.rng.choice([self.branch, self.scan, self.loop, self.ragged])(depth - 1)

    # --- flat nodes ---

    def unary(self) -> None:
        op = self.rng.choice(["tanh", "neg", "neg", "abs", "sigmoid", "relu", "square", "exp", "silu"])
        x = self.pick(self.matrix, self.row, self.scalar)
        self.add(op, self.add("tanh", x) if op in ("exp", "square") else x)

    def binary(self) -> None:
        op = self.rng.choice(["add", "sub", "mul", "maximum", "div"])
        a, b = self.pick(self.matrix, self.row, self.scalar), self.pick(self.matrix, self.row, self.scalar)
        if op == "div":
            b = self.add("add", self.add("abs", b), self.add("full", value=1.0, shape=(), dtype=dtypes.float64))
        result = self.add(op, a, b)
        if op == "mul":
            self.add("tanh", result)

    def constant(self) -> None:
        shape = self.rng.choice([(), (), (3,), (dim(self.n), 3)])
        self.add("full", value=self.rng.choice([0, 1, -1, 2, 0.5, -0.0]), shape=shape, dtype=dtypes.float64)

    def view(self) -> None:
        x = self.pick(self.matrix)
        kind = self.rng.randrange(5)
        if kind == 0:
            self.add("permute", self.add("permute", x, axes=(1, 0)), axes=(1, 0))
        elif kind == 1:
            self.add("select", x, axis=0, index=0)
        elif kind == 2:
            self.add("select_add", self.add("full", value=0, shape=self.matrix.dims, dtype=dtypes.float64),
                     self.pick(self.row), axis=0, index=1)
        elif kind == 3:
            self.add("expand", self.pick(self.row), shape=self.matrix.dims)
        else:
            self.add("reshape", self.add("reshape", x, shape=(3, dim(self.n))), shape=self.matrix.dims)

    def reduction(self) -> None:
        kind = self.rng.randrange(3)
        if kind == 0:
            self.add("sum", self.pick(self.matrix), axes=(0,), keepdim=False)
        elif kind == 1:
            self.add("sum_to", self.pick(self.matrix), shape=(3,))
        else:
            self.add("amax", self.pick(self.row), axes=(0,), keepdim=False)

    def number(self) -> None:
        kind = self.rng.randrange(6)
        if kind == 0:
            self.add("num.const", value=self.rng.choice([0, 1, 2, True, False]))
        elif kind == 1:
            self.add(self.rng.choice(["num.add", "num.sub", "num.mul", "num.floordiv"]), self.pick(INT), self.pick(INT))
        elif kind == 2:
            self.add(self.rng.choice(["num.lt", "num.eq", "num.ge"]), self.pick(INT), self.pick(INT))
        elif kind == 3:
            self.add(self.rng.choice(["num.and", "num.or"]), self.pick(BOOL), self.add("num.not", self.pick(BOOL)))
        elif kind == 4:
            self.add("dim.value", dim=dim(self.n) * self.rng.randint(0, 2))
        else:
            self.add("fill", self.pick(FLOAT), shape=(), dtype=dtypes.float64)

    def effect(self) -> None:
        kind = self.rng.randrange(3)
        if kind == 0:
            self.builder.emit("print", (self.pick(INT),), template=((0, "", ""), " "))
        elif kind == 1:
            positive = self.add("num.ge", self.pick(INT), self.add("num.const", value=-(1 << 40)))
            self.builder.emit("check", (positive,), error=ValueError, template=("too small",))
        else:
            self.add("num.add", self.pick(INT), self.add("num.const", value=1), checked=True)

    # --- blocks ---

    def inner(self, params: tuple[Value, ...], depth: int) -> tuple[Block, list[Value]]:
        """A block with random nodes; the values that were in scope in it."""
        outer = list(self.values)
        block = Block(params)
        with self.builder.into(block):
            self.values.extend(params)
            self.body(5, depth)
        scope, self.values = self.values, outer
        return block, scope

    def choose(self, scope: list[Value], type_) -> Value:
        return self.rng.choice([v for v in scope if v.type == type_][-6:])

    def structural(self, op, inputs, block_list, types, **attrs) -> tuple[Value, ...]:
        outputs = self.builder.emit(op, inputs, blocks=block_list, types=types, **attrs)
        self.values.extend(v for v in outputs if not isinstance(v.type, (SeqType, OptionalType)))
        return outputs

    def branch(self, depth: int = 0) -> None:
        types = self.rng.choices([self.matrix, self.row, INT, BOOL, FLOAT], k=self.rng.randint(0, 3))
        blocks = []
        for _ in range(2):
            block, scope = self.inner((), depth)
            block.results = tuple(self.choose(scope, t) for t in types)
            blocks.append(block)
        self.structural("if", [self.pick(BOOL)], blocks, types)

    def scan(self, depth: int = 0) -> None:
        carries = [self.pick(t) for t in self.rng.choices([self.matrix, self.row, INT], k=self.rng.randint(0, 3))]
        types = [v.type for v in carries]
        params = (Value(INT), *(Value(t) for t in types))
        block, scope = self.inner(params, depth)
        results = [p if self.rng.random() < 0.3 else self.choose(scope, p.type) for p in params[1:]]
        ys = [self.choose(scope, t) for t in self.rng.choices([self.row, INT], k=self.rng.randint(0, 2))]
        with self.builder.into(block):  # keep numbers small: loops nest
            results = [self.builder.one("num.mod", r, self.builder.one("num.const", value=5)) if r.type == INT else
                       self.builder.one("tanh", r) if r not in params else r for r in results]
        block.results = (*results, *ys)
        trips = self.add("num.const", value=self.rng.randint(0, 3))
        outputs = self.structural("scan", [trips, *carries], [block], [*types, *(SeqType(y.type) for y in ys)],
                                  n_carries=len(carries), reverse=self.rng.random() < 0.5)
        if ys:
            self.reverse_scan(trips, outputs[len(carries) :])

    def reverse_scan(self, trips: Value, sequences: tuple[Value, ...]) -> None:
        params = (Value(INT), *(Value(s.type.elem) for s in sequences))
        block = Block(params)
        with self.builder.into(block):
            block.results = tuple(self.builder.one("neg", p) if p.type != INT else p for p in params[1:])
        outputs = self.builder.emit("scan", [trips, *sequences], blocks=[block], types=[s.type for s in sequences],
                                    n_carries=0, reverse=True)
        self.add("seq.len", self.rng.choice([*outputs, *sequences]))

    def loop(self, depth: int = 0) -> None:
        """while k < bound: at most 3 trips."""
        types = [INT, *self.rng.choices([self.matrix, self.row], k=self.rng.randint(0, 2))]
        zero, bound = self.add("num.const", value=0), self.add("num.const", value=self.rng.randint(0, 3))
        going = self.add("num.lt", zero, bound)
        carries = [zero, *(self.pick(t) for t in types[1:])]
        params = tuple(Value(t) for t in types)
        block, scope = self.inner(params, depth)
        results = [p if self.rng.random() < 0.3 else self.choose(scope, p.type) for p in params[1:]]
        with self.builder.into(block):
            k = self.builder.one("num.add", params[0], self.builder.one("num.const", value=1))
            block.results = (self.builder.one("num.lt", k, bound), k, *results)
        self.structural("while", [going, *carries], [block], [INT, *types])

    def ragged(self, depth: int = 0) -> None:
        """A carry that doubles in each trip, and what becomes of its size."""
        entry, result = Symbol(), Symbol()
        params = (Value(INT), Value(TensorType(dtypes.float64, (dim(entry), 3))))
        block = Block(params, binds=(entry,))
        with self.builder.into(block):
            block.results = (self.builder.one("cat", params[1], params[1], axis=0),)
        trips = self.add("num.const", value=self.rng.randint(0, 2))
        outputs = self.builder.emit("scan", [trips, self.pick(self.matrix)], blocks=[block], n_carries=1, reverse=False,
                                    types=[TensorType(dtypes.float64, (dim(result), 3))], binds=(result,))
        self.add("sum", outputs[0], axes=(0,), keepdim=False)
        self.add("dim.value", dim=dim(result) - dim(self.n))

    def merge(self) -> None:
        """An Optional that one branch makes; reading it where it is there."""
        condition, x = self.pick(BOOL), self.pick(self.row)
        blocks = [Block(), Block()]
        with self.builder.into(blocks[0]):
            blocks[0].results = (self.builder.one("opt.some", x),)
        with self.builder.into(blocks[1]):
            blocks[1].results = self.builder.emit("opt.none", type=self.row)
        if self.rng.random() < 0.5:
            blocks.reverse()
        (optional,) = self.builder.emit("if", [condition], blocks=blocks, types=[OptionalType(self.row)])
        there = self.add("opt.has", optional)
        blocks = [Block(), Block(results=(x,))]
        with self.builder.into(blocks[0]):
            blocks[0].results = (self.builder.one("neg", self.builder.one("opt.get", optional)),)
        self.structural("if", [there], blocks, [self.row])

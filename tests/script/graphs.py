"""Random well-typed graphs with inputs to run them on, for the tests of whatever takes graphs.

    case = random_graph(seed)                  # case.graph, case.inputs
    case = random_graph(seed, control=False)   # straight line only

A graph has float tensors of symbolic and known sizes as its first inputs, then an int `n` and a bool `flag`. All of
it is float64 (or `dtype`), its values stay of the order of one, and no float number depends smoothly on a tensor, so
that finite differences measure what the gradient of the graph is (`item` cuts gradients).

Structure that occurs: if with captured values and absent results; while with trips that only the data knows, from
none on; while with a break flag; scan over a size, with select at the counter; scan over a sequence that another loop
made, in either direction; carries that change roles or grow; nesting of all of these to a given depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import BOOL, INT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Block, Builder, Graph, Value
from jitgrad.script.graph.namespace import GraphHandle, GraphNamespace


@dataclass
class Case:
    """A graph and inputs for it; `floats` are the indices of its float tensor inputs."""

    graph: Graph
    inputs: list[Any]
    floats: tuple[int, ...]
    outputs: tuple[int, ...]  # float tensor outputs


@dataclass
class _Scope:
    """What can be read at a point of the program."""

    tensors: list[GraphHandle]
    ints: list[Value]
    bools: list[Value]
    seqs: list[tuple[Value, Value]] = field(default_factory=list)  # (length, sequence)

    def inner(self) -> _Scope:
        return _Scope(list(self.tensors), list(self.ints), list(self.bools), list(self.seqs))


def random_graph(seed: int, *, size: int = 6, depth: int = 2, control: bool = True, ragged: bool = True,
                 dtype: dtypes.dtype = dtypes.float64) -> Case:
    """A random graph.

    Args:
        seed: equal seeds give equal graphs.
        size: statements per block.
        depth: how deep control flow nests.
        control: False for a straight line.
        ragged: allow sizes that change from iteration to iteration.
        dtype: of every float tensor.
    """
    return _Maker(np.random.default_rng(seed), size, depth if control else 0, ragged, dtype).case()


class _Maker:
    def __init__(self, rng: np.random.Generator, size: int, depth: int, ragged: bool, dtype: dtypes.dtype):
        self.rng, self.size, self.depth, self.ragged, self.dtype = rng, size, depth, ragged, dtype
        self.builder = Builder()
        self.F = GraphNamespace(self.builder)

    def case(self) -> Case:
        n, m = Symbol("N", not_one=True), Symbol("M", not_one=True)
        shapes = [(n, 3), (3, 3), (3,), (m, 3), ()]
        actual = {n: int(self.rng.integers(2, 5)), m: int(self.rng.integers(2, 5))}
        params = [Value(TensorType(self.dtype, tuple(dim(s) if isinstance(s, Symbol) else s for s in shape)), f"x{i}")
                  for i, shape in enumerate(shapes)]
        inputs: list[Any] = [self.rng.uniform(-1.5, 1.5, [actual.get(s, s) for s in shape]).astype(self.dtype.np)  # type: ignore[call-overload]
                             for shape in shapes]
        count, flag = Value(INT, "n"), Value(BOOL, "flag")
        inputs += [int(self.rng.integers(0, 4)), bool(self.rng.integers(0, 2))]
        block = Block((*params, count, flag), binds=(n, m))
        with self.builder.into(block):
            scope = _Scope([self.F.wrap(p) for p in params], [count], [flag])
            self.statements(scope, self.depth)
            made = [t for t in scope.tensors if t.value not in params]
            results = [t.value for t in made[-3:]] or [params[0]]
            if self.rng.random() < 0.3:
                results.append(params[2])
            block.results = (*results, scope.ints[-1])
        return Case(Graph(block, "random"), inputs, tuple(range(len(params))), tuple(range(len(results))))

    # --- choices ---

    def pick(self, items: Sequence[Any]) -> Any:
        """One of the items, the later ones more often."""
        weights = np.arange(1, len(items) + 1, dtype=float)
        return items[int(self.rng.choice(len(items), p=weights / weights.sum()))]

    def statements(self, scope: _Scope, depth: int, count: int = 0) -> None:
        simple: list[Callable[[_Scope], None]] = [self.unary, self.binary, self.binary, self.reduce, self.view,
                                                  self.matmul, self.masked, self.join, self.index, self.number]
        nested: list[Callable[[_Scope, int], None]] = [self.branch, self.absent, self.while_loop, self.break_loop,
                                                       self.scan_size, self.scan_seq, self.swap_loop]
        if self.ragged:
            nested.append(self.growing_loop)
        for _ in range(count or self.size):
            if depth > 0 and self.rng.random() < 0.4:
                nested[int(self.rng.integers(len(nested)))](scope, depth - 1)
            else:
                simple[int(self.rng.integers(len(simple)))](scope)

    def make(self, scope: _Scope, t: GraphHandle) -> GraphHandle:
        """Keep a new tensor, its values bounded."""
        scope.tensors.append(t)
        return t

    # --- straight line ---

    def unary(self, scope: _Scope) -> None:
        F, x = self.F, self.pick(scope.tensors)
        name = self.pick(["tanh", "sin", "sigmoid", "relu", "softplus"])
        self.make(scope, {"tanh": lambda: F.tanh(x), "sin": lambda: F.sin(x), "sigmoid": lambda: F.sigmoid(x),
                          "relu": lambda: F.relu(x) * 0.5, "softplus": lambda: F.log1p(F.exp(-F.abs(x)))}[name]())

    def binary(self, scope: _Scope) -> None:
        F, x, y = self.F, self.pick(scope.tensors), self.pick(scope.tensors)
        if not _broadcast(x, y):
            y = self.pick([t for t in scope.tensors if _broadcast(x, t)])
        name = self.pick(["add", "sub", "mul", "maximum", "div"])
        self.make(scope, {"add": lambda: (x + y) * 0.5, "sub": lambda: F.tanh(x - y), "mul": lambda: F.sin(x * y),
                          "maximum": lambda: F.maximum(x, y), "div": lambda: x / (1 + y * y)}[name]())

    def reduce(self, scope: _Scope) -> None:
        x = self.pick([t for t in scope.tensors if t.ndim])
        axes = tuple(sorted(int(a) for a in self.rng.permutation(x.ndim)[: self.rng.integers(1, x.ndim + 1)]))
        op = getattr(self.F, str(self.pick(["sum", "amax", "mean", "mean"])))
        self.make(scope, self.F.tanh(op(x, axes=axes, keepdim=bool(self.rng.integers(2)))))

    def view(self, scope: _Scope) -> None:
        F, x = self.F, self.pick([t for t in scope.tensors if t.ndim])
        axis = int(self.rng.integers(x.ndim))
        kind = int(self.rng.integers(6))
        if kind == 0:
            self.make(scope, F.permute(x, axes=tuple(int(a) for a in self.rng.permutation(x.ndim))))
        elif kind == 1:
            self.make(scope, F.unsqueeze(x, axis=axis) if x.ndim < 3 else F.flip(x, axes=(axis,)))
        elif kind == 2 and x.shape[axis] == 3:
            self.make(scope, F.select(x, axis=axis, index=int(self.rng.integers(3))))
        elif kind == 3 and x.shape[axis] == 3:
            self.make(scope, F.slice(x, axis=axis, start=1, length=2, step=1))
        elif kind == 4 and x.ndim < 3:
            self.make(scope, F.expand(x, shape=(2, *x.shape)) * 0.5)
        elif x.ndim == 2:
            self.make(scope, F.reshape(x, shape=(x.shape[1] * x.shape[0],)))

    def matmul(self, scope: _Scope) -> None:
        pairs = [(a, b) for a in scope.tensors[-8:] for b in scope.tensors
                 if a.ndim >= 2 and b.ndim == 2 and a.shape[-1] == b.shape[0]]
        if pairs:
            a, b = self.pick(pairs)
            self.make(scope, self.F.tanh(self.F.matmul(a, b)))

    def masked(self, scope: _Scope) -> None:
        F, x = self.F, self.pick(scope.tensors)
        y = self.pick([t for t in scope.tensors if _broadcast(x, t)])
        self.make(scope, F.where(x > 0.1, x * 0.5, y))

    def join(self, scope: _Scope) -> None:
        x = self.pick([t for t in scope.tensors if t.ndim])
        like = [t for t in scope.tensors if t.shape[1:] == x.shape[1:] and t.ndim]
        self.make(scope, self.F.cat(x, self.pick(like), axis=0))

    def index(self, scope: _Scope) -> None:
        found = [t for t in scope.tensors if 3 in t.shape]
        if found:
            x = self.pick(found)
            zero_one = self.F.arange(length=2, dtype=dtypes.int64)
            self.make(scope, self.F.index(x, 2 - zero_one * 2, axes=(x.shape.index(3),)))

    def number(self, scope: _Scope) -> None:
        one = self.builder.one
        a, b = self.pick(scope.ints), one("num.const", value=int(self.rng.integers(1, 4)))
        kind = int(self.rng.integers(4))
        if kind == 0:
            scope.ints.append(one("num.mod", one(str(self.pick(["num.add", "num.mul", "num.sub"])), a, b),
                                  one("num.const", value=4)))
        elif kind == 1:
            scope.bools.append(one("num.lt", a, b))
        elif kind == 2:
            scope.bools.append(self.positive(self.pick(scope.tensors)))
        else:
            x = self.pick(scope.tensors)
            scale = one("num.truediv", one("num.cast", a, to="float"), one("num.const", value=3.0))
            fill = self.F.wrap(one("fill", scale, shape=(), dtype=self.dtype))
            self.make(scope, self.F.tanh(x * fill))

    def positive(self, x: GraphHandle) -> Value:
        """Whether the elements' sum exceeds something, as a number."""
        total = self.F.sum(x, axes=tuple(range(x.ndim)), keepdim=False) if x.ndim else x
        return self.builder.one("item", (total > float(self.rng.uniform(-0.5, 0.5))).value)

    # --- control flow ---

    def branch(self, scope: _Scope, depth: int) -> None:
        like = self.pick(scope.tensors)
        blocks = []
        for _ in range(2):
            with self.builder.into(Block()) as block:
                inner = scope.inner()
                self.statements(inner, depth, 2)
                same = [t for t in inner.tensors if t.shape == like.shape]
                block.results = (same[-1].value, self.pick(same).value, self.pick(inner.ints))
                blocks.append(block)
        t = like.value.type
        a, b, i = self.builder.emit("if", [self.pick(scope.bools)], blocks=blocks, types=[t, t, INT])
        self.make(scope, self.F.wrap(a))
        self.make(scope, self.F.wrap(b))
        scope.ints.append(i)

    def absent(self, scope: _Scope, depth: int) -> None:
        """A value that one branch alone makes, read where it is there."""
        x = self.pick(scope.tensors)
        optional = OptionalType(x.value.type)
        one = self.builder.one
        with self.builder.into(Block()) as some:
            some.results = (one("opt.some", self.F.sin(x).value),)
        with self.builder.into(Block()) as none:
            none.results = (one("opt.none", type=x.value.type),)
        (o,) = self.builder.emit("if", [self.pick(scope.bools)], blocks=[some, none], types=[optional])
        with self.builder.into(Block()) as there:
            inner = scope.inner()
            inner.tensors.append(self.F.wrap(one("opt.get", o)))
            self.statements(inner, depth, 2)
            there.results = ([t for t in inner.tensors if t.shape == x.shape][-1].value,)
        with self.builder.into(Block()) as absent:
            absent.results = ((x * 0.5).value,)
        (y,) = self.builder.emit("if", [one("opt.has", o)], blocks=[there, absent], types=[x.value.type])
        self.make(scope, self.F.wrap(y))

    def body(self, scope: _Scope, types: Sequence[Type], depth: int, counter: bool = False) -> tuple[Block, _Scope]:
        """An empty loop body with carries of these types; its scope."""
        params = tuple(Value(t) for t in types)
        block = Block((Value(INT, "k"), *params) if counter else params)
        inner = scope.inner()
        inner.tensors.extend(self.F.wrap(p) for p in params if isinstance(p.type, TensorType))
        inner.ints.extend(p for p in block.params if p.type == INT)
        inner.bools.extend(p for p in params if p.type == BOOL)
        return block, inner

    def last(self, scope: _Scope, like: GraphHandle) -> Value:
        """The latest tensor of a shape; sometimes any, which may be one from outside."""
        same = [t for t in scope.tensors if t.shape == like.shape]
        value: Value = (self.pick(same) if self.rng.random() < 0.2 else same[-1]).value
        return value

    def while_loop(self, scope: _Scope, depth: int) -> None:
        """`while i > 0`, with the trips in an int of the run."""
        x, one = self.pick(scope.tensors), self.builder.one
        start = self.pick(scope.ints)
        zero = one("num.const", value=0)
        block, inner = self.body(scope, [INT, x.value.type], depth)
        with self.builder.into(block):
            self.statements(inner, depth, 2)
            i = one("num.sub", block.params[0], one("num.const", value=1))
            ys = [self.last(inner, x)] if self.rng.random() < 0.5 else []
            block.results = (one("num.gt", i, zero), i, self.last(inner, x), *ys)
        trips, i, y, *seqs = self.builder.emit(
            "while", [one("num.gt", start, zero), start, x.value], blocks=[block],
            types=[INT, INT, x.value.type, *(SeqType(v.type) for v in ys)])
        self.make(scope, self.F.wrap(y))
        scope.ints.append(trips)
        scope.seqs.extend((trips, s) for s in seqs)

    def break_loop(self, scope: _Scope, depth: int) -> None:
        """At most three rounds, left where the data says so: exit flag and condition, as the frontend writes it."""
        x, one = self.pick(scope.tensors), self.builder.one
        block, inner = self.body(scope, [INT, BOOL, x.value.type], depth)
        with self.builder.into(block):
            self.statements(inner, depth, 2)
            leave = self.positive(self.pick(inner.tensors[-3:]))
            with self.builder.into(Block()) as gone:
                gone.results = (block.params[2],)
            with self.builder.into(Block()) as on:
                more = inner.inner()
                self.statements(more, 0, 1)
                on.results = (self.last(more, x),)
            (y,) = self.builder.emit("if", [leave], blocks=[gone, on], types=[x.value.type])
            i = one("num.add", block.params[0], one("num.const", value=1))
            go = one("num.and", one("num.not", leave), one("num.lt", i, one("num.const", value=3)))
            block.results = (go, i, leave, y)
        trips, _, left, y = self.builder.emit(
            "while", [self.pick(scope.bools), one("num.const", value=0), one("num.const", value=False), x.value],
            blocks=[block], types=[INT, INT, BOOL, x.value.type])
        self.make(scope, self.F.wrap(y))
        scope.ints.append(trips)
        scope.bools.append(left)

    def scan_size(self, scope: _Scope, depth: int) -> None:
        """`for t in range(x.shape[0])`, reading x[t]."""
        xs = self.pick([t for t in scope.tensors if t.ndim])
        h, one = self.pick(scope.tensors), self.builder.one
        n = one("dim.value", dim=xs.shape[0])
        block, inner = self.body(scope, [h.value.type], depth, counter=True)
        with self.builder.into(block):
            t = Symbol("t")
            self.builder.emit("dim.bind", [block.params[0]], binds=(t,), symbol=t)
            x = self.F.select(xs, axis=0, index=dim(t))
            inner.tensors.append(x)
            inner.tensors.append(self.F.tanh(h + x) if _broadcast_to(x, h) else self.F.sin(h))
            self.statements(inner, depth, 2)
            y = self.pick(inner.tensors[-4:])
            ys = [y.value] if self.rng.random() < 0.5 and not _mentions(y, t) else []
            block.results = (self.last(inner, h), *ys)
        out, *seqs = self.builder.emit("scan", [n, h.value], blocks=[block], n_carries=1, reverse=False,
                                       types=[h.value.type, *(SeqType(v.type) for v in ys)])
        self.make(scope, self.F.wrap(out))
        scope.seqs.extend((n, s) for s in seqs)

    def scan_seq(self, scope: _Scope, depth: int) -> None:
        """Over the values that an earlier loop made, in either order; or one of them."""
        if not scope.seqs:
            return self.scan_size(scope, depth)
        n, seq = self.pick(scope.seqs)
        assert isinstance(seq.type, SeqType)
        h, one = self.pick(scope.tensors), self.builder.one
        block, inner = self.body(scope, [h.value.type], depth, counter=True)
        x = Value(seq.type.elem, "x")
        block.params = (*block.params, x)
        reverse = bool(self.rng.integers(2))
        with self.builder.into(block):
            handle = self.F.wrap(x)
            inner.tensors.append(handle)
            self.statements(inner, depth, 2)
            mean = self.F.tanh(handle if not handle.ndim else
                               self.F.sum(handle, axes=tuple(range(handle.ndim)), keepdim=False))
            y = (self.F.wrap(self.last(inner, h)) + mean) * 0.5
            block.results = (y.value, y.value)
        out, new = self.builder.emit("scan", [n, h.value, seq], blocks=[block], n_carries=1, reverse=reverse,
                                     types=[h.value.type, SeqType(h.value.type)])
        self.make(scope, self.F.wrap(out))
        scope.seqs.append((n, new))
        with self.builder.into(Block()) as first:
            first.results = (one("seq.get", new, one("num.const", value=0)),)
        with self.builder.into(Block()) as otherwise:
            otherwise.results = (h.value,)
        (y0,) = self.builder.emit("if", [one("num.gt", one("seq.len", new), one("num.const", value=0))],
                                  blocks=[first, otherwise], types=[h.value.type])
        self.make(scope, self.F.wrap(y0))
        return None

    def swap_loop(self, scope: _Scope, depth: int) -> None:
        """Two carries that change places, and a third that takes what the first was."""
        x, one = self.pick(scope.tensors), self.builder.one
        t = x.value.type
        n = self.pick(scope.ints)
        block, inner = self.body(scope, [t, t, t], depth, counter=True)
        a, b, c = block.params[1:]
        with self.builder.into(block):
            self.statements(inner, depth, 1)
            mixed = self.F.tanh(self.F.wrap(a) * self.F.wrap(c) + self.F.wrap(self.last(inner, x)))
            block.results = (b, mixed.value, a)
        inits = [x.value, self.F.sin(x).value, self.pick([v for v in scope.tensors if v.shape == x.shape]).value]
        outs = self.builder.emit("scan", [one("num.abs", n), *inits], blocks=[block], n_carries=3, reverse=False,
                                 types=[t, t, t])
        for v in outs:
            self.make(scope, self.F.wrap(v))

    def growing_loop(self, scope: _Scope, depth: int) -> None:
        """A carry that grows by `cat`: its size is bound anew in each iteration, and known after the loop."""
        found = [t for t in scope.tensors if t.ndim]
        x, one = self.pick(found), self.builder.one
        rest = x.shape[1:]
        inside, after = Symbol("g"), Symbol("G")
        param = Value(TensorType(self.dtype, (dim(inside), *rest)), "grows")
        block = Block((Value(INT, "k"), param), binds=(inside,))
        with self.builder.into(block):
            inner = scope.inner()
            grows = self.F.wrap(param)
            mean = self.F.tanh(self.F.sum(grows, axes=(0,), keepdim=True))
            bigger = self.F.cat(self.F.sin(grows), mean, axis=0)
            inner.tensors.append(mean)
            self.statements(inner, depth, 1)
            same = [t for t in inner.tensors if t.shape == mean.shape]
            block.results = ((bigger * 0.5).value, self.F.tanh(bigger + self.pick(same)).value)
        out_type = TensorType(self.dtype, (dim(after), *rest))
        n = one("num.abs", self.pick(scope.ints))
        y, seq = self.builder.emit("scan", [n, x.value], blocks=[block], n_carries=1, reverse=False, binds=(after,),
                                   types=[out_type, SeqType(TensorType(self.dtype, (dim(Symbol("e")), *rest)))])
        self.make(scope, self.F.sum(self.F.wrap(y), axes=(0,), keepdim=False))
        self.fold(scope, n, seq, rest)

    def fold(self, scope: _Scope, n: Value, seq: Value, rest: tuple[Any, ...]) -> None:
        """Sum over a sequence whose elements differ in size."""
        each = Symbol("e")
        start = self.F.constant(0.1, rest, self.dtype)
        x = Value(TensorType(self.dtype, (dim(each), *rest)), "x")
        acc = Value(start.value.type, "acc")
        block = Block((Value(INT, "k"), acc, x), binds=(each,))
        with self.builder.into(block):
            y = self.F.tanh(self.F.wrap(acc) + self.F.sum(self.F.wrap(x) * self.F.wrap(acc), axes=(0,), keepdim=False))
            block.results = (y.value,)
        (out,) = self.builder.emit("scan", [n, start.value, seq], blocks=[block], n_carries=1,
                                   reverse=bool(self.rng.integers(2)), types=[acc.type])
        self.make(scope, self.F.wrap(out))


def _broadcast(x: GraphHandle, y: GraphHandle) -> bool:
    """Whether two shapes certainly broadcast."""
    return all(a == b or a == 1 or b == 1 for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))


def _broadcast_to(x: GraphHandle, y: GraphHandle) -> bool:
    """Whether x certainly broadcasts to y's shape."""
    return x.ndim <= y.ndim and all(a == b or a == 1 for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))


def _mentions(x: GraphHandle, symbol: Symbol) -> bool:
    from jitgrad.script.graph.ir import type_symbols

    return symbol in type_symbols(x.value.type)

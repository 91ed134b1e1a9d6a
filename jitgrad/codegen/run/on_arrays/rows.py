"""Rows of the op table on NumPy's arrays as native programs: what NumPy does in several passes, in one, on all threads.

    computed(OPS["softmax"], [x], {"axis": 1})                        # the result; None: NumPy is to compute it
    cotangents(OPS["softmax"], (True,), g, y, [x], {"axis": 1})       # of the operands; None: likewise

A program is made on first use for the operands' types and for which of their sizes are equal, and kept in the disk
cache. It has no checks: operands are those of an eager op that was checked. The interpreter, which says what a script
means, stays with NumPy.

Operands lie in the order of their indices, or are one number repeated; where the result does so in any case they may be
transposed. Draws, and what is added up at indices, are computed too (`drawn`, `cotangents`).
"""

import marshal
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, store
from jitgrad.codegen.run.compiled import Compiled
from jitgrad.codegen.run.on_arrays.loops import IN_ORDER
from jitgrad.dims import Symbol, dim
from jitgrad.ops.checks import C
from jitgrad.ops.opdef import GATHER, POINTWISE, REDUCE, OpDef, has_kernels, has_trait
from jitgrad.ops.rules import partial_vjp
from jitgrad.ops.types import INT, TensorType

#: programs at most that differ in attributes only: there are some that each call has another of
MOST = 32
#: shapes at most for which programs are found at once
SHAPES = 1 << 12
#: kinds of rows that are programs, and whose derivative rules are
_KINDS = frozenset({POINTWISE, REDUCE, GATHER})
_TYPES = frozenset(d.np.char for d in dtypes.REALS if not d.is_half)
_ndarray = np.ndarray

#: an array's type: its dtype, 1 or which of the sizes each axis has, and how it lies: `ABSENT`, `DENSE`, `ONE`, or the
#: order of its axes in memory
Lies = str | tuple[int, ...]
Pattern = tuple[str, tuple[int, ...], Lies]
ABSENT, DENSE, ONE = "absent", "dense", "one"


@dataclass(slots=True)
class Program:
    """What computes results of arrays and of `sizes`, those that no array has: (number of an operand, axis). A result
    that is asked for and is not there is None.
    """

    run: Callable[[list[Any]], list[Any]]
    sizes: Sequence[tuple[int, int]]


_programs: dict[Any, Program | None] = {}
#: likewise by the shapes of operands that lie in order, with the sizes that the program is given: at most `SHAPES`
_by_shape: dict[Any, tuple[Callable[[list[Any]], list[Any]], list[int]]] = {}
_counts: Counter[Any] = Counter()


def computed(op: OpDef, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """What a row computes of arrays; None: this is no row, or these are no arrays, for a program."""
    found = _results(op, None, arrays, attrs)
    return found if found is None else found[0] if len(found) == 1 else tuple(found)


def cotangents(op: OpDef, needs: tuple[bool, ...], g: Any, y: Any, xs: Sequence[Any],
               attrs: dict[str, Any]) -> Sequence[Any] | None:
    """The cotangents of the operands that `needs` marks, None for others; None: likewise.

    `y` and those of `xs` that the rule does not read need no more than a shape and a dtype.
    """
    return _results(op, needs, (g, y, *xs), attrs)


def drawn(op: OpDef, numbers: Sequence[int], attrs: dict[str, Any]) -> Any:
    """What a row draws, given the state of a generator: the bits are NumPy's, and anybody's. None: NumPy is to."""
    shape = attrs["shape"]
    key = (op.name, *[(k, v) for k, v in attrs.items() if k != "shape"])
    program = _programs.get(key)
    if program is None:
        with engine.lock:
            try:
                data = store.kept(store.key_of("row", repr(key), runtime.made_by()), lambda: _drawing(op, attrs))
                ((_, run),) = Compiled.from_bytes(data).functions.items()
            except (MemoryError, OSError):  # no memory for native code
                return None
            program = _programs[key] = Program(run, ())
    signed = [v - (1 << 64) if v >> 63 else v for v in numbers]
    return program.run([math.prod(shape), *signed])[0].reshape(shape)


def _results(op: OpDef, needs: tuple[bool, ...] | None, given: Sequence[Any], attrs: dict[str, Any]
             ) -> list[Any] | None:
    try:
        shapes: list[Any] = [op.name, needs, marshal.dumps(attrs, 2)]  # without references: equal bytes of equal attrs
    except ValueError:  # one of them is an object
        shapes = [op.name, needs, repr(attrs)]
    for v in given:
        shapes += (v.dtype.char, v.shape, type(v) is _ndarray and v.flags.num & IN_ORDER)
    exact = tuple(shapes)
    known = _by_shape.get(exact)
    if known is None:
        return _first_of_shapes(op, needs, given, attrs, exact)
    run, sizes = known
    return run([*[v for v in given if type(v) is _ndarray], *sizes])


def _first_of_shapes(op: OpDef, needs: tuple[bool, ...] | None, given: Sequence[Any], attrs: dict[str, Any],
                     exact: Any) -> list[Any] | None:
    if op.kind not in _KINDS or not has_programs(op, attrs):
        return None
    if op.kind is GATHER and not _can_gather(op, needs, given, attrs):
        return None
    anyhow = op.kind is REDUCE or has_trait(op.name, "copies")
    plain = op.kind is not GATHER  # whose indices are looked at
    numbers: dict[int, int] = {1: 1}
    pattern: list[Pattern] = []
    read: list[Any] = []
    for v in given:
        d, shape = v.dtype, v.shape
        lies: Lies = ABSENT
        if d.char not in _TYPES:
            return None
        if isinstance(v, np.generic):
            v, plain = np.asarray(v), False
        if type(v) is _ndarray:
            lies = DENSE
            flags = v.flags
            plain = plain and flags.c_contiguous
            if not flags.aligned:
                return None
            if not flags.c_contiguous:
                if not any(v.strides):
                    lies, v = ONE, v[(0,) * v.ndim + (...,)]
                elif anyhow:
                    lies = tuple(np.argsort([-s for s in v.strides], kind="stable").tolist())
                    v = v.transpose(lies)
                if not v.flags.c_contiguous:
                    return None
            read.append(v)
        pattern.append((d.char, tuple([numbers.setdefault(n, len(numbers) + 1) for n in shape]), lies))
    key = op.name, needs, tuple(pattern), repr(attrs)  # which tells 0.0 from -0.0, and 1 from True
    try:
        program = _programs[key]
    except KeyError:
        program = _first(op, key, attrs)
    if program is None:
        return None
    sizes = [given[k].shape[axis] for k, axis in program.sizes]
    if plain:
        if len(_by_shape) >= SHAPES:
            _by_shape.clear()
        _by_shape[exact] = program.run, sizes
    return program.run([*read, *sizes])


def _can_gather(op: OpDef, needs: tuple[bool, ...] | None, given: Sequence[Any], attrs: dict[str, Any]) -> bool:
    """Whether a program may take these indices: none counts from the end, as NumPy's may. torch's errors for sizes.

    What writes to a copy of an operand NumPy does as fast. Operands that are no arrays, types of what a rule does not
    read, are no indices.
    """
    if needs is None:
        if op.adds_back is None or op.check is None:
            return False
        op.check(C, *given, **attrs)
    indices = [v for v in given[1 if needs is None else 3:] if type(v) is _ndarray and v.dtype.kind in "iu"]
    return all(v.size and v.min() >= 0 for v in indices)


def has_programs(op: OpDef, attrs: dict[str, Any]) -> bool:
    """Whether programs know of a row and of the type that it makes: NumPy has complex and barebones ones."""
    wanted = attrs.get("dtype")
    return has_kernels(op) and (wanted in dtypes.REALS or not isinstance(wanted, dtypes.dtype))


def _first(op: OpDef, key: Any, attrs: dict[str, Any]) -> Program | None:
    """Make a program, and remember it; None, and why does not matter: NumPy computes it, or says what is wrong."""
    with engine.lock:
        if key not in _programs:
            _counts[key[:3]] += 1
            fits = _counts[key[:3]] <= MOST and not has_trait(op.name, "in_library")
            try:
                _programs[key] = _made(op, key, attrs) if fits else None
            except (MemoryError, OSError):  # no memory for native code
                return None
        return _programs[key]


def _made(op: OpDef, key: Any, attrs: dict[str, Any]) -> Program | None:
    _, needs, pattern, _ = key
    if needs is None and op.kind is POINTWISE and not _broadcast([numbers for _, numbers, _ in pattern]):
        return None
    places: dict[int, tuple[int, int]] = {}  # of sizes that no array has
    for _, numbers, lies in pattern:
        if lies is not ABSENT and lies is not ONE:
            places.update(dict.fromkeys(numbers, (-1, 0)))
    for k, (_, numbers, _) in enumerate(pattern):
        for axis, n in enumerate(numbers):
            if n != 1:
                places.setdefault(n, (k, axis))
    unbound = {n: place for n, place in places.items() if place[0] >= 0}
    try:
        data = store.kept(store.key_of("row", repr(key), runtime.made_by()),
                          lambda: _compiled(op, needs, pattern, attrs, list(unbound)))
    except NotImplementedError:
        return None
    ((name, run),) = Compiled.from_bytes(data).functions.items()
    return Program(_spread(run, [mark == "1" for mark in name.partition("_")[2]]), list(unbound.values()))


def _spread(run: Callable[[list[Any]], list[Any]], there: Sequence[bool]) -> Callable[[list[Any]], list[Any]]:
    """`run` with None for each result that is not there."""
    if all(there):
        return run

    def spread(given: list[Any]) -> list[Any]:
        found = iter(run(given))
        return [next(found) if has else None for has in there]

    return spread


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether sizes of one axis are equal, or 1."""
    rank = max(map(len, shapes))
    axes = zip(*[(1,) * (rank - len(s)) + s for s in shapes], strict=True)
    return all(len({*sizes} - {1}) <= 1 for sizes in axes)


def _compiled(op: OpDef, needs: tuple[bool, ...] | None, pattern: Sequence[Pattern], attrs: dict[str, Any],
              unbound: Sequence[int]) -> bytes:
    """The bytes of a program, whose name says which results there are."""
    from jitgrad.codegen.run.compile import compile
    from jitgrad.script.graph.ir import Block, Builder, Graph, Value, type_symbols
    from jitgrad.script.graph.namespace import GraphNamespace
    from jitgrad.script.passes import pipeline

    symbols: dict[int, Symbol] = {}
    builder = Builder(Block())
    F = GraphNamespace(builder)
    params: list[Value] = []
    values: list[Any] = []
    types: list[TensorType] = []
    for char, numbers, _ in pattern:
        dims = tuple([1 if n == 1 else dim(symbols.setdefault(n, Symbol(f"s{n}", not_one=True))) for n in numbers])
        types.append(TensorType(dtypes.from_numpy(np.dtype(char)), dims))
    ints = [Value(INT) for _ in unbound]
    for n, v in zip(unbound, ints, strict=True):
        builder.emit("dim.bind", (v,), types=(INT,), binds=(symbols[n],), symbol=symbols[n])
    for type_, (_, _, lies) in zip(types, pattern, strict=True):
        if lies is ABSENT:
            values.append(type_)
            continue
        order = lies if isinstance(lies, tuple) else tuple(range(len(type_.dims)))
        params.append(Value(TensorType(type_.dtype, () if lies is ONE else tuple([type_.dims[a] for a in order]))))
        value = F.wrap(params[-1])
        if lies is ONE:
            value = F.expand(value, shape=type_.dims)
        elif lies is not DENSE:
            value = F.permute(value, axes=tuple([order.index(a) for a in range(len(order))]))
        values.append(value)
    if needs is None:
        found = getattr(F, op.name)(*values, **attrs)
        found = found if isinstance(found, tuple) else (found,)
    else:
        found = partial_vjp(op, needs, F, values[0], values[1], values[2:], attrs)
        found = tuple([c if needed else None for c, needed in zip(found, needs, strict=True)])
    results = tuple([c.value for c in found if c is not None])
    name = "row_" + "".join(str(int(c is not None)) for c in found)
    bound = {s for v in params for s in type_symbols(v.type)}
    block = Block((*params, *ints), builder.block.nodes, results, tuple([s for s in symbols.values() if s in bound]))
    return compile({name: pipeline.run(Graph(block, name))}).to_bytes()


def _drawing(op: OpDef, attrs: dict[str, Any]) -> bytes:
    """The bytes of the program that draws so many numbers."""
    from jitgrad.codegen.run.compile import compile
    from jitgrad.script.graph.ir import Block, Builder, Graph, Value
    from jitgrad.script.passes import pipeline

    params, size, builder = [Value(INT) for _ in range(3)], Symbol("n", not_one=True), Builder(Block())
    builder.emit("dim.bind", params[:1], types=(INT,), binds=(size,), symbol=size)
    result = builder.one(op.name, *params[1:], **{**attrs, "shape": (dim(size),)})
    return compile({"row": pipeline.run(Graph(Block(tuple(params), builder.block.nodes, (result,)), "row"))}).to_bytes()

"""Pointwise rows that CuPy has no function for, draws, and whole pointwise graphs, as one CUDA kernel each.

A composite row is its expression, a primitive row its entry in the table of scalar primitives: the text that compiled
programs have (`codegen/cuda/kernels/scalars.py`), so that eager and scripted code compute alike. Half types go in and
out as their 16 bits.

A script's own calls do not run these: its kernels read and write 16 bytes at once, CuPy's an element, and CuPy looks at
shapes and dtypes at each call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitgrad import dtypes, random
from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.driver import libraries
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, EXPRESSIONS, STORED, convert, literal, narrow, widen
from jitgrad.dtypes import dtype
from jitgrad.ops import OPS
from jitgrad.ops.namespaces import Handle, Namespace, Number
from jitgrad.ops.opdef import POINTWISE, OpDef, has_kernels
from jitgrad.ops.rows._pointwise import Ufunc
from jitgrad.ops.specs import broadcast_shapes
from jitgrad.ops.types import BOOL, FLOAT, INT, TensorType, Type
from jitgrad.script.graph.ir import Graph, Value

#: the dtypes of Python's numbers
NUMBERS: dict[Type, dtype] = {FLOAT: dtypes.float64, INT: dtypes.int64, BOOL: dtypes.bool_}


@dataclass(frozen=True)
class Elementwise:
    """The text of a `cupy.ElementwiseKernel`.

    Attributes:
        name: the kernel's.
        inputs: parameters as CuPy declares them: "float32 x0, int64 x1".
        output: likewise: "float32 y", or several.
        body: what is done for an element.
    """

    name: str
    inputs: str
    output: str
    body: str


class _Text(Handle):
    """A scalar of a kernel: a name or a literal."""

    __slots__ = ("F", "dtype", "text")
    shape: tuple[int, ...] = ()
    ndim = 0

    def __init__(self, F: _Texts, text: str, d: dtype):
        self.F, self.text, self.dtype = F, text, d


class _Texts(Namespace):
    """The namespace whose handles are scalars of a kernel; `lines` defines them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.name == "full":
            return self.lift(attrs["value"], attrs["dtype"])
        if op.name == "fill":
            return self.define(convert(xs[0].text, xs[0].dtype, attrs["dtype"]), attrs["dtype"])
        row = EXPRESSIONS.get(op.name)
        if row is None:
            return self.expand_composite(op, xs, attrs)
        assert op.spec is not None
        d = op.spec(*[TensorType(x.dtype, ()) for x in xs], **attrs).dtype
        text = row([x.text for x in xs], xs[1 if op.name == "where" else 0].dtype, d, attrs.get("n", 0))
        return self.define(widen(narrow(text, d), d) if d.is_half and op.name != "cast" else text, d)

    def lift(self, value: Number, d: dtype) -> _Text:
        return _Text(self, literal(value, d), d)

    def define(self, text: str, d: dtype) -> _Text:
        """A new name for the value of an expression."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{COMPUTED[d.name]} {name} = {text};")
        return _Text(self, name, d)


def fused(graph: Graph) -> Elementwise:
    """The kernel of a graph whose results all are pointwise in its inputs and of their common shape.

    Parameters are `x<i>`, for numbers too, and results `y<k>`. NotImplementedError for any other graph.
    """
    F, values = _Texts(), dict[Value, Any]()
    inputs = [(i, v.type.dtype if isinstance(v.type, TensorType) else NUMBERS.get(v.type))
              for i, v in enumerate(graph.inputs)]
    for (i, d), v in zip(inputs, graph.inputs, strict=True):
        if d is None:
            raise NotImplementedError(f"an input of type {v.type} is no parameter of an elementwise kernel")
        values[v] = F.define(widen(f"{STORED[d.name]}{{x{i}}}", d) if d.is_half else f"x{i}", d)
    for node in graph.block.nodes:
        if node.op not in EXPRESSIONS and node.op not in ("full", "fill"):
            raise NotImplementedError(f"`{node.op}` is not elementwise: the script is more than one such kernel")
        values[node.outputs[0]] = F.apply(OPS[node.op], tuple([values[v] for v in node.inputs]), dict(node.attrs))
    shape = broadcast_shapes((), *[v.type.dims for v in graph.inputs if isinstance(v.type, TensorType)])
    results: list[tuple[dtype, str]] = []
    for v in graph.outputs:
        if not isinstance(v.type, TensorType) or v.type.dims != shape:
            raise NotImplementedError("a result has another shape than all inputs together")
        results.append((v.type.dtype, values[v].text))
    for k, (d, text) in enumerate(results):
        F.lines.append(f"y{k} = {narrow(text, d)}.bits;" if d.is_half else f"y{k} = {text};")
    given = ", ".join(f"{_parameter(d)} x{i}" for i, d in inputs if d is not None)
    made, body = ", ".join(f"{_parameter(d)} y{k}" for k, (d, _) in enumerate(results)), "\n".join(F.lines)
    about = hashlib.sha256(f"{given}\n{made}\n{body}".encode()).hexdigest()[:8]
    return Elementwise(re.sub(r"\W", "_", f"jg_{graph.name}_{about}"), given, made, body)


def of_graph(graph: Graph) -> Any:
    """The same as a `cupy.ElementwiseKernel`. RuntimeError without CuPy."""
    made = fused(graph)
    return _compiled(libraries.cupy(), made)


def _parameter(d: dtype) -> str:
    return "uint16" if d.is_half else d.name


def kernel(op: OpDef, operands: Sequence[dtype], attrs: dict[str, Any]) -> Elementwise:
    """The kernel of a pointwise row for operands of these dtypes."""
    F = _Texts()
    handles = []
    for i, d in enumerate(operands):
        handles.append(F.define(widen(f"{STORED[d.name]}{{x{i}}}", d) if d.is_half else f"x{i}", d))
    result = F.apply(op, tuple(handles), attrs)
    d = result.dtype
    F.lines.append(f"y = {narrow(result.text, d)}.bits;" if d.is_half else f"y = {result.text};")
    body = "\n".join(F.lines)
    inputs = ", ".join(f"{_parameter(d)} x{i}" for i, d in enumerate(operands))
    about = hashlib.sha256(f"{inputs}\n{d}\n{body}".encode()).hexdigest()[:8]
    return Elementwise(f"jg_{op.name}_{about}", inputs, f"{_parameter(d)} y", body)


@cache
def _compiled(cupy: Any, k: Elementwise) -> Any:
    """The kernel for CuPy, which compiles it at its first call and keeps it on disk."""
    from jitgrad.codegen.cuda.kernels.text import prelude

    return cupy.ElementwiseKernel(k.inputs, k.output, k.body, k.name, preamble=prelude().replace("#pragma once\n", ""))


def runner(cupy: Any, op: OpDef) -> Callable[..., Any] | None:
    """A row on CuPy arrays (or NumPy scalars among them) as one kernel; None for a row that CuPy does well itself."""
    if not has_kernels(op) or op.kind is not POINTWISE or isinstance(op.impl, Ufunc) or "copies" in op.traits:
        return None
    kernels: dict[Any, tuple[Any, dtype]] = {}

    def run(*xs: Any, **attrs: Any) -> Any:
        if op.name == "cast" and not _truncates(xs[0], attrs["dtype"]):
            return op.impl(cupy, *xs, **attrs)  # type: ignore[misc]
        if op.name == "cast" and getattr(attrs["dtype"], "np", attrs["dtype"]).char in dtypes.BAREBONES_CHARS:
            return _as_barebones(cupy, run, xs[0], attrs["dtype"])
        operands = _typed(op, xs)
        key = (*[x.dtype for x in operands], *attrs.items())
        found = kernels.get(key)
        if found is None:
            types = [dtypes.from_numpy(x.dtype) for x in operands]
            assert op.spec is not None
            result = op.spec(*[TensorType(d, ()) for d in types], **attrs).dtype
            found = kernels[key] = _compiled(cupy, kernel(op, types, attrs)), result
        compiled, result = found
        if not any(isinstance(x, cupy.ndarray) for x in operands):
            operands[0] = cupy.asarray(operands[0])
        y = compiled(*[x.view(np.uint16) if x.dtype.char in dtypes.HALF_CHARS else x for x in operands])
        return y.view(result.np) if result.is_half else y

    return run


def _as_barebones(cupy: Any, cast: Callable[..., Any], x: Any, d: Any) -> Any:
    """Floats as unsigned integers by way of signed ones, as on the CPU: the wider ones in two halves."""
    d, signed = getattr(d, "np", d), dtypes.int64 if d.itemsize == 8 else dtypes.int32
    whole = cast(x, dtype=signed).astype(d)
    if d.itemsize == 2:
        return whole
    bit = 8 * d.itemsize - 1
    return cupy.where(x >= 2.0 ** bit, cast(x - 2.0 ** bit, dtype=signed).astype(d) ^ d.type(1 << bit), whole)


def _typed(op: OpDef, xs: tuple[Any, ...]) -> list[Any]:
    """Operands with Python's numbers as NumPy's, of the dtype of the others."""
    d = next(x.dtype for x in (xs[1:] if op.name == "where" else xs) if hasattr(x, "dtype"))
    return [x if hasattr(x, "dtype") else d.type(x) for x in xs]


def _truncates(x: Any, d: Any) -> bool:
    """Whether a cast takes floats to integers, where what does not fit must become what it does on the CPU."""
    return x.dtype.kind in dtypes.INEXACT_KINDS and getattr(d, "np", d).kind in "iu"


# --- draws ---------------------------------------------------------------------------------------------------------

_WORD = "jg_philox({0}, seed, offset)"
DRAWS = {name: Elementwise(f"jg_draw_{name}", "int64 seed, int64 offset", f"{name} y", body) for name, body in {
    "int64": f"y = {_WORD.format('(i64)i')};",
    "float32": f"y = (float)((u32){_WORD.format('(i64)i')} >> 8) * 5.9604644775390625e-08f;",
    "float64": (f"u64 a = (u64){_WORD.format('2 * (i64)i')}, b = (u64){_WORD.format('2 * (i64)i + 1')};\n"
                "y = (double)((a << 32 | b) >> 11) * 1.1102230246251565e-16;"),
}.items()}


def draw(cupy: Any, name: str, seed: int, offset: int, shape: Sequence[int]) -> Any:
    """Words ("int64") or uniform numbers ("float32", "float64") of a Philox stream: the CPU's, to the bit."""
    out = cupy.empty(tuple(shape), getattr(np, name))
    if out.size:
        _compiled(cupy, DRAWS[name])(_signed(seed), _signed(offset), out)
    return out


# --- indices -------------------------------------------------------------------------------------------------------

_RANGE = Elementwise("jg_range", "int64 x, int64 low, int64 high, int64 number", "raw int64 found",
                     "if (x < low || x >= high) { found[0] = number; found[1] = x; }")


def check_range(cupy: Any, x: Any, low: int, high: int, number: int, found: Any) -> None:
    """Write (number, x) to `found`, int64 (2,), if an element x is not in [low, high)."""
    if x.size:
        _compiled(cupy, _RANGE)(x, np.int64(low), np.int64(high), np.int64(number), found)


# --- what goes to one place, in order ------------------------------------------------------------------------------


@cache
def _walk(what: str, d: dtype) -> Elementwise:
    """The kernel whose thread at the first (the last, to put) of equal places does what is to be done there."""
    if what == "put":
        first, then = "i + 1 == count || places[order[i + 1]] != place", "y[place] = x[order[i]];"
    else:
        first = "i == 0 || places[order[i - 1]] != place"
        old, new = ((widen(f"{STORED[d.name]}{{{v}}}", d) if d.is_half else v) for v in ("y[place]", "x[order[j]]"))
        added = widen(narrow(f"(sum + {new})", d), d) if d.is_half else f"sum + {new}"
        then = (f"{COMPUTED[d.name]} sum = {old}; "
                f"for (long long j = i; j < count && places[order[j]] == place; j++) sum = {added}; "
                f"y[place] = {narrow('sum', d) + '.bits' if d.is_half else 'sum'};")
    kind = _parameter(d)
    return Elementwise(
        f"jg_in_order_{what}_{d.name}", f"int64 at, int64 count, raw int64 places, raw int64 order, raw {kind} x",
        f"raw {kind} y", f"const long long place = places[at];\nif ({first}) {{ {then} }}")


def in_order(cupy: Any, what: str, places: Any, order: Any, values: Any, y: Any) -> None:
    """y[places] += values ("add") or = values ("put"), as NumPy does it; `order` sorts the places, stably."""
    d = dtypes.from_numpy(y.dtype)
    x, y = (v.view(np.uint16) if d.is_half else v for v in (values, y))
    _compiled(cupy, _walk(what, d))(order, np.int64(order.size), places, order, x, y)


def _signed(word: int) -> Any:
    return np.uint64(word & random.MASK64).astype(np.int64)

"""A `Kernel` under construction, and the step that runs it.

Statements are made once per value; loads once per window. Adjacent axes along which every operand is contiguous are
joined, so a pointwise kernel over contiguous operands has one axis. Sizes and strides other than 0 and 1 are arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.program.access import IndexMap
from jitgrad.codegen.program.kernel import Kernel, Operand as KernelOperand, Stmt
from jitgrad.codegen.program.step import Buffer, Ref
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.dims import Size, Symbol, dim, product
from jitgrad.dtypes import bool_, dtype
from jitgrad.ops import specs
from jitgrad.ops.namespaces import Handle, Namespace
from jitgrad.ops.opdef import OpDef, has_trait
from jitgrad.script.graph.ir import Value

#: stands for every size and stride that is an argument
ARGUMENT = dim(Symbol("arg"))
#: ways to join parts (`Stmt.fn`) whose result is one of them
_EXACT_FOLDS = frozenset({"max", "min", "fastmax"})


class KernelBuilder:
    """Collects statements and operands over a space, then makes the step.

    Args:
        space: sizes of all axes.
        inner: the reduced ones.
        name: for people.
    """

    def __init__(self, space: Sequence[Size], inner: frozenset[int] = frozenset(), name: str = "kernel"):
        self.space, self.inner, self.name = tuple(space), inner, name
        self.body: list[Stmt] = []
        self.operands: list[tuple[Buffer, Size, list[Size], str]] = []
        self.scalars: list[tuple[Value, dtype]] = []
        self._known: dict[Any, int] = {}
        self._loads: dict[Any, int] = {}
        self._index_axes: set[int] = set()

    def add(self, stmt: Stmt) -> int:
        """The position of `stmt`, made unless it is there already."""
        key = (stmt.op, stmt.args, stmt.dtype, stmt.operand, type(stmt.value), repr(stmt.value), stmt.number,
               stmt.axis, stmt.fn, stmt.strides)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.body)
            self.body.append(stmt)
        return found

    def compute(self, stmt: Stmt) -> int:
        """The position of a statement that computes. What is of a half type is rounded, as by eager between two ops."""
        d = stmt.dtype
        if d is None or not d.is_half or stmt.fn in _EXACT_FOLDS or has_trait(stmt.op, "exact"):
            return self.add(stmt)
        return self.add(Stmt("cast", (self.add(replace(stmt, dtype=dtypes.float32)),), d))

    def expression(self, op: OpDef, values: Sequence[int], attrs: Mapping[str, Any]) -> int:
        """The position of what a composite row is of statements."""
        F = _Expression(self)
        made: _Statement = F.apply(op, tuple([_Statement(F, v) for v in values]), dict(attrs))
        return made.number

    def operand(self, buffer: Buffer, offset: Size, strides: Sequence[Size], role: str = "in") -> int:
        """The number of a memory operand."""
        if role == "in":
            key = (buffer, offset, tuple(strides))
            found = self._loads.get(key)
            if found is not None:
                return found
            self._loads[key] = len(self.operands)
        self.operands.append((buffer, offset, list(strides), role))
        return len(self.operands) - 1

    def load(self, buffer: Buffer, offset: Size, strides: Sequence[Size]) -> int:
        return self.add(Stmt("load", operand=self.operand(buffer, offset, strides), dtype=buffer.dtype))

    def store(self, value: int, buffer: Buffer, offset: Size, strides: Sequence[Size]) -> None:
        number = self.operand(buffer, offset, strides, "out")
        stmt = self.body[value]
        if buffer.dtype.is_half and stmt.op == "cast" and self.body[stmt.args[0]].dtype is dtypes.float32:
            (value,) = stmt.args  # storing rounds
        self.body.append(Stmt("store", (value,), operand=number))

    def column(self, value: int, buffer: Buffer, offset: Size, strides: Sequence[Size]) -> None:
        """Add a value up over the outer axes, each block for itself."""
        number = self.operand(buffer, offset, strides, "out")
        self.body.append(Stmt("column", (value,), buffer.dtype, operand=number))

    def const(self, value: bool | int | float, d: dtype) -> int:
        return self.add(Stmt("const", value=constant(value, d), dtype=d))

    def scalar(self, value: Value, d: dtype) -> int:
        """A number or 0-dim value as an argument of dtype `d`."""
        if (value, d) not in self.scalars:
            self.scalars.append((value, d))
        return self.add(Stmt("scalar", number=self.scalars.index((value, d)), dtype=d))

    def index(self, axis: int) -> int:
        """The index along an axis, int64."""
        self._index_axes.add(axis)
        return self.add(Stmt("index", axis=axis, dtype=dtypes.int64))

    def size(self, value: Size, number: Callable[[Size], Value]) -> int:
        """A size as an int64; `number` gives the value that holds one."""
        if isinstance(value, int):
            return self.const(value, dtypes.int64)
        return self.scalar(number(value), dtypes.int64)

    def affine(self, entry: tuple[int, Size, Size], axes: Sequence[int], number: Callable[[Size], Value]) -> int:
        """factor * index + shift, int64; `axes` maps the entry's axis to the space's."""
        axis, factor, shift = entry
        if axis < 0:
            return self.size(shift, number)
        value = self.index(axes[axis])
        if factor != 1:
            value = self.add(Stmt("mul", (value, self.size(factor, number)), dtypes.int64))
        if shift != 0:
            value = self.add(Stmt("add", (value, self.size(shift, number)), dtypes.int64))
        return value

    def finish(self) -> KernelStep:
        """The kernel, axes of equal layout joined, and its arguments."""
        outer = [a for a in range(len(self.space)) if a not in self.inner]
        inner = [a for a in range(len(self.space)) if a in self.inner]
        groups = self._join(outer), self._join(inner)
        axes = [*groups[0], *groups[1]]
        renumber = {a: i for i, group in enumerate(axes) for a in group}
        sizes = tuple([product(self.space[a] for a in group) for group in axes])
        operands, arguments = [], []
        for buffer, _, strides, role in self.operands:
            mine = tuple(_form(strides[group[-1]]) for group in axes)
            arguments += [strides[group[-1]] for group, form in zip(axes, mine, strict=True) if form is ARGUMENT]
            operands.append(KernelOperand(buffer.dtype, mine, role))  # type: ignore[arg-type]
        body = []
        for s in self.body:
            if s.op == "index":
                s = Stmt("index", axis=renumber[s.axis], dtype=s.dtype)
            elif s.strides:
                arguments += [t for t in s.strides if _form(t) is ARGUMENT]
                s = replace(s, strides=tuple(_form(t) for t in s.strides))
            body.append(s)
        kernel = Kernel((ARGUMENT,) * len(groups[0]), (ARGUMENT,) * len(groups[1]), tuple(operands),
                        tuple(d for _, d in self.scalars), tuple(body), self.name)
        return KernelStep(kernel, sizes, tuple((b, o) for b, o, _, _ in self.operands), tuple(arguments),
                          tuple(v for v, _ in self.scalars))

    def _join(self, axes: list[int]) -> list[list[int]]:
        """Axes in groups; a group is read as one axis by every operand."""
        groups: list[list[int]] = []
        for a in axes:
            if groups and self._joins(groups[-1][-1], a):
                groups[-1].append(a)
            else:
                groups.append([a])
        return groups

    def _joins(self, a: int, b: int) -> bool:
        if a in self._index_axes or b in self._index_axes:
            return False
        size = self.space[b]
        return all(strides[a] == strides[b] * size for _, _, strides, _ in self.operands)


class _Expression(Namespace):
    """`F` for a composite of each element: its ops are statements."""

    def __init__(self, builder: KernelBuilder):
        self.builder = builder

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op.compose is not None:
            return self.expand_composite(op, xs, attrs)
        if op.name == "full":
            return _Statement(self, self.builder.const(attrs["value"], attrs["dtype"]))
        d = attrs["dtype"] if op.name == "cast" else bool_ if op.spec is specs.predicate else xs[-1].dtype
        return _Statement(self, self.builder.compute(Stmt(op.name, tuple([x.number for x in xs]), d)))


class _Statement(Handle):
    """A statement's value, of one element."""

    __slots__ = ("F", "dtype", "number")
    shape, ndim = (), 0

    def __init__(self, F: _Expression, number: int):
        self.F, self.number = F, number
        self.dtype = F.builder.body[number].dtype


def _form(stride: Size) -> Size:
    return stride if isinstance(stride, int) and stride in (0, 1) else ARGUMENT


def constant(value: bool | int | float, d: dtype) -> bool | int | float:
    """A Python number as a constant of a dtype: NumPy's conversion."""
    if d.is_half:
        with np.errstate(all="ignore"):
            return float(np.asarray(value, np.float32).astype(d.np))
    if d.category == dtypes.BOOL:
        return bool(value)
    return int(value) if d.category == dtypes.INTEGRAL else float(value)


def windows(ref: Ref, entries: IndexMap, axes: Sequence[int], rank: int) -> tuple[list[Size], Size]:
    """Strides over a space of `rank` axes, and the start, of a window read at an index map."""
    strides: list[Size] = [0] * rank
    offset = ref.offset
    for (axis, factor, shift), stride in zip(entries, ref.strides, strict=True):
        if axis >= 0:
            strides[axes[axis]] = strides[axes[axis]] + factor * stride
        if shift != 0:
            offset = offset + shift * stride
    return strides, offset

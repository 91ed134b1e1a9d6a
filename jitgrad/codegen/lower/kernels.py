"""A fusion group as a `Kernel` and the step that runs it.

Statements are made once per value; loads once per window. Adjacent axes along which every operand is contiguous are
joined, so a pointwise kernel over contiguous operands has one axis. Sizes and strides other than 0 and 1 are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.lower.fuse import Group, Item, Operand
from jitgrad.codegen.program.access import IndexMap
from jitgrad.codegen.program.kernel import Kernel, Stmt
from jitgrad.codegen.program.kernel import Operand as KernelOperand
from jitgrad.codegen.program.program import Buffer, KernelStep, Ref
from jitgrad.dims import Size, Symbol, dim
from jitgrad.dtypes import dtype
from jitgrad.ops.opdef import fold_of, has_trait
from jitgrad.ops.types import TensorType
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
        sizes: list[Size] = []
        for group in axes:
            size: Size = 1
            for a in group:
                size = size * self.space[a]
            sizes.append(size)
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
        return KernelStep(kernel, tuple(sizes), tuple((b, o) for b, o, _, _ in self.operands), tuple(arguments),
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


class GroupBuilder:
    """Turns a group's items into statements. `lowering` answers where values are (see `lower.BlockLowering`)."""

    def __init__(self, lowering: Any, group: Group):
        self.lowering, self.group = lowering, group
        names = [i.node.op for i in group.items]
        more = "_more" if len(names) > 6 else ""
        self.builder = KernelBuilder(group.space, group.inner, "_".join(names[:6]) + more)
        self.values: dict[Value, int] = {}
        self.dropped_nan = self._softmax_maxima()

    def build(self) -> KernelStep:
        for item in self.group.items:
            if item.across:
                self.column(item)
                continue
            self.values[item.out] = self.item(item)
            if self.lowering.is_needed(item.out, self.group):
                ref = self.lowering.place(item.out)
                self.builder.store(self.values[item.out], ref.buffer, ref.offset, self.spread(item, ref))
        return self.builder.finish()

    def column(self, item: Item) -> None:
        """A sum over the outer axes: each block adds up its rows."""
        (operand,), ref = item.operands, self.lowering.place(item.out)
        value, axes = self.read(operand, self.group.maps[item]), self.group.maps[item]
        strides: list[Size] = [0] * len(self.group.space)
        for axis, stride in zip(item.out_axes[1:], ref.strides[1:], strict=True):
            strides[axes[axis]] = stride
        self.builder.column(value, ref.buffer, ref.offset, strides)

    def spread(self, item: Item, ref: Ref) -> list[Size]:
        """Strides of a result over the group's axes."""
        strides: list[Size] = [0] * len(self.group.space)
        axes = self.group.maps[item]
        for axis, stride in zip(item.out_axes, ref.strides, strict=True):
            if axis >= 0:
                strides[axes[axis]] = stride
        return strides

    def item(self, item: Item) -> int:
        node, axes = item.node, self.group.maps[item]
        d = _dtype(item.out)
        if node.op in ("index", "gather"):
            return self.gather(item, axes)
        if not item.operands:
            made: int = self.lowering.inline(self.builder, item.out, _own(item), axes)
            return made
        args = tuple(self.read(o, axes) for o in item.operands)
        if fold_of(node.op):
            return self.reduction(item, args[0], d)
        return self.builder.compute(Stmt(node.op, args, d, value=node.attrs.get("n", 0)))

    def read(self, operand: Operand, axes: Sequence[int]) -> int:
        found = self.values.get(operand.base)
        if found is not None:
            return found
        return read(self.lowering, self.builder, operand.base, operand.entries, axes)

    def reduction(self, item: Item, value: int, d: dtype) -> int:
        fn = fold_of(item.node.op)
        if fn == "max" and item.out in self.dropped_nan:
            fn = "fastmax"
        if not item.inner:  # every reduced axis has size 1
            if fn in ("any", "all"):
                source = _dtype(item.node.inputs[0])
                return value if source is dtypes.bool_ else self.builder.add(Stmt("cast", (value,), dtypes.bool_))
            return self.builder.const(0, d) if fn.startswith("arg") else value
        return self.builder.compute(Stmt("reduce", (value,), d, fn=fn))

    def gather(self, item: Item, axes: Sequence[int]) -> int:
        data, indices = item.operands[0], item.operands[1:]
        ref = self.lowering.ref(data.base)
        where = item.node.attrs["axes"] if item.node.op == "index" else (item.node.attrs["axis"],)
        rank = len(ref.dims)
        strides, offset = windows(ref, data.entries, axes, len(self.group.space))
        number = self.builder.operand(ref.buffer, offset, strides)
        along = [self.lowering.gather_strides(item, a) for a in range(rank)]
        return self.builder.add(Stmt("gather", tuple(self.read(i, axes) for i in indices), ref.dtype, number,
                                     strides=tuple(along[a] for a in where)))

    def _softmax_maxima(self) -> set[Value]:
        """Maxima that may drop NaN: subtracted before an exp whose sum, which keeps it, is part of every result."""
        uses: dict[Value, list[Item]] = {}
        for item in self.group.items:
            for operand in item.operands:
                uses.setdefault(operand.base, []).append(item)
        found = set()
        for item in self.group.items:
            if item.node.op != "amax" or self.lowering.is_needed(item.out, self.group):
                continue
            shifted = uses.get(item.out, [])
            if len(shifted) == 1 and shifted[0].node.op == "sub" and shifted[0].operands[1].base is item.out:
                difference = shifted[0].out
                exps = [u for u in uses.get(difference, []) if u.node.op == "exp"]
                hidden = not any(self.lowering.is_needed(v, self.group) for v in [difference, *[e.out for e in exps]])
                if len(exps) == 1 and hidden and any(u.node.op == "sum" for u in uses.get(exps[0].out, [])):
                    found.add(item.out)
        return found


def _own(item: Item) -> IndexMap:
    return tuple((a, 1, 0) if a >= 0 else (-1, 0, 0) for a in item.out_axes)


def _dtype(value: Value) -> dtype:
    assert isinstance(value.type, TensorType)
    return value.type.dtype


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


def read(lowering: Any, builder: KernelBuilder, base: Value, entries: IndexMap, axes: Sequence[int]) -> int:
    """The statement that reads a value from outside the kernel."""
    if lowering.is_inline(base):
        result: int = lowering.inline(builder, base, entries, axes)
        return result
    if lowering.in_register(base):
        return builder.scalar(base, _dtype(base))
    ref = lowering.ref(base)
    strides, offset = windows(ref, entries, axes, len(builder.space))
    return builder.load(ref.buffer, offset, strides)

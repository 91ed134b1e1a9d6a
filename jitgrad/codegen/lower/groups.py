"""A fusion group as a kernel."""

from collections.abc import Sequence

from jitgrad import dtypes
from jitgrad.codegen.lower.fuse import Group, Item, Operand
from jitgrad.codegen.lower.kernels import KernelBuilder, windows
from jitgrad.codegen.lower.rules.ops import part_of
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.dims import Size, symbols
from jitgrad.dtypes import dtype
from jitgrad.ops.opdef import OPS, fold_of, has_trait
from jitgrad.script.graph.ir import Value


class GroupBuilder:
    """Turns a group's items into statements."""

    def __init__(self, units: Units, group: Group):
        self.units, self.state, self.group = units, units.state, group
        names = [i.node.op for i in group.items]
        more = "_more" if len(names) > 6 else ""
        self.builder = KernelBuilder(group.space, group.inner, "_".join(names[:6]) + more)
        self.values: dict[Value, int] = {}
        self.dropped_nan = self._softmax_maxima()

    def build(self) -> KernelStep:
        for item in self.group.items:
            if item.column_sum:
                self.column(item)
                continue
            self.values[item.out] = self.item(item)
            if self.units.is_needed(item.out, self.group):
                ref = self.state.place(item.out)
                self.builder.store(self.values[item.out], ref.buffer, ref.offset, self.spread(item, ref))
            self.write_row(item)
        return self.builder.finish()

    def write_row(self, item: Item) -> None:
        """Write a result into what a loop fills, too, if its place is known here."""
        node = self.units.rows.get(item.out)
        if node is not None:
            part = part_of(node, self.state.refs[node.inputs[0]])
            if symbols(part.offset) <= self.state.visible:
                self.builder.store(self.values[item.out], part.buffer, part.offset, self.spread(item, part))
                self.state.note(self.state.written, node)

    def column(self, item: Item) -> None:
        """A sum over the outer axes: each block adds up its rows."""
        (operand,), ref = item.operands, self.state.place(item.out)
        value = self.read(operand, self.group.maps[item])
        self.builder.column(value, ref.buffer, ref.offset, self.spread(item, ref))

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
        d = tensor(item.out).dtype
        if node.op in ("index", "gather"):
            return self.gather(item, axes)
        if not item.operands:
            return self.state.inline(self.builder, item.out, item.own, axes)
        args = tuple(self.read(o, axes) for o in item.operands)
        if fold_of(node.op):
            return self.reduction(item, args[0], d)
        if has_trait(node.op, "copies"):
            return args[0]
        if has_trait(node.op, "whole"):
            return self.builder.expression(OPS[node.op], args, node.attrs)
        return self.builder.compute(Stmt(node.op, args, d, value=node.attrs.get("n", 0)))

    def read(self, operand: Operand, axes: Sequence[int]) -> int:
        found = self.values.get(operand.base)
        if found is not None:
            return found
        return self.state.read(self.builder, operand.base, operand.entries, axes)

    def reduction(self, item: Item, value: int, d: dtype) -> int:
        fn = fold_of(item.node.op)
        if fn == "max" and item.out in self.dropped_nan:
            fn = "fastmax"
        if not item.inner:  # every reduced axis has size 1
            if fn in ("any", "all"):
                source = tensor(item.node.inputs[0]).dtype
                return value if source is dtypes.bool_ else self.builder.add(Stmt("cast", (value,), dtypes.bool_))
            return self.builder.const(0, d) if fn.startswith("arg") else value
        return self.builder.compute(Stmt("reduce", (value,), d, fn=fn))

    def gather(self, item: Item, axes: Sequence[int]) -> int:
        data, indices = item.operands[0], item.operands[1:]
        ref = self.state.ref(data.base)
        where = item.node.attrs["axes"] if item.node.op == "index" else (item.node.attrs["axis"],)
        strides, offset = windows(ref, data.entries, axes, len(self.group.space))
        number = self.builder.operand(ref.buffer, offset, strides)
        return self.builder.add(Stmt("gather", tuple(self.read(i, axes) for i in indices), ref.dtype, number,
                                     strides=tuple(ref.strides[a] for a in where)))

    def _softmax_maxima(self) -> set[Value]:
        """Maxima that may drop NaN: subtracted before an exp whose sum, which keeps it, is part of every result."""
        uses: dict[Value, list[Item]] = {}
        for item in self.group.items:
            for operand in item.operands:
                uses.setdefault(operand.base, []).append(item)
        found = set()
        for item in self.group.items:
            if item.node.op != "amax" or self.units.is_needed(item.out, self.group):
                continue
            shifted = uses.get(item.out, [])
            if len(shifted) == 1 and shifted[0].node.op == "sub" and shifted[0].operands[1].base is item.out:
                difference = shifted[0].out
                exps = [u for u in uses.get(difference, []) if u.node.op == "exp"]
                hidden = not any(self.units.is_needed(v, self.group) for v in [difference, *[e.out for e in exps]])
                if len(exps) == 1 and hidden and any(u.node.op == "sum" for u in uses.get(exps[0].out, [])):
                    found.add(item.out)
        return found

"""Loops, addresses and memory accesses of a kernel as LLVM text; what the loops contain is `kernel.py`'s."""

from collections.abc import Callable

from jitgrad import dtypes
from jitgrad.codegen.llvm.scalars import STORED, narrow, widen
from jitgrad.codegen.program.plan import Plan
from jitgrad.dims import Size
from jitgrad.kernels.values import Code, V, iota, mangle, type_text

#: iterations of a summing loop after which its accumulators are added to the total; with more levels, to those of a
#: block, which is added to the next after as many: rounding error grows with the longest chain of additions
BLOCK = 128

Carried = list[V]


class Nest:
    """The code of one kernel under construction: the current block, loop indices, pointers and mask."""

    def __init__(self, plan: Plan, code: Code, strides: dict[tuple[str, int, int], str]):
        self.plan, self.code, self.strides = plan, code, strides
        self.kernel = plan.kernel
        self.n_outer, self.n = len(self.kernel.outer), len(plan.order)
        #: of sums in blocks; a second one is felt where there are many short rows along the lanes, and chunks are one
        self.levels = 1 if 0 < self.n_outer <= plan.lane or plan.is_total else 2
        self.block, self.labels = "entry", 0
        self.unit = False
        self.mask: V | None = None
        self.index: dict[int, V] = {}
        self.pointers: list[V] = []  # with as many lanes as there are pointers

    # --- blocks and loops ---

    def line(self, text: str) -> None:
        self.code.lines.append("  " + text)

    def label(self, prefix: str) -> str:
        self.labels += 1
        return f"{prefix}{self.labels}"

    def start(self, label: str) -> None:
        self.code.lines.append(f"{label}:")
        self.block = label

    def loop(self, start: V | int, end: V, step: int, carried: Carried,
             body: Callable[[V, Carried], Carried]) -> Carried:
        """`for i in range(start, end, step)`; `carried` values go round. Their values after the loop."""
        code = self.code
        head, inside, after = self.label("head"), self.label("body"), self.label("done")
        before = self.block
        self.line(f"br label %{head}")
        self.start(head)
        hole = len(code.lines)
        i = V(code, code.name(), "i64", 1)
        phis = [V(code, code.name(), c.elem, c.lanes) for c in carried]
        go = i < end
        self.line(f"br i1 {go.name}, label %{inside}, label %{after}")
        self.start(inside)
        result = body(i, phis)
        following = i + step
        first = start.name if isinstance(start, V) else str(start)
        text = [f"  {i.name} = phi i64 [ {first}, %{before} ], [ {following.name}, %{self.block} ]"]
        text += [f"  {p.name} = phi {p.type} [ {c.name}, %{before} ], [ {r.name}, %{self.block} ]"
                 for p, c, r in zip(phis, carried, result, strict=True)]
        self.line(f"br label %{head}")
        code.lines[hole:hole] = text
        self.start(after)
        return phis

    def guarded(self, condition: V, carried: Carried, body: Callable[[], Carried]) -> Carried:
        """`if condition: carried = body()`."""
        inside, after = self.label("tail"), self.label("done")
        before = self.block
        self.line(f"br i1 {condition.name}, label %{inside}, label %{after}")
        self.start(inside)
        result = body()
        last = self.block
        self.line(f"br label %{after}")
        self.start(after)
        return [self.code.emit(f"phi {c.type} [ {c.name}, %{before} ], [ {r.name}, %{last} ]", c.elem, c.lanes)
                for c, r in zip(carried, result, strict=True)]

    def in_blocks(self, size: V, step: int, carried: Carried, fresh: Callable[[], Carried],
                  merge: Callable[[Carried, Carried], Carried], sweep: Callable[[V, V], Carried]) -> Carried:
        """`carried` and the sums `sweep(start, end)` of what is below `size`, in blocks of steps."""
        def blocks(start: V | int, end: V, levels: int, carried: Carried) -> Carried:
            span = step * BLOCK ** levels

            def one(i: V, total: Carried) -> Carried:
                rest = (i + span).intrinsic("smin", end)
                return merge(total, sweep(i, rest) if levels == 1 else blocks(i, rest, levels - 1, fresh()))
            return self.loop(start, end, span, carried, one)
        return blocks(0, size, self.levels, carried)

    def size(self, axis: int) -> V:
        return V(self.code, f"%n{axis}", "i64", 1)

    def place(self, axis: int) -> V:
        """The index along an axis; of the one that is cut this is a chunk."""
        i = self.index[axis]
        return i + V(self.code, "%begin", "i64", 1) if axis == self.plan.cut else i

    def lane_loop(self, carried: Carried, fresh: Callable[[], Carried], merge: Callable[[Carried, Carried], Carried],
                  body: Callable[[V, Carried], Carried], unroll: int, blocked: bool) -> Carried:
        """The loop over the axis in lanes: whole vectors, `unroll` at a time, then a masked rest."""
        width = self.plan.lanes
        step = width * unroll
        size = self.size(self.plan.lane)
        whole = size & -step

        def sweep(start: V | int, end: V, initial: Carried) -> Carried:
            def several(i: V, groups: Carried) -> Carried:
                result: Carried = []
                per = len(groups) // unroll
                for u in range(unroll):
                    result += body(i if u == 0 else i + u * width, groups[u * per:(u + 1) * per])
                return result
            groups = self.loop(start, end, step, initial, several)
            per = len(groups) // unroll
            total = groups[:per]
            for u in range(1, unroll):
                total = merge(total, groups[u * per:(u + 1) * per])
            return total

        if not carried:
            sweep(0, whole, [])
        elif blocked:
            carried = self.in_blocks(whole, step, carried, fresh, merge,
                                     lambda start, end: sweep(start, end, fresh() * unroll))
        elif unroll == 1:
            carried = sweep(0, whole, carried)
        else:
            carried = merge(carried, sweep(0, whole, fresh() * unroll))

        def masked(i: V, accumulators: Carried) -> Carried:
            left = (size - i).cast("trunc", "i32").splat(width)
            self.mask = iota(self.code, "i32", width).compare("ult", left)
            result = body(i, accumulators)
            self.mask = None
            return result

        if unroll == 1:
            return self.guarded(whole < size, carried, lambda: masked(whole, carried))
        return self.loop(whole, size, width, carried, masked)

    def transposed(self) -> None:
        """A copy that transposes, a matrix at a time (`kernels/transposes.py`)."""
        body, lane, turned = self.kernel.body, self.plan.lane, self.plan.turned
        source, target = body[0].operand, body[1].operand
        matrices = [axis for axis in self.plan.order if axis not in (turned, lane)]

        def each(axes: list[int]) -> None:
            if axes:
                saved = list(self.pointers)

                def inside(i: V, carried: Carried) -> Carried:
                    self.pointers = list(saved)
                    self.enter(axes[0], i, {source, target})
                    each(axes[1:])
                    return []

                self.loop(0, self.size(axes[0]), 1, [], inside)
                self.pointers = saved
                return
            to, by = (self.stride("o", k, axis, self.kernel.operands[k].strides[axis])
                      for k, axis in ((target, turned), (source, lane)))
            bits = 8 * self.kernel.operands[target].dtype.itemsize
            self.code.do(f"jg_transpose_{bits}", self.pointers[target], self.pointers[source], self.size(turned),
                         self.size(lane), *[v if isinstance(v, V) else self.code.const(v, "i64", 1) for v in (to, by)])

        each(matrices)

    # --- addresses ---

    def stride(self, where: str, number: int, position: int, stride: Size) -> V | int:
        if isinstance(stride, int):
            return stride
        if self.unit and where == "o" and position == self.plan.lane:
            return 1
        return V(self.code, self.strides[where, number, position], "i64", 1)

    def enter(self, axis: int, i: V, operands: set[int]) -> None:
        """Advance the operands' pointers into iteration `i` of an axis."""
        self.index[axis] = i
        for k in operands:
            stride = self.stride("o", k, axis, self.kernel.operands[k].strides[axis])
            if isinstance(stride, int) and stride == 0:
                continue
            unit = isinstance(stride, int) and stride == 1
            if axis == self.plan.lane and not unit:
                offset = (i.splat(self.plan.lanes) + iota(self.code, "i64", self.plan.lanes))
                offset = offset * (stride if isinstance(stride, int) else stride.splat(self.plan.lanes))
            else:
                offset = i if unit else i * stride
            self.pointers[k] = self.offset(self.pointers[k], offset, STORED[self.kernel.operands[k].dtype.name])

    def offset(self, pointer: V, offset: V, elem: str) -> V:
        return self.code.emit(f"getelementptr {elem}, {pointer.type} {pointer.name}, {offset.type} {offset.name}",
                              "ptr", max(pointer.lanes, offset.lanes))

    # --- memory ---

    def masked(self, what: str, value: V, pointer: V) -> str:
        """The name of an intrinsic that accesses only the lanes of the mask."""
        return f"llvm.masked.{what}.{mangle(value.elem, value.lanes)}.{mangle('ptr', pointer.lanes)}"

    def full_mask(self) -> V:
        return self.mask if self.mask is not None else self.code.const(1, "i1", self.plan.lanes)

    def read(self, pointer: V, d: dtypes.dtype, vector: bool) -> V:
        """Load from a pointer: one scalar, a contiguous vector, or one element per lane."""
        code, elem, lanes = self.code, STORED[d.name], self.plan.lanes if vector else 1
        many = pointer.lanes > 1
        if not vector or (not many and self.mask is None):
            kind = type_text(elem, lanes)
            return widen(code.emit(f"load {kind}, ptr {pointer.name}, align {d.itemsize}", elem, lanes), d)
        none = V(code, "zeroinitializer", elem, lanes)
        return widen(code.call(self.masked("gather" if many else "load", none, pointer), elem, lanes, pointer,
                               code.const(d.itemsize, "i32", 1), self.full_mask(), none), d)

    def write(self, pointer: V, value: V, d: dtypes.dtype, contiguous: bool) -> None:
        """Store a scalar, a contiguous vector, or one element per lane (the last lane wins where they meet)."""
        stored, lanes = narrow(value, d), self.plan.lanes
        scalar = stored.lanes == 1 and pointer.lanes == 1
        if not scalar:
            stored = stored.splat(lanes)
        if scalar or (contiguous and self.mask is None):
            self.line(f"store {stored.type} {stored.name}, ptr {pointer.name}, align {d.itemsize}")
            return
        mask = self.full_mask()
        if not contiguous:
            pointer = pointer.splat(lanes)
        self.code.do(self.masked("scatter" if pointer.lanes > 1 else "store", stored, pointer), stored, pointer,
                     self.code.const(d.itemsize, "i32", 1), mask)

    def contiguous(self, k: int) -> bool:
        lane = self.plan.lane
        if lane < 0:
            return False
        stride = self.stride("o", k, lane, self.kernel.operands[k].strides[lane])
        return isinstance(stride, int) and stride == 1

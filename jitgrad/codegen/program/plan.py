"""What to know about a kernel before printing it: loop order, the axis in vector lanes, and where each statement goes.

A statement is placed in the outermost loop in which it can be computed (`depth`), so loop invariants are hoisted by
construction. With inner axes the body is cut into *stages*, one sweep over the inner axes each: a reduction ends a
stage, and what needs its result at element level belongs to a later one.
"""

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.program.kernel import ORDERED, ROWS, SPREAD, Kernel, Stmt, is_expensive

#: elements in lanes, of which neighbouring chunks share no cache line
LINE = 64

#: reductions that need a second accumulator to hide latency, or whose rounding error wants short chains
SUMS = frozenset({"sum", "dot"})


@dataclass(slots=True)
class Plan:
    """The placement of a kernel's statements. Lists are indexed by statement."""

    kernel: Kernel
    order: tuple[int, ...]     # axes from the outermost loop to the innermost; outer axes first
    lane: int                  # the axis in vector lanes, -1: none
    lanes: int
    depth: list[int]           # 0: before all loops; d: inside the d-th loop of `order`
    vector: list[bool]         # differs from lane to lane
    element: list[bool]        # needs the inner axes
    stage: list[int]           # element: the sweep that first can compute it; row: the sweep it comes after (-1: none)
    stages: int
    splat: list[bool]          # a scalar that some vector statement reads
    spill: dict[int, int]      # costly element values that later sweeps read -> the output operand that keeps them

    @property
    def cut(self) -> int:
        """The axis that several threads may share, the outermost loop's; -1: none.

        Places that indices say, and those that several of its indices share, may be written in a certain order only;
        sums of columns have a place for each `unit` of them.
        """
        body = self.kernel.body
        if not self.order or any(s.op in STORES and s.op != "column" and (s.op != "store" or self._is_repeated(s))
                                 for s in body):
            return -1
        if self.is_total and self.order[0] != 0 and any(s.fn in ("argmax", "argmin") for s in body):
            return -1  # the place of an element is counted with the size of this axis
        return self.order[0] if self.kernel.outer or self.is_total else -1

    @property
    def unit(self) -> int:
        """At whose multiples that axis may be cut: whole blocks of rows where columns are added up; in lanes whole
        vectors, and whole cache lines of all but small integers.
        """
        return ROWS if any(s.op == "column" for s in self.kernel.body) else LINE if self.cut == self.lane else 1

    @property
    def is_total(self) -> bool:
        """Whether it is a single sweep that reduces everything, so that chunks may be reduced first."""
        body = self.kernel.body
        return not self.kernel.outer and self.stages == 1 and any(s.op == "reduce" for s in body) and all(
            s.op == "store" for s in body if s.op in STORES)

    @property
    def is_downward(self) -> bool:
        """Whether the inner loops go down columns, which are in lanes."""
        return 0 <= self.lane < len(self.kernel.outer) and bool(self.kernel.inner)

    @property
    def turned(self) -> int:
        """Of a copy that transposes, the axis along which it reads neighbours; it writes them along the lanes. -1: it
        does something else.
        """
        kernel, lane = self.kernel, self.lane
        if [s.op for s in kernel.body] != ["load", "store"] or kernel.inner or lane < 0:
            return -1
        source, target = (kernel.operands[s.operand] for s in kernel.body)
        if source.dtype is not target.dtype or source.dtype.itemsize not in (4, 8) or target.strides[lane] != 1:
            return -1
        neighbours = [a for a, stride in enumerate(source.strides) if stride == 1]
        return neighbours[0] if len(neighbours) == 1 and target.strides[neighbours[0]] not in (0, 1) else -1

    def _is_repeated(self, store: Stmt) -> bool:
        """Whether what is stored for one index of the outermost loop is stored over for the next."""
        return bool(self.kernel.outer) and self.kernel.operands[store.operand].strides[self.order[0]] == 0


def make_plan(kernel: Kernel, vector_bytes: int, vectors: int = 1) -> Plan:
    """Decide order, lanes and placement; there are so many `vectors` in lanes at a time."""
    n_outer, n = len(kernel.outer), len(kernel.outer) + len(kernel.inner)
    lane = _choose_lane(kernel, n_outer, n)
    axes = list(range(n))
    if lane >= 0:
        group = axes[:n_outer] if lane < n_outer else axes[n_outer:]
        group.remove(lane)
        axes = [*group, lane, *axes[n_outer:]] if lane < n_outer else [*axes[:n_outer], *group, lane]
    lanes = vectors * _lane_count(kernel, vector_bytes) if lane >= 0 else 1
    plan = Plan(kernel, tuple(axes), lane if lanes > 1 else -1, lanes, [], [], [], [], 0, [], {})
    _place(plan, n_outer)
    _spill(plan, n_outer)
    return plan


def _choose_lane(kernel: Kernel, n_outer: int, n: int) -> int:
    """The axis along which most operands are contiguous; -1 for no axes or where lanes could collide.

    With inner axes the operands that are read once per row only break ties; other ties go to the last axis.
    """
    best, best_score = -1, -(10**9)
    for axis in range(n):
        score = 0
        for operand in kernel.operands:
            stride = operand.strides[axis]
            weight = 400 if operand.role == "in" else 600
            if n > n_outer and not any(operand.strides[n_outer:]):
                if axis >= n_outer:
                    continue
                weight = 1
            if isinstance(stride, int):
                score += weight * (2 if stride == 1 else 1 if stride == 0 and operand.role == "in" else -2)
            else:
                score -= weight
        if score >= best_score:
            best, best_score = axis, score
    if best >= 0 and any(_collides(kernel, s, best) for s in kernel.body):
        return -1
    return best


def _collides(kernel: Kernel, stmt: Stmt, lane: int) -> bool:
    """Whether two lanes of what accumulates may hit one element."""
    if stmt.op not in ("scatter_add", "column"):
        return False
    if kernel.operands[stmt.operand].strides[lane] != 1:
        return True
    deps = dependencies(kernel)
    return any(deps[a] >> lane & 1 for a in stmt.args[1:])


def _lane_count(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of the widest register: 64-bit lanes where no value is narrower (bools aside), else 32-bit ones."""
    kinds = {o.dtype for o in kernel.operands} | {s.dtype for s in kernel.body if s.dtype is not None}
    kinds.discard(dtypes.bool_)
    return vector_bytes // (8 if kinds and all(k.itemsize == 8 for k in kinds) else 4)


def dependencies(kernel: Kernel) -> list[int]:
    """Per statement, a bit mask of the axes along which its value differs (or its memory is addressed).

    What writes where indices say does so for each place of the space, though places and values may be all the same:
    what is added is added that often, and an axis of nothing writes nothing.
    """
    outer_mask = (1 << len(kernel.outer)) - 1
    deps: list[int] = []
    for stmt in kernel.body:
        mask = 0
        for a in stmt.args:
            mask |= deps[a]
        if stmt.operand >= 0:
            for axis, stride in enumerate(kernel.operands[stmt.operand].strides):
                if stride != 0:
                    mask |= 1 << axis
        if stmt.op == "index":
            mask |= 1 << stmt.axis
        elif stmt.op == "reduce":
            mask &= outer_mask
        elif stmt.op in SCATTERS:
            mask |= outer_mask if mask <= outer_mask else (1 << len(kernel.outer) + len(kernel.inner)) - 1
        deps.append(mask)
    return deps


def _place(plan: Plan, n_outer: int) -> None:
    kernel, body = plan.kernel, plan.kernel.body
    inner_mask = ((1 << len(plan.order)) - 1) & ~((1 << n_outer) - 1)
    position = {axis: p for p, axis in enumerate(plan.order)}
    after_reduce: list[bool] = []
    for i, (stmt, mask) in enumerate(zip(body, dependencies(kernel), strict=True)):
        args = stmt.args
        is_reduce = stmt.op == "reduce"
        element = bool(mask & inner_mask)
        sweep = -1
        for a in args:
            sweep = max(sweep, plan.stage[a] if plan.element[a] == element or plan.element[a] else plan.stage[a] + 1)
        if is_reduce and kernel.inner:
            after = args[1:] if stmt.fn == SPREAD else ()
            sweep = max([0, *[plan.stage[a] + (a not in after and not plan.element[a]) for a in args]])
        elif element:
            sweep = max(sweep, 0)
        late = (is_reduce and bool(kernel.inner)) or (not element and any(after_reduce[a] for a in args))
        depth = max((position[axis] + 1 for axis in range(len(plan.order)) if mask >> axis & 1), default=0)
        after_reduce.append(late)
        plan.element.append(element)
        plan.stage.append(sweep)
        plan.depth.append(n_outer if late else depth)
        plan.vector.append(plan.lane >= 0 and bool(mask >> plan.lane & 1))
        plan.splat.append(False)
        for a in args:
            if not plan.vector[a] and (plan.vector[i] or (is_reduce and plan.lane >= n_outer)):
                plan.splat[a] = True
    if kernel.inner:
        plan.stages = 1 + max((s for i, s in enumerate(plan.stage) if plan.element[i] or body[i].op == "reduce"),
                              default=-1)


def cost(kernel: Kernel) -> int:
    """What one place of a kernel's space takes, in 30 ps or so: a rough guess, for which only sizes are not known."""
    total = 0
    for stmt in kernel.body:
        if stmt.operand >= 0:
            total += max(1, 3 * kernel.operands[stmt.operand].dtype.itemsize // 4)
        else:
            total += 16 if is_expensive(stmt.op) else 1
    return total


def _spill(plan: Plan, n_outer: int) -> None:
    """Values that several sweeps need and that cost more to compute again than to read again are kept in an output's
    own place until it is stored.

    softmax: the exponentials wait for their sum in the row that the quotients will overwrite.
    """
    body, operands = plan.kernel.body, plan.kernel.operands
    if plan.stages < 2:
        return
    for i in range(len(body) - 1, -1, -1):
        if not is_expensive(body[i].op) or not plan.element[i] or plan.depth[i] != len(plan.order):
            continue
        sweeps = [s for s in range(plan.stages) if i in needed(plan, s)]  # what is kept needs nothing any more
        if len(sweeps) < 2 or sweeps[0] != plan.stage[i] or (plan.lane >= 0 and not plan.vector[i]):
            continue
        for j, stmt in enumerate(body):
            operand = operands[stmt.operand] if stmt.op == "store" else None
            # j > i: in a sweep that reads the value back and stores the operand, the reading comes first
            if (j > i and operand is not None and operand.role == "out" and operand.dtype is body[i].dtype
                    and operand.dtype in (dtypes.float32, dtypes.float64) and stmt.operand not in plan.spill.values()
                    and plan.element[j] and plan.stage[j] >= sweeps[-1] and plan.depth[j] == len(plan.order)
                    and all(s != 0 for s in operand.strides[n_outer:])
                    and sum(other.operand == stmt.operand for other in body) == 1):
                plan.spill[i] = stmt.operand
                break


def needed(plan: Plan, stage: int) -> list[int]:
    """The element-level statements that sweep number `stage` computes, in order."""
    body = plan.kernel.body
    wanted = [False] * len(body)
    for i in range(len(body) - 1, -1, -1):
        stmt = body[i]
        if plan.stage[i] == stage and (stmt.op == "reduce" or (stmt.op in STORES and plan.element[i])):
            wanted[i] = True
        if i in plan.spill and plan.stage[i] == stage:
            wanted[i] = True
        if wanted[i] and (plan.element[i] or stmt.op == "reduce") and not is_reloaded(plan, i, stage):
            for a in stmt.args:
                if plan.element[a]:
                    wanted[a] = True
    return [i for i, w in enumerate(wanted) if w]


SCATTERS = frozenset({"scatter", "scatter_add"}) | ORDERED
STORES = frozenset({"store", "column"}) | SCATTERS


def is_reloaded(plan: Plan, i: int, stage: int) -> bool:
    """Whether sweep `stage` reads the value of statement i from where an earlier sweep kept it."""
    return i in plan.spill and plan.stage[i] < stage

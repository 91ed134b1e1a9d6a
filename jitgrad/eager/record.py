"""Running a row of the op table on Tensors, and recording it: the hot path of eager execution.

What never changes for a row (its function on arrays, whether it is a view, which operands its derivative reads for a
given set of operands that need gradients) is worked out once and kept in a `Plan`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import CPU, cpu_kernels, device, has_cpu_kernels
from jitgrad.dtypes import HALF_CHARS, INEXACT_KINDS
from jitgrad.eager import construct
from jitgrad.eager.arrays import arrays as libraries
from jitgrad.eager.arrays.arrays import FEW, MANY, library
from jitgrad.eager.arrays.blocks import keep, release
from jitgrad.eager.arrays.errstate import SILENT, restore, silence
from jitgrad.eager.arrays.library import Library
from jitgrad.eager.arrays.moves import move
from jitgrad.eager.autograd.anomaly import remember, watching
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import (INFERENCE_SAVED, Array, Edge, Meta, Storage, TapedArray, edge_of, next_number,
                                         storage_of)
from jitgrad.eager.autograd.opnode import ARRAYS, OpNode
from jitgrad.eager.autograd.tape import tape_of
from jitgrad.eager.construct import wrap
from jitgrad.ops.checks import C
from jitgrad.ops.halves import plain
from jitgrad.ops.opdef import (CREATE, GATHER, JOIN, NONDIFF, POINTWISE, RANDOM, REDUCE, VIEW, OpDef, backward_name,
                               lacks)
from jitgrad.ops.rules import Each, conjugates, is_wide
from jitgrad.ops.saved import length, saved
from jitgrad.ops.types import TensorType

_ndarray = np.ndarray
#: operations of a composite from which calling native code takes less time than calling NumPy for each
SEVERAL = 3
_new = object.__new__

# --- plans ---------------------------------------------------------------------------------------------------------


#: which operands need a cotangent; which operands and which results their rules read
Usage = tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]


class Plan:
    """What eager knows about a row.

    Attributes:
        run: the op on NumPy's arrays.
        plain: on those of no half type; None where that is no other function.
        elsewhere: the op on the arrays of other libraries.
        node: the class of its tape nodes; None where it has no derivative.
        decompose: differentiable only through its parts.
        view: a result may share memory with the operand.
        silent: computes nothing, so that NumPy cannot warn.
        numbers: operands are Python numbers.
        lacks: see `opdef.lacks`.
        least: elements of the first operand from which native code computes it, if it can: few where NumPy would take
            several calls, or go row by row, as it does for maxima.
        ordered: a result lies in row order whatever the operands' order, as torch's do (NumPy's may not).
        follows: or as the first operand lies.
    """

    __slots__ = ("decompose", "elsewhere", "follows", "lacks", "least", "node", "numbers", "op", "ordered", "plain",
                 "run", "silent", "usages", "view")

    def __init__(self, op: OpDef):
        self.op = op
        self.run: Callable[..., Any] = ARRAYS.bind(op)
        self.plain = plain(self.run)
        self.elsewhere: dict[Library, Callable[..., Any]] = {}
        self.decompose = op.vjp is None and op.compose is not None
        self.node: type[OpNode] | None = None
        title = backward_name(op)
        if title:
            self.node = type(title, (OpNode,), {"__slots__": (), "op": op, "__module__": OpNode.__module__,
                                                "parts": op.vjp.parts if isinstance(op.vjp, Each) else None,
                                                "wide": is_wide(op), "conjugates": conjugates(op)})
        self.view = op.kind is VIEW
        self.lacks = lacks(op)
        slow = op.kind is REDUCE and (op.compose is not None or op.fold in ("max", "min"))
        self.least = FEW if slow or length(op) >= SEVERAL else MANY
        self.ordered = op.kind not in (VIEW, POINTWISE)
        self.follows = "keeps_order" in op.traits
        self.silent = op.kind in (VIEW, JOIN, GATHER, CREATE, RANDOM)
        self.numbers = op.name == "fill" or op.kind is RANDOM
        self.usages: dict[Any, Usage] = {}

    def usage(self, mask: int, arrays: Sequence[Array], attrs: dict[str, Any]) -> Usage:
        """What is needed of the operands when those in `mask` require a gradient (bit i for operand i)."""
        key: Any = mask | 1 << len(arrays)  # the leading one counts the operands
        if self.op.arity is None:
            key = (key, *[v for v in attrs.values() if isinstance(v, bool)])  # they choose what a rule reads
        found = self.usages.get(key)
        if found is None:
            needs = tuple([bool(mask >> i & 1) for i in range(len(arrays))])
            types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]
            facts = (saved(self.op, needs, types=types, attrs=attrs) if self.op.arity is None
                     else saved(self.op, needs))
            found = self.usages[key] = (needs, facts.xs, facts.ys if facts.y else ())
        return found


def plan_of(op: OpDef) -> Plan:
    """The plan of a row, made on its first use."""
    plan: Plan | None = op.cache.get("eager")
    if plan is None:
        plan = op.cache["eager"] = Plan(op)
    return plan


# --- running -------------------------------------------------------------------------------------------------------


def explain(op: OpDef, operands: Sequence[Any], attrs: dict[str, Any]) -> None:
    """Raise torch's error for operands that NumPy refused, if the row's check knows one."""
    if op.check is not None:
        types = [TensorType(dtypes.from_numpy(t._data.dtype), t._data.shape) for t in operands]
        op.check(C, *types, **attrs)


def _refused(op: OpDef, array: Any) -> Exception:
    """torch's error for an op that a dtype does not have."""
    return NotImplementedError(f'"{op.name}_cpu" not implemented for \'{dtypes.from_numpy(array.dtype).word}\'')


def create(op: OpDef, numbers: tuple[Any, ...], attrs: dict[str, Any], where: device) -> Any:
    """Run a row without tensor operands: a new tensor on a device."""
    if where.type == "cpu":
        if op.kind is RANDOM and math.prod(attrs["shape"]) >= (FEW if has_cpu_kernels() else MANY):
            made = cpu_kernels().drawn(op, numbers, attrs)
            if made is not None:
                return wrap(made)
        return wrap((op.cache.get("eager") or plan_of(op)).run(*numbers, **attrs))
    home = libraries.on_device(where)
    with home.on(where):
        return wrap(getattr(home.F, op.name)(*numbers, **attrs))


def apply(op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:  # noqa: C901 (no calls: it is hot)
    """Run `op` on Tensors; record it where grad mode is on and an operand requires a gradient."""
    plan: Plan = op.cache.get("eager") or plan_of(op)
    if plan.numbers:
        return wrap(plan.run(*operands, **attrs))
    recording, tracked = mode.enabled, False
    arrays = []
    for t in operands:
        a = t._data
        if type(a) is not _ndarray:
            return _elsewhere(plan, operands, attrs)
        arrays.append(a)
        if t._needs or (t._base is not None and t._base._needs):
            tracked = recording
    if plan.lacks:
        for a in arrays:
            if a.dtype.char in plan.lacks:
                explain(op, operands, attrs)  # torch looks at shapes first
                raise _refused(op, a)
    if tracked and plan.node is None:
        if plan.decompose:
            return _in_parts(op, operands, attrs, operands[0])
        tracked = False
    size = arrays[0].size if arrays else 0
    kept = keep() if size >= MANY else None
    try:
        out = cpu_kernels().row(op, arrays, attrs) if size >= plan.least else None
        if out is None:
            run = plan.run
            if plan.plain is not None:
                for a in arrays:
                    if a.dtype.char in HALF_CHARS:
                        break
                else:
                    run = plan.plain
            if plan.silent:
                out = run(*arrays, **attrs)
            else:
                token = silence(SILENT)
                try:
                    out = run(*arrays, **attrs)
                finally:
                    restore(token)
    except (ValueError, IndexError, TypeError):
        explain(op, operands, attrs)
        raise
    finally:
        if kept is not None:
            release(kept)
    if type(out) is not _ndarray or (not recording and mode.inference):
        if type(out) is tuple:
            outs = tuple([wrap(a) for a in out])
            if tracked:
                record(plan, operands, arrays, attrs, outs)
            return outs
        result = wrap(out)
    else:
        result = _new(construct.Tensor)
        result._data, result._needs, result._base = out, False, None
    if plan.view:
        base = result._data.base
        if op.vjp is NONDIFF:  # `detach` and kin: the same memory, no history
            result._storage = storage_of(operands[0])
        elif base is not None and (base is arrays[0] or base is arrays[0].base or _made_by_hand(base, arrays[0])):
            link(result, operands[0], op, attrs)
    elif plan.ordered and not result._data.flags.c_contiguous:
        result._data = result._data.copy()
    if plan.follows and not arrays[0].flags.c_contiguous:
        result._data = _as_it_lies(result._data, arrays[0])
    if tracked and result._data.dtype.kind in INEXACT_KINDS:
        record(plan, operands, arrays, attrs, (result,))
    return result


def _as_it_lies(array: Any, operand: Any) -> Any:
    """An array with its axes in memory in the order of an operand's."""
    with libraries.there((operand,)):
        made = libraries.lying(library(operand).xp, array.shape, array.dtype, (operand,))
    made[...] = array
    return made


def _made_by_hand(base: Any, array: Array) -> bool:
    """Whether strides made by hand, whose base is no array, are those of a part of an array."""
    while base is not None:
        if base is array or base is array.base:
            return True
        base = getattr(base, "base", None)
    return False


def _in_parts(op: OpDef, operands: Sequence[Any], attrs: dict[str, Any], like: TapedArray) -> Any:
    """A composite without a derivative of its own: the ops that define it, recorded where `like` is."""
    return tape_of(like).expand_composite(op, operands, attrs)  # type: ignore[arg-type]


def _elsewhere(plan: Plan, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """`apply` where an operand's memory is not the CPU's."""
    recording = mode.enabled
    home, operands, arrays = _together(plan, operands)
    if any(a.dtype.char in plan.lacks for a in arrays):
        raise _refused(plan.op, next(a for a in arrays if a.dtype.char in plan.lacks))
    tracked = recording and any(t._needs or (t._base is not None and t._base._needs) for t in operands)
    if tracked and plan.node is None:
        if plan.decompose:
            return _in_parts(plan.op, operands, attrs, next(t for t in operands if type(t._data) is home.ndarray))
        tracked = False
    run = plan.elsewhere.get(home)
    if run is None:
        run = plan.elsewhere[home] = home.F.bind(plan.op)
    try:
        with home.near(arrays):
            out = run(*arrays, **attrs)
    except (ValueError, IndexError, TypeError):
        explain(plan.op, operands, attrs)
        raise
    outs = tuple([wrap(a) for a in out]) if type(out) is tuple else (wrap(out),)
    if plan.view:
        if plan.op.vjp is NONDIFF:
            outs[0]._storage = storage_of(operands[0])
        elif home.shares(out, arrays[0]):
            link(outs[0], operands[0], plan.op, attrs)
    elif plan.ordered:
        for y in outs:
            if not y._data.flags.c_contiguous:
                y._data = libraries.copy(y._data)
    if plan.follows and not arrays[0].flags.c_contiguous:
        outs[0]._data = _as_it_lies(outs[0]._data, arrays[0])
    if tracked and (len(outs) > 1 or outs[0]._data.dtype.kind in INEXACT_KINDS):
        record(plan, operands, arrays, attrs, outs)
    return outs if type(out) is tuple else outs[0]


def _together(plan: Plan, operands: tuple[Any, ...]) -> tuple[Library, tuple[Any, ...], list[Any]]:
    """The library of operands of which one is not on the CPU, the operands, and their arrays, which are together.

    Of those on the CPU, 0-dim tensors and indices go to where the others are. torch's RuntimeError for all else.
    """
    where = None
    for t in operands:
        if type(t._data) is not _ndarray:
            there = libraries.device_of(t._data)
            if where is None:
                where, home = there, library(t._data)
            elif there != where:
                raise libraries.different_devices(where, there)
    assert where is not None
    moved, arrays = list(operands), []
    indices = len(operands) if plan.op.first_index is None else plan.op.first_index
    for i, t in enumerate(operands):
        a = t._data
        if type(a) is _ndarray:
            if a.ndim and i < indices:
                raise libraries.different_devices(where, CPU)
            if mode.enabled and t.requires_grad:
                moved[i] = t = move(t, where)
                a = t._data
            elif plan.op.kind is POINTWISE:
                a = home.scalar(a)
            else:
                a = home.from_host(a, where)
        arrays.append(a)
    return home, tuple(moved), arrays


def link(view: TapedArray, x: TapedArray, op: OpDef, attrs: dict[str, Any]) -> None:
    """Make `view` a view of `x`: same storage, and a way to find its history after in-place writes."""
    view._storage = storage = x._storage or storage_of(x)
    if x._origin is not None or not mode.enabled:
        view._origin = x if x._origin is None else x._origin
        return
    if x._base is not None:
        view._base, view._path = x._base, (*x._path, (op, attrs))
    else:
        view._base, view._path = x, ((op, attrs),)
    view._seen = storage.version


def record(plan: Plan, operands: Sequence[Any], arrays: Sequence[Array], attrs: dict[str, Any],
           outs: Sequence[TapedArray]) -> None:
    """Put a node on the tape whose outputs are `outs`."""
    edges: list[Edge | None] = []
    mask, bit = 0, 1
    for t in operands:
        edge: Edge | None
        if t._base is not None:
            edge = edge_of(t)
        elif t._node is not None:
            edge = (t._node, t._slot)
        else:
            edge = (t, 0) if t._needs else None
        if edge is not None:
            mask |= bit
        bit <<= 1
        edges.append(edge)
    needs, read_xs, read_ys = plan.usages.get(mask | bit) or plan.usage(mask, arrays, attrs)
    checks: list[tuple[Storage, int, int]] = []
    metas: list[Any] = []
    for i, read in enumerate(read_xs):
        a = arrays[i]
        if read:
            t = operands[i]
            storage = t._storage
            if storage is None:
                storage = t._storage = Storage()
            elif storage.inference:
                raise RuntimeError(INFERENCE_SAVED)
            checks.append((storage, storage.version, i))
            metas.append(a)
        else:
            metas.append(Meta(a.shape, a.dtype))
    node: OpNode = _new(plan.node)  # type: ignore[arg-type]
    node.number = next_number()
    node.edges, node.needs, node.attrs, node.metas = edges, needs, attrs, metas
    node.n_outputs = len(outs)
    node.hooks = node.retained = None
    ys: list[Any] = []
    if read_ys or len(outs) > 1:
        for k, y in enumerate(outs):
            if read_ys and read_ys[k]:
                storage = storage_of(y)
                checks.append((storage, storage.version, -1 - k))
                ys.append(y._data)
            else:
                ys.append(Meta(y._data.shape, y._data.dtype))
    node.ys, node.checks = ys, checks
    for slot, y in enumerate(outs):
        if y._data.dtype.kind in INEXACT_KINDS:
            y._node, y._needs = node, True
            if slot:
                y._slot = slot
    if watching.on:
        remember(node)

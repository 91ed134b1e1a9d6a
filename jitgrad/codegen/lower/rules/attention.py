"""Attention: one call, and one for its gradient; on a device one kernel, and two. The library runs the rest.

Operands and results are (N, L, H, E), E contiguous, with any other strides; masks (N, H, L, S), each of these or 1.
"""

from collections.abc import Callable, Sequence
from functools import partial

from jitgrad.codegen.lower.rules import ops
from jitgrad.codegen.lower.rules.windows import copy
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import is_contiguous
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import Attention, AttentionStep
from jitgrad.dtypes import float32
from jitgrad.kernels.tiled.tiles import ELEMENTS
from jitgrad.ops.rows.attention import WIDTHS
from jitgrad.script.graph.ir import Node, Value


def forward(state: Lowering, node: Node) -> None:
    """The result and lse."""
    if not _has_kernels(state, node):
        ops.library(state, node)
        return
    q, k, v = (_read(state, x) for x in node.inputs[:3])
    (y, done), (lse, done_lse) = _made(state, node.outputs[0]), _made(state, node.outputs[1], 3)
    _emit(state, node, "forward", (q, k, v), (y,), (), (lse,), node.inputs[3:])
    done()
    done_lse()


def backward(state: Lowering, node: Node) -> None:
    """The gradients of q, k and v."""
    if not _has_kernels(state, node):
        ops.library(state, node)
        return
    (*given, of_lse, of_g), mask = node.inputs[:6], node.inputs[6:]
    q, k, v, y, g = (_read(state, x) for x in (*given, of_g))
    lse = state.contiguous(of_lse)
    made = [_made(state, x) for x in node.outputs]
    dq, dk, dv = [ref for ref, _ in made]
    if state.device:
        delta = state.allocate(float32, lse.dims)
        _emit(state, node, "dq", (q, k, v, y, g), (dq,), (lse,), (delta,), mask)
        _emit(state, node, "dkv", (q, k, v, g), (dk, dv), (lse, delta), (), mask)
    else:
        _emit(state, node, "backward", (q, k, v, y, g), (dq, dk, dv), (lse,), (), mask)
    for _, done in made:
        done()


def _has_kernels(state: Lowering, node: Node) -> bool:
    first = tensor(node.inputs[0])
    if len(first.dims) != 4:
        return False
    return (first.dtype.is_half and node.attrs["width"] in WIDTHS) if state.device else first.dtype.name in ELEMENTS


def _emit(state: Lowering, node: Node, kind: Attention, reads: Sequence[Ref], makes: Sequence[Ref],
          given: Sequence[Ref], counted: Sequence[Ref], mask: Sequence[Value]) -> None:
    (batches, n_q, heads, _), n_k = reads[0].dims, reads[1].dims[1]
    state.emit(AttentionStep(kind, node.attrs["width"], node.attrs.get("causal", False), node.attrs["scale"],
                             (batches, heads, n_q, n_k), tuple(reads), tuple(makes), tuple(given), tuple(counted),
                             tuple([_mask(state, x) for x in mask])))


def _mask(state: Lowering, value: Value) -> Ref:
    """A mask, with stride 0 where it has one for all; what a device reads has any strides, else the last is 0 or 1."""
    ref = state.ref(value)
    if state.device:
        return ref
    if ref.dims[-1] != 1 and ref.strides[-1] != 1:
        ref = state.contiguous(value)
    return Ref(ref.buffer, ref.offset, ref.dims, tuple([0 if n == 1 else s for n, s in zip(
        ref.dims, ref.strides, strict=True)]))


def _read(state: Lowering, value: Value) -> Ref:
    """An operand in memory, its last axis contiguous."""
    ref = state.ref(value)
    return ref if ref.strides[-1] == 1 else state.contiguous(value)


def _made(state: Lowering, value: Value, axes: int = 1) -> tuple[Ref, Callable[[], None]]:
    """Where a result is made, its last `axes` contiguous, and what is to be done then."""
    place = state.place(value)
    if is_contiguous(place.dims[-axes:], place.strides[-axes:]):
        return place, lambda: None
    aside = state.allocate(place.dtype, place.dims)
    return aside, partial(copy, state, aside, place)


RULES = {**dict.fromkeys(("attention", "masked_attention"), forward),
         **dict.fromkeys(("attention_backward", "masked_attention_backward"), backward)}

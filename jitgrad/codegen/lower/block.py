"""One block as steps: its nodes rewritten, classified, fused, ordered and emitted."""

from collections.abc import Callable, Mapping

from jitgrad.codegen.lower import commits, deferred_stores
from jitgrad.codegen.lower.classify import classify
from jitgrad.codegen.lower.device.epilogues import Epilogues
from jitgrad.codegen.lower.device.narrowed import narrowed
from jitgrad.codegen.lower.device.padded import unpadded
from jitgrad.codegen.lower.device.parts import aim_parts, also_written
from jitgrad.codegen.lower.fuse import Fusion, Group
from jitgrad.codegen.lower.fusing import fused
from jitgrad.codegen.lower.groups import GroupBuilder
from jitgrad.codegen.lower.rules import attention, control, conv, effects, ops, products, sequences, windows
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.steps import NumberStep, ScalarStep
from jitgrad.ops.numbers import is_exact
from jitgrad.ops.opdef import is_scalar
from jitgrad.script.graph.ir import Block, Node
from jitgrad.script.graph.irops import Effect, effect

#: how nodes become steps of their own, by op
RULES: Mapping[str, Callable[[Lowering, Node], None]] = {
    **ops.RULES, **products.RULES, **conv.RULES, **windows.RULES, **effects.RULES, **sequences.RULES, **control.RULES,
    **attention.RULES}


def lower_block(state: Lowering, block: Block) -> None:
    """Emit a block's steps; its results are then where `ref` and `register` say."""
    nodes = products.rewritten(state, block)
    if state.device:
        nodes = Epilogues(state, block, narrowed(state, block, unpadded(state, block, nodes))).run()
    state.see(block.binds)
    units = classify(state, block, nodes)
    commits.order_commits(units)
    fusion = Fusion(units.items, units.item_of, units.depends, units.effects)
    groups = fused(units, fusion, state.device)
    for group in groups:
        for item in group.items:
            units.group_of[item] = group
    state.reasons += [r for r in fusion.reasons if units.is_apart(*r[:2])]
    around = state.origin
    ordered = units.ordered(groups)
    commits.aim_commits(units, ordered)
    aim_parts(units, ordered)
    if state.device:
        units.rows = also_written(units)
    for unit in ordered:
        if isinstance(unit, Group):
            state.origin = tuple([item.node for item in unit.items])
            state.emit(GroupBuilder(units, unit).build())
        else:
            state.origin = (unit,)
            _emit(state, unit)
    state.origin = around


def _emit(state: Lowering, node: Node) -> None:
    """A node that is not in a kernel."""
    if is_scalar(node.op) and state.holds(node.outputs[0]):
        state.emit(ScalarStep(node, tuple(state.register(v) for v in node.inputs)))
        state.set_register(node.outputs[0])
        return
    rule = RULES.get(node.op)
    if rule is not None:
        rule(state, node)
    elif node.op.startswith("num."):
        calls = effect(node.op, node.attrs) is not Effect.NONE or is_exact(node.op, node.attrs)
        plain = deferred_stores.own(node)
        state.emit(NumberStep(plain, state.site("arithmetic", plain) if calls else -1,
                              deferred_stores.leaving(state, node)))
    else:
        ops.library(state, node)
    state.see(node.binds)
    if node.op == "dim.bind":
        state.see((node.attrs["symbol"],))

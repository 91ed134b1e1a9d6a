"""`loss.backward()` where the loss was made by the iteration before.

    loss = f(w)                            loss = f(w);  g = d loss / d w
    while loss.item() > tolerance:         while loss.item() > tolerance:
        loss.backward()             --->       w.grad = g
        step(w)                                step(w)
        loss = f(w)                            loss = f(w);  g = d loss / d w

Inside the body nothing of the loss's history is left. So its gradients are taken where it is made, before the loop and
at the end of the body, and carried as variables that no program can name. Which losses those are is known once a
`backward` has met one: evaluation starts again (`Restart`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.errors import Span
from jitgrad.script.frontend.gradients import backward, carried_leaves, record
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.ir import Block, Value, walk


@dataclass(slots=True, eq=False)
class Ahead:
    """One loss of one loop.

    Attributes:
        name: the loss's variable.
        leaves: the leaves before the loop, with their gradients in variables of these `names`.
        span: where `backward` is called.
    """

    name: str
    leaves: list[Value]
    names: list[str]
    span: Span | None = None


@dataclass(slots=True, eq=False)
class Losses:
    """What a loop carries of the gradients of its variables."""

    key: Any
    frame: int
    found: list[Ahead] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """The variables that hold gradients."""
        return frozenset(n for a in self.found for n in a.names)

    def body(self, context: Context, body: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The loop's body, with the gradients of the losses that it makes."""
        if not self.found:
            return body

        def longer(counter: Any) -> Any:
            result = body(counter)
            for ahead in self.found:
                _take(context, self.frame, ahead)
            return result

        return longer

    def enter(self, context: Context, variables: dict[Value, str]) -> None:
        """The body begins: its parameters that are variables."""
        record.of(context).variables.update((p, (self, name)) for p, name in variables.items())

    def forget(self, context: Context) -> None:
        """After the loop."""
        for name in self.names:
            context.state.values.pop((self.frame, name), None)


def begin(context: Context, key: Any, assigned: frozenset[str]) -> Losses:
    """At a loop's entry: gradients of what is asked for in the body."""
    losses = Losses(key, context.frame.id)
    for name in sorted(assigned):
        loss = context.state.values.get((losses.frame, name))
        if ("ahead", key, name) not in context.decisions or not isinstance(loss, SymTensor) or not loss.requires_grad:
            continue
        leaves = [v for s in heap.of(context).leaves if (v := backward.root_of(context, s)) is not None]
        ahead = Ahead(name, leaves, [f"gradient {k} of {name}" for k in range(len(leaves))])
        losses.found.append(ahead)
        _take(context, losses.frame, ahead)
    return losses


def _take(context: Context, frame: int, ahead: Ahead) -> None:
    """The gradients of the loss that the variable holds now."""
    span = ahead.span or context.span()
    loss = context.state.values.get((frame, ahead.name))
    if not isinstance(loss, SymTensor) or not loss.requires_grad or any(d != 1 for d in loss.type_.dims):
        raise carried_leaves.earlier(span)
    before, context.grad = context.grad, True
    value = heap.read(context, loss)
    context.grad = before
    roots = [backward.root_of(context, s) for s in heap.of(context).leaves]
    others = [v for v in roots if v is not None and v not in ahead.leaves]
    wrt = [*ahead.leaves, *others, *context.inputs.given]
    calls = _calls(context)
    try:
        found = backward.differentiate(context, [value], [backward.seed_of(context, loss, None)], wrt, False, True,
                                        True, span)
    except effects.Raised:  # it has been freed: Python would say so when it is met again
        raise carried_leaves.earlier(span) from None
    if any(c is not None for c in found[len(ahead.leaves):]) or _calls(context) > calls:
        raise carried_leaves.earlier(span)
    for name, c in zip(ahead.names, found[:len(ahead.names)], strict=True):
        if c is not None and c[1] is not True:
            raise carried_leaves.earlier(span)
        context.state.values[(frame, name)] = None if c is None else backward.result_of(context, loss, c, True, False,
                                                                                         False)


def _calls(context: Context) -> int:
    """How many gradients of ignored functions are taken here: they can be seen, so not earlier than in Python."""
    return sum(n.op == "callback.vjp" for n in walk(context.path[-1]))


def of_variable(context: Context, outputs: Sequence[Value], seeds: Sequence[Value], wrt: Sequence[Value],
                retain: bool, all_leaves: bool) -> list[tuple[Value, Value | bool] | None] | None:
    """The gradient of what a loop's variable was at its head; None if this is another gradient.

    Raises:
        Restart: it is to be taken ahead.
    """
    body = max((i for i, b in enumerate(context.path) if b in context.bodies_open), default=0)
    place = record.of(context).variables.get(outputs[0]) if len(outputs) == 1 else None
    if not body or place is None or outputs[0] not in context.path[body].params or not _is_one(context, seeds[0]):
        return None
    if not all_leaves and not {backward.root_of(context, s) for s in heap.of(context).leaves}.issuperset(wrt):
        return None
    losses, name = place
    ahead = next((a for a in losses.found if a.name == name), None)
    if ahead is None:
        if ("ahead", losses.key, name) in context.decisions:
            return None
        raise Restart(("ahead", losses.key, name), f"the gradient of `{name}` is taken where it is made, before "
                                                   f"`backward()` at {context.span()}")
    ahead.span = context.span()
    freed = record.of(context).freed.get(outputs[0].id)
    if freed is not None and (freed in context.path or any(
            freed in n.blocks for n in walk(Block(nodes=[n for b in context.path for n in b.nodes])))):
        raise carried_leaves.earlier(ahead.span)
    if not retain:
        record.of(context).freed[outputs[0].id] = context.path[-1]
    context.gradient_state = True
    found: dict[Value, tuple[Value, Value | bool]] = {}
    for leaf, variable in zip(ahead.leaves, ahead.names, strict=True):
        gradient = context.state.values[(losses.frame, variable)]
        if isinstance(gradient, SymTensor):
            found[leaf] = heap.read(context, gradient), True
        elif gradient is not None:
            raise carried_leaves.earlier(ahead.span)
    return [found.get(v) for v in wrt]


def _is_one(context: Context, seed: Value) -> bool:
    """Whether a cotangent is the one that nobody gave."""
    return any(seed in n.outputs and n.op == "full" and n.attrs["value"] == 1 for n in context.path[-1].nodes)


__all__ = ["Losses", "begin", "of_variable"]

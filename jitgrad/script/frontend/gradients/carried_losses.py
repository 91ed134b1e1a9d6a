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

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.errors import Span
from jitgrad.script.frontend.gradients import backward, carried_leaves, record
from jitgrad.script.frontend.gradients.record import Answer
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.ir import Block, Value, walk


@dataclass(slots=True, eq=False)
class CarriedLoss:
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
    found: list[CarriedLoss] = field(default_factory=list)

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
            for carried in self.found:
                _take(context, self.frame, carried)
            return result

        return longer

    def enter(self, context: Context, variables: dict[Value, str]) -> None:
        """The body begins: its parameters that are variables."""
        record.of(context).variables.update((p, (self, name)) for p, name in variables.items())

    def forget(self, context: Context) -> None:
        """After the loop."""
        for name in self.names:
            context.state.values.pop((self.frame, name), None)

    def gradient_of(self, context: Context, name: str, loss: Value, seed: Value, wrt: Sequence[Value], retain: bool,
                    all_leaves: bool) -> list[Answer] | None:
        """The gradient of what a variable was at the loop's head; None if this is another gradient.

        Raises:
            Restart: it is to be taken where the loss is made.
        """
        body = max((i for i, b in enumerate(context.path) if b in context.bodies_open), default=0)
        if not body or loss not in context.path[body].params or not _is_one(context, seed):
            return None
        if not all_leaves and not {backward.root_of(context, s) for s in heap.of(context).leaves}.issuperset(wrt):
            return None
        carried = next((a for a in self.found if a.name == name), None)
        if carried is None:
            if ("carried loss", self.key, name) in context.decisions:
                return None
            raise Restart(("carried loss", self.key, name),
                          f"the gradient of `{name}` is taken where it is made, before `backward()` at "
                          f"{context.span()}")
        carried.span = context.span()
        freed = record.of(context).freed
        where = freed.get(loss.id)
        if where is not None and (where in context.path or any(
                where in n.blocks for n in walk(Block(nodes=[n for b in context.path for n in b.nodes])))):
            raise carried_leaves.earlier(carried.span)
        if not retain:
            freed[loss.id] = context.path[-1]
        context.gradient_state = True
        found: dict[Value, tuple[Value, Value | bool]] = {}
        for leaf, variable in zip(carried.leaves, carried.names, strict=True):
            gradient = context.state.values[(self.frame, variable)]
            if isinstance(gradient, SymTensor):
                found[leaf] = heap.read(context, gradient), True
            elif gradient is not None:
                raise carried_leaves.earlier(carried.span)
        return [found.get(v) for v in wrt]


def begin(context: Context, key: Any, assigned: frozenset[str]) -> Losses:
    """At a loop's entry: gradients of what is asked for in the body."""
    losses = Losses(key, context.frame.id)
    for name in sorted(assigned):
        loss = context.state.values.get((losses.frame, name))
        if ("carried loss", key, name) not in context.decisions or not (
                isinstance(loss, SymTensor) and loss.requires_grad):
            continue
        leaves = [v for s in heap.of(context).leaves if (v := backward.root_of(context, s)) is not None]
        carried = CarriedLoss(name, leaves, [f"gradient {k} of {name}" for k in range(len(leaves))])
        losses.found.append(carried)
        _take(context, losses.frame, carried)
    return losses


def _take(context: Context, frame: int, carried: CarriedLoss) -> None:
    """The gradients of the loss that the variable holds now."""
    span = carried.span or context.span()
    loss = context.state.values.get((frame, carried.name))
    if not isinstance(loss, SymTensor) or not loss.requires_grad or any(d != 1 for d in loss.type_.dims):
        raise carried_leaves.earlier(span)
    before, context.grad = context.grad, True
    value = heap.read(context, loss)
    context.grad = before
    roots = [backward.root_of(context, s) for s in heap.of(context).leaves]
    others = [v for v in roots if v is not None and v not in carried.leaves]
    wrt = [*carried.leaves, *others, *context.inputs.given]
    calls = _calls(context)
    try:
        found = backward.differentiate(context, [value], [backward.seed_of(context, loss, None)], wrt, False, True,
                                        True, span)
    except effects.Raised:  # it has been freed: Python would say so when it is met again
        raise carried_leaves.earlier(span) from None
    if any(c is not None for c in found[len(carried.leaves):]) or _calls(context) > calls:
        raise carried_leaves.earlier(span)
    for name, c in zip(carried.names, found[:len(carried.names)], strict=True):
        if c is not None and c[1] is not True:
            raise carried_leaves.earlier(span)
        context.state.values[(frame, name)] = None if c is None else backward.result_of(context, loss, c, True, False,
                                                                                         False)


def _calls(context: Context) -> int:
    """How many gradients of ignored functions are taken here: they can be seen, so not earlier than in Python."""
    return sum(n.op == "callback.vjp" for n in walk(context.path[-1]))


def _is_one(context: Context, seed: Value) -> bool:
    """Whether a cotangent is the one that nobody gave."""
    return any(seed in n.outputs and n.op == "full" and n.attrs["value"] == 1 for n in context.path[-1].nodes)

"""Gradients in the body of a loop with respect to what the loop carries.

    for _ in range(n):
        g, = grad(f(fast), fast)          # `fast` is a parameter of the body
        fast = fast - lr * g

In eager this is the gradient with respect to the tensor that `fast` is in this iteration. Inside the body it can be
told from nothing else that the loop carries, or that was there before it: another variable may have been made from it,
or be it. So each such variable must be shown to be independent of it, before the first iteration and after each.
"""

from collections.abc import Sequence

from jitgrad.errors import NonDifferentiable, Span
from jitgrad.script.autodiff import inner
from jitgrad.script.frontend.gradients import record, requires_grad
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.graph.ir import Block, Value

Behind = dict[Value, list[Value]]


def carried(context: Context) -> list[Value]:
    """What the loops around this place carry and may carry a gradient."""
    return [p for b in context.path for p in b.params if context.has_history(p)]


def check(context: Context, outputs: Sequence[Value], target: Value, behind: Behind, span: Span | None = None) -> None:
    """Refuse the gradient of `outputs` with respect to `target` where it goes back into earlier iterations.

    Where that depends on how the loop's variables go on, `settle` decides when the body is complete.

    Args:
        context: the evaluation, in the block where the gradient is taken.
        outputs, target: values that can be read here.
        behind: value -> the values that it depends on, for the blocks around this place.
        span: where the gradient is taken.
    """
    span = span or context.span()
    reached = inner.upstream(outputs, behind, target)
    path = context.path
    own = next((b for b in path if target in b.params), None)
    made = next((k for k, b in enumerate(path) if b is own or any(target in n.outputs for n in b.nodes)), -1)
    for block in path[made + (own is None):]:
        for p in block.params:
            if p is target or p not in reached or not context.has_history(p):
                continue
            if block is not own:
                raise earlier(span)
            record.of(context).asked_apart[(target, p)] = span
    if own is not None:
        first = context.bodies_open[own].get(target)
        if first is None or not first.isdisjoint(reached):
            raise NonDifferentiable("in the first iteration this is a tensor from before the loop, on which the loss "
                                    "depends in another way too", span,
                                    hint="write `.clone()` where the loop's variable gets its first value")


def settle(context: Context, block: Block, results: Sequence[Value], initial: Sequence[Value]) -> None:
    """A loop is complete: its parameters become `initial` before the first iteration and `results` after each."""
    place = {p: k for k, p in enumerate(block.params[len(block.params) - len(initial):])}
    asked = [(p, span) for p, span in record.of(context).asked.items() if p in place]
    after = requires_grad.exactly(context, [results[place[p]] for p, _ in asked], [*context.path, block])
    before = requires_grad.exactly(context, [initial[place[p]] for p, _ in asked])
    for (_, span), *answers in zip(asked, after, before, strict=True):
        if any(a is not True for a in answers):
            raise NonDifferentiable("this loop's variable requires a gradient in some iterations and not in others",
                                    span, hint="write `.requires_grad_()` in the loop, before its use")
    pairs = {pair: span for pair, span in record.of(context).asked_apart.items() if pair[0] in place}
    if not pairs:
        return
    body = inner.dependencies(block.nodes, results)
    around = inner.dependencies([n for b in context.path for n in b.nodes], initial)
    for (p, q), span in pairs.items():
        new_p, new_q = results[place[p]], results[place[q]]
        stays = new_p is p and new_q is q
        if not stays and (new_p in block.params or new_p in inner.upstream((new_q,), body, p)):
            raise earlier(span)
        first_p, first_q = initial[place[p]], initial[place[q]]
        if first_p in inner.upstream((first_q,), around, p):
            raise earlier(span)
        check(context, (first_q,), first_p, around, span)


def earlier(span: Span | None) -> NonDifferentiable:
    """The refusal."""
    return NonDifferentiable("this gradient reaches into earlier iterations of the loop around it", span,
                             hint="write `.detach()` where the value is taken over from the iteration before, or take "
                                  "the gradient after the loop")

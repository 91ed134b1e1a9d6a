"""Full backward hooks of modules: the two ends of a module's call are a pair of nodes (see `graph/custom.py`).

    %x' = custom(%x, %x){pair=1}
    ...                                the module
    %z = custom(%y, %y, ...){pair=1, around=(d x', d y, ... -> d x)}

The code of `around` is the hooks', evaluated at the end of the call, like the `backward` of an `autograd.Function`.
"""

from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.nn import hooks
from jitgrad.script.frontend.batches.items import check_none
from jitgrad.script.frontend.gradients import customs
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.protocol import is_dynamic
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.custom import CustomDerivative
from jitgrad.script.graph.ir import Block, Value


class HookedCall:
    """A module's call under way.

    Attributes:
        args: its arguments, as they were given.
        positions: those with a gradient.
        outside: the values of those.
        inside: what the module got for them, `values` as graph values.
        mark: what its two ends have in common.
    """

    def __init__(self, args: tuple[Any, ...], positions: tuple[int, ...]):
        self.args, self.positions = args, positions
        self.outside: list[Value] = []
        self.inside: list[SymTensor] = []
        self.values: list[Value] = []
        self.mark = object()


def enter(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], HookedCall]:
    """The arguments, those that need a gradient behind the first end."""
    (given,) = args
    context.gradient_state = True
    check_none(context, given, "a module with full backward hooks")
    if any(is_dynamic(a) and not isinstance(a, SymTensor) and hasattr(a, "statics") for a in given):
        raise UnsupportedCall("a module with full backward hooks called with a value that may be None",
                              context.users_span(), hint="check for None before the call")
    positions = tuple([i for i, a in enumerate(given) if isinstance(a, SymTensor) and context.grad and a.requires_grad])
    hooked = HookedCall(given, positions)
    if not positions:
        return given, hooked
    hooked.outside = [heap.read(context, given[i]) for i in positions]
    hooked.inside = _end(context, hooked.outside, (), hooked)
    hooked.values = [heap.read(context, t) for t in hooked.inside]
    result = list(given)
    for i, t in zip(positions, hooked.inside, strict=True):
        result[i] = t
    return tuple(result), hooked


def leave(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result, behind the last end if it needs a gradient."""
    hooked, module, called, result = args
    if not isinstance(result, SymTensor):
        raise UnsupportedCall("a full backward hook of a module that does not return one tensor, inside a script",
                              context.users_span(), hint="call the module outside the script")
    if not context.grad or not result.requires_grad:
        return result
    inside = hooked.values
    if any(heap.read(context, t) is not v for t, v in zip(hooked.inside, inside, strict=True)):
        raise UnsupportedCall("a module with full backward hooks that changes its input in place", context.users_span(),
                              hint="give it a copy, or let it make a new tensor")
    ctx = customs.SymFunctionCtx(context, (True,) * len(inside), hooks.FullHooks.__name__)
    ctx.values.update(module=module, hooks=called, args=hooked.args, positions=hooked.positions)
    given = [hooked.args[i] for i in hooked.positions]
    results = [*inside, heap.read(context, result)]
    shadows = [Value(v.type, v.name) for v in results]
    recorded = context.grad
    around, captured, sizes = customs.derivative(context, hooks.FullHooks, ctx, given, results, shadows,
                                                 tuple(range(len(results))), hooked.outside)
    context.grad = recorded
    if not given:  # the hooks' values lead nowhere
        return result
    return _end(context, results[-1:], captured, hooked, around, sizes)[0]


def _end(context: Context, values: list[Value], captured: tuple[Value, ...], hooked: HookedCall,
         around: CustomDerivative | None = None, sizes: Any = ()) -> list[SymTensor]:
    """New tensors for `values`, with a derivative that passes gradients on."""
    cotangents = tuple([Value(v.type, "g") for v in values])
    params = [Value(v.type, v.name) for v in (*values, *values, *captured)]
    every = tuple(range(len(values)))
    symbols = () if around is None else around.symbols
    call = CustomDerivative("Stretch", Block((*cotangents, *params), [], cotangents), symbols, len(values),
                            len(values), every, every, False, hooked.mark, around)
    found = context.builder.emit("custom", [*values, *values, *captured], types=[v.type for v in values], call=call,
                                 sizes=sizes)
    context.builder.history.update(v.id for v in found)
    return [heap.new_tensor(context, v) for v in found]

"""Optimizers: what is the same for all parameters is computed once."""

from typing import Any

from jitgrad.dims import Assumed
from jitgrad.optim.optimizer import count_step
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import handles
from jitgrad.script.frontend.values import heap, writing
from jitgrad.script.frontend.values.protocol import call, get_attribute
from jitgrad.script.frontend.values.values import SymTensor


@handles(count_step)
def _count_step(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Counts that were equal before are equal after: one sum for all."""
    (step,) = args
    before = _number(context, step) if type(step) is SymTensor and not step.path else None
    counted = None if before is None else context.recall(("counted", before))
    if counted is not None:
        writing.write(context, step, counted)
        return
    call(context, get_attribute(context, step, "add_"), 1)
    if before is not None:
        context.remember(("counted", before), heap.current_value(context, step.storage))


def _number(context: Context, step: SymTensor) -> Any:
    """What a step count holds; one value for all that held the same when the script was entered, where that may be
    assumed: outside of branches, and if no call-back can have changed one of them since."""
    storage, inputs = step.storage, context.inputs
    value = heap.stored(context, storage)
    if storage.input < 0 or value is not inputs.values[storage.input]:
        return value
    is_plain = not (step.type_.dims or step.dtype.is_complex or step.is_cuda or step.requires_grad)
    if is_plain and context.sizes.assumed is not Assumed.NOTHING and not context.depth and not context.called_back:
        return inputs.one_number(storage)
    return value

"""What requires a gradient, exactly: a bool of the run where branches or iterations differ in it.

Elsewhere `Context.has_history` is enough: it may say yes of a value that has no history in this run.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.errors import NonDifferentiable, NotStatic, UnsupportedCall
from jitgrad.script.autodiff import history
from jitgrad.script.frontend.gradients import record, tape
from jitgrad.script.frontend.state import copies, dispatch, effects, versions
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.paths import ITEM, paths_equal
from jitgrad.script.frontend.values import heap, numbers, writing
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.tensors import getter, method
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.ir import Block, Value


def exactly(context: Context, values: Sequence[Value], path: Sequence[Block] | None = None) -> list[history.Answer]:
    """Whether each of `values` requires a gradient: True, False, or a bool of the graph.

    What the loops around this place carry is taken to require one in every iteration if it does in any; `iterations`
    refuses where that is wrong.
    """
    path = context.path if path is None else path
    heads = {p for b in path[1:] for p in b.params}

    def root(v: Value) -> bool:
        if v in heads and context.has_history(v):
            record.of(context).asked.setdefault(v, context.span())
        return context.has_history(v)

    asked = [v for v in values if context.has_history(v)]
    found = dict(zip(asked, history.requires_grad(path, asked, root), strict=True)) if asked else {}
    return [found.get(v, False) for v in values]


@getter("requires_grad")
def requires_grad(context: Context, tensor: SymTensor) -> Any:
    """`tensor.requires_grad`: a bool, or a number of the run."""
    if not tensor.requires_grad or tensor.storage.requires_grad:
        return tensor.requires_grad
    (found,) = exactly(context, [heap.current_value(context, tensor.source[0])])
    return numbers.wrap(context, found) if isinstance(found, Value) else found


@getter("is_leaf")
def is_leaf(context: Context, tensor: SymTensor) -> Any:
    """`tensor.is_leaf`: a bool, or a number of the run."""
    if tensor.is_leaf:
        return True
    if tensor.storage.was_leaf and not tensor.path:
        raise NotStatic("whether a tensor that a branch, a loop or a list brings here is a leaf is known only at "
                        "run time", context.span(), hint="ask where it is made, by its own name")
    return numbers.negate(context, requires_grad(context, tensor))


@getter("grad_fn")
def grad_fn(context: Context, tensor: SymTensor) -> Any:
    """`tensor.grad_fn`: None, or what stands for a node of eager's tape."""
    return dispatch.branch(context, is_leaf(context, tensor), lambda: None, lambda: HISTORY)


class History:
    """What made a tensor, of which a script knows nothing but that it is there."""


HISTORY = History()


def _refused(*args: Any) -> Any:
    raise NonDifferentiable("`.grad_fn`, for a script has no tape", current().span(),
                            hint="look at the `grad_fn` of what the script returns")


_REFUSED: Any = _refused


@register(History)
class HistoryKind(Kind):
    """What made a tensor: it is not None."""

    rank = 5
    class_of = get_attribute = result = text = call = compare = _REFUSED

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        return False if a is None or b is None else _refused()


@method("detach_")
def detach_in_place(context: Context, tensor: SymTensor) -> SymTensor:
    """`tensor.detach_()`: its names show it without history, views that were made of it before keep theirs."""
    storage, path = tensor.storage, tuple([step for step in tensor.path if ITEM not in step[1]])
    if path and not paths_equal(path, storage.seen) and (path[-1][0] != "detach" or tensor.unrecorded):
        if tensor.copied:
            writing.writable(context, tensor)
        raise effects.raise_now(context, RuntimeError, ("Can't detach views in-place. Use detach() instead.",))
    if not tensor.requires_grad:
        return tensor
    writing.writable(context, tensor)
    copies.identify(context, tensor)
    if storage.input >= 0 or storage.retains_grad:
        what = "retains its gradient" if storage.retains_grad else "the script did not make"
        raise UnsupportedCall(f"`detach_` of a tensor that {what}", context.span(), hint="write `x = x.detach()`")
    if storage.requires_grad:
        return writing.require_grad(context, tensor, False)
    if writing.renamed(context, tensor, tensor):
        if versions.of(context).writes.get(storage):  # views made before a write have no history then
            raise UnsupportedCall("`detach_` of a tensor that was written to, and of which there are views",
                                  context.span(), hint="write `x = x.detach()`")
        detached = tensor.detach()
        writing.renamed(context, tensor, detached)
        storage.alias = "it was detached in place, and there were views of it"
        return detached
    context.state.values[storage] = context.one("detach", heap.current_value(context, storage))
    return tensor


def require(context: Context, tensor: SymTensor, message: str) -> bool:
    """Raise RuntimeError at run time where a tensor requires no gradient; whether it may require one at all."""
    found = requires_grad(context, tensor)
    if found is True or found is False:
        return found
    effects.emit(context, "check", found.value, error=RuntimeError, template=(message,))
    return True


def about(context: Context, tensor: SymTensor) -> str:
    """What a tensor's text says besides its elements, as far as it is certain (see `Tensor._text`).

    Not certain: what branches and iterations bring, what was written in place, views that may change nothing, and
    whatever requires a gradient only in some runs.
    """
    storage, path = tensor.source
    given = context.inputs.tensors[storage.input] if storage.input >= 0 and not path else None
    is_parameter = given._is_param if given is not None else storage.parameter and not path
    first = "Parameter containing:\n" if is_parameter else ""
    if not tensor.requires_grad or storage.made is None:
        return first
    if not path and storage.requires_grad:
        return first + "requires_grad=True"
    name = tape.view_word(context, tensor) if path else storage.made
    if not name:
        return first
    heads = {p for b in context.path[1:] for p in b.params}
    value = heap.current_value(context, storage)
    (found,) = history.requires_grad(context.path, [value], lambda v: v not in heads and context.has_history(v))
    return f"{first}grad_fn=<{name}>" if found is True else first

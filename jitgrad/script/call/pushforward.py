"""Forward mode of scripted functions: one more program per specialisation and set of directions."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from jitgrad.eager.arrays.arrays import filled_like
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import NonDifferentiable
from jitgrad.random import default_generator
from jitgrad.script.call import signature as sig
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.specialisation import Specialisation


def push(specialisation: Specialisation, params: tuple[Any, ...], flat: Sequence[Any],
         directions: Sequence[Any]) -> Any:
    """(output, tangent) of a scripted call; None where it must go the general way.

    That is so for a script that writes to tensors or objects, for one tensor given as two arguments, and for results
    that are not tensors.

    Args:
        specialisation: what takes the call.
        params: the values of the parameters.
        flat: the tensors among the arguments, in order.
        directions: a tangent for each.
    """
    direction = {id(x): t for x, t in zip(flat, directions, strict=True)}
    script = specialisation.script
    if script.gradient_state:  # what it does may depend on what needs a gradient, as the general way has it
        return None
    places = list(_places(script.result))
    if (len(direction) != len(flat) or specialisation.function.writes or script.lists or script.stores
            or not all(isinstance(p, (sig.Output, sig.Same, sig.ViewOf)) for p in places)):
        return None
    with default_generator if specialisation.draws else nullcontext():
        return _push(specialisation, params, direction, places)


def _push(specialisation: Specialisation, params: tuple[Any, ...], direction: dict[int, Any],
          places: Sequence[sig.Result]) -> Any:
    """`push` for directions by the identity of the tensor, and the leaves of the result."""
    entered = specialisation.enter(params)
    assert entered is not None
    objects, arrays = entered
    wrt = [i for i, x in enumerate(objects) if id(x) in direction]
    tangents = [direction[id(objects[i])] for i in wrt]
    try:
        program, outputs = _program(specialisation, objects, tuple(wrt), tangents)
    except NonDifferentiable:  # a derivative that was written by hand, for the backward pass only
        return None
    on_commit = functools.partial(specialisation.commit, params) if specialisation.commit is not None else None
    results = program([*objects, *tangents], [*arrays, *(t._data for t in tangents)], on_commit)
    n = specialisation.function.n_outputs
    moved: list[Any] = [_zeros(v) for v in results[:n]]
    for i, t in zip(outputs, results[n:], strict=True):
        moved[i] = t
    around = list(objects)
    for p in places:
        if isinstance(p, sig.Same) or (isinstance(p, sig.ViewOf) and not p.made):
            x = objects[p.index]
            around[p.index] = direction[id(x)] if id(x) in direction else _zeros(x)
    return specialisation.leave(params, objects, results[:n]), specialisation.leave(params, around, moved)


def _zeros(value: Any) -> Any:
    return wrap(filled_like(value._data, "zeros_like")) if isinstance(value, Tensor) else value


def _places(result: sig.Result) -> Iterator[sig.Result]:
    """The leaves of a result."""
    if isinstance(result, (sig.Container, sig.Made)):
        for item in result.items:
            yield from _places(item)
    else:
        yield result


def _program(specialisation: Specialisation, objects: Sequence[Any], wrt: tuple[int, ...],
             tangents: Sequence[Any]) -> tuple[GraphFunction, tuple[int, ...]]:
    """The tangent program for directions of the inputs `wrt`, and the outputs that have tangents."""
    from jitgrad.eager.autograd.grad_mode import is_grad_enabled

    function = specialisation.function
    key = (wrt, is_grad_enabled(), tuple([t.requires_grad for t in tangents]))
    found = specialisation.tangents.get(key)
    if found is None:
        from jitgrad.script.autodiff.flow import is_differentiable
        from jitgrad.script.autodiff.forward import tangent_function

        graph = function.graph
        outputs = [i for i, v in enumerate(graph.outputs) if is_differentiable(v.type)]
        n = len(graph.outputs)
        known = specialisation.script.differentiable
        history = [*(outputs if known is None else known), *range(n, n + len(outputs))]
        on_host = [*function.on_host, *[k for k, i in enumerate(outputs, n) if i in function.on_host]]
        program = GraphFunction.prepare(tangent_function(graph, wrt, outputs), [*objects, *tangents],
                                        f"{function.name}_tangent", history, function.device, on_host)
        found = specialisation.tangents[key] = (program, tuple(outputs))
    return found

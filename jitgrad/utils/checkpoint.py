"""Less memory for more time: torch.utils.checkpoint's names.

Inside a script the same calls mark a region of the program: its intermediate values are not saved, the compiled
backward computes them again.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from jitgrad.eager.autograd import checkpoint as segment
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.ops import autocast
from jitgrad.random import default_generator
from jitgrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               preserve_rng_state: bool = True, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, context_fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, whose intermediate values are computed again in the backward pass.

    Args:
        function: what to run; it must do the same again. Tensors that it reads besides its arguments (parameters) get
            their gradients too.
        args, kwargs: its arguments.
        use_reentrant: accepted; there is one implementation, which behaves like torch's non-reentrant one.
        preserve_rng_state: draw the same random numbers again.
        determinism_check, debug, early_stop: accepted.
        context_fn: a function that returns two context managers, for the forward and for the second run.

    Raises:
        RuntimeError: in the backward pass, if the function returns other shapes when it runs again.
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    state, modes = default_generator.position, autocast.state()
    structure: list[TreeSpec] = []
    contexts = context_fn() if context_fn is not None else (nullcontext(), nullcontext())

    def first() -> list[Any]:
        with contexts[0]:
            leaves, spec = tree_flatten(function(*args, **kwargs))
        structure.append(spec)
        return leaves

    def again() -> list[Any]:
        now, modes_now = default_generator.position, autocast.state()
        autocast.restore(modes)
        if preserve_rng_state:
            default_generator.position = state
        try:
            with contexts[1]:
                return tree_flatten(function(*args, **kwargs))[0]
        finally:
            autocast.restore(modes_now)
            if preserve_rng_state:
                default_generator.position = now

    return tree_unflatten(segment.run(first, again), structure[0])


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          preserve_rng_state: bool = True) -> Any:
    """`functions`, one after the other, in `segments` segments of which all but the last are checkpointed.

    Args:
        functions: a `Sequential`, or a list of functions or modules.
        segments: how many.
        input: what the first function gets.
        use_reentrant, preserve_rng_state: as for `checkpoint`.
    """
    steps = list(functions)
    size = len(steps) // segments
    for k in range(segments - 1):
        input = checkpoint(_chain(steps[k * size:(k + 1) * size]), input, use_reentrant=use_reentrant,
                           preserve_rng_state=preserve_rng_state)
    return _chain(steps[(segments - 1) * size:])(input)


def _chain(steps: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return run


__all__ = ["checkpoint", "checkpoint_sequential"]

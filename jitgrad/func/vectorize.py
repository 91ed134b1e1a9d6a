"""`vmap`: a function of one item as a function of a batch."""

import functools
from collections.abc import Callable
from typing import Any

from jitgrad import config
from jitgrad.eager.batched import BatchedTensor
from jitgrad.eager.interop import get_rng_state, set_rng_state
from jitgrad.func import batches


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that gives, for tensors that hold many items along an axis, `func` of each item.

    `func` runs once, on tensors that show the shape of one item; each op of it is one op on the whole batch.

    Args:
        func: a function of tensors, or of tuples, lists and dicts of them, that gives such.
        in_dims: the axis along which an argument holds its items, or None for one that is the same for all: one for all
            arguments, or a tuple with the structure of the arguments. Keyword arguments are the same for all items.
        out_dims: where the axis goes in the results, likewise; None for a result that is the same for all items.
        randomness: "error" refuses draws of random numbers, "same" draws once for all items, "different" for each.
        chunk_size: how many items are computed at a time; all by default.

    Raises:
        RuntimeError: the function branches on an item's numbers, or asks for them.

    >>> import jitgrad
    >>> x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> jitgrad.func.vmap(jitgrad.dot, in_dims=(0, None))(x, x[0])
    tensor([ 5., 11.])
    """
    batches.check_options(randomness, chunk_size)

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _mapped(func, (in_dims, out_dims, randomness, chunk_size), args, kwargs)

    return wrapper


def _mapped(func: Callable[..., Any], options: tuple[Any, Any, str, int | None], args: tuple[Any, ...],
            kwargs: dict[str, Any]) -> Any:
    name = getattr(func, "__name__", None) or repr(func)
    in_dims, out_dims, randomness, chunk_size = options
    state = get_rng_state() if randomness == "same" and chunk_size is not None else None

    def run(items: tuple[Any, ...]) -> Any:
        if state is not None:  # every chunk draws what the first one did
            set_rng_state(state)
        before, config.mode.eager = config.mode.eager, True  # a program has no batch
        try:
            return func(*items, **kwargs)
        finally:
            config.mode.eager = before

    return batches.mapped(run, BatchedTensor, batches.Options(name, in_dims, out_dims, randomness, chunk_size), args)


__all__ = ["vmap"]

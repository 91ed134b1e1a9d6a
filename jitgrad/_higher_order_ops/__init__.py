"""torch's control flow as functions: the branches and loops that scripts compile anyway.

Eagerly and in scripts they are plain Python, so what they are given may be any values, and gradients go through.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library.shapes.join import stack
from jitgrad.paths import stands_for

__all__ = ["cond", "map", "scan", "while_loop"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands) if pred else false_fn(*operands)`.

    Args:
        pred: a bool, or a tensor of one element.

    Raises:
        RuntimeError: pred is a tensor of several elements.
    """
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """`carried = body_fn(*carried)` while `cond_fn(*carried)`; the last of these tuples."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        carried = tuple(body_fn(*carried))
    return carried


def scan(combine_fn: Callable[[Any, Any], Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """`carry, y = combine_fn(carry, x)` for each slice of xs along `dim`: the last carry, and the ys.

    Args:
        init: the first carry.
        xs: a tensor, or a tuple or list of tensors of one size along `dim`, that is of at least one slice.
        reverse: begin at the end; the ys keep the order of xs.

    Returns:
        (carry, ys); a tensor y is stacked along `dim`, of a tuple each item.

    Raises:
        RuntimeError: there are no slices.
    """
    single = isinstance(xs, Tensor)
    n = xs.shape[dim] if single else xs[0].shape[dim]
    carry, rows = init, []
    for k in range(n):
        at = n - 1 - k if reverse else k
        x = xs.select(dim, at) if single else tuple([part.select(dim, at) for part in xs])
        carry, y = combine_fn(carry, x)
        rows.append(y)
    if n == 0:
        raise RuntimeError("scan() of no slices: what `combine_fn` makes is not known")
    if reverse:
        rows.reverse()
    if isinstance(rows[0], Tensor):
        return carry, stack(rows, dim)
    return carry, tuple([stack([row[j] for row in rows], dim) for j in range(len(rows[0]))])


def map(f: Callable[..., Any], xs: Tensor, *args: Any) -> Any:
    """`f(x, *args)` of each x in the first axis of xs, stacked."""
    return stack([f(x, *args) for x in xs])


stands_for(__name__, globals(), "cond map scan while_loop")

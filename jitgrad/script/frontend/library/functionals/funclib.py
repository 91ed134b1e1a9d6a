"""`func.jvp`, `jacrev`, `jacfwd` and `hessian` as scripts know them: scriptable Python over `func.vjp`.

Forward mode is reverse mode twice: the product with a cotangent is linear in the cotangent, and its transpose is the
product with a tangent. Functions take tensors and give one tensor.
"""

from typing import Any

import jitgrad
from jitgrad import Tensor, func
from jitgrad.script.graph.marks import refuse


def jvp(f: Any, primals: Any, tangents: Any) -> Any:
    """(f(*primals), its derivative along the tangents)."""
    y, pull = func.vjp(f, *primals)
    _require_tensor(y)

    def along(u: Tensor) -> Any:
        return pull(u)

    _, push = func.vjp(along, jitgrad.zeros_like(y))
    return y, push(tuple(tangents))[0]


def in_batches(x: Tensor) -> Tensor:
    """x as an item of all vmaps around it, as gradients are (`transforms.py` answers)."""
    return x


def item_by_item(pull: Any, given: Any, batched: Any, likes: Any, n: int) -> Any:
    """What `pull` gives, shaped as `likes`, for each of n items of those of the `given` tensors that are `batched`."""
    rows = tuple([x.new_zeros(n, *x.shape) for x in likes])
    for i in range(n):
        found = pull(*[g[i] if b else g for g, b in zip(given, batched, strict=True)])
        for row, y in zip(rows, found, strict=True):
            row[i] = y
    return rows


def jacobian(f: Any, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, chunk_size: Any = None) -> Any:
    """The function that gives the Jacobian of f for one argument, of shape (*f's shape, *the argument's shape).

    With a tuple of numbers it gives one of each; with `has_aux` what else f gives comes second. Rows are computed one
    by one, whatever `chunk_size` says.
    """
    if isinstance(argnums, tuple):
        def of_each(*args: Any) -> Any:
            found = [jacobian(f, number, has_aux)(*args) for number in argnums]
            return (tuple([rows for rows, _ in found]), found[0][1]) if has_aux else tuple(found)

        return of_each

    def of(*args: Any) -> Any:
        at = argnums + len(args) if argnums < 0 else argnums

        def alone(x: Tensor) -> Any:
            return f(*args[:at], x, *args[at + 1:])

        x = args[at]
        y, pull, *aux = func.vjp(alone, x, has_aux=has_aux)
        _require_tensor(y)
        units = jitgrad.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape)
        rows = in_batches(x).new_zeros(y.numel(), *x.shape)
        for i in range(y.numel()):
            rows[i] = pull(units[i])[0]
        whole = rows.reshape(*y.shape, *x.shape)
        return (whole, aux[0]) if has_aux else whole

    return of


def hessian(f: Any, argnums: int | tuple[int, ...] = 0) -> Any:
    """The function that gives the second derivatives of f for one argument; for several a tuple of tuples."""
    if isinstance(argnums, tuple):
        def of_each(*args: Any) -> Any:
            return tuple([jacobian(jacobian(f, number), argnums)(*args) for number in argnums])

        return of_each
    return jacobian(jacobian(f, argnums), argnums)


def _require_tensor(y: Any) -> None:
    if not isinstance(y, Tensor):
        refuse("this transform of a function that gives no tensor, inside a script", "let it return one tensor")

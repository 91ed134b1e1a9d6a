"""Matrices of derivatives: `jacrev`, `jacfwd`, `hessian`."""

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.func.transforms import Argnums, Call, chosen, jvp, stacked, zeros_of
from jitgrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


def _basis(x: Tensor) -> list[Tensor]:
    """The unit vectors of x's shape."""
    found = []
    for k in range(x.numel()):
        unit = zeros_of(x)
        unit._data.reshape(-1)[k] = 1
        found.append(unit)
    return found


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
           _preallocate_and_copy: bool = False) -> Callable[..., Any]:
    """A function that computes the Jacobian of `func`, one backward pass per element of the output.

    Returns:
        A function whose result has the structure of func's output, each tensor of it replaced by the structure of the
        chosen arguments, in which each tensor has the output's shape followed by the argument's.
    """
    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = Call(func, args, kwargs, argnums, has_aux, "jacrev")
        outputs, spec = tree_flatten(call.output)
        blocks = []
        for y in outputs:
            rows = [call.pull([y], [u], retain=True) for u in _basis(y)]
            blocks.append(call.rebuild([stacked([row[i] for row in rows], y.shape, x.shape)
                                        for i, x in enumerate(call.level.items)]))
        result, aux = tree_unflatten(blocks, spec), call.level.leave(call.aux)
        return (result, aux) if has_aux else result

    return wrapper


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Callable[..., Any]:
    """A function that computes the Jacobian of `func`, one `jvp` per element of the chosen arguments.

    The result is that of `jacrev`.
    """
    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums, "jacfwd")
        leaves, spec = tree_flatten(tuple([args[i] for i in positions]))
        aux: Any = None
        zeros = [zeros_of(x) for x in leaves]
        columns: list[list[list[Tensor]]] = []  # by argument, element, output
        target = func
        if kwargs or positions != tuple(range(len(args))):
            def target(*chosen: Any) -> Any:
                given = list(args)
                for i, value in zip(positions, chosen, strict=True):
                    given[i] = value
                return func(*given, **kwargs)

        structure: TreeSpec | None = None
        shapes: list[Any] = []
        for k, x in enumerate(leaves):
            columns.append([])
            for unit in _basis(x):
                direction = tree_unflatten([*zeros[:k], unit, *zeros[k + 1:]], spec)
                primals = tuple([args[i] for i in positions])
                _, t, *rest = jvp(target, primals, direction, has_aux=has_aux)
                if rest:
                    aux = rest[0]
                found, structure = tree_flatten(t)
                shapes = [v.shape for v in found]
                columns[-1].append(found)
        if structure is None:
            raise RuntimeError("jacfwd: the chosen arguments have no elements")
        blocks = []
        for o, shape in enumerate(shapes):
            parts = []
            for x, column in zip(leaves, columns, strict=True):
                turned = stacked([c[o] for c in column], x.shape, shape)
                n = len(x.shape)
                parts.append(turned.permute(*range(n, turned.ndim), *range(n)))
            tree = tree_unflatten(parts, spec)
            blocks.append(tree[0] if isinstance(argnums, int) else tree)
        result = tree_unflatten(blocks, structure)
        return (result, aux) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)


__all__ = ["hessian", "jacfwd", "jacrev"]

"""Derivatives as functions of functions: torch.func's names.

`grad`, `vjp`, `jacrev` run the eager tape backwards. `jvp` and `jacfwd` of a scripted function compile its tangent
program (forward mode, nothing saved); of any other function they differentiate the backward pass with respect to its
cotangents, of which it is a linear function. All of them nest, in any order.

A result is part of an outer computation exactly where it depends on a tensor that requires a gradient besides the
arguments that were differentiated.

Inside a `vmap` the stand-ins are items of its batch, each with its own value even where the argument is the same for
all: so the tape, which knows whole batches only, gives the gradient of each item.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.eager.autograd.engine import grad as _gradients
from jitgrad.eager.autograd.grad_mode import enable_grad, is_grad_enabled
from jitgrad.eager.autograd.node import Node, edge_of
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.backend import using
from jitgrad.ops.batching.backend import BatchBackend, items_of, levels, spread
from jitgrad.ops.library.core import whole
from jitgrad.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

Argnums = int | tuple[int, ...]


# --- levels --------------------------------------------------------------------------------------------------------


#: stand-ins of levels that are over, by id: what still mentions them has been differentiated already
_closed: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


class Level:
    """One differentiation under way: the tensors it varies, and whether its results belong to a computation around it.

    Attributes:
        batches: the vmaps around it, the outermost first.
        inputs: stand-ins of the given tensors; on the same memory, differentiable, known to nobody else: of all items.
        items: what the function sees of them.
    """

    def __init__(self, tensors: Sequence[Any], name: str):
        self.outer = is_grad_enabled()
        self.batches = levels()
        self.inputs: list[Tensor] = []
        self.items: list[Tensor] = []
        self._own: set[int] = set()
        for x in tensors:
            self.add(x, name)

    def add(self, x: Any, name: str) -> Tensor:
        """One more tensor to vary; its stand-in."""
        if not isinstance(x, Tensor):
            raise ValueError(f"{name}: Expected all differentiated arguments to be Tensors, got {type(x).__name__}")
        if not x.dtype.is_inexact:
            raise RuntimeError(f"{name}: only Tensors of floating point dtype can require gradients, got {x.dtype}")
        with enable_grad():
            x = self.spread(x)
            stand_in = x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
        self.inputs.append(stand_in)
        self._own.add(id(stand_in))
        self.items.append(self.items_of(stand_in))
        return self.items[-1]

    def spread(self, x: Any) -> Any:
        """The tensor of all items of x."""
        return spread(x, self.batches) if self.batches else x

    def items_of(self, value: Any) -> Any:
        """What stands for all items in `value`."""
        return items_of(value, self.batches) if self.batches else value

    def zeros(self) -> list[Any]:
        """A gradient of zeros for each stand-in."""
        return [self.items_of(zeros_of(x)) for x in self.inputs]

    def depends_on_others(self, values: Sequence[Any]) -> bool:
        """Whether the history of `values` reaches a leaf other than this level's inputs."""
        pending = [edge_of(whole(v)) for v in values if isinstance(v, Tensor) and v.requires_grad]
        seen: set[int] = set()
        while pending:
            edge = pending.pop()
            if edge is None or id(edge[0]) in seen:
                continue
            seen.add(id(edge[0]))
            if isinstance(edge[0], Node):
                pending.extend(edge[0].edges)
            elif id(edge[0]) not in self._own and id(edge[0]) not in _closed:
                return True
        return False

    def recorded(self, values: Sequence[Any]) -> bool:
        """Whether what follows from `values` is to be recorded."""
        return self.outer and self.depends_on_others(values)

    def leave(self, tree: Any) -> Any:
        """Results as the world outside sees them: without this level's history."""
        def out(v: Any) -> Any:
            if not isinstance(v, Tensor) or not v.requires_grad:
                return v
            return v if self.recorded([v]) else v.detach()

        _closed.update((id(x), x) for x in self.inputs if x._node is None)
        return tree_map(out, tree)


def chosen(args: tuple[Any, ...], argnums: Argnums, name: str) -> tuple[int, ...]:
    """The positions that `argnums` names."""
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in positions:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{name}: Got argnum={i}, but only {len(args)} positional inputs")
    return tuple([i % len(args) for i in positions])


def _with_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


class Call:
    """A call of a function with stand-ins for some arguments."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Argnums,
                 has_aux: bool, name: str):
        self.argnums = argnums
        positions = chosen(args, argnums, name)
        leaves, self.spec = tree_flatten(tuple([args[i] for i in positions]))
        self.level = Level(leaves, name)
        given = list(args)
        for i, tree in zip(positions, tree_unflatten(self.level.items, self.spec), strict=True):
            given[i] = tree
        with enable_grad():
            self.output, self.aux = _with_aux(func(*given, **kwargs), has_aux, name)

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """Values for the stand-ins in the structure of the chosen arguments."""
        tree = tree_unflatten(leaves, self.spec)
        return tree[0] if isinstance(self.argnums, int) else tree

    def pull(self, outputs: Sequence[Any], cotangents: Sequence[Any], *, retain: bool) -> list[Tensor]:
        """The gradients of the stand-ins."""
        level = self.level
        batch = next((b for b in reversed(levels()) if b not in level.batches), None)
        if batch is not None:
            return self._pull_items(batch, outputs, cotangents)
        pairs = [(level.spread(y), None if g is None else level.spread(g))
                 for y, g in zip(outputs, cotangents, strict=True) if isinstance(y, Tensor) and y.requires_grad]
        if not pairs:
            return level.zeros()
        if level.batches:  # each item has a cotangent of its own
            pairs = [(y, wrap(np.ones_like(y._data)) if g is None else g) for y, g in pairs]
        record = is_grad_enabled() and (level.recorded([y for y, _ in pairs]) or any(
            g is not None and g.requires_grad for _, g in pairs))
        found = _gradients([y for y, _ in pairs], level.inputs, [g for _, g in pairs], retain_graph=retain or record,
                           create_graph=record, allow_unused=True)
        return [level.items_of(zeros_of(x) if g is None else g if record else g.detach())
                for g, x in zip(found, level.inputs, strict=True)]

    def _pull_items(self, batch: BatchBackend, outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Tensor]:
        """`pull` for cotangents of a vmap that the function itself was not called in: one item after another."""
        rows = []
        with using(batch.around):
            given = [(g, batch.has(g)) for g in cotangents]
            for k in range(batch.size):
                rows.append(self.pull(outputs, [g.value[k] if own else g for g, own in given], retain=True))
            if not rows:
                return [batch.item_of(stacked([], (0,), x.shape)) for x in self.level.items]
            return [batch.item_of(stacked(column, (len(rows),), column[0].shape))
                    for column in zip(*rows, strict=True)]


# --- reverse mode --------------------------------------------------------------------------------------------------


def _scalar(output: Any, name: str) -> Tensor:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{name}: Expected f(*args) to return a single tensor, got {type(output).__name__}")
    if output.ndim != 0:
        raise RuntimeError(f"Expected f(*args) to return a scalar tensor, got tensor with {output.ndim} dims. Did you "
                           "forget to call .mean()?")
    return output


def _both(func: Callable[..., Any], argnums: Argnums, has_aux: bool, name: str,
          args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    call = Call(func, args, kwargs, argnums, has_aux, name)
    y = _scalar(call.output, name)
    gradients = call.pull([y], [None], retain=False)
    return call.rebuild(gradients), call.level.leave(y), call.level.leave(call.aux)


def _gradient_function(func: Callable[..., Any], argnums: Argnums, has_aux: bool, name: str,
                       made: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function whose result is `made` of the gradient, and of the value or (value, aux)."""
    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value, aux = _both(func, argnums, has_aux, name, args, kwargs)
        return made(gradient, (value, aux) if has_aux else value)

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of `func`, which returns a 0-dim tensor.

    Args:
        func: a function of tensors, or of tuples, lists and dicts of them.
        argnums: with respect to which positional argument, or arguments.
        has_aux: `func` returns (output, aux); the new function then returns (gradient, aux).

    Raises:
        RuntimeError: `func` returns something else; an argument is not floating.

    >>> import jitgrad
    >>> jitgrad.func.grad(lambda x: (x ** 3).sum())(jitgrad.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    return _gradient_function(func, argnums, has_aux, "grad", lambda g, value: (g, value[1]) if has_aux else g)


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Like `grad`, for (gradient, value), or (gradient, (value, aux))."""
    return _gradient_function(func, argnums, has_aux, "grad_and_value", lambda g, value: (g, value))


def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Like `grad_and_value`, in JAX's order: (value, gradient), or ((value, aux), gradient)."""
    return _gradient_function(func, argnums, has_aux, "grad_and_value", lambda g, value: (value, g))


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)` and the function that takes cotangents of the result to cotangents of the primals.

    Returns:
        (output, vjp_fn) or (output, vjp_fn, aux). `vjp_fn(cotangents)`, with the structure of the output, returns one
        cotangent per primal in a tuple; it may be called any number of times.
    """
    if not primals:
        raise RuntimeError("vjp: Expected at least one primal")
    call = Call(func, primals, {}, tuple(range(len(primals))), has_aux, "vjp")
    outputs, spec = tree_flatten(call.output)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, structure = tree_flatten(cotangents)
        if structure != spec and len(given) != len(outputs):
            raise RuntimeError("vjp_fn: Expected cotangents to have the same structure as the output of f")
        return call.rebuild(call.pull(outputs, given, retain=retain_graph))

    result = call.level.leave(call.output)
    return (result, vjp_fn, call.level.leave(call.aux)) if has_aux else (result, vjp_fn)


# --- forward mode --------------------------------------------------------------------------------------------------


def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:
    """`func(*primals)` and its derivative in the direction `tangents`.

    Args:
        func: a function of tensors, or of tuples, lists and dicts of them. A scripted function runs its compiled
            tangent program: the cost of about two forward passes, whatever its loops, and nothing saved.
        primals, tangents: tuples of one structure, shapes and dtypes.
        strict: raise where an output does not depend on the primals, instead of a tangent of zeros.
        has_aux: `func` returns (output, aux).

    Returns:
        (output, tangent of it), or (output, tangent, aux).

    >>> import jitgrad
    >>> jitgrad.func.jvp(jitgrad.sin, (jitgrad.tensor(0.0),), (jitgrad.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: Expected primals and tangents to be tuples, got "
                           f"{type(primals).__name__} and {type(tangents).__name__}")
    flat, spec = tree_flatten(primals)
    directions = _directions(flat, spec, tangents)
    if not has_aux and not strict and not levels():
        scripted = getattr(type(func), "_scripted", None)  # which has a forward mode of its own
        result = scripted(func).pushforward(primals, flat, directions) if scripted is not None else None
        if result is not None:
            return result
    call = Call(func, primals, {}, tuple(range(len(primals))), has_aux, "jvp")
    outputs, structure = tree_flatten(call.output)
    for y in outputs:
        if not isinstance(y, Tensor):
            raise RuntimeError("jvp: Expected all outputs of the function to be Tensors, got "
                               f"{type(y).__name__}")
    level = call.level
    found = push_through(level, [level.spread(y) for y in outputs], [level.spread(t) for t in directions])
    if strict and any(t is None for t in found):
        raise RuntimeError("jvp: the output of the function is independent of the input; this is not allowed when "
                           "strict=True")
    result = [zeros_of(y) if t is None else level.items_of(t) for t, y in zip(found, outputs, strict=True)]
    pair = call.level.leave(call.output), tree_unflatten(result, structure)
    return (*pair, call.level.leave(call.aux)) if has_aux else pair


def _directions(primals: Sequence[Any], spec: TreeSpec, tangents: Any) -> list[Tensor]:
    directions, structure = tree_flatten(tangents)
    if structure != spec:
        raise RuntimeError("jvp: Expected primals and tangents to have the same python structure")
    for x, t in zip(primals, directions, strict=True):
        if not isinstance(x, Tensor) or not isinstance(t, Tensor):
            raise RuntimeError("jvp: Expected all primals and tangents to be Tensors")
        if x.shape != t.shape:
            raise RuntimeError(f"jvp: Expected a primal and its tangent to have the same shape, got {tuple(x.shape)} "
                               f"and {tuple(t.shape)}")
        if x.dtype is not t.dtype:
            raise RuntimeError(f"jvp: Expected a primal and its tangent to have the same dtype, got {x.dtype} and "
                               f"{t.dtype}")
    return directions


def push_through(level: Level, outputs: Sequence[Tensor], directions: Sequence[Tensor]) -> list[Tensor | None]:
    """Tangents of `outputs`, None where there is none: the backward pass is linear in its cotangents u, and its
    gradient with respect to them, weighted by the directions, is the derivative in these directions.
    """
    found: list[Tensor | None] = [None] * len(outputs)
    moving = [i for i, y in enumerate(outputs) if y.requires_grad]
    if not moving:
        return found
    with enable_grad():
        us = [zeros_of(outputs[i]).requires_grad_() for i in moving]
        pulled = _gradients([outputs[i] for i in moving], level.inputs, us, create_graph=True, allow_unused=True)
        pairs = [(g, t) for g, t in zip(pulled, directions, strict=True) if g is not None and g.requires_grad]
        if not pairs:
            return found
        record = level.outer and (level.depends_on_others([outputs[i] for i in moving])
                                  or any(t.requires_grad for _, t in pairs))
        tangents = _gradients([g for g, _ in pairs], us, [t for _, t in pairs], create_graph=record,
                              allow_unused=True)
    for i, t in zip(moving, tangents, strict=True):
        found[i] = t
    return found


def zeros_of(x: Tensor) -> Tensor:
    """Zeros of x's shape, the same for all items of a batch."""
    zeros: Tensor = wrap(np.zeros_like(whole(x)._data, order="C", shape=tuple(x.shape)))
    return zeros


def stacked(columns: Sequence[Tensor], before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Tensors of the shape `after`, one per element of the shape `before`, as one tensor of the joint shape."""
    from jitgrad import stack, zeros

    if not columns:
        return zeros(*before, *after)
    return stack(list(columns)).reshape(*before, *after)


__all__ = ["grad", "grad_and_value", "jvp", "value_and_grad", "vjp"]

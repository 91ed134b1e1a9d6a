"""Products with Jacobians and Hessians: torch.autograd.functional's names, on top of `jitgrad.func`.

`inputs` is a tensor or a tuple of tensors, and results have the same form. Without `create_graph` they have no history;
with it they depend on those inputs that require a gradient.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from jitgrad import func as transforms
from jitgrad.eager.autograd.grad_mode import enable_grad, no_grad
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.utils._pytree import tree_leaves, tree_map

Given = Tensor | tuple[Tensor, ...]


def _mode(create_graph: bool) -> AbstractContextManager[Any]:
    return enable_grad() if create_graph else no_grad()


def _tuple(given: Any, name: str, function: str) -> tuple[Tensor, ...]:
    found = given if isinstance(given, tuple) else (given,)
    for i, x in enumerate(found):
        if not isinstance(x, Tensor):
            raise TypeError(f"The {name} given to {function} must be either a Tensor or a tuple of Tensors but the "
                            f"value at index {i} has type {type(x)}.")
    return found


def _like(result: tuple[Any, ...], given: Any) -> Any:
    return result if isinstance(given, tuple) else result[0]


def _ones(v: Any, like: tuple[Tensor, ...], name: str, function: str) -> tuple[Tensor, ...]:
    """`v` as a tuple; without one, 1 for the only element there is."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {name}.")
        return (wrap(np.ones_like(like[0]._data)),)
    found = _tuple(v, "v", function)
    if len(found) != len(like) or any(a.shape != b.shape for a, b in zip(found, like, strict=True)):
        raise RuntimeError(f"v of {function} has an invalid size: it should be that of what it is multiplied with")
    return found


def _checked(function: Callable[..., Any], name: str, strict: bool) -> Callable[..., Any]:
    """`function`, whose outputs must be tensors, and with `strict` depend on an input."""
    def wrapper(*args: Any) -> Any:
        result = function(*args)
        _tuple(result, "outputs of the user-provided function", name)
        for i, y in enumerate(tree_leaves(result)):
            if strict and not y.requires_grad:
                raise RuntimeError(f"Output {i} of the user-provided function does not require gradients. The outputs "
                                   f"must be computed in a differentiable manner from the input when running {name} "
                                   "in strict mode.")
        return result

    return wrapper


def vjp(func: Callable[..., Any], inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(func(*inputs), v^T J): one backward pass. `v` has the output's form; None for an output of one element."""
    xs = _tuple(inputs, "inputs", "vjp")
    with _mode(create_graph):
        y, pull = transforms.vjp(_checked(func, "vjp", strict), *xs)
        outputs = _tuple(y, "outputs", "vjp")
        given = _ones(v, outputs, "the user-provided function returns a single Tensor with a single element", "vjp")
        result = pull(_like(given, y))
    return y, _like(result, inputs)


def jvp(func: Callable[..., Any], inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(func(*inputs), J v). `v` has the inputs' form; None for an input of one element."""
    xs = _tuple(inputs, "inputs", "jvp")
    given = _ones(v, xs, "the input to the user-provided function is a single Tensor with a single element", "jvp")
    with _mode(create_graph):
        target = _checked(func, "jvp", strict) if strict else func
        y, t = transforms.jvp(target, xs, given)
    return y, t


def jacobian(func: Callable[..., Any], inputs: Given, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    """The Jacobian: for a tensor in and out of shape (*out, *in); for tuples a tuple per output of a tuple per input.

    Args:
        func, inputs, create_graph, strict: as everywhere here.
        vectorize: accepted; the result is the same.
        strategy: "reverse-mode" or "forward-mode".
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got: {strategy}')
    xs = _tuple(inputs, "inputs", "jacobian")
    make = transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd
    argnums = tuple(range(len(xs))) if isinstance(inputs, tuple) else 0
    with _mode(create_graph):
        return make(_checked(func, "jacobian", strict), argnums)(*xs)


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        y = func(*args)
        if not isinstance(y, Tensor):
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if y.numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        return y.reshape(())

    return wrapper


def hessian(func: Callable[..., Any], inputs: Given, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of a function with one element as its result, as nested as `jacobian` is."""
    xs = _tuple(inputs, "inputs", "hessian")
    gradient = transforms.grad(_scalar(func, "hessian"), tuple(range(len(xs))))

    def first(*args: Any) -> Any:
        return _like(gradient(*args), inputs)

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def hvp(func: Callable[..., Any], inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(func(*inputs), H v): forward mode over reverse mode."""
    xs = _tuple(inputs, "inputs", "hvp")
    given = _ones(v, xs, "the input to the user-provided function is a single Tensor with a single element", "hvp")
    scalar = _scalar(_checked(func, "hvp", strict), "hvp")
    both = transforms.grad_and_value(scalar, tuple(range(len(xs))))
    with _mode(create_graph):
        (_, y), (t, _) = transforms.jvp(both, xs, given)
    return y, _like(t, inputs)


def vhp(func: Callable[..., Any], inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(func(*inputs), v^T H): reverse mode over reverse mode."""
    xs = _tuple(inputs, "inputs", "vhp")
    given = _ones(v, xs, "the input to the user-provided function is a single Tensor with a single element", "vhp")
    scalar = _scalar(_checked(func, "vhp", strict), "vhp")
    both = transforms.grad_and_value(scalar, tuple(range(len(xs))))
    with _mode(create_graph):
        (_, y), pull = transforms.vjp(both, *xs)
        result = pull((given, tree_map(lambda t: wrap(np.zeros_like(t._data)), y)))
    return y, _like(result, inputs)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

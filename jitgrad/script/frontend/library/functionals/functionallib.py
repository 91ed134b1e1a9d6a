"""`autograd.functional` as scripts know it: scriptable Python over `func`'s transforms.

Functions take one tensor (`vjp` and `jvp` several) and give one tensor. Without `create_graph` results have no history.
"""

from typing import Any

import jitgrad
from jitgrad import Tensor, func
from jitgrad.script.frontend.library.functionals import funclib
from jitgrad.script.graph.marks import refuse


def vjp(function: Any, inputs: Any, v: Any = None, create_graph: bool = False) -> Any:
    """(function(*inputs), v^T J)."""
    with jitgrad.set_grad_enabled(create_graph):
        y, pull = func.vjp(function, *(inputs if isinstance(inputs, tuple) else (inputs,)))
        _require_tensor(y)
        found = pull(_given(v, y, "the user-provided function returns a single Tensor with a single element", "vjp"))
    return y, (found if isinstance(inputs, tuple) else found[0])


def jvp(function: Any, inputs: Any, v: Any = None, create_graph: bool = False) -> Any:
    """(function(*inputs), J v)."""
    several = isinstance(inputs, tuple)
    if several and v is None:
        raise RuntimeError(f"The vector v can only be None if {_ONE_INPUT}.")
    along = v if several else (_given(v, inputs, _ONE_INPUT, "jvp"),)
    with jitgrad.set_grad_enabled(create_graph):
        y, t = funclib.jvp(function, inputs if several else (inputs,), along)
    return y, t


def jacobian(function: Any, inputs: Any, create_graph: bool = False) -> Any:
    """The Jacobian, of shape (*function's shape, *inputs' shape)."""
    _require_one(inputs)
    with jitgrad.set_grad_enabled(create_graph):
        return funclib.jacobian(function)(inputs)


def hessian(function: Any, inputs: Any, create_graph: bool = False) -> Any:
    """The second derivatives of a function of one element."""
    _require_one(inputs)

    def first(x: Tensor) -> Any:
        return func.grad(lambda x: _scalar(function, x, "hessian"))(x)

    with jitgrad.set_grad_enabled(create_graph):
        return funclib.jacobian(first)(inputs)


def product(function: Any, inputs: Any, v: Any, create_graph: bool, name: str) -> Any:
    """(function(inputs), H v), which is v^T H too."""
    _require_one(inputs)
    along = _given(v, inputs, _ONE_INPUT, name)
    both = func.grad_and_value(lambda x: _scalar(function, x, name))
    with jitgrad.set_grad_enabled(create_graph):
        _, pull, y = func.vjp(both, inputs, has_aux=True)
        found = pull(along)
    return y, found[0]


def hvp(function: Any, inputs: Any, v: Any = None, create_graph: bool = False) -> Any:
    """(function(inputs), H v)."""
    return product(function, inputs, v, create_graph, "hvp")


def vhp(function: Any, inputs: Any, v: Any = None, create_graph: bool = False) -> Any:
    """(function(inputs), v^T H)."""
    return product(function, inputs, v, create_graph, "vhp")


_ONE_INPUT = "the input to the user-provided function is a single Tensor with a single element"


def _given(v: Any, like: Tensor, condition: str, name: str) -> Any:
    """`v`; without one, 1 for the only element there is."""
    if v is None:
        if like.numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {condition}.")
        return jitgrad.ones_like(like)
    if v.ndim != like.ndim or v.shape != like.shape:
        raise RuntimeError(f"v of {name} has an invalid size: it should be that of what it is multiplied with")
    return v


def _scalar(function: Any, x: Tensor, name: str) -> Any:
    y = function(x)
    _require_tensor(y)
    if y.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return y.reshape(())


def _require_one(inputs: Any) -> None:
    if not isinstance(inputs, Tensor):
        refuse("this function of `autograd.functional` with several inputs, inside a script",
               "differentiate with respect to one tensor")


def _require_tensor(y: Any) -> None:
    if not isinstance(y, Tensor):
        refuse("`autograd.functional` of a function that gives no tensor, inside a script", "let it return one tensor")

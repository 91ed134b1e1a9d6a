"""Derivatives against central differences, as `torch.autograd.gradcheck`."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.autograd.engine import grad, listed
from jitgrad.eager.autograd.grad_mode import enable_grad, no_grad
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor

Given = Tensor | Sequence[Any]
Matrix = np.ndarray[Any, np.dtype[np.float64]]


class GradcheckError(RuntimeError):
    """A derivative that differs from the differences."""


def _outputs(fn: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The results that can have a gradient."""
    found = fn(*inputs)
    return tuple([y for y in ((found,) if isinstance(found, Tensor) else found)
                  if isinstance(y, Tensor) and y.dtype.is_floating_point])


def numerical_jacobian(fn: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, eps: float) -> list[Matrix]:
    """For each output: d output / d x, (elements of x, elements of the output), by central differences."""
    array = x._data
    columns: list[list[Matrix]] = []
    with no_grad():
        for position in np.ndindex(*array.shape):
            before = array[position].copy()
            found = []
            for shift in (eps, -eps):
                array[position] = before + shift
                found.append([to_host(y._data).astype(np.float64, copy=True).reshape(-1)
                              for y in _outputs(fn, inputs)])
            array[position] = before
            columns.append([(plus - minus) / (2 * eps) for plus, minus in zip(*found, strict=True)])
        n = len(columns[0]) if columns else len(_outputs(fn, inputs))
    return [np.array([row[k] for row in columns]) for k in range(n)]


def analytical_jacobian(y: Tensor, targets: Sequence[Tensor]) -> list[Matrix]:
    """For each target: d y / d target, (elements of the target, elements of y), by backward."""
    jacobians = [np.zeros((x._data.size, y._data.size)) for x in targets]
    for column in range(y._data.size):
        seed = np.zeros(y._data.size, y._data.dtype)
        seed[column] = 1
        cotangent = wrap(seed.reshape(y._data.shape)).to(y.device)
        gradients = grad(y, targets, cotangent, retain_graph=True, allow_unused=True)
        for jacobian, g in zip(jacobians, gradients, strict=True):
            if g is not None:
                jacobian[:, column] = to_host(g._data).reshape(-1)
    return jacobians


def _compare(fn: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float,
             nondet_tol: float, check_grad_dtypes: bool) -> None:
    targets = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not targets:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                         "requires_grad=True.")
    for i, x in enumerate(targets):
        if x.dtype is not dtypes.float64:
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point. This check will "
                          "likely fail if all the inputs are not of double precision floating point.", UserWarning,
                          stacklevel=4)
        sizes = zip(x._data.strides, x._data.shape, strict=True)
        if x._data.size and any(stride == 0 and n > 1 for stride, n in sizes):
            raise RuntimeError("The tensor is expanded: gradcheck cannot change one of its elements alone")
    with enable_grad():
        outputs = _outputs(fn, inputs)
    numeric = [numerical_jacobian(fn, inputs, x, eps) for x in targets]
    for k, y in enumerate(outputs):
        if not y.requires_grad:
            for i in range(len(targets)):
                if numeric[i][k].size and np.abs(numeric[i][k]).max() > atol:
                    raise GradcheckError(f"Numerical gradient for function expected to be zero (output {k}, input {i})")
            continue
        exact = analytical_jacobian(y, targets)
        for i, (x, a) in enumerate(zip(targets, exact, strict=True)):
            n = numeric[i][k]
            if not np.allclose(a, n.reshape(a.shape), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(f"Jacobian mismatch for output {k} with respect to input {i},\nnumerical:{n}\n"
                                     f"analytical:{a}\n")
            if check_grad_dtypes:
                g = grad(y, x, wrap(np.ones_like(y._data)), retain_graph=True, allow_unused=True)[0]
                if g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(f"Gradient of input {i} has dtype {g.dtype}, expected {x.dtype}")
        again = analytical_jacobian(y, targets)
        for a, b in zip(exact, again, strict=True):
            if a.size and np.abs(a - b).max() > nondet_tol:
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                     f"grad_output multiple times gives different values (output {k})")


def gradcheck(func: Callable[..., Any], inputs: Given, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_grad_dtypes: bool = False,
              fast_mode: bool = False) -> bool:
    """Compare func's derivative by backward with central differences, element by element.

    Args:
        func: takes the inputs; returns a Tensor or a tuple of them.
        inputs: arguments; those that require a gradient, best float64, are varied.
        eps: half the width of the differences.
        atol, rtol: tolerances.
        raise_exception: raise instead of returning False.
        nondet_tol: by how much two backward passes may differ.
        check_grad_dtypes: a gradient has its input's dtype.
        fast_mode: accepted; the check is always the full one.

    Raises:
        GradcheckError: a RuntimeError; the derivatives differ.
    """
    try:
        _compare(func, listed(inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Given, grad_outputs: Given | None = None, *, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
                  check_grad_dtypes: bool = False, fast_mode: bool = False) -> bool:
    """`gradcheck` of func's gradient as a function of the inputs and of the cotangents (random ones by default)."""
    given = listed(inputs)
    targets = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = []
        for y in _outputs(func, given):
            g = wrap(np.asarray(rng.standard_normal(y._data.shape), y._data.dtype)).to(y.device)
            g._needs = True
            cotangents.append(g)
    else:
        cotangents = list(listed(grad_outputs))
    n = len(given)

    def gradient(*args: Any) -> tuple[Tensor, ...]:
        xs = args[:n]
        with enable_grad():
            pairs = [(y, g) for y, g in zip(_outputs(func, xs), args[n:], strict=True) if y.requires_grad]
            found = grad([y for y, _ in pairs], [xs[i] for i in targets], [g for _, g in pairs], create_graph=True,
                         allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(gradient, (*given, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes)

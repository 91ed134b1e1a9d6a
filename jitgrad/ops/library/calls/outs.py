"""Results into memory that is given: what is asked of an `out`, and how it is written."""

from collections.abc import Sequence
from typing import Any

from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.library.core import apply, class_word, is_tensor, write
from jitgrad.ops.library.sizes import same_shape
from jitgrad.ops.opdef import POINTWISE, is_kind


def targets_of(function: str, out: Any) -> tuple[Any, ...]:
    """The tensors of an `out`; torch's TypeError for anything else."""
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, AnyTensor):
            raise TypeError(f"{function}(): argument 'out' must be Tensor, not {class_word(t)}")
    return targets


def require_no_gradient(function: str, operands: Sequence[Any]) -> None:
    """torch's RuntimeError where one of the tensors among operands requires grad, in a function with an `out`."""
    if not backend().is_grad_enabled():
        return
    for x in operands:
        if isinstance(x, (tuple, list)):
            require_no_gradient(function, x)
        elif is_tensor(x) and x.requires_grad:
            raise RuntimeError(f"{function}(): functions with out=... arguments don't support automatic "
                               "differentiation, but one of the arguments requires grad.")


def require_dtypes(targets: Sequence[Any], result: Any) -> None:
    """torch's RuntimeError where a target is not of the dtype of its result, which may be one of a tuple."""
    for out, r in zip(targets, result if isinstance(result, tuple) else (result,), strict=True):
        if out.dtype is not r.dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {r.dtype.name}, but got {out.dtype.name} instead")


def lying_as(function: str, operands: Sequence[Any], result: Any) -> Sequence[Any]:
    """As which tensors memory that an `out` gets lies: as the operands of what is computed element by element; in row
    order where it is a real part of what torch computes in memory of its own."""
    tensors = [x for x in operands if isinstance(x, AnyTensor)]
    if not isinstance(result, tuple) and result.dtype.is_floating_point and any(x.dtype.is_complex for x in tensors):
        return [apply("contiguous", result)]
    return tensors if is_kind(function, POINTWISE) else ()


def deliver(out: Any, result: Any, exact: bool = False, operands: Sequence[Any] = ()) -> Any:
    """Write a result, or a tuple of results, to `out`, which gets its shape; returns out, as the result is built.

    Memory that `out` gets lies as that of the operands of which the result is computed element by element.
    Raises RuntimeError where out's dtype cannot hold the result's, or with `exact` is another.
    """
    if isinstance(result, tuple):
        written = [deliver(o, r, exact) for o, r in zip(out, result, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    if isinstance(out, (tuple, list)):
        (out,) = out
    if exact:
        require_dtypes((out,), result)
    if not same_shape(out.shape, result.shape):
        out = backend().resize(out, result, operands)
    return write(out, result)

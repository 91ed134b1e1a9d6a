"""What complex numbers have, of real tensors: parts, angles and conjugates."""

import math
from typing import Any

from jitgrad.dtypes import bool_
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import apply, as_operand, cast, create, floating, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import matrix_transpose

__library__ = True


def angle(input: AnyTensor[Tensor]) -> Tensor:
    """pi below 0, 0 elsewhere, NaN of NaN; its gradient is 0."""
    x: Any = cast(input, floating(require_tensor("angle", input).dtype))
    zero = as_operand(0, x.dtype)
    rest = apply("where", apply("ne", x, x), x, zero)
    return apply("where", apply("lt", x, zero), as_operand(math.pi, x.dtype), rest)


def real(input: AnyTensor[Tensor]) -> Tensor:
    """input itself."""
    return require_tensor("real", input)


def imag(input: AnyTensor[Tensor]) -> Tensor:
    """RuntimeError: a real tensor has no imaginary part, as in torch."""
    require_tensor("imag", input)
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


def conj(input: AnyTensor[Tensor]) -> Tensor:
    """input itself."""
    return require_tensor("conj", input)


conj_physical = resolve_conj = resolve_neg = conj


def conj_physical_(input: AnyTensor[Tensor]) -> Tensor:
    """input itself."""
    return require_tensor("conj_physical_", input)


def is_conj(input: AnyTensor[Tensor]) -> bool:
    """False."""
    require_tensor("is_conj", input)
    return False


is_neg = is_conj


def isreal(input: AnyTensor[Tensor]) -> Tensor:
    """True for each element."""
    return create("full", require_tensor("isreal", input), value=True, shape=tuple(input.shape), dtype=bool_)


def adjoint(input: AnyTensor[Tensor]) -> Tensor:
    """Matrices with their last two axes exchanged. RuntimeError for a vector."""
    if require_tensor("adjoint", input).ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return matrix_transpose(input) if input.ndim else input  # type: ignore[return-value]


complete(globals())

__all__ = ["adjoint", "angle", "conj", "conj_physical", "conj_physical_", "imag", "is_conj", "is_neg", "isreal", "real",
           "resolve_conj", "resolve_neg"]

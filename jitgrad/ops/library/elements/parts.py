"""Complex numbers: their parts, angles and conjugates, and what makes them; of real tensors too, as torch has them."""

import math
from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import bool_
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import apply, as_operand, cast, create, floating, inplace, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.join import broadcast_tensors
from jitgrad.ops.library.shapes.shape import clone, matrix_transpose, reversed_axes
from jitgrad.ops.library.sizes import require_equal, same_shape

__library__ = True


# --- parts ---------------------------------------------------------------------------------------------------------


def angle(input: AnyTensor[Tensor]) -> Tensor:
    """The argument in (-pi, pi]; of reals pi below 0, 0 elsewhere, NaN of NaN, and its gradient is 0."""
    if require_tensor("angle", input).dtype.is_complex:
        return apply("atan2", apply("imag", input), apply("real", input))
    x: Any = cast(input, floating(input.dtype))
    zero = as_operand(0, x.dtype)
    rest = apply("where", apply("ne", x, x), apply("mul", x, zero), zero)
    return apply("where", apply("lt", x, zero), as_operand(math.pi, x.dtype), rest)


def real(input: AnyTensor[Tensor]) -> Tensor:
    """The real parts, a view; a real tensor itself."""
    x: Any = require_tensor("real", input)
    return apply("real", x) if x.dtype.is_complex else x


def imag(input: AnyTensor[Tensor]) -> Tensor:
    """The imaginary parts, a view. RuntimeError for a real tensor."""
    if not require_tensor("imag", input).dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return apply("imag", input)


def conj(input: AnyTensor[Tensor]) -> Tensor:
    """The conjugate, a view; a real tensor itself."""
    x: Any = require_tensor("conj", input)
    return backend().conjugate(x) if x.dtype.is_complex else x


def conj_physical(input: AnyTensor[Tensor]) -> Tensor:
    """The conjugate, no view; a real tensor itself."""
    x: Any = require_tensor("conj_physical", input)
    return apply("conj", x) if x.dtype.is_complex else x


conj_physical_ = inplace(conj_physical)


def resolve_conj(input: AnyTensor[Tensor]) -> Tensor:
    """input itself, or a copy if it is a view of what it is the conjugate of."""
    x: Any = require_tensor("resolve_conj", input)
    return clone(x) if is_conj(x) else x


def resolve_neg(input: AnyTensor[Tensor]) -> Tensor:
    """input itself: negative numbers are computed at once."""
    return require_tensor("resolve_neg", input)


def is_conj(input: AnyTensor[Tensor]) -> bool:
    """Whether input is a view of what it is the conjugate of."""
    return require_tensor("is_conj", input).dtype.is_complex and backend().is_conjugate(input)


def is_neg(input: AnyTensor[Tensor]) -> bool:
    """False: negative numbers are computed at once."""
    require_tensor("is_neg", input)
    return False


# --- made of reals -------------------------------------------------------------------------------------------------


def complex(real: AnyTensor[Tensor], imag: AnyTensor[Tensor]) -> Tensor:
    """real + i imag of two tensors of one floating-point dtype, which broadcast. RuntimeError for other dtypes."""
    _require_parts(require_tensor("complex", real), require_tensor("complex", imag, "imag", 2))
    if not same_shape(real.shape, imag.shape):
        real, imag = broadcast_tensors(real, imag)
    return apply("complex", real, imag)


def polar(abs: AnyTensor[Tensor], angle: AnyTensor[Tensor]) -> Tensor:
    """abs (cos(angle) + i sin(angle)). RuntimeError for other than two equal floating-point dtypes."""
    _require_parts(require_tensor("polar", abs), require_tensor("polar", angle, "angle", 2))
    return apply("complex", *[apply("mul", abs, apply(name, angle)) for name in ("cos", "sin")])


def _require_parts(first: Any, second: Any) -> None:
    if first.dtype is second.dtype is dtypes.float16:
        first.dtype.to_complex()  # which says that there is no such dtype here
    for x in (first, second):
        if x.dtype not in (dtypes.float32, dtypes.float64):
            raise RuntimeError("Expected both inputs to be Half, Float or Double tensors but got "
                               f"{first.dtype.word} and {second.dtype.word}")
    if first.dtype is not second.dtype:
        raise RuntimeError(f"Expected object of scalar type {first.dtype.word} but got scalar type "
                           f"{second.dtype.word} for second argument")


def view_as_real(input: AnyTensor[Tensor]) -> Tensor:
    """The two parts along a new last axis, a view. RuntimeError for a real tensor."""
    if not require_tensor("view_as_real", input).dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if backend().is_conjugate(input):
        raise RuntimeError("view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
                           "tensor so you can view it as real, use self.resolve_conj()")
    return apply("view_as_real", input)


def view_as_complex(input: AnyTensor[Tensor]) -> Tensor:
    """Complex numbers of the two parts along the last axis, a view. RuntimeError for other sizes, dtypes or strides."""
    x = require_tensor("view_as_complex", input)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("view_as_complex is only supported for floating point tensors, but got a tensor of scalar "
                           f"type: {x.dtype.word}")
    if not x.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    require_equal(x.shape[-1], 2, lambda: "Tensor must have a last dimension of size 2")
    return apply("view_as_complex", x)


def isreal(input: AnyTensor[Tensor]) -> Tensor:
    """Whether each element has no imaginary part."""
    if require_tensor("isreal", input).dtype.is_complex:
        im = apply("imag", input)
        return apply("eq", im, as_operand(0, im.dtype))
    return create("full", input, value=True, shape=tuple(input.shape), dtype=bool_)


def adjoint(input: AnyTensor[Tensor]) -> Tensor:
    """Matrices transposed and conjugated. RuntimeError for a vector."""
    if require_tensor("adjoint", input).ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conj(matrix_transpose(input))


def hermitian(input: AnyTensor[Tensor]) -> Tensor:
    """`x.H`: a matrix transposed and conjugated. RuntimeError for other ranks."""
    if input.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.")
    return conj(reversed_axes(input) if input.ndim else input)


complete(globals())

__all__ = ["adjoint", "angle", "complex", "conj", "conj_physical", "conj_physical_", "imag", "is_conj", "is_neg",
           "isreal", "polar", "real", "resolve_conj", "resolve_neg", "view_as_complex", "view_as_real"]

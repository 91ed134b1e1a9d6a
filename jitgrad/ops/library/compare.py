"""Comparisons, logic, bit operations, `where` and closeness."""

from collections.abc import Callable
from typing import Any, overload

from jitgrad.dtypes import bool_, float64
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import (Number, apply, as_operand, between_tensors, binary, bind, cast, named,
                                      not_implemented, pairwise, require_tensor, result_dtype, written_operand)
from jitgrad.ops.library.elementary import abs
from jitgrad.ops.library.elements.filling import filling
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import require_equal, same_shape

__library__ = True

# --- comparisons: the result is bool -------------------------------------------------------------------------------

eq = pairwise("eq", "input == other, elementwise.")
ne = not_equal = pairwise("ne", "input != other, elementwise.")
lt = less = pairwise("lt", "input < other, elementwise.")
le = less_equal = pairwise("le", "input <= other, elementwise.")
gt = greater = pairwise("gt", "input > other, elementwise.")
ge = greater_equal = pairwise("ge", "input >= other, elementwise.")
logical_and = between_tensors("logical_and", "Whether both are nonzero.")
logical_or = between_tensors("logical_or", "Whether one is nonzero.")
logical_xor = between_tensors("logical_xor", "Whether exactly one is nonzero.")


def logical_not(input: AnyTensor[Tensor]) -> Tensor:
    """Whether each element is zero."""
    return apply("logical_not", require_tensor("logical_not", input))


# --- bits ----------------------------------------------------------------------------------------------------------


def _bitwise(name: str, doc: str) -> Callable[[AnyTensor[Tensor], AnyTensor[Tensor] | Number], Tensor]:
    def fn(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor:
        d = result_dtype(input, other)
        if d.is_inexact or (d is bool_ and "shift" in name):
            raise not_implemented(name, d, input, other)
        return apply(name, as_operand(input, d), as_operand(other, d))

    return named(fn, name, doc)


bitwise_and = _bitwise("bitwise_and", "input & other; logical for bools.")
bitwise_or = _bitwise("bitwise_or", "input | other; logical for bools.")
bitwise_xor = _bitwise("bitwise_xor", "input ^ other; logical for bools.")
bitwise_left_shift = _bitwise("bitwise_left_shift", "input << other.")
bitwise_right_shift = _bitwise("bitwise_right_shift", "input >> other, keeping the sign.")


def bitwise_not(input: AnyTensor[Tensor]) -> Tensor:
    """~input; logical for bools."""
    if require_tensor("bitwise_not", input).dtype.is_inexact:
        raise NotImplementedError(f'"bitwise_not_cpu" not implemented for \'{input.dtype.word}\'')
    return apply("bitwise_not", input)


# --- special values ------------------------------------------------------------------------------------------------


def _never(input: AnyTensor[Tensor]) -> Tensor:
    return apply("ne", input, input)


def _is(name: str, input: AnyTensor[Tensor]) -> Tensor:
    if require_tensor(name, input).dtype.is_complex:
        parts = [apply(name, apply(part, input)) for part in ("real", "imag")]
        return apply("logical_and" if name == "isfinite" else "logical_or", *parts)
    if input.dtype.is_floating_point:
        return apply(name, input)
    return apply("eq", input, input) if name == "isfinite" else _never(input)


isnan = bind(_is, "isnan", "isnan", "Whether each element is NaN.")
isinf = bind(_is, "isinf", "isinf", "Whether each element is an infinity.")
isfinite = bind(_is, "isfinite", "isfinite", "Whether each element is neither NaN nor an infinity.")


def _is_infinity(which: float, input: AnyTensor[Tensor]) -> Tensor:
    if input.dtype.is_complex:
        raise RuntimeError(f"{'isposinf' if which > 0 else 'isneginf'} does not support complex inputs.")
    return binary("eq", input, which) if input.dtype.is_floating_point else _never(input)


isposinf = bind(_is_infinity, float("inf"), "isposinf", "Whether each element is +inf.")
isneginf = bind(_is_infinity, float("-inf"), "isneginf", "Whether each element is -inf.")


def signbit(input: AnyTensor[Tensor]) -> Tensor:
    """Whether each element is negative (or a negative zero). NotImplementedError for complex numbers."""
    if input.dtype.is_complex:
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    if not input.dtype.is_signed:
        return _never(input)
    negative = binary("lt", input, 0)
    if not input.dtype.is_floating_point:
        return negative
    return apply("where", binary("eq", input, 0), binary("lt", apply("reciprocal", input), 0), negative)


# --- choice --------------------------------------------------------------------------------------------------------


@overload
def where(condition: AnyTensor[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def where(condition: AnyTensor[Tensor], input: AnyTensor[Tensor] | Number,
          other: AnyTensor[Tensor] | Number) -> Tensor: ...
def where(condition: AnyTensor[Tensor],
          input: AnyTensor[Tensor] | Number | None = None, other: AnyTensor[Tensor] | Number | None = None) -> Any:
    """input where the condition holds, else other; with the condition alone, `nonzero(condition, as_tuple=True)`."""
    require_tensor("where", condition, "condition")
    if input is None and other is None:
        from jitgrad.ops.library.shapes.gather import nonzero

        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or a condition, an input and an other")
    if condition.dtype is not bool_:
        if condition.dtype.name != "uint8":
            raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype "
                               f"{condition.dtype.word}")
        condition = cast(condition, bool_)
    d = result_dtype(input, other)
    return apply("where", condition, written_operand(input, d), written_operand(other, d))


def masked_fill(input: AnyTensor[Tensor], mask: AnyTensor[Tensor], value: AnyTensor[Tensor] | Number) -> Tensor:
    """input with value where mask (which broadcasts with it) is True. The dtype is input's."""
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    if isinstance(value, AnyTensor) and value.ndim:
        raise RuntimeError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value.ndim} dimension(s).")
    return apply("where", mask, filling(value, input.dtype), input)


# --- closeness -----------------------------------------------------------------------------------------------------


def isclose(input: AnyTensor[Tensor], other: AnyTensor[Tensor], rtol: Number = 1e-05, atol: Number = 1e-08,
            equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol * |other|; equal infinities are close, NaNs only with equal_nan."""
    require_tensor("isclose", other, "other", 2)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.word} did not match {other.dtype.word}")
    same = apply("eq", input, other)
    if input.dtype is bool_:
        return same
    if not input.dtype.is_inexact:
        input, other = cast(input, float64), cast(other, float64)
    elif equal_nan:
        same = apply("logical_or", same, apply("logical_and", isnan(input), isnan(other)))
    distance, size = abs(apply("sub", input, other)), abs(other)
    d = distance.dtype
    allowed = apply("add", as_operand(atol, d), apply("mul", as_operand(rtol, d), size))
    near = apply("logical_and", apply("isfinite", distance), apply("le", distance, allowed))
    return apply("logical_or", same, near)


def allclose(input: AnyTensor[Tensor], other: AnyTensor[Tensor], rtol: Number = 1e-05, atol: Number = 1e-08,
             equal_nan: bool = False) -> bool:
    """Whether all elements are close: a Python bool."""
    near: Any = isclose(input, other, rtol, atol, equal_nan)
    return backend().item(apply("all", near, axes=tuple(range(near.ndim)), keepdim=False))


def equal(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> bool:
    """Whether two tensors have the same shape and elements: a Python bool."""
    if input.ndim != other.ndim:
        return False
    if not same_shape(input.shape, other.shape):
        if all(isinstance(s, int) for s in (*input.shape, *other.shape)):
            return False
        for m, n in zip(input.shape, other.shape, strict=True):
            require_equal(m, n, lambda: "equal() of tensors whose sizes differ at run time cannot be compiled")
    same = binary("eq", input, other)
    return backend().item(apply("all", same, axes=tuple(range(same.ndim)), keepdim=False))

complete(globals())

__all__ = ["allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite", "isinf",
           "isnan", "isneginf", "isposinf", "le", "less", "less_equal", "logical_and", "logical_not", "logical_or",
           "logical_xor", "lt", "masked_fill", "ne", "not_equal", "signbit", "where"]

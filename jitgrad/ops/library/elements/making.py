"""Further ways of making tensors, and facts of tensors that are no numbers."""

from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import bool_
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import Number, apply, as_operand, cast, create, not_implemented, require_tensor
from jitgrad.ops.library.creation import arange, full
from jitgrad.ops.library.elements.filling import repeatable
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import require

__library__ = True


def fill(input: AnyTensor[Tensor], value: AnyTensor[Tensor] | Number) -> Tensor:
    """A number, or a tensor of one, repeated to input's shape in its dtype."""
    if isinstance(value, AnyTensor) and value.ndim:
        raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                           f"{value.ndim} dimensions.")
    every = create("full", require_tensor("fill", input), value=True, shape=tuple(input.shape), dtype=bool_)
    return apply("where", every, repeatable(value, input.dtype, input.shape), input)


def scalar_tensor(s: Number, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A 0-dim tensor of a number, of the default dtype."""
    return full((), s, dtype=dtypes.given(dtype), device=device, requires_grad=requires_grad)


def range(start: Number = 0, end: Any = None, step: Number = 1, *, dtype: Any = None, device: Any = None,
          requires_grad: bool = False) -> Any:
    """Numbers from start in steps up to end, which is included, of the default dtype.

    RuntimeError for a step of 0, or one that leads away from end.
    """
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    d = dtypes.given(dtype)
    if d is bool_ or d.is_complex:
        raise not_implemented("range", d)
    require(step != 0, RuntimeError, "step must be nonzero")
    require((end >= start) if step > 0 else (end <= start), RuntimeError,
            "upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    places = cast(arange(count, device=device), d)
    made = apply("add", apply("mul", places, as_operand(step, d)), as_operand(start, d))
    return made.requires_grad_() if requires_grad else made


def detach(input: AnyTensor[Tensor]) -> Tensor:
    """The same memory without history."""
    return require_tensor("detach", input).detach()


complete(globals())

__all__ = ["detach", "fill", "range", "scalar_tensor"]

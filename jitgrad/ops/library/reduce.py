"""Reductions, scans, softmax and norms.

Functions with several results return named tuples, as torch does: `x.max(dim=1).values`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad import dtypes
from jitgrad.dtypes import bool_, int64, uint8
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, backend, own
from jitgrad.ops.library.core import (Fn, Number, apply, as_operand, bind, cast, composite, converted, create, floating,
                                      inplace, named, only_place, require_tensor, result_dtype)
from jitgrad.ops.library.elements import complex_sums
from jitgrad.ops.library.keywords import SPACES, complete, completed
from jitgrad.ops.library.shapes.join import cat
from jitgrad.ops.library.shapes.shape import clone, own_view, take_slice
from jitgrad.ops.library.sizes import (EVERY, axes, axis, flag, is_empty, maximum, one_axis, product, require,
                                       require_axes, static_int, static_number)

__library__ = True

Dims = int | Sequence[int] | None


class ValuesAndIndices(NamedTuple):
    """Values and their positions. Each function has a type of its own, whose name `repr` shows, as in torch."""

    values: Any
    indices: Any


def result_of(function: str, module: str) -> type[ValuesAndIndices]:
    """The type of what a function of a module returns."""
    facts = {"__module__": module, "__doc__": f"The result of `{function}` along an axis."}
    return type(f"{function}_result", (ValuesAndIndices,), facts)


max_result, min_result = result_of("max", __name__), result_of("min", __name__)


# --- sums ----------------------------------------------------------------------------------------------------------


def _in_dtype(x: Any, dtype: dtypes.dtype) -> Any:
    """x in the dtype that is asked for. RuntimeError where that ends its history, which torch takes for a mistake."""
    dtype = dtypes.given(dtype)
    if x.requires_grad and not dtype.is_inexact and backend().is_grad_enabled():
        raise RuntimeError(f"Autograd not support dtype: {dtype.word}")
    return converted(x, dtype)


def _accumulated(x: Any, dtype: dtypes.dtype | None) -> Any:
    """x in the dtype in which sums and products are taken: integers and bools as int64."""
    if dtype is not None:
        return _in_dtype(x, dtype)
    return x if x.dtype.is_inexact or x.dtype is int64 else cast(x, int64)


def sum(input: AnyTensor[Tensor], dim: Dims = None, keepdim: bool = False, *,
        dtype: dtypes.dtype | None = None) -> Tensor:
    """The sum over dim (all axes without it). Integers and bools are summed as int64."""
    keepdim = flag(keepdim)
    x = widen(require_tensor("sum", input), "cuda")
    return _wide("sum", x, dtype, axes(dim, x.ndim), keepdim, _accumulated)


def _wide(name: str, x: Any, dtype: dtypes.dtype | None, along: tuple[int, ...], keepdim: bool, to: Any) -> Any:
    """A sum or mean of x in the dtype that `to` gives it: a half type is that of the result alone."""
    d = None if dtype is None else dtypes.given(dtype)
    if d is None or not d.is_half or x.dtype.is_half:
        return apply(name, to(x, d), axes=along, keepdim=keepdim)
    wide = x.dtype if x.dtype.is_inexact else dtypes.float32
    return converted(apply(name, to(x, wide), axes=along, keepdim=keepdim), d)


def _of_floats(fn: Fn) -> Fn:
    """Say that floats are summed by torch's kernel `nansum`, which no `out` of another dtype has (`keywords.py`)."""
    fn.__dict__["__kernel__"] = "nansum"
    return fn


@_of_floats
def nansum(input: AnyTensor[Tensor], dim: Dims = None, keepdim: bool = False, *,
           dtype: dtypes.dtype | None = None) -> Tensor:
    """The sum over dim, NaNs counting as zero. RuntimeError for complex numbers."""
    along, keepdim = axes(dim, input.ndim), flag(keepdim)
    if input.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    if not input.dtype.is_floating_point:
        return sum(input, dim, keepdim, dtype=dtype)
    x = _accumulated(apply("where", apply("ne", input, input), as_operand(0, input.dtype), input), dtype)
    if x.dtype.is_complex:
        raise NotImplementedError(f'"nansum_cpu" not implemented for \'{x.dtype.word}\'')
    return apply("sum", x, axes=along, keepdim=keepdim)


def mean(input: AnyTensor[Tensor], dim: Dims = None, keepdim: bool = False, *,
         dtype: dtypes.dtype | None = None) -> Tensor:
    """The mean over dim. RuntimeError for integers without a floating dtype."""
    keepdim = flag(keepdim)
    require_axes(dim)
    x: Any = require_tensor("mean", input)
    d = x.dtype if dtype is None else dtypes.given(dtype)
    if not d.is_inexact:
        raise RuntimeError("mean(): could not infer output dtype. Input dtype must be either a floating point or "
                           f"complex dtype. Got: {d.word}")
    return _wide("mean", x, d, axes(dim, x.ndim), keepdim, converted)


mean.__dict__["__inexact__"] = True  # of integers no `out` says in which dtype


@_of_floats
def nanmean(input: AnyTensor[Tensor], dim: Dims = None, keepdim: bool = False, *,
            dtype: dtypes.dtype | None = None) -> Tensor:
    """The mean over dim of what is not NaN. RuntimeError for integers."""
    require_axes(dim, keepdim)
    if not require_tensor("nanmean", input).dtype.is_floating_point:
        raise RuntimeError("nanmean(): expected input to have floating point or complex dtype but got "
                           + input.dtype.word)
    if dtype is not None and not dtypes.given(dtype).is_inexact:
        raise RuntimeError("nanmean(): could not infer output dtype. Optional dtype must be either a floating point or "
                           f"complex dtype. Got: {dtype.word}")
    counted = _accumulated(cast(apply("eq", input, input), input.dtype), dtype)
    count = apply("sum", counted, axes=axes(dim, counted.ndim), keepdim=flag(keepdim))
    return apply("div", nansum(input, dim, keepdim, dtype=dtype), count)


def prod(input: AnyTensor[Tensor], dim: int = EVERY, keepdim: bool = False, *,
         dtype: dtypes.dtype | None = None) -> Tensor:
    """The product over one axis, or over all. Integers and bools are multiplied as int64."""
    one_axis("prod", dim)
    n = require_tensor("prod", input).ndim
    along = axes(None if dim is EVERY else axis(dim, n), n)
    return apply("prod", _accumulated(widen(input), dtype), axes=along, keepdim=flag(keepdim))


def count_nonzero(input: AnyTensor[Tensor], dim: Dims = None) -> Tensor:
    """How many elements are nonzero."""
    nonzero = input if input.dtype is bool_ else apply("ne", input, as_operand(0, input.dtype))
    return apply("sum", cast(nonzero, int64), axes=axes(dim, input.ndim), keepdim=False)


# --- spread --------------------------------------------------------------------------------------------------------


def _split_unbiased(dim: Any, unbiased: bool) -> tuple[Any, bool]:
    """torch's `var(x, False)` means unbiased=False."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


def var(input: AnyTensor[Tensor], dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: Number | None = None) -> Tensor:
    """The variance over dim; the divisor is the count less `correction` (1, or 0 with unbiased=False)."""
    dim, unbiased = _split_unbiased(dim, unbiased)
    require_axes(dim, keepdim)
    require(input.dtype.is_inexact, RuntimeError, "std and var: only support floating point and complex dtypes")
    whole = dim is None or not input.ndim
    attrs = {"axes": axes(dim, input.ndim), "keepdim": flag(keepdim),
             "correction": int(unbiased) if correction is None else static_number(correction)}
    if not input.dtype.is_complex:
        return apply("var", input, **attrs, limit=math.inf if whole else None)
    re, im = [apply("var", apply(part, input), **attrs, limit=limit if whole else None)
              for part, limit in (("real", math.inf), ("imag", 0.0))]  # that limit is a real number in torch
    return apply("add", re, im)


def _root_of_spread(x: Any) -> Any:
    """The square root, whose gradient at 0 is 0, whatever comes (and NaN at NaN): torch's rule for deviations."""
    if not x.requires_grad:
        return apply("sqrt", x)
    zero = apply("eq", x, as_operand(0, x.dtype))
    return apply("where", zero, as_operand(0, x.dtype), apply("sqrt", apply("where", zero, as_operand(1, x.dtype), x)))


def std(input: AnyTensor[Tensor], dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: Number | None = None) -> Tensor:
    """The standard deviation over dim: the square root of `var`."""
    return _root_of_spread(var(input, dim, unbiased, keepdim, correction=correction))


def _with_mean(spread: Any, input: AnyTensor[Tensor], dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *,
               correction: Number | None = None) -> tuple[Tensor, Tensor]:
    found = spread(input, dim, unbiased, keepdim, correction=correction)
    return found, mean(input, _split_unbiased(dim, unbiased)[0], keepdim)


var_mean = bind(_with_mean, var, "var_mean", "(variance, mean) over dim.")
std_mean = bind(_with_mean, std, "std_mean", "(standard deviation, mean) over dim.")

# --- extremes ------------------------------------------------------------------------------------------------------


def _require_elements(name: str, x: Any, a: int) -> None:
    require(x._sizes[a] > 0, IndexError, name, "(): Expected reduction dim ", a, " to have non-zero size.")


def _amax(name: str, input: AnyTensor[Tensor], dim: Dims = (), keepdim: bool = False) -> Tensor:
    require_axes(dim, keepdim)
    if input.ndim and (dim is None or (isinstance(dim, (tuple, list)) and not dim)):
        require(product(input.shape) > 0, RuntimeError, f"{name}(): Expected reduction dim to be specified for "
                                                        "input.numel() == 0. Specify the reduction dim with the 'dim' "
                                                        "argument.")
    elif input.ndim and dim is not None:
        for k in dim if isinstance(dim, (tuple, list)) else (dim,):
            _require_elements(name, input, axis(k, input.ndim))
    return apply(name, input, axes=axes(dim, input.ndim), keepdim=flag(keepdim))


amax = bind(_amax, "amax", "amax", "The maximum over dim; equal maxima share the gradient.")
amin = bind(_amax, "amin", "amin", "The minimum over dim; equal minima share the gradient.")


def aminmax(input: AnyTensor[Tensor], *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(minimum, maximum) over dim."""
    over: Any = () if dim is None else one_axis("aminmax", dim)
    return amin(input, over, keepdim), amax(input, over, keepdim)


@composite
def _extreme(x: Any, name: str, dim: Any, keepdim: bool) -> tuple[Any, Any]:
    """Values and positions along one axis; the gradient goes to the position."""
    a, keepdim = axis(dim, x.ndim), flag(keepdim)
    if x.ndim == 0:
        return clone(x), only_place(x)
    _require_elements(name, x, a)
    positions = apply("arg" + name, x, axes=(a,), keepdim=True)
    values = apply("gather", x, positions, axis=a)
    if keepdim:
        return values, positions
    return own_view("squeeze", values, axis=a), own_view("squeeze", positions, axis=a)


def _max(name: str, input: AnyTensor[Tensor], *args: Any, dim: int | None = None, keepdim: bool = False,
         other: AnyTensor[Tensor] | None = None) -> Any:
    x = require_tensor(name, input)
    if args and isinstance(args[0], AnyTensor):
        other = args[0]
    elif args:
        dim, *rest = args
        keepdim = rest[0] if rest else keepdim
    if other is not None:
        d = result_dtype(x, other)
        if d.is_complex:
            raise RuntimeError(f"{name}imum not implemented for complex tensors.")
        return apply(name + "imum", cast(x, d), as_operand(other, d))
    if dim is None:
        count = product(x.shape)
        require(count > 0, RuntimeError, f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                                         "Specify the reduction dim with the 'dim' argument.")
        return apply("a" + name, x, axes=axes(None, x.ndim), keepdim=False)
    if x.dtype.is_complex:
        a = axis(one_axis(name, dim), x.ndim)
        if x.ndim:
            _require_elements(name, x, a)
        raise RuntimeError(f"{name}(): does not support complex input")
    return (max_result if name == "max" else min_result)(*_extreme(x, name, dim, flag(keepdim)))


max = bind(_max, "max", "max", "max(x): the maximum; max(x, dim): named (values, indices); max(x, other): elementwise.")
min = bind(_max, "min", "min", "min(x): the minimum; min(x, dim): named (values, indices); min(x, other): elementwise.")


def _arg(name: str, input: AnyTensor[Tensor], dim: int | None = None, keepdim: bool = False) -> Tensor:
    x: Any = require_tensor(name, input)
    flag(keepdim)
    if x.dtype is bool_ or x.dtype.is_complex:
        raise RuntimeError(f"{name}(): does not support {'bool' if x.dtype is bool_ else 'complex'} input")
    if x.ndim == 0:
        if dim is not None:
            axis(dim, 0)
        return only_place(x)
    if dim is not None:
        a = axis(dim, x.ndim)
        _require_elements(name, x, a)
        return apply(name, x, axes=(a,), keepdim=flag(keepdim))
    keepdim = flag(keepdim)
    flat = apply("reshape", x, shape=(product(x.shape),))
    require(flat.shape[0] > 0, IndexError, f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                                           "Specify the reduction dim with the 'dim' argument.")
    position = apply(name, flat, axes=(0,), keepdim=False)
    return own(apply("reshape", position, shape=(1,) * x.ndim)) if keepdim else position


argmax = bind(_arg, "argmax", "argmax", "The position of the (first) maximum along dim, or in the flattened tensor.")
argmin = bind(_arg, "argmin", "argmin", "The position of the (first) minimum along dim, or in the flattened tensor.")


def _any(name: str, input: AnyTensor[Tensor], dim: Dims = None, keepdim: bool = False) -> Tensor:
    require_axes(dim, keepdim)
    if isinstance(dim, (tuple, list)) and not dim:  # over no axes, unlike other reductions
        every = apply("ne", input, as_operand(0, input.dtype))
        return cast(every, uint8) if input.dtype is uint8 else every
    found = apply(name, input, axes=axes(dim, input.ndim), keepdim=flag(keepdim))
    return cast(found, uint8) if input.dtype is uint8 else found  # as torch had it before it had bool


any = bind(_any, "any", "any", "Whether some element is nonzero.")
all = bind(_any, "all", "all", "Whether every element is nonzero.")


# --- exponentials and norms ----------------------------------------------------------------------------------------


def logsumexp(input: AnyTensor[Tensor], dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) over dim without overflow."""
    keepdim = flag(keepdim)
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' (position 2) must be tuple of ints, not NoneType")
    input = widen(input, "cuda")
    x = cast(input, floating(input.dtype))
    if x.dtype.is_complex:
        return complex_sums.logsumexp(x, axes(dim, x.ndim), keepdim)
    return apply("logsumexp", x, axes=axes(dim, x.ndim), keepdim=keepdim)


def _softmax(name: str, input: AnyTensor[Tensor], dim: int, dtype: dtypes.dtype | None = None) -> Tensor:
    x: Any = widen(input, "cuda")
    if dtype is not None:
        x = converted(x, dtypes.given(dtype))
    a = axis(dim, x.ndim)
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}_lastdim_kernel_impl" not implemented for \'{x.dtype.word}\'')
    if x.ndim == 0:
        return own(apply("squeeze", apply(name, apply("unsqueeze", x, axis=0), axis=0), axis=0))
    return apply(name, x, axis=a)


softmax = bind(_softmax, "softmax", "softmax", "exp(input) / sum(exp(input)) along dim, without overflow.")
log_softmax = bind(_softmax, "log_softmax", "log_softmax", "log(softmax(input)) along dim.")


def vector_norm(x: AnyTensor[Tensor], ord: Number = 2, dim: Dims = None, keepdim: bool = False, *,
                dtype: dtypes.dtype | None = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) over dim: any number, inf, -inf or 0 (counts nonzeros); a run-time ord is positive."""
    dtype, keepdim = None if dtype is None else dtypes.given(dtype), flag(keepdim)
    if not x.dtype.is_inexact:
        raise RuntimeError("linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                           + x.dtype.word)
    if dtype is not None and dtype.is_complex is not x.dtype.is_complex:
        raise RuntimeError(f"linalg.vector_norm: dtype should be {'complex' if x.dtype.is_complex else 'real'} for "
                           f"{'complex' if x.dtype.is_complex else 'real'} inputs, but got {dtype.word}")
    if dtype is not None and result_dtype(x, create("full", x, value=0, shape=(1,) * x.ndim, dtype=dtype)) is not dtype:
        raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({x.dtype.word}) should be convertible "
                           f"without narrowing to the specified dtype ({dtype.word})")
    x = cast(x, dtype) if dtype is not None else widen(x, "cuda")
    if x.dtype.is_half:  # powers of half types overflow
        return cast(vector_norm(cast(x, dtypes.float32), ord, dim, keepdim), x.dtype)
    if x.dtype.is_complex:
        x = apply("modulus", x)
    if not isinstance(ord, SymNumber) and ord == 2:
        return _euclidean_norm(x, dim, keepdim)
    over, keep = axes(dim, x.ndim), keepdim
    size = apply("abs", x)
    if isinstance(ord, SymNumber):
        order, zero = as_operand(ord, x.dtype), as_operand(0, x.dtype)
        powers = _safe_power(size, order, size * 0 + apply("pow", zero, order))
        inverse = apply("reciprocal", order)
        return _safe_power(apply("sum", powers, axes=over, keepdim=keep), inverse, apply("pow", zero, inverse))
    p = float(ord)
    for a in over if p < 0 or p == math.inf else ():
        require(x.shape[a] > 0, RuntimeError, f"linalg.vector_norm cannot compute the {ord} norm on the dimension {a} "
                "because this dimension is empty and the operation does not have an identity")
    if p in (math.inf, -math.inf):
        return apply("amax" if p > 0 else "amin", size, axes=over, keepdim=keep)
    if p == 0:
        return apply("sum", cast(apply("ne", x, as_operand(0, x.dtype)), x.dtype), axes=over, keepdim=keep)
    if p == 1:
        return apply("sum", size, axes=over, keepdim=keep)
    at_zero, order = 0.0 if p > 0 else math.inf, as_operand(p, x.dtype)
    powers = _safe_power(size, order, size * 0 + at_zero) if p < 1 else apply("pow", size, order)
    total = apply("sum", powers, axes=over, keepdim=keep)
    return _safe_power(total, as_operand(1.0 / p, x.dtype), at_zero)


@composite
def _euclidean_norm(x: Any, dim: Dims, keepdim: bool) -> Any:
    return apply("safe_sqrt", apply("sum", apply("square", x), axes=axes(dim, x.ndim), keepdim=flag(keepdim)))


def _safe_power(x: Any, exponent: Any, at_zero: Any = 0.0) -> Any:
    """A power with slope 0 at 0: the norm of a zero vector has gradient 0, as in torch, not NaN."""
    zero, one = as_operand(0, x.dtype), as_operand(1, x.dtype)
    flat = apply("eq", x, zero)
    return apply("where", flat, as_operand(at_zero, x.dtype), apply("pow", apply("where", flat, one, x), exponent))


def dist(input: AnyTensor[Tensor], other: AnyTensor[Tensor], p: Number = 2) -> Tensor:
    """The p-norm of input - other."""
    from jitgrad.ops.library.pointwise import sub

    other = require_tensor("dist", other, "other", 2)
    return vector_norm(sub(widen(require_tensor("dist", input), "cuda"), widen(other, "cuda")), p)


# --- scans ---------------------------------------------------------------------------------------------------------


def _scan(name: str, input: AnyTensor[Tensor], dim: int, *, dtype: dtypes.dtype | None = None) -> Tensor:
    a = axis(dim, require_tensor(name, input).ndim)
    if dtype is bool_ and input.ndim:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    x = _accumulated(widen(input, "cuda"), dtype)
    if x.ndim == 0:
        return apply("cast", x, dtype=x.dtype)
    return apply(name, x, axis=a)


cumsum = bind(_scan, "cumsum", "cumsum", "Running sums along dim.")
cumprod = bind(_scan, "cumprod", "cumprod", "Running products along dim.")


def in_place(scan: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place version of a scan: in its input's dtype. RuntimeError where another is asked for."""
    def own(input: AnyTensor[Tensor], dim: int, *, dtype: dtypes.dtype | None = None) -> Tensor:
        axis(dim, input.ndim)
        if dtype is not None and dtypes.given(dtype) is not input.dtype:
            raise RuntimeError(f"Bad in-place call: input tensor dtype {input.dtype.name} and output tensor dtype "
                               f"{dtype.name} should match")
        return scan(input, dim, dtype=input.dtype)

    alone: Any = named(own, scan.__name__, "In the input's dtype.")
    made: Any = completed(alone, (scan.__name__,), SPACES)
    return inplace(made)


def diff(input: AnyTensor[Tensor], n: int = 1, dim: int = -1, prepend: AnyTensor[Tensor] | None = None,
         append: AnyTensor[Tensor] | None = None) -> Tensor:
    """The n-th differences of neighbours along dim."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    a = axis(dim, input.ndim)
    parts = [p for p in (prepend, input, append) if p is not None]
    x: Any = cat(parts, a) if len(parts) > 1 else input
    if not static_int(n):
        return clone(input)
    for _ in range(0 if is_empty((x.shape[a],)) else static_int(n)):
        length = maximum(x.shape[a] - 1, 0)
        after, before = take_slice(x, a, 1, length), take_slice(x, a, 0, length)
        x = apply("logical_xor" if x.dtype is bool_ else "sub", after, before)
    return x

complete(globals())

__all__ = ["all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum", "diff",
           "dist", "log_softmax", "logsumexp", "max", "mean", "min", "nanmean", "nansum", "prod", "softmax",
           "std", "std_mean", "sum", "var", "var_mean"]

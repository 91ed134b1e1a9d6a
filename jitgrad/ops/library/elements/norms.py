"""Norms of parts of a tensor, and elements that meet at an index."""

from typing import Any

from jitgrad.dtypes import bool_
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import apply, as_operand, cast, expand_to, not_implemented
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.reduce import vector_norm
from jitgrad.ops.library.shapes.gather import require_one_dtype, require_slices, scatter_reduce
from jitgrad.ops.library.shapes.indexing import checked_indices
from jitgrad.ops.library.sizes import axis, require, require_equal, text

__library__ = True


def renorm(input: AnyTensor[Tensor], p: Any, dim: int, maxnorm: Any) -> Tensor:
    """input with each slice along dim of a p-norm above maxnorm scaled down to it."""
    require(p > 0.0, RuntimeError, "renorm: non-positive-norm not supported")
    require(maxnorm >= 0.0, RuntimeError,
            "renorm: expected maxnorm to be >= 0 but got ", maxnorm)
    if input.ndim < 2:
        raise RuntimeError("renorm: input needs at least 2 dimensions, got " + str(input.ndim) + " dimensions")
    a, d = axis(dim, input.ndim), input.dtype
    over, real = tuple(k for k in range(input.ndim) if k != a), d.to_real()
    norm: Any = vector_norm(input, p, over, True)
    large = apply("gt", norm, as_operand(maxnorm, real))
    x: Any = input
    if x.requires_grad:  # slices that stay have no part in the slope, NaN neither
        norm = vector_norm(apply("where", large, input, as_operand(0, d)), p, over, True)
    factor = apply("where", large, maxnorm / (norm + 1e-7),
                   as_operand(1.0, real))
    return apply("mul", input, cast(factor, d))


def index_reduce(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], source: AnyTensor[Tensor], reduce: str,
                 *, include_self: bool = True) -> Tensor:
    """Slices of source that go to the same index along dim, and input's there if include_self, reduced.

    reduce: "prod", "mean", "amax" or "amin". RuntimeError for another.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
                           f"{reduce}.")
    if index.ndim > 1:
        raise IndexError("index_reduce(): Index is supposed to be a vector, but got dim: "
                         f"{index.ndim} with type: {index.dtype.word} and size: {list(index.shape)}")
    require_one_dtype("index_reduce_", input, source)
    a = axis(dim, input.ndim)
    require_slices("index_reduce_", a, index.shape[0] if index.ndim else 1, source)

    def message() -> str:
        return ("source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                f"{text(input.shape)} source.shape = {text(source.shape)}")

    if source.ndim != input.ndim:
        raise RuntimeError(message())
    for k, (p, q) in enumerate(zip(source.shape, input.shape, strict=True)):
        if k != a:
            require_equal(p, q, message)
    d = input.dtype
    if (d is bool_ or d.is_complex) and input.ndim < 2:
        raise not_implemented("index_func", d)
    if d is bool_ and reduce == "mean":
        raise not_implemented("div_floor", d)
    if (d is bool_ or d.is_complex) and reduce != "mean" and not include_self:
        raise not_implemented("index_reduce_func_exclude_input_init", d)
    if input.ndim:
        index = checked_indices(index, input.shape[a], a, negative=False)
    n = source.shape[a] if source.ndim else 1
    line = apply("reshape", index, shape=tuple(n if k == a else 1 for k in range(source.ndim)))
    return scatter_reduce(input, a, expand_to(line, tuple(source.shape)), source, reduce,
                          include_self=bool(include_self))


complete(globals())

__all__ = ["index_reduce", "renorm"]

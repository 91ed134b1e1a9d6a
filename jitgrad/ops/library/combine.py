"""Tensors put together from others: products of matrices, blocks, masks and places; statistics of two variables."""

from functools import partial
from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import bool_, int64
from jitgrad.ops.autocast import lower, mode, widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, converted, create, expand_to, not_implemented,
                                      require_broadcast, require_tensor, result_dtype)
from jitgrad.ops.library.elements.parts import complex, conj_physical, imag, real
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import added, require_same_dtype
from jitgrad.ops.library.linear_algebra.linalg import bmm
from jitgrad.ops.library.order import to_end
from jitgrad.ops.library.pointwise import clamp
from jitgrad.ops.library.reduce import sum
from jitgrad.ops.library.shapes.indexing import checked_indices
from jitgrad.ops.library.shapes.shape import clone, take_slice
from jitgrad.ops.library.sizes import (axis, is_empty, is_one, maximum, product, require, require_equal, require_slice,
                                       static_int, wrap_index)

__library__ = True


def kron(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The Kronecker product: each element of input times the whole of other."""
    d = result_dtype(require_tensor("kron", input), require_tensor("kron", other, "other", 2))
    a, b = cast(input, d), cast(other, d)
    n = max(a.ndim, b.ndim)
    m, k = ((1,) * (n - x.ndim) + tuple(x.shape) for x in (a, b))
    left = apply("reshape", a, shape=tuple(s for size in m for s in (size, 1)))
    right = apply("reshape", b, shape=tuple(s for size in k for s in (1, size)))
    return own(apply("reshape", apply("mul", left, right), shape=tuple(p * q for p, q in zip(m, k, strict=True))))


def block_diag(*tensors: AnyTensor[Tensor]) -> Tensor:
    """Matrices (vectors are rows, numbers 1 x 1) along the diagonal of one, zeros elsewhere."""
    d = result_dtype(*tensors)
    blocks = []
    for t in tensors:
        if t.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input has {t.ndim} "
                               "dimensions")
        blocks.append(apply("reshape", cast(t, d), shape=(1,) * (2 - t.ndim) + tuple(t.shape)))
    width: Any = 0
    for b in blocks:
        width = width + b.shape[1]
    rows, start = [], 0
    for b in blocks:
        rows.append(apply("pad", b, pads=((0, 0), (start, width - start - b.shape[1])), value=0))
        start = start + b.shape[1]
    return apply("cat", *rows, axis=0)


def diagflat(input: AnyTensor[Tensor], offset: int = 0) -> Tensor:
    """A matrix with the elements of input on one diagonal."""
    from jitgrad.ops.library.shapes.rearrange import diag

    return diag(apply("reshape", input, shape=(product(input.shape),)), offset)


def heaviside(input: AnyTensor[Tensor], values: AnyTensor[Tensor]) -> Tensor:
    """0 below 0, 1 above, values at 0."""
    x, v = input, require_tensor("heaviside", values, "values", 2)
    if x.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if x.dtype is not v.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    zero, one = as_operand(0, x.dtype), as_operand(1, x.dtype)
    return apply("where", apply("eq", x, zero), v, apply("where", apply("gt", x, zero), one, zero))


def masked_scatter(input: AnyTensor[Tensor], mask: AnyTensor[Tensor], source: AnyTensor[Tensor]) -> Tensor:
    """input with the elements of source, in order, where mask (broadcast to input) is True."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_scatter_ only supports boolean masks, but got mask with dtype " + mask.dtype.name)
    if source.dtype is not input.dtype:
        raise RuntimeError("masked_scatter: expected self and source to have same dtypes but got "
                           f"{input.dtype.name} and {source.dtype.name}")
    shape = require_broadcast(input, mask)  # None of sizes of the run
    input = apply("where", mask, input, input) if shape is None else expand_to(input, shape)
    m = expand_to(mask, tuple(input.shape))
    line = apply("reshape", cast(m, int64), shape=(product(input.shape),))
    place = apply("mul", apply("sub", apply("cumsum", line, axis=0), line), line)
    values = apply("reshape", source, shape=(product(source.shape),))
    ones = backend().item(apply("sum", line, axes=(0,), keepdim=False))
    require(ones <= values.shape[0], RuntimeError, "Number of elements of source < number of ones in mask")
    if isinstance(values.shape[0], int) and not values.shape[0]:
        none = apply("sum", values, axes=(0,), keepdim=False) if values.requires_grad else as_operand(0, input.dtype)
        return apply("where", m, none, input)
    taken = apply("index", values, checked_indices(place, values.shape[0], 0, negative=False), axes=(0,))
    return apply("where", m, apply("reshape", taken, shape=tuple(input.shape)), input)


def put(input: AnyTensor[Tensor], index: AnyTensor[Tensor], source: AnyTensor[Tensor],
        accumulate: bool = False) -> Tensor:
    """input with source written (or added) at places of its elements counted in order.

    Raises RuntimeError where the dtypes differ or the index is not int64, IndexError for a place out of range.
    """
    if index.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.word}")
    if source.dtype is not input.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype, but got self.dtype = "
                           f"{input.dtype.word} and source.dtype = {source.dtype.word}")
    n, m = product(source.shape), product(index.shape)
    require_equal(n, m, lambda: "put_(): Expected source and index to have the same number of elements, but got "
                                f"source.numel() = {n}, index.numel() = {m}", IndexError)
    count = product(input.shape)
    i = checked_indices(apply("reshape", index, shape=(product(index.shape),)), count, 0)
    v = apply("reshape", source, shape=(product(source.shape),))
    line = apply("reshape", input, shape=(count,))
    return own(apply("reshape", apply("index_put", line, v, i, axes=(0,), accumulate=bool(accumulate)),
                     shape=tuple(input.shape)))


def select_scatter(input: AnyTensor[Tensor], src: AnyTensor[Tensor], dim: int, index: Any) -> Tensor:
    """input with src written to the slice at index of dim."""
    a = axis(dim, input.ndim)
    index = wrap_index(index, input.shape[a], a)
    require_slice(src, (*input.shape[:a], *input.shape[a + 1:]))
    return apply("select_scatter", input, converted(src, input.dtype), axis=a, index=index)


def diagonal_scatter(input: AnyTensor[Tensor], src: AnyTensor[Tensor], offset: int = 0, dim1: int = 0,
                     dim2: int = 1) -> Tensor:
    """input with src written to a diagonal. RuntimeError where src has not its shape."""
    where = {"offset": static_int(offset), "axis1": axis(dim1, input.ndim), "axis2": axis(dim2, input.ndim)}
    require_slice(src, apply("diagonal", input, **where).shape)
    return apply("diagonal_scatter", input, converted(src, input.dtype), **where)


def _require_batches(*batches: Any) -> None:
    """torch's IndexError for what lacks the axis whose size it reads."""
    for batch in batches:
        if batch.ndim < 3:
            axis(2, batch.ndim)


def baddbmm(input: AnyTensor[Tensor], batch1: AnyTensor[Tensor], batch2: AnyTensor[Tensor], *, beta: Number = 1,
            alpha: Number = 1) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2). RuntimeError where their dtypes differ."""
    _require_batches(batch2)
    input = expand_to(lower(input), (*batch1.shape[:2], *batch2.shape[2:]))
    if mode.low is None and batch1.dtype is input.dtype is bool_:
        batch2 = cast(batch2, bool_)  # torch looks for a kernel before it looks at its dtype
    require_same_dtype(batch1, batch2, input)
    return added(input, beta, bmm(batch1, batch2), alpha)


def addbmm(input: AnyTensor[Tensor], batch1: AnyTensor[Tensor], batch2: AnyTensor[Tensor], *, beta: Number = 1,
           alpha: Number = 1) -> Tensor:
    """beta * input + alpha * the sum of the products of two batches of matrices."""
    _require_batches(batch1, batch2)
    input = expand_to(lower(input), (batch1.shape[1], batch2.shape[2]))
    if bool_ in (batch1.dtype, batch2.dtype):
        require_same_dtype(batch1, batch2, input)  # before torch looks for a kernel
    total: Any = apply("sum", bmm(batch1, batch2), axes=(0,), keepdim=False)
    return added(input, beta, total, alpha)


def trapezoid(y: AnyTensor[Tensor], x: AnyTensor[Tensor] | None = None, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """The integral along dim by the trapezoidal rule, at places x or in steps dx."""
    a = axis(dim, y.ndim)
    if y.dtype is bool_:
        raise RuntimeError("trapezoid: received a bool input for `y`, but bool is not supported")
    y = widen(y, "cuda")
    n = maximum(y.shape[a] - 1, 0)
    height = (take_slice(y, a, 0, n) + take_slice(y, a, 1, n)) / 2
    if x is None:
        return apply("sum", height * dx, axes=(a,), keepdim=False)
    return apply("sum", height * spacings("trapezoid", x, y, a), axes=(a,), keepdim=False)


def spacings(fn: str, x: Any, y: Any, a: int) -> Any:
    """The distances between neighbours of the places x of y along axis a; a vector of places is one for all lines."""
    if x.ndim != 1:
        n = maximum(x.shape[a] - 1, 0)
        return take_slice(x, a, 1, n) - take_slice(x, a, 0, n)
    require_equal(x.shape[0], y.shape[a], lambda: f"{fn}: There must be one `x` value for each sample point")
    n = maximum(y.shape[a] - 1, 0)
    return apply("reshape", take_slice(x, 0, 1, n) - take_slice(x, 0, 0, n),
                 shape=tuple(n if k == a else 1 for k in range(y.ndim)))


def cov(input: AnyTensor[Tensor], *, correction: int = 1, fweights: AnyTensor[Tensor] | None = None,
        aweights: AnyTensor[Tensor] | None = None) -> Tensor:
    """Covariances of the rows, whose columns are observations.

    Args:
        input: (variables, observations), or (observations,).
        correction: what is taken off the number of observations.
        fweights: how often each observation counts, integers.
        aweights: how much it weighs, floats.
    """
    if input.ndim > 2:
        raise RuntimeError("cov(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.ndim} dimensions")
    if input.dtype is bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x: Any = input if input.ndim == 2 else apply("reshape", input, shape=(1, product(input.shape)))
    w = _weights(x, fweights, aweights)
    weighted, count = (x, x.shape[1]) if w is None else (x * w, sum(w))
    off: Any = correction
    if aweights is not None and correction != 0:
        off = sum(w * apply("reshape", aweights, shape=(x.shape[1],))) * correction / count
    freedom = maximum(count - off, 0) if w is None else clamp(count - off, min=0)
    centred = x - apply("unsqueeze", sum(weighted, 1) / count, axis=1)
    other = conj_physical(centred if w is None else centred * w)
    products = apply("matmul", lower(centred), apply("permute", lower(other), axes=(1, 0))) / freedom
    if input.ndim < 2 or is_one(input.shape[0]):
        return apply("reshape", products, shape=())
    return products


def _weights(x: Any, frequencies: Any, weights: Any) -> Any:
    """How much each observation counts, or None. RuntimeError as torch's for what is no weight."""
    for name, w, wanted in (("fweights", frequencies, "integral"), ("aweights", weights, "floating point")):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                               f"{w.ndim} dimensions")
        if w.dtype.is_floating_point is (name == "fweights") or w.dtype is bool_:
            raise RuntimeError(f"cov(): expected {name} to have {wanted} dtype but got {name} with {w.dtype.word} "
                               "dtype")
        message = f"cov(): expected {name} to have the same numel as there are observations in the input"
        require_equal(product(w.shape), x.shape[1], partial(str, message))
        require(backend().item(apply("all", apply("ge", w, as_operand(0, w.dtype)), axes=tuple(range(w.ndim)),
                                     keepdim=False)), RuntimeError, f"cov(): {name} cannot be negative")
    given = [apply("reshape", w, shape=(x.shape[1],)) for w in (frequencies, weights) if w is not None]
    if not given:
        return None
    found = given[0] if len(given) == 1 else given[0] * given[1]
    require(backend().item(sum(found)) != 0, RuntimeError, "cov(): weights sum to zero, can't be normalized")
    return found


def corrcoef(input: AnyTensor[Tensor]) -> Tensor:
    """Correlations of the rows, whose columns are observations."""
    c: Any = cov(input)
    if c.ndim < 2:
        return c / c
    scale = apply("sqrt", apply("diagonal", c, offset=0, axis1=0, axis2=1))
    result = c / apply("unsqueeze", scale, axis=1) / apply("unsqueeze", scale, axis=0)
    return complex(real(result).clamp(-1, 1), imag(result).clamp(-1, 1)) if result.dtype.is_complex else (
        result.clamp(-1, 1))


def vander(x: AnyTensor[Tensor], N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector (n,): (n, N), falling unless `increasing`; N is n by default."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else static_int(N)
    require(count >= 0, RuntimeError, "N must be non-negative.")
    powers = create("arange", x, length=count, dtype=int64)
    if not increasing:
        powers = count - 1 - powers
    base = x if x.dtype.is_inexact else cast(x, int64)
    return apply("pow", apply("unsqueeze", base, axis=1), cast(powers, base.dtype))


def extreme_scatter(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], src: AnyTensor[Tensor], reduce: str,
                    include_self: bool) -> Tensor:
    """`scatter_reduce` for "amax", "amin" and "prod", of an index whose sizes fit: every place looks at all of src."""
    a = axis(dim, input.ndim)
    slabs: list[Any] = [input]  # of the index's sizes but along dim; what lies outside stays
    for k, n in enumerate(index.shape):
        src = take_slice(src, k, 0, n)
        if k != a:
            slabs.append(take_slice(slabs[-1], k, 0, n))
    found = _extreme_in(slabs[-1], a, index, src, reduce, include_self)
    others = [k for k in range(input.ndim) if k != a]
    for k, inner, outer in zip(reversed(others), reversed(slabs[1:]), reversed(slabs[:-1]), strict=True):
        if inner is not outer:
            found = apply("slice_scatter", outer, found, axis=k, start=0, length=index.shape[k], step=1)
    return found


def _extreme_in(input: Any, a: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """`extreme_scatter` where input has the sizes of index and src but along axis a."""
    if input.dtype.is_complex and reduce != "prod":
        if is_empty(index.shape):
            return clone(input)
        raise not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype)
    i = checked_indices(index, input.shape[a], a, negative=False, error=RuntimeError)
    places = apply("reshape", create("arange", input, length=input.shape[a], dtype=int64),
                   shape=tuple(input.shape[a] if k == a else 1 for k in range(input.ndim + 1)))
    here = apply("eq", places, apply("unsqueeze", to_end(i, a), axis=a))
    values = apply("unsqueeze", to_end(src, a), axis=a)
    start: Any = 1 if reduce == "prod" else dtypes.bounds(input.dtype)[reduce == "amin"]
    if not all(isinstance(n, int) and n for n in index.shape):  # it may be empty: what changes nothing goes behind
        ends = ((0, 0),) * input.ndim + ((0, 1),)
        here = apply("pad", here, pads=ends, value=False)
        values = apply("pad", values, pads=ends, value=0)
    neutral = as_operand(start, input.dtype)
    found = apply(reduce, apply("where", here, values, neutral), axes=(input.ndim,), keepdim=False)
    touched = apply("any", here, axes=(input.ndim,), keepdim=False)
    if include_self:
        name = {"prod": "mul", "amax": "maximum", "amin": "minimum"}[reduce]
        found = apply(name, input, found)
    return apply("where", touched, found, input)

complete(globals())

__all__ = ["addbmm", "baddbmm", "block_diag", "corrcoef", "cov", "diagflat", "diagonal_scatter", "heaviside", "kron",
           "masked_scatter", "put", "select_scatter", "trapezoid", "vander"]

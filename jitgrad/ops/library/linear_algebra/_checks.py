"""What torch.linalg's functions ask of their operands, and what they raise where there is no result."""

from typing import Any

from jitgrad.dtypes import bool_, int32, int64
from jitgrad.ops.autocast import mode
from jitgrad.ops.backend import backend
from jitgrad.ops.library.core import Number, apply, as_operand, cast, create, expand_to, require_tensor, whole
from jitgrad.ops.library.sizes import is_empty, maximum, product, require, require_equal, same_size

__library__ = True


#: torch's words where singular values are not found
NOT_FINITE = "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."


class LinAlgError(RuntimeError):
    """A matrix is singular, or not positive definite, or has no decomposition."""


def matrices(fn: str, A: Any) -> Any:
    """A, or RuntimeError unless it holds matrices of floats or complex numbers."""
    if A.ndim < 2:
        raise RuntimeError(f"{fn}: The input tensor A must have at least 2 dimensions.")
    if not A.dtype.is_inexact:
        raise RuntimeError(f"{fn}: Expected a floating point or complex tensor as input. Got {A.dtype.word}")
    return A


def square(fn: str, A: Any) -> Any:
    """A, or RuntimeError unless it holds square matrices of floats or complex numbers."""
    A = matrices(fn, A)
    m, n = A.shape[-2], A.shape[-1]
    require_equal(m, n, lambda: f"{fn}: A must be batches of square matrices, but they are {m} by {n} matrices")
    return A


def require_kernel(kernel: str, A: Any) -> None:
    """NotImplementedError for square matrices of integers or bools, where torch finds only then that it has none."""
    if not A.dtype.is_inexact and A.ndim > 1 and same_size(A.shape[-1], A.shape[-2]):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{A.dtype.word}'")


def spoiled(x: Any) -> Any:
    """Whether there is a NaN: a bool, or one that a script knows at run time."""
    asked = whole(x)
    line = apply("reshape", apply("ne", asked, asked), shape=(product(asked.shape),))
    return backend().item(apply("any", line, axes=(0,), keepdim=False))


def found(result: Any, given: Any, message: str) -> Any:
    """The result, or LinAlgError where it is NaN though nothing given was."""
    broken, excused = spoiled(result), spoiled(given)
    require((not broken or excused) if isinstance(broken, bool) else broken <= excused, LinAlgError, message)
    return result


def finite(result: Any, message: str, error: type[Exception] = LinAlgError) -> Any:
    """The result, or the error where it is NaN."""
    broken = spoiled(result)
    require((not broken) if isinstance(broken, bool) else broken <= 0, error, message)
    return result


def require_none(fn: str, info: Any, error: type[Exception], *message: Any) -> None:
    """Raise `error` where a number of `info`, one a matrix, is not 0: of the first, its number for each `...`."""
    flat = whole(info)
    line = apply("reshape", flat, shape=(product(flat.shape),))
    line = apply("cat", line, create("full", line, value=0, shape=(1,), dtype=line.dtype), axis=0)
    bad = cast(apply("ne", line, as_operand(0, line.dtype)), int64)
    first = apply("argmax", bad, axes=(0,), keepdim=False)
    order, item = backend().item(apply("index", line, first, axes=(0,))), backend().item(first)
    where = [" (Batch element ", item, "):"] if flat.ndim else []
    require(order <= 0, error, f"{fn}:", *where, " ", *[order if part is ... else part for part in message])


def broadcast_batches(a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors of matrices with one shape of batches."""
    if a.ndim == b.ndim == 2:
        return a, b
    one = apply("mul", apply("slice", a, axis=a.ndim - 1, start=0, length=1, step=1),
                apply("slice", b, axis=b.ndim - 1, start=0, length=1, step=1))
    batch = tuple(one.shape)[:-2]
    return expand_to(a, (*batch, *a.shape[-2:])), expand_to(b, (*batch, *b.shape[-2:]))


def identity(like: Any, n: Any) -> Any:
    """(n, n): ones on the diagonal, of the dtype of a tensor and where it is."""
    k = create("arange", like, length=n, dtype=int64)
    return cast(apply("eq", apply("unsqueeze", k, axis=1), k), like.dtype)


def zero_pivot(lu: Any) -> Any:
    """int32, one a matrix: the number of the first zero on the diagonal, counted from 1; 0 where there is none."""
    line = apply("eq", apply("diagonal", lu, offset=0, axis1=lu.ndim - 2, axis2=lu.ndim - 1), as_operand(0, lu.dtype))
    last = line.ndim - 1
    shape = tuple(line.shape)[:-1]
    longer = apply("cat", cast(line, int64), create("full", lu, value=1, shape=(*shape, 1), dtype=int64), axis=last)
    first = apply("argmax", longer, axes=(last,), keepdim=False)
    none = apply("eq", first, as_operand(line.shape[-1], int64))
    return cast(apply("where", none, as_operand(0, int64), apply("add", first, as_operand(1, int64))), int32)


def largest_side(A: Any) -> Any:
    """The larger of the sizes of matrices."""
    return maximum(A.shape[-2], A.shape[-1])


def of_others(fn: str, a: Any, b: Any, argument: str) -> Any:
    """A product of which one factor is no tensor: what a sparse one's class has in `__functions__`, by this name.

    Scripts look there before they call the library. TypeError where there is nothing.
    """
    for x in (a, b):
        own = getattr(type(x), "__functions__", None)
        if own is not None:
            return own[fn](a, b)
    require_tensor(fn, a)
    return require_tensor(fn, b, argument, 2)


def require_same_dtype(a: Any, b: Any, other: Any = None) -> None:
    """RuntimeError for factors of two dtypes, or what is added to their product has another (if autocast is off)."""
    if other is not None and (mode.low is not None or a.dtype is b.dtype is other.dtype):
        return
    if a.dtype is not b.dtype or other is not None:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype.c_name} != {b.dtype.c_name}")


def product_of(a: Any, b: Any) -> Any:
    """The product of matrices, which bools do not have: NotImplementedError, after what is wrong with the sizes."""
    if a.dtype is bool_:
        sizes = a.shape[-2], a.shape[-1], b.shape[-2], b.shape[-1]
        require_equal(sizes[1], sizes[2], lambda: "mat1 and mat2 shapes cannot be multiplied "
                                                  f"({sizes[0]}x{sizes[1]} and {sizes[2]}x{sizes[3]})")
        require(is_empty((*a.shape, *b.shape)), NotImplementedError, '"addmm_impl_cpu_" not implemented for \'Bool\'')
        return cast(apply("matmul", cast(a, int64), cast(b, int64)), bool_)
    return apply("matmul", a, b)


def scaled(x: Any, factor: Any) -> Any:
    """A number times a tensor."""
    return x if isinstance(factor, int) and factor == 1 else apply("mul", x, as_operand(factor, x.dtype))


def added(input: Any, beta: Number, product: Any, alpha: Number) -> Any:
    """beta * input + alpha * product. RuntimeError where their dtypes differ."""
    if (a := input.dtype.word) != (b := product.dtype.word):
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {a} and {b}")
    if product.dtype is bool_:
        raise RuntimeError("result type Long can't be cast to the desired output type Bool")
    return apply("add", scaled(product, alpha), scaled(input, beta))

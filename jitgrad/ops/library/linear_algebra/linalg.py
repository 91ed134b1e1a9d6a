"""Products of matrices and vectors; all of them end in the row `matmul`."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import bool_, int64
from jitgrad.ops.autocast import lower, mode, widen, widest
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import Number, apply, binary, cast, expand_to, number_type, require_tensor, result_dtype
from jitgrad.ops.library.elements.parts import conj_physical
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import (added, identity, of_others, product_of, require_same_dtype,
                                                        scaled)
from jitgrad.ops.library.linear_algebra.decompositions import inv
from jitgrad.ops.library.shapes.shape import clone, own_view
from jitgrad.ops.library.sizes import axis, is_empty, product, require, require_equal, static_int, text

__library__ = True


def mm(input: AnyTensor[Tensor], mat2: AnyTensor[Tensor]) -> Tensor:
    """The product of two matrices."""
    if not (isinstance(input, AnyTensor) and isinstance(mat2, AnyTensor)):
        return of_others("mm", input, mat2, "mat2")
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError("self must be a matrix" if input.ndim != 2 else "mat2 must be a matrix")
    if mode.low is not None:
        input, mat2 = lower(input), lower(mat2)
    require_same_dtype(input, mat2)
    return product_of(input, mat2)


def bmm(input: AnyTensor[Tensor], mat2: AnyTensor[Tensor]) -> Tensor:
    """Products of two batches of matrices: (B, n, m) and (B, m, p)."""
    if input.ndim != 3 or mat2.ndim != 3:
        which, given = ("batch1", input) if input.ndim != 3 else ("batch2", mat2)
        raise RuntimeError(f"{which} must be a 3D tensor, got {given.ndim}D")
    if mode.low is not None:
        input, mat2 = lower(input), lower(mat2)
    if input.dtype is not bool_:
        require_same_dtype(input, mat2)
    a, b = input.shape, mat2.shape
    require_equal(a[0], b[0], lambda: "Expected size for first two dimensions of batch2 tensor to be: "
                                      f"[{a[0]}, {a[2]}] but got: [{b[0]}, {b[1]}].")
    return product_of(input, mat2)


def matmul(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The product of matrices and vectors of any ranks: batch axes broadcast, vectors are rows or columns."""
    if not (isinstance(input, AnyTensor) and isinstance(other, AnyTensor)):
        return of_others("matmul", input, other, "other")
    return _matmul(input, other) if mode.low is None else _matmul(lower(input), lower(other))


def _matmul(a: Any, b: Any) -> Any:
    rank, other = a.ndim, b.ndim
    if rank == 0 or other == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {rank}D and {other}D")
    if other > 2 and a.dtype is bool_:
        product_of(a if rank > 1 else apply("unsqueeze", a, axis=0), b)  # of batches torch looks for a kernel first
    require_same_dtype(a, b)
    if rank > 1 and other > 1:
        return product_of(a, b)
    if rank == 1 and other == 1:
        return dot(a, b)
    if other == 1:
        require_equal(a.shape[-1], b.shape[0], lambda: f"size mismatch, got input ({a.shape[-2]}), mat "
                                                       f"({a.shape[-2]}x{a.shape[-1]}), vec ({b.shape[0]})")
        result = product_of(a, apply("unsqueeze", b, axis=1))
        return own_view("squeeze", result, axis=rank - 1)
    result = product_of(apply("unsqueeze", a, axis=0), b)
    return own_view("squeeze", result, axis=other - 2)


def dot(input: AnyTensor[Tensor], tensor: AnyTensor[Tensor]) -> Tensor:
    """The inner product of two vectors, a 0-dim tensor."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    input, tensor = widest("cuda", input, tensor)
    if input.dtype is not tensor.dtype:
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {input.dtype.word} and "
                           f"{tensor.dtype.word}")
    require_equal(input.shape[0], tensor.shape[0], lambda: "inconsistent tensor size, expected tensor "
                  f"{text(input.shape)} and src {text(tensor.shape)} to have the same number of elements, but got "
                  f"{input.shape[0]} and {tensor.shape[0]} elements respectively")
    if input.dtype is bool_:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")
    n = input.shape[0]
    row, column = apply("reshape", input, shape=(1, n)), apply("reshape", tensor, shape=(n, 1))
    return own_view("reshape", product_of(row, column), shape=())


def vdot(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The inner product of two vectors, the first conjugated: a 0-dim tensor."""
    return dot(conj_physical(input), other)


def mv(input: AnyTensor[Tensor], vec: AnyTensor[Tensor]) -> Tensor:
    """A matrix times a vector."""
    if not (isinstance(input, AnyTensor) and isinstance(vec, AnyTensor)):
        return of_others("mv", input, vec, "vec")
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    if mode.low is not None:
        input, vec = lower(input, "cuda"), lower(vec, "cuda")
    return _matmul(input, vec)


def outer(input: AnyTensor[Tensor], vec2: AnyTensor[Tensor]) -> Tensor:
    """All products of two vectors' elements, (n, m)."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D argument {'self' if input.ndim != 1 else 'vec2'}, but got "
                           f"{input.ndim if input.ndim != 1 else vec2.ndim}-D")
    from jitgrad.ops.library.pointwise import mul

    return mul(apply("unsqueeze", input, axis=1), vec2)


ger = outer


def inner(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """Sums of products over the last axes."""
    from jitgrad.ops.library.pointwise import mul

    if input.ndim == 0 or other.ndim == 0:
        return mul(input, other)
    return tensordot(input, other, ([-1], [-1]))


def addmm(input: AnyTensor[Tensor], mat1: AnyTensor[Tensor], mat2: AnyTensor[Tensor], *, beta: Number = 1,
          alpha: Number = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    if mat1.dtype is bool_:
        require_same_dtype(mat1, mat2, input)  # torch looks at all sizes before it looks for a kernel
        input = expand_to(input, (*mat1.shape[:1], *mat2.shape[1:]))
    return added(lower(input), beta, mm(mat1, mat2), alpha)


def addmv(input: AnyTensor[Tensor], mat: AnyTensor[Tensor], vec: AnyTensor[Tensor], *, beta: Number = 1,
          alpha: Number = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec). RuntimeError where their dtypes differ."""
    input = expand_to(lower(input, "cuda"), tuple(mat.shape[:1]))  # likewise
    require_same_dtype(mat, vec, input)
    return apply("add", scaled(mv(mat, vec), alpha), scaled(input, beta))


def addr(input: AnyTensor[Tensor], vec1: AnyTensor[Tensor], vec2: AnyTensor[Tensor], *, beta: Number = 1,
         alpha: Number = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    input, vec1, vec2 = lower(input, "cuda"), lower(vec1, "cuda"), lower(vec2, "cuda")
    product = outer(vec1, vec2)
    d = result_dtype(input, product)
    if number_type(alpha) is bool and d is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    return binary("add", scaled(cast(product, d), alpha), scaled(cast(input, d), beta))


def tensordot(a: AnyTensor[Tensor], b: AnyTensor[Tensor], dims: Any = 2) -> Tensor:
    """Sums of products over the last `dims` axes of a and the first of b, or over two lists of axes."""
    if isinstance(dims, int):
        over_a, over_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        over_a, over_b = ([axis(d, x.ndim) for d in ds] for x, ds in zip((a, b), dims, strict=True))
    for i, j in zip(over_a, over_b, strict=True):
        require_equal(a.shape[i], b.shape[j], lambda i=i, j=j: (  # type: ignore[misc]
            f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
            f"{b.shape[j]} in dim {j}"))
    a, b = widest("cuda", lower(a, "cpu"), lower(b, "cpu"))
    require_same_dtype(a, b)
    free_a = [i for i in range(a.ndim) if i not in over_a]
    free_b = [j for j in range(b.ndim) if j not in over_b]
    shared = product([a.shape[i] for i in over_a])
    left = apply("reshape", apply("permute", a, axes=(*free_a, *over_a)),
                 shape=(product([a.shape[i] for i in free_a]), shared))
    right = apply("reshape", apply("permute", b, axes=(*over_b, *free_b)),
                  shape=(shared, product([b.shape[j] for j in free_b])))
    shape = (*[a.shape[i] for i in free_a], *[b.shape[j] for j in free_b])
    one = isinstance(shared, int) and shared == 1  # a product of elements, which bools have too
    return apply("reshape", apply("matmul", left, right) if one else product_of(left, right), shape=shape)


def trace(input: AnyTensor[Tensor]) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.ndim != 2 and input.dtype is not bool_:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    line = apply("diagonal", widen(input, "cpu"), offset=0, axis1=0, axis2=1)
    if not line.dtype.is_inexact:
        line = cast(line, int64)
    return apply("sum", line, axes=(0,), keepdim=False)


def matrix_power(A: AnyTensor[Tensor], n: int) -> Tensor:
    """A @ A @ ... n times, by squaring; of the inverse for negative n."""
    if isinstance(n, float):
        raise TypeError("linalg_matrix_power(): argument 'n' (position 2) must be int, not float")
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    rows, columns = A.shape[-2], A.shape[-1]
    require_equal(rows, columns, lambda: "linalg.matrix_power: A must be batches of square matrices, but they are "
                                         f"{rows} by {columns} matrices")
    n = static_int(n)
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        return expand_to(identity(A, A.shape[-1]), tuple(A.shape))
    result: Any = None
    base: Any = A
    while n:
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    return clone(result) if result is A else result


def cross(input: AnyTensor[Tensor], other: AnyTensor[Tensor], dim: int | None = None) -> Tensor:
    """The vector product along an axis of size 3, without `dim` the first one. RuntimeError for two ranks or dtypes."""
    if dim is None:
        dim = next((k for k in range(input.ndim) if static_int(input.shape[k]) == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return cross_along(input, other, dim)


def cross_along(input: AnyTensor[Tensor], other: AnyTensor[Tensor], dim: int = -1) -> Tensor:
    """The vector product along an axis of size 3. RuntimeError for two ranks or dtypes."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    a = axis(dim, input.ndim)
    require_equal(input.shape[a], 3, lambda: f"linalg.cross: inputs dimension {dim} must have length 3. Got "
                                             f"{input.shape[a]} and {other.shape[a]}")
    if input.dtype is bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    if input.dtype is not other.dtype and mode.low is None:
        raise RuntimeError(f"expected scalar type {input.dtype.word} but found {other.dtype.word}")
    input, other = widest("cuda", input, other)
    x, y = ([apply("select", v, axis=a, index=i) for i in range(3)] for v in (input, other))
    parts = [apply("sub", apply("mul", x[i], y[j]), apply("mul", x[j], y[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return apply("cat", *[apply("unsqueeze", p, axis=a) for p in parts], axis=a)


def cdist(x1: AnyTensor[Tensor], x2: AnyTensor[Tensor], p: Number = 2.0, compute_mode: str | None = (
        "use_mm_for_euclid_dist_if_necessary")) -> Tensor:
    """The p-norms of all differences of rows: (..., n, D) and (..., m, D) give (..., n, m).

    `compute_mode` is torch's, of which each gives this result. ValueError for one that torch does not have.
    """
    from jitgrad.ops.library.reduce import vector_norm

    for k, x in enumerate((x1, x2), 1):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{k} got: {x.ndim}D")
    degree: Any = p
    require(degree >= 0, RuntimeError, "cdist only supports non-negative p values")
    columns, others = x1.shape[-1], x2.shape[-1]
    require_equal(columns, others, lambda: f"X1 and X2 must have the same number of columns. X1: {columns} X2: "
                                           f"{others}")
    for k, x in enumerate((x1, x2), 1):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{k} got: {x.dtype.word}")
    x1, x2 = widen(x1), widen(x2)
    if is_empty((*x1.shape, *x2.shape)):
        x2 = cast(x2, x1.dtype)  # there is nothing to compute, and no kernel is asked
    elif x1.dtype.is_half and not x1.is_cuda:
        raise NotImplementedError(f"\"cdist\" not implemented for '{x1.dtype.word}'")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected scalar type {x1.dtype.word} but found {x2.dtype.word}")
    if compute_mode not in (None, "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                            "donot_use_mm_for_euclid_dist"):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    difference = apply("sub", apply("unsqueeze", x1, axis=x1.ndim - 1), apply("unsqueeze", x2, axis=x2.ndim - 2))
    return vector_norm(difference, p, -1)


# --- einsum --------------------------------------------------------------------------------------------------------


class _Term:
    """An operand of einsum with one letter per axis."""

    __slots__ = ("letters", "x")

    def __init__(self, x: Any, letters: list[str]):
        self.x, self.letters = x, letters

    def diagonals(self) -> None:
        """Repeated letters become one axis."""
        for letter in dict.fromkeys(self.letters):
            while self.letters.count(letter) > 1:
                i = self.letters.index(letter)
                j = self.letters.index(letter, i + 1)
                _require_one_size(letter, self.x.shape[i], self.x.shape[j])
                self.x = apply("diagonal", self.x, offset=0, axis1=i, axis2=j)
                self.letters = [c for k, c in enumerate(self.letters) if k not in (i, j)] + [letter]

    def sum_out(self, kept: set[str]) -> None:
        """Letters that nothing else has are summed."""
        from jitgrad.ops.library.reduce import sum

        gone = tuple([i for i, c in enumerate(self.letters) if c not in kept])
        if gone:
            self.x = sum(self.x, gone)
            self.letters = [c for c in self.letters if c in kept]

    def arrange(self, letters: list[str]) -> Any:
        """The operand with axes in the order of letters, size one where it lacks one."""
        present = [c for c in letters if c in self.letters]
        order = tuple([self.letters.index(c) for c in present])
        x = self.x if order == tuple(range(len(order))) else apply("permute", self.x, axes=order)
        for i, c in enumerate(letters):
            if c not in self.letters:
                x = apply("unsqueeze", x, axis=i)
        return x


def _require_one_size(letter: str, m: Any, n: Any) -> None:
    require_equal(m, n, lambda: f"einsum(): subscript {letter} is repeated in an operand but the sizes don't match, "
                                f"{n} != {m}")


def _size(terms: Sequence[_Term], letter: str) -> Any:
    """A letter's size: that of an operand where it is not 1."""
    sizes = [t.x.shape[t.letters.index(letter)] for t in terms if letter in t.letters]
    return next((s for s in sizes if not (isinstance(s, int) and s == 1)), sizes[0])


def _contract(a: _Term, b: _Term, kept: set[str], lowered: bool) -> _Term:
    """Two operands as one matmul over (batch, free of a, summed) and (batch, summed, free of b)."""
    a.sum_out(kept | set(b.letters))
    b.sum_out(kept | set(a.letters))
    batch = [c for c in a.letters if c in b.letters and c in kept]
    summed = [c for c in a.letters if c in b.letters and c not in kept]
    free_a = [c for c in a.letters if c not in b.letters]
    free_b = [c for c in b.letters if c not in a.letters]
    if not summed:
        letters = batch + free_a + free_b
        return _Term(binary("mul", a.arrange(letters), b.arrange(letters)), letters)
    if lowered:
        a.x, b.x = lower(a.x), lower(b.x)
    require_same_dtype(a.x, b.x)
    batch_shape = tuple([_size((a, b), c) for c in batch])
    shared = [_size((a, b), c) for c in summed]

    def folded(term: _Term, rows: list[str], columns: list[str]) -> Any:
        x = term.arrange(batch + rows + columns)
        sizes = dict(zip(summed, shared, strict=True))
        full = (*batch_shape, *[sizes[c] if c in sizes else _size((term,), c) for c in rows + columns])
        x = expand_to(x, full)  # a size of 1 may meet another in torch's einsum
        n = len(batch)
        return apply("reshape", x, shape=(*batch_shape, product(full[n:n + len(rows)]), product(full[n + len(rows):])))

    y = product_of(folded(a, free_a, summed), folded(b, summed, free_b))
    shape = (*batch_shape, *[_size((a,), c) for c in free_a], *[_size((b,), c) for c in free_b])
    return _Term(apply("reshape", y, shape=shape), batch + free_a + free_b)


def _parse(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Letters of each operand and of the result; the axes of an ellipsis are called 0, 1, ... from the right."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        given = "fewer" if len(inputs) > len(ranks) else "more"
        raise RuntimeError(f"einsum(): {given} operands were provided than specified in the equation")
    widest = 0
    parsed: list[list[str]] = []
    for subscripts, rank in zip(inputs, ranks, strict=True):
        head, dots, tail = subscripts.partition("...")
        if any(not c.isalpha() for c in head + tail):
            raise RuntimeError("einsum(): invalid subscript given, subscripts must be in [a-zA-Z]")
        width = rank - len(head) - len(tail)
        if width < 0 or (width and not dots):
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(head) + len(tail)}) does not "
                               f"match the number of dimensions ({rank}) for operand {len(parsed)} and no ellipsis was "
                               "given")
        widest = max(widest, width)
        parsed.append([*head, *[str(k) for k in range(width - 1, -1, -1)], *tail])
    dims = [str(k) for k in range(widest - 1, -1, -1)]
    if arrow:
        head, dots, tail = right.partition("...")
        result = [*head, *(dims if dots else []), *tail]
    else:
        once = [c for c in left if c.isalpha() and left.count(c) == 1]
        result = [*dims, *sorted(once)]
    known = {c for letters in parsed for c in letters}
    for k, c in enumerate(result):
        if c not in known:
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
        if c in result[:k]:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
    return parsed, result


def einsum(equation: str, *operands: AnyTensor[Tensor] | Sequence[AnyTensor[Tensor]]) -> Tensor:
    """Products of operands summed over the letters that the result lacks; ellipsis and diagonals included.

    Operands are contracted from left to right, each pair as one matmul.
    """
    xs = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    return _einsum(equation, [lower(x, "cuda") for x in xs], True)


def trilinear(equation: str, *operands: AnyTensor[Tensor]) -> Tensor:
    """`einsum`, whose products autocast leaves as they are."""
    return _einsum(equation, widest("cuda", *operands), False)


def _einsum(equation: str, xs: Sequence[Any], lowered: bool) -> Any:
    for x in xs:
        require_tensor("einsum", x, "operands", 2)
    parsed, result = _parse(equation, [x.ndim for x in xs])
    terms = [_Term(x, list(letters)) for x, letters in zip(xs, parsed, strict=True)]
    for t in terms:
        t.diagonals()
    for letter in {c for t in terms for c in t.letters}:
        size = _size(terms, letter)
        for t in terms:
            s = t.x.shape[t.letters.index(letter)] if letter in t.letters else 1
            if not (isinstance(s, int) and s == 1):
                require_equal(s, size, lambda letter=letter, s=s, size=size: (  # type: ignore[misc]
                    f"einsum(): operands do not broadcast with remapped shapes: subscript {letter} has sizes {s} and "
                    f"{size}"))
    current = terms[0]
    for k, term in enumerate(terms[1:], 1):
        kept = set(result) | {c for later in terms[k + 1:] for c in later.letters}
        current = _contract(current, term, kept, lowered)
    current.sum_out(set(result))
    return current.arrange(result)

complete(globals())

__all__ = ["addmm", "addmv", "addr", "bmm", "cdist", "cross", "dot", "einsum", "ger", "inner", "matmul",
           "matrix_power", "mm", "mv", "outer", "tensordot", "trace", "vdot"]

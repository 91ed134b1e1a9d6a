"""Axes and sizes, the arguments of torch's functions: normalised, compared, checked.

Axes are static. Sizes are ints or, in a script, symbolic ones, of which a function knows little: it may not branch on
them, but asks what is known, or lets a check be made at run time.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from jitgrad.ops.backend import AnyTensor, SymNumber, backend, select_number

#: no axis was given, where torch does not take None for that
EVERY: Any = type("Every", (), {"__repr__": lambda self: "<every axis>"})()

# --- static arguments ----------------------------------------------------------------------------------------------


def static_number(x: Any) -> Any:
    """`x` as a number that is known now."""
    if not isinstance(x, SymNumber):
        return x
    symbolic: Any = x
    return float(symbolic) if x.number_type is float else operator.index(symbolic)


def static_int(x: Any) -> int:
    """`x` as an int that is known now. A symbolic number answers `__index__` with a guarded value or a refusal; a bool
    is none, as in torch: TypeError."""
    if type(x) is int:
        return x
    if x is True or x is False:
        raise TypeError("an argument must be int, not bool")
    return operator.index(x)


def flag(x: Any, name: str = "keepdim") -> bool:
    """`x` as a bool that is known now. TypeError for what is none, an int too, as in torch."""
    if type(x) is bool:
        return x
    if isinstance(x, np.bool_) or (isinstance(x, SymNumber) and x.number_type is bool):
        return bool(x)
    raise TypeError(f"argument '{name}' must be bool, not {type(x).__name__}")


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """`static_int` of one number for all of `rank` axes, or of those in a list; one of another length is told by it."""
    found = tuple([static_int(v) for v in value]) if isinstance(value, (tuple, list)) else (static_int(value),)
    return found * rank if len(found) == 1 else found


def axis(dim: Any, ndim: int) -> int:
    """A non-negative axis from torch's `dim`. IndexError out of range; a 0-dim tensor has an axis 0 (and -1)."""
    dim = static_int(dim)
    rank = ndim or 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim if dim >= 0 else dim + rank


def one_axis(fn: str, dim: Any) -> Any:
    """`dim`, or torch's TypeError for several axes, or None, where it takes one."""
    if dim is None or isinstance(dim, (tuple, list)):
        raise TypeError(f"{fn}(): argument 'dim' must be int, not {type(dim).__name__}")
    return dim


def require_axes(dim: Any, keepdim: Any = False) -> None:
    """TypeError for what is no int, no sequence of such and not None, or no flag: torch looks at types first."""
    flag(keepdim)
    if dim is not None:
        for d in dim if isinstance(dim, (tuple, list)) else (dim,):
            static_int(d)


def axes(dim: Any, ndim: int) -> tuple[int, ...]:
    """The sorted, distinct axes of `dim`: an int, a sequence, or None and () for all."""
    if dim is None:
        return tuple(range(ndim))
    if not isinstance(dim, (tuple, list)):
        a = axis(dim, ndim)
        return (a,) if ndim else ()
    if not dim:
        return tuple(range(ndim))
    found = [axis(d, ndim) for d in dim]
    for a in found:
        if found.count(a) > 1:
            raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


# --- sizes ---------------------------------------------------------------------------------------------------------


def size_list(args: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes given as `f(2, 3)`, `f((2, 3))` or `f([2, 3])`; elements are ints or symbolic ints."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return tuple([size_of(s) for s in args])


def new_size(size: Sequence[Any]) -> tuple[Any, ...]:
    """The size of a new tensor. Symbolic sizes are checked where the tensor is made."""
    if not size:
        raise TypeError("a size is needed: ints, or a tuple of them")
    sizes = size_list(size)
    for s in sizes:
        if isinstance(s, int) and s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s}: {text(sizes)}")
    return sizes


def size_of(s: Any) -> Any:
    """One size: an int or a symbolic int. TypeError for anything else."""
    if type(s) is int or (isinstance(s, SymNumber) and s.number_type is not float):
        return s
    if isinstance(s, AnyTensor) and not s.ndim:
        return backend().item(s)
    if isinstance(s, float):
        raise TypeError(f"sizes must be ints, got the float {s!r}")
    return operator.index(s)


def text(sizes: Iterable[Any]) -> str:
    """Sizes as torch prints them in messages: [2, 3]."""
    return "[" + ", ".join([str(s) for s in sizes]) + "]"


def joined(sizes: Iterable[Any], by: str) -> list[Any]:
    """Sizes with `by` between them, as parts of a message."""
    return [part for s in sizes for part in (by, s)][1:]


def is_one(size: Any) -> bool:
    """Whether a size is 1. A symbolic size counts as 1 only where that is known (sizes of 1 are ints then)."""
    return isinstance(size, int) and size == 1


def is_empty(sizes: Iterable[Any]) -> bool:
    """Whether it is known that there are no elements."""
    return 0 in [n for n in sizes if isinstance(n, int)]


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, SymNumber):
        return a.known_equal(b)
    if isinstance(b, SymNumber):
        return b.known_equal(a)
    return bool(a == b)


def same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all(same_size(m, n) for m, n in zip(a, b, strict=True))


def require_equal(a: Any, b: Any, message: Callable[[], str], error: type[Exception] = RuntimeError) -> None:
    """Raise `error` unless the sizes are equal, now or (symbolic ones) at run time."""
    if isinstance(a, int) and isinstance(b, int):
        if a != b:
            raise error(message())
    elif not same_size(a, b):
        backend().check_equal(a, b, error, message)


def require_slice(src: Any, shape: Sequence[Any]) -> None:
    """RuntimeError unless what is written has the shape of its place."""
    def message() -> str:
        return ("expected src to have a size equal to the slice of self. src size = "
                f"{text(src.shape)}, slice size = {text(shape)}")

    if src.ndim != len(shape):
        raise RuntimeError(message())
    for m, n in zip(src.shape, shape, strict=True):
        require_equal(m, n, message)


def require(condition: Any, error: type[Exception], *message: Any) -> None:
    """Raise `error` with a message in parts (str and numbers) unless `condition`, now or at run time."""
    if condition is True:
        return
    if not isinstance(condition, (bool, np.bool_)) or not condition:
        backend().check(condition, error, message if len(message) > 1 else message[0])


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two sizes or numbers."""
    if isinstance(a, SymNumber):
        return a.minimum(b)
    return b.minimum(a) if isinstance(b, SymNumber) else min(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two sizes or numbers."""
    if isinstance(a, SymNumber):
        return a.maximum(b)
    return b.maximum(a) if isinstance(b, SymNumber) else max(a, b)


def product(sizes: Iterable[Any]) -> Any:
    """The product of sizes; 1 for none."""
    result: Any = 1
    for s in sizes:
        result = s if isinstance(result, int) and result == 1 else result * s
    return result


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes, of which parts, sums and multiples are shapes."""

    __slots__ = ()

    if TYPE_CHECKING:
        @overload
        def __getitem__(self, index: SupportsIndex) -> int: ...
        @overload
        def __getitem__(self, index: slice) -> "Size": ...
        def __getitem__(self, index: Any) -> Any: ...
    else:
        def __getitem__(self, index: Any, item: Any = tuple.__getitem__) -> Any:
            found = item(self, index)
            return Size(found) if found.__class__ is tuple else found

        def __add__(self, other: Any) -> Any:
            return Size(tuple(self) + tuple(other)) if isinstance(other, tuple) else NotImplemented

        def __radd__(self, other: Any) -> Any:
            return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

        def __mul__(self, times: Any) -> Any:
            return Size(tuple(self) * times)

        __rmul__ = __mul__

    def numel(self: Any) -> Any:
        """The product of the sizes."""
        return product(self)

    def __repr__(self: Any) -> str:
        return f"Size([{', '.join([str(s) for s in self])}])"


def ceil_div(a: Any, b: Any) -> Any:
    """a / b rounded up, for sizes."""
    return a if isinstance(b, int) and b == 1 else (a + (b - 1)) // b


def wrap_index(i: Any, n: Any, dim: int) -> Any:
    """A non-negative index from an index into an axis of size n. IndexError out of bounds."""
    if isinstance(i, int) and isinstance(n, int):
        if not -n <= i < n:
            raise IndexError(f"index {int(i)} is out of bounds for dimension {dim} with size {n}")
        return i + n if i < 0 else int(i)
    wrapped = select_number(i < 0, i + n, i)
    require(wrapped >= 0, IndexError, "index ", i, f" is out of bounds for dimension {dim} with size ", n)
    require(wrapped < n, IndexError, "index ", i, f" is out of bounds for dimension {dim} with size ", n)
    return wrapped

"""The namespaces `F` under which the rows' rules run.

`Namespace` resolves `F.<op>` to the row and hands it to `apply`. To make one, subclass it and give:

- `apply(op, xs, attrs)`: run, record or emit `op` on handles (for `fill` and `random.*` on numbers); a composite row
  may be expanded with `self.expand_composite(op, xs, attrs)`. Returns a handle or a tuple of handles.
- `lift(value, d)`: a 0-dim handle of dtype `d` from a Python number. Not needed where operands may be literals.

Everything else (zeros_like, expand_like, ..., sum_to) has a definition in terms of rows and may be overridden where
there is a shorter way. Handles whose class has no arithmetic of its own can inherit it from `Handle`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from jitgrad.dims import product
from jitgrad.dtypes import dtype
from jitgrad.ops.halves import half_of, in_float32, narrow, wide
from jitgrad.ops.opdef import OPS, OpDef
from jitgrad.ops.specs import Shape, reduced_shape

Number = bool | int | float


def _is_literal(x: Any) -> bool:
    """Whether an operand is a number of Python's: NumPy's are arrays without axes."""
    return isinstance(x, (int, float)) and not isinstance(x, np.generic)


class Namespace:
    """Ops as functions on handles. `F.<op>(*operands, **attrs)` for every row of the table."""

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run, record or emit one op."""
        raise NotImplementedError

    def lift(self, value: Number, d: dtype) -> Any:
        """A 0-dim constant."""
        return self.full(value=value, shape=(), dtype=d)

    def expand_composite(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """A composite row as the expression that defines it; of half types in float32, rounded at its end.

        One that converts sees them as they are.
        """
        assert op.compose is not None
        half = None if "converts" in op.traits else half_of(xs)
        if half is None:
            return op.compose(self, *xs, **attrs)
        return narrow(self, op.compose(self, *[wide(self, x) for x in xs], **attrs), half)

    def bind(self, op: OpDef) -> Callable[..., Any]:
        """The function that `F.<op>` is."""
        apply, lift_literals = self.apply, self.lift_literals
        if op.arity == 0 or op.name == "fill" or op.name.startswith("random."):
            return lambda *xs, **attrs: apply(op, xs, attrs)
        return lambda *xs, **attrs: apply(op, lift_literals(op, xs), attrs)

    def __getattr__(self, name: str) -> Any:
        op = OPS.get(name)
        if op is None:
            raise AttributeError(f"no op `{name}`")
        function = self.__dict__[name] = self.bind(op)
        return function

    def lift_literals(self, op: OpDef, xs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Python numbers among the operands as constants of the other operands' dtype."""
        for x in xs:
            if _is_literal(x):
                break
        else:
            return xs
        typed = xs[1:] if op.name == "where" else xs
        d = next(x.dtype for x in typed if not _is_literal(x))
        return tuple(self.lift(x, d) if _is_literal(x) else x for x in xs)

    # --- helpers of rules ------------------------------------------------------------------------------------------

    def literal(self, value: Number, like: Any) -> Any:
        """A 0-dim constant of like's dtype."""
        return self.lift(value, like.dtype)

    def zeros_like(self, x: Any) -> Any:
        """Zeros of x's shape and dtype; x may be a spec."""
        return self.full(value=0, shape=x.shape, dtype=x.dtype)

    def expand_like(self, g: Any, x: Any) -> Any:
        """g repeated to x's shape."""
        return g if g.shape == x.shape else self.expand(g, shape=x.shape)

    def reshape_like(self, g: Any, x: Any) -> Any:
        """g with x's shape, elements in order."""
        return g if g.shape == x.shape else self.reshape(g, shape=x.shape)

    def unreduce(self, g: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
        """The result g of a reduction of x over `axes`, repeated to x's shape."""
        if not keepdim and axes:
            g = self.reshape(g, shape=reduced_shape(x.shape, axes, True))
        return self.expand_like(g, x)

    def count(self, x: Any, axes: Sequence[int]) -> Any:
        """How many elements of x are reduced over `axes`, as a 0-dim constant of x's dtype."""
        n = product(x.shape[a] for a in axes)
        if not isinstance(n, int):
            raise TypeError("a namespace with symbolic sizes overrides `count`")
        return self.lift(n, x.dtype)

    def only_where(self, condition: Any, special: Callable[[], Any], usual: Any) -> Any:
        """`where(condition, special(), usual)`; NumPy's arrays ask whether there is anything special."""
        return self.where(condition, special(), usual)

    def sum_to(self, g: Any, *, shape: Shape) -> Any:
        """g summed over the axes along which `shape` was repeated to g's shape."""
        return g if g.shape == shape else self.apply(OPS["sum_to"], (g,), {"shape": shape})


def _operator(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """`self <operator> other` as the row `name`, or `other <operator> self`."""
    def operator(self: Any, other: Any) -> Any:
        function = getattr(self.F, name)
        return function(other, self) if reflected else function(self, other)

    return operator


class Handle:
    """Operators for handles: a subclass has `F` (its namespace), `shape`, `ndim`, `dtype`."""

    __slots__ = ()
    F: Any
    __hash__ = object.__hash__

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", reflected=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", reflected=True)
    __pow__ = _operator("pow")
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")

    def __neg__(self) -> Any:
        return self.F.neg(self)


# --- arrays --------------------------------------------------------------------------------------------------------


class ArrayNamespace(Namespace):
    """Handles are arrays (or NumPy scalars, which 0-dim arithmetic gives); literals stay Python numbers.

    Dtypes are kept: float32 in gives float32 out; half types are computed in float32. NumPy's floating-point
    warnings are the caller's matter: run rules and impls under `numpy.errstate(all="ignore")`.
    """

    def __init__(self, xp: ModuleType = np):
        self.xp = xp
        self.broadcast: Callable[[Any, Shape], Any] = broadcast if xp is np else xp.broadcast_to

    def bind(self, op: OpDef) -> Callable[..., Any]:
        xp, impl, compose = self.xp, op.impl, op.compose
        if impl is not None:
            direct = getattr(impl, "function", None)  # the row's impl is just a function of the array library
            if direct is not None and xp is np:
                return getattr(xp, direct)  # type: ignore[no-any-return]
            return functools.partial(impl, xp)
        assert compose is not None

        return functools.partial(in_float32(compose), self)

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return getattr(self, op.name)(*xs, **attrs)

    def literal(self, value: Number, like: Any) -> Any:
        return self.xp.asarray(value, dtype=_np(like.dtype))

    def zeros_like(self, x: Any) -> Any:
        return self.xp.zeros(x.shape, _np(x.dtype))

    def expand_like(self, g: Any, x: Any) -> Any:
        return g if g.shape == x.shape else self.broadcast(g, x.shape)

    def reshape_like(self, g: Any, x: Any) -> Any:
        return g if g.shape == x.shape else g.reshape(x.shape)

    def unreduce(self, g: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
        if not keepdim:
            g = g.reshape(reduced_shape(x.shape, axes, True))
        return g if g.shape == x.shape else self.broadcast(g, x.shape)

    def only_where(self, condition: Any, special: Callable[[], Any], usual: Any) -> Any:
        if type(condition) is np.ndarray and not condition.any():  # a GPU would have to be waited for
            return usual
        return self.where(condition, special(), usual)

    def count(self, x: Any, axes: Sequence[int]) -> Any:
        n = 1
        for a in axes:
            n *= x.shape[a]
        return _np(x.dtype).type(n)

    def sum_to(self, g: Any, *, shape: Shape) -> Any:
        return g if g.shape == shape else unbroadcast(g, shape)


def _np(d: Any) -> np.dtype[Any]:
    """The NumPy dtype of a jitgrad or a NumPy dtype."""
    return d.np if isinstance(d, dtype) else d


_iterator: Any = np.nditer


def broadcast(g: Any, shape: Shape) -> Any:
    """`np.broadcast_to`, whose checks of its arguments take twice the time."""
    return _iterator((g,), ["multi_index", "refs_ok", "zerosize_ok"], ["readonly"], itershape=shape,
                     order="C").itviews[0]


def unbroadcast(g: Any, shape: Shape) -> Any:
    """Array g summed to `shape`, from which it was broadcast; g itself where the shapes agree."""
    if g.shape == shape:
        return g
    lead = g.ndim - len(shape)
    axes = (*range(lead), *(i for i, s in enumerate(shape, lead) if s == 1 and g.shape[i] != 1))
    if axes:
        g = _summed_in_float32(None, g, axes, True)
    return g.reshape(shape)


#: `ndarray.sum` without the Python in front of it
_added: Any = np.add.reduce
#: rows that NumPy may add one after another; how many it is given where there are more, and numbers in each of these
CHAIN, ROWS, ROW = 1024, 128, 1 << 8


def summed(xp: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The sum of an array over axes, in its dtype. NumPy adds pairs of halves only along the dense axis, and rows one
    after another: many are folded first, and the rest added in float64, or the error would grow with their number.
    """
    if type(x) is np.ndarray:
        if x.size > CHAIN and x.dtype.kind in "fc":
            axis = _chained(x, axes)
            if axis >= 0:
                wide = np.result_type(x.dtype, np.float64)
                return summed(xp, _folded(x, axis).astype(wide), axes, keepdim).astype(x.dtype)
        return _added(x, axes, x.dtype, None, keepdim)
    return x.sum(axis=axes, dtype=x.dtype, keepdims=keepdim)


_summed_in_float32 = in_float32(summed)
#: likewise for `ndarray.max` and `ndarray.min`
_EXTREMES: dict[str, Any] = {"max": np.maximum.reduce, "min": np.minimum.reduce}


def extreme(x: Any, fold: str, axes: int | tuple[int, ...], keepdim: bool) -> Any:
    """The largest or smallest elements of an array over axes: `fold` is "max" or "min"."""
    if type(x) is np.ndarray:
        return _EXTREMES[fold](x, axes, None, None, keepdim)
    return getattr(x, fold)(axis=axes, keepdims=keepdim)


def _chained(x: Any, axes: tuple[int, ...]) -> int:
    """The longest of the axes along which a sum would add more than `CHAIN` rows one after another; -1: of none."""
    if math.prod([x.shape[a] for a in axes]) <= CHAIN or (axes[0] + len(axes) == x.ndim and x.flags.c_contiguous):
        return -1
    dense, longest, chain, found = 0, 1, 1, -1  # dense: the stride of the axis that goes on with the dense ones
    for stride, n, a in sorted([(abs(s) or x.nbytes, n, a) for a, (s, n) in enumerate(zip(x.strides, x.shape,
                               strict=True))]):
        if n == 1:
            continue
        if a not in axes:
            dense = -1
        elif dense in (0, stride):
            dense = stride * n
        else:
            dense, chain = -1, chain * n
            if n > longest:
                longest, found = n, a
    return found if chain > CHAIN else -1


def _folded(x: Any, axis: int) -> Any:
    """x with a shorter `axis`: of sums of about `ROWS` elements along it."""
    n, step = x.shape[axis], abs(x.strides[axis])
    if n < 2 * ROWS:
        return np.add.reduce(x, axis, keepdims=True)
    short = math.prod([m for m, s in zip(x.shape, x.strides, strict=True) if abs(s) < step])
    inner = min(max(ROW // short, 1), n // ROWS)
    outer = n // ROWS // inner
    rows, left = divmod(n, outer * inner)
    before, after, at = x.shape[:axis], x.shape[axis + 1:], (slice(None),) * axis
    whole = x[(*at, slice(n - left))].reshape(*before, outer, rows, inner, *after)
    y = np.add.reduce(whole, axis + 1).reshape(*before, outer * inner, *after)
    if left:
        y[(*at, slice(left))] += x[(*at, slice(n - left, n))]
    return y


def sum_to_plan(shape: Shape, target: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How to sum a value of `shape` to `target`: (axes to sum, axes that may have been repeated).

    An axis of the second group has two sizes of which the compiler cannot say whether they are equal; it is summed at
    run time if the target's is 1. Leading axes that `target` lacks are always in the first.
    """
    lead = len(shape) - len(target)
    axes, open_axes = list(range(lead)), []
    for i, size in enumerate(target, lead):
        if size == shape[i]:
            continue
        if size == 1:
            axes.append(i)
        elif not isinstance(size, int):
            open_axes.append(i)
    return tuple(axes), tuple(open_axes)

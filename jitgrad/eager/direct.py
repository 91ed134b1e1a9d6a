"""In-place arithmetic that nothing records, written by NumPy straight into the target's memory.

The library computes an in-place op out of place and copies the result, which is what a recorded one needs. `update`
does the common ones without the copy, and without a temporary as large as the tensors, where this cannot be told from
the general way: no history, operands of the target's dtype, results of its shape. All else, errors included, is
declined before anything is written, and goes the general way.

A rule takes the target's array and the rest of the library function's arguments, under the same names; tensors among
them arrive as arrays. It returns False to decline. NumPy orders reads and writes of operands that overlap the target.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import BAREBONES_CHARS, HALF_CHARS
from jitgrad.eager.arrays.arrays import MANY
from jitgrad.eager.arrays.errstate import SILENT, restore, silence
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import Array, Storage, TapedArray
from jitgrad.ops import OPS, specs
from jitgrad.ops.rows._pointwise import Ufunc

#: bytes of a tensor that are worked on at a time where a rule needs a temporary: small enough for a core's own cache,
#: large enough to make NumPy's calls cheap
BLOCK = 1 << 18
_ndarray = np.ndarray


class _Declined(Exception):
    """Raised for an operand that the general way must look at."""


def _plain(x: Any, target: Array) -> Any:
    """An operand as NumPy takes it: an array of the target's dtype, or a number that its dtype can hold."""
    kind = type(x)
    if kind is float or kind is int:
        if kind is float and target.dtype.kind != "f":
            raise _Declined
        if target.dtype.char in HALF_CHARS and (kind is float or abs(x) > 256):  # NumPy would round the number first
            raise _Declined
        return x
    if not isinstance(x, TapedArray):
        raise _Declined
    if mode.enabled and (x._needs or (x._base is not None and x._base._needs)):
        raise _Declined
    array = x._data
    if array.dtype is not target.dtype:
        raise _Declined
    return array


def update(name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do `target.name_(*args, **kwargs)` in place; returns target, or NotImplemented (and has written nothing)."""
    rule = _RULES.get(name)
    if rule is None or not isinstance(target, TapedArray):
        return NotImplemented
    if mode.enabled and (target._needs or target._origin is not None
                         or (target._base is not None and target._base._needs)):
        return NotImplemented
    storage = target._storage
    if storage is not None and storage.inference and not mode.inference:
        return NotImplemented
    array = target._data
    if type(array) is not _ndarray or array.dtype.kind not in "fiu" or array.dtype.char in BAREBONES_CHARS:
        return NotImplemented
    token = silence(SILENT)
    try:
        rule(array, *args, **kwargs)
    except (_Declined, TypeError, ValueError, OverflowError):  # NumPy refused: the general way says it in torch's words
        return NotImplemented
    finally:
        restore(token)
    if storage is None:
        storage = target._storage = Storage()
    storage.wrote(array)
    return target


# --- rules with a temporary ----------------------------------------------------------------------------------------


def _in_pieces(steps: Callable[..., Any], target: Array, *operands: Any) -> None:
    """Run `steps(target, *operands, scratch)`: at once, or piece by piece where that saves a large temporary.

    `steps` is pointwise and writes the target last; scratch is memory for a temporary, None where there is none yet.
    """
    if target.nbytes <= 2 * BLOCK or not target.flags.c_contiguous or not all(
            x.shape == target.shape and x.flags.c_contiguous and _apart(x, target) for x in operands):
        steps(target, *operands, None)
        return
    if not target.flags.writeable:
        raise _Declined
    length = BLOCK // target.itemsize
    rest = target.size % length
    lines = [x.reshape(-1) for x in (target, *operands)]
    scratch = np.empty(length, target.dtype)
    for parts in zip(*[line[:line.size - rest].reshape(-1, length) for line in lines], strict=True):
        steps(*parts, scratch)
    if rest:
        steps(*[line[-rest:] for line in lines], scratch[:rest])


def _apart(x: Array, target: Array) -> bool:
    """Whether each element of x is in memory of its own, or in that of the same element of the target."""
    return x is target or not np.may_share_memory(x, target) or x.ctypes.data == target.ctypes.data


def _array(x: Any, target: Array) -> Any:
    """A tensor operand as an array of the target's dtype."""
    x = _plain(x, target)
    if type(x) is not _ndarray:
        raise _Declined
    return x


def _number(x: Any, target: Array) -> Any:
    """A factor as NumPy takes it; tensors and NumPy's scalars are left to the general way."""
    if type(x) is not int and type(x) is not float:
        raise _Declined
    return _plain(x, target)


def _times(x: Any, factor: Any) -> Any:
    """x * factor, over x where it is memory (a 0-dim result is none)."""
    return np.multiply(x, factor, x) if type(x) is _ndarray else x * factor


def _scaled(ufunc: Any) -> Callable[..., Any]:
    """target = ufunc(target, alpha * other)."""
    def rule(target: Array, other: Any, *, alpha: Any = 1) -> None:
        alpha = _number(alpha, target)
        if alpha == 1:
            ufunc(target, _plain(other, target), target)
            return
        other = _array(other, target)
        if target.dtype.char in HALF_CHARS:  # rounded once
            raise _Declined

        def steps(t: Array, x: Array, scratch: Array | None) -> None:
            ufunc(t, np.multiply(x, alpha, scratch), t)

        _in_pieces(steps, target, other)

    return rule


def _with_pair(ufunc: Any) -> Callable[..., Any]:
    """target = target + value * ufunc(tensor1, tensor2)."""
    def rule(target: Array, tensor1: Any, tensor2: Any, *, value: Any = 1) -> None:
        if target.dtype.kind != "f" or target.itemsize < 4:
            raise _Declined
        a, b, value = _array(tensor1, target), _array(tensor2, target), _number(value, target)
        plain = value == 1

        def steps(t: Array, x: Array, y: Array, scratch: Array | None) -> None:
            z = ufunc(x, y, scratch)
            np.add(t, z if plain else _times(z, value), t)

        _in_pieces(steps, target, a, b)

    return rule


def _lerp(target: Array, end: Any, weight: Any) -> None:
    """target = target + weight * (end - target), from the nearer end, as the row `lerp`."""
    kind = target.dtype
    if kind.kind != "f" or kind.itemsize < 4:  # narrow floats: computed in a wider dtype
        raise _Declined
    end = _array(end, target)
    w = kind.type(_number(weight, target))
    near, rest = abs(w) < 0.5, kind.type(1) - w

    def steps(t: Array, x: Array, scratch: Array | None) -> None:
        between = np.subtract(x, t, scratch)
        if near:
            np.add(t, _times(between, w), t)
        else:
            np.subtract(x, _times(between, rest), t)

    _in_pieces(steps, target, end)


def _mean(square: bool) -> Callable[..., Any]:
    """target = keep * target + new * b, or b * b; as the rows `ema` and `ema_of_squares`."""
    def rule(target: Array, b: Any, keep: Any, new: Any) -> None:
        b, keep, new = _array(b, target), _number(keep, target), _number(new, target)
        _few(target)

        def steps(t: Array, x: Array, scratch: Array | None) -> None:
            z = np.multiply(x, x if square else new, scratch)
            np.add(np.multiply(t, keep, t), _times(z, new) if square else z, t)

        _in_pieces(steps, target, b)

    return rule


def _adam(target: Array, mean: Any, square: Any, shrink: Any, rate: Any, eps: Any) -> None:
    """target = shrink * target + mean / (sqrt(square) + eps) * rate, as the row `adam`."""
    m, v = _array(mean, target), _array(square, target)
    shrink, rate, eps = [_number(x, target) for x in (shrink, rate, eps)]
    _few(target)

    def steps(t: Array, x: Array, y: Array, scratch: Array | None) -> None:
        z = np.add(np.sqrt(y, scratch), eps, scratch)
        z = _times(np.divide(x, z, scratch), rate)
        np.add(np.multiply(t, shrink, t), z, t)

    _in_pieces(steps, target, m, v)


def _few(target: Array) -> None:
    """Decline what native code does in one pass, and what is computed in a wider dtype."""
    if target.size >= MANY or target.dtype.kind != "f" or target.itemsize < 4 or not target.ndim:
        raise _Declined


# --- rules without -------------------------------------------------------------------------------------------------


def _div(target: Array, other: Any, *, rounding_mode: None = None) -> None:
    if rounding_mode is not None or target.dtype.kind != "f":
        raise _Declined
    np.true_divide(target, _plain(other, target), target)


def _clamp(target: Array, min: Any = None, max: Any = None) -> None:
    if target.dtype.kind != "f" or (min is None and max is None):
        raise _Declined
    low, high = (None if b is None else float(_number(b, target)) for b in (min, max))
    if low is not None:
        np.maximum(target, low, out=target)
    if high is not None:
        np.minimum(target, high, out=target)


def _fill(target: Array, value: Any) -> None:
    value = _number(value, target)
    if not target.flags.writeable or not abs(value) < 1 << 63:  # perhaps more than it can hold
        raise _Declined
    target.fill(value)


def _copy(target: Array, src: Any, non_blocking: bool = False) -> None:
    source = _array(src, target)
    if not target.flags.writeable or source.ndim > target.ndim:  # of which NumPy drops leading axes of size one
        raise _Declined
    np.copyto(target, source, casting="no")


def _unary(ufunc: Any) -> Callable[..., Any]:
    def rule(target: Array) -> None:
        if target.dtype.kind != "f":
            raise _Declined
        ufunc(target, target)

    return rule


def _neg(target: Array) -> None:
    """Left to the general way where memory has gaps: NumPy 2.4 writes wrong numbers over such an operand."""
    if target.dtype.kind != "f" or not target.flags.c_contiguous:
        raise _Declined
    np.negative(target, target)


#: by the name of the library's function out of place
_RULES: dict[str, Callable[..., Any]] = {
    "add": _scaled(np.add), "sub": _scaled(np.subtract), "div": _div,
    "mul": lambda target, other: np.multiply(target, _plain(other, target), target),
    "addcmul": _with_pair(np.multiply), "addcdiv": _with_pair(np.true_divide), "lerp": _lerp,
    "ema": _mean(False), "ema_of_squares": _mean(True), "adam": _adam,
    "clamp": _clamp, "clamp_min": lambda target, min: _clamp(target, min),
    "clamp_max": lambda target, max: _clamp(target, None, max),
    "fill": _fill, "zero": lambda target: _fill(target, 0), "copy": _copy,
    "neg": _neg, "square": lambda target: np.multiply(target, target, target),
    "relu": lambda target: np.maximum(target, 0, out=target),
}
for _op in OPS.values():
    if _op.arity == 1 and _op.spec is specs.pointwise and isinstance(_op.impl, Ufunc):  # what the row itself runs
        _RULES.setdefault(_op.name, _unary(getattr(np, _op.impl.function)))

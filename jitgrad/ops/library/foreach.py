"""What optimizers call: torch's `_foreach_add` and kin, functions of each tensor in a list, and the step of Adam, which
writes what belongs to a parameter in three operations.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dtypes import dtype, float32
from jitgrad.ops.backend import backend
from jitgrad.ops.library.core import apply, as_operand, cast, named, write
from jitgrad.ops.library.elementary import abs as abs_of
from jitgrad.ops.library.elements.parts import view_as_real
from jitgrad.ops.library.reduce import max as largest, sum as sum_of, vector_norm
from jitgrad.ops.methods import Methods

__library__ = True

#: methods of tensors of which there is one for lists, out of place and in place
_BOTH = """abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac
lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan
tanh trunc"""
_ONE = {"clone": Methods.clone, "copy_": Methods.copy_, "zero_": Methods.zero_, "norm": vector_norm,
        "max": lambda x: largest(x), "mm": Methods.mm, "maximum_": Methods.clamp_min_, "minimum_": Methods.clamp_max_,
        "powsum": lambda x, ord=2, dtype=None: sum_of(abs_of(x) ** ord, dtype=dtype)}
#: torch's own names of what comes behind the tensors, where the method has others
_NAMES = {"tensors1": "end", "weights": "weight", "scalars": "value", "scalar": "other", "tensor": "other"}


def _for_each(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of each tensor; another list gives each its own argument, what is none is given to all."""
    def call(*args: Any, **kwargs: Any) -> Any:
        every = [*args, *kwargs.values()]
        lists = [a for a in every if isinstance(a, (list, tuple))]
        if not lists or not lists[0]:
            raise RuntimeError("Tensor list must have at least one tensor.")
        count = len(lists[0])
        for other in lists[1:]:
            if len(other) != count:
                raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(other)}")
        keys = [_NAMES.get(k, k) for k in kwargs]
        found = []
        for i in range(count):
            one = [a[i] if isinstance(a, (list, tuple)) else a for a in every]
            given = dict(zip(keys, one[len(args):], strict=True))
            found.append(fn(*_with_value(name, one[:len(args)], given), **given))
        return args[0] if name.endswith("_") else tuple(found)

    return named(call, f"_foreach_{name}", f"`{name}` of each tensor in a list.")


def _with_value(name: str, given: Sequence[Any], named_: dict[str, Any]) -> Sequence[Any]:
    """The arguments by position; the factor of `addcmul` and kin, which their method takes by name, goes there."""
    if name.startswith("addc") and len(given) == 4:
        named_["value"] = given[3]
        return given[:3]
    return given


def _in_place(name: str) -> Any:
    return getattr(Methods, name + "_")


_FUNCTIONS = {name: getattr(Methods, name) for name in _BOTH.split()}
_FUNCTIONS |= {f"{name}_": _in_place(name) for name in _BOTH.split() if hasattr(Methods, name + "_")}
_FUNCTIONS |= _ONE
globals().update({f"_foreach_{name}": _for_each(name, fn) for name, fn in _FUNCTIONS.items()})
globals()["__all__"] = [f"_foreach_{name}" for name in _FUNCTIONS]


def adam_(p: Any, grad: Any, mean: Any, square: Any, largest: Any, t: Any, rate: Any, betas: tuple[Any, Any], eps: Any,
          shrink: Any, decay: Any = None) -> None:
    """The t-th step of Adam's for a parameter, in place: `jitgrad.optim.Adam` says what it computes.

    Args:
        largest: the largest square so far, of amsgrad; None without it.
        rate: the learning rate, a number or a tensor of one element.
        shrink: by what the parameter is multiplied before.
        decay: how much of the parameter is added to the gradient; None: nothing.
    """
    keep1, keep2 = betas
    scale = (1 - keep2 ** t) ** 0.5  # of sqrt(v), moved to the other side of the quotient
    change, least = -rate * scale / (1 - keep1 ** t), eps * scale
    if decay is not None:
        grad = Methods.add(grad, p, alpha=decay)
    if p.dtype.is_complex:  # two real numbers each
        p, grad, mean, square = [view_as_real(x) for x in (p, grad, mean, square)]
        largest = None if largest is None else view_as_real(largest)
    d = p.dtype
    wide = float32 if d.is_half else d
    grad = cast(grad, wide)
    _written(mean, "ema", wide, grad, keep1, 1 - keep1)
    _written(square, "ema_of_squares", wide, grad, keep2, 1 - keep2)
    if largest is not None:
        _written(largest, "maximum", wide, square)
        square = largest
    _written(p, "adam", wide, mean, square, shrink, change, least)


def _written(target: Any, name: str, d: dtype, *operands: Any) -> None:
    """Write to `target` what an op gives of it and of operands, which it takes as `d`."""
    if backend().update(name, target, operands, {}) is NotImplemented:
        since = backend().mark(target)
        write(target, apply(name, *[as_operand(x, d) for x in (target, *operands)]), since)

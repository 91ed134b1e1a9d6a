"""What every library module uses: marking, numbers, promotion, in-place writes.

A library function normalises its arguments, promotes and casts, and ends in `backend().apply`. It may branch on ranks,
dtypes and static arguments, never on sizes or numbers, which are run-time values in a script.
"""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast as typed

import numpy as np

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops import OPS, autocast, specs
from jitgrad.ops.backend import AnyTensor, Batched, SymNumber, Tensor, backend
from jitgrad.ops.checks import C
from jitgrad.ops.library.calls.forms import ALIASES
from jitgrad.ops.library.sizes import require, require_equal, same_shape, text
from jitgrad.ops.opdef import POINTWISE

Number = bool | int | float | SymNumber
Scalar = Number | complex
#: what may stand where torch takes a tensor or a number
OPERAND: Any = (AnyTensor, int, float, complex, SymNumber, np.generic)

Fn = TypeVar("Fn", bound=Callable[..., Any])
First = TypeVar("First")
P = ParamSpec("P")
R = TypeVar("R")


def is_library(fn: Any) -> bool:
    """Whether the frontend calls `fn` with symbolic tensors instead of evaluating its source.

    A function is marked by `library`, or its module by `__library__ = True`, as those of this folder are.
    """
    fn = getattr(fn, "__func__", fn)
    return isinstance(fn, FunctionType) and ("__library__" in fn.__dict__ or "__library__" in fn.__globals__)


def library(fn: Fn) -> Fn:
    """Mark `fn`: see `is_library`."""
    fn.__library__ = True  # type: ignore[attr-defined]
    return fn


def named(fn: Fn, name: str, doc: str) -> Fn:
    """`library(fn)` of a function that was made for a name."""
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return library(fn)


def bind(fn: Callable[Concatenate[First, P], R], first: First, name: str, doc: str = "") -> Callable[P, R]:
    """`fn` with its first argument given: one of several library functions that differ in it alone.

    The signature is that of the others, and so are the types; complaints about arguments have the name.
    """
    assert isinstance(fn, FunctionType)
    own = FunctionType(fn.__code__, fn.__globals__, name, fn.__defaults__)
    own.__kwdefaults__, own.__qualname__ = fn.__kwdefaults__, name

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return own(first, *args, **kwargs)

    signature = inspect.signature(fn)
    call.__bound__ = (first,), own  # type: ignore[attr-defined]
    call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return named(call, name, doc or fn.__doc__ or "")


def composite(fn: Fn, short: bool = False) -> Fn:
    """`fn`, a function of tensors that is operations of the library alone, which eager may run as one:
    `Backend.composite`; a `short` one is so few that only many elements gain. Scripts know only of `fn`.
    """
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = backend().composite(fn, args, kwargs, short)
        return fn(*args, **kwargs) if result is NotImplemented else result

    return typed("Fn", call)


#: by which the functions that `composite` returns are known
COMPOSITE = composite(is_library).__code__


def apply(name: str, *operands: Any, **attrs: Any) -> Any:
    """Run or emit the op called `name`."""
    return backend().apply(OPS[name], operands, attrs)


def create(name: str, where: Any, **attrs: Any) -> Any:
    """Run or emit the op called `name`, which has no operands: a tensor on a device, or where another tensor is."""
    return backend().create(OPS[name], where, attrs)


def only_place(x: Any) -> Any:
    """The place of the one element of a tensor without axes: 0, where that tensor is."""
    return create("full", x, value=0, shape=(), dtype=dtypes.int64)


def whole(x: Any) -> Any:
    """The items of a batch as one tensor, for what is asked of them all; x itself where it is no item of one."""
    while isinstance(x, Batched):
        x = x.value
    return x


def alias(x: Any) -> Any:
    """What a view op returns that changes nothing: in eager a new view, in a script x itself."""
    return backend().alias(x)


# --- numbers and promotion -----------------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, AnyTensor)


#: of Python's numbers, as dtypes have them
CATEGORIES = {bool: dtypes.BOOL, int: dtypes.INTEGRAL, float: dtypes.FLOATING, complex: dtypes.COMPLEX}


def number_type(x: Any) -> type:
    """bool, int, float or complex: the kind of a Python, NumPy or symbolic number. TypeError for anything else."""
    kind = type(x)
    if kind in CATEGORIES:
        return kind
    if isinstance(x, SymNumber):
        return x.number_type
    if isinstance(x, (bool, np.bool_)):
        return bool
    if isinstance(x, (int, np.integer)):
        return int
    if isinstance(x, (float, np.floating)):
        return float
    if isinstance(x, (complex, np.complexfloating)):
        return complex
    raise TypeError(f"expected a Tensor or a number, got `{class_word(x)}`")


def result_dtype(*operands: Any) -> dtype:
    """torch's result dtype of tensors and numbers. TypeError for an operand that is neither."""
    d, category = None, 0
    for x in operands:  # the common case: tensors of one dtype, and numbers that it has
        if (kind := CATEGORIES.get(type(x), dtypes.COMPLEX)) < dtypes.COMPLEX or not isinstance(x, AnyTensor):
            category = kind if kind > category else category
        elif x.ndim and (d is None or x.dtype is d):
            d = x.dtype
        else:
            break
    else:
        if d is not None and category <= d.category:
            return d
    dimensioned: list[dtype] = []
    zero_dim: list[dtype] = []
    numbers: list[type] = []
    for x in operands:
        if isinstance(x, AnyTensor):
            (dimensioned if x.ndim else zero_dim).append(x.dtype)
        else:
            numbers.append(number_type(x))
    return dtypes.result_type(dimensioned, zero_dim, numbers)


def cast(x: Any, d: dtype) -> Any:
    """Tensor `x` as dtype `d`; x itself where it has it. RuntimeError for complex numbers as reals: see `converted`."""
    if x.dtype is d:
        return x
    if x.dtype.is_complex and not d.is_complex:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow: it is complex")
    return apply("cast", x, dtype=d)


def converted(x: Any, d: dtype) -> Any:
    """Tensor `x` as dtype `d` because the user says so: of complex numbers as reals the real parts, with a warning."""
    if x.dtype.is_complex and not d.is_complex and d is not dtypes.bool_:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3)
    return x if x.dtype is d else apply("cast", x, dtype=d)


def as_operand(x: Any, d: dtype) -> Any:
    """A tensor of dtype `d` from a tensor or a number."""
    if isinstance(x, AnyTensor):
        return cast(x, d)
    if number_type(x) is complex and not d.is_complex:
        if isinstance(x, SymNumber) or (x.imag != 0 and d is not dtypes.bool_):
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow")
        x = bool(x) if d is dtypes.bool_ else x.real
    return backend().lift(x.item() if isinstance(x, np.generic) else x, d)


#: between what a number must lie to be written to a dtype, and C++'s word for it; unsigned types wrap negative ones
_HOLDS = {**{d.name: (low if d.is_signed else -high, high, "int" if d is dtypes.int32 else f"{d.name}_t")
             for d in (*dtypes.INTEGERS, *dtypes.BAREBONES) for low, high in [dtypes.bounds(d)]},
          "float16": (-65504.0, 65504.0, "c10::Half"),
          "bfloat16": (-3.3895313892515355e38, 3.3895313892515355e38, "c10::BFloat16"),
          "float32": (-3.4028234663852886e38, 3.4028234663852886e38, "float")}


def written_operand(x: Any, d: dtype) -> Any:
    """A tensor of dtype `d` of what is written to one: of a number, or of a tensor that is cast.

    Raises RuntimeError, as torch does, for a number that `d` cannot hold; arithmetic, where numbers wrap, does not ask.
    """
    if type(x) is float and d.is_floating_point and -65504.0 <= x <= 65504.0:
        return backend().lift(x, d)
    if isinstance(x, AnyTensor):
        return cast(x, d)
    kind = number_type(x)
    if d.name in _HOLDS and kind is not bool and kind is not complex:
        low, high, word_ = _HOLDS[d.name]
        low = 0 if kind is float and not d.is_signed else low
        if not isinstance(x, SymNumber):
            if kind is int and not -(1 << 63) <= x < 1 << 64:
                raise OverflowError("int too big to convert")
            if not low <= x <= high and not (d.is_floating_point and (x != x or x in (math.inf, -math.inf))):
                raise RuntimeError(f"value cannot be converted to type {word_} without overflow")
        elif not d.is_floating_point and (kind is float or d.name != "int64"):
            number: Any = x
            for inside in (number >= low, number <= high):
                require(inside, RuntimeError, f"value cannot be converted to type {word_} without overflow")
    return as_operand(x, d)


def floating(d: dtype) -> dtype:
    """`d` if it is a floating-point or complex dtype, else the default one."""
    return d if d.is_inexact else dtypes.get_default_dtype()


def require_floating(name: str, d: dtype) -> dtype:
    """`d`, or torch's NotImplementedError where that is no floating-point dtype."""
    if not d.is_floating_point:
        raise NotImplementedError(f'"{name}_cpu" not implemented for \'{d.word}\'')
    return d


def pair_dtype(a: Any, b: Any) -> dtype:
    """`result_dtype` of two operands, with the common cases first."""
    if isinstance(a, AnyTensor):
        d: dtype = a.dtype
        if isinstance(b, AnyTensor):
            if b.dtype is d:
                return d
        elif (type(b) is float and d.category >= 2) or (type(b) is int and d.category):
            return d
    return result_dtype(a, b)


def pair(a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors or numbers as tensors of one dtype, that of their result; the common cases first."""
    if isinstance(a, AnyTensor) and isinstance(b, AnyTensor) and a.dtype is b.dtype:
        return a, b
    d = pair_dtype(a, b)
    return as_operand(a, d), as_operand(b, d)


def binary(name: str, a: Any, b: Any) -> Any:
    """The pointwise op `name` of two tensors or numbers, promoted as torch does."""
    return backend().apply(OPS[name], pair(a, b), {})


def pairwise(name: str, doc: str) -> Callable[[AnyTensor[Tensor], AnyTensor[Tensor] | Scalar], Tensor]:
    """The library function that is the pointwise op `name` of a tensor and another, or a number."""
    def fn(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar) -> Tensor:
        return binary(name, input, other)

    return named(fn, name, doc)


def between_tensors(name: str, doc: str) -> Callable[[AnyTensor[Tensor], AnyTensor[Tensor]], Tensor]:
    """Likewise of two tensors: a number is a TypeError."""
    def fn(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
        return binary(name, input, require_tensor(name, other, "other", 2))

    return named(fn, name, doc)


def require_broadcast(*operands: Any) -> tuple[Any, ...] | None:
    """The shape to which the tensors among the operands broadcast, or torch's RuntimeError; None of symbolic sizes."""
    shapes = [tuple(x.shape) for x in operands if isinstance(x, AnyTensor)]
    if not all(isinstance(n, int) for shape in shapes for n in shape):
        return None
    found: tuple[Any, ...] = ()
    for shape in shapes:
        C.broadcast(found, shape)
        found = specs.broadcast_shapes(found, shape)
    return found


def not_implemented(name: str, d: dtype, *operands: Any) -> NotImplementedError:
    """torch's error for a dtype that an op does not have; shapes that do not go together it finds first, and raises."""
    require_broadcast(*operands)
    return NotImplementedError(f'"{name}_cpu" not implemented for \'{d.word}\'')


def rounds(d: dtype, *operands: Any) -> bool:
    """Whether a number among the operands is not exact in the half type `d`: products take it as float32, as torch's.

    False for other dtypes. Of a number known only at run time it is unknown.
    """
    return d.is_half and any(not isinstance(x, AnyTensor) and not _is_exact(x, d) for x in operands)


def _is_exact(x: Any, d: dtype) -> bool:
    if isinstance(x, (SymNumber, complex)):
        return False
    with np.errstate(all="ignore"):
        return not math.isfinite(x) or float(np.asarray(x, np.float32).astype(d.np)) == x


def in_float32(fn: Callable[..., Any], d: dtype, *operands: Any, **numbers: Any) -> Any:
    """`fn` of operands of the half type `d` computed in float32 and rounded once."""
    wide = [cast(cast(x, d), dtypes.float32) if isinstance(x, AnyTensor) else x for x in operands]
    return cast(fn(*wide, **numbers), d)


def class_word(x: Any) -> str:
    """The name of an object's class in a message; another library's `Tensor` is not ours."""
    cls = x.number_type if isinstance(x, SymNumber) else type(x)
    return "Tensor" if isinstance(x, AnyTensor) else f"{cls.__module__}.Tensor" if cls.__name__ == "Tensor" else (
        cls.__name__)


def require_tensor(fn: str, x: Any, argument: str = "input", position: int = 1) -> Any:
    """`x`, or torch's TypeError for something that is no tensor."""
    if not isinstance(x, AnyTensor):
        raise TypeError(f"{fn}(): argument '{argument}' (position {position}) must be Tensor, not {class_word(x)}")
    return x


# --- writing -------------------------------------------------------------------------------------------------------


def expand_to(x: Any, shape: tuple[Any, ...]) -> Any:
    """`x` broadcast to `shape`; x itself where it has it."""
    return x if same_shape(x.shape, shape) else apply("expand", x, shape=tuple(shape))


def write(target: Any, value: Any, since: int | None = None) -> Any:
    """The end of an in-place op: `value`, computed out of place since then, goes where `target` is; returns target.

    Raises RuntimeError as torch does where value's dtype is of a higher category or its shape is another.
    """
    d, v = target.dtype, value.dtype
    if v is not d:
        if v.category > d.category:
            raise RuntimeError(f"result type {v.word} can't be cast to the desired output type {d.word}")
        value = cast(value, d)
    to, given = target.shape, value.shape
    if to is not given and not same_shape(to, given):
        def message() -> str:
            return f"output with shape {text(to)} doesn't match the broadcast shape {text(given)}"
        if len(to) != len(given):
            raise RuntimeError(message())
        for m, n in zip(given, to, strict=True):
            require_equal(m, n, message)
    return backend().assign(target, value, since)


def _named_input(name: str, kwargs: dict[str, Any]) -> Any:
    """Out of keywords, the tensor that an in-place function is to write to."""
    for alias in ("input", *ALIASES["input"]):
        if alias in kwargs:
            return kwargs.pop(alias)
    raise TypeError(f'{name}_() missing 1 required positional arguments: "input"')


#: torch's words for memory that is read where it is written, in another order
SHARED = ("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
          "location. Please clone() the tensor before performing the operation.")


def require_castable(operands: Sequence[Any], targets: Sequence[Any], what: str = "",
                     error: type[Exception] = RuntimeError) -> None:
    """`error`, with words for the operands, where what they promote to cannot be written to a target."""
    given = [x for x in operands if isinstance(x, OPERAND)]
    for t in targets if given else ():
        d = result_dtype(*given)
        if d.category > t.dtype.category:
            raise error(f"{what or 'result type ' + d.word} can't be cast to the desired output type {t.dtype.word}")


def require_taken(name: str, target: Any, operands: Sequence[Any], broadcasts: bool = False) -> None:
    """What torch asks of a write before it looks for a kernel: that the target may be written, types, shapes."""
    backend().require_writable(target)
    op = OPS.get(name)
    arity = (op.arity or 0) if op and (op.kind is POINTWISE or op.spec is specs.pointwise) else 2 * broadcasts + 1
    if arity < 2:
        return
    given = [target, *(x for x in operands if isinstance(x, OPERAND if arity == 2 else AnyTensor))]
    if op is None or op.spec is not specs.predicate:  # bools can be written anywhere
        require_castable(given, (target,))
    shape = require_broadcast(*given)
    if shape is not None and not same_shape(shape, target.shape):
        raise RuntimeError(f"output with shape {text(target.shape)} doesn't match the broadcast shape {text(shape)}")


def _is_before_memory(error: Exception, x: Any, what: str) -> bool:
    """Whether torch names a fault before one of x's memory: of its "axis", of "sizes" (not of bounds) too, or "all"."""
    said, ends = str(error), f"[{-(x.ndim or 1)}, {(x.ndim or 1) - 1}], but got"
    return what == "all" or ends in said or (what == "sizes" and " is out of bounds for dim" not in said)


def inplace(fn: Fn, apart: bool = False, broadcasts: bool = False, first: str = "axis") -> Fn:
    """The in-place version of a library function: `add_` from `add`. Same signature; returns its first argument.

    With `apart` (writes at indices) an operand in that memory is an error. `first`: see `_is_before_memory`.
    """
    name = fn.__name__

    def in_place(input: Any = None, *args: Any, **kwargs: Any) -> Any:
        if input is None:
            input = _named_input(name, kwargs)
        if backend().update(name, input, args, kwargs) is not NotImplemented:
            return input
        since = backend().mark(input, fn, args, kwargs)
        try:
            if autocast.mode.low is None:
                value = fn(input, *args, **kwargs)
            else:
                with autocast.suspended():
                    value = fn(input, *args, **kwargs)
        except NotImplementedError:
            require_taken(getattr(fn, "__op__", name), input, (*args, *kwargs.values()), broadcasts)
            raise
        except (IndexError, RuntimeError, ValueError) as error:
            backend().require_writable(input, memory=not _is_before_memory(error, input, first))
            raise
        if apart and not backend().apart(input, [x for x in (*args, *kwargs.values()) if isinstance(x, AnyTensor)]):
            raise RuntimeError(SHARED)
        return write(input, value, since)

    return named(in_place, name + "_", f"In-place version of `{name}`.")  # type: ignore[return-value]


def reshaped_in_place(fn: Fn) -> Fn:
    """The in-place version of a view: the tensor itself gets the view's shape, on the same memory; returns it."""
    def in_place(input: Any, *args: Any, **kwargs: Any) -> Any:
        return backend().become(input, lambda: fn(input, *args, **kwargs))

    return named(in_place, fn.__name__ + "_", f"In-place version of `{fn.__name__}`.")  # type: ignore[return-value]

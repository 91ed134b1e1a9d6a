"""Tensors from sizes, numbers and data."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad import dtypes
from jitgrad.device import CPU, device as Device, resolve
from jitgrad.dtypes import bool_, dtype, float64, int32, int64
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, backend, own
from jitgrad.ops.library.core import (Number, alias, apply, as_operand, bind, cast, class_word, create, expand_to,
                                      is_tensor, named, not_implemented, number_type)
from jitgrad.ops.library.elements.filling import repeatable, wrapped
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import clone
from jitgrad.ops.library.sizes import Size, ceil_div, maximum, new_size, require, size_of

__library__ = True


def _leaf(x: Any, requires_grad: bool) -> Any:
    return x.requires_grad_() if requires_grad else x


def _near(input: Any, device: Any) -> Any:
    """Where a tensor like `input` goes: where it is, unless a device is named."""
    return input if device is None else resolve(device)


# --- constants -----------------------------------------------------------------------------------------------------


def _constant(name: str, value: Any, doc: str) -> Callable[..., Any]:
    def fn(*size: Any, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False, memory_format: Any = None, layout: Any = None) -> Any:
        return _leaf(create("full", resolve(device), value=value, shape=new_size(size),
                            dtype=dtypes.given(dtype)), requires_grad)

    return named(fn, name, doc)


zeros = _constant("zeros", 0, "Zeros of a size given as ints or a tuple.")
ones = _constant("ones", 1, "Ones of a size given as ints or a tuple.")
empty = _constant("empty", 0, "A tensor whose contents are unspecified (zeros here, so that runs repeat).")


def full(size: Any, fill_value: Any, *, dtype: dtype | None = None, device: Any = None,
         requires_grad: bool = False) -> Any:
    """A number repeated; without dtype that of the number."""
    d = dtypes.given(dtype, fill_value.dtype if isinstance(fill_value, AnyTensor) else (
        dtypes.of_number(number_type(fill_value))))
    return _leaf(_filled(fill_value, new_size((size,)), d, resolve(device)), requires_grad)


def _filled(value: Any, sizes: tuple[Any, ...], d: dtype, where: Any) -> Any:
    if isinstance(value, (SymNumber, AnyTensor)):
        there = where if isinstance(where, Device) else where.device
        return backend().move(clone(expand_to(repeatable(value, d, sizes), sizes)), there)
    repeatable(value, d, sizes)
    return create("full", where, value=wrapped(value, d), shape=sizes, dtype=d)


def _constant_like(value: int, input: AnyTensor[Tensor], *, dtype: dtype | None = None, device: Any = None,
                   requires_grad: bool = False, memory_format: Any = None, layout: Any = None) -> Tensor:
    return _leaf(create("full", _near(input, device), value=value, shape=tuple(input.shape),
                        dtype=dtypes.given(dtype, input.dtype)), requires_grad)


zeros_like = bind(_constant_like, 0, "zeros_like", "Zeros of input's shape and dtype.")
ones_like = bind(_constant_like, 1, "ones_like", "Ones of input's shape and dtype.")
empty_like = bind(_constant_like, 0, "empty_like", "An uninitialised tensor of input's shape and dtype (zeros here).")


def full_like(input: AnyTensor[Tensor], fill_value: Any, *, dtype: dtype | None = None, device: Any = None,
              requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """A number repeated to input's shape, in its dtype."""
    d = dtypes.given(dtype, input.dtype)
    return _leaf(_filled(fill_value, tuple(input.shape), d, _near(input, device)), requires_grad)


def _new(value: int, input: AnyTensor[Tensor], *size: Any, dtype: dtype | None = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:
    return _leaf(create("full", _near(input, device), value=value, shape=new_size(size),
                        dtype=dtypes.given(dtype, input.dtype)), requires_grad)


new_zeros = bind(_new, 0, "new_zeros", "Zeros of another size in input's dtype.")
new_ones = bind(_new, 1, "new_ones", "Ones of another size in input's dtype.")
new_empty = bind(_new, 0, "new_empty", "An uninitialised tensor of another size in input's dtype (zeros here).")


def new_full(input: AnyTensor[Tensor], size: Any, fill_value: Any, *, dtype: dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:
    """A number repeated to another size in input's dtype."""
    d = dtypes.given(dtype, input.dtype)
    return _leaf(_filled(fill_value, new_size((size,)), d, _near(input, device)), requires_grad)


def new_tensor(input: AnyTensor[Tensor], data: Any, *, dtype: dtype | None = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:
    """A tensor of data in input's dtype."""
    return tensor(data, dtype=dtypes.given(dtype, input.dtype),
                  device=input.device if device is None else device, requires_grad=requires_grad)


# --- ranges --------------------------------------------------------------------------------------------------------


def _length(start: Any, end: Any, step: Any, kinds: list[type]) -> Any:
    """How many values there are from start to before end."""
    if float not in kinds:
        positive = end - start if isinstance(step, int) and step > 0 else None
        if positive is not None:
            return maximum(ceil_div(positive, step), 0)
        if isinstance(step, int):
            return maximum(ceil_div(start - end, -step), 0)
    if not any(isinstance(v, SymNumber) for v in (start, end, step)):
        return math.ceil((end - start) / step)
    low, high, by = (as_operand(v, float64) for v in (start, end, step))
    count = apply("ceil", apply("div", apply("sub", high, low), by))
    return backend().item(cast(count, int64))


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: dtype | None = None, device: Any = None,
           requires_grad: bool = False) -> Any:
    """start, start + step, ... before end; `arange(end)` starts at 0. Integers give int64, floats the default dtype."""
    if end is None:
        start, end = 0, start
    start, end, step = (backend().item(v) if is_tensor(v) else v for v in (start, end, step))
    kinds = [number_type(v) for v in (start, end, step)]
    require(step != 0, RuntimeError, "step must be nonzero")
    require((end - start) * step >= 0, RuntimeError,
            "upper bound and lower bound inconsistent with step sign")
    d = dtypes.given(dtype, dtypes.get_default_dtype() if float in kinds else int64)
    if d.is_barebones or d.is_complex or d is dtypes.bool_:
        raise not_implemented("arange", d)
    length = _length(start, end, step, kinds)
    wide = d if not d.is_floating_point else (float64 if float in kinds else d)
    x = create("arange", resolve(device), length=length, dtype=wide)
    if not isinstance(step, int) or step != 1:
        x = apply("mul", x, as_operand(step, wide))
    if not isinstance(start, int) or start != 0:
        x = apply("add", x, as_operand(start, wide))
    return _leaf(cast(x, d), requires_grad)


def linspace(start: Any, end: Any, steps: Any, *, dtype: dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Any:
    """`steps` values from start to end, both included, equally far apart."""
    steps = size_of(steps)
    require(steps >= 0, RuntimeError, "number of steps must be non-negative")
    d = dtypes.given(dtype)
    if d is bool_:
        raise not_implemented("linspace", d)
    low, high = as_operand(start, float64), as_operand(end, float64)
    i = create("arange", resolve(device), length=steps, dtype=float64)
    last = as_operand(maximum(steps - 1, 1), float64)
    width = apply("div", apply("sub", high, low), last)
    rising = apply("add", low, apply("mul", i, width))
    falling = apply("sub", high, apply("mul", apply("sub", last, i), width))
    nearer_low = apply("lt", i, apply("div", as_operand(steps, float64), as_operand(2, float64)))
    values = apply("where", apply("logical_or", nearer_low, apply("eq", as_operand(steps, float64),
                                                                  as_operand(1, float64))), rising, falling)
    return _leaf(cast(values, d), requires_grad)


def logspace(start: Any, end: Any, steps: Any, base: Number = 10.0, *, dtype: dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Any:
    """base to the powers `linspace(start, end, steps)`."""
    d = dtypes.given(dtype)
    if d is bool_:
        raise not_implemented("logspace", d)
    powers = linspace(start, end, steps, dtype=float64, device=device)
    return _leaf(cast(apply("pow", as_operand(base, float64), powers), d), requires_grad)


def eye(n: Any, m: Any = None, *, dtype: dtype | None = None, device: Any = None,
        requires_grad: bool = False) -> Any:
    """Ones on the diagonal of an n x m matrix (n x n without m)."""
    where, sizes = resolve(device), (size_of(n), size_of(n if m is None else m))
    for name, size in zip("nm", sizes, strict=True):
        require(size >= 0, RuntimeError, f"{name} must be greater or equal to 0, got ", size)
    rows = apply("unsqueeze", create("arange", where, length=sizes[0], dtype=int64), axis=1)
    columns = create("arange", where, length=sizes[1], dtype=int64)
    return _leaf(cast(apply("eq", rows, columns), dtypes.given(dtype)), requires_grad)


def _triangle_indices(comparison: str, row: Any, col: Any, offset: int = 0, *, dtype: dtype = int64,
                      device: Any = None) -> Any:
    where, dtype = resolve(device), dtypes.given(dtype, int64)
    if dtype not in (int64, int32):
        name = "tril_indices" if comparison == "le" else "triu_indices"
        raise NotImplementedError(f'"{name}" not implemented for \'{dtype.word}\'')
    for name, size in (("row", row), ("col", col)):
        require(size >= 0, RuntimeError, f"{name} must be non-negative, got", size)
    rows = apply("unsqueeze", create("arange", where, length=size_of(row), dtype=int64), axis=1)
    columns = create("arange", where, length=size_of(col), dtype=int64)
    inside = apply(comparison, apply("sub", columns, rows), as_operand(offset, int64))
    return own(cast(apply("permute", apply("nonzero", inside), axes=(1, 0)), dtype))


tril_indices = bind(_triangle_indices, "le", "tril_indices", "Rows and columns of the lower triangle, (2, n).")
triu_indices = bind(_triangle_indices, "ge", "triu_indices", "Rows and columns of the upper triangle, (2, n).")

# --- data ----------------------------------------------------------------------------------------------------------


def tensor(data: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Any:
    """A new leaf that copies data: numbers, nested lists, arrays. Python floats get the default dtype, ints int64."""
    if isinstance(data, AnyTensor):
        copied = clone(cast(data, dtypes.given(dtype, data.dtype))).detach()
        return _leaf(copied if device is None else backend().move(copied, resolve(device)), requires_grad)
    asked = None if dtype is None else dtypes.given(dtype)
    return _leaf(backend().from_data(data, asked, resolve(device)), requires_grad)


class TensorType(type):
    """torch.FloatTensor and kin: called with data, or sizes (zeros); tensors of their dtype on the CPU are instances.

    Attributes:
        make: what calls do, a function of the library.
    """

    dtype: dtype
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, obj: Any) -> bool:
        return isinstance(obj, AnyTensor) and obj.dtype is cls.dtype and not obj.is_cuda


def made_of(*args: Any, size: Any = None) -> Any:
    """`Tensor(2, 3)`: zeros of the default dtype; `Tensor(data)`: data in it; `Tensor(x)`: the tensor x, a view."""
    return _made(None, args, size)


def _made(d: dtype | None, args: tuple[Any, ...], size: Any) -> Any:
    """What a class of tensors, of a dtype or of all, makes of sizes or data. TypeError for anything else."""
    found = dtypes.given(d)
    if size is not None or not args or (len(args) == 1 and isinstance(args[0], Size)):
        args = tuple(args[0] if args else (0,) if size is None else size)
    elif isinstance(args[0], AnyTensor) and len(args) == 1:
        if d is not None and args[0].dtype is not d:
            raise TypeError(f"expected a tensor of dtype {d.name}, got {args[0].dtype.name}")
        return alias(args[0])
    elif not isinstance(args[0], (int, SymNumber)) or isinstance(args[0], bool):
        if len(args) > 1 or args[0] is None or isinstance(args[0], (bool, float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {class_word(args[0])})")
        return tensor(args[0], dtype=found)
    return create("full", CPU, value=0, shape=new_size((args,)), dtype=found)


def _typed(name: str, d: dtype) -> Any:
    def make(*args: Any, size: Any = None) -> Any:
        return _made(d, args, size)

    doc = f"{d.name} tensors from data, or of a size (zeros); the type of those on the CPU."
    return TensorType(name, (), {"__module__": "torch", "__doc__": doc, "dtype": d,
                                 "make": staticmethod(named(make, name, doc))})


FloatTensor, DoubleTensor = _typed("FloatTensor", dtypes.float32), _typed("DoubleTensor", dtypes.float64)
HalfTensor, LongTensor = _typed("HalfTensor", dtypes.float16), _typed("LongTensor", dtypes.int64)
IntTensor, ShortTensor = _typed("IntTensor", dtypes.int32), _typed("ShortTensor", dtypes.int16)
CharTensor, ByteTensor = _typed("CharTensor", dtypes.int8), _typed("ByteTensor", dtypes.uint8)
BoolTensor, BFloat16Tensor = _typed("BoolTensor", dtypes.bool_), _typed("BFloat16Tensor", dtypes.bfloat16)

complete(globals())

# `eager.factories` names those that are given no tensor
__all__ = ["empty_like", "full_like", "ones_like", "zeros_like"]

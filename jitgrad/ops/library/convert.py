"""Conversions between dtypes and devices, copies into memory, numbers out of tensors."""

import builtins
from collections.abc import Callable
from typing import Any

from jitgrad import dtypes
from jitgrad.device import CPU, device as Device, resolve
from jitgrad.dtypes import dtype
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import (OPERAND, Number, apply, as_operand, converted, create, expand_to, named,
                                      number_type, require_tensor, result_dtype)
from jitgrad.ops.library.elements.filling import repeatable
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import clone
from jitgrad.ops.library.sizes import axis, product, text

__library__ = True

# --- dtypes --------------------------------------------------------------------------------------------------------


def to(input: AnyTensor[Tensor], *args: Any, dtype: dtype | None = None, device: Any = None, copy: bool = False,
       non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Another dtype or device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`; itself if nothing changes.

    Raises RuntimeError for a device that is not there.
    """
    for a in args:
        if isinstance(a, (dtypes.dtype, type)):
            dtype = dtypes.given(a)
        elif isinstance(a, AnyTensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, (str, Device)) or (a is None and device is None) or type(a) is int:
            device = a
        elif isinstance(a, bool):
            continue  # non_blocking, copy
        else:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(a).__name__})")
    target = dtypes.given(dtype, input.dtype)
    if device is not None:
        there = resolve(device)
        if there != input.device:
            return converted(backend().move(input, there), target)
    return clone(input) if copy and target is input.dtype else converted(input, target)


def _conversion(name: str, d: dtype) -> Callable[[AnyTensor[Tensor]], Tensor]:
    def fn(input: AnyTensor[Tensor], memory_format: Any = None) -> Tensor:
        return converted(input, d)

    return named(fn, name, f"As {d.name}; itself where it is already.")


float_, double = _conversion("float", dtypes.float32), _conversion("double", dtypes.float64)
bfloat16 = _conversion("bfloat16", dtypes.bfloat16)
half, bool_ = _conversion("half", dtypes.float16), _conversion("bool", dtypes.bool_)
int_, long = _conversion("int", dtypes.int32), _conversion("long", dtypes.int64)
short, char = _conversion("short", dtypes.int16), _conversion("char", dtypes.int8)
byte = _conversion("byte", dtypes.uint8)
cfloat, cdouble = _conversion("cfloat", dtypes.complex64), _conversion("cdouble", dtypes.complex128)

_TYPE_NAMES = {f"{d.word}Tensor": d for d in dtypes.ALL}


def type_(input: AnyTensor[Tensor], dtype: Any = None, non_blocking: bool = False) -> Any:
    """Without an argument the type's name ("torch.FloatTensor"), else the tensor in that dtype."""
    if dtype is None:
        return f"torch.{'cuda.' if input.is_cuda else ''}{input.dtype.word}Tensor"
    if not isinstance(dtype, dtypes.dtype):
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        try:
            dtype = _TYPE_NAMES[name.rpartition(".")[2]]
        except KeyError:
            raise ValueError(f"invalid type: '{name}'") from None
    return converted(input, dtype)


def type_as(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """In other's dtype, where other is."""
    return to(input, other)


def cpu(input: AnyTensor[Tensor]) -> Tensor:
    """On the CPU; itself if it is there."""
    return backend().move(input, CPU)


def cuda(input: AnyTensor[Tensor], device: Any = None, non_blocking: bool = False) -> Tensor:
    """On a GPU, the current one if none is named; itself if it is there. RuntimeError where there is none."""
    return backend().move(input, resolve("cuda" if device is None else device))


def pin_memory(input: AnyTensor[Tensor], device: Any = None) -> Tensor:
    """A copy of a CPU tensor in memory that a GPU reads directly; itself if it is such. RuntimeError without a GPU."""
    return backend().pin(input)


def is_pinned(input: AnyTensor[Tensor], device: Any = None) -> bool:
    """Whether the tensor's memory is page-locked, for fast copies to a GPU."""
    return backend().is_pinned(input)


def result_type(tensor1: AnyTensor[Tensor] | Number, tensor2: AnyTensor[Tensor] | Number) -> dtype:
    """The dtype of an operation on two operands."""
    return result_dtype(tensor1, tensor2)


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of dtype from_ may be written to a tensor of dtype `to`."""
    return dtypes.given(from_).category <= dtypes.given(to).category


def is_floating_point(input: AnyTensor[Tensor]) -> bool:
    """Whether the dtype is floating-point."""
    return input.dtype.is_floating_point


def is_complex(input: AnyTensor[Tensor]) -> bool:
    """Whether the dtype is complex."""
    return input.dtype.is_complex


# --- sizes and numbers ---------------------------------------------------------------------------------------------


def numel(input: AnyTensor[Tensor]) -> int:
    """How many elements there are."""
    return product(require_tensor("numel", input).shape)


def size(input: AnyTensor[Tensor], dim: int | None = None) -> Any:
    """The shape, or one size of it."""
    return input.shape if dim is None else input.shape[axis(dim, input.ndim)]


def item(input: AnyTensor[Tensor]) -> Any:
    """The number in a one-element tensor. RuntimeError for more or fewer elements."""
    return backend().item(input)


def is_nonzero(input: AnyTensor[Tensor]) -> Any:
    """Whether the number in a one-element tensor is nonzero."""
    return backend().item(apply("ne", input, as_operand(0, input.dtype)) if input.dtype is not dtypes.bool_ else input)


# --- writing -------------------------------------------------------------------------------------------------------


def fill_(input: AnyTensor[Tensor], value: AnyTensor[Tensor] | Number) -> Tensor:
    """Overwrite with a number."""
    written = backend().update("fill", input, (value,), {})
    if written is not NotImplemented:
        return written
    if isinstance(value, AnyTensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    written = converted(value, input.dtype) if isinstance(value, AnyTensor) else (
        repeatable(value, input.dtype, input.shape))
    return backend().assign(input, expand_to(written, tuple(input.shape)))


def zero_(input: AnyTensor[Tensor]) -> Tensor:
    """Overwrite with zeros."""
    written = backend().update("zero", input, (), {})
    if written is not NotImplemented:
        return written
    return backend().assign(input, create("full", input, value=0, shape=tuple(input.shape), dtype=input.dtype))


#: in which dtype a number is before it is cast
_OF_NUMBERS = {builtins.bool: dtypes.bool_, builtins.int: dtypes.int64, builtins.float: dtypes.float64,
               builtins.complex: dtypes.complex128}


def copy_(input: AnyTensor[Tensor], src: AnyTensor[Tensor], non_blocking: bool = False) -> Tensor:
    """Overwrite with src, cast and broadcast."""
    written = backend().update("copy", input, (src,), {})
    if written is not NotImplemented:
        return written
    if not isinstance(src, AnyTensor) and isinstance(src, OPERAND):
        number: Any = src.real if isinstance(src, complex) and not input.dtype.is_complex else src
        src = as_operand(number, _OF_NUMBERS[number_type(number)])
    value = converted(require_tensor("copy_", src, "src", 1), input.dtype)
    if value.ndim > input.ndim:
        raise RuntimeError(f"output with shape {text(input.shape)} doesn't match the broadcast shape "
                           f"{text(value.shape)}")
    return backend().assign(input, expand_to(value, tuple(input.shape)))

complete(globals())

__all__ = ["can_cast", "is_complex", "is_floating_point", "is_nonzero", "numel", "result_type"]

"""Functions of tensors' memory that torch has beside the methods, and tensors of a layout of their own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import given
from jitgrad.eager.construct import wrap
from jitgrad.eager.factories import zeros
from jitgrad.eager.memory import in_order, sizes, span
from jitgrad.ops.library.keywords import complete


def empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> Any:
    """A tensor of these sizes and strides (zeros, so that runs repeat)."""
    shape, strides = sizes("empty_strided", "size", size), sizes("empty_strided", "stride", stride)
    need = span("empty_strided", shape, strides)
    grad = options.pop("requires_grad", False)
    made = zeros(need, **options).as_strided(shape, strides)
    return made.detach().requires_grad_() if grad else made.detach()


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Any:
    """A tensor whose axes lie in memory in the order given, that of the largest stride first."""
    shape, order = (sizes("empty_permuted", "size", size),
                    sizes("empty_permuted", "physical_layout", physical_layout))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError("Number of dimensions in size does not match the length of the physical_layout" if len(order)
                           != len(shape) else "Duplicate dim not allowed")
    dense = in_order(tuple([shape[k] for k in order]))
    return empty_strided(shape, tuple([dense[order.index(k)] for k in range(len(shape))]), **options)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A vector on the memory of an object with the buffer protocol."""
    made: Any = wrap(np.frombuffer(buffer, given(dtype).np, count, offset))
    return made.requires_grad_() if requires_grad else made


def as_strided(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """`Tensor.as_strided`."""
    return input.as_strided(size, stride, storage_offset)


def as_strided_(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """`Tensor.as_strided_`."""
    return input.as_strided_(size, stride, storage_offset)


def as_strided_scatter(input: Any, src: Any, size: Sequence[int], stride: Sequence[int],
                       storage_offset: int | None = None) -> Any:
    """`Tensor.as_strided_scatter`."""
    return input.as_strided_scatter(src, size, stride, storage_offset)


def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """`Tensor.resize_as_`."""
    return input.resize_as_(the_template)


def detach_(input: Any) -> Any:
    """`Tensor.detach_`."""
    return input.detach_()


def is_inference(input: Any) -> bool:
    """`Tensor.is_inference`."""
    found: bool = input.is_inference()
    return found


def get_device(input: Any) -> int:
    """`Tensor.get_device`."""
    found: int = input.get_device()
    return found


complete(globals())


__all__ = ["as_strided", "as_strided_", "as_strided_scatter", "detach_", "empty_permuted", "empty_strided",
           "frombuffer", "get_device", "is_inference", "resize_as_"]

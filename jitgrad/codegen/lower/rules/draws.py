"""Random draws inside kernels: each element computes its own words from its number, the seed and the offset.

So the kernel that applies a dropout mask draws it. The numbers are those of `jitgrad/random.py`, bit for bit.
"""

from collections.abc import Callable, Sequence

from jitgrad.codegen.lower.kernels import KernelBuilder
from jitgrad.codegen.program.access import IndexMap, contiguous_strides
from jitgrad.codegen.program.kernel import RANDOM_WORD, Stmt
from jitgrad.dims import Size
from jitgrad.dtypes import dtype, float32, float64, int32, int64
from jitgrad.script.graph.ir import Node, Value


def draw(builder: KernelBuilder, node: Node, shape: Sequence[Size], entries: IndexMap, axes: Sequence[int],
         number: Callable[[Size], Value]) -> int:
    """The statement with the draw's element at `entries` (see `access`); `number` gives the value of a size."""
    index: int | None = None
    for (axis, factor, shift), stride in zip(entries, contiguous_strides(shape), strict=True):
        if axis >= 0:
            part = builder.affine((axis, factor * stride, shift * stride), axes, number)
            index = part if index is None else builder.add(Stmt("add", (index, part), int64))
    if index is None:
        index = builder.const(0, int64)
    seed, offset = (builder.scalar(v, int64) for v in node.inputs)

    def word(place: int) -> int:
        return builder.add(Stmt(RANDOM_WORD, (place, seed, offset), int64))

    if node.op == "random.bits":
        return word(index)
    d: dtype = node.attrs["dtype"]
    if d is float64:  # the upper 53 of 64 bits
        first = builder.add(Stmt("mul", (index, builder.const(2, int64)), int64))
        second = builder.add(Stmt("add", (first, builder.const(1, int64)), int64))
        high = builder.add(Stmt("bitwise_left_shift", (word(first), builder.const(21, int64)), int64))
        low = builder.add(Stmt("bitwise_right_shift", (word(second), builder.const(11, int64)), int64))
        bits = builder.add(Stmt("bitwise_or", (high, low), int64))
        return builder.add(Stmt("mul", (builder.add(Stmt("cast", (bits,), d)), builder.const(2.0 ** -53, d)), d))
    upper = builder.add(Stmt("bitwise_right_shift", (word(index), builder.const(8, int64)), int64))
    small = builder.add(Stmt("cast", (upper,), int32))  # the quicker conversion
    single = builder.add(Stmt("cast", (small,), float32))
    value = builder.add(Stmt("mul", (single, builder.const(2.0 ** -24, float32)), float32))
    return builder.add(Stmt("cast", (value,), d)) if d.is_half else value

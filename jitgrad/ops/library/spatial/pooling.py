"""Pooling in torch's signatures: maxima, means and norms over windows of the last axes."""

from collections.abc import Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import int64
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.classes import require_kernel
from jitgrad.ops.library.core import apply, as_operand, bind, cast, create, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.pointwise import div, pow
from jitgrad.ops.library.sizes import (axis as axis_of, ceil_div, is_empty, maximum, minimum, per_axis, product,
                                       require, text)

__library__ = True

Sizes = int | Sequence[int]
_WORDS = {1: "one", 2: "two", 3: "three"}


class _Pool:
    """The arguments of a pooling function over `rank` axes, checked, and the input as (N, C, *spatial)."""

    def __init__(self, fn: str, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: bool):
        require_tensor(fn, input)
        self.fn, self.rank, self.ceil = fn, rank, bool(ceil_mode)
        self.kernel = self._sizes("kernel_size", kernel_size)
        no_stride = stride is None or (isinstance(stride, (tuple, list)) and not stride)
        self.stride = self.kernel if no_stride else self._sizes("stride", stride)
        self.padding, self.dilation = self._sizes("padding", padding), self._sizes("dilation", dilation)
        if any(s <= 0 for s in self.stride):
            raise RuntimeError("stride should not be zero")
        if any(k <= 0 for k in self.kernel):
            raise RuntimeError(f"{fn}: kernel_size must be greater than zero, but got {text(self.kernel)}")
        if any(d <= 0 for d in self.dilation):
            told = " ".join([f"dilation{letter}: {d}" for letter, d in zip("DHW"[3 - rank:], self.dilation,
                                                                           strict=True)])
            raise RuntimeError(f"dilation should be greater than zero, but got {told}")
        if input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")
        for n in tuple(input.shape)[-rank - 1:]:
            require(n != 0, RuntimeError, f"{fn}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with "
                    f"optional 0 dim batch size for input, but got: {text(input.shape)}")
        for k, p, d in zip(self.kernel, self.padding, self.dilation, strict=True):
            if p < 0:
                raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
            if p > ((k - 1) * d + 1) // 2:
                raise RuntimeError("pad should be at most half of effective kernel size, but got "
                                   f"pad={p}, kernel_size={k} and dilation={d}")
        self.batched = input.ndim == rank + 2
        self.x = input if self.batched else apply("unsqueeze", input, axis=0)
        self.spatial = tuple(self.x.shape)[2:]
        self.shape = tuple([self._count(*each) for each in zip(
            self.spatial, self.kernel, self.stride, self.padding, self.dilation, strict=True)])
        for m in self.shape:
            require(m >= 1, RuntimeError, *self._too_small())

    def _sizes(self, name: str, value: Any) -> tuple[int, ...]:
        found = per_axis(value, self.rank)
        if len(found) != self.rank:
            a = f"a tuple of {_WORDS[self.rank]} ints"
            raise RuntimeError(f"{self.fn}: {name} must either be a single int, or {a}")
        return found

    def _count(self, n: Any, k: int, s: int, p: int, d: int) -> Any:
        """How many windows an axis has; with ceil_mode also one that only begins inside."""
        room = n + (2 * p - d * (k - 1) - 1)
        if not self.ceil:
            return room // s + 1
        return minimum((room + (s - 1)) // s + 1, ceil_div(n + p, s))

    def _too_small(self) -> list[Any]:
        parts: list[Any] = ["Given input size: ("]
        before = [1] * (2 - self.rank)
        for sizes, words in ((self.spatial, "). Calculated output size: ("),
                             (self.shape, "). Output size is too small")):
            parts.append(self.x.shape[1])
            for s in (*before, *sizes):
                parts += ["x", s]
            parts.append(words)
        return parts

    def finish(self, y: Any) -> Any:
        return y if self.batched else own(apply("squeeze", y, axis=0))


def _wide(rank: int, input: Any) -> Any:
    """What autocast on the CPU computes in float32 for volumes only."""
    return widen(input, "cpu") if rank == 3 else input


# --- maxima --------------------------------------------------------------------------------------------------------


def _max_pool(rank: int, input: AnyTensor[Tensor], kernel_size: Sizes, stride: Sizes | None = None,
              padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window of (N, C, L) or (C, L); with return_indices also where each was.

    Raises RuntimeError in torch's words for sizes that do not fit.
    """
    fn = f"max_pool{rank}d"
    p = _Pool(fn, rank, _wide(rank, input), kernel_size, stride, padding, dilation, ceil_mode)
    if not p.x.dtype.is_floating_point and ((rank == 1 and not return_indices) or p.x.dtype is dtypes.bool_):
        raise NotImplementedError(f"\"{fn}\" not implemented for '{p.x.dtype.word}'")
    values, indices = apply("max_pool", p.x, kernel=p.kernel, stride=p.stride, padding=p.padding, dilation=p.dilation,
                            shape=p.shape)
    return (p.finish(values), p.finish(indices)) if return_indices else p.finish(values)


max_pool1d = bind(_max_pool, 1, "max_pool1d")
max_pool2d = bind(_max_pool, 2, "max_pool2d",
                  "`max_pool1d` over two axes; an index counts through the plane, row by row.")
max_pool3d = bind(_max_pool, 3, "max_pool3d", "`max_pool1d` over three axes.")

# --- sums and means ------------------------------------------------------------------------------------------------


def _windows(p: _Pool, x: Any) -> Any:
    """x, padded with zeros, as (N, C, *windows, *kernel)."""
    ends = [(0, 0), (0, 0)]
    for n, m, k, s, before in zip(p.spatial, p.shape, p.kernel, p.stride, p.padding, strict=True):
        after: Any = before
        if p.ceil and s > 1:
            after = before + maximum((m - 1) * s + k - (n + 2 * before), 0)  # the last window may pass the end
        ends.append((before, after))
    if any(not (isinstance(e, int) and e == 0) for pair in ends for e in pair):
        x = apply("pad", x, pads=tuple(ends), value=0)
    for axis, (k, s, m) in enumerate(zip(p.kernel, p.stride, p.shape, strict=True), 2):
        x = apply("windows", x, axis=axis, size=k, step=s, dilation=1)
        if p.ceil:
            x = apply("slice", x, axis=axis, start=0, length=m, step=1)
    return x


def _sum(p: _Pool, x: Any) -> Any:
    axes = tuple(range(2 + p.rank, 2 + 2 * p.rank))
    return apply("sum", _windows(p, x), axes=axes, keepdim=False)


def _counts(p: _Pool, include_pad: bool, x: Any) -> Any:
    """How many elements each window holds, as a tensor that broadcasts over (N, C, *windows)."""
    total = None
    for axis, (n, m, k, s, before) in enumerate(zip(p.spatial, p.shape, p.kernel, p.stride, p.padding, strict=True)):
        start = create("arange", x, length=m, dtype=int64)
        start = apply("sub", apply("mul", start, as_operand(s, int64)), as_operand(before, int64))
        end = apply("add", start, as_operand(k, int64))
        if include_pad:
            last = as_operand(n + before, int64)
        else:
            last, start = as_operand(n, int64), apply("maximum", start, as_operand(0, int64))
        length = apply("sub", apply("minimum", end, last), start)
        length = apply("reshape", length, shape=(m, *(1,) * (p.rank - 1 - axis)))
        total = length if total is None else apply("mul", total, length)
    return cast(total, x.dtype)


def _avg_pool(rank: int, input: AnyTensor[Tensor], kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
              ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    fn = f"avg_pool{rank}d"
    if rank == 2:
        axis_of(-3, require_tensor(fn, input).ndim)
    p = _Pool(fn, rank, _wide(rank, input), kernel_size, stride, padding, 1, ceil_mode)
    x = p.x
    require_kernel(f"{fn}_out_frame", x, "int64", halves=rank < 3)
    if divisor_override is not None:
        require(divisor_override != 0, RuntimeError, "divisor must be not zero")
        divisor = as_operand(divisor_override, x.dtype)
    elif p.ceil or (any(p.padding) and not count_include_pad):
        divisor = _counts(p, bool(count_include_pad), x)
    else:
        divisor = as_operand(product(p.kernel), x.dtype)
    if x.dtype is int64:
        return p.finish(div(_sum(p, x), divisor, rounding_mode="trunc"))
    return p.finish(apply("div", _sum(p, x), divisor))


def avg_pool1d(input: AnyTensor[Tensor], kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """The mean of each window of (N, C, L) or (C, L); padding counts as zeros, or not at all."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


avg_pool2d = bind(_avg_pool, 2, "avg_pool2d",
                  "`avg_pool1d` over two axes; sums are divided by `divisor_override` if it is given.")
avg_pool3d = bind(_avg_pool, 3, "avg_pool3d",
                  "`avg_pool1d` over three axes; sums are divided by `divisor_override` if it is given.")


def _lp_pool(rank: int, input: AnyTensor[Tensor], norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
             ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window: the root of the mean of powers times the window's size, as torch has it."""
    means = _avg_pool(rank, pow(widen(input, "cuda"), norm_type), kernel_size, stride, 0, ceil_mode)
    sign, size = apply("sign", means), apply("relu", apply("abs", means))
    count = as_operand(product(per_axis(kernel_size, rank)), means.dtype)
    return pow(apply("mul", apply("mul", sign, size), count), 1.0 / norm_type)


lp_pool1d = bind(_lp_pool, 1, "lp_pool1d")
lp_pool2d = bind(_lp_pool, 2, "lp_pool2d", "`lp_pool1d` over two axes.")
lp_pool3d = bind(_lp_pool, 3, "lp_pool3d", "`lp_pool1d` over three axes.")

# --- columns -------------------------------------------------------------------------------------------------------


def _pair(name: str, value: Any) -> tuple[int, ...]:
    found = per_axis(value, 2)
    if len(found) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(found)}")
    return found


def unfold(input: AnyTensor[Tensor], kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
           stride: Sizes = 1) -> Tensor:
    """The windows of (N, C, H, W) as columns: (N, C * kH * kW, windows); without N where the input has none."""
    kernel, dilations, pads, strides = (_pair(*a) for a in (
        ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride)))
    require_tensor("unfold", input)
    axis_of(1, input.ndim)
    axis_of(2, input.ndim)
    if input.ndim not in (3, 4) or is_empty(input.shape[-3:]):
        raise RuntimeError("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
                           f"dimensions for input, but got: {text(input.shape)}")
    x = input if input.ndim == 4 else apply("unsqueeze", input, axis=0)
    counts = [(n + (2 * p - d * (k - 1) - 1)) // s + 1 for n, k, d, p, s in zip(
        tuple(x.shape)[2:], kernel, dilations, pads, strides, strict=True)]
    for m in counts:
        require(m >= 1, RuntimeError, "Given input with spatial size (", x.shape[2], ", ", x.shape[3],
                f"), kernel_size={kernel}, dilation={dilations}, padding={pads}, calculated shape of the array of "
                "sliding blocks as (", counts[0], ", ", counts[1], "), but its components must be at least one.")
    require_kernel("im2col_out_cpu", input, "bool", "complex64", "complex128")
    if any(pads):
        x = apply("pad", x, pads=((0, 0), (0, 0), *((p, p) for p in pads)), value=0)
    for a, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True), 2):
        x = apply("windows", x, axis=a, size=k, step=s, dilation=d)
    n, c = x.shape[0], x.shape[1]
    x = apply("permute", x, axes=(0, 1, 4, 5, 2, 3))
    y = apply("reshape", x, shape=(n, c * (kernel[0] * kernel[1]), counts[0] * counts[1]))
    return y if input.ndim == 4 else apply("squeeze", y, axis=0)


def fold(input: AnyTensor[Tensor], output_size: Any, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
         stride: Sizes = 1) -> Tensor:
    """The adjoint of `unfold`: columns added where they came from in (N, C, *output_size)."""
    kernel, dilations, pads, strides = (_pair(*a) for a in (
        ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride)))
    require_tensor("fold", input)
    if input.ndim not in (2, 3) or is_empty(input.shape[-2:]):
        raise RuntimeError("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
                           f"dimensions for input, but got: {text(input.shape)}")
    sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * 2
    x = input if input.ndim == 3 else apply("unsqueeze", input, axis=0)
    area = kernel[0] * kernel[1]
    require(x.shape[1] % area == 0, RuntimeError, "Expected size of input's dimension 1 to be divisible by the product "
            "of kernel_size, but got input.size(1)=", x.shape[1], f" and kernel_size={kernel}.")
    counts = [(n + (2 * p - d * (k - 1) - 1)) // s + 1 for n, k, d, p, s in zip(
        sizes, kernel, dilations, pads, strides, strict=True)]
    blocks = counts[0] * counts[1]
    require(x.shape[2] == blocks, RuntimeError, "Given output_size=(", sizes[0], ", ", sizes[1],
            f"), kernel_size={kernel}, dilation={dilations}, padding={pads}, stride={strides}, expected size of "
            "input's dimension 2 to match the calculated number of sliding blocks ", counts[0], " * ", counts[1], " = ",
            blocks, ", but got input.size(2)=", x.shape[2], ".")
    require_kernel("col2im_out_cpu", input, "bool", "complex64", "complex128")
    n, c = x.shape[0], x.shape[1] // area
    x = apply("reshape", x, shape=(n, c, *kernel, *counts))
    x = apply("permute", x, axes=(0, 1, 4, 5, 2, 3))  # (N, C, rows, columns, kH, kW)
    high, wide = (m + 2 * p for m, p in zip(sizes, pads, strict=True))
    rows = create("full", x, value=0, shape=(n, c, counts[0], wide, kernel[0]), dtype=x.dtype)
    rows = apply("windows_add", rows, x, axis=3, size=kernel[1],
                 step=strides[1], dilation=dilations[1])
    y = create("full", x, value=0, shape=(n, c, high, wide), dtype=x.dtype)
    y = apply("windows_add", y, rows, axis=2, size=kernel[0], step=strides[0], dilation=dilations[0])
    for axis, (m, p) in enumerate(zip(sizes, pads, strict=True), 2):
        if p:
            y = apply("slice", y, axis=axis, start=p, length=m, step=1)
    return own(y if input.ndim == 3 else apply("squeeze", y, axis=0))

complete(globals(), "torch", "torch.nn.functional")  # `Tensor.unfold` is another function

__all__ = ["avg_pool1d", "max_pool1d", "max_pool2d", "max_pool3d"]

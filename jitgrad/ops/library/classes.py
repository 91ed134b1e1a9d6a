"""What losses and layers need besides torch's own functions: class indices, per-channel vectors, trailing shapes."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import float32, int32, int64, uint8
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, create, not_implemented, require_broadcast,
                                      result_dtype, whole)
from jitgrad.ops.library.shapes.indexing import checked_indices
from jitgrad.ops.library.sizes import axis, is_empty, is_one, joined, one_axis, product, require, require_equal, text

__library__ = True


def reshaped(input: AnyTensor[Tensor], shape: Sequence[Any]) -> Tensor:
    """What only its maker has, in another shape: no view of it."""
    return own(apply("reshape", input, shape=tuple(shape)))


def require_class_weights(weight: AnyTensor[Tensor] | None, input: AnyTensor[Tensor]) -> None:
    """RuntimeError unless weights are one for each class of (C,) or (N, C, ...)."""
    if weight is None:
        return
    n, w = input.shape[min(input.ndim - 1, 1)], weight

    def message() -> str:
        return (f"weight tensor should be defined either for all {n} classes or no classes but got weight tensor of "
                f"shape: {text(w.shape)}")

    if w.ndim != 1:
        raise RuntimeError(message())
    require_equal(w.shape[0], n, message)


def require_indices(input: AnyTensor[Tensor]) -> None:
    """RuntimeError for indices of rows that are not int64 or int32."""
    if input.dtype not in (int64, int32):
        raise RuntimeError("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                           f"Int; but got torch.{input.dtype.word}Tensor instead")


def lookup(input: AnyTensor[Tensor], weight: AnyTensor[Tensor], error: type[Exception] = IndexError) -> Tensor:
    """Rows of weight at integer indices. `error` where they are out of range, RuntimeError for other dtypes."""
    require_indices(input)
    i = checked_indices(input, weight.shape[0], 0, negative=False, error=error)
    return apply("index", weight, i, axes=(0,))


def one_hot(tensor: AnyTensor[Tensor], n: Any) -> Tensor:
    """int64 with an axis of n classes more: 1 at the class, 0 elsewhere. RuntimeError for a class out of range."""
    i = checked_indices(tensor, n, 0, negative=False, error=RuntimeError)
    classes = create("arange", i, length=n, dtype=int64)
    return cast(apply("eq", apply("unsqueeze", i, axis=i.ndim), classes), int64)


def pick(input: AnyTensor[Tensor], classes: AnyTensor[Tensor], known: bool = False) -> Tensor:
    """input at the class of each place: (C,), (N, C) or (N, C, d1, ...) and (), (N,) or (N, d1, ...).

    `known`: each is one of the C.

    Raises IndexError: "Target 7 is out of bounds."; ValueError: other batch sizes; RuntimeError: other ranks.
    """
    require_batch(input, classes)
    axis = 0 if input.ndim == 1 else 1
    if classes.dtype is not int64 and (classes.dtype is not uint8 or input.ndim > 2):
        raise RuntimeError(f"expected scalar type Long but found {classes.dtype.word}")
    require_places(input, classes)
    i = cast(classes, int64)
    if not known:
        i = _valid(i, input.shape[axis])
    taken = apply("gather", input, apply("unsqueeze", i, axis=axis), axis=axis)
    return apply("squeeze", taken, axis=axis)


def require_places(input: AnyTensor[Tensor], classes: AnyTensor[Tensor]) -> None:
    """RuntimeError unless (C,), (N, C) or (N, C, d1, ...) goes with (), (N,) or (N, d1, ...)."""
    if classes.ndim != input.ndim - 1:
        raise RuntimeError(f"input of {input.ndim} axes goes with a target of {input.ndim - 1} axes, got one of "
                           f"{classes.ndim}")
    for n, m in zip(tuple(input.shape)[2:], tuple(classes.shape)[1:], strict=True) if input.ndim > 1 else ():
        require_equal(n, m, lambda: f"size mismatch (got input: {text(input.shape)}, target: {text(classes.shape)})")


def require_batch(input: AnyTensor[Tensor], classes: AnyTensor[Tensor]) -> None:
    """ValueError for an input without axes, or with several where the target has another first size."""
    if not input.ndim:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim == classes.ndim == 1:
        require_classes(classes)
        n = classes.shape[0]
        require(n == 1, ValueError, "For 1D input, 1D target must have size 1, but got target size: ", n)
    elif input.ndim > 1 and classes.ndim:
        n, m = input.shape[0], classes.shape[0]
        require_equal(n, m, lambda: f"Expected input batch_size ({n}) to match target batch_size ({m}).", ValueError)


def all_count(input: AnyTensor[Tensor], target: AnyTensor[Tensor], ignored: Any) -> bool:
    """Whether every target is known to be a class of the input's, and none the one that is ignored."""
    if type(ignored) is not int or ignored >= 0 or not input.ndim or target.dtype is not int64:
        return False
    return backend().in_range(target, input.shape[0 if input.ndim == 1 else 1])


def factors_of(weight: AnyTensor[Tensor], classes: AnyTensor[Tensor]) -> Tensor:
    """The factor of each place's class: (C,) and int64 of any shape, whose shape the result has."""
    return apply("index", weight, _valid(cast(classes, int64), weight.shape[0]), axes=(0,))


def _valid(i: Any, n: Any) -> Any:
    """Classes in [0, n). They may be none at all, so a 0 goes in front for the extremes."""
    if backend().in_range(i, n):
        return i
    expected = backend().expect_range(i, 0, n, IndexError, "Target ", " is out of bounds.")
    if expected is not None:
        return expected
    asked = whole(i)
    line = apply("pad", apply("reshape", asked, shape=(product(asked.shape),)), pads=((1, 0),), value=0)
    low, high = (backend().item(apply(name, line, axes=(0,), keepdim=False)) for name in ("amin", "amax"))
    require(low >= 0, IndexError, "Target ", low, " is out of bounds.")
    require(high < n, IndexError, "Target ", high, " is out of bounds.")
    return i


def along(vector: AnyTensor[Tensor], ndim: int, axis: int) -> Tensor:
    """A vector shaped to broadcast along one of ndim axes: weights of channels or classes."""
    return apply("reshape", vector, shape=tuple(vector.shape[0] if a == axis else 1 for a in range(ndim)))


def into(target: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Any:
    """The target's dtype, into which torch writes what it computes of both. RuntimeError where it cannot hold that."""
    d = result_dtype(target, other)
    if d.category > target.dtype.category:
        raise RuntimeError(f"result type {d.word} can't be cast to the desired output type {target.dtype.word}")
    return target.dtype


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str, *operands: AnyTensor[Tensor]) -> str:
    """`named_reduction`, which most losses look at before anything else, elementwise ones when operands are broadcast.

    Raises ValueError for a word that is none.
    """
    require_broadcast(*operands)
    found = named_reduction(size_average, reduce, reduction)
    if found not in ("none", "mean", "sum"):
        raise ValueError(f"{found} is not a valid value for reduction")
    return found


def named_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction of a loss: what torch's old arguments say, where one of them is given, else `reduction`."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def require_same_dtype(input: AnyTensor[Tensor], target: AnyTensor[Tensor]) -> None:
    """RuntimeError for a target of another dtype."""
    if input.dtype is not target.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.word} but expected {input.dtype.word}")


def require_real_floats(name: str, *tensors: AnyTensor[Tensor]) -> None:
    """RuntimeError for tensors that are not of floats."""
    for x in tensors:
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"{name}: {'Complex' if x.dtype.is_complex else 'Integral'} inputs not supported.")


def require_target(input: AnyTensor[Tensor], target: AnyTensor[Tensor]) -> bool:
    """Whether a cross entropy's target is probabilities: it has the input's rank. RuntimeError for other dtypes."""
    soft = input.ndim == target.ndim
    other = soft and any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(
        input.shape, target.shape, strict=True))
    if (other or not soft) and not input.dtype.is_floating_point and not is_empty(input.shape):
        raise not_implemented("log_softmax_lastdim_kernel_impl", input.dtype)
    if other:
        if input.ndim == 1:
            require_classes(target)
        require_batch(input, target)
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if soft and not target.dtype.is_floating_point:
        raise RuntimeError("Expected floating point type for target with class probabilities, got "
                           + target.dtype.word)
    if not soft:
        axis(1, input.ndim + (input.ndim == 1))
        require_batch(input, target)
        require_classes(target)
    return soft


def binary_cross_entropy(input: AnyTensor[Tensor], target: AnyTensor[Tensor]) -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)) of each element."""
    return apply("binary_cross_entropy", input, target)


def require_factors(weight: AnyTensor[Tensor], input: AnyTensor[Tensor]) -> None:
    """RuntimeError for factors that do not broadcast with the input."""
    require_broadcast(weight, input)


def require_one_axis(fn: str, dim: Any) -> None:
    """TypeError for several axes where a function takes one."""
    one_axis(fn, dim)


def require_long(target: AnyTensor[Tensor]) -> None:
    """RuntimeError for a target that is not int64."""
    if target.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.word}")


def require_classes(target: AnyTensor[Tensor]) -> None:
    """RuntimeError for a target whose dtype is none of classes."""
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.word}")


def variance_of(input: AnyTensor[Tensor], var: AnyTensor[Tensor]) -> Any:
    """A variance of input's shape, or with a last axis of size one. ValueError for other shapes."""
    if var.ndim == input.ndim - 1:
        var = apply("unsqueeze", var, axis=var.ndim)
    if var.ndim != input.ndim:
        raise ValueError("var is of incorrect size")
    for k, (m, n) in enumerate(zip(var.shape, input.shape, strict=True)):
        if k < input.ndim - 1 or not is_one(m):
            require_equal(m, n, lambda: "var is of incorrect size", ValueError)
    return var


def require_pairs(input1: AnyTensor[Tensor], input2: AnyTensor[Tensor], target: AnyTensor[Tensor]) -> None:
    """RuntimeError unless inputs have one axis more than their target, which has one or none."""
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs "
                           f"with sizes {text(input1.shape)} and {text(input2.shape)}.")


def require_floats(name: str, *operands: Any) -> None:
    """NotImplementedError where the dtype to which the operands promote is none of floats."""
    d = result_dtype(*operands)
    if not d.is_floating_point:
        raise not_implemented(name, d, *operands)


def require_wide(name: str, x: AnyTensor[Tensor]) -> None:
    """NotImplementedError for a tensor that is not float32 or float64."""
    if not x.dtype.is_floating_point or x.dtype.is_half:
        raise not_implemented(name, x.dtype)


def require_kernel(kernel: str, x: AnyTensor[Tensor], *others: str, halves: bool = True) -> None:
    """NotImplementedError for a dtype that torch's kernel does not have: it has floats and the `others` named.

    Without `halves` those of half precision are on GPUs only.
    """
    d = x.dtype
    if not (halves or not d.is_half or x.is_cuda) if d.is_floating_point else d.name not in others:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.word}'")


def require_probabilities(x: AnyTensor[Tensor]) -> None:
    """RuntimeError for elements outside [0, 1]; on GPUs, where asking would wait, nobody asks."""
    if not x.is_cuda:
        asked = whole(x)
        inside = apply("logical_and", apply("ge", asked, as_operand(0, asked.dtype)),
                       apply("le", asked, as_operand(1, asked.dtype)))
        require(backend().item(apply("all", inside, axes=tuple(range(asked.ndim)), keepdim=False)), RuntimeError,
                "all elements of input should be between 0 and 1")


def require_same_size(input: AnyTensor[Tensor], target: AnyTensor[Tensor]) -> None:
    """ValueError unless a loss has a target of its input's size."""
    def message() -> str:
        sizes = [f"torch.Size({text(x.shape)})" for x in (target, input)]
        return (f"Using a target size ({sizes[0]}) that is different to the input size ({sizes[1]}) is deprecated. "
                "Please ensure they have the same size.")

    if input.ndim != target.ndim:
        raise ValueError(message())
    for n, m in zip(input.shape, target.shape, strict=True):
        require_equal(n, m, message, ValueError)


def require_several(input: AnyTensor[Tensor], spatial: bool) -> None:
    """ValueError where moments, per channel (axis 1) or with `spatial` per image and channel, are of one element."""
    sizes = tuple(input.shape)
    count = product(sizes[2:] if spatial else (sizes[0], *sizes[2:]))
    what = "spatial element" if spatial else "value per channel"
    require(count != 1, ValueError, f"Expected more than 1 {what} when training, got input size torch.Size([",
            *joined(sizes, ", "), "])")


def require_channels(input: AnyTensor[Tensor], vector: AnyTensor[Tensor], name: str) -> None:
    """RuntimeError unless a vector has one element per channel (axis 1)."""
    if input.ndim == 0:
        raise RuntimeError(f"{name} should contain 0 elements not {text(vector.shape)}")
    if input.ndim < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-max(input.ndim, 1)}, "
                         f"{max(input.ndim, 1) - 1}], but got 1)")
    n, m = input.shape[1], product(vector.shape)
    require_equal(m, n, lambda: f"{name} should contain {n} elements not {m}")


def require_groups(input: AnyTensor[Tensor], groups: Any) -> None:
    """RuntimeError unless the channels (axis 1) can be split into so many groups."""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    require(input.shape[1] % groups == 0, RuntimeError, "Expected number of channels in input to be divisible by "
            "num_groups, but got input of shape [", *joined(input.shape, ", "), "] and num_groups=", groups)


def require_channel_vectors(input: AnyTensor[Tensor], weight: AnyTensor[Tensor] | None,
                            bias: AnyTensor[Tensor] | None) -> None:
    """RuntimeError unless a norm's parameters have a number for each of input's channels."""
    for name, x in (("weight", weight), ("bias", bias)):
        if x is None:
            continue

        def message(name: str = name, x: Any = x) -> str:
            return (f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} "
                    f"of shape {text(x.shape)} and input of shape {text(input.shape)}")

        if x.ndim != 1:
            raise RuntimeError(message())
        require_equal(x.shape[0], input.shape[1], message)


def require_normalized(sizes: Sequence[Any], weight: AnyTensor[Tensor] | None, bias: AnyTensor[Tensor] | None) -> None:
    """RuntimeError unless a norm's parameters have the sizes over which it goes."""
    for name, x in (("weight", weight), ("bias", bias)):
        if x is None:
            continue

        def message(name: str = name, x: Any = x) -> str:
            return (f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {text(x.shape)} "
                    f"and normalized_shape = {text(sizes)}")

        if x.ndim != len(sizes):
            raise RuntimeError(message())
        for given, wanted in zip(x.shape, sizes, strict=True):
            require_equal(given, wanted, message)


def require_one_dtype(input: AnyTensor[Tensor], *vectors: AnyTensor[Tensor] | None) -> None:
    """RuntimeError on the CPU unless a norm's vectors have the input's dtype, or, of half types, all float32."""
    found = {x.dtype for x in vectors if x is not None}
    if not input.is_cuda and found - {input.dtype} and not (input.dtype.is_half and found == {float32}):
        raise RuntimeError(f"mixed dtype (CPU): parameters of {input.dtype}, or of float32 with half types, are "
                           f"expected, but got {', '.join(sorted(map(str, found)))}")


def require_trailing(input: AnyTensor[Tensor], sizes: Sequence[Any]) -> None:
    """RuntimeError unless input's last sizes are `sizes`."""
    def message() -> str:
        return (f"Given normalized_shape={text(sizes)}, expected input with shape [*, {text(sizes)[1:]}, but got input "
                f"of size{text(input.shape)}")

    if not sizes or len(sizes) > input.ndim:
        raise RuntimeError(message())
    for given, wanted in zip(tuple(input.shape)[input.ndim - len(sizes):], sizes, strict=True):
        require_equal(given, wanted, message)


def require_state(state: AnyTensor[Tensor], sizes: Sequence[Any], what: str) -> None:
    """RuntimeError unless a recurrent layer's state has the sizes."""
    def message() -> str:
        return f"Expected {what} size {text(sizes)}, got {text(state.shape)}".replace("size [", "size (").replace(
            "], got", "), got")

    if state.ndim != len(sizes):
        raise RuntimeError(message())
    for given, wanted in zip(state.shape, sizes, strict=True):
        require_equal(given, wanted, message)

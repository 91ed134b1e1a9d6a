"""What losses and layers need besides torch's own functions: class indices, per-channel vectors, trailing shapes."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import int32, int64
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import apply, cast, create, whole, word
from jitgrad.ops.library.shapes.indexing import checked_indices
from jitgrad.ops.library.sizes import joined, product, require, require_equal, text

__library__ = True


def lookup(input: AnyTensor[Tensor], weight: AnyTensor[Tensor]) -> Tensor:
    """Rows of weight at integer indices. IndexError out of range, RuntimeError for other dtypes."""
    if input.dtype not in (int64, int32):
        raise RuntimeError("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                           f"Int; but got torch.{word(input.dtype)}Tensor instead")
    i = checked_indices(input, weight.shape[0], 0, negative=False)
    return apply("index", weight, i, axes=(0,))


def one_hot(tensor: AnyTensor[Tensor], n: Any) -> Tensor:
    """int64 with an axis of n classes more: 1 at the class, 0 elsewhere. RuntimeError for a class out of range."""
    i = checked_indices(tensor, n, 0, negative=False, error=RuntimeError)
    classes = create("arange", i, length=n, dtype=int64)
    return cast(apply("eq", apply("unsqueeze", i, axis=i.ndim), classes), int64)


def pick(input: AnyTensor[Tensor], classes: AnyTensor[Tensor]) -> Tensor:
    """input at the class of each place: (C,), (N, C) or (N, C, d1, ...) and (), (N,) or (N, d1, ...).

    Raises IndexError: "Target 7 is out of bounds."; ValueError: other batch sizes; RuntimeError: other ranks.
    """
    axis = 0 if input.ndim == 1 else 1
    if classes.dtype is not int64 and classes.dtype.name != "uint8":
        raise RuntimeError(f"expected scalar type Long but found {text([classes.dtype.name])[1:-1]}")
    if classes.ndim != input.ndim - 1:
        raise RuntimeError(f"input of {input.ndim} axes goes with a target of {input.ndim - 1} axes, got one of "
                           f"{classes.ndim}")
    if axis:
        n, m = input.shape[0], classes.shape[0]
        require_equal(n, m, lambda: f"Expected input batch_size ({n}) to match target batch_size ({m}).", ValueError)
    i = _valid(cast(classes, int64), input.shape[axis])
    taken = apply("gather", input, apply("unsqueeze", i, axis=axis), axis=axis)
    return apply("squeeze", taken, axis=axis)


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
    n, m = input.shape[1], vector.shape[0]
    require_equal(m, n, lambda: f"{name} should contain {n} elements not {m}")


def require_groups(input: AnyTensor[Tensor], groups: Any) -> None:
    """RuntimeError unless the channels (axis 1) can be split into so many groups."""
    require(input.shape[1] % groups == 0, RuntimeError, "Expected number of channels in input to be divisible by "
            "num_groups, but got input of shape [", *joined(input.shape, ", "), "] and num_groups=", groups)


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

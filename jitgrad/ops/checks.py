"""Preconditions on sizes, with torch's words.

A row's `check(C, *specs, **attrs)` calls the methods of a `Checker`. Eager runs it with `C`, after NumPy refused the
operands, to raise torch's message; the symbolic backend subclasses `Checker` and emits `check` nodes for what it
cannot prove. Messages are thunks: most checks never need theirs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dims import Size, product
from jitgrad.ops.specs import Shape, broadcast_shapes, index_result_shape

Message = Callable[[], str]


class Checker:
    """Raises at once on sizes that are ints. A subclass for symbolic sizes overrides `equal`, `one_of`, `fits`,
    `at_least` and `index`; `broadcast` is written with these."""

    def equal(self, a: Size, b: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        """a == b."""
        if a != b:
            raise error(message())

    def one_of(self, a: Size, b: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        """a == b or a == 1 or b == 1: the sizes meet by broadcasting."""
        if a not in (b, 1) and b != 1:
            raise error(message())

    def fits(self, a: Size, n: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        """a == n or a == 1: size a can be repeated to n."""
        if a not in (n, 1):
            raise error(message())

    def at_least(self, a: Size, low: Size, message: Message, error: type[Exception] = RuntimeError) -> None:
        """a >= low."""
        if a < low:  # type: ignore[operator]
            raise error(message())

    def index(self, i: Size, n: Size, message: Message) -> None:
        """0 <= i < n, else IndexError."""
        if not 0 <= i < n:  # type: ignore[operator]
            raise IndexError(message())

    def broadcast(self, a: Shape, b: Shape) -> None:
        """Shapes a and b broadcast together."""
        if a == b:
            return
        rank = max(len(a), len(b))
        for axis in reversed(range(rank - min(len(a), len(b)), rank)):  # torch names the last one
            m, n = a[axis - rank + len(a)], b[axis - rank + len(b)]
            if m != n:
                self.one_of(m, n, lambda m=m, n=n, axis=axis: (  # type: ignore[misc]
                    f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension "
                    f"{axis}"))


C = Checker()


def listed(shape: Sequence[Size]) -> str:
    """A shape as torch prints it in messages."""
    return "[" + ", ".join(map(str, shape)) + "]"


def pointwise(C: Checker, *specs: Any, **attrs: Any) -> None:
    shape = specs[0].shape
    for s in specs[1:]:
        C.broadcast(shape, s.shape)
        shape = broadcast_shapes(shape, s.shape)


def nonempty(name: str) -> Callable[..., None]:
    """A reduction without identity: the reduced axes must not be empty."""
    def check(C: Checker, x: Any, *, axes: tuple[int, ...], **attrs: Any) -> None:
        for a in axes:
            C.at_least(x.shape[a], 1, lambda a=a: (  # type: ignore[misc]
                f"{name}(): Expected reduction dim {a} to have non-zero size."), IndexError)
    return check


def reshape(C: Checker, x: Any, *, shape: Shape) -> None:
    size = product(x.shape)
    C.equal(product(shape), size, lambda: f"shape '{listed(shape)}' is invalid for input of size {size}")


def expand(C: Checker, x: Any, *, shape: Shape) -> None:
    lead = len(shape) - x.ndim
    if lead < 0:
        raise RuntimeError(f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the "
                           f"number of dimensions in the tensor ({x.ndim})")
    for axis, size in enumerate(x.shape, lead):
        if size not in (1, shape[axis]):
            C.fits(size, shape[axis], lambda size=size, axis=axis: (  # type: ignore[misc]
                f"The expanded size of the tensor ({shape[axis]}) must match the existing size ({size}) at non-"
                f"singleton dimension {axis}.  Target sizes: {listed(shape)}.  Tensor sizes: {listed(x.shape)}"))


def squeeze(C: Checker, x: Any, *, axis: int) -> None:
    C.equal(x.shape[axis], 1, lambda: f"squeeze: dimension {axis} has size {x.shape[axis]}, not 1")


def select(C: Checker, x: Any, *others: Any, axis: int, index: Size) -> None:
    C.index(index, x.shape[axis],
            lambda: f"index {index} is out of bounds for dimension {axis} with size {x.shape[axis]}")


def cat(C: Checker, *specs: Any, axis: int) -> None:
    first = specs[0].shape
    for number, s in enumerate(specs[1:], 1):
        for a, (m, n) in enumerate(zip(first, s.shape, strict=True)):
            if a != axis and m != n:
                C.equal(m, n, lambda m=m, n=n, number=number: (  # type: ignore[misc]
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {m} but got size {n} for "
                    f"tensor number {number} in the list."))


def index(C: Checker, x: Any, *indices: Any, axes: tuple[int, ...]) -> None:
    shape = indices[0].shape

    def message() -> str:
        return ("shape mismatch: indexing tensors could not be broadcast together with shapes "
                + ", ".join(listed(i.shape) for i in indices))

    for i in indices[1:]:
        for m, n in zip(reversed(shape), reversed(i.shape), strict=False):
            C.one_of(m, n, message, IndexError)
        shape = broadcast_shapes(shape, i.shape)


def index_put(C: Checker, x: Any, v: Any, *indices: Any, axes: tuple[int, ...], accumulate: bool) -> None:
    index(C, x, *indices, axes=axes)
    target = index_result_shape(x.shape, [i.shape for i in indices], axes)

    def message() -> str:
        return (f"shape mismatch: value tensor of shape {listed(v.shape)} cannot be broadcast to indexing result of "
                f"shape {listed(target)}")

    for m, n in zip(reversed(v.shape), reversed(target), strict=False):
        if m not in (1, n):
            C.fits(m, n, message)


def gather(C: Checker, x: Any, i: Any, *others: Any, axis: int) -> None:
    for a, (m, n) in enumerate(zip(i.shape, x.shape, strict=True)):
        if a != axis and m != n:
            C.at_least(n, m, lambda a=a: (  # type: ignore[misc]
                f"Size does not match at dimension {a} expected index {listed(i.shape)} to be no larger than self "
                f"{listed(x.shape)} apart from dimension {axis}"))


def topk(C: Checker, x: Any, *, k: Size, axis: int, **attrs: Any) -> None:
    C.at_least(x.shape[axis], k, lambda: "selected index k out of range")


def matmul(C: Checker, a: Any, b: Any) -> None:
    k, k2, n = a.shape[-1], b.shape[-2], b.shape[-1]

    def message() -> str:
        if b.ndim == 2:  # torch folds the batch into the rows
            return f"mat1 and mat2 shapes cannot be multiplied ({product(a.shape[:-1])}x{k} and {k2}x{n})"
        batch = product(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        return (f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {k}] but got: "
                f"[{batch}, {k2}].")

    if a.ndim > 2 and b.ndim > 2:
        C.broadcast(a.shape[:-2], b.shape[:-2])
    C.equal(k, k2, message)


def conv(C: Checker, x: Any, w: Any, *, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
         groups: int) -> None:
    channels = w.shape[1] * groups
    C.equal(x.shape[1], channels, lambda: (
        f"Given groups={groups}, weight of size {listed(w.shape)}, expected input{listed(x.shape)} to have {channels} "
        f"channels, but got {x.shape[1]} channels instead"))
    padded = [2 * p + n if isinstance(n, int) else n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    kernel = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]

    def message() -> str:
        return (f"Calculated padded input size per channel: ({_times(padded)}). Kernel size: ({_times(kernel)}). "
                "Kernel size can't be greater than actual input size")

    for n, k in zip(padded, kernel, strict=True):
        C.at_least(n, k, message)


def _times(sizes: Sequence[Size]) -> str:
    return " x ".join(map(str, sizes))


def windows(C: Checker, x: Any, *, axis: int, size: Size, step: int, dilation: int) -> None:
    n, reach = x.shape[axis], (size - 1) * dilation + 1
    C.at_least(n, reach, lambda: f"maximum size for tensor at dimension {axis} is {n} but size is {reach}")

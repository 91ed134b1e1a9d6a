"""Joining tensors, and constant padding."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import bool_, uint8
from jitgrad.ops.autocast import widest
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, own
from jitgrad.ops.library.core import (Number, apply, bind, cast, class_word, expand_to, number_type, require_tensor,
                                      result_dtype, written_operand)
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import axis, is_empty, product, require, require_equal, size_of, text

__library__ = True


def _tensors(fn: str, tensors: Any) -> list[Any]:
    if isinstance(tensors, AnyTensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{fn}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
                        f"{class_word(tensors)}")
    for i, x in enumerate(tensors):
        if not isinstance(x, AnyTensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {class_word(x)}")
    if not tensors:
        raise (ValueError if fn == "cat" else RuntimeError)(f"{fn}(): expected a non-empty list of Tensors")
    return list(tensors)


def cat(tensors: Sequence[AnyTensor[Tensor]], dim: int = 0) -> Tensor:
    """Tensors one after the other along axis dim; dtypes are promoted."""
    xs = widest("cpu", *_tensors("cat", tensors))
    if len({x.dtype for x in xs}) > 1:
        d = result_dtype(*xs)
        xs = tuple([cast(x, d) for x in xs])
    kept, ranks = xs, [x.ndim for x in xs]
    if 1 in ranks:  # torch skips vectors of size 0 whatever the others' rank
        kept = tuple([x for x in xs if x.ndim != 1 or not is_empty(x.shape)]) or xs
        ranks = [x.ndim for x in kept]
    if 0 in ranks:
        raise RuntimeError(f"zero-dimensional tensor (at position {ranks.index(0)}) cannot be concatenated")
    a = axis(dim, ranks[0])
    for rank in ranks:
        if rank != ranks[0]:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {ranks[0]} and {rank}")
    if len(kept) < len(xs):
        skipped = [x for x in xs if x.requires_grad and not any(x is k for k in kept)]
        kept = (*kept, *[_of_rank(x, kept[0], a) for x in skipped])  # for the history
    return apply("cat", *kept, axis=a)


def _of_rank(x: Any, like: Any, a: int) -> Any:
    """A vector of no elements as a tensor of none, of the sizes of another but along axis a."""
    return apply("reshape", x, shape=tuple(0 if k == a else n for k, n in enumerate(like.shape)))


concat = concatenate = cat


def stack(tensors: Sequence[AnyTensor[Tensor]], dim: int = 0) -> Tensor:
    """Tensors of equal shape along a new axis dim."""
    xs = widest("cpu", *_tensors("stack", tensors))
    a = axis(dim, xs[0].ndim + 1)
    first = tuple(xs[0].shape)
    for i, x in enumerate(xs):
        shape = tuple(x.shape)

        def message(i: int = i, shape: tuple[Any, ...] = shape) -> str:
            return (f"stack expects each tensor to be equal size, but got {text(first)} at entry 0 and {text(shape)} "
                    f"at entry {i}")

        if len(shape) != len(first):
            raise RuntimeError(message())
        for m, n in zip(first, shape, strict=True):
            require_equal(m, n, message)
    d = result_dtype(*xs)
    return apply("cat", *[apply("unsqueeze", cast(x, d), axis=a) for x in xs], axis=a)


def _at_least(rank: int, *tensors: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]  # type: ignore[assignment]
    raised = []
    for x in tensors:
        while x.ndim < rank:
            x = apply("unsqueeze", x, axis=0)
        raised.append(x)
    return raised[0] if len(raised) == 1 else tuple(raised)


atleast_1d = bind(_at_least, 1, "atleast_1d", "Numbers as vectors of one element.")
atleast_2d = bind(_at_least, 2, "atleast_2d", "Numbers and vectors as matrices of one row.")


def atleast_3d(*tensors: Any) -> Any:
    """Numbers, vectors and matrices with axes of one: a vector's is the middle one, a matrix's two the first."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]  # type: ignore[assignment]
    raised = [apply("unsqueeze", x, axis=2) if x.ndim == 2 else x for x in map(atleast_2d, tensors)]
    return raised[0] if len(raised) == 1 else tuple(raised)


def hstack(tensors: Sequence[AnyTensor[Tensor]]) -> Tensor:
    """Side by side: along axis 1, or 0 for vectors."""
    xs = [atleast_1d(x) for x in _tensors("hstack", tensors)]
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


def vstack(tensors: Sequence[AnyTensor[Tensor]]) -> Tensor:
    """One above the other; vectors are rows."""
    return cat([atleast_2d(x) for x in _tensors("vstack", tensors)], 0)


row_stack = vstack


def column_stack(tensors: Sequence[AnyTensor[Tensor]]) -> Tensor:
    """Side by side; vectors are columns."""
    xs = [atleast_1d(x) for x in _tensors("column_stack", tensors)]
    return cat([apply("unsqueeze", x, axis=1) if x.ndim == 1 else x for x in xs], 1)


def dstack(tensors: Sequence[AnyTensor[Tensor]]) -> Tensor:
    """Along the third axis."""
    xs = [atleast_2d(x) for x in _tensors("dstack", tensors)]
    return cat([apply("unsqueeze", x, axis=2) if x.ndim == 2 else x for x in xs], 2)


def meshgrid(*tensors: AnyTensor[Tensor] | Sequence[AnyTensor[Tensor]], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids of vectors; "xy" exchanges the first two axes."""
    xs: list[Any] = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    xs = [apply("reshape", x, shape=(1,)) if x.ndim == 0 else x for x in xs]
    if any(x.ndim != 1 for x in xs):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[0], places[1] = 1, 0
    shape: list[Any] = [None] * len(xs)
    for x, p in zip(xs, places, strict=True):
        shape[p] = x.shape[0]
    return tuple([expand_to(apply("reshape", x, shape=tuple([n if i == p else 1 for i, n in enumerate(shape)])),
                            tuple(shape)) for x, p in zip(xs, places, strict=True)])


def broadcast_tensors(*tensors: AnyTensor[Tensor] | Sequence[AnyTensor[Tensor]]) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape to which they broadcast together."""
    xs: list[Any] = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    total: Any = None
    for x in xs:  # the ops themselves know how sizes meet
        one = apply("eq", x, x) if x.dtype is not bool_ else x
        total = one if total is None else apply("logical_or", total, one)
    return tuple([expand_to(x, tuple(total.shape)) for x in xs])


def cartesian_prod(*tensors: AnyTensor[Tensor]) -> Tensor:
    """All combinations of the vectors' elements, one a row."""
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {text(x.shape)}")
    if len(tensors) == 1:
        only: Any = tensors[0]
        return only
    rows: Any = stack(meshgrid(*tensors), len(tensors))  # of views: the only copy
    return own(apply("reshape", rows, shape=(product(rows.shape[:-1]), len(tensors))))


def constant_pad_nd(input: AnyTensor[Tensor], pad: Sequence[Any], value: Number = 0) -> Tensor:
    """A number around input; pad is (before, after) of the last axis, then of the one before; negative ones cut."""
    return pad_constant(input, pad, value)


def pad_constant(input: Any, pad: Sequence[Any], value: Number | None) -> Any:
    """torch's pad list (last axis first: before, after, ...) with a constant; negative pads cut."""
    require_tensor("pad", input)
    if value is not None and number_type(value) is complex:
        raise TypeError("pad(): argument 'value' (position 4) must be float, not complex")
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got "
                           f"padding length {len(pad)} and input of dimension {input.ndim}")
    pads: list[tuple[Any, Any]] = [(0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        before, after = size_of(pad[2 * i]), size_of(pad[2 * i + 1])
        a = input.ndim - 1 - i
        cut_before = -before if isinstance(before, int) and before < 0 else 0
        cut_after = -after if isinstance(after, int) and after < 0 else 0
        if cut_before or cut_after:
            length = input.shape[a] - cut_before - cut_after
            require(length >= 0, RuntimeError, "The input size ", input.shape[a], ", plus negative padding ", before,
                    " and ", after, f" resulted in a negative output size, which is invalid. Check dimension {a} of "
                    "your input.")
            input = take_slice(input, a, cut_before, length)
        pads[a] = (0 if cut_before else before, 0 if cut_after else after)
    fill = 0 if value is None else value
    if not isinstance(fill, SymNumber):
        if input.dtype is uint8 and isinstance(fill, (int, float)) and fill < 0:  # elsewhere it wraps
            raise RuntimeError("value cannot be converted to type uint8_t without overflow")
        written_operand(fill, input.dtype)  # an error where the dtype does not hold it
        return apply("pad", input, pads=tuple(pads), value=fill)
    inside = apply("pad", apply("eq", input, input) if not input.dtype.is_floating_point else apply(
        "logical_or", apply("eq", input, input), apply("ne", input, input)), pads=tuple(pads), value=False)
    padded = apply("pad", input, pads=tuple(pads), value=0)
    return apply("where", inside, padded, written_operand(fill, input.dtype))

complete(globals())

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "cartesian_prod", "cat", "column_stack",
           "concat", "concatenate", "constant_pad_nd", "dstack", "hstack", "meshgrid", "row_stack", "stack", "vstack"]

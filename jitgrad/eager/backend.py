"""The backend of the library that computes at once and records on the tape."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad import random
from jitgrad.device import CPU, composites, cpu_kernels, device, has_cpu_kernels
from jitgrad.dtypes import dtype, int64
from jitgrad.eager import direct, inplace, record
from jitgrad.eager.arrays.arrays import FEW, MANY, library
from jitgrad.eager.arrays.moves import is_pinned, move, pin
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.eager.autograd.node import next_number
from jitgrad.eager.construct import lift, new_tensor, wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.ops import OPS
from jitgrad.ops.backend import set_default
from jitgrad.ops.opdef import OpDef

_INT64 = np.dtype(np.int64)
_largest: Any = np.maximum.reduce  # `ndarray.max` without the Python in front of it


#: how many numbers are made of draws at a time: many enough for native code, few enough to need no memory to speak of
PART = 1 << 18
#: how many words the draws take that others are made of
_WORDS: dict[str, Callable[[int, dtype], int]] = {"uniform": random.words_needed, "bits": lambda n, d: n}


def _device(where: Tensor | device) -> device:
    return where.device if isinstance(where, Tensor) else where


def _drawn(kind: str, at: tuple[int, int], shape: tuple[int, ...], d: dtype, where: device) -> Any:
    """Uniform numbers, or words, from a place (seed, offset) of a stream."""
    attrs: dict[str, Any] = {"shape": shape, "dtype": d} if kind == "uniform" else {"shape": shape}
    return record.create(OPS[f"random.{kind}"], at, attrs, where)


def _parts(n: int) -> Iterator[tuple[int, int]]:
    """Where the parts of n numbers begin and end; none of several is smaller than PART."""
    count = max(n // PART, 1)
    for k in range(count):
        yield k * PART, (k + 1) * PART if k + 1 < count else n


def _by_parts(kind: str, stream: random.Generator, shape: tuple[int, ...], d: dtype, params: dict[str, Any]) -> Any:
    """`compose` of many elements, each of which is made of the draws at its place."""
    from jitgrad.ops.library.random import drawn_from, of_draws

    n = math.prod(shape)
    source, wide, count = drawn_from(kind, d)
    starts = [stream.advance(_WORDS[source](n, wide)) for _ in range(count)]
    made = np.empty(n, wide.np if source == kind else d.np)
    for begin, end in _parts(n):
        before = random.blocks(_WORDS[source](begin, wide))
        drawn = [_drawn(source, (seed, offset + before & random.MASK64), (end - begin,), wide, CPU)
                 for seed, offset in starts]
        made[begin:end] = of_draws(kind, drawn, d, **params)._data
    return wrap(made.reshape(shape))


def _permutation(stream: random.Generator, n: int, d: dtype) -> Any:
    """The order that sorts n words, equal ones as they come: each is sorted with its place in the lower half."""
    if n > 1 << 32:
        raise RuntimeError(f"randperm of {n} numbers: at most {1 << 32}")
    seed, offset = stream.advance(n)
    places = np.empty(n, np.uint64)
    for begin, end in _parts(n):
        part, at = places[begin:end], offset + random.blocks(begin) & random.MASK64
        part[:] = _drawn("bits", (seed, at), (end - begin,), int64, CPU)._data
        part <<= np.uint64(32)
        part |= np.arange(begin, end, dtype=np.uint64)
    places.sort()
    places &= np.uint64(random.MASK32)
    found = places.view(np.int64)
    return wrap(found if d is int64 else found.astype(d.np))


class EagerBackend:
    """`jitgrad.ops.backend.Backend`, which says what the methods do, on NumPy arrays."""

    apply = staticmethod(record.apply)
    move = staticmethod(move)
    pin = staticmethod(pin)
    is_pinned = staticmethod(is_pinned)
    lift = staticmethod(lift)
    assign = staticmethod(inplace.assign)
    reinterpret = staticmethod(inplace.reinterpret)
    conjugate, is_conjugate = staticmethod(inplace.conjugate), staticmethod(inplace.is_conjugate)
    apart, require_writable = staticmethod(inplace.apart), staticmethod(inplace.require_writable)
    become = staticmethod(inplace.become)
    resize = staticmethod(inplace.resize)
    update = staticmethod(direct.update)
    item = staticmethod(Tensor.item)
    is_grad_enabled = staticmethod(is_grad_enabled)

    @staticmethod
    def mark(target: Any = None, *call: Any) -> int:
        return next_number()

    @staticmethod
    def composite(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], short: bool) -> Any:
        """One native program where the first argument has more elements than what is tried by hand."""
        x = args[0] if args else None
        if type(x) is Tensor and type(x._data) is np.ndarray and x._data.size >= (MANY if short else FEW):
            return composites().computed(fn, args, kwargs)
        return NotImplemented

    @staticmethod
    def create(op: OpDef, where: Tensor | device, attrs: dict[str, Any]) -> Any:
        return record.create(op, (), attrs, _device(where))

    @staticmethod
    def from_data(data: Any, d: dtype | None, where: Tensor | device | None = None) -> Any:
        made = new_tensor(data, d)
        return made if where is None else move(made, _device(where))

    @staticmethod
    def alias(tensor: Tensor) -> Any:
        """A view of all of a tensor, with history of its own."""
        return record.apply(OPS["alias"], (tensor,), {})

    own = staticmethod(inplace.own)

    @staticmethod
    def own_view(op: OpDef, made: Tensor, attrs: dict[str, Any]) -> Any:
        """Without a view where nothing is recorded: the new tensor shows its own memory."""
        if type(made) is not Tensor or made._needs or made._base is not None or type(made._data) is not np.ndarray:
            return inplace.own(record.apply(op, (made,), attrs))
        made._data = record.plan_of(op).run(made._data, **attrs)
        return made

    @staticmethod
    def draw(kind: str, shape: tuple[int, ...], d: dtype, where: Tensor | device,
             generator: random.Generator | None = None, **params: Any) -> Any:
        """`kind` "uniform" and "bits" from the generator; other kinds are composed of these by the library."""
        stream = random.default_generator if generator is None else generator
        if not isinstance(stream, random.Generator):
            raise TypeError(f"argument 'generator' must be torch.Generator, not {type(stream).__name__}")
        n, place = math.prod(shape), _device(where)
        if place.type == "cpu":
            if kind == "randperm":
                return _permutation(stream, n, d)
            if n >= 2 * PART:
                return _by_parts(kind, stream, shape, d, params)
        if kind in _WORDS:
            return _drawn(kind, stream.advance(_WORDS[kind](n, d)), shape, d, place)
        from jitgrad.ops.library.random import compose

        return compose(kind, shape, d, where, generator, **params)

    @staticmethod
    def in_range(indices: Tensor, n: int) -> bool:
        """One look at those in the CPU's memory: negative ones are the largest of unsigned numbers."""
        if type(indices) is not Tensor:
            return False
        array = indices._data
        if type(array) is not np.ndarray or array.dtype is not _INT64 or not array.size:
            return False
        if (array.size >= FEW or has_cpu_kernels()) and array.flags.carray:
            found = cpu_kernels().within(array, n)
            if found is not None:
                return bool(found)
        return bool(_largest(array.view(np.uint64), None) < n)

    @staticmethod
    def expect_range(indices: Tensor, low: int, high: int, error: type[Exception], head: str,
                     tail: str) -> Tensor | None:
        """Check indices where they are, without waiting; None, and nothing done, for those on the CPU."""
        if not indices.is_cuda:
            return None
        library(indices._data).bounds.expect(indices._data, low, high, error, head, tail)  # type: ignore[attr-defined]
        return indices

    @staticmethod
    def check(condition: Any, error: type[Exception], message: str | tuple[Any, ...]) -> None:
        if not condition:
            raise error(message if isinstance(message, str) else "".join(map(str, message)))

    @staticmethod
    def check_equal(a: Any, b: Any, error: type[Exception], message: Callable[[], str]) -> None:
        if a != b:
            raise error(message())

    @staticmethod
    def select_number(condition: Any, if_true: Any, if_false: Any) -> Any:
        return if_true if condition else if_false

    @staticmethod
    def on_device(tensor: Tensor) -> bool:
        """Never: nothing is compiled here."""
        return False

    on_host = on_device

    @staticmethod
    def take_equal(pairs: Sequence[tuple[int, int]]) -> bool:
        return all(a == b for a, b in pairs)

    @staticmethod
    def take_zero(number: float) -> bool:
        return number == 0

    @staticmethod
    def pieces(n: int, size: int) -> int:
        return -(-n // size)


EAGER = EagerBackend()
set_default(EAGER)

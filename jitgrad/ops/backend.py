"""Who executes an op: the seam between torch's signatures (`ops/library`) and their two executions.

Library functions (`ops/library`) normalise arguments, promote and cast, then call `backend().apply(...)`. The eager
backend computes and records on the tape; the symbolic backend, installed while the frontend evaluates a call into the
library, emits graph nodes. The library is therefore written once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from jitgrad.device import device
    from jitgrad.dtypes import dtype
    from jitgrad.ops.opdef import OpDef


#: the tensors of one execution, eager's or a script's: what the library makes of that execution's tensors
Tensor = TypeVar("Tensor", bound="AnyTensor[Any]", covariant=True)


class AnyTensor(Generic[Tensor]):
    """Root of every tensor class: what library functions take for a tensor.

    `ops.tensorbase.TensorBase` has the methods. A class says which tensors its operations give: those of its own class
    (`class SymTensor(TensorBase["SymTensor"])`). So the library is typed for every execution: a function takes
    `AnyTensor[Tensor]`, be it a subclass such as `Parameter`, and returns a `Tensor`.
    """

    __slots__ = ()
    shape: Any  # a tuple of ints and symbolic ints
    dtype: Any
    ndim: Any
    device: Any
    is_cuda: Any

    @property
    def _sizes(self) -> tuple[Any, ...]:
        """The sizes as a plain tuple: in front of a shape's items there is Python."""
        return tuple(self.shape)

    @property
    def _is_empty(self) -> bool:
        """Whether it is known that there are no elements."""
        return 0 in [n for n in self._sizes if isinstance(n, int)]


class Batched:
    """Mark of tensors that are one item of a batch, as `func.vmap` shows them to its function.

    Attributes:
        value: the items as a tensor, along axis 0; of a `vmap` around, it may be batched itself.
        level: the backend of the `vmap` that made it (`ops.batching.backend`).
    """

    __slots__ = ()
    value: Any
    level: Any


class SymNumber:
    """Root of run-time numbers: the frontend's subclass stands for a bool, int or float that a script computes.

    `number_type` is bool, int or float. Arithmetic and comparisons with numbers of either kind give numbers (a Python
    bool or int where the result is known while compiling). The library never takes the truth value of one.
    """

    __slots__ = ()
    number_type: type

    def minimum(self, other: Any) -> Any:
        """The smaller of two numbers; a subclass may fold."""
        return select_number(self < other, self, other)

    def maximum(self, other: Any) -> Any:
        """The larger of two numbers; a subclass may fold."""
        return select_number(self > other, self, other)

    def is_one(self) -> bool:
        """Whether this size is 1, which decides how many axes a result has."""
        raise NotImplementedError

    def known_equal(self, other: Any) -> bool:
        """Whether this size is known, while compiling, to equal `other`."""
        return self is other

    def __lt__(self, other: Any) -> Any:
        raise NotImplementedError

    def __gt__(self, other: Any) -> Any:
        raise NotImplementedError


class Backend(Protocol):
    """What the library asks of its executor. Sizes are ints (eager) or symbolic ints with `+ - * // %` (script)."""

    def apply(self, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run or emit `op` on tensors of equal dtype; the result tensor or a tuple of them."""

    def create(self, op: OpDef, where: Any, attrs: dict[str, Any]) -> Any:
        """Run or emit `op`, which has no operands; `where`: the device of the result, or a tensor that is there."""

    def move(self, tensor: Any, where: device) -> Any:
        """The tensor on a device, itself if it is there."""

    def pin(self, tensor: Any) -> Any:
        """A copy of a CPU tensor in page-locked memory, itself if it is there."""

    def is_pinned(self, tensor: Any) -> bool:
        """Whether a tensor is in page-locked memory."""

    def lift(self, number: Any, d: dtype) -> Any:
        """A 0-dim tensor of dtype `d` from a Python or symbolic number."""

    def from_data(self, data: Any, d: dtype | None, where: Any = None) -> Any:
        """A new leaf tensor from nested lists or an ndarray (a constant in a graph), on a device or a tensor's."""

    def assign(self, target: Any, value: Any, since: int | None = None) -> Any:
        """In-place write of the whole of `target` (same shape and dtype as `value`), views included; returns target.
        `since`: the `mark` from which on operations are parts of this one, if any are."""

    def mark(self, target: Any = None, *call: Any) -> int:
        """A number that grows with time: operations after it are told from those before. `target`: what is written to
        then; a script, whose checks of sizes come at run time, says at once that it may not be, but first that `call`,
        a function with its other arguments, is none of the function's."""

    def apart(self, target: Any, operands: Sequence[Any]) -> bool:
        """Whether no operand is known to be in the memory that is written to."""

    def reinterpret(self, tensor: Any, to: Any) -> Any:
        """The bytes of a tensor as numbers of another dtype, on the same memory; a script cannot, and raises."""

    def conjugate(self, tensor: Any) -> Any:
        """The conjugate of a complex tensor, a view of it; a script refuses writes that would show in the other."""

    def is_conjugate(self, tensor: Any) -> bool:
        """Whether a complex tensor is such a view."""

    def require_writable(self, target: Any, memory: bool = True) -> None:
        """RuntimeError where `assign` would refuse the target, whatever the value, because of its history, and of its
        `memory`; a script knows later."""

    def resize(self, target: Any, result: Any, operands: Sequence[Any] = ()) -> Any:
        """Give a tensor that `result` is about to overwrite memory of its shape; returns it. A script may refuse.

        The memory lies as that of the operands of which the result is computed element by element, if any are given.
        """

    def become(self, target: Any, view: Callable[[], Any]) -> Any:
        """Make `target` what `view()`, a view of all of it, is, on the same memory; returns it. A script may refuse."""

    def update(self, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`target.name_(*args, **kwargs)` by a shorter way than computing aside and `assign`, with the same outcome.

        NotImplemented, and nothing done, where there is none.
        """

    def composite(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], short: bool) -> Any:
        """`fn(*args, **kwargs)`, a function of library operations alone, by a shorter way with the same outcome.

        `short`: of very few operations. NotImplemented, and nothing done, where there is none.
        """

    def alias(self, tensor: Any) -> Any:
        """A view op that changes nothing: a new view of all of `tensor` (eager), or tensor itself (script)."""

    def own(self, view: Any) -> Any:
        """A view of memory that nothing else shows, with its history, as a tensor that is no view."""

    def own_view(self, op: OpDef, made: Any, attrs: dict[str, Any]) -> Any:
        """`own` of what a view op shows of a new tensor, which goes: eager may make that one the result."""

    def draw(self, kind: str, shape: tuple[Any, ...], d: dtype, where: Any, generator: Any = None,
             **params: Any) -> Any:
        """`kind` "uniform", "normal", "randint" or "randperm" from a generator's stream, which advances.

        None: from the default generator's, which is what a script has.
        """

    def item(self, tensor: Any) -> Any:
        """The number in a one-element tensor."""

    def in_range(self, indices: Any, n: Any) -> bool:
        """Whether all of some indices are known to be in [0, n), so that nothing about them has to be checked."""

    def expect_range(self, indices: Any, low: Any, high: Any, error: type[Exception], head: str,
                     tail: str) -> Any:
        """Where indices are on a device: let `error`, head, index and tail, be raised when a number is next read if
        one is not in [low, high); the indices to use. None, and nothing done, elsewhere: check now.
        """

    def check(self, condition: Any, error: type[Exception], message: str | tuple[Any, ...]) -> None:
        """Raise `error(message)` unless `condition` (a bool or symbolic bool); `{}` in message is never filled here.

        A tuple is a message in parts, str and numbers (symbolic ones are printed at run time), to be joined.
        """

    def check_equal(self, a: Any, b: Any, error: type[Exception], message: Callable[[], str]) -> None:
        """Raise unless sizes a and b are equal; a symbolic backend may turn it into an entry guard or a node."""

    def select_number(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        """`if_true if condition else if_false` for numbers, both already evaluated."""

    def pieces(self, n: Any, size: Any) -> int:
        """How many parts of `size` an axis of `n` has, the last perhaps smaller: a constant, guarded in a script."""

    def on_device(self, tensor: Any) -> bool:
        """Whether a script runs on a GPU and has the tensor there, for a choice between two ways of one result."""

    def on_host(self, tensor: Any) -> bool:
        """Whether a script runs on the CPU, where the tensor is, for a choice between two ways of one result."""

    def take_equal(self, pairs: Sequence[tuple[Any, Any]]) -> bool:
        """Whether sizes are equal, pair by pair: guarded in a script, for a choice between two ways of one result."""

    def take_zero(self, number: Any) -> bool:
        """Whether a number is zero: guarded in a script where it is, for a choice between two ways of one result."""

    def is_grad_enabled(self) -> bool:
        """Whether operations are recorded here."""


class _State(threading.local):
    backend: Backend | None = None


_state = _State()
_default: list[Backend] = []


def set_default(b: Backend) -> None:
    """Install the eager backend (once, by `jitgrad.eager`)."""
    _default[:] = [b]


def default() -> Backend:
    """The eager backend, whatever the current one."""
    return _default[0]


def backend() -> Backend:
    """The backend of the current thread."""
    current = _state.backend
    return _default[0] if current is None else current


def own_view(self: Any, op: OpDef, made: Any, attrs: dict[str, Any]) -> Any:
    """`Backend.own_view` where there is no shorter way."""
    return self.own(self.apply(op, (made,), attrs))


def select_number(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`if_true if condition else if_false`, both already evaluated; a condition that is known decides at once."""
    if isinstance(condition, bool):
        return if_true if condition else if_false
    return backend().select_number(condition, if_true, if_false)


def own(view: Any) -> Any:
    """A view of what a function has made itself, which nobody else sees, as its result: no view for who calls it."""
    return backend().own(view)


@contextmanager
def using(b: Backend) -> Iterator[Backend]:
    """Make `b` current in this thread for a `with` block."""
    before = _state.backend
    _state.backend = b
    try:
        yield b
    finally:
        _state.backend = before

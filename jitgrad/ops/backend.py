"""Who executes an op: the seam between torch's signatures (`ops/library`) and their two executions.

Library functions (`ops/library`) normalise arguments, promote and cast, then call `backend().apply(...)`. The eager backend
computes and records on the tape; the symbolic backend, installed while the frontend evaluates a call into the
library, emits graph nodes. The library is therefore written once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jitgrad.dtypes import dtype
    from jitgrad.ops.opdef import OpDef


class Backend(Protocol):
    """What the library asks of its executor. Sizes are ints (eager) or symbolic ints with `+ - * // %` (script)."""

    def apply(self, op: OpDef, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run or emit `op` on tensors of equal dtype; the result tensor or a tuple of them."""

    def lift(self, number: Any, d: dtype) -> Any:
        """A 0-dim tensor of dtype `d` from a Python or symbolic number."""

    def from_data(self, data: Any, d: dtype | None) -> Any:
        """A new leaf tensor from nested lists or an ndarray (a constant in a graph)."""

    def assign(self, target: Any, value: Any) -> Any:
        """In-place write of the whole of `target` (same shape and dtype as `value`), views included; returns target."""

    def draw(self, kind: str, shape: tuple[Any, ...], d: dtype, **params: Any) -> Any:
        """`kind` "uniform", "normal", "randint" or "randperm" from the current Philox stream, which advances."""

    def item(self, tensor: Any) -> Any:
        """The number in a one-element tensor."""

    def check(self, condition: Any, error: type[Exception], message: str) -> None:
        """Raise `error(message)` unless `condition` (a bool or symbolic bool); `{}` in message is never filled here."""

    def check_equal(self, a: Any, b: Any, error: type[Exception], message: Callable[[], str]) -> None:
        """Raise unless sizes a and b are equal; a symbolic backend may turn it into an entry guard or a node."""

    def select_number(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        """`if_true if condition else if_false` for numbers, both already evaluated."""

    def is_grad_enabled(self) -> bool:
        """Whether operations are recorded here."""


class _State(threading.local):
    backend: Backend


_state = _State()
_default: list[Backend] = []


def set_default(b: Backend) -> None:
    """Install the eager backend (once, by `jitgrad.eager`)."""
    _default[:] = [b]


def backend() -> Backend:
    """The backend of the current thread."""
    try:
        return _state.backend
    except AttributeError:
        return _default[0]


@contextmanager
def using(b: Backend) -> Iterator[Backend]:
    """Make `b` current in this thread for a `with` block."""
    before = getattr(_state, "backend", None)
    _state.backend = b
    try:
        yield b
    finally:
        if before is None:
            del _state.backend
        else:
            _state.backend = before

"""What rules ask of the evaluation above them: to run a function's body, a branch, a raise. `build` fills the slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitgrad.script.frontend.state.context import Context
    from jitgrad.script.graph.ir import Value

class Raised(Exception):
    """Control does not go on from here: an exception is raised at run time, or handled by a `try` (`attempt`)."""

    def __init__(self, error: type[BaseException] = Exception, template: tuple[Any, ...] | None = None,
                 values: Sequence[Value] = (), attempt: Any = None):
        super().__init__(error, template)
        self.error, self.template, self.values, self.attempt = error, template, values, attempt


_SLOTS: dict[str, Callable[..., Any]] = {}


def fill(**slots: Callable[..., Any]) -> None:
    """Say who does what the functions below are named after."""
    _SLOTS.update(slots)


def call(context: Context, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`fn(*args, **kwargs)`."""
    return _SLOTS["call"](context, fn, args, kwargs)


def branch(context: Context, condition: Any, then: Callable[[], Any], other: Callable[[], Any],
           live: frozenset[str] | None = None) -> Any:
    """Evaluate both sides under a run-time condition and merge; the merged result of the two callables.

    `live`: names of the current frame that are read later; None: all of them.
    """
    return _SLOTS["branch"](context, condition, then, other, live)


def raise_now(context: Context, error: type[BaseException], *template: Any, values: Sequence[Value] = ()) -> Raised:
    """Emit the raise of `error` with a text; the caller raises what this returns."""
    found: Raised = _SLOTS["raise_now"](context, error, template, values)
    return found

"""What leaves the program or may end it: raises, checks, and other operations with an effect."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.errors import (InvalidOperation, JitgradError, ShapeMismatch, TypeMismatch, UnresolvedAttribute,
                            UnsupportedCall)
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.graph.ir import Value


class Raised(Exception):
    """Control does not go on from here: an exception is raised at run time, or handled by a `try` (`attempt`)."""

    def __init__(self, error: type[BaseException] = Exception, template: tuple[Any, ...] | None = None,
                 values: Sequence[Value] = (), attempt: Any = None):
        super().__init__(error, template)
        self.error, self.template, self.values, self.attempt = error, template, values, attempt


def commit_dirty(context: Context) -> None:
    """Emit a commit for every outer storage or slot whose memory is not current."""
    state, inputs = context.state, context.inputs
    for key in inputs.dirty:
        value = state.values.get(key)
        if value is None:
            continue
        clean = ("clean", key)
        current = inputs.commit_value(key, value)
        if current is None or state.values.get(clean) is current:
            continue
        context.builder.emit("commit", (current,), target=inputs.target(key))
        state.values[clean] = current
    if not context.depth:  # inside a branch or loop what was written may be written again on another way
        inputs.dirty.clear()


def emit(context: Context, op: str, *inputs: Value, **attrs: Any) -> tuple[Value, ...]:
    """Emit a node that may leave the program or be observed: memory that was written is made current before."""
    fails = op == "check" or bool(attrs.get("checked"))
    if fails and context.tries and dispatch.watch(context, op, inputs, attrs):
        return ()
    commit_dirty(context)
    if fails:
        dispatch.announce_stores(context)
    return context.builder.emit(op, inputs, **attrs)


def raise_now(context: Context, error: type[BaseException], template: tuple[Any, ...] | None,
              values: Sequence[Value] = ()) -> Raised:
    """Emit the raise of `error`; the caller raises what this returns."""
    if context.tries:
        found: Raised | None = dispatch.intercept(context, error, template, values)
        if found is not None:
            return found
    false = context.one("num.const", value=False)
    commit_dirty(context)
    dispatch.announce_stores(context)
    context.builder.emit("check", (false, *values), error=error, template=template)
    return Raised()


@contextmanager
def unhandled(context: Context, sure: bool = True) -> Iterator[None]:
    """Let no `try` see the checks inside, where it is `sure` that they hold."""
    tries = context.tries
    context.tries = [] if sure else tries
    try:
        yield
    finally:
        context.tries = tries


def no_attribute(context: Context, owner: str, name: str, *, what: str = "", says: str = "", hint: str = ""
                 ) -> Exception:
    """What to raise where an `owner` has no attribute `name`: a refusal, Python's exception where a `try` handles it.

    Args:
        owner: the name of its class.
        what: the refusal's words, `says`: Python's; by default those about an object.
    """
    if any(attempt.handler(AttributeError) is not None for attempt in context.tries):
        return raise_now(context, AttributeError, (says or f"'{owner}' object has no attribute '{name}'",))
    return UnresolvedAttribute(what or f"`{owner}` has no `{name}`", context.span(), hint=hint)


def mistake(context: Context, says: str, refusal: Exception) -> Exception:
    """What to raise where Python raises a TypeError that `says` so: in a branch, a loop or a `try` that exception, as
    the run may never come to it; else the refusal."""
    return raise_now(context, TypeError, (says,)) if context.depth or context.tries else refusal


def guarded(context: Context, operation: Callable[[], Any]) -> Any:
    """Run an operation of the library or of Python now; what it raises, the script raises."""
    try:
        return operation()
    except (JitgradError, Raised, Restart):
        raise
    except NotImplementedError as error:
        raise UnsupportedCall(str(error), context.span()) from error
    except (TypeError, RuntimeError) as error:
        if context.depth == 0:
            raise _refusal(error)(str(error), context.span()) from error
        raise raise_now(context, type(error), (str(error),)) from error
    except (IndexError, ValueError, KeyError, ZeroDivisionError, OverflowError, AttributeError) as error:
        values: list[Value] = []
        known = isinstance(error, KeyError) and type(error.args[0]) is not str
        template = (None, *[stated(context, a, values) for a in error.args]) if known else (
            error.args[0] if isinstance(error, KeyError) else str(error),)
        raise raise_now(context, type(error), template, values) from error


def stated(context: Context, value: Any, values: list[Value]) -> Any:
    """A plain argument of an exception as a template has it; graph values are added to `values`."""
    if value is None:
        return None
    if type(value) in (bool, float) or (type(value) is int and abs(value) < 1 << 63):
        values.append(context.constant(value))
        return len(values) - 1
    return ("tuple", *[stated(context, v, values) for v in value]) if type(value) is tuple else ("text", str(value))


def _refusal(error: Exception) -> type[TypeMismatch | ShapeMismatch | InvalidOperation]:
    """The class of refusal for what the library raised while compiling."""
    if isinstance(error, TypeError):
        return TypeMismatch
    words = ("shape", "size", "dim", "matri", "rank", "element", "vector")
    return ShapeMismatch if any(w in str(error) for w in words) else InvalidOperation

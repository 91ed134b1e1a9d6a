"""What Python itself, or the library, computes while a script is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.errors import (
    InvalidOperation,
    JitgradError,
    ShapeMismatch,
    TypeMismatch,
    UnsupportedCall,
)
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.state.dispatch import Raised, raise_now

PLAIN = (bool, int, float, complex, str, bytes, type(None), dtypes.dtype, slice, range, type(Ellipsis), device)
DUNDER: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "matmul": operator.matmul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "neg": operator.neg, "pos": operator.pos, "invert": operator.invert,
}


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
        raise raise_now(context, type(error), str(error)) from error
    except (IndexError, ValueError, KeyError, ZeroDivisionError, OverflowError, AttributeError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
        raise raise_now(context, type(error), str(text)) from error


def _refusal(error: Exception) -> type[TypeMismatch | ShapeMismatch | InvalidOperation]:
    """The class of refusal for what the library raised while compiling."""
    if isinstance(error, TypeError):
        return TypeMismatch
    words = ("shape", "size", "dim", "matri", "rank", "element", "vector")
    return ShapeMismatch if any(w in str(error) for w in words) else InvalidOperation

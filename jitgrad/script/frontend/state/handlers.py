"""Functions that are neither the library's nor inlined from their source: function -> handler.

`builtins_.py` has Python's, `stdlib.py` those of its standard library, `library.py` the few of jitgrad that need to
know the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.script.frontend.state.context import Context

Args = tuple[Any, ...]
Handler = Callable[[Context, Args, dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Make what follows the handler of `functions`."""
    def register(handler: Handler) -> Handler:
        for f in functions:
            HANDLERS[f] = handler
        return handler
    return register

"""Log records of scripts, made by Python: its handlers and filters see what they see of eager code."""

import logging
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.library.outside.callbacks import asked
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler


def log_at(logger: logging.Logger, level: int, file: str, line: int, function: str, message: object,
           *args: Any) -> None:
    """The record of `logger.log(level, message, *args)` in a function."""
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(logger.name, level, file, line, message, args, None, function))


def _logged(level: int | None) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> None:
        logger, *rest = args
        rest = [*rest, *([kwargs.pop("msg")] if "msg" in kwargs else [])]
        if kwargs:
            raise UnsupportedCall(f"a log record with `{next(iter(kwargs))}`", context.span(),
                                  hint="give the message and its arguments alone")
        span = context.span()
        assert span is not None
        if level is None:
            at, *rest = rest
        asked(log_at, None)(
            context, (logger, at if level is None else level, span.file, span.line, span.function, *rest), {})
    return handler


HANDLERS.update({getattr(logging.Logger, name): _logged(level) for name, level in (
    ("debug", logging.DEBUG), ("info", logging.INFO), ("warning", logging.WARNING), ("warn", logging.WARNING),
    ("error", logging.ERROR), ("critical", logging.CRITICAL), ("log", None))})

"""Warnings and log records of scripts: those of eager, with their lines."""

import logging
import warnings
from typing import Any

import pytest

import jitgrad as torch

logger = logging.getLogger("jitgrad.tests.messages")


def trained(x: Any, n: int) -> Any:
    if n > 1:
        warnings.warn("n is large")
    for k in range(n):
        logger.info("step %d of %s", k, n)
        logger.debug("not seen")
    logger.log(logging.ERROR, f"mean {x.mean():.2f} of {x.shape}")
    warnings.warn(f"{x.shape[0]} rows", DeprecationWarning, stacklevel=1)
    return (x * n).sum()


def helper(n: int) -> int:
    warnings.warn("helper is old", FutureWarning, stacklevel=2)
    return n + 1


def calling(x: Any, n: int) -> Any:
    y = x * helper(n)
    logger.warning("called %s", {"n": n, "sizes": (x.shape[0], 2)})
    return y.sum()


def strict(x: Any, n: int) -> Any:
    try:
        if n > 1:
            warnings.warn(RuntimeWarning("now an error"))
    finally:
        logger.error("done")
    return x.sum()


def said(function: Any, n: int, action: Any = "always") -> Any:
    """What a call says, and the gradient."""
    records = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append((record.levelname, record.getMessage(), record.lineno, record.funcName, record.pathname))

    handler, x = Kept(), torch.ones(3, requires_grad=True)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            function(x, n).backward()
    finally:
        logger.removeHandler(handler)
    return [(str(w.message), w.category, w.lineno, w.filename) for w in caught], records, x.grad.tolist()


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("function", [trained, calling])
def test_as_eager_says_it(function: Any, interpret: bool) -> None:
    script = torch.script(function)
    with torch.config.override(interpret=interpret):
        for n in range(4):
            assert said(script, n) == said(function, n)


def test_a_filter_knows_the_line() -> None:
    def often(x: Any, n: int) -> Any:
        for _ in range(n):
            warnings.warn("again")
        return (x * n).sum()

    for function in (often, torch.script(often)):
        assert len(said(function, 5, "default")[0]) == 1
        globals().pop("__warningregistry__", None)


def test_a_warning_that_is_an_error_is_raised() -> None:
    script, line = torch.script(strict), strict.__code__.co_firstlineno + 5
    for function in (strict, script):
        with pytest.raises(RuntimeWarning, match="now an error"):
            said(function, 2, "error")
        assert said(function, 1, "error")[1] == [("ERROR", "done", line, "strict", __file__)]


def test_what_a_record_cannot_have() -> None:
    def f(x: Any) -> Any:
        logger.warning("a", exc_info=True)
        return x

    with pytest.raises(torch.errors.UnsupportedCall, match="a log record with `exc_info`"):
        torch.script(f)(torch.ones(2))

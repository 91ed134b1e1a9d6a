"""Run a function eagerly and through `build` + `interpret`, and compare values, effects and exceptions."""

from __future__ import annotations

import ast
import contextlib
import io
import math
from typing import Any

import numpy as np

import jitgrad
from jitgrad.dims import Assumed
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import resolve
from jitgrad.script.call.storing import leave_writer
from jitgrad.script.frontend.build import build
from jitgrad.script.frontend.source.source import source_of
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.verify import verify
from tests.observe import duplicate, leaves, plain


def run_scripted(function: Any, args: tuple[Any, ...], optimistic: bool = True, script: Any = None) -> Any:
    """What the compiled function would do, interpreted: entry, run, commits, result."""
    import inspect

    script = script or build(function, args, {}, Assumed.PARAMETERS if optimistic else Assumed.NOTHING)
    verify(script.graph)
    bound = inspect.signature(function).bind(*args)
    bound.apply_defaults()
    params = dict(bound.arguments)
    objects = [resolve(s, params) for s in script.inputs]
    arrays = [o._data if isinstance(o, Tensor) else o for o in objects]

    def commit(target: int, value: Any) -> None:
        source = script.commits[target]
        if isinstance(source, sig.Attr):
            setattr(resolve(source.base, params), source.name, value)
        elif isinstance(source, sig.Item):
            resolve(source.base, params)[source.key] = value
        elif isinstance(source, sig.RngState):
            setattr(jitgrad.random.default_generator, source.part, value)

    outputs = interpret(script.graph, arrays, commit)
    wrapped = [wrap(o) if isinstance(o, np.ndarray) else o for o in outputs]
    leave = leave_writer(tuple(params), params, script.inputs, script.result, script.stores)
    return leave(tuple(params.values()), objects, wrapped)


def outcome(run: Any) -> tuple[str, Any, str]:
    """(kind, value or exception, what was printed)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = ("value", run(), "")
        except Exception as error:  # the comparison is about which exception it is
            result = ("error", error, "")
    return result[0], result[1], out.getvalue()


def same(a: Any, b: Any) -> bool:
    """Equality of two `plain` values, floats to rounding."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-6)
    return type(a) is type(b) and a == b


def check(function: Any, *args: Any, optimistic: bool = True) -> Any:
    """Assert that eager and interpreted agree: value, printed text, exception, memory of the arguments."""
    mine, theirs = duplicate(args), duplicate(args)
    eager = outcome(lambda: function(*mine))
    scripted = outcome(lambda: run_scripted(function, theirs, optimistic))
    if eager[0] != scripted[0]:
        failure = scripted if scripted[0] == "error" else eager
        raise AssertionError(f"eager {eager}, scripted {scripted}") from (
            failure[1] if isinstance(failure[1], Exception) else None)
    if eager[0] == "value":
        assert same(plain(eager[1]), plain(scripted[1])), f"eager {eager[1]}, scripted {scripted[1]}"
        looped = any(isinstance(n, (ast.For, ast.While)) for n in ast.walk(source_of(function).node))
        aliases = [[r is a for a in mine] for r in leaves(eager[1])]
        assert looped or aliases == [[r is a for a in theirs] for r in leaves(scripted[1])], "other aliases"
    else:
        assert type(eager[1]) in type(scripted[1]).__mro__, f"eager {eager[1]!r}, scripted {scripted[1]!r}"
        assert str(eager[1]) in str(scripted[1]), f"eager {eager[1]!r}, scripted {scripted[1]!r}"
    assert eager[2] == scripted[2], f"printed {eager[2]!r} and {scripted[2]!r}"
    for a, b in zip(mine, theirs, strict=True):
        if isinstance(a, (Tensor, tuple, list)):
            assert same(plain(a), plain(b)), f"arguments afterwards: eager {a}, scripted {b}"
    return eager[1]

"""`itertools`: of items that are known Python's own, else Python that scripts inline. Each item is taken once."""

import itertools
from collections.abc import Callable
from typing import Any

from jitgrad.script.frontend.containers.iteration import Iterator
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args
from jitgrad.script.frontend.values.protocol import call, items_of, iterate
from jitgrad.script.frontend.values.values import sequence


def _chained(parts: Any) -> Any:
    return [v for part in parts for v in part]


def _accumulated(items: Any, function: Any = None, *, initial: Any = None) -> Any:
    out = [] if initial is None else [initial]
    for v in items:
        out.append(v if len(out) == 0 else out[-1] + v if function is None else function(out[-1], v))
    return out


def _sliced(items: Any, *ends: Any) -> Any:
    return list(items)[slice(*ends)]


def _pairs(items: Any) -> Any:
    found = list(items)
    return [(found[k], found[k + 1]) for k in range(len(found) - 1)]


def _repeated(item: Any, times: int) -> Any:
    return [item for _ in range(times)]


def _starred(function: Any, rows: Any) -> Any:
    return [function(*row) for row in rows]


_PYTHON: dict[Any, Callable[..., Any]] = {
    itertools.chain: lambda *parts: _chained(parts), itertools.accumulate: _accumulated, itertools.islice: _sliced,
    itertools.pairwise: _pairs, itertools.repeat: _repeated, itertools.starmap: _starred}


def _inlined(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    return Iterator(context, iterate(context, call(context, _PYTHON[cls], *args, **kwargs)))


def _known(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """The arguments that are iterables come first; what is left are numbers."""
    given = [a if isinstance(a, int) else items_of(context, a) for a in args]
    return Iterator(context, sequence(guarded(context, lambda: list(cls(*given, **kwargs)))))


CONSTRUCTORS.update(dict.fromkeys(_PYTHON, _inlined))
CONSTRUCTORS.update(dict.fromkeys((itertools.product, itertools.permutations, itertools.combinations,
                                   itertools.combinations_with_replacement, itertools.zip_longest), _known))
HANDLERS[itertools.chain.from_iterable] = lambda cx, args, kwargs: Iterator(cx, iterate(cx, call(cx, _chained, *args)))

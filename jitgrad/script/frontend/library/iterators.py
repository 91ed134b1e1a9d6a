"""`itertools`: of items that are known Python's own, else Python that scripts inline. Each item is taken once."""

import itertools
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic
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


def _product(*parts: Any, repeat: int = 1) -> Any:
    return _rows(tuple([list(part) for part in parts]) * repeat)


def _rows(parts: Any) -> Any:
    if len(parts) == 0:
        return [()]
    return [(*row, v) for row in _rows(parts[:-1]) for v in parts[-1]]


def _combinations(items: Any, r: int) -> Any:
    return _chosen(list(items), r, lambda row, n: range(0 if len(row) == 0 else row[-1] + 1, n))


def _with_replacement(items: Any, r: int) -> Any:
    return _chosen(list(items), r, lambda row, n: range(0 if len(row) == 0 else row[-1], n))


def _permutations(items: Any, r: Any = None) -> Any:
    pool = list(items)
    return _chosen(pool, len(pool) if r is None else r, lambda row, n: [k for k in range(n) if k not in row])


def _chosen(pool: Any, r: int, following: Any) -> Any:
    return [tuple([pool[k] for k in row]) for row in _indices(len(pool), r, following)]


def _indices(n: int, r: int, following: Any) -> Any:
    if r == 0:
        return [()]
    return [(*row, k) for row in _indices(n, r - 1, following) for k in following(row, n)]


def _longest(*parts: Any, fillvalue: Any = None) -> Any:
    lists = tuple([list(part) for part in parts])
    return [tuple([items[k] if k < len(items) else fillvalue for items in lists])
            for k in range(max([len(items) for items in lists], default=0))]


#: of items that are not all known
_UNKNOWN: dict[Any, Callable[..., Any]] = {
    itertools.product: _product, itertools.permutations: _permutations, itertools.combinations: _combinations,
    itertools.combinations_with_replacement: _with_replacement, itertools.zip_longest: _longest}
_PYTHON: dict[Any, Callable[..., Any]] = {
    itertools.chain: lambda *parts: _chained(parts), itertools.accumulate: _accumulated, itertools.islice: _sliced,
    itertools.pairwise: _pairs, itertools.repeat: _repeated, itertools.starmap: _starred}


def _inlined(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    return Iterator(context, iterate(context, call(context, _PYTHON[cls], *args, **kwargs)))


def _known(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """The arguments that are iterables come first; what is left are numbers."""
    before = context.state.copy()
    try:
        given = [a if isinstance(a, int) else items_of(context, a) for a in args]
    except NotStatic:
        context.state = before  # an iterator among them has given nothing yet
        return Iterator(context, iterate(context, call(context, _UNKNOWN[cls], *args, **kwargs)))
    return Iterator(context, sequence(guarded(context, lambda: list(cls(*given, **kwargs)))))


CONSTRUCTORS.update(dict.fromkeys(_PYTHON, _inlined))
CONSTRUCTORS.update(dict.fromkeys(_UNKNOWN, _known))
HANDLERS[itertools.chain.from_iterable] = lambda cx, args, kwargs: Iterator(cx, iterate(cx, call(cx, _chained, *args)))

"""`itertools`: of items that are known Python's own, else Python that scripts inline. Each item is taken once."""

import itertools
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.containers import list_methods
from jitgrad.script.frontend.containers.generators import Generator, opened
from jitgrad.script.frontend.containers.iteration import Iterator
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.instances import instance
from jitgrad.script.frontend.values.protocol import call, class_of, items_of, iterate, type_word
from jitgrad.script.frontend.values.values import Iterable, sequence
from jitgrad.script.graph.nodes import within

#: more items than any loop takes
ENDLESS = 2**62


def _chained(parts: Any) -> Any:
    return [v for part in parts for v in part]


def _accumulated(items: Any, function: Any = None, *, initial: Any = None) -> Any:
    out = [] if initial is None else [initial]
    for v in items:
        out.append(v if len(out) == 0 else out[-1] + v if function is None else function(out[-1], v))
    return out


def _sliced(items: Any, start: Any, stop: Any, step: int) -> Any:
    for end, word in ((start, "Indices"), (stop, "Stop argument"), (step, "Step")):
        if end is not None and end < (word == "Step"):
            raise ValueError(_SLICES[word])
    out, k = [], 0
    begin = 0 if start is None else start
    if stop is None or stop > 0:
        for v in items:
            if k >= begin and (k - begin) % step == 0:
                out.append(v)
            k += 1
            if stop is not None and k >= stop:
                break
    return out


def _while(test: Any, items: Any) -> Any:
    out = []
    for v in items:
        if not test(v):
            break
        out.append(v)
    return out


def _after(test: Any, items: Any) -> Any:
    out, begun = [], False
    for v in items:
        begun = begun or not test(v)
        if begun:
            out.append(v)
    return out


def _refused(test: Any, items: Any) -> Any:
    return [v for v in items if not test(v)]


def _marked(items: Any, marks: Any) -> Any:
    return [v for v, mark in zip(items, marks) if mark]  # noqa: B905  (the shorter one ends it)


def _pairs(items: Any) -> Any:
    found = list(items)
    return [(found[k], found[k + 1]) for k in range(len(found) - 1)]


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


class _Groups:
    """Which group a `groupby` has come to: those before it have no items any more."""

    def __init__(self) -> None:
        self.at = -1


class _Group:
    def __init__(self, groups: Any, rows: Any):
        self.groups, self.rows, self.number, self.given = groups, rows, groups.at, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self.number != self.groups.at or self.given >= len(self.rows):
            raise StopIteration
        self.given += 1
        return self.rows[self.given - 1]


def _runs(items: Any, key: Any) -> Any:
    """The items in lists: neighbours of one key; and the keys."""
    keys: list[Any] = []
    runs: list[list[Any]] = []
    for v in items:
        k = v if key is None else key(v)
        if len(keys) == 0 or keys[-1] != k:
            keys.append(k)
            runs.append([v])
        else:
            runs[-1].append(v)
    return keys, runs


def _grouped(keys: Any, runs: Any) -> Any:
    groups = _Groups()
    for k in range(len(keys)):
        groups.at = k
        yield keys[k], _Group(groups, runs[k])
    groups.at = -1


def _groupby_of(iterable: Any, key: Any = None) -> tuple[Any, Any]:
    return iterable, key


def _groupby(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    items, key = guarded(context, lambda: _groupby_of(*args, **kwargs))
    block = context.builder.block
    begin = len(block.nodes)
    items = opened(context, items)
    keys, runs = (None, None) if isinstance(items, Generator) else call(context, _runs, items, key)
    if keys is None or any(n.op in ("print", "commit", "callback") for n in within(block.nodes[begin:])):
        raise UnsupportedCall("`groupby` of a generator, or by a key with effects", context.span(),
                              hint="make a list of the items and of their keys before")
    return call(context, _grouped, keys, runs)


_SLICES = {"Indices": "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.",
           "Stop argument": "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.",
           "Step": "Step for islice() must be a positive integer or None."}
#: of items that are not all known
_UNKNOWN: dict[Any, Callable[..., Any]] = {
    itertools.product: _product, itertools.permutations: _permutations, itertools.combinations: _combinations,
    itertools.combinations_with_replacement: _with_replacement, itertools.zip_longest: _longest}
_PYTHON: dict[Any, Callable[..., Any]] = {
    itertools.chain: lambda *parts: _chained(parts), itertools.accumulate: _accumulated,
    itertools.pairwise: _pairs, itertools.starmap: _starred, itertools.takewhile: _while, itertools.dropwhile: _after,
    itertools.filterfalse: _refused, itertools.compress: _marked}


def _inlined(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    return Iterator(context, iterate(context, call(context, _PYTHON[cls], *args, **kwargs)))


def _slice(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    items, *ends = args
    start, stop, step = (None, *ends, None) if len(ends) == 1 else (*ends, None)[:3]
    made = call(context, _sliced, items, start, stop, 1 if step is None else step)
    return Iterator(context, iterate(context, made))


def _count_of(start: Any = 0, step: Any = 1) -> tuple[Any, Any]:
    return start, step


def _repeat_of(object: Any, times: Any = ENDLESS) -> tuple[Any, Any]:
    return object, times


def _count(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    start, step = guarded(context, lambda: _count_of(*args, **kwargs))
    for number in (start, step):
        if class_of(number) not in (int, bool):
            raise UnsupportedCall(f"`count` with {type_word(number)}", context.span(),
                                  hint="multiply by the float in the loop")
    return Iterator(context, Iterable(ENDLESS, lambda cx, k: numbers.binary(
        cx, "add", start, numbers.binary(cx, "mul", k, step)), False))


def _repeat(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    item, times = guarded(context, lambda: _repeat_of(*args, **kwargs))
    times = numbers.minimum(context, times, 0, largest=True)
    return Iterator(context, Iterable(times, lambda cx, k: item, False))


def _cycle(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    items = call(context, list_methods.collected, *args)
    length = protocol.length(context, items)

    def item(cx: Context, k: Any) -> Any:
        return protocol.get_item(cx, items, numbers.binary(cx, "mod", k, length))

    some = numbers.compare(context, "gt", length, 0)
    return Iterator(context, Iterable(numbers.select(context, some, ENDLESS, 0), item, False))


def _known(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """The arguments that are iterables come first; what is left are numbers."""
    before = context.state.copy()
    try:
        given = [a if isinstance(a, int) else items_of(context, a) for a in args]
    except NotStatic:
        context.state = before  # an iterator among them has given nothing yet
        return Iterator(context, iterate(context, call(context, _UNKNOWN[cls], *args, **kwargs)))
    return Iterator(context, sequence(guarded(context, lambda: list(cls(*given, **kwargs)))))


CONSTRUCTORS.update(dict.fromkeys((_Groups, _Group), instance))
CONSTRUCTORS.update({itertools.islice: _slice, itertools.groupby: _groupby, itertools.count: _count,
                     itertools.repeat: _repeat, itertools.cycle: _cycle, **dict.fromkeys(_PYTHON, _inlined)})
CONSTRUCTORS.update(dict.fromkeys(_UNKNOWN, _known))
HANDLERS[itertools.chain.from_iterable] = lambda cx, args, kwargs: Iterator(cx, iterate(cx, call(cx, _chained, *args)))

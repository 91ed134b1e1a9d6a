"""What is stored late: attributes, items, `.grad`s and content of containers, wherever the script leaves.

Such changes are made when the call ends. Before a node that may raise, a `pending` node says which of them have been
made at that place and not been stored, so that the exception finds them.
"""

from collections.abc import Mapping
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.boundary.results import Results
from jitgrad.script.frontend.containers import foreign_dicts
from jitgrad.script.frontend.gradients import backward
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import locations, pools
from jitgrad.script.frontend.values.values import RunItems, RunPairs, SymTensor, Tail, is_held, refers


@dataclass(slots=True)
class Change:
    """A place outside the script that holds something else now than when the call began.

    `content`: what the list or dict there holds, where that is stored as a whole; else None.
    """

    place: sig.Place
    value: Any
    content: Any = None

    def recipe(self, results: Results) -> sig.Result:
        """How what is stored is made."""
        return results.tree(self.value) if self.content is None else results.content(self.value, self.content)


def changes(context: Context) -> list[Change]:
    """Everything besides memory and numbers that the script has changed so far on the way to this point."""
    inputs, state = context.inputs, context.state
    for container in inputs.changed:
        if isinstance(locations.fetch(context, state, container), RunPairs):  # which keys it has, the run decides
            inputs.rewritten[container] = None
    found = [Change(path, locations.fetch(context, state, slot)) for slot, path in inputs.stores.items()
             if inputs.is_new(slot, path)]
    found += [Change(path, item) for path, item in foreign_dicts.stores(context)]
    for container in inputs.rewritten:
        content = locations.fetch(context, state, container)
        if isinstance(content, Tail):
            content = _rest(context, container, content)
        if _is_content_new(context, container, content):
            kind = sig.Tail if isinstance(content, Tail) else sig.Content
            found.append(Change(kind(container.source), container, content))
    return found


def stored(context: Context) -> None:
    """Everything is stored now: what was appended is not appended again."""
    for container in context.inputs.rewritten:
        content = locations.fetch(context, context.state, container)
        if isinstance(content, Tail):
            context.state.values["stored", container] = len(content)


def _rest(context: Context, container: Any, content: Tail) -> Tail:
    """What was appended to a list and not stored."""
    before = locations.fetch(context, context.state, ("stored", container))
    if not isinstance(before, int):
        raise UnsupportedCall("a list that the script did not make, and to which only some runs have appended when an "
                              "ignored function is called", context.span(), hint="call that on all ways, or on none")
    return Tail(content[before:])


def _is_content_new(context: Context, container: Any, content: Any) -> bool:
    before = context.inputs.initial(container)
    if content is before or isinstance(content, RunItems) or type(content) is not type(before):
        return content is not before
    if isinstance(content, dict):
        return list(content) != list(before) or any(v is not before[k] for k, v in content.items())
    return len(content) != len(before) or any(a is not b for a, b in zip(content, before, strict=True))


@dataclass(slots=True)
class _Record:
    """What the innermost `pending` node of a block, and those that it adds to, say: per place the value that it had.

    `version`: of all that decides that. `stale`: a block inside has said something else since.
    """

    said: dict[sig.Place, list[Any]]
    version: tuple[int, ...]
    stale: bool = False


_KEY = ("pending",)


def announce(context: Context) -> None:
    """Before a node that may raise: say what is to be stored then, unless that has been said."""
    inputs = context.inputs
    if not (inputs.stores or inputs.changed or inputs.rewritten):
        return
    record: _Record | None = context.recall(_KEY)
    if record is not None and not record.stale and record.version == _version(context):
        return
    found = {c.place: c for c in changes(context)}
    now = {place: _stamp(context, c) for place, c in found.items()}
    context.state.values.watched.update(_locations(context))
    version = _version(context)
    before = record.said if record is not None and not record.stale else {}
    new = [p for p, stamp in now.items() if not _same(before.get(p), stamp)]
    more = bool(before) and before.keys() <= now.keys() and not any(p in before for p in new)
    if not new and before.keys() == now.keys() and (record is None or not record.stale):
        context.remember(_KEY, _Record(now, version))
        return
    if more:  # what shares an object with something new is said again with it
        held = {id(x) for p in new for x in now[p] if refers(x)}
        more = not pools.of(context).by_site and not any(id(x) in held for stamp in before.values() for x in stamp)
    places = new if more else list(now)
    _emit(context, [found[p] for p in places], more)
    for scope in context.scopes:
        around = scope.get(_KEY)
        if around is None:
            scope[_KEY] = _Record({}, (), stale=True)
        else:
            around.stale = True
    context.remember(_KEY, _Record(now, version))


def _emit(context: Context, found: list[Change], more: bool) -> None:
    results = Results(context)  # its outputs are the node's inputs
    grad, context.grad = context.grad, True  # history that a value has, `no_grad` does not take
    made = [c.recipe(results) for c in found]
    recipe = tuple([results.with_pools(r) for r in made])
    context.grad = grad
    values = results.outputs
    carried = tuple(i for i, v in enumerate(values) if context.has_history(v))
    context.inputs.recipes.append(tuple(zip([c.place for c in found], recipe, strict=True)))
    context.builder.emit("pending", tuple(values), types=(), recipe=len(context.inputs.recipes) - 1, carried=carried,
                         hosted=tuple(sorted(results.on_host)), more=more)


def _version(context: Context) -> tuple[int, ...]:
    """Another one where anything that `changes` looks at may be another one."""
    inputs = context.inputs
    return (context.state.values.version, len(inputs.stores), len(inputs.changed), len(inputs.rewritten),
            len(pools.of(context).by_site))


def _locations(context: Context) -> set[Any]:
    """Where `changes` looks, and where it finds what it stores."""
    inputs, values = context.inputs, context.state.values
    found = {*inputs.stores, *inputs.changed, *inputs.rewritten, *pools.of(context).by_site.values(),
             *[("stored", container) for container in inputs.rewritten]}
    _walk(values, [values.get(key) for key in found], [], found)
    return found


def _stamp(context: Context, change: Change) -> list[Any]:
    """What decides what a change stores, as objects to compare by identity."""
    found: list[Any] = []
    if change.content is not None:
        found.append(type(change.content))
    _walk(context.state.values, [change.value if change.content is None else change.content], found, set())
    for pool in pools.of(context).by_site.values():
        found += locations.fetch(context, context.state, pool).leaves
    return found


def _walk(values: Mapping[Any, Any], pending: list[Any], found: list[Any], where: set[Any]) -> None:
    """Append values and all that they hold now; add the locations where that is."""
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        found.append(value)
        if isinstance(value, SymTensor):
            where.add(value.storage)
            found.append(values.get(value.storage))
            if value.storage.requires_grad and value.storage.input < 0:
                slot = backward.slot_of(value.storage)
                where.add(slot)
                pending.append(values.get(slot))
        elif isinstance(value, RunItems):
            found += value.leaves
        elif isinstance(value, tuple):
            found[-1] = len(value)
            pending += value
        elif isinstance(value, dict):
            found[-1] = len(value)
            found += value
            pending += value.values()
        elif is_held(value) and getattr(value, "source", None) is None and id(value) not in seen:
            seen.add(id(value))
            where.add(value)
            pending.append(values.get(value))


def _same(before: list[Any] | None, now: list[Any]) -> bool:
    return before is not None and len(before) == len(now) and all(
        a is b or (type(a) is int and type(b) is int and a == b) for a, b in zip(before, now, strict=True))

"""What is stored late: attributes, items, `.grad`s and content of containers, wherever the script leaves.

Such changes are made when the call ends. Before a node that may raise, a `pending` node says which of them have been
made at that place and not been stored, so that the exception finds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jitgrad.script import signature as sig
from jitgrad.script.frontend import gradients, mappings, merge
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.results import Results
from jitgrad.script.frontend.values import HELD, RunItems, SymTensor, Tail
from jitgrad.script.ir import Value


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
    found = [Change(path, merge.fetch(context, state, slot)) for slot, path in inputs.stores.items()
             if inputs.is_new(slot, path)]
    found += [Change(path, item) for path, item in mappings.stores(context)]
    for container in inputs.rewritten:
        content = merge.fetch(context, state, container)
        if _is_content_new(context, container, content):
            kind = sig.Tail if isinstance(content, Tail) else sig.Content
            found.append(Change(kind(container.source), container, content))
    return found


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

    `stale`: a block inside has said something else since.
    """

    said: dict[sig.Place, list[Any]]
    stale: bool = False


_KEY = ("pending",)


def announce(context: Context) -> None:
    """Before a node that may raise: say what is to be stored then, unless that has been said."""
    inputs = context.inputs
    if not (inputs.stores or inputs.changed or inputs.rewritten):
        return
    found = {c.place: c for c in changes(context)}
    now = {place: _stamp(context, c) for place, c in found.items()}
    record: _Record | None = context.recall(_KEY)
    before = record.said if record is not None and not record.stale else {}
    new = [p for p, stamp in now.items() if not _same(before.get(p), stamp)]
    more = bool(before) and before.keys() <= now.keys() and not any(p in before for p in new)
    if not new and before.keys() == now.keys() and (record is None or not record.stale):
        return
    if more:  # what shares an object with something new is said again with it
        held = {id(x) for p in new for x in now[p] if isinstance(x, (SymTensor, *HELD))}
        more = not any(id(x) in held for stamp in before.values() for x in stamp)
    places = new if more else list(now)
    _emit(context, [found[p] for p in places], more)
    for scope in context.scopes:
        around = scope.get(_KEY)
        if around is None:
            scope[_KEY] = _Record({}, stale=True)
        else:
            around.stale = True
    context.remember(_KEY, _Record(now))


def _emit(context: Context, found: list[Change], more: bool) -> None:
    results = _Pending(context)
    grad, context.grad = context.grad, True  # history that a value has, `no_grad` does not take
    recipe = tuple([c.recipe(results) for c in found])
    context.grad = grad
    values = results.outputs
    carried = tuple(i for i, v in enumerate(values) if context.has_history(v))
    context.inputs.recipes.append(tuple(zip([c.place for c in found], recipe, strict=True)))
    context.builder.emit("pending", tuple(values), types=(), recipe=len(context.inputs.recipes) - 1, carried=carried,
                         more=more)


class _Pending(Results):
    """The trees of what is stored; `outputs` are the node's inputs."""

    def __init__(self, context: Context):
        super().__init__(context)
        self._seen: set[Value] | None = None

    def _visible(self) -> set[Value]:
        """Values of the blocks around."""
        if self._seen is None:
            self._seen = {v for b in self.context.path for n in b.nodes for v in n.outputs}
            self._seen.update(*(b.params for b in self.context.path), self.context.inputs.values)
        return self._seen


def _stamp(context: Context, change: Change) -> list[Any]:
    """What decides what a change stores, as objects to compare by identity."""
    values = context.state.values
    found: list[Any] = []
    pending: list[Any] = [change.value if change.content is None else change.content]
    if change.content is not None:
        found.append(type(change.content))
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        found.append(value)
        if isinstance(value, SymTensor):
            found.append(values.get(value.storage))
            if value.storage.requires_grad and value.storage.input < 0:
                pending.append(values.get(gradients.slot_of(value.storage)))
        elif isinstance(value, RunItems):
            found += value.leaves
        elif isinstance(value, tuple):
            found[-1] = len(value)
            pending += value
        elif isinstance(value, dict):
            found[-1] = len(value)
            found += value
            pending += value.values()
        elif isinstance(value, HELD) and getattr(value, "source", None) is None and id(value) not in seen:
            seen.add(id(value))
            pending.append(values.get(value))
    return found


def _same(before: list[Any] | None, now: list[Any]) -> bool:
    return before is not None and len(before) == len(now) and all(
        a is b or (type(a) is int and type(b) is int and a == b) for a, b in zip(before, now, strict=True))


__all__ = ["Change", "announce", "changes"]

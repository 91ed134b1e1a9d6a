"""Which variables of a loop hold copies, where it carries tensors and containers by what they hold."""

from collections import Counter
from typing import Any

from jitgrad.script.frontend.state import copies
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.templates import locations
from jitgrad.script.frontend.templates.identities import given, shared
from jitgrad.script.frontend.templates.references import CHOSEN, copied
from jitgrad.script.frontend.templates.template import Template


class CopyingHead:
    """What a loop carries: location -> template, in order.

    Attributes:
        copies: locations that hold a copy of what something else refers to.
        chosen: locations that the body makes refer to what the script was given.
    """

    def __init__(self, context: Context, entry: State):
        self.context, self.entry = context, entry
        self.templates: dict[Any, Template] = {}
        self.copies: set[Any] = set()
        self.chosen: set[Any] = set()

    def _is_older(self, cell: Any) -> bool:
        """Whether a storage or container was there before the loop."""
        return given(cell) or cell in self.entry.values

    def _note_copies(self, head: State, end: State) -> None:
        """Note which locations hold copies: of what was there before the loop, of what two places refer to, or of what
        a location has that holds a copy. A write to one begins the evaluation again."""
        context = self.context
        several = shared(self.entry)
        known, own, changed = (of := copies.of(context)).shared, of.stands, of.changed
        found = {}
        for key, t in self.templates.items():
            before = set(copied(self.entry, t, locations.fetch(context, self.entry, key)))
            mine = set(copied(head, t, head.values.get(key)))
            after = set(copied(end, t, locations.fetch(context, end, key)))
            found[key] = {c for c in before if given(c) or c in several or c in known or c in own}, mine, after
            if any(c in changed or head.values[c] is not end.values.get(c) for c in mine if c in head.values):
                changed |= before
            stood = {s for c in mine for s in own.get(c, ())}
            if any(given(c) or not stood.issuperset(own.get(c, ())) for c in after):
                self.chosen.add(key)
        again = Counter(c for *_, after in found.values() for c in after)
        merged: set[Any] = set()
        for _ in found:
            size = len(merged)
            for key, (before, mine, after) in found.items():
                older = {c for c in after if c in known or c in merged or self._is_older(c)}
                if before or older or any(again[c] > 1 for c in after):
                    self.copies.add(key)
                    merged |= before | older | mine
            if len(merged) == size:
                break
        copies.share(context, CHOSEN, *merged)
        for cell in merged:
            if cell in changed or (cell in head.values and head.values[cell] is not end.values.get(cell)):
                raise copies.changed(context, cell)

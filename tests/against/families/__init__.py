"""Families of programs: each draws one into a draft."""

from __future__ import annotations

from collections.abc import Callable

from tests.against.drafts import Draft
from tests.against.families import chains, functional, indexing, keywords, pointwise, reductions, views

FAMILIES: dict[str, Callable[[Draft], None]] = {
    "indexing": indexing.draw, "pointwise": pointwise.draw, "reductions": reductions.draw, "views": views.draw,
    "keywords": keywords.draw, "functional": functional.draw, "chains": chains.draw}

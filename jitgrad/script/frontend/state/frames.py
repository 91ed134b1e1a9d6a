"""Frames of inlined calls: where their names live and where their code stands."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from jitgrad.errors import Span
from jitgrad.script.frontend.source.liveness import Scope, scope_of
from jitgrad.script.frontend.source.source import Source


class Frame:
    """One activation of a function.

    Attributes:
        id: part of the location of its variables.
        source: its code.
        function: the real Python function, or None for one defined in the script.
        outer: the frame that a function defined in the script closes over.
        caller: where it was called from.
        names: name -> variable of an enclosing comprehension (comprehensions have names of their own).
        inside: how many enclosing comprehensions Python makes functions of: the frame's variables are free there.
        loops: the loops that are being evaluated, innermost last.
        consumer: for a generator's frame, what takes its items.
    """

    __slots__ = ("caller", "consumer", "function", "id", "inside", "loops", "names", "outer", "scope", "source",
                 "spans")

    def __init__(self, id_: int, source: Source, function: Callable[..., Any] | None, outer: Frame | None,
                 caller: Span | None):
        self.id = id_
        self.source, self.function, self.outer, self.caller = source, function, outer, caller
        self.scope: Scope = scope_of(source)
        self.names: dict[str, str] = {}
        self.inside = 0
        self.loops: list[Any] = []
        self.spans: dict[int, Span] = {}
        self.consumer: Any = None

    @property
    def real_function(self) -> Callable[..., Any]:
        """The real Python function that this frame's code stands in."""
        if self.function is not None:
            return self.function
        assert self.outer is not None, "only what is defined in a script has no function"
        return self.outer.real_function

    def closed_over(self) -> Frame:
        """The frame as a function that is defined now closes over it: comprehensions keep their variables."""
        if not self.names:
            return self
        found = copy.copy(self)
        found.names = dict(self.names)
        return found

    def span(self, node: ast.AST) -> Span | None:
        """The place of a node of this frame's code, with the chain of callers."""
        found = self.spans.get(id(node))
        if found is None:
            if not hasattr(node, "lineno"):
                return self.caller
            found = self.spans[id(node)] = self.source.span(node, self.caller)
        return found

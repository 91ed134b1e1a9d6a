"""The text being written: lines, fresh names, how many statements may still come."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Expressions, Scope


class Writer(Expressions):
    """Lines of a program; the base of every family of statements."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.lines: list[str] = []
        self.counter = 0
        self.features: set[str] = set()
        self.loops = self.branches = 0
        self.guarded = 0  # how many `try` are around; what may raise in them is refused
        self.left = 0  # statements that may still be written
        self.steps = False  # whether parameters change: then results do not depend on them

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """Any statement."""
        raise NotImplementedError

    def block(self, scope: Scope, depth: int, count: int, in_loop: bool) -> None:
        """Some statements."""
        before = len(self.lines)
        for _ in range(count):
            if self.left > 0:
                self.left -= 1
                self.statement(scope, depth, in_loop)
        if len(self.lines) == before:
            self.line(depth, f"m0 = m0 * {self.random.uniform(0.3, 0.9):.2f}")

"""Writes random Python programs: one function `f(x, y, w, b, c, n, s, flag, maybe, xs, box)`, with helpers before it.

Every program ends (loop counters are never assigned by anything else), has at least one data-dependent loop and one
data-dependent branch, keeps its values small, and branches on nothing that rounding could decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.fuzz import world
from tests.fuzz.features import Features
from tests.fuzz.grammar.containers import Containers
from tests.fuzz.grammar.control import Control
from tests.fuzz.grammar.effects import Effects
from tests.fuzz.grammar.expressions import Frame, Scope
from tests.fuzz.grammar.functions import Functions
from tests.fuzz.grammar.library import Library
from tests.fuzz.grammar.memory import Memory
from tests.fuzz.grammar.objects import Objects
from tests.fuzz.grammar.steps import Steps
from tests.fuzz.grammar.values import Values

Statement = Callable[[Scope, int, bool], None]
#: programs that share one account of what was tried: a seed names its program, whatever range it is run in
BLOCK = 250


class Generator(Values, Functions, Memory, Control, Containers, Effects, Library, Objects, Steps):
    """Writes `f`: x, y, c f64[N, D], w f64[D, D], b f64[D], an int, a float, a bool, a tensor or None, a list, a box.
    """

    def __init__(self, seed: int, tried: Features):
        super().__init__(seed)
        self.tried = tried
        self.extra: list[str] = []

    def statement(self, scope: Scope, depth: int, in_loop: bool) -> None:
        kinds: list[Statement] = [*[self.assign] * 4, self.update, self.write, self.view, self.output, self.ternary,
                                  self.pack, self.silent, self.closure, self.call, self.give, self.text, self.alias,
                                  self.data, self.attribute, self.attribute, self.argument_list, self.random_number,
                                  self.global_counter, self.built_text, self.ranks, self.several_kinds, self.keyed,
                                  self.constants, self.starred, self.cut, self.large, self.flags, self.same,
                                  self.made_by_loop, self.views_of_views]
        if depth < 4:
            kinds += [self.branch, self.branch, self.count_loop, self.while_loop, self.row_loop, self.static_loop,
                      self.other_loop, self.optional, self.collect, self.gather, self.gather, self.number_list,
                      self.comprehension, self.table, self.named, self.function, self.handled, self.select,
                      self.generated, self.recursive, self.raised_below, self.ordered, self.choices, self.strings,
                      self.record, self.attempts, self.keys, self.named_at_once, self.deep, self.beside]
            kinds += [self.training] * (5 if self.steps else 1)
        if in_loop:
            kinds += [self.leave_loop]
        weights = [1 + self.tried.untried(kind.__name__, self.features) for kind in kinds]
        (chosen,) = self.random.choices(kinds, weights)
        self.features.add(chosen.__name__)
        chosen(scope, depth, in_loop)

    def helper(self) -> None:
        """A function that `f` calls."""
        name, returns = self.fresh("helper"), self.pick(["matrix", "pair"])
        outer, self.frame = self.frame, Frame("p", ("k", "p.shape[0]", "2"), returns)
        self.line(0, f"def {name}(p, q, w, k: int = 2, s: float = 0.5):")
        self.line(1, "m0 = p * 0.5 + q")
        self.line(1, "b = q.mean(dim=0)")
        self.line(1, "i0 = k")
        scope = Scope(["p", "q", "m0"], ["b"], [], ["k", "i0"])
        self.left = 4
        self.block(scope, 1, self.random.randrange(1, 3), False)
        self.line(1, f"return {self.result(scope)}")
        self.line(0, "")
        self.line(0, "")
        self.frame = outer
        self.helpers.append((name, returns))

    def program(self) -> str:
        """The source of `f` and of its helpers."""
        self.line(0, f"# {self.pick(list(world.OPTIMIZERS))}")
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self.helper()
        self.loops = self.branches = 0
        self.steps = self.chance(0.4)
        size = self.random.choice((5, 8, 8, 12, 12, 16, 20, 28, 40))
        self.left = size
        if self.chance(0.3):
            self.extra = ["i0"]
        self.line(0, "def f(x, y, w, b, c, n: int, s: float, flag, maybe, xs, box):")
        self.line(1, "m0 = x * 0.5 + b")
        self.line(1, "i0 = 1")
        scope = Scope(["x", "y", "m0", "(c + 0.0)"], ["b", "xs[0]"], [], ["n", "i0", "box.count"], [], ["box.scale"],
                      ["maybe"], [], ["flag"])
        if not self.steps:
            scope.vectors += ["box.p"]
            scope.functions += ["box"]
        self.block(scope, 1, size // 2, False)
        if not self.loops:
            self.while_loop(scope, 1, False)
        if not self.branches:
            self.branch(scope, 1, False)
        terms = [f"{m}.tanh().sum()" for m in self.random.sample(scope.matrices, min(3, len(scope.matrices)))]
        terms += self.random.sample(scope.scalars, min(1, len(scope.scalars)))
        self.line(1, f"return {' + '.join(terms)} + m0.sum()" + (", i0" if self.extra else ""))
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Program:
    """A program's source and what is in it."""

    source: str
    features: frozenset[str]
    loops: int
    branches: int


@cache
def _block(first: int) -> tuple[list[Program], Features]:
    return [], Features()


def program(seed: int) -> Program:
    """The program of a seed; feature pairs that its block's programs before it lack are likelier."""
    first = seed - seed % BLOCK
    programs, tried = _block(first)
    while len(programs) <= seed - first:
        generator = Generator(first + len(programs), tried)
        source = generator.program()
        tried.add(generator.features)
        programs.append(Program(source, frozenset(generator.features), generator.loops, generator.branches))
    return programs[seed - first]


__all__ = ["Program", "program"]

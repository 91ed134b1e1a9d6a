"""Python's library on what only the run knows; numbers that a script must know while it compiles."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Library(Writer):
    """Heaps, searches, choices; axes and counts of parts that are arguments."""

    def ordered(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A heap that a loop fills and empties, or a list that is kept in order."""
        name, k = self.fresh("ns"), self.fresh("k")
        self.line(depth, f"{name} = {self.pick(['[]', '[2]', f'[{self.integer(scope)}]'])}")
        self.loops += 1
        self.line(depth, f"for {k} in range({self.pick(self.frame.bounds)}):")
        inner = scope.copy()
        inner.ints.append(k)
        push = self.pick(["heapq.heappush", "bisect.insort", "bisect.insort_left"])
        item = f"{push}({name}, {self.integer(inner)} % 7)"
        if self.chance(0.4):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, item)
        else:
            self.line(depth + 1, item)
        if not push.startswith("heapq"):
            self.line(depth, f"i0 = bisect.bisect({name}, {self.integer(scope)})")
        elif self.chance(0.6):
            i = self.fresh("i")
            self.line(depth, f"{i} = 0")
            self.line(depth, f"while len({name}) > {self.random.randrange(2)}:")
            self.line(depth + 1, f"{i} = {i} % 50 + 2 * heapq.heappop({name})")
            scope.ints.append(i)
        self.line(depth, f"print({name})")
        scope.numbers.append(name)

    def choices(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """What `itertools` makes of ranges and rows."""
        made, bound = self.fresh("t"), self.pick(self.frame.bounds)
        rows = self.pick([f"itertools.combinations({self.pick(scope.matrices)}, 2)",
                          f"itertools.product({self.pick(scope.matrices)}, (b, {self.vector(scope, 1)}))"])
        self.loops += 1
        self.line(depth, f"{made} = sum([(p * q).tanh().sum() for p, q in {rows}]) * 0.1 + b.sum()")
        ints = self.pick([f"itertools.permutations(range({bound}), 2)", f"itertools.product(range({bound}), 'ab')",
                          f"itertools.zip_longest(range({bound}), range(2), fillvalue={self.integer(scope)})"])
        self.line(depth, f"print(list({ints}))")
        scope.scalars.append(made)

    def constants(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """An argument where a constant is needed."""
        known, made = "k" if not self.frame.main else "n", self.fresh("t")
        m = self.matrix(scope, 1)
        self.line(depth, f"{made} = " + self.pick([
            f"{m}.sum(dim={known} % 2).tanh().sum()", f"{m}.softmax(-1 - {known} % 2).amax()",
            f"sum([p.tanh().sum() * (j + 1) for j, p in enumerate({m}.chunk({known} % 3 + 1))])",
            f"sum([p.sum().tanh() for p in {m}.tensor_split({known} % 3 + 1, dim=1)])",
            f"{m}.mean(dim=0, keepdim={known} > 1).tanh().sum()"]))
        scope.scalars.append(made)

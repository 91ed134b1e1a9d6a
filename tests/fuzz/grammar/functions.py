"""Generators, recursion, global counters, raises in called functions; values of several kinds, sets, keyed dicts."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Functions(Writer):
    """Generators, recursion, global counters, raises in called functions; values of several kinds, sets, keyed dicts.
    """

    def generated(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A generator function and a loop over it, perhaps left early."""
        self.loops += 1
        name, item, index = self.fresh("gen"), self.fresh("m"), self.fresh("k")
        self.line(depth, f"def {name}(z):")
        self.line(depth + 1, f"for j in range({self.random.randrange(1, 4)}):")
        self.line(depth + 2, f"yield j, (z * {self.number(scope)}).tanh()")
        self.line(depth, f"for {index}, {item} in {name}({self.matrix(scope, 1)}):")
        self.line(depth + 1, f"m0 = (m0 + {item} * 0.5).tanh()")
        if self.chance(0.3):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(scope)}:")
            self.line(depth + 2, "break")

    def recursive(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A function that calls itself a known number of times."""
        name = self.fresh("rec")
        self.line(depth, f"def {name}(z, j):")
        self.line(depth + 1, "if j == 0:")
        self.line(depth + 2, "return z * 0.5")
        self.line(depth + 1, f"return ({name}(z, j - 1) + {self.matrix(scope, 1)}).tanh()")
        self.line(depth, f"m0 = {name}({self.matrix(scope, 1)}, {self.random.randrange(1, 4)})")

    def global_counter(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A global that the caller rebinds between calls is read."""
        self.line(depth, self.pick(["i0 = (i0 + OFFSET) % 7", "m0 = m0 * (OFFSET % 3) * 0.5",
                                    "print('offset', OFFSET)"]))

    def raised_below(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A called function surely raises; the caller handles it."""
        name, tag = self.fresh("fails"), self.counter
        self.line(depth, f"def {name}(z):")
        self.line(depth + 1, f"raise {self.pick(['ValueError', 'KeyError'])}('{tag}')")
        self.line(depth, "try:")
        self.line(depth + 1, f"m0 = {name}({self.pick(scope.matrices)})")
        self.line(depth, "except (ValueError, KeyError) as error:")
        self.line(depth + 1, f"print('below {tag}', error)")

    def several_kinds(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A variable that is of one kind here and of another there, then asked which."""
        self.branches += 1
        name = self.fresh("u")
        first, second, asked = self.random.choice((
            (self.integer(scope), f"({self.integer(scope)}, {self.matrix(scope, 1)})", "int"),
            (self.matrix(scope, 1), f"[{self.vector(scope, 1)}]", "list"),
            ("None", f"[{self.vector(scope, 1)}]", "list")))
        self.line(depth, f"{name} = {first}")
        self.line(depth, f"if {self.condition(scope)}:")
        self.line(depth + 1, f"{name} = {second}")
        self.line(depth, f"if isinstance({name}, {asked}):")
        use = f"{name}[0].tanh()" if asked == "list" else f"{name} % 3"
        self.line(depth + 1, f"m0 = m0 * 0.5 + {use}")
        self.line(depth, "else:")
        self.line(depth + 1, "m0 = m0 + 0.25")

    def ranks(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A tensor of rank 1 or 2."""
        self.branches += 1
        name = self.fresh("u")
        self.line(depth, f"{name} = {self.vector(scope, 1)}")
        self.line(depth, f"if {self.condition(scope)}:")
        self.line(depth + 1, f"{name} = {self.matrix(scope, 1)}")
        self.line(depth, self.pick([f"m0 = (m0 + {name}).tanh()", f"m0 = m0 * ({name} + {name}.ndim)"]))

    def keyed(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A set of constants and a dict of ints and strings as keys."""
        name = self.fresh("d")
        self.line(depth, f"{name} = {{1: {self.vector(scope, 1)}, 'a': {self.integer(scope)}}}")
        self.line(depth, f"{name}[2] = {name}[1] * 0.5")
        self.line(depth, f"if {self.pick(scope.ints)} in {{1, 2, 5}}:")
        self.line(depth + 1, f"{name}['a'] += 1")
        self.line(depth, f"print({name}['a'], len({name}), 3 in {name})")
        self.line(depth, f"m0 = m0 + {name}[2].tanh()")

    def built_text(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A string that is made at run time, kept in a variable and printed."""
        name = self.fresh("text")
        self.line(depth, f"{name} = f'{{{self.pick(scope.ints)}}}:' + str({self.integer(scope)})")
        self.line(depth, f"print({name}, '|' + {name})")

    def strings(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A string known only at run time: grown by a loop, chosen by a branch, cut, and asked for numbers."""
        name, other, table = self.fresh("s"), self.fresh("s"), self.fresh("d")
        start = self.pick(["''", "f'{" + self.integer(scope) + "}'", "'ab'"])
        self.line(depth, f"{name} = {start}")
        if self.chance(0.6):
            self.loops += 1
            k = self.fresh("k")
            grown = self.pick([f"{name} + f'{{{k}}}.'", f"f'<{{{name}}}' + 'x' * {k}"])
            self.line(depth, f"for {k} in range({self.pick(scope.ints)} % 4):")
            self.line(depth + 1, f"{name} = {grown}")
            if self.chance(0.3):
                self.line(depth + 1, f"if len({name}) > 5:")
                self.line(depth + 2, "break")
        cut = self.pick([".upper()", "[1:]", "[::-1]", ".rjust(4)", ".lstrip('1')"])
        self.line(depth, f"{other} = {name}{cut}")
        if self.chance(0.6):
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            self.line(depth + 1, f"{name} = {self.pick([other, repr('left'), f'{name} + {other}'])}")
        use = self.pick(["if", "print", "count", "key", "number", "split"])
        if use == "if":
            asked = self.pick([f"'1' in {name}", f"{name} == {other}", name, f"{name}.endswith('.')"])
            self.line(depth, f"if {asked}:")
            self.line(depth + 1, f"m0 = (m0 + {self.matrix(scope, 1)}).tanh()")
        elif use == "count":
            self.line(depth, f"i0 = (i0 + len({name}) + {name}.count('1')) % 7")
        elif use == "key":
            self.line(depth, f"{table} = {{'left': 1, {name}: 2}}")
            self.line(depth, f"m0 = m0 * (0.1 * {table}.get({other}, 3))")
        elif use == "number":
            self.line(depth, "try:")
            self.line(depth + 1, f"i0 = int({name}) % 7")
            self.line(depth, "except ValueError as error:")
            self.line(depth + 1, "print('no number', error)")
        elif use == "split":
            self.line(depth, f"print({name}.split('.'), '-'.join([c + '!' for c in {other}]))")
        self.line(depth, f"print({name}, {other})")

"""Lists that grow, dicts, named tuples, comprehensions."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Scope
from tests.fuzz.grammar.writer import Writer


class Containers(Writer):
    """Lists that grow, dicts, named tuples, comprehensions."""

    def gather(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A list that a loop fills and perhaps empties, and what becomes of it."""
        name, index = self.fresh("rows"), self.fresh("k")
        start = self.pick(["[]", "[b]", "[b, b * 0.5]"])
        self.line(depth, f"{name} = {start}")
        self.loops += 1
        row, inner = self.fresh("v"), scope.copy()
        if self.chance(0.5):
            self.line(depth, f"for {index} in range({self.pick(self.frame.bounds)}):")
            inner.ints.append(index)
        else:
            self.line(depth, f"for {row} in {self.pick(scope.matrices)}:")
            inner.vectors.append(row)
        inner.lists.append(name)
        self.change(inner, depth + 1, name)
        if self.chance(0.5):
            self.block(inner, depth + 1, 1, True)
        if self.chance(0.5):
            self.change(inner, depth + 1, name)
        self.use(scope, depth, name)
        if self.chance(0.6):
            scope.lists.append(name)

    def change(self, scope: Scope, depth: int, name: str) -> None:
        """Append, or take away, perhaps under a condition."""
        if self.chance(0.4):
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            depth += 1
        text = f"{name}.append({self.vector(scope, 1)} * 1.0)"
        if self.chance(0.3):
            text = self.pick([f"{name}.pop() if {name} else None", f"{name} += [b]",
                              f"{name}.insert(0, {self.vector(scope, 1)} * 1.0)", f"{name}.extend([b * 0.5, b + 1.0])",
                              f"{name} = {name} + [{self.vector(scope, 1)} * 1.0]", f"{name}.reverse()",
                              f"{name}.clear()", f"{name} = {name}[:3]"])
            if text.startswith(f"{name}.pop"):
                self.line(depth, f"if len({name}) > {self.random.randrange(3)}:")
                self.line(depth + 1, self.pick([f"m0 = m0 + {name}.pop()", f"{name}.pop(0)", f"del {name}[0]"]))
                return
        self.line(depth, text)

    def use(self, scope: Scope, depth: int, name: str) -> None:
        """One tensor of a list."""
        made = self.fresh("v")
        whole = self.pick([f"jitgrad.stack({name}).mean(dim=0)", f"jitgrad.stack({name}, dim=1).sum(dim=1).tanh()",
                           f"jitgrad.cat({name}).reshape(-1, w.shape[0]).amax(dim=0)", f"{name}[len({name}) // 2]",
                           f"sum([r * (j + 1) for j, r in enumerate({name})])",
                           f"jitgrad.stack([r.tanh() for r in {name} if {self.truth(scope)}] + [b]).sum(0)"])
        self.line(depth, f"{made} = {whole} if {self.pick([f'len({name}) > 0', name])} else b * 0.1")
        scope.vectors.append(made)

    def number_list(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A list of ints that a loop fills."""
        name, index = self.fresh("ns"), self.fresh("k")
        self.line(depth, f"{name} = {self.pick(['[]', '[1, 2]', f'[{self.integer(scope)}]'])}")
        self.loops += 1
        inner = scope.copy()
        inner.ints.append(index)
        inner.numbers.append(name)
        self.line(depth, f"for {index} in range({self.pick(self.frame.bounds)}):")
        if self.chance(0.4):
            self.branches += 1
            self.line(depth + 1, f"if {self.condition(inner)}:")
            self.line(depth + 2, self.pick(["continue", f"{name}.append(7)", f"{name}.append({self.integer(inner)})"]))
        self.line(depth + 1, f"{name}.append({self.integer(inner)})")
        if self.chance(0.3):
            self.line(depth + 1, f"if len({name}) > 2:")
            self.line(depth + 2, self.pick([f"i0 = {name}.pop()", f"i0 += {name}.pop(0)", f"{name}[0] = {index}",
                                            f"{name}[{index} % 2] += 1"]))
        if self.chance(0.5):
            self.line(depth, f"print(len({name}), sum({name}), sum({name}[-2:]))")
        scope.numbers.append(name)

    def comprehension(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A list out of a run-time iteration."""
        kind = self.random.randrange(4)
        self.loops += 1
        inner = scope.copy()
        if kind == 0:
            name = self.fresh("rows")
            inner.vectors += ["r", "r"]
            condition = f" if {self.condition(inner, 2)}" if self.chance(0.3) else ""
            made = f"{self.vector(inner, 1)} * 1.0"
            self.line(depth, f"{name} = [{made} for r in {self.pick(scope.matrices)}{condition}]")
            scope.lists.append(name)
        elif kind == 1:
            name = self.fresh("ns")
            inner.ints += ["j", "j"]
            condition = f" if {self.truth(inner)}" if self.chance(0.4) else ""
            bound = self.pick(self.frame.bounds)
            self.line(depth, f"{name} = [{self.integer(inner)} for j in range({bound}){condition}]")
            scope.numbers.append(name)
        elif kind == 2:
            name = self.fresh("m")
            inner.matrices += ["z", "z"]
            self.line(depth, f"{name} = sum([{self.matrix(inner, 1)} for z in ({self.pick(scope.matrices)}, "
                             f"{self.matrix(scope, 1)})]) * 0.5")
            scope.matrices.append(name)
        else:
            name = self.fresh("t")
            inner.vectors += ["r"]
            inner.ints += ["j"]
            self.line(depth, f"{name} = sum({self.vector(inner, 1)}.sum().tanh() * (j + 1) for j, r in "
                             f"enumerate({self.pick(scope.matrices)})) + b.sum()")
            scope.scalars.append(name)

    def table(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A dict with constant keys, changed in a loop."""
        name, m, i = self.fresh("d"), self.fresh("m"), self.fresh("i")
        self.line(depth, f"{name} = {{'h': {self.matrix(scope, 1)}, 'k': {self.integer(scope)}}}")
        if self.chance(0.6):
            self.loops += 1
            self.line(depth, f"for {i} in range({self.pick(self.frame.bounds)}):")
            inner = scope.copy()
            inner.ints += [i, f"{name}['k']"]
            inner.matrices += [f"{name}['h']"] * 2
            if self.chance(0.4):
                self.branches += 1
                self.line(depth + 1, f"if {self.condition(inner)}:")
                self.line(depth + 2, self.pick(["break", "continue", f"{name}['k'] += 5"]))
            self.line(depth + 1, f"{name}['h'] = {self.matrix(inner, 1)}.tanh()")
            self.line(depth + 1, f"{name}['k'] {self.pick(['+=', '-='])} {self.random.randrange(1, 3)}")
        self.line(depth, f"{m} = {name}['h'] * ({name}.get('z', 1) + {name}['k'] % 3)")
        if self.chance(0.3):
            self.line(depth, f"print([key for key in {name}], {name}['k'], 'z' in {name})")
        if self.chance(0.3):
            self.counts(scope, depth)
        scope.matrices.append(m)

    def counts(self, scope: Scope, depth: int) -> None:
        """A dict by strings that the run chooses, filled in a loop."""
        name, key, i = self.fresh("d"), self.fresh("w"), self.fresh("i")
        self.loops += 1
        self.branches += 1
        self.line(depth, f"{name} = " + self.pick(["{}", "{'a': 1}"]))
        self.line(depth, f"for {i} in range({self.pick(self.frame.bounds)}):")
        inner = scope.copy()
        inner.ints.append(i)
        self.line(depth + 1, f"{key} = 'a' if {self.condition(inner)} else 'b'")
        self.line(depth + 1, self.pick([
            f"{name}[{key}] = {name}.get({key}, 0) + {self.integer(inner)}", f"{name}[{key}] = {i}",
            f"{name}.setdefault({key}, {self.integer(inner)})"]))
        self.line(depth, f"print({name}, 'b' in {name}, len({name}))")

    def named(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A named tuple carried by a loop or chosen by a branch."""
        name, m, i = self.fresh("st"), self.fresh("m"), self.fresh("i")
        self.line(depth, f"{name} = State({self.matrix(scope, 1)}, {self.integer(scope)})")
        inner = scope.copy()
        inner.matrices += [f"{name}.h"] * 2
        inner.ints += [f"{name}.k"]
        if self.chance(0.6):
            self.loops += 1
            self.line(depth, f"for {i} in range({self.pick(self.frame.bounds)}):")
            inner.ints.append(i)
        else:
            self.branches += 1
            self.line(depth, f"if {self.condition(inner)}:")
        self.line(depth + 1, self.pick([
            f"{name} = State({self.matrix(inner, 1)}.tanh(), {name}.k + 1)",
            f"{name} = {name}._replace(h={self.matrix(inner, 1)}.tanh())",
            f"{name} = State(h={self.matrix(inner, 1)}.tanh(), k={self.integer(inner)} % 5)"]))
        kept = self.fresh("i")
        self.line(depth, f"{m}, {kept} = {name}")
        scope.matrices.append(m)
        scope.ints.append(kept)

    def argument_list(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """The caller's list grows or changes."""
        if not self.frame.main or in_loop:
            return self.table(scope, depth, in_loop)
        if self.chance(0.3):
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            depth += 1
        self.line(depth, self.pick([f"xs.append({self.vector(scope, 1)}.detach() * 1.0)", "xs[0] = xs[0] * 0.5",
                                    "xs[-1] *= 0.5", f"xs[1] = {self.vector(scope, 1)}.detach() * 1.0"]))

"""The statements of a kernel as lines of CUDA C++, an element or a vector of E neighbours at a time.

A kind of kernel (`pointwise.py`, `rows.py`, `columns.py`) derives from `Writer`: it prints loops and decides which axes
each thread walks; the lines in them come from here. Along the lane axis an operand of stride 1 is read and written as
`jg_pack<T, E>`: one access of 16 bytes (wider types: several) where `full` holds, else element by element; other
operands are read element by element. What is the same for all E elements (the index of a row of a table) is computed
before them, and the row that it leads to is read, or added to, as a vector too.
Names, besides those of `addresses.py`: `v<i>` values of statements, `x<i>`, `y<i>` vectors read and written, `r<i>`
parts of a reduction.
"""

from collections.abc import Iterable, Sequence

from jitgrad import dtypes
from jitgrad.codegen.cuda.kernels.addresses import Folding
from jitgrad.codegen.cuda.kernels.draws import step_of
from jitgrad.codegen.cuda.kernels.scalars import (COMPUTED, EXPRESSIONS, STORED, Comparison, convert, literal, narrow,
                                                  widen)
from jitgrad.codegen.program.kernel import RANDOM_WORD, SPREAD, Kernel
from jitgrad.codegen.program.plan import STORES, Plan, dependencies, is_reloaded, make_plan


class Writer(Folding):
    """Prints one function of one kernel."""

    widens = False  # whether what is read of half types is made floats at once, which takes registers

    def __init__(self, kernel: Kernel, lane: int, vectors: bool = True):
        super().__init__(kernel, lane, vectors)
        self.plan: Plan = make_plan(kernel, 0)
        self.slots: dict[int, str] = {}             # where a kept value is, but for `[...]`
        self.slot_index = ""
        self.preloaded: dict[int, str] = {}         # kept loads that are vectors already
        self.dependencies = dependencies(kernel)
        self.rows: frozenset[int] = frozenset()     # gathers and scatters of the sweep whose E elements are neighbours
        self.whole = False                          # whether all vectors of the row have E elements and are aligned
        self.divided: frozenset[int] = frozenset()  # quotients by `d<i>`, see `jg_divisor`
        self.packs: frozenset[int] = frozenset()    # kept values that wait as vectors
        self.copied: dict[int, int] = {}            # stores of vectors as they were read, by which statement
        self.short = False                          # whether lane indices are below 1 << 30: `e` is an int

    # --- a vector of elements ---

    def elements(self, indices: Sequence[int], stage: int, bound: str, position: str = "") -> None:
        """The statements for the E elements from lane index `e` on, as far as they are below `bound`; without one
        `full` and `m` say how far that is.

        `position`: the number of the first one in the flattened inner space, for argmax.
        """
        if self.width == 1:
            self.line(f"const i64 i{self.lane} = e;") if self.lane_index_used(indices, stage) else None
            self.each(indices, stage, position or "e")
            return
        common = self.common(indices)
        if common:
            self.each(common, stage, "", vector=False)
            indices = [i for i in indices if i not in common]
        reads = {i: k for i in indices if (k := self.reads_vector(i, stage)) >= 0}
        writes = {i: k for i in indices if (k := self.writes_vector(i, stage)) >= 0}
        if bound and not self.whole:
            if reads or writes:
                self.line(f"const bool full = aligned && e + {self.width} <= {bound};")
            self.line(f"const int m = jg_rest<{self.width}>({bound} - e);")
        self.read_vectors(reads)
        self.gather_rows()
        self.recall_vectors(indices, stage)
        self.declare(indices, stage, writes)
        self.divided = frozenset(self.quotients(indices))
        if self.divided:
            self.line("bool usual = true;")
        self.neighbourhood(indices, stage, position)
        if self.divided:  # some quotient needs the long way: all E elements again
            self.divided = frozenset()
            with self.block("if (!usual)"):
                self.neighbourhood(indices, stage, position)
        self.keep_vectors(indices, stage)
        self.write_vectors(writes)
        for i in sorted(self.rows):
            stmt = self.kernel.body[i]
            if stmt.op == "scatter_add":
                place = self.vector_place(stmt.operand, self.gathered_terms(i))
                self.line(f"jg_add_row<{self.width}>({place}, y{i}, {self.count});")

    def neighbourhood(self, indices: Sequence[int], stage: int, position: str) -> None:
        """The statements for each of E elements, in registers."""
        self.line("#pragma unroll")
        with self.block(f"for (int k = 0; k < {self.width}; k++)"):
            if self.lane_index_used(indices, stage):
                self.line(f"const i64 i{self.lane} = e + k;")
            self.each(indices, stage, f"{position or 'e'} + k")

    def quotients(self, indices: Sequence[int]) -> list[int]:
        """Divisions of elements by a number of their row, where nothing but vectors is changed: all can be repeated."""
        body, units = self.kernel.body, self.units
        if not self.whole or not all(body[i].op == "store" and body[i].operand in units if body[i].op in STORES
                                     else body[i].op != "reduce" for i in indices):
            return []
        return [i for i in indices if body[i].op == "div" and COMPUTED[self.kernel.dtype_of(i).name] == "float"
                and self.plan.element[body[i].args[0]] and not self.plan.element[body[i].args[1]]]

    @property
    def count(self) -> str:
        """How many of the E elements there are."""
        return str(self.width) if self.whole else "m"

    def counted(self, vector: bool, joined: str = "") -> str:
        """The condition that element k is one of them, and `joined`; nothing where it always is."""
        return f"k < m{joined}" if vector and not self.whole else ""

    def recall_vectors(self, indices: Iterable[int], stage: int) -> None:
        """Vectors `x<i>` of `packs` that an earlier sweep kept, and places `y<i>` for what this one does."""

    def keep_vectors(self, indices: Iterable[int], stage: int) -> None:
        """Put vectors where later sweeps find them."""

    def stretch(self, indices: Sequence[int], threads: int) -> None:
        """The statements for the elements from `begin` to `end`, by the threads of a block."""
        with self.block(f"for (i64 e = begin + (i64)threadIdx.x{self.times}; e < end; e += {threads * self.width})"):
            self.elements(indices, 0, "end")

    def common(self, indices: Sequence[int]) -> list[int]:
        """What is the same for all E elements and can be computed once; notes which rows their indices lead to."""
        found: list[int] = []
        others, rows = set(indices), set()
        for i in indices:
            stmt = self.kernel.body[i]
            arguments = stmt.args[stmt.op == "scatter_add":]
            if stmt.op == RANDOM_WORD or not others.isdisjoint(arguments) or i in self.plan.spill:
                continue
            if stmt.op in ("gather", "scatter_add") and self.kernel.operands[stmt.operand].strides[self.lane] == 1 and (
                    not any(self.dependencies[a] >> self.lane & 1 for a in arguments)):
                rows.add(i)
            elif (stmt.op not in STORES and stmt.op != "reduce" and i not in self.preloaded
                    and not self.dependencies[i] >> self.lane & 1):
                found.append(i)
                others.discard(i)
        self.rows = frozenset(rows)
        return found if rows or any(self.kernel.body[i].op in ("load", "gather") for i in found) else []

    def gather_rows(self) -> None:
        """Vectors `x<i>` of what gathers read at neighbouring places, and `y<i>` for what scatters add there."""
        for i in sorted(self.rows):
            stmt = self.kernel.body[i]
            kind = STORED[self.kernel.operands[stmt.operand].dtype.name]
            if stmt.op == "scatter_add":
                self.line(f"jg_pack<{kind}, {self.width}> y{i};")
                continue
            count = f"v{stmt.args[0]} ? {self.count} : 0" if stmt.fn == "where" else self.count
            place = self.vector_place(stmt.operand, self.gathered_terms(i))
            self.line(f"const jg_pack<{kind}, {self.width}> x{i} = jg_read_row<{self.width}>({place}, {count});")

    def read_vectors(self, reads: dict[int, int]) -> None:
        by_type: dict[str, list[str]] = {}
        for i, k in reads.items():
            by_type.setdefault(STORED[self.kernel.operands[k].dtype.name], []).append(f"x{i}")
        for kind, names in by_type.items():
            self.line(f"jg_pack<{kind}, {self.width}> {', '.join(names)};")
        self.whole_or_some([f"x{i} = jg_read{{}}<{self.width}>({self.vector_place(k)}{{}});" for i, k in reads.items()])
        for i, k in reads.items():
            if self.widens and self.kernel.operands[k].dtype.is_half:
                self.line(f"const jg_pack<float, {self.width}> f{i} = jg_widened(x{i});")

    def whole_or_some(self, calls: Sequence[str]) -> None:
        """Accesses of vectors, whole ones where they are, else of their first `m` elements."""
        if self.whole:
            for call in calls:
                self.line(call.format("", ""))
        elif calls:
            for head, how in (("if (full)", ("", "")), ("else", ("_some", ", m"))):
                with self.block(head):
                    for call in calls:
                        self.line(call.format(*how))

    def declare(self, indices: Sequence[int], stage: int, writes: dict[int, int]) -> None:
        """Vectors to be written, and words that neighbours share."""
        self.copied = self.copies(indices, stage, writes)
        for i, k in writes.items():
            if i in self.copied:
                continue
            self.line(f"jg_pack<{COMPUTED[self.kernel.operands[k].dtype.name]}, {self.width}> y{i};")
        for i in indices:
            if self.kernel.body[i].op == RANDOM_WORD and not is_reloaded(self.plan, i, stage):
                if self.is_run(i):
                    self.run_of_words(i, indices, stage)
                else:
                    self.line(f"jg_words w{i};")
                    self.line(f"w{i}.known = false;")

    def copies(self, indices: Sequence[int], stage: int, writes: dict[int, int]) -> dict[int, int]:
        """Stores of vectors that are written as they were read: by which statement."""
        body, found = self.kernel.body, {}
        for i, k in writes.items():
            source = body[i].args[0] if body[i].op == "store" else -1
            if (source in indices and body[source].op == "load" and source not in self.preloaded
                    and source not in self.plan.spill and self.reads_vector(source, stage) >= 0
                    and self.kernel.dtype_of(source) is self.kernel.operands[k].dtype):
                found[i] = source
        return found

    def is_run(self, i: int) -> bool:
        """Whether neighbours take neighbouring words."""
        return step_of(self.kernel, self.kernel.body[i].args[0], self.lane) == 1

    def run_of_words(self, i: int, indices: Sequence[int], stage: int) -> None:
        """The words `w<i>` of all E elements, from the number of the first one's."""
        body, wanted = self.kernel.body, set(self.kernel.body[i].args)
        for j in range(i - 1, -1, -1):
            if j in wanted:
                wanted.update(body[j].args)
        first = [j for j in indices if j in wanted]
        self.line(f"jg_run<{self.width}> w{i};")
        with self.block():
            if self.lane_index_used(first, stage):
                self.line(f"const i64 i{self.lane} = e;")
            self.each(first, stage, "", vector=False)
            self.recall_arguments(i, first, stage)
            arguments = ", ".join(f"v{a}" for a in body[i].args)
            self.line(f"w{i} = jg_philox_run<{self.width}>({arguments});")

    def write_vectors(self, writes: dict[int, int]) -> None:
        call, of = f"jg_write{{}}<{self.width}>", self.kernel.operands
        rounded = {i: f"x{self.copied[i]}" if i in self.copied else
                   f"jg_narrowed<{STORED[of[k].dtype.name]}>(y{i})" if of[k].dtype.is_half else f"y{i}"
                   for i, k in writes.items()}
        self.whole_or_some([f"{call}({self.vector_place(k)}, {rounded[i]}{{}});" for i, k in writes.items()])

    def recall_arguments(self, i: int, known: Sequence[int], stage: int) -> None:
        """Names for arguments of statement i that those of `known` do not need, where results' values wait."""

    def reads_vector(self, i: int, stage: int) -> int:
        """The operand that statement i reads as a vector, or -1."""
        if i in self.preloaded:
            return -1
        if is_reloaded(self.plan, i, stage):
            k = self.plan.spill[i]
            return k if k in self.units else -1
        stmt = self.kernel.body[i]
        return stmt.operand if stmt.op == "load" and stmt.operand in self.units else -1

    def writes_vector(self, i: int, stage: int) -> int:
        """The operand that statement i writes as a vector, or -1."""
        stmt = self.kernel.body[i]
        if stmt.op == "store":
            return stmt.operand if stmt.operand in self.units else -1
        k = self.plan.spill.get(i, -1)
        return k if k in self.units and not is_reloaded(self.plan, i, stage) else -1

    def lane_index_used(self, indices: Sequence[int], stage: int) -> bool:
        """Whether a statement needs the index along the lane axis itself."""
        body, operands = self.kernel.body, self.kernel.operands
        for i in indices:
            stmt = body[i]
            if is_reloaded(self.plan, i, stage):
                k = self.plan.spill[i]
            elif stmt.op == "index":
                if stmt.axis == self.lane:
                    return True
                continue
            else:
                k = stmt.operand if stmt.operand >= 0 else self.plan.spill.get(i, -1)
            if k < 0 or i in self.preloaded or i in self.rows or self.lane < 0 or operands[k].strides[self.lane] == 0:
                continue
            if self.width == 1 or (self.reads_vector(i, stage) < 0 and self.writes_vector(i, stage) < 0):
                return True
        return False

    def each(self, indices: Sequence[int], stage: int, position: str, vector: bool = True) -> None:
        for i in indices:
            if self.kernel.body[i].op == "reduce" and self.kernel.inner:
                self.accumulate(i, position)
            else:
                self.statement(i, stage, vector=vector and self.width > 1)

    # --- statements ---

    def define(self, i: int, d: dtypes.dtype, text: str) -> None:
        self.line(f"const {COMPUTED[d.name]} v{i} = {text};")

    def statement(self, i: int, stage: int, vector: bool = False) -> None:
        """One statement other than a reduction over inner axes. `vector`: for element k of `m` from `e` on."""
        stmt, kernel = self.kernel.body[i], self.kernel
        if stmt.op in STORES:
            self.store(i, stage, vector)
            return
        d = kernel.dtype_of(i)
        self.define(i, d, self.value(i, stage, vector))
        if i in self.plan.spill and not is_reloaded(self.plan, i, stage) and i not in self.preloaded:
            k = self.plan.spill[i]
            if k < 0:
                kept = narrow(f"v{i}", d) if self.as_stored(i) else f"v{i}"
                if i not in self.packs:
                    self.line(f"{self.slots[i]}[{self.slot_index}] = {kept};")
                elif not self.is_vector(i, stage):
                    self.line(f"y{i}.at[k] = {kept};")
            elif vector and k in self.units:
                self.line(f"y{i}.at[k] = {narrow(f'v{i}', kernel.operands[k].dtype)};")
            else:
                counted = self.counted(vector)
                guard = f"if ({counted}) " if counted else ""
                self.line(f"{guard}{self.place(k)} = {narrow(f'v{i}', kernel.operands[k].dtype)};")

    def is_vector(self, i: int, stage: int) -> bool:
        """Whether statement i reads a vector `x<i>` from memory."""
        return i in self.rows or self.reads_vector(i, stage) >= 0

    def as_stored(self, i: int) -> bool:
        """Whether a kept value waits in the type of memory: it was read from there."""
        return self.kernel.body[i].op in ("load", "gather")

    def value(self, i: int, stage: int, vector: bool) -> str:
        stmt, kernel = self.kernel.body[i], self.kernel
        op, d = stmt.op, kernel.dtype_of(i)
        if i in self.preloaded:
            return widen(self.preloaded[i], d)
        if is_reloaded(self.plan, i, stage) and self.plan.spill[i] < 0:
            kept = f"x{i}.at[k]" if i in self.packs else f"{self.slots[i]}[{self.slot_index}]"
            return widen(kept, d) if self.as_stored(i) else kept
        if vector and self.is_vector(i, stage):
            return f"f{i}.at[k]" if self.widens and d.is_half and i not in self.rows else widen(f"x{i}.at[k]", d)
        if is_reloaded(self.plan, i, stage):
            return self.guarded(widen(self.place(self.plan.spill[i]), d), d, vector)
        if op == "load":
            moves = self.lane >= 0 and kernel.operands[stmt.operand].strides[self.lane] != 0
            return self.guarded(widen(self.place(stmt.operand), d), d, vector and moves)
        if op == "gather":
            text = widen(self.gathered(i), d)
            if stmt.fn == "where":
                return f"{self.counted(vector, ' && ')}v{stmt.args[0]} ? {text} : {literal(0, d)}"
            return self.guarded(text, d, vector)
        if op == "const":
            return literal(stmt.value, d)
        if op == "scalar":
            return f"c{stmt.number}"
        if op == "index":
            return f"i{stmt.axis}"
        if op == "reduce":  # a kernel without inner axes: one element
            return self.single(i)
        if short := self.compared(i, vector):
            return short
        if i in self.divided:
            return f"jg_quotient(v{stmt.args[0]}, d{i}, usual)"
        arguments = [f"v{a}" for a in stmt.args]
        if op == RANDOM_WORD and vector:
            return f"(i64)w{i}.at[k]" if self.is_run(i) else f"jg_philox({', '.join([f'w{i}', *arguments])})"
        source = kernel.dtype_of(stmt.args[1] if op == "where" else stmt.args[0])
        return EXPRESSIONS[op](arguments, source, d, stmt.value)

    def guarded(self, text: str, d: dtypes.dtype, vector: bool) -> str:
        counted = self.counted(vector)
        return f"{counted} ? {text} : {literal(0, d)}" if counted else text

    def compared(self, i: int, vector: bool) -> str:
        """A comparison of the lane index with a number of the row in 32 bits: where it is short, or of all E elements
        for equality. "" for others.
        """
        stmt, body = self.kernel.body[i], self.kernel.body
        row = EXPRESSIONS[stmt.op]
        if not isinstance(row, Comparison) or not (self.short or (vector and row.sign in ("==", "!="))):
            return ""
        for own, other in (stmt.args, stmt.args[::-1]):
            if (body[own].op != "index" or body[own].axis != self.lane
                    or self.kernel.dtype_of(other) is not dtypes.int64):
                continue
            if not self.short:
                if not self.dependencies[other] >> self.lane & 1:
                    return f"(k {row.sign} jg_short(v{other} - e))"
            elif not self.plan.element[other]:
                left, right = ("k", f"jg_short(v{other}) - e") if vector else ("e", f"jg_short(v{other})")
                sides = (left, right) if own == stmt.args[0] else (right, left)
                return f"({f' {row.sign} '.join(sides)})"
        return ""

    def store(self, i: int, stage: int, vector: bool) -> None:
        stmt = self.kernel.body[i]
        d = self.kernel.operands[stmt.operand].dtype
        value, source = f"v{stmt.args[0]}", self.kernel.dtype_of(stmt.args[0])
        if stmt.op != "store" or not d.is_half or COMPUTED[source.name] != "float":  # else narrowing rounds
            value = convert(value, source, d)
        if vector and i in self.copied:
            return
        if vector and (i in self.rows or self.writes_vector(i, stage) >= 0):
            self.line(f"y{i}.at[k] = {narrow(value, d) if i in self.rows else value};")
            return
        place = self.target(i, vector)
        counted = self.counted(vector)
        guard = f"if ({counted}) " if counted else ""
        if stmt.op == "scatter_add":
            self.line(f"{guard}jg_add(&{place}, {value});")
        else:
            self.line(f"{guard}{place} = {narrow(value, d)};")

    def target(self, i: int, vector: bool) -> str:
        """Where a store goes."""
        stmt = self.kernel.body[i]
        return self.place(stmt.operand) if stmt.op == "store" else self.gathered(i)

    # --- reductions ---

    def single(self, i: int) -> str:
        """A reduction over no axes."""
        stmt, kernel = self.kernel.body[i], self.kernel
        first, source = f"v{stmt.args[0]}", kernel.dtype_of(stmt.args[0])
        if stmt.fn in ("argmax", "argmin"):
            return "0"
        if stmt.fn == "dot":
            return f"({first} * v{stmt.args[1]})"
        if stmt.fn in ("any", "all"):
            return convert(convert(first, source, dtypes.bool_), dtypes.bool_, kernel.dtype_of(i))
        return convert(first, source, stmt.dtype or source)

    def start(self, reductions: Iterable[int]) -> None:
        for i in reductions:
            self.line(f"{self.accumulator(i)} r{i} = {self.identity(i)};")

    def accumulate(self, i: int, position: str) -> None:
        stmt = self.kernel.body[i]
        d = self.kernel.dtype_of(stmt.args[0])
        values = [f"v{a}" for a in stmt.args]
        part = self.part_of(i)
        if stmt.fn == "dot":
            text = EXPRESSIONS["fma"]([*values, part], d, d, 0)
        else:
            value = values[0]
            if stmt.fn in ("any", "all"):
                value = convert(value, d, dtypes.bool_)
            elif stmt.fn in ("argmax", "argmin"):
                value = f"{self.accumulator(i)}{{{value}, (i64)({position})}}"
            text = f"{self.join(i)}::of({part}, {value})"
        alone = self.width == 1 or self.whole or part.endswith("[k]")  # each of the neighbours has its own
        self.line(f"{part} = {text};" if alone else f"{part} = k < m ? {text} : {part};")

    def part_of(self, i: int) -> str:
        """What a reduction is accumulated in."""
        return f"r{i}"

    def result(self, i: int) -> None:
        """The value of a reduction whose parts are joined in r<i>."""
        stmt, source = self.kernel.body[i], self.source_of(i)
        part = self.part_of(i)
        if stmt.fn in ("argmax", "argmin"):
            self.define(i, dtypes.int64, f"{part}.at")
        elif stmt.fn == SPREAD:
            self.define(i, source, f"{self.join(i)}::from({part}, v{stmt.args[1]})")
        else:
            self.define(i, stmt.dtype or source, convert(part, source, stmt.dtype or source))

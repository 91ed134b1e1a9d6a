"""`Explanation`: a measured call as tables, for the terminal and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.script.call.mismatch import mismatch
from jitgrad.script.call.sources import resolve
from jitgrad.script.executor import Dispatcher
from jitgrad.script.inspect.explain import decisions
from jitgrad.script.inspect.explain.ceilings import SIDE, Ceilings, ceilings
from jitgrad.script.inspect.explain.measure import PROGRAMS, Measured, Run, Step, measure
from jitgrad.script.inspect.lines import Function, Line, functions_of, places

#: how long a stretch of lines without a cost is shown whole
QUIET = 8
_SOURCE = 64  # columns of source text


def explain(function: Dispatcher, params: tuple[Any, ...], backward: bool = True) -> Explanation:
    values = function.values_of(params)
    chosen = function.specialisation_of(params)
    if chosen.function.device.type != "cpu":
        raise RuntimeError(f"`{function.__qualname__}` runs on {chosen.function.device}: `explain` measures on the "
                           "CPU; `traffic` counts what a GPU launches and moves")
    script = function.build(values, *chosen.options)
    if script.calls_back:
        raise RuntimeError(f"`{function.__qualname__}` calls ignored Python functions: running it for a measurement "
                           "would repeat their effects")
    script.graph.name = function.__name__
    objects = [resolve(s, values) for s in script.inputs]
    plain = chosen.function if chosen.function.faces else None
    measured = measure(script.graph, objects, function.__name__, script.differentiable, plain, backward)
    code = function.eager.__code__
    home = Line(code.co_filename, code.co_firstlineno)
    functions = functions_of([*_first_line(function, home), *_lines(measured)])
    return Explanation(function.__qualname__, functions, measured, decisions.guards(chosen),
                       list(dict.fromkeys(script.log)), decisions.run_time_values(chosen),
                       [mismatch(s, values) for s in function.specialisations if s is not chosen],
                       list(function.recompilations),
                       str(function.cache_info()), ceilings())


def _first_line(function: Dispatcher, home: Line) -> list[Line]:
    """A line inside the scripted function (its code starts at the first decorator), if it is the user's."""
    from jitgrad.script.frontend.source.source import source_of

    source = source_of(function.eager)
    first = source.node.body[0] if isinstance(source.node.body, list) else source.node.body
    if function.eager.__module__.partition(".")[0] == "jitgrad":
        return []  # a module's call, which leads to the user's `forward`
    return [Line(home.file, first.lineno + source.first)]


def _lines(measured: Measured) -> list[Line]:
    worked = [line for run in measured.runs.values() for step in run.steps for line in step.lines]
    return list(dict.fromkeys([*worked, *(line for line in measured.saved if line is not None)]))


class Explanation:
    """What a call cost and why. `str()` gives tables; notebooks show them as HTML.

    Attributes:
        functions: the user's functions that take part, the scripted one first.
        measured: the figures: `runs["forward"].steps`, `saved`, `reasons`, `kernels`.
        guards: what a call must be like to run this program.
        log: decisions taken while compiling.
        inputs: what is read at every entry and never recompiles.
        others: per other specialisation of the function, why it does not take this call.
        recompilations: why each was compiled, in order.
        cache: `cache_info()` as text.
        ceilings: what this machine can do at most, measured.
    """

    def __init__(self, name: str, functions: list[Function], measured: Measured, guards: list[str], log: list[str],
                 inputs: list[str], others: list[str], recompilations: list[str], cache: str, ceilings: Ceilings):
        self.name, self.functions, self.measured, self.guards = name, functions, measured, guards
        self.log, self.inputs, self.others, self.recompilations = log, inputs, others, recompilations
        self.cache, self.ceilings = cache, ceilings

    # --- figures ---------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> dict[str, Run]:
        return self.measured.runs

    @property
    def steps(self) -> list[Step]:
        return [step for program in PROGRAMS if program in self.runs for step in self.runs[program].steps]

    def charged(self, line: Line) -> list[Step]:
        """The steps that are charged to a line."""
        return [s for s in self.steps if s.lines and s.lines[0] == line]

    def shared(self, line: Line) -> list[Step]:
        """Steps that work for a line too, and are charged to another."""
        return [s for s in self.steps if line in s.lines[1:]]

    @property
    def saved_bytes(self) -> int:
        """Bytes that the forward pass stores for the backward; inputs that it merely keeps are not among them."""
        return sum(self.measured.saved.values())

    # --- text ------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [self._head(), *(self._table(f) for f in self.functions), self._elsewhere(), self._steps(),
                 _section("not one kernel, and why", self._reasons()),
                 _section("decisions while compiling", self.log),
                 _section("guards: this program runs while", self.guards),
                 _section("read at every entry (a change never recompiles)", self.inputs),
                 _section("specialisations", self._specialisations()), NOTES]
        return "\n\n".join(p for p in parts if p)

    __repr__ = __str__

    def _head(self) -> str:
        rows = []
        for program, run in self.runs.items():
            cost = [s.cost for s in run.steps]
            kinds = {k: sum(s.kind == k for s in run.steps) for k in ("kernel", "product", "library")}
            calls = sum(c.calls for c in cost)
            names = {"kernel": "kernels", "product": "products", "library": "library calls"}
            what = ", ".join(f"{n} {names[k] if n > 1 else names[k].rstrip('s')}" for k, n in kinds.items() if n)
            rows.append(f"  {program:<8}  {_time(run.untimed):>9} a call "
                        f"({_time(run.timed)} of native code with timers: "
                        f"{_time(run.timed - run.rest)} in steps, {_time(run.rest)} between them)\n"
                        f"            {what or 'nothing to run'}"
                        + (f" in {calls} call{'s' if calls > 1 else ''}" if calls else "")
                        + f"; {_bytes(sum(c.read for c in cost))} read, {_bytes(sum(c.written for c in cost))} written"
                        + (f", {_count(sum(c.flops for c in cost))}FLOP" if any(c.flops for c in cost) else "")
                        + f"; workspace {_bytes(run.workspace)}")
        if self.measured.saved or self.measured.kept:
            rows.append(f"  saved     {_bytes(self.saved_bytes)} for the backward pass, besides "
                        f"{_bytes(self.measured.kept)} of inputs that are kept")
        return "\n".join([f"{self.name}", *rows])

    def _table(self, function: Function) -> str:
        programs = [p for p in PROGRAMS if p in self.runs]
        heads = [f"{p:>9} {'moved':>9}" for p in programs]
        title = f"{function.name or 'module level'}, {function.file}"
        lines = [title, f"{'line':>5} {'':<{_SOURCE}} {' '.join(heads)} {'FLOP':>7} {'saved':>9}  steps"]
        for number in self._shown(function):
            if number is None:
                lines.append(f"{'...':>5}")
            else:
                lines.append(self._row(Line(function.file, number), programs).rstrip())
        return "\n".join(lines)

    def _shown(self, function: Function) -> list[int | None]:
        """Line numbers; None for a long stretch without costs that is left out."""
        numbers: list[int | None] = []
        quiet: list[int] = []
        for number in [*range(function.first, function.last + 1), None]:
            line = Line(function.file, number or 0)
            if number is not None and not (self.charged(line) or self.shared(line) or line in self.measured.saved):
                quiet.append(number)
                continue
            numbers += [quiet[0], None, quiet[-1]] if len(quiet) > QUIET else quiet
            quiet = []
            if number is not None:
                numbers.append(number)
        return numbers

    def _row(self, line: Line, programs: Sequence[str]) -> str:
        mine, others = self.charged(line), self.shared(line)
        cells = []
        for program in programs:
            steps = [s for s in mine if s.program == program]
            moved = sum(s.cost.read + s.cost.written for s in steps)
            cells.append(f"{_time(sum(s.cost.seconds for s in steps)) if steps else '':>9} "
                         f"{_bytes(moved) if steps else '':>9}")
        flops = sum(s.cost.flops for s in mine)
        saved = self.measured.saved.get(line, 0)
        labels = [_short(mine), f"({_short(others)})" if others else ""]
        return (f"{line.number:>5} {_cut(line.text):<{_SOURCE}} {' '.join(cells)} {_count(flops) if flops else '':>7} "
                f"{_bytes(saved) if saved else '':>9}  {' '.join(filter(None, labels))}")

    def _elsewhere(self) -> str:
        """What belongs to no line."""
        lost = [s for s in self.steps if not s.lines]
        saved = self.measured.saved.get(None, 0)
        rows = [f"  {s.label} ({_ops(s)}, for a result): {_time(s.cost.seconds)}" for s in lost]
        if saved:
            rows.append(f"  {_bytes(saved)} saved")
        return _section("without a source line", rows)

    def _steps(self) -> str:
        rows = []
        total = sum(s.cost.seconds for s in self.steps) or 1.0
        for s in self.steps:
            c = s.cost
            rate = (f"{_count(c.flops / c.seconds)}FLOP/s" if c.flops and c.seconds else
                    f"{_count((c.read + c.written) / c.seconds)}B/s" if c.seconds else "")
            share = self.ceilings.share(s)
            rows.append(f"  {s.label:<12} {s.program:<8} {c.calls:>6} {_time(c.seconds):>9} {c.seconds / total:>6.1%} "
                        f"{_bytes(c.read):>9} {_bytes(c.written):>9} {rate:>13} "
                        f"{'' if share is None else f'{share:.0%}':>6}  "
                        f"{places(s.lines)}: {_cut(_ops(s), 60)}")
        head = (f"  {'step':<12} {'program':<8} {'calls':>6} {'time':>9} {'share':>6} {'read':>9} {'written':>9} "
                f"{'rate':>13} {'of max':>6}")
        return "\n".join(["steps", head, *rows, *self._ceilings()]) if rows else ""

    def _ceilings(self) -> list[str]:
        """What `of max` is of, in words."""
        best = self.ceilings
        moved = ", ".join(f"{_count(rate)}B/s for {_bytes(size)}" for size, rate in best.bytes.items())
        flops = ", ".join(f"{_count(rate)}FLOP/s in {dtype}" for dtype, rate in best.flops.items())
        return ["", f"  of max: of what this machine does when it scales a tensor and moves as many bytes ({moved})",
                f"  or multiplies matrices of {SIDE} rows and columns ({flops})"]

    def _reasons(self) -> list[str]:
        rows = [reason.text(count) for reason, count in self.measured.reasons.items()]
        if any(s.kind == "product" for s in self.steps):
            rows.append("matmul -> anything: a matrix product is a call of the BLAS; its result is stored")
        return rows

    def _specialisations(self) -> list[str]:
        rows = [self.cache]
        rows += [f"compiled again: {reason}" for reason in self.recompilations]
        rows += [f"another specialisation does not take this call: {reason}" for reason in self.others]
        return rows

    # --- HTML ------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """The line tables with bars, the rest as text."""
        longest = max([sum(s.cost.seconds for s in self.charged(line)) for line in _lines(self.measured)] or [0]) or 1.0
        tables = [self._html_table(f, longest) for f in self.functions]
        rest = "\n\n".join(p for p in str(self).split("\n\n") if not any(
            p.startswith(f"{f.name or 'module level'}, {f.file}") for f in self.functions))
        return f"{STYLE}<div class='jitgrad-explain'>{''.join(tables)}<pre>{html.escape(rest)}</pre></div>"

    def _html_table(self, function: Function, longest: float) -> str:
        programs = [p for p in PROGRAMS if p in self.runs]
        head = "".join(f"<th>{h}</th>" for h in ("line", "", *programs, "moved", "saved", "steps"))
        rows = []
        for number in self._shown(function):
            if number is None:
                rows.append("<tr><td>⋮</td></tr>")
                continue
            line = Line(function.file, number)
            mine = self.charged(line)
            cells = [f"<td>{number}</td><td class=s>{html.escape(line.text) or ' '}</td>"]
            for program in programs:
                seconds = sum(s.cost.seconds for s in mine if s.program == program)
                bar = f"<i style='width:{100 * seconds / longest:.0f}%'></i>" if seconds else ""
                cells.append(f"<td class=t>{bar}<span>{_time(seconds) if seconds else ''}</span></td>")
            moved = sum(s.cost.read + s.cost.written for s in mine)
            saved = self.measured.saved.get(line, 0)
            names = html.escape(", ".join(f"{s.label} ({_ops(s)})" for s in mine), quote=True)
            cells.append(f"<td>{_bytes(moved) if moved else ''}</td><td>{_bytes(saved) if saved else ''}</td>"
                         f"<td class=k title='{names}'>{html.escape(_short(mine))}</td>")
            rows.append(f"<tr>{''.join(cells)}</tr>")
        title = html.escape(f"{function.name or 'module level'}, {function.file}")
        return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead>{''.join(rows)}</table>"


NOTES = """\
how it was measured
  Times are medians over several runs of a variant with a timer around each step; inside loops they add up over the
  iterations. A timer costs about 10 ns a step. A step that works for several lines is charged to the one with most of
  its ops; the others show it in parentheses. Bytes are what the loads and stores of a step touch, each element of an
  operand once a call, whether it comes from a cache or from memory. FLOP are those of matrix products."""

STYLE = """<style>
.jitgrad-explain{font:13px/1.4 ui-monospace,monospace}.jitgrad-explain table{font:inherit;border-collapse:collapse;
margin:8px 0}
.jitgrad-explain caption{text-align:left;opacity:.7}.jitgrad-explain td,.jitgrad-explain th{text-align:right;
padding:0 8px;white-space:pre;border:0;background:none}.jitgrad-explain td.s,.jitgrad-explain td.k{text-align:left}
.jitgrad-explain td.t{position:relative;min-width:80px}.jitgrad-explain td.t i{position:absolute;right:0;top:2px;
bottom:2px;background:#e8833a55;border-radius:2px}.jitgrad-explain td.t span{position:relative}
.jitgrad-explain tbody tr:hover td{background:#8882}.jitgrad-explain pre{font:inherit;background:none}
</style>"""


def _section(title: str, rows: Iterable[str]) -> str:
    rows = list(rows)
    return "\n".join([title, *(row if row.startswith("  ") else "  " + row for row in rows)]) if rows else ""


def _short(steps: Sequence[Step]) -> str:
    """Labels, and how often the steps ran where not once: "kernels 1-3, 7 x64, product 1"."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for s in steps:
        kind, _, number = s.label.rpartition(" ")
        numbers.setdefault((kind, s.cost.calls), []).append(int(number))
    return ", ".join(f"{kind}{'s' if len(found) > 1 else ''} {_ranges(found)}{f' x{calls}' if calls != 1 else ''}"
                     for (kind, calls), found in numbers.items())


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ", ".join("-".join(map(str, p)) for p in parts)


def _ops(step: Step) -> str:
    return " ".join(step.ops)


def _cut(text: str, width: int = _SOURCE) -> str:
    return text if len(text) <= width else text[:width - 3] + "..."


def _time(seconds: float) -> str:
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "us", 1e6), (1.0, "ms", 1e3)):
        if seconds < limit:
            value = scale * seconds
            return f"{value:.{0 if unit == 'ns' else 2 if value < 10 else 1}f} {unit}"
    return f"{seconds:.2f} s"


def _count(number: float) -> str:
    for limit, unit in ((1e3, ""), (1e6, "k"), (1e9, "M"), (1e12, "G")):
        if number < limit:
            value = number * 1e3 / limit
            return f"{value:.0f} {unit}" if unit == "" or value >= 100 else f"{value:.1f} {unit}"
    return f"{number / 1e12:.1f} T"


def _bytes(number: float) -> str:
    return _count(number) + "B"

"""A graph as Python that a person can read, and that runs: real loops and branches, the user's lines as comments.

    import jitgrad

    def rnn(xs, h, wx, wh):
        # model.py:3  for x in xs:
        for k in range(xs.shape[0]):
            # model.py:4  h = jitgrad.tanh(x @ wx + h @ wh)
            h = jitgrad.tanh(xs[k] @ wx + h @ wh)
        # model.py:5  return (h * h).sum()
        return (h * h).sum()

Parameters are the graph's inputs, what is returned are its outputs. A value that is used once is folded into the
expression that uses it, unless that would move it across a loop, a branch or an effect. `if` results, loop carries and
sequences are ordinary variables. `commit(x, v)` writes v to the memory of input x, which is copied before if anything
may read it later; numbers that the program assigns outside go into the dict `stored`. Only a call of an ignored
function cannot run: the text names it.
"""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Sequence

from jitgrad.dims import Symbol
from jitgrad.errors import Span
from jitgrad.ops import OPS
from jitgrad.ops.opdef import VIEW
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value, payload, reads, symbol_axes, walk, within
from jitgrad.script.graph.irops import STRUCTURAL, Effect, effect
from jitgrad.script.inspect.lines import outside
from jitgrad.script.inspect.pyeffects import EFFECTS
from jitgrad.script.inspect.pyexpr import expression
from jitgrad.script.inspect.pynames import ATOM, Expression, Line, Operands, identifier, literal, wrap

_WIDTH = 70  # folded expressions longer than this get a line of their own
_COMMENT = 100  # the longest source line that a comment repeats whole


def to_python(graph: Graph, sources: Sequence[str] = ()) -> str:
    """The module text of `graph`, one function.

    Args:
        graph: what `verify` accepts.
        sources: per input, where its value comes from (`self.fc.weight`), told where the name does not say it.
    """
    return module([Printer(graph, sources)])


def gradient_to_python(forward: Graph, backward: Graph, n_outputs: int, sources: Sequence[str] = ()) -> str:
    """The module text of a derivative: a function that returns (results, saved) and one of (saved, cotangents).

    The second returns a gradient, or None where none arrives, for each input that is differentiated.
    """
    return module([Printer(forward, sources, n_outputs=n_outputs, name=f"{forward.name}_forward"),
                   Printer(backward, n_saved=len(forward.outputs) - n_outputs, name=f"{forward.name}_backward")])


def module(printers: Sequence[Printer]) -> str:
    body = "\n\n".join(p.print() for p in printers)
    code = re.sub(r"(?m)^ *#.*$", "", body)
    helpers = [name for name, used in (("commit", r"\bcommit\("), ("number", r"\bnumber\."), ("ops", r"\bops\."))
               if re.search(used, code)]
    lines = ["import math\n"] if re.search(r"\bmath\.", code) else []
    lines.append("import jitgrad")
    if helpers:
        lines.append(f"from jitgrad.script.inspect.pyhelpers import {', '.join(helpers)}")
    lines += sorted({line for p in printers for line in p.imports})
    return "\n".join(lines) + "\n\n\n" + body


class Printer(Operands):
    """Prints one function.

    Args:
        graph: its body.
        sources: as for `to_python`.
        n_outputs: of a forward that saves: how many outputs are results; the rest is returned as a tuple beside them.
        n_saved: of a backward: how many inputs are saved values, given as one tuple; outputs are (value, reached).
        name: instead of the graph's.
    """

    def __init__(self, graph: Graph, sources: Sequence[str] = (), *, n_outputs: int | None = None,
                 n_saved: int | None = None, name: str = ""):
        super().__init__(graph)
        self.sources, self.n_outputs, self.n_saved = sources, n_outputs, n_saved
        self.title = identifier(name or graph.name)
        self.lines: list[str] = []
        self.uses: Counter[Value] = Counter()  # reads, and more where sizes name the value
        self.last: frozenset[Line] = frozenset()  # those of the statement before
        self._count_uses()

    def _count_uses(self) -> None:
        blocks = [self.graph.block, *(b for node in walk(self.graph.block) for b in node.blocks)]
        for block in blocks:
            self.uses.update(block.results)
            self._bound(block.binds, block.params)
            for node in block.nodes:
                self.uses.update(node.inputs)
                self._bound(node.binds, node.outputs)
        self.reads = Counter([*self.graph.outputs, *reads(self.graph.block.nodes)])

    def _bound(self, symbols: Sequence[Symbol], values: Sequence[Value]) -> None:
        """Values whose sizes others may name are variables."""
        for v in values:
            self.uses[v] += 2 * any(symbol in symbols for _, symbol in symbol_axes(payload(v.type)))

    def print(self) -> str:
        block = self.graph.block
        params = [self.name(v) for v in block.params]
        given = params if self.n_saved is None else ["saved", *params[self.n_saved:]]
        stored = any(n.op == "commit" and not self._is_tensor(n.attrs["target"]) for n in walk(block))
        self.lines += [f"# {name} = {source}" for name, source in zip(params, self.sources, strict=False)
                       if source not in (name, "")]
        self.lines.append(f"def {self.title}({', '.join([*given, *(['stored'] if stored else [])])}):")
        if self.n_saved:
            self.write(1, ", ".join(params[:self.n_saved]) + ("," if self.n_saved == 1 else "") + " = saved")
        self.parameters = dict(zip(block.params, params, strict=True))
        for v in self._overwritten():
            old = self.fresh(self.names[v] + "_before")
            self.write(1, f"{old} = {self.names[v]}.clone()")
            self.names[v] = old
        for v in block.params:
            self.bind_sizes(v)
        self.block(block, 1)
        self.write(1, f"return {self._results()}".rstrip())
        return "\n".join(self.lines) + "\n"

    def _results(self) -> str:
        results = self.graph.outputs
        if self.n_saved is not None:
            return ", ".join(map(self._gradient, results[::2], results[1::2]))
        texts = [self.strong(r)[0] for r in results]
        if self.n_outputs is None:
            return ", ".join(texts)
        kept, saved = texts[:self.n_outputs], texts[self.n_outputs:]
        first = kept[0] if len(kept) == 1 else f"({', '.join(kept)})"
        return f"{first}, ({', '.join(saved)}{',' if len(saved) == 1 else ''})"

    def _gradient(self, value: Value, reached: Value) -> str:
        flag = self.take(reached)
        if flag[0] in ("True", "False"):
            return self.strong(value)[0] if flag[0] == "True" else "None"
        return f"{wrap(self.strong(value), 2)} if {flag[0]} else None"

    def _is_tensor(self, target: int) -> bool:
        return isinstance(self.graph.inputs[target].type, TensorType)

    def _overwritten(self) -> list[Value]:
        """Inputs whose memory is written while their old value may be read: by a view, in a loop, or afterwards."""
        found: dict[Value, None] = {}
        nodes = self.graph.block.nodes
        for at, node in enumerate(nodes):
            for commit in [n for n in within([node]) if n.op == "commit" and self._is_tensor(n.attrs["target"])]:
                target = self.graph.inputs[commit.attrs["target"]]
                readers = [(k, n) for k, top in enumerate(nodes) for n in within([top]) if target in n.inputs]
                everywhere = [r for n in nodes for b in n.blocks for r in b.results] + list(self.graph.outputs)
                safe = all(k < at and n.op in OPS and OPS[n.op].kind is not VIEW for k, n in readers)
                if not safe or target in everywhere:
                    found[target] = None
        return list(found)

    # --- statements ------------------------------------------------------------------------------------------------

    def write(self, depth: int, text: str, node: Node | None = None) -> None:
        """A line, after the user's lines that it comes from."""
        indent = "    " * depth
        if node is not None and (place := _place(node.span)) is not None:
            self.told.append(place)
        for line in sorted(set(self.told)):
            if line not in self.last:
                source = linecache.getline(*line).strip()
                cut = source if len(source) <= _COMMENT else source[:_COMMENT - 3] + "..."
                name = os.path.basename(line[0].strip("<>"))
                self.lines.append(f"{indent}# {name}:{line[1]}  {cut}".rstrip())
        self.last = frozenset(self.told) or self.last
        self.told.clear()
        self.lines.append(indent + text)

    def flush(self, depth: int, keep: Sequence[Value] = ()) -> None:
        """Write what is pending, so that it stays before what follows."""
        for value, ((text, _), lines) in list(self.pending.items()):
            if value not in keep:
                del self.pending[value]
                told, self.told = self.told, list(lines)
                self.write(depth, f"{self.name(value)} = {text}")
                self.told = told
                self.bind_sizes(value)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def block(self, block: Block, depth: int) -> None:
        """Every node; what is used once by the block's results is still pending afterwards."""
        results = set(block.results)
        for node in block.nodes:
            if node.op in STRUCTURAL:
                self.flush(depth, node.inputs[:1 + node.attrs.get("n_carries", 0)])  # read where it begins
                (self._if if node.op == "if" else self._loop)(node, depth)
                continue
            pure = effect(node.op, node.attrs) is Effect.NONE
            if pure and not node.binds and not any(self.uses[o] for o in node.outputs):
                continue
            if node.op == "dim.bind" and node.inputs[0] in self.pending:
                self.flush(depth)  # the size may be used often
            constant = self._constant(node)
            if constant is not None:
                self.constants[node.outputs[0]] = constant
                continue
            if node.op in ("region.begin", "region.end", "pending"):
                continue
            if node.op in EFFECTS:
                text = EFFECTS[node.op](self, node)
                self.flush(depth)
                self.write(depth, text, node)
                continue
            told, self.told = self.told, []
            text, binds = expression(self, node)
            lines = tuple(self.told) if (place := _place(node.span)) is None else (*self.told, place)
            self.told = told
            if node.op == "fill" and node.attrs["shape"] == ():
                self.weak.add(node.outputs[0])  # a number wherever it is read
            if pure and len(node.outputs) == 1 and not node.binds:
                (value,) = node.outputs
                if self.uses[value] == 1 and (value in results or len(text) < _WIDTH):
                    self.pending[value] = (text, binds), lines
                    continue
            else:
                self.flush(depth)
            self.told += lines
            self.write(depth, ", ".join(self.name(o) for o in node.outputs) + f" = {text}")
            for value in node.outputs:
                self.bind_sizes(value)
        self.flush(depth, block.results)

    def _constant(self, node: Node) -> Expression | None:
        """What is written wherever it is used, however often."""
        if node.op == "num.const" or (node.op == "full" and node.attrs["shape"] == ()):
            if node.op == "full":
                self.weak.add(node.outputs[0])
            return literal(node.attrs["value"])
        if node.op == "dim.value":
            return self.size(node.attrs["dim"])
        if node.op == "dim.bind":
            found = self.take(node.inputs[0])
            self.sizes[node.attrs["symbol"]] = wrap(found, ATOM)
            return found
        if node.op == "opt.none":
            return "None", ATOM
        if node.op == "fill" and node.attrs["shape"] == () and node.inputs[0] not in self.pending:
            self.weak.add(node.outputs[0])
            return self.take(node.inputs[0])
        return None

    # --- structure -------------------------------------------------------------------------------------------------

    def _if(self, node: Node, depth: int) -> None:
        condition = self.take(node.inputs[0])
        then, otherwise = node.blocks
        empty = [not any(self._constant(n) is None for n in b.nodes) and not b.results for b in node.blocks]
        if empty[0]:
            self.write(depth, f"if not {wrap(condition, 5)}:", node)
        else:
            self.write(depth, f"if {condition[0]}:", node)
            self.branch(then, node.outputs, depth + 1)
            if empty[1]:
                return
            self.write(depth, "else:")
        self.branch(otherwise, node.outputs, depth + 1)

    def branch(self, block: Block, outputs: Sequence[Value], depth: int) -> None:
        before = len(self.lines)
        inner = {v for node in block.nodes if node.op == "if" for v in node.outputs}
        for output, result in zip(outputs, block.results, strict=True):
            if result in inner and self.uses[result] == 1:
                self.names[result] = self.name(output)
        self.block(block, depth)
        self.assign(depth, [(o, r) for o, r in zip(outputs, block.results, strict=True) if self.uses[o]])
        if len(self.lines) == before:
            self.write(depth, "pass")

    def _loop(self, node: Node, depth: int) -> None:
        loop = Loop(node)
        carries = list(zip(loop.carry_params, loop.carries, loop.carry_results, loop.carry_outputs, strict=True))
        self._before(node, carries, loop.y_outputs, depth)
        if loop.counter is not None:
            trips, counter = self.text(loop.trips), self.name(loop.counter)
            span = f"reversed(range({trips}))" if node.attrs["reverse"] else f"range({trips})"
            self.write(depth, f"for {counter} in {span}:", node)
        else:
            if self.uses[loop.trips]:
                self.write(depth, f"{self.name(loop.trips)} = 0")
            test = "running" if "running" not in self.taken else f"running{self.taken['running'] + 1}"
            self.taken["running"] += 1
            self.write(depth, f"{test} = {self.text(node.inputs[0])}")
            self.write(depth, f"while {test}:", node)
        start = len(self.lines)
        for x, seq in zip(loop.seq_params, loop.seqs, strict=True):
            self.write(depth + 1, f"{self.name(x)} = {self.name(seq)}[{counter}]")
            self.bind_sizes(x)
        self.block(loop.body, depth + 1)
        for seq, y in zip(loop.y_outputs, loop.y_results, strict=True):
            if self.uses[seq]:
                self.write(depth + 1, f"{self.name(seq)}.append({self.strong(y)[0]})")
        pairs = self._live(carries)
        going = [(test, self.text(loop.body.results[0]))] if loop.counter is None else []
        self._write_pairs(depth + 1, [*going, *((self.name(p), self.strong(r)[0]) for p, r in pairs)])
        if loop.counter is None and self.uses[loop.trips]:
            self.write(depth + 1, f"{self.name(loop.trips)} += 1")
        if len(self.lines) == start:
            self.write(depth + 1, "pass")
        for param, _, _, output in carries:
            self.names[output] = self.name(param)
            self.bind_sizes(output)

    def _before(self, node: Node, carries: Sequence[tuple[Value, Value, Value, Value]], sequences: Sequence[Value],
                depth: int) -> None:
        """Start values of what a loop carries, and empty lists for what it collects."""
        inputs = set(self.graph.inputs) if node in self.graph.block.nodes else ()
        for param, start, _, _ in carries:
            if start in inputs and self.reads[start] == 1 and start.type == param.type \
                    and identifier(start.name) == identifier(param.name):
                self.names[param] = self.name(start)  # nobody else reads the argument: the loop may use its name
        self.assign(depth, [(p, s) for p, s, _, o in carries if self.uses[p] or self.uses[o]])
        for param, _, _, _ in carries:
            self.bind_sizes(param)
        for seq in sequences:
            if self.uses[seq]:
                self.write(depth, f"{self.name(seq)} = []")

    def _live(self, carries: Sequence[tuple[Value, Value, Value, Value]]) -> list[tuple[Value, Value]]:
        pairs = []
        for param, _, result, output in carries:
            if self.uses[param] or self.uses[output]:
                pairs.append((param, result))
            else:
                self.pending.pop(result, None)
        return pairs

    def assign(self, depth: int, pairs: Sequence[tuple[Value, Value]]) -> None:
        """Assign all at once: no value is read after a name was given away."""
        self._write_pairs(depth, [(self.name(t), self.strong(v)[0]) for t, v in pairs])

    def _write_pairs(self, depth: int, pairs: Sequence[tuple[str, str]]) -> None:
        pairs = [(target, value) for target, value in pairs if target != value]
        if pairs:
            self.write(depth, f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")


def _place(span: Span | None) -> Line | None:
    """The user's line: the innermost one outside this package."""
    found = outside(span)
    return (found.file, found.line) if found is not None else None

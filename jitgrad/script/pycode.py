"""A graph as Python that a person can read: expressions, real loops and branches, the user's lines beside them.

    def rnn(xs, h, wx, wh):
        for k in range(xs.shape[0]):                                      # model.py:3
            h = tanh(xs[k] @ wx + h @ wh)                                 # model.py:4
        return sum(h * h, axes=(0, 1))

A value that is used once is folded into the expression that uses it, unless that would move it across a loop, a branch
or an effect. `if` results, loop carries and sequences are ordinary variables. `commit(x, v)` writes v to the memory of
input x; `x` itself still means what it was at entry.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Call, Dim, Size, Symbol
from jitgrad.errors import Span
from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Block, Graph, Node, Value, walk
from jitgrad.script.irops import STRUCTURAL, Effect, effect

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
          "gt": ">", "ge": ">=", "num.add": "+", "num.sub": "-", "num.mul": "*", "num.truediv": "/",
          "num.floordiv": "//", "num.mod": "%", "num.pow": "**", "num.eq": "==", "num.ne": "!=", "num.lt": "<",
          "num.le": "<=", "num.gt": ">", "num.ge": ">=", "num.and": "&", "num.or": "|", "num.xor": "^",
          "num.lshift": "<<", "num.rshift": ">>"}
#: how strongly an operator binds; a name or a call is ATOM
_BINDS = {"==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
          "*": 10, "/": 10, "//": 10, "%": 10, "@": 10, "**": 12}
TERNARY, NOT, UNARY, ATOM = 1, 3, 11, 20
#: how many inputs of a structural node are read where it begins (a scan: the carries, too)
_READ_FIRST = {"if": 1, "while": 1, "scan": 1}
_WIDTH = 70  # folded expressions longer than this get a line of their own
_COLUMN = 72  # where comments start
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Expression = tuple[str, int]  # text, and how strongly its weakest operator binds


def to_python(graph: Graph) -> str:
    """The source text of `graph`."""
    return _Printer(graph).print()


def _wrap(expression: Expression, least: int) -> str:
    text, binds = expression
    return text if binds >= least else f"({text})"


class _Printer:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()
        self.pending: dict[Value, tuple[Expression, Node]] = {}  # values used once, not yet written
        self.constants: dict[Value, Expression] = {}
        self.uses: Counter[Value] = Counter()
        for block in [graph.block, *(b for node in walk(graph.block) for b in node.blocks)]:
            self.uses.update(block.results)
            for node in block.nodes:
                self.uses.update(node.inputs)
        self.sizes: dict[Any, str] = {}

    def print(self) -> str:
        block = self.graph.block
        params = [self.name(v) for v in block.params]
        self.lines.append(f"def {self.graph.name}({', '.join(params)}):")
        for v in block.params:
            self._bind_sizes(v)
        self.block(block, 1)
        self.write(1, ("return " + ", ".join(self.read(r) for r in block.results)).rstrip())
        return "\n".join(self.lines) + "\n"

    # --- names and sizes -------------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        if value not in self.names:
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in value.name) or "t"
            if base[0].isdigit():
                base = "t" + base
            self.taken[base] += 1
            self.names[value] = base if self.taken[base] == 1 and base != "t" else f"{base}{self.taken[base]}"
        return self.names[value]

    def _bind_sizes(self, value: Value) -> None:
        """Let the symbols that stand alone in a value's type be written as its sizes."""
        if isinstance(value.type, TensorType):
            for axis, d in enumerate(value.type.dims):
                if isinstance(d, Dim) and d.symbol is not None and d.symbol not in self.sizes:
                    self.sizes[d.symbol] = f"{self.name(value)}.shape[{axis}]"

    def size(self, size: Size) -> Expression:
        if isinstance(size, int):
            return str(size), ATOM
        if size.symbol is not None:
            return self._atom(size.symbol), ATOM
        terms = []
        for monomial, coefficient in size.terms:
            factors = [] if coefficient in (1, -1) and monomial else [str(abs(coefficient))]
            terms.append((" + " if coefficient > 0 else " - ", " * ".join([*factors, *map(self._atom, monomial)])))
        terms.sort(key=lambda term: term[0])  # what is added first
        text = "".join(sign + term for sign, term in terms)
        return (text[3:] if text[1] == "+" else "-" + text[3:]), 9

    def _atom(self, atom: Symbol | Call) -> str:
        if isinstance(atom, Symbol):
            return self.sizes.get(atom, atom.name)
        args = [self.size(a) for a in atom.args]
        operator = {"floordiv": "//", "mod": "%"}.get(atom.fn)
        if operator is not None:
            return f"({_wrap(args[0], 10)} {operator} {_wrap(args[1], 11)})"
        return f"{atom.fn}({', '.join(text for text, _ in args)})"

    def attr(self, value: Any) -> str:
        if isinstance(value, tuple):
            return "(" + ", ".join(self.attr(v) for v in value) + ("," if len(value) == 1 else "") + ")"
        if isinstance(value, Dim):
            return self.size(value)[0]
        return getattr(value, "name", None) or getattr(value, "__name__", None) or repr(value)

    def take(self, value: Value) -> Expression:
        """The expression for `value` at the place where it is used."""
        if value in self.constants:
            return self.constants[value]
        found = self.pending.pop(value, None)
        return found[0] if found is not None else (self.name(value), ATOM)

    def read(self, value: Value) -> str:
        return self.take(value)[0]

    def write(self, depth: int, text: str, node: Node | None = None) -> None:
        text = "    " * depth + text
        place = _place(node.span) if node is not None else ""
        self.lines.append(f"{text:<{_COLUMN}}  # {place}" if place else text)

    def flush(self, depth: int, keep: Sequence[Value] = ()) -> None:
        """Write what is pending, so that it stays before what follows."""
        for value, ((text, _), node) in list(self.pending.items()):
            if value not in keep:
                del self.pending[value]
                self.write(depth, f"{self.name(value)} = {text}", node)
                self._bind_sizes(value)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def block(self, block: Block, depth: int) -> None:
        """Every node; what is used once by the block's results is still pending afterwards."""
        results = set(block.results)
        for node in block.nodes:
            if node.op in STRUCTURAL:
                self.flush(depth, node.inputs[:_READ_FIRST[node.op] + node.attrs.get("n_carries", 0)])
                getattr(self, "_" + node.op)(node, depth)
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
            if node.op in ("check", "print", "commit"):
                text = getattr(self, "_" + node.op)(node)
                self.flush(depth)
                self.write(depth, text, node)
                continue
            text, binds = self.expression(node)
            if pure and len(node.outputs) == 1 and not node.binds:
                (value,) = node.outputs
                if self.uses[value] == 1 and (value in results or len(text) < _WIDTH):
                    self.pending[value] = (text, binds), node
                    continue
            else:
                self.flush(depth)
            self.write(depth, ", ".join(self.name(o) for o in node.outputs) + f" = {text}", node)
            for value in node.outputs:
                self._bind_sizes(value)
        self.flush(depth, block.results)

    def _constant(self, node: Node) -> Expression | None:
        """What is written wherever it is used, however often."""
        if node.op == "num.const" or (node.op == "full" and node.attrs["shape"] == ()):
            text = repr(node.attrs["value"])
            return text, UNARY if text[0] == "-" else ATOM
        if node.op == "dim.value":
            return self.size(node.attrs["dim"])
        if node.op == "dim.bind":
            found = self.take(node.inputs[0])
            self.sizes[node.attrs["symbol"]] = _wrap(found, ATOM)
            return found
        if node.op == "opt.none":
            return "None", ATOM
        if node.op == "fill" and node.attrs["shape"] == () and node.inputs[0] not in self.pending:
            return self.take(node.inputs[0])
        return None

    def expression(self, node: Node) -> Expression:
        op, attrs = node.op, node.attrs
        args = [self.take(v) for v in node.inputs]
        symbol = _INFIX.get(op)
        if symbol is not None and len(args) == 2:
            binds = _BINDS[symbol]
            left, right = (binds + 1, binds) if symbol == "**" else (binds, binds + 1)
            return f"{_wrap(args[0], left + (binds == 4))} {symbol} {_wrap(args[1], right)}", binds
        texts = [text for text, _ in args]
        if op in ("neg", "num.neg"):
            return f"-{_wrap(args[0], UNARY)}", UNARY
        if op == "num.not":
            return f"not {_wrap(args[0], NOT)}", NOT
        if op == "num.select":
            return f"{_wrap(args[1], NOT)} if {_wrap(args[0], NOT)} else {_wrap(args[2], TERNARY)}", TERNARY
        if op == "opt.has":
            return f"{_wrap(args[0], 5)} is not None", 4
        if op in ("opt.some", "opt.get") or (op == "fill" and attrs["shape"] == ()):
            return args[0]
        if op == "seq.get":
            return f"{_wrap(args[0], ATOM)}[{texts[1]}]", ATOM
        if op == "select":
            index = ", ".join([":"] * attrs["axis"] + [self.size(attrs["index"])[0]])
            return f"{_wrap(args[0], ATOM)}[{index}]", ATOM
        if op == "permute" and attrs["axes"] == (1, 0):
            return f"{_wrap(args[0], ATOM)}.T", ATOM
        if op in ("num.cast", "num.math"):
            return f"{attrs.get('to') or 'math.' + attrs['fn']}({', '.join(texts)})", ATOM
        named = [f"{k}={self.attr(v)}" for k, v in attrs.items()
                 if k not in ("checked", "known") and not (k == "keepdim" and v is False)]
        name = {"seq.len": "len", "num.abs": "abs"}.get(op, op.replace("num.", "number_").replace(".", "_"))
        return f"{name}({', '.join(texts + named)})", ATOM

    # --- effects ---------------------------------------------------------------------------------------------------

    def _check(self, node: Node) -> str:
        condition = self.take(node.inputs[0])
        error = getattr(node.attrs["error"], "__name__", str(node.attrs["error"]))
        template = node.attrs["template"]
        message = "" if template is None else self._template(template, node.inputs[1:])
        if condition[0] == "False":
            return f"raise {error}({message})"
        return f"if not {_wrap(condition, 5)}: raise {error}({message})"

    def _print(self, node: Node) -> str:
        template = list(node.attrs["template"])
        if template and isinstance(template[-1], str) and template[-1].endswith("\n"):
            template[-1] = template[-1][:-1]
            return f"print({self._template(template, node.inputs)})"
        return f"print({self._template(template, node.inputs)}, end='')"

    def _template(self, template: Sequence[Any], values: Sequence[Value]) -> str:
        """A template as an f-string."""
        parts, plain = [], True
        for part in template:
            if isinstance(part, str):
                parts.append(part.replace("{", "{{").replace("}", "}}"))
                continue
            index, conversion, spec = part
            plain = False
            parts.append("{" + self.read(values[index]) + (f"!{conversion}" if conversion else "")
                         + (f":{spec}" if spec else "") + "}")
        text = "".join(parts)
        return repr(text.replace("{{", "{").replace("}}", "}")) if plain else "f" + repr(text)

    def _commit(self, node: Node) -> str:
        return f"commit({self.name(self.graph.inputs[node.attrs['target']])}, {self.read(node.inputs[0])})"

    # --- structure -------------------------------------------------------------------------------------------------

    def _if(self, node: Node, depth: int) -> None:
        condition = self.take(node.inputs[0])
        then, otherwise = node.blocks
        empty = [not any(self._constant(n) is None for n in b.nodes) and not b.results for b in node.blocks]
        if empty[0]:
            self.write(depth, f"if not {_wrap(condition, 5)}:", node)
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

    def _while(self, node: Node, depth: int) -> None:
        body = node.blocks[0]
        condition, *initial = node.inputs
        carries = list(zip(body.params, initial, body.results[1:], node.outputs[1:], strict=False))
        trips = node.outputs[0]
        self._before(node, carries, node.outputs[1 + len(initial):], depth)
        if self.uses[trips]:
            self.write(depth, f"{self.name(trips)} = 0")
        test = "running" if "running" not in self.taken else f"running{self.taken['running'] + 1}"
        self.taken["running"] += 1
        self.write(depth, f"{test} = {self.read(condition)}")
        self.write(depth, f"while {test}:", node)
        self.block(body, depth + 1)
        self._append(node.outputs[1 + len(initial):], body.results[1 + len(initial):], depth + 1)
        pairs = self._live(carries)
        targets = [test, *(self.name(p) for p, _ in pairs)]
        values = [self.read(body.results[0]), *(self.read(r) for _, r in pairs)]
        self._write_pairs(depth + 1, targets, values)
        if self.uses[trips]:
            self.write(depth + 1, f"{self.name(trips)} += 1")
        self._after(carries)

    def _scan(self, node: Node, depth: int) -> None:
        body = node.blocks[0]
        n = node.attrs["n_carries"]
        counter, xs = body.params[0], body.params[1 + n:]
        carries = list(zip(body.params[1:1 + n], node.inputs[1:1 + n], body.results, node.outputs, strict=False))
        self._before(node, carries, node.outputs[n:], depth)
        trips = self.read(node.inputs[0])
        span = f"reversed(range({trips}))" if node.attrs["reverse"] else f"range({trips})"
        self.write(depth, f"for {self.name(counter)} in {span}:", node)
        start = len(self.lines)
        for x, seq in zip(xs, node.inputs[1 + n:], strict=True):
            self.write(depth + 1, f"{self.name(x)} = {self.name(seq)}[{self.name(counter)}]")
            self._bind_sizes(x)
        self.block(body, depth + 1)
        self._append(node.outputs[n:], body.results[n:], depth + 1)
        pairs = self._live(carries)
        self.assign(depth + 1, pairs)
        if len(self.lines) == start:
            self.write(depth + 1, "pass")
        self._after(carries)

    def _before(self, node: Node, carries: Sequence[tuple[Value, Value, Value, Value]], sequences: Sequence[Value],
                depth: int) -> None:
        """Start values of what a loop carries, and empty lists for what it collects."""
        inputs = set(self.graph.inputs) if node in self.graph.block.nodes else ()
        for param, start, _, _ in carries:
            if start in inputs and self.uses[start] == 1 and start.name == param.name:
                self.names[param] = self.name(start)  # nobody else reads the argument: the loop may use its name
        self.assign(depth, [(p, s) for p, s, _, o in carries if self.uses[p] or self.uses[o]])
        for param, _, _, _ in carries:
            self._bind_sizes(param)
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

    def _append(self, sequences: Sequence[Value], results: Sequence[Value], depth: int) -> None:
        for seq, y in zip(sequences, results, strict=True):
            if self.uses[seq]:
                self.write(depth, f"{self.name(seq)}.append({self.read(y)})")

    def _after(self, carries: Sequence[tuple[Value, Value, Value, Value]]) -> None:
        for param, _, _, output in carries:
            self.names[output] = self.name(param)

    def assign(self, depth: int, pairs: Sequence[tuple[Value, Value]]) -> None:
        """Assign all at once: no value is read after a name was given away."""
        self._write_pairs(depth, [self.name(t) for t, _ in pairs], [self.read(v) for _, v in pairs])

    def _write_pairs(self, depth: int, targets: Sequence[str], values: Sequence[str]) -> None:
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t != v]
        if pairs:
            self.write(depth, f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")


def _place(span: Span | None) -> str:
    """The user's line: the innermost one outside this package."""
    while span is not None and span.file.startswith(_PACKAGE + os.sep):
        span = span.caller
    return f"{os.path.basename(span.file)}:{span.line}" if span is not None else ""

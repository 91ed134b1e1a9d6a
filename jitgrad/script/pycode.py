"""A graph as Python that a person can read: expressions for pointwise ops, real loops and branches, source lines.

    def rnn(xs, h, wx, wh):
        for k in range(xs.shape[0]):
            h = tanh(matmul(xs[k], wx) + matmul(h, wh))      # model.py:3
        return sum(h * h, axes=(0, 1))

Values that are used once are folded into the expression that uses them, unless that would move them across a loop,
a branch or an effect. `if` results, loop carries and sequences are ordinary variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Dim, Size, substitute
from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Block, Graph, Node, Value, attr_symbols, walk
from jitgrad.script.irops import STRUCTURAL, Effect, effect

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
          "gt": ">", "ge": ">=", "num.add": "+", "num.sub": "-", "num.mul": "*", "num.truediv": "/",
          "num.floordiv": "//", "num.mod": "%", "num.pow": "**", "num.eq": "==", "num.ne": "!=", "num.lt": "<",
          "num.le": "<=", "num.gt": ">", "num.ge": ">=", "num.and": "&", "num.or": "|", "num.xor": "^",
          "num.lshift": "<<", "num.rshift": ">>"}


def to_python(graph: Graph) -> str:
    """The source text of `graph`."""
    return _Printer(graph).print()


class _Printer:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()
        self.pending: dict[Value, str] = {}  # expressions of values used once, not yet written
        self.uses: Counter[Value] = Counter()
        for block in _blocks(graph.block):
            self.uses.update(block.results)
            for node in block.nodes:
                self.uses.update(node.inputs)
        self.sizes: dict[Any, str] = {}

    def print(self) -> str:
        block = self.graph.block
        params = [self.name(v) for v in block.params]
        self.lines.append(f"def {self.graph.name}({', '.join(params)}):")
        for v, name in zip(block.params, params, strict=True):
            self._bind_sizes(v, name)
        self.block(block, 1)
        self.write(1, "return " + ", ".join(self.read(r) for r in block.results))
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

    def _bind_sizes(self, value: Value, name: str) -> None:
        if isinstance(value.type, TensorType):
            for axis, d in enumerate(value.type.dims):
                if isinstance(d, Dim) and d.symbol is not None:
                    self.sizes.setdefault(d.symbol, f"{name}.shape[{axis}]")

    def size(self, size: Size) -> str:
        if isinstance(size, int):
            return str(size)
        text = repr(substitute(size, {}))
        for symbol in sorted(attr_symbols(size), key=lambda s: -len(s.name)):
            text = text.replace(symbol.name, self.sizes.get(symbol, symbol.name))
        return text

    def attr(self, value: Any) -> str:
        if isinstance(value, tuple):
            return "(" + ", ".join(self.attr(v) for v in value) + ("," if len(value) == 1 else "") + ")"
        if isinstance(value, Dim):
            return self.size(value)
        return getattr(value, "name", None) or getattr(value, "__name__", None) or repr(value)

    def read(self, value: Value) -> str:
        return self.pending.pop(value, None) or self.name(value)

    def write(self, depth: int, text: str, node: Node | None = None) -> None:
        if node is not None and node.span is not None:
            text = f"{text:<60}  # {node.span.file.rsplit('/', 1)[-1]}:{node.span.line}"
        self.lines.append("    " * depth + text)

    def flush(self, depth: int) -> None:
        """Write what is pending, so that it stays before what follows."""
        for value, text in list(self.pending.items()):
            del self.pending[value]
            self.write(depth, f"{self.name(value)} = {text}")

    # --- nodes -----------------------------------------------------------------------------------------------------

    def block(self, block: Block, depth: int) -> None:
        for node in block.nodes:
            if node.op in STRUCTURAL:
                self.flush(depth)
                getattr(self, "_" + node.op)(node, depth)
                continue
            text = self.expression(node)
            if effect(node.op, node.attrs) is not Effect.NONE or not node.outputs:
                self.flush(depth)
                self.write(depth, (self.name(node.outputs[0]) + " = " if node.outputs else "") + text, node)
            elif len(node.outputs) == 1 and self.uses[node.outputs[0]] == 1 and len(text) < 60 and not node.binds:
                self.pending[node.outputs[0]] = text
            else:
                self.write(depth, f"{', '.join(self.name(o) for o in node.outputs)} = {text}", node)
        self.flush(depth)

    def expression(self, node: Node) -> str:
        if node.op == "dim.value":
            return self.size(node.attrs["dim"])
        if node.op == "dim.bind":
            text = self.read(node.inputs[0])
            self.sizes[node.attrs["symbol"]] = text
            return text
        if node.op in ("num.const", "full") and (node.op == "num.const" or node.attrs["shape"] == ()):
            return repr(node.attrs["value"])
        args = [self.read(v) for v in node.inputs]
        if node.op in _INFIX and len(args) == 2:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        if node.op == "neg":
            return f"-{args[0]}"
        if node.op == "select":
            index = ", ".join([":"] * node.attrs["axis"] + [self.size(node.attrs["index"])])
            return f"{args[0]}[{index}]"
        if node.op == "fill" and node.attrs["shape"] == ():
            return args[0]
        if node.op == "check":
            return f"assert_that({', '.join(args)}, {node.attrs['error'].__name__})"
        attrs = [f"{k}={self.attr(v)}" for k, v in node.attrs.items() if k not in ("template", "checked")]
        name = node.op.replace("num.", "number_").replace(".", "_")
        return f"{name}({', '.join(args + attrs)})"

    def _if(self, node: Node, depth: int) -> None:
        self.write(depth, f"if {self.read(node.inputs[0])}:", node)
        for block, header in zip(node.blocks, ("", "else:"), strict=True):
            if header:
                if not block.nodes and not block.results:
                    continue
                self.write(depth, header)
            self.block(block, depth + 1)
            self._assign(depth + 1, node.outputs, block.results)

    def _while(self, node: Node, depth: int) -> None:
        body = node.blocks[0]
        condition, *carries = node.inputs
        self._assign(depth, body.params, carries)
        test = self.name(body.results[0])
        self.write(depth, f"{test} = {self.read(condition)}")
        self.write(depth, f"while {test}:", node)
        self._loop_body(node, body, body.results[1:], len(carries), depth, first_output=1)

    def _scan(self, node: Node, depth: int) -> None:
        body = node.blocks[0]
        n = node.attrs["n_carries"]
        counter, xs = body.params[0], body.params[1 + n:]
        self._assign(depth, body.params[1:1 + n], node.inputs[1:1 + n])
        trips = self.read(node.inputs[0])
        span = f"reversed(range({trips}))" if node.attrs["reverse"] else f"range({trips})"
        self.write(depth, f"for {self.name(counter)} in {span}:", node)
        for x, seq in zip(xs, node.inputs[1 + n:], strict=True):
            self.write(depth + 1, f"{self.name(x)} = {self.name(seq)}[{self.name(counter)}]")
        self._loop_body(node, body, body.results, n, depth, first_output=0)

    def _loop_body(self, node: Node, body: Block, results: Sequence[Value], n: int, depth: int,
                   first_output: int) -> None:
        carries = body.params[:n] if node.op == "while" else body.params[1:1 + n]
        before = len(self.lines)
        self.block(body, depth + 1)
        for seq, y in zip(node.outputs[first_output + n:], results[n:], strict=True):
            self.write(depth + 1, f"{self.name(seq)}.append({self.name(y)})")
        self._assign(depth + 1, carries, results[:n])
        if len(self.lines) == before:
            self.write(depth + 1, "pass")
        for output, carry in zip(node.outputs[first_output:first_output + n], carries, strict=True):
            self.names[output] = self.name(carry)

    def _assign(self, depth: int, targets: Sequence[Value], values: Sequence[Value]) -> None:
        pairs = [(self.name(t), self.read(v)) for t, v in zip(targets, values, strict=True)]
        pairs = [(t, v) for t, v in pairs if t != v]
        if pairs:
            self.write(depth, f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")
        elif not targets:
            self.write(depth, "pass")


def _blocks(block: Block) -> list[Block]:
    return [block] + [b for node in walk(block) for b in node.blocks]

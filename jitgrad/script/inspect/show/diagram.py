"""A graph as nested panels of boxes, laid out.

A block is a panel. Parameters are pills above their first reader, constants are written into the boxes that read them,
a loop or branch is a box with panels inside. A value from outside a panel is named in the box that reads it; the edge
leads to the box around. `depth` levels of panels are open, deeper ones are boxes that say how much is in them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jitgrad.classes import dataclass, field
from jitgrad.ops import OPS
from jitgrad.ops.opdef import CONTRACT, REDUCE, SCAN, SORT
from jitgrad.script.graph.ir import Block, Graph, Node, Value, walk
from jitgrad.script.inspect.lines import Line, line_of
from jitgrad.script.inspect.show.labels import INLINE, Labels
from jitgrad.script.inspect.show.layout import Placed, place

CHARACTER, LINE, PAD, HEAD = 7.3, 15.0, 9.0, 22.0
#: how boxes of rows are coloured
_COLOURS = {CONTRACT: "product", REDUCE: "reduce", SCAN: "reduce", SORT: "reduce"}
_EFFECTS = frozenset({"check", "print", "commit", "callback"})


@dataclass(slots=True)
class Box:
    """A rectangle: rows of (text, class), or panels under a title; how it is coloured; the user's line behind it."""

    kind: str
    rows: list[tuple[str, str]]
    tooltip: str
    line: Line | None = None
    kernel: str = ""
    panels: list[Panel] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


@dataclass(slots=True)
class Panel:
    """A block: boxes, edges between them, and where all that goes."""

    title: str
    boxes: list[Box]
    edges: list[tuple[int, int]]
    placed: Placed


def depth_of(block: Block) -> int:
    """How many levels of blocks are nested in a block."""
    deepest, level = 0, [block]
    while level := [b for outer in level for node in outer.nodes for b in node.blocks]:
        deepest += 1
    return deepest


def draw(graph: Graph, depth: int, kernels: Mapping[Value, str] | None = None) -> Panel:
    """The panel of a graph with `depth` levels of inner blocks open. `kernels`: value -> the kernel that makes it."""
    return _Drawing(depth, kernels or {}).panel(graph.block, "", "return", 0, {})


def draw_lines(graph: Graph) -> Panel:
    """The panel of a graph with a box for each stretch of nodes of one source line."""
    return _Drawing(0, {}).by_line(graph.block)


class _Sheet:
    """A panel under way. `maker`: which box makes a value."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.maker: dict[Value, int] = {}

    def add(self, box: Box, read: Iterable[Value], made: Iterable[Value] = ()) -> None:
        """A box, with edges from the boxes that make what it reads."""
        if not box.panels:
            box.width = max(len(text) for text, _ in box.rows) * CHARACTER + 2 * PAD
            box.height = len(box.rows) * LINE + 8.0
        number = len(self.boxes)
        self.boxes.append(box)
        self.edges.update(((self.maker[v], number), None) for v in read if v in self.maker)
        self.maker.update((v, number) for v in made)

    def panel(self, title: str) -> Panel:
        edges = list(self.edges)
        return Panel(title, self.boxes, edges, place([(b.width, b.height) for b in self.boxes], edges))


class _Drawing:
    def __init__(self, depth: int, kernels: Mapping[Value, str]):
        self.depth, self.kernels, self.labels = depth, kernels, Labels()
        self.around: Mapping[Value, str] = {}  # names of the values outside the panel being drawn

    def panel(self, block: Block, title: str, end: str, level: int, outside: Mapping[Value, str]) -> Panel:
        """A block's panel. `outside`: names of the values around it."""
        sheet, read = _Sheet(), _read(block)
        for v in block.params:
            if v in read:
                sheet.add(Box("input", [(v.name or "x", "op"), (self.labels.type(v), "ty")],
                              f"{v.name}: {self.labels.type(v)}"), (), [v])
        names = {**outside, **{v: v.name or "x" for v in block.params}}
        texts = self.labels.texts
        for node in block.nodes:
            if self.labels.inline(node):
                continue
            box = self.box(node, level, names)
            sheet.add(box, [v for v in (*node.inputs, *_captures(node)) if v not in texts], node.outputs)
            names.update((v, v.name or node.op) for v in node.outputs)
        if block.results:
            shown = [texts.get(v) or (outside.get(v, "") if v not in sheet.maker else "") for v in block.results]
            rows = [(f"{end} {', '.join(t or '·' for t in shown)}" if any(shown) else end, "op")]
            sheet.add(Box("result", rows, ", ".join(self.labels.type(v) for v in block.results)),
                      [v for v in block.results if v not in texts])
        return sheet.panel(title)

    def box(self, node: Node, level: int, names: Mapping[Value, str]) -> Box:
        labels = self.labels
        here = {v: names[v] for v in node.inputs if v in self.around}
        title = labels.title(node, here)
        row = OPS.get(node.op)
        kind = (_COLOURS[row.kind] if row is not None and row.kind in _COLOURS else
                "effect" if node.op in _EFFECTS else "block" if node.blocks else
                "number" if node.op.startswith(("num.", "opt.", "seq.")) or node.op == "item" else "op")
        types = ", ".join(labels.type(v) for v in node.outputs)
        place_ = f"\n{node.span}" if node.span is not None else ""
        kernel = next((self.kernels[v] for v in node.outputs if v in self.kernels), "")
        box = Box(kind, [(title, "op")], f"{node.op}: {types}{place_}{f'{chr(10)}{kernel}' if kernel else ''}",
                  line_of(node.span), kernel)
        if node.blocks and level < self.depth:
            self.open(box, node, level, names)
            return box
        attributes = labels.attributes(node)
        if node.blocks:
            count = sum(1 for b in node.blocks for _ in walk(b))
            box.rows.append((f"{count} ops inside", "at"))
        elif attributes:
            box.rows.append((attributes, "at"))
        if node.outputs:
            box.rows.append((types if len(types) < 40 else f"{len(node.outputs)} results", "ty"))
        return box

    def open(self, box: Box, node: Node, level: int, names: Mapping[Value, str]) -> None:
        titles = ("then", "else") if node.op == "if" else ("",)
        before, self.around = self.around, dict(names)
        for block, title in zip(node.blocks, titles, strict=True):
            if node.op != "if" or block.nodes or block.results:
                box.panels.append(self.panel(block, title, "yield", level + 1, names))
        self.around = before
        if node.op == "scan":
            trips = self.labels.texts.get(node.inputs[0], "n")
            box.rows = [(f"for {node.blocks[0].params[0].name or 'k'} in "
                         + (f"reversed(range({trips}))" if node.attrs["reverse"] else f"range({trips})"), "op")]
        elif node.op == "if":
            condition = self.labels.texts.get(node.inputs[0]) or node.inputs[0].name
            box.rows = [(f"if {condition}".rstrip(), "op")]
        inside = sum(p.placed.width for p in box.panels) + 2 * PAD * (len(box.panels) + 1)
        box.width = max(inside, len(box.rows[0][0]) * CHARACTER + 2 * PAD)
        titled = 16.0 if any(p.title for p in box.panels) else 0.0
        box.height = HEAD + titled + max((p.placed.height for p in box.panels), default=0.0) + 2 * PAD

    def by_line(self, block: Block) -> Panel:
        """A panel with one box for each stretch of nodes of one source line; it names inputs that it alone reads."""
        sheet = _Sheet()
        nodes = [n for n in block.nodes if not self.labels.inline(n)]
        stretches = [(line, list(group)) for line, group in itertools.groupby(nodes, key=lambda n: line_of(n.span))]
        reads = [dict.fromkeys(v for n in found for v in (*n.inputs, *_captures(n))) for _, found in stretches]
        readers = Counter(v for read in (*reads, block.results) for v in read)
        for v in block.params:
            if readers[v] > 1 or v is block.params[0]:
                sheet.add(Box("input", [(v.name or "x", "op"), (self.labels.type(v), "ty")], v.name), (), [v])
        own = {v for v in block.params if v not in sheet.maker}
        for (line, found), read in zip(stretches, reads, strict=True):
            made = {v for n in found for v in n.outputs}
            count = sum(1 + sum(1 for b in n.blocks for _ in walk(b)) for n in found)
            text = line.text.strip() if line is not None else found[0].op
            names = ", ".join(v.name or "x" for v in read if v in own)
            detail = f"{count} op{'s' if count > 1 else ''}{f' with {names}' if names else ''}"
            sheet.add(Box("block" if any(n.blocks for n in found) else "op", [
                (shortened(text), "op"), (shortened(detail), "at")], f"{line or ''}", line),
                [v for v in read if v not in made], made)
        sheet.add(Box("result", [("return", "op")], ""), block.results)
        return sheet.panel("")


def shortened(text: str, width: int = 60) -> str:
    """A text that fits on a box."""
    return text if len(text) <= width else text[:width - 1] + "…"


def _captures(node: Node) -> Sequence[Value]:
    """What the blocks of a node read; their own values among it."""
    return [v for b in node.blocks for v in _read(b)]


def _read(block: Block) -> dict[Value, None]:
    found = dict.fromkeys(block.results)
    for node in walk(block):
        if node.op not in INLINE:
            found.update(dict.fromkeys(node.inputs))
        for inner in node.blocks:
            found.update(dict.fromkeys(inner.results))
    return found

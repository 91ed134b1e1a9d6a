"""Lists are values; this pass makes it safe to change them in place.

    %b = list.put(%a, %k, %x)            %c = list.copy(%a)
    %n = list.len(%a)             ->     %b = list.put(%c, %k, %x)
                                         %n = list.len(%a)

An op that changes a list, a join that hands it on and an op that stores it *take* it. Where the list is read again
afterwards, or is not the block's own to give (an input, an element of something, what a loop reads from outside), a
copy is taken instead. So a loop that appends copies nothing.
"""

from collections.abc import Iterable, Sequence

from jitgrad.ops.types import ListType
from jitgrad.script.graph.ir import Block, Captures, Graph, Loop, Node, Value, walk

#: op -> operands that it takes
_TAKES = {"list.put": (0, 2), "list.take": (0,), "opt.some": (0,)}
_MAKES = frozenset({"list.new", "list.put", "list.take", "list.copy", "if", "while", "scan"})


def linearize(graph: Graph) -> Graph:
    """`graph` with copies of every list that is taken and still needed; the same graph where it has no lists."""
    if not any(n.op in ("list.put", "list.take") for n in walk(graph.block)):
        return graph
    return Graph(_Linear().block(graph.block, set(), set(), last=True), graph.name)


class _Linear:
    def __init__(self) -> None:
        self.captures = Captures()

    def block(self, block: Block, owned: set[Value], live: set[Value], last: bool = False) -> Block:
        """A block with copies.

        Args:
            block: the block as it is.
            owned: lists from outside that it may take.
            live: those of them that are read after it.
            last: it is the whole graph: what it returns nobody changes.
        """
        own = owned | {v for n in block.nodes if n.op in _MAKES for v in _lists(n.outputs)} | set(_lists(block.params))
        later = set(live)
        nodes: list[Node] = []  # in reverse order
        results = block.results
        if not last:
            results, copies = self.take(results, range(len(results)), own, later)
            nodes += reversed(copies)
        later.update(_lists(results))
        for node in reversed(block.nodes):
            if node.blocks:
                node, copies = self.structural(node, own, later)
            else:
                inputs, copies = self.take(node.inputs, _TAKES.get(node.op, ()), own, later)
                if copies:
                    node = Node(node.op, inputs, node.attrs, node.outputs, (), node.span, node.binds)
            nodes.append(node)
            nodes += reversed(copies)
            later.update(_lists(node.inputs))
            for copy in copies:
                later.update(copy.inputs)
        nodes.reverse()
        return Block(block.params, nodes, results, block.binds)

    def take(self, values: Sequence[Value], taken: Iterable[int], own: set[Value],
             later: set[Value]) -> tuple[tuple[Value, ...], list[Node]]:
        """`values` with copies in place of the lists among `taken` that cannot be given away; the copying nodes."""
        result, copies = list(values), []
        gone: set[Value] = set()
        for i in taken:
            v = values[i]
            if not isinstance(v.type, ListType):
                continue
            if v not in own or v in later or v in gone:
                result[i] = Value(v.type, v.name)
                copies.append(Node("list.copy", (v,), {}, (result[i],)))
            gone.add(v)
        return tuple(result), copies

    def structural(self, node: Node, own: set[Value], later: set[Value]) -> tuple[Node, list[Node]]:
        """A node with blocks: a branch may take what is not read after it, a loop only what it carries."""
        captured = set(_lists(self.captures[node]))
        copies: list[Node] = []
        inputs = node.inputs
        if node.op == "if":
            free = {v for v in captured if v in own and v not in later}
            blocks = tuple([self.block(b, free, set()) for b in node.blocks])
        else:
            loop = Loop(node)  # elements of sequences that it reads belong to the sequence
            blocks = (self.block(loop.body, set(), set(_lists(loop.seq_params))),)
            inputs, copies = self.take(inputs, range(1, loop.n + 1), own, later | captured)
        later |= captured
        return Node(node.op, inputs, node.attrs, node.outputs, blocks, node.span, node.binds), copies


def _lists(values: Iterable[Value]) -> list[Value]:
    return [v for v in values if isinstance(v.type, ListType)]

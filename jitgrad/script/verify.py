"""Every invariant of a graph, each with a message. Passes, autodiff and backends may rely on what this accepts.

Sizes are compared as far as they can be: two sizes clash where their difference is a non-zero constant. Whether sizes
that only a check makes equal are equal is the interpreter's to find out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jitgrad import dims, dtypes
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.errors import JitgradError
from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, ListType, OptionalType, SeqType, TensorType, Type
from jitgrad.script import irops
from jitgrad.script.ir import Block, Graph, Node, Value, attr_symbols, type_symbols
from jitgrad.script.text import describe

_NUMBERS = (BOOL, INT, FLOAT, NUMBER)


class InvalidGraph(JitgradError):
    """A graph that breaks an invariant: a bug in whatever made it."""


def verify(graph: Graph, *, pure: bool = False) -> Graph:
    """`graph`, if it keeps every invariant. Raises InvalidGraph with the first broken one and the node's line.

    Args:
        graph: any graph.
        pure: refuse effects too (gradient graphs have none).
    """
    _Verifier(graph, pure).run()
    return graph


class _Scope:
    """A block under way: what it added to the sets of what is visible, to be taken back at its end."""

    __slots__ = ("block", "facts", "next", "owner", "symbols", "values")

    def __init__(self, block: Block, owner: Node | None):
        self.block, self.owner, self.next = block, owner, 0
        self.values: list[Value] = []
        self.symbols: list[Symbol] = []
        self.facts: list[tuple[Value, bool]] = []


class _Verifier:
    def __init__(self, graph: Graph, pure: bool):
        self.graph, self.pure = graph, pure
        self.node: Node | None = None
        self.visible: set[Value] = set()
        self.symbols: set[Symbol] = set()
        self.facts: set[tuple[Value, bool]] = set()  # bools whose value is known here
        self.defined: dict[Value, Node | None] = {}
        self.bound: set[Symbol] = set()
        self.blocks: set[int] = set()

    def fail(self, message: str, *values: Value) -> None:
        """Raise; `{}` in the message stand for the names of `values`."""
        line, names = describe(self.graph, self.node, values)
        raise InvalidGraph(f"{message.format(*(f'`{n}`' for n in names))}\n  in: {line}")

    # --- walking -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        stack = [_Scope(self.graph.block, None)]
        self.start(stack[-1])
        while stack:
            scope = stack[-1]
            nodes = scope.block.nodes
            if scope.next < len(nodes):
                node = self.node = nodes[scope.next]
                scope.next += 1
                self.before(node)
                if node.blocks:
                    stack.extend([_Scope(block, node) for block in reversed(node.blocks)])
                    self.start(stack[-1])
                else:
                    self.after(node, scope)
                continue
            stack.pop()
            self.node = scope.owner
            self.leave(scope)
            if scope.owner is None:
                return
            if stack[-1].owner is scope.owner:  # the node's next block
                self.start(stack[-1])
            else:
                self.after(scope.owner, stack[-1])

    def start(self, scope: _Scope) -> None:
        """Make a block's parameters, symbols and facts visible."""
        block, owner = scope.block, scope.owner
        if id(block) in self.blocks:
            self.fail("a block belongs to two nodes")
        self.blocks.add(id(block))
        self.bind(block.binds, [p.type for p in block.params], scope, "no parameter's type")
        for p in block.params:
            self.define(p, scope)
        if owner is not None and owner.op == "if":
            self.assume(owner.inputs[0], block is owner.blocks[0], scope)

    def leave(self, scope: _Scope) -> None:
        """The block's results, then the end of everything it made visible."""
        for r in scope.block.results:
            if r not in self.visible:
                self.fail("result {} is not in scope", r)
        if scope.owner is not None:
            _RESULTS[scope.owner.op](self, scope.owner, scope.block)
        self.visible.difference_update(scope.values)
        self.symbols.difference_update(scope.symbols)
        self.facts.difference_update(scope.facts)

    def bind(self, binds: Sequence[Symbol], types: Sequence[Type], scope: _Scope, nowhere: str) -> None:
        """Bring symbols into scope, each of which must stand alone in one of `types`."""
        alone = set().union(*(_alone(t) for t in types))
        for symbol in binds:
            if symbol in self.bound:
                self.fail(f"symbol `{symbol}` is bound twice")
            if symbol not in alone:
                self.fail(f"symbol `{symbol}` is bound here, but {nowhere} has it as a size of its own")
            self.bound.add(symbol)
            self.symbols.add(symbol)
            scope.symbols.append(symbol)

    def define(self, value: Value, scope: _Scope) -> None:
        if value in self.defined:
            self.fail("{} is defined twice", value)
        for symbol in _free(value.type):
            if symbol not in self.symbols:
                self.fail(f"the type of {{}} has the symbol `{symbol}`, which is not in scope", value)
        self.defined[value] = self.node
        self.visible.add(value)
        scope.values.append(value)

    def assume(self, value: Value, truth: bool, scope: _Scope) -> None:
        """Note what a condition says in the current block: conjunctions and negations are taken apart."""
        pending = [(value, truth)]
        while pending:
            v, t = pending.pop()
            if (v, t) in self.facts:
                continue
            self.facts.add((v, t))
            scope.facts.append((v, t))
            node = self.defined.get(v)
            if node is None:
                continue
            if node.op == "num.not":
                pending.append((node.inputs[0], not t))
            elif (node.op == "num.and" and t) or (node.op == "num.or" and not t):
                pending.extend((i, t) for i in node.inputs)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def before(self, node: Node) -> None:
        """Inputs, attrs and conventions of a node, before its blocks."""
        for v in node.inputs:
            if v not in self.visible:
                self.fail("{} is used where it is not in scope" if v in self.defined else "{} is not defined", v)
        for key, a in node.attrs.items():
            problem = _attr_problem(a)
            if problem:
                self.fail(f"attribute `{key}` {problem}")
            for symbol in attr_symbols(a) if key != "type" else _free(a):
                if symbol not in self.symbols and not (node.op == "dim.bind" and key == "symbol"):
                    self.fail(f"attribute `{key}` has the symbol `{symbol}`, which is not in scope")
        if self.pure and irops.effect(node.op, node.attrs):
            self.fail(f"`{node.op}` is an effect, in a graph that has none")
        convention = _CONVENTIONS.get(node.op)
        if convention is not None:
            convention(self, node)
        elif node.op.startswith("num."):
            self.number_op(node)
        elif node.op in OPS:
            self.table_op(node)
        else:
            self.fail(f"`{node.op}` is not an op")
        if node.blocks and node.op not in irops.STRUCTURAL:
            self.fail(f"`{node.op}` has no blocks")

    def after(self, node: Node, scope: _Scope) -> None:
        """Outputs of a node, after its blocks."""
        if node.op not in irops.STRUCTURAL and node.op not in irops.TYPED:
            self.output_types(node)
        types: list[Type] = [v.type for v in node.outputs]
        if node.op == "dim.bind":
            types = [TensorType(dtypes.bool_, (dims.dim(node.attrs["symbol"]),))]
        self.bind(node.binds, types, scope, "no output's type")
        for v in node.outputs:
            self.define(v, scope)
        if node.op == "check":
            self.assume(node.inputs[0], True, scope)

    def output_types(self, node: Node) -> None:
        """Infer the outputs' types again."""
        try:
            inferred = irops.infer(node.op, tuple(v.type for v in node.inputs), node.attrs)
        except (KeyError, TypeError, ValueError, IndexError, AssertionError, AttributeError) as error:
            self.fail(f"its types cannot be inferred: {type(error).__name__}: {error}")
            raise
        if len(inferred) != len(node.outputs):
            self.fail(f"`{node.op}` has {len(inferred)} outputs, not {len(node.outputs)}")
        for v, t in zip(node.outputs, inferred, strict=True):
            if not compatible(t, v.type, node.binds):
                self.fail(f"{{}} is a `{v.type}`, but `{node.op}` makes a `{t}`", v)

    def count(self, node: Node, n: int) -> None:
        if len(node.inputs) != n:
            self.fail(f"`{node.op}` takes {n} operand{'s' * (n != 1)}, not {len(node.inputs)}")

    def operand(self, node: Node, i: int, *allowed: Type | type) -> None:
        """Operand i must have one of the types (a class: any of that class)."""
        if i >= len(node.inputs):
            self.fail(f"`{node.op}` lacks operand {i}")
        t = node.inputs[i].type
        if not any(t == a or (isinstance(a, type) and isinstance(t, a)) for a in allowed):
            names = " or ".join(a.__name__ if isinstance(a, type) else str(a) for a in allowed)
            self.fail(f"operand {i} of `{node.op}`, {{}}, is a `{t}`, not {names}", node.inputs[i])

    def attr(self, node: Node, name: str) -> Any:
        if name not in node.attrs:
            self.fail(f"`{node.op}` lacks the attribute `{name}`")
        return node.attrs[name]

    def number_op(self, node: Node) -> None:
        for i in range(len(node.inputs)):
            self.operand(node, i, *_NUMBERS)
        if node.op == "num.const":
            self.count(node, 0)
            if not isinstance(self.attr(node, "value"), (bool, int, float)):
                self.fail("`value` is not a number")
            if isinstance(node.attrs["value"], int) and not -(1 << 63) <= node.attrs["value"] < 1 << 63:
                self.fail("`value` has more than 64 bits")
        elif node.op == "num.cast":
            self.count(node, 1)
            if self.attr(node, "to") not in ("bool", "int", "float", "number"):
                self.fail("`to` is not `bool`, `int`, `float` or `number`")
        elif node.op == "num.math":
            fn = self.attr(node, "fn")
            if fn != "round" and fn not in irops.EXACT and not callable(getattr(math, fn, None)):
                self.fail(f"`{fn}` is not a function of Python's math module")
        elif node.op == "num.select":
            self.count(node, 3)
            self.operand(node, 0, BOOL)
            if node.inputs[1].type != node.inputs[2].type:
                self.fail("{} and {} have different types", *node.inputs[1:])
        elif node.op in irops.UNARY or node.op == "num.not":
            self.count(node, 1)
        elif node.op in _BINARY:
            self.count(node, 2)
        else:
            self.fail(f"`{node.op}` is not an op")

    def table_op(self, node: Node) -> None:
        row = OPS[node.op]
        if row.arity is not None:
            self.count(node, row.arity)
        numbers = row.kind is Kind.RANDOM or row.name == "fill"
        for i in range(len(node.inputs)):
            if numbers:
                self.operand(node, i, *_NUMBERS)
            else:
                self.operand(node, i, TensorType)
        if row.kind is Kind.POINTWISE:
            operands = node.inputs[1:] if row.name == "where" else node.inputs
            found = {v.type.dtype for v in operands if isinstance(v.type, TensorType)}
            if len(found) > 1:
                self.fail(f"the operands of `{node.op}` have the dtypes {', '.join(sorted(d.name for d in found))}")

    # --- structure ---------------------------------------------------------------------------------------------------

    def blocks_of(self, node: Node, n: int) -> None:
        if len(node.blocks) != n:
            self.fail(f"`{node.op}` has {n} block{'s' * (n != 1)}, not {len(node.blocks)}")

    def flows(self, sources: Sequence[Type], targets: Sequence[Type], binds: Sequence[Symbol], what: str) -> None:
        """Values of the types `sources` become values of the types `targets`, which may bind symbols."""
        if len(sources) != len(targets):
            self.fail(f"{what}: {len(sources)} values for {len(targets)}")
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if not compatible(source, target, binds):
                self.fail(f"{what}: value {i} is a `{source}`, not a `{target}`")

    def if_node(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, BOOL)
        self.blocks_of(node, 2)
        for block in node.blocks:
            if block.params or block.binds:
                self.fail("a block of an `if` has no parameters and binds nothing")

    def if_results(self, node: Node, block: Block) -> None:
        which = "then" if block is node.blocks[0] else "else"
        self.flows(_types(block.results), _types(node.outputs), node.binds, f"results of `{which}`")

    def while_node(self, node: Node) -> None:
        self.operand(node, 0, BOOL)
        self.blocks_of(node, 1)
        body = node.blocks[0]
        self.flows(_types(node.inputs[1:]), _types(body.params), body.binds, "carries of a `while`")
        if len(node.outputs) <= len(body.params):
            self.fail(f"a `while` of {len(body.params)} carries has at least {len(body.params) + 1} outputs")
        if node.outputs[0].type != INT:
            self.fail("the first output of a `while` is the number of trips, an int")
        carries, n = _types(node.inputs[1:]), len(node.inputs)
        self.flows(carries, _types(node.outputs[1:n]), node.binds, "carries and outputs")

    def while_results(self, node: Node, block: Block) -> None:
        n = len(block.params)
        if not block.results or block.results[0].type != BOOL:
            self.fail("the first result of a `while` body is the condition, a bool")
        self.flows(_types(block.results[1 : n + 1]), _types(block.params), block.binds, "results of a `while` body")
        self.flows(_types(block.results[1 : n + 1]), _types(node.outputs[1 : n + 1]), node.binds, "carries and outputs")
        self.sequences(node, block.results[n + 1 :], node.outputs[n + 1 :])

    def scan_node(self, node: Node) -> None:
        self.operand(node, 0, INT)
        self.blocks_of(node, 1)
        n = self.attr(node, "n_carries")
        if not isinstance(n, int) or not 0 <= n < len(node.inputs):
            self.fail("`n_carries` is not a number of operands")
        if not isinstance(node.attrs.get("reverse", False), bool):
            self.fail("`reverse` is not a bool")
        for i in range(n + 1, len(node.inputs)):
            self.operand(node, i, SeqType)
        body = node.blocks[0]
        xs = [t.elem for t in _types(node.inputs[n + 1 :]) if isinstance(t, SeqType)]
        carries = _types(node.inputs[1 : n + 1])
        self.flows([INT, *carries], _types(body.params[: n + 1]), body.binds, "carries of a `scan`")
        if len(body.params) != n + 1 + len(xs):
            self.fail(f"a `scan` of {n} carries and {len(xs)} sequences has a body of {n + 1 + len(xs)} parameters")
        free = set().union(*(type_symbols(x) for x in xs)) - self.symbols
        self.flows(xs, _types(body.params[n + 1 :]), (*body.binds, *free), "elements of a `scan`")
        self.flows(carries, _types(node.outputs[:n]), node.binds, "carries and outputs")

    def scan_results(self, node: Node, block: Block) -> None:
        n = node.attrs["n_carries"]
        self.flows(_types(block.results[:n]), _types(block.params[1 : n + 1]), block.binds, "results of a `scan` body")
        self.flows(_types(block.results[:n]), _types(node.outputs[:n]), node.binds, "carries and outputs")
        self.sequences(node, block.results[n:], node.outputs[n:])

    def sequences(self, node: Node, ys: Sequence[Value], outputs: Sequence[Value]) -> None:
        elems = [t.elem if isinstance(t, SeqType) else None for t in _types(outputs)]
        if None in elems or len(elems) != len(ys):
            self.fail(f"a `{node.op}` whose body gives {len(ys)} ys has as many sequences for outputs")
        for y, elem in zip(ys, elems, strict=True):
            assert elem is not None
            if not compatible(y.type, elem, tuple(type_symbols(elem) - self.symbols)):
                self.fail(f"{{}} is a `{y.type}`, an element of its sequence a `{elem}`", y)

    # --- sizes, optionals, sequences, effects ------------------------------------------------------------------------

    def dim_value(self, node: Node) -> None:
        self.count(node, 0)
        if not isinstance(self.attr(node, "dim"), (int, Dim)):
            self.fail("`dim` is not a size")

    def dim_bind(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, INT)
        if node.binds != (self.attr(node, "symbol"),):
            self.fail("`dim.bind` binds its `symbol`")

    def item(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, TensorType)
        t = node.inputs[0].type
        assert isinstance(t, TensorType)
        if any(isinstance(d, int) and d != 1 for d in t.dims):
            self.fail(f"`item` takes a tensor of one element, not a `{t}`")

    def fill(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, *_NUMBERS)

    def leaf(self, node: Node) -> None:
        if len(node.inputs) not in (1, 2):
            self.fail(f"`leaf` takes the content and perhaps the root, not {len(node.inputs)} operands")
        self.operand(node, 0, TensorType)

    def opt_some(self, node: Node) -> None:
        self.count(node, 1)

    def opt_none(self, node: Node) -> None:
        self.count(node, 0)
        self.attr(node, "type")

    def opt_has(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, OptionalType)

    def opt_get(self, node: Node) -> None:
        self.opt_has(node)
        if node.attrs.get("known"):  # autodiff: saved in the very branch that this mirrors
            return
        if not self.is_present(node.inputs[0]):
            self.fail("`opt.get` of {}, of which nothing here says that it is present", node.inputs[0])

    def is_present(self, optional: Value) -> bool:
        """Whether the facts that hold here, or the value's own definition, say that an Optional is present."""
        for v, truth in self.facts:
            if (v, not truth) in self.facts:
                return True  # no program gets here
            source = self.defined.get(v)
            if truth and source is not None and source.op == "opt.has" and source.inputs[0] is optional:
                return True
        node = self.defined.get(optional)
        if node is None:
            return False
        if node.op == "opt.some":
            return True
        if node.op == "if":
            i, taken = node.outputs.index(optional), self.truth(node.inputs[0])
            results = [b.results[i] for b in node.blocks]
            return all(self.is_present(r) for r, side in zip(results, (True, False), strict=True)
                       if taken is None or taken is side)
        return False

    def truth(self, value: Value) -> bool | None:
        """What a bool is known to be here."""
        negated = False
        while True:
            for t in (True, False):
                if (value, t) in self.facts:
                    return t is not negated
            node = self.defined.get(value)
            if node is None or node.op != "num.not":
                return None
            value, negated = node.inputs[0], not negated

    def seq_get(self, node: Node) -> None:
        self.count(node, 2)
        self.operand(node, 0, SeqType)
        self.operand(node, 1, INT)

    def seq_len(self, node: Node) -> None:
        self.count(node, 1)
        self.operand(node, 0, SeqType)

    def list_new(self, node: Node) -> None:
        self.count(node, 0)
        if not isinstance(self.attr(node, "type"), ListType):
            self.fail("`type` is not a list's")

    def list_put(self, node: Node) -> None:
        self.count(node, 3)
        self.list_operand(node)
        holder = node.inputs[0].type
        assert isinstance(holder, ListType)
        if not compatible(node.inputs[2].type, holder.elem, tuple(type_symbols(holder.elem) - self.symbols)):
            self.fail(f"{{}} is a `{node.inputs[2].type}`, an element of the list a `{holder.elem}`", node.inputs[2])

    def list_at(self, node: Node) -> None:
        self.count(node, 2)
        self.list_operand(node)

    def list_alone(self, node: Node) -> None:
        self.count(node, 1)
        self.list_operand(node)

    def list_operand(self, node: Node) -> None:
        self.operand(node, 0, ListType)
        if len(node.inputs) > 1:
            self.operand(node, 1, INT)

    def check(self, node: Node) -> None:
        self.operand(node, 0, BOOL)
        error, template = self.attr(node, "error"), self.attr(node, "template")
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            self.fail("`error` is not an exception type")
        if isinstance(template, tuple) and template[:1] == (None,):
            for stated in template[1:]:
                self.argument(stated, len(node.inputs) - 1)
        elif template is not None:
            self.template(template, len(node.inputs) - 1)

    def print_node(self, node: Node) -> None:
        self.template(self.attr(node, "template"), len(node.inputs))

    def custom(self, node: Node) -> None:
        call = self.attr(node, "call")
        if [v.type for v in node.outputs] != [v.type for v in node.inputs[:call.results]]:
            self.fail("the outputs are not of the types of the results")

    def mark(self, node: Node) -> None:
        self.attr(node, "number")

    def pending(self, node: Node) -> None:
        recipe, carried, more = (self.attr(node, name) for name in ("recipe", "carried", "more"))
        if type(recipe) is not int or recipe < 0 or type(more) is not bool:
            self.fail(f"`recipe` is {recipe!r}, `more` is {more!r}")
        if any(type(k) is not int or not 0 <= k < len(node.inputs) for k in carried):
            self.fail(f"`carried` is {carried!r}, of {len(node.inputs)} values")

    def argument(self, stated: Any, n: int) -> None:
        if stated is None:
            return
        if isinstance(stated, tuple) and stated[:1] in (("tuple",), ("list",)):
            for part in stated[1:]:
                self.argument(part, n)
        elif isinstance(stated, tuple) and stated[:1] == ("text",):
            self.template(stated[1:], n)
        elif type(stated) is not int or not 0 <= stated < n:
            self.fail(f"`template` has the argument {stated!r}, of {n} values")

    def template(self, template: Any, n: int) -> None:
        for part in template if isinstance(template, tuple) else (0,):
            if isinstance(part, str):
                continue
            if not (isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], int)):
                self.fail("`template` is not a tuple of strings and (index, conversion, format) tuples")
            if not 0 <= part[0] < n:
                self.fail(f"`template` names value {part[0]} of {n}")

    def callback(self, node: Node) -> None:
        if not hasattr(self.attr(node, "call"), "run"):
            self.fail("`call` is nothing that can be run")

    def callback_vjp(self, node: Node) -> None:
        self.operand(node, 0, INT)
        self.count(node, 1 + len(self.attr(node, "present")))
        n = len(self.attr(node, "wanted"))
        if len(node.outputs) != 2 * n or any(v.type != BOOL for v in node.outputs[n:]):
            self.fail(f"the results are not {n} gradients and {n} bools")

    def commit(self, node: Node) -> None:
        self.count(node, 1)
        target = self.attr(node, "target")
        if not isinstance(target, int) or not 0 <= target < len(self.graph.inputs):
            self.fail(f"`target` is not the number of one of the graph's {len(self.graph.inputs)} inputs")
        source, slot = node.inputs[0].type, self.graph.inputs[target].type
        if isinstance(slot, TensorType) and not compatible(source, slot, ()):
            self.fail(f"a `{source}` cannot be written to input {target}, a `{slot}`")


_BINARY = frozenset({*irops.ARITHMETIC, *irops.COMPARISONS, *irops.BITWISE, "num.truediv"})
_CONVENTIONS: Mapping[str, Callable[[_Verifier, Node], None]] = {
    "if": _Verifier.if_node, "while": _Verifier.while_node, "scan": _Verifier.scan_node,
    "dim.value": _Verifier.dim_value, "dim.bind": _Verifier.dim_bind, "item": _Verifier.item, "fill": _Verifier.fill,
    "leaf": _Verifier.leaf,
    "opt.some": _Verifier.opt_some, "opt.none": _Verifier.opt_none, "opt.has": _Verifier.opt_has,
    "opt.get": _Verifier.opt_get, "seq.get": _Verifier.seq_get, "seq.len": _Verifier.seq_len,
    "list.new": _Verifier.list_new, "list.put": _Verifier.list_put, "list.get": _Verifier.list_at,
    "list.take": _Verifier.list_at, "list.len": _Verifier.list_alone, "list.copy": _Verifier.list_alone,
    "custom": _Verifier.custom, "region.begin": _Verifier.mark, "region.end": _Verifier.mark,
    "check": _Verifier.check, "print": _Verifier.print_node, "commit": _Verifier.commit,
    "pending": _Verifier.pending,
    "callback": _Verifier.callback, "callback.vjp": _Verifier.callback_vjp,
}
_RESULTS: Mapping[str, Callable[[_Verifier, Node, Block], None]] = {
    "if": _Verifier.if_results, "while": _Verifier.while_results, "scan": _Verifier.scan_results,
}


# --- types ---------------------------------------------------------------------------------------------------------


def compatible(source: Type, target: Type, binds: Sequence[Symbol] = ()) -> bool:
    """Whether a `source` may be where a `target` is said to be: equal but for sizes that may be equal.

    Sizes over symbols in `binds`, or in a sequence's element, are taken as they come.
    """
    if isinstance(source, TensorType) and isinstance(target, TensorType):
        return (source.dtype is target.dtype and len(source.dims) == len(target.dims)
                and all(_may_equal(s, t, binds) for s, t in zip(source.dims, target.dims, strict=True)))
    if isinstance(source, SeqType) and type(source) is type(target):
        return compatible(source.elem, target.elem, (*binds, *type_symbols(target.elem)))
    if isinstance(source, OptionalType) and isinstance(target, OptionalType):
        return compatible(source.elem, target.elem, binds)
    return source == target


def _may_equal(a: Size, b: Size, binds: Sequence[Symbol]) -> bool:
    if a == b or (isinstance(b, Dim) and binds and not dims.symbols(b).isdisjoint(binds)):
        return True
    return isinstance(a - b, Dim)


def _types(values: Iterable[Value]) -> list[Type]:
    return [v.type for v in values]


def _alone(type_: Type) -> set[Symbol]:
    """The symbols that stand alone as a size in a type whose sizes are known where it is."""
    if isinstance(type_, OptionalType):
        return _alone(type_.elem)
    if isinstance(type_, TensorType):
        return {d.symbol for d in type_.dims if isinstance(d, Dim) and d.symbol is not None}
    return set()


def _free(type_: Type) -> frozenset[Symbol]:
    """The symbols of a type that must be in scope: not those in a sequence's element, which may be existential."""
    if isinstance(type_, SeqType):
        return frozenset()
    return _free(type_.elem) if isinstance(type_, OptionalType) else type_symbols(type_)


def _attr_problem(a: Any) -> str:
    if isinstance(a, tuple):
        return next((p for p in map(_attr_problem, a) if p), "")
    if isinstance(a, (Value, Node, Block, Graph)):
        return "is a part of a graph; only blocks nest"
    try:
        hash(a)
    except TypeError:
        return f"is a `{type(a).__name__}`, which is not static"
    return ""

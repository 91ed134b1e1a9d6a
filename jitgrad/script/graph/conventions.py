"""What each op asks of its operands, attributes and blocks, one function per kind of node."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.dims import Dim
from jitgrad.ops import OPS, Kind
from jitgrad.ops.numbers import FUNCTIONS, NUMBERS
from jitgrad.ops.texts import TEXTS
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TEXT, ListType, OptionalType, SeqType, TensorType
from jitgrad.script.graph.checker import Checker, compatible, types_of
from jitgrad.script.graph.ir import Block, Loop, Node, Value, type_symbols
from jitgrad.script.graph.numbers import wrap
from jitgrad.script.graph.text import SCALARS

_NUMBERS = (BOOL, INT, FLOAT, NUMBER)
ANY = object()


def number_op(checker: Checker, node: Node) -> None:
    """`num.*`: numbers, as many as the op takes."""
    row = NUMBERS.get(node.op)
    if row is None:
        checker.fail(f"`{node.op}` is not an op")
        return
    asks = node.op == "num.not" or (node.op == "num.cast" and node.attrs.get("to") == "bool")
    for i in range(len(node.inputs)):
        checker.operand(node, i, *_NUMBERS, *[TEXT] * asks)  # of a string: whether it is empty
    if row.arity is not None:
        checker.count(node, row.arity)
    if node.op == "num.select":
        checker.operand(node, 0, BOOL)
        if node.inputs[1].type != node.inputs[2].type:
            checker.fail("{} and {} have different types", *node.inputs[1:])


def table_op(checker: Checker, node: Node) -> None:
    """A row of the table: tensors of one dtype, but for rows that take numbers."""
    row = OPS[node.op]
    if row.arity is not None:
        checker.count(node, row.arity)
    numbers = row.kind is Kind.RANDOM or row.name == "fill"
    for i in range(len(node.inputs)):
        if numbers:
            checker.operand(node, i, *_NUMBERS)
        else:
            checker.operand(node, i, TensorType)
    if row.kind is Kind.POINTWISE:
        operands = node.inputs[1:] if row.name == "where" else node.inputs
        found = {v.type.dtype for v in operands if isinstance(v.type, TensorType)}
        if len(found) > 1:
            checker.fail(f"the operands of `{node.op}` have the dtypes {', '.join(sorted(d.name for d in found))}")


# --- structure -------------------------------------------------------------------------------------------------------


Convention = Callable[[Checker, Node], None]


def takes(*operands: Any, more: Convention | None = None) -> Convention:
    """As many operands, each of a type, a class of types, one of several, or (ANY) of whatever type; and `more`."""
    def convention(checker: Checker, node: Node) -> None:
        checker.count(node, len(operands))
        for i, allowed in enumerate(operands):
            if allowed is not ANY:
                checker.operand(node, i, *(allowed if isinstance(allowed, tuple) else (allowed,)))
        if more is not None:
            more(checker, node)

    return convention


def if_node(checker: Checker, node: Node) -> None:
    checker.blocks_of(node, 2)
    for block in node.blocks:
        if block.params or block.binds:
            checker.fail("a block of an `if` has no parameters and binds nothing")


def if_results(checker: Checker, node: Node, block: Block) -> None:
    which = "then" if block is node.blocks[0] else "else"
    checker.flows(types_of(block.results), types_of(node.outputs), node.binds, f"results of `{which}`")


def while_node(checker: Checker, node: Node) -> None:
    checker.operand(node, 0, BOOL)
    checker.blocks_of(node, 1)
    body = node.blocks[0]
    checker.flows(types_of(node.inputs[1:]), types_of(body.params), body.binds, "carries of a `while`")
    if len(node.outputs) <= len(body.params):
        checker.fail(f"a `while` of {len(body.params)} carries has at least {len(body.params) + 1} outputs")
    if node.outputs[0].type != INT:
        checker.fail("the first output of a `while` is the number of trips, an int")
    carries, n = types_of(node.inputs[1:]), len(node.inputs)
    checker.flows(carries, types_of(node.outputs[1:n]), node.binds, "carries and outputs")


def scan_node(checker: Checker, node: Node) -> None:
    checker.operand(node, 0, INT)
    checker.blocks_of(node, 1)
    n = checker.attr(node, "n_carries")
    if not isinstance(n, int) or not 0 <= n < len(node.inputs):
        checker.fail("`n_carries` is not a number of operands")
    if not isinstance(node.attrs.get("reverse", False), bool):
        checker.fail("`reverse` is not a bool")
    for i in range(n + 1, len(node.inputs)):
        checker.operand(node, i, SeqType)
    body = node.blocks[0]
    xs = [t.elem for t in types_of(node.inputs[n + 1 :]) if isinstance(t, SeqType)]
    carries = types_of(node.inputs[1 : n + 1])
    checker.flows([INT, *carries], types_of(body.params[: n + 1]), body.binds, "carries of a `scan`")
    if len(body.params) != n + 1 + len(xs):
        checker.fail(f"a `scan` of {n} carries and {len(xs)} sequences has a body of {n + 1 + len(xs)} parameters")
    free = set().union(*(type_symbols(x) for x in xs)) - checker.symbols
    checker.flows(xs, types_of(body.params[n + 1 :]), (*body.binds, *free), "elements of a `scan`")
    checker.flows(carries, types_of(node.outputs[:n]), node.binds, "carries and outputs")


def loop_results(checker: Checker, node: Node, block: Block) -> None:
    loop = Loop(node)
    if node.op == "while" and (not block.results or block.results[0].type != BOOL):
        checker.fail("the first result of a `while` body is the condition, a bool")
    carries = types_of(loop.carry_results)
    checker.flows(carries, types_of(loop.carry_params), block.binds, f"results of a `{node.op}` body")
    checker.flows(carries, types_of(loop.carry_outputs), node.binds, "carries and outputs")
    _sequences(checker, node, loop.y_results, loop.y_outputs)


def _sequences(checker: Checker, node: Node, ys: Sequence[Value], outputs: Sequence[Value]) -> None:
    elems = [t.elem if isinstance(t, SeqType) else None for t in types_of(outputs)]
    if None in elems or len(elems) != len(ys):
        checker.fail(f"a `{node.op}` whose body gives {len(ys)} ys has as many sequences for outputs")
    for y, elem in zip(ys, elems, strict=True):
        assert elem is not None
        if not compatible(y.type, elem, tuple(type_symbols(elem) - checker.symbols)):
            checker.fail(f"{{}} is a `{y.type}`, an element of its sequence a `{elem}`", y)


# --- sizes, optionals, sequences, effects ----------------------------------------------------------------------------


def dim_bind(checker: Checker, node: Node) -> None:
    if node.binds != (checker.attr(node, "symbol"),):
        checker.fail("`dim.bind` binds its `symbol`")


def item(checker: Checker, node: Node) -> None:
    t = node.inputs[0].type
    assert isinstance(t, TensorType)
    if any(isinstance(d, int) and d != 1 for d in t.dims):
        checker.fail(f"`item` takes a tensor of one element, not a `{t}`")


def leaf(checker: Checker, node: Node) -> None:
    if len(node.inputs) not in (1, 2):
        checker.fail(f"`leaf` takes the content and perhaps the root, not {len(node.inputs)} operands")
    checker.operand(node, 0, TensorType)


def opt_get(checker: Checker, node: Node) -> None:
    if node.attrs.get("known"):  # autodiff: saved in the very branch that this mirrors
        return
    if not checker.is_present(node.inputs[0]):
        checker.fail("`opt.get` of {}, of which nothing here says that it is present", node.inputs[0])


def list_put(checker: Checker, node: Node) -> None:
    holder = node.inputs[0].type
    assert isinstance(holder, ListType)
    if not compatible(node.inputs[2].type, holder.elem, tuple(type_symbols(holder.elem) - checker.symbols)):
        checker.fail(f"{{}} is a `{node.inputs[2].type}`, an element of the list a `{holder.elem}`", node.inputs[2])


def check(checker: Checker, node: Node) -> None:
    checker.operand(node, 0, BOOL)
    template = checker.attr(node, "template")
    if isinstance(template, tuple) and template[:1] == (None,):
        for stated in template[1:]:
            _argument(checker, stated, len(node.inputs) - 1)
    elif template is not None:
        _template(checker, template, len(node.inputs) - 1)


def print_node(checker: Checker, node: Node) -> None:
    _template(checker, checker.attr(node, "template"), len(node.inputs))


def text(checker: Checker, node: Node) -> None:
    row = TEXTS.get(checker.attr(node, "fn"))
    if row is None:
        checker.fail(f"`fn` is {node.attrs['fn']!r}, which is no function of strings")
        return
    error = node.attrs.get("error")
    if error is not None and error not in [e.__name__ for e in row.raises]:
        checker.fail(f"`{row.name}` raises no {error}")
    for operand in checker.attr(node, "args"):
        _operand(checker, operand, len(node.inputs))


def _operand(checker: Checker, operand: Any, n: int) -> None:
    kind, *rest = operand if isinstance(operand, tuple) else (None,)
    if kind == "text":
        _template(checker, tuple(rest), n)
    elif kind == "tuple":
        for part in rest:
            _operand(checker, part, n)
    elif kind not in ("is", "value") or len(rest) != 1 or (kind == "value" and not 0 <= rest[0] < n):
        checker.fail(f"`args` has {operand!r}, of {n} values")


def custom(checker: Checker, node: Node) -> None:
    call = checker.attr(node, "call")
    if [v.type for v in node.outputs] != [v.type for v in node.inputs[:call.results]]:
        checker.fail("the outputs are not of the types of the results")


def pending(checker: Checker, node: Node) -> None:
    recipe, carried, hosted, more = (checker.attr(node, name) for name in ("recipe", "carried", "hosted", "more"))
    if type(recipe) is not int or recipe < 0 or type(more) is not bool:
        checker.fail(f"`recipe` is {recipe!r}, `more` is {more!r}")
    for name, numbers in (("carried", carried), ("hosted", hosted)):
        if any(type(k) is not int or not 0 <= k < len(node.inputs) for k in numbers):
            checker.fail(f"`{name}` is {numbers!r}, of {len(node.inputs)} values")


def _argument(checker: Checker, stated: Any, n: int) -> None:
    if stated is None:
        return
    if isinstance(stated, tuple) and stated[:1] in (("tuple",), ("list",)):
        for part in stated[1:]:
            _argument(checker, part, n)
    elif isinstance(stated, tuple) and stated[:1] == ("text",):
        _template(checker, stated[1:], n)
    elif type(stated) is not int or not 0 <= stated < n:
        checker.fail(f"`template` has the argument {stated!r}, of {n} values")


def _template(checker: Checker, template: Any, n: int) -> None:
    for part in template if isinstance(template, tuple) else (0,):
        if isinstance(part, str):
            continue
        if not (isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], int)):
            checker.fail("`template` is not a tuple of strings and (index, conversion, format) tuples")
        if not 0 <= part[0] < n:
            checker.fail(f"`template` names value {part[0]} of {n}")


def callback_vjp(checker: Checker, node: Node) -> None:
    checker.operand(node, 0, INT)
    checker.count(node, 1 + len(checker.attr(node, "present")))
    n = len(checker.attr(node, "wanted"))
    if len(node.outputs) != 2 * n or any(v.type != BOOL for v in node.outputs[n:]):
        checker.fail(f"the results are not {n} gradients and {n} bools")


def commit(checker: Checker, node: Node) -> None:
    target = checker.attr(node, "target")
    if not isinstance(target, int) or not 0 <= target < len(checker.graph.inputs):
        checker.fail(f"`target` is not the number of one of the graph's {len(checker.graph.inputs)} inputs")
    source, slot = node.inputs[0].type, checker.graph.inputs[target].type
    if isinstance(slot, TensorType) and not compatible(source, slot, ()):
        checker.fail(f"a `{source}` cannot be written to input {target}, a `{slot}`")


#: an attribute that must be there, what holds of it, and what is wrong where that does not
ATTRS: Mapping[str, tuple[str, Callable[[Any], bool], str]] = {
    "num.const": ("value", lambda a: isinstance(a, (bool, float)) or (isinstance(a, int) and wrap(a) == a),
                  "is not a number of at most 64 bits"),
    "num.cast": ("to", lambda a: a in SCALARS, "is not `bool`, `int`, `float` or `number`"),
    "num.math": ("fn", lambda a: a in FUNCTIONS, "is not a function of Python's math module"),
    "dim.value": ("dim", lambda a: isinstance(a, (int, Dim)), "is not a size"),
    "opt.none": ("type", lambda a: a is not None, "is not a type"),
    "list.new": ("type", lambda a: isinstance(a, ListType), "is not a list's"),
    "check": ("error", lambda a: isinstance(a, type) and issubclass(a, BaseException), "is not an exception type"),
    "callback": ("call", lambda a: hasattr(a, "run"), "is nothing that can be run"),
    **dict.fromkeys(("region.begin", "region.end"), ("number", lambda a: isinstance(a, int), "is not a number")),
}
#: what a node of a structure, size, Optional, sequence, list or effect must be
CONVENTIONS: Mapping[str, Convention] = {
    "if": takes(BOOL, more=if_node), "while": while_node, "scan": scan_node,
    "dim.value": takes(), "dim.bind": takes(INT, more=dim_bind),
    "item": takes(TensorType, more=item), "fill": takes(_NUMBERS), "leaf": leaf,
    "opt.some": takes(ANY), "opt.none": takes(),
    "opt.has": takes(OptionalType), "opt.get": takes(OptionalType, more=opt_get),
    "seq.get": takes(SeqType, INT), "seq.len": takes(SeqType),
    "list.new": takes(), "list.put": takes(ListType, INT, ANY, more=list_put),
    **dict.fromkeys(("list.get", "list.take"), takes(ListType, INT)),
    **dict.fromkeys(("list.len", "list.copy"), takes(ListType)),
    "custom": custom, "text": text, "check": check, "print": print_node,
    "commit": takes(ANY, more=commit), "pending": pending,
    **dict.fromkeys(("region.begin", "region.end", "callback"), lambda checker, node: None),
    "callback.vjp": callback_vjp,
}
#: what the results of a block of such a node must be
RESULTS: Mapping[str, Callable[[Checker, Node, Block], None]] = {
    "if": if_results, "while": loop_results, "scan": loop_results,
}

"""Rewrite rows for numbers, sizes, optionals, sequences and checks."""

from jitgrad.dims import Dim, Size, dim, product
from jitgrad.ops.numbers import NUMBERS, family
from jitgrad.ops.types import BOOL, FLOAT, INT
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.graph.numbers import compute
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant, row, rule, rule_of

# --- numbers -------------------------------------------------------------------------------------------------------


@rule(*(op for op, row in NUMBERS.items() if row.neutral is not None))
def int_identity(r: Rewriter, node: Node) -> Value | None:
    """x + 0, x * 1, x // 1, x << 0 and so on are x, for ints."""
    (a, b), row = node.inputs, NUMBERS[node.op]
    if a.type == INT == b.type:
        if constant(r, b) == row.neutral:
            return a
        if constant(r, a) == row.neutral and row.commutes:
            return b
    return None


@rule("num.mul", "num.truediv")
def float_one(r: Rewriter, node: Node) -> Value | None:
    """x * 1 and x / 1 are x, for floats."""
    a, b = node.inputs
    if a.type == FLOAT and constant(r, b) == 1:
        return a
    return b if node.op == "num.mul" and b.type == FLOAT and constant(r, a) == 1 else None


row("num_not", ("num.not", ("num.not", "c")), "c")


@rule("num.and", "num.or")
def num_logic(r: Rewriter, node: Node) -> Value | None:
    """c and True is c, c and False is False, c and c is c; likewise for or."""
    a, b = node.inputs
    if a.type != BOOL or b.type != BOOL:
        return None
    if a is b:
        return a
    for x, c in ((a, b), (b, a)):
        truth = constant(r, c)
        if truth is not None:
            return x if truth is (node.op == "num.and") else c
    return None


row("num_cast", ("num.cast", "n"), "n")
row("num_select", ("num.select", True, "a", "b"), "a")
row("num_select", ("num.select", False, "a", "b"), "b")
row("num_select", ("num.select", "c", "a", "a"), "a")
row("num_select", ("num.select", "c", True, False), "c")

# --- sizes ---------------------------------------------------------------------------------------------------------


def as_size(r: Rewriter, value: Value) -> Size | None:
    """The size that an int is known to be."""
    node = r.nodes.get(value)
    if node is None or value.type != INT:
        return None
    if node.op == "num.const":
        number: int = node.attrs["value"]
        return number
    if node.op == "dim.value":
        size: Size = node.attrs["dim"]
        return size
    if node.op == "dim.bind":
        return dim(node.attrs["symbol"])
    return None


@rule("dim.value")
def known_size(r: Rewriter, node: Node) -> Value | None:
    """The value of a size that is an int is that int."""
    size = node.attrs["dim"]
    return r.emit("num.const", value=size) if isinstance(size, int) else None


@rule("dim.bind")
def bind_known(r: Rewriter, node: Node) -> Value | None:
    """A symbol bound to the value of a size is that size."""
    size = as_size(r, node.inputs[0])
    if size is None:
        return None
    r.sizes[node.attrs["symbol"]] = size
    return node.inputs[0]


@rule("num.add", "num.sub", "num.mul")
def size_arithmetic(r: Rewriter, node: Node) -> Value | None:
    """Arithmetic on sizes is a size; sizes are small enough not to overflow in a sum."""
    a, b = (as_size(r, v) for v in node.inputs)
    if a is None or b is None or not (isinstance(a, Dim) or isinstance(b, Dim)):
        return None
    if node.op == "num.mul":
        if node.attrs.get("checked") and isinstance(a, Dim) and isinstance(b, Dim):
            return None
        return r.emit("dim.value", dim=product((a, b)))
    return r.emit("dim.value", dim=b + a if isinstance(a, int) and node.op == "num.add" else a - b if
                  node.op == "num.sub" else a + b)


@rule(*(op for op in NUMBERS if family(op) == "comparison"))
def compare_sizes(r: Rewriter, node: Node) -> Value | None:
    """Sizes that differ by a constant compare as constants."""
    a, b = (as_size(r, v) for v in node.inputs)
    if a is None or b is None:
        return None
    difference = a - b
    if not isinstance(difference, Dim):
        return r.emit("num.const", value=compute(node.op, (difference, 0), {}, BOOL))
    # no symbol is negative
    if node.op in ("num.ge", "num.lt") and b == 0 and isinstance(a, Dim) and a.symbol is not None:
        return r.emit("num.const", value=node.op == "num.ge")
    return None


# --- optionals -----------------------------------------------------------------------------------------------------


row("has_known", ("opt.has", ("opt.some", "x")), True)
row("has_known", ("opt.has", ("opt.none",)), False)


@rule_of("opt.has", "if")
def has_merged(r: Rewriter, node: Node, made: Node) -> Value | None:
    """An Optional that one branch makes and the other does not is there if that branch was taken."""
    i = made.outputs.index(node.inputs[0])
    sides = [_presence(r, block.results[i]) for block in made.blocks]
    if sides == [True, False]:
        return made.inputs[0]
    return r.emit("num.not", made.inputs[0]) if sides == [False, True] else None


def _presence(r: Rewriter, value: Value) -> bool | None:
    made = r.nodes.get(value)
    return None if made is None or made.op not in ("opt.some", "opt.none") else made.op == "opt.some"


@rule_of("opt.get", "opt.some")
def get_some(r: Rewriter, node: Node, made: Node) -> Value:
    """The payload of what was just wrapped."""
    return made.inputs[0]


row("some_get", ("opt.some", ("opt.get", "o")), "o")

# --- sequences -----------------------------------------------------------------------------------------------------


@rule_of("seq.len", "while", "scan")
def length_of_loop(r: Rewriter, node: Node, loop: Node) -> Value:
    """A sequence that a loop made has an element per trip."""
    if loop.op == "while":
        return loop.outputs[0]
    zero = r.emit("num.const", value=0)
    return r.emit("num.max", loop.inputs[0], zero)


@rule("num.max")
def max_of_size(r: Rewriter, node: Node) -> Value | None:
    """max(size, 0) is the size, for a symbol."""
    for x, c in (node.inputs, node.inputs[::-1]):
        size = as_size(r, x)
        if isinstance(size, Dim) and size.symbol is not None and constant(r, c) == 0:
            return x
    return None


# --- checks --------------------------------------------------------------------------------------------------------


@rule("check")
def check_holds(r: Rewriter, node: Node) -> tuple[()] | None:
    """A check of True says nothing."""
    return () if constant(r, node.inputs[0]) is True else None

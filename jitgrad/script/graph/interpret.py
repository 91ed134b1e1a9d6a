"""Runs a graph on the op rows' NumPy implementations: the oracle that every backend must agree with.

Values are ndarrays, Python numbers, lists (`Seq`) and `Some(payload)` or None (`Optional`). Every result is compared
with its type: dtype, rank, and sizes as its symbols say.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad import dims
from jitgrad.classes import dataclass
from jitgrad.dims import Dim, Symbol
from jitgrad.eager.inplace import put_back
from jitgrad.errors import JitgradError
from jitgrad.ops.namespaces import ArrayNamespace
from jitgrad.ops.texts import compute, render
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TEXT, ListType, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph import numbers
from jitgrad.script.graph.effects import Pending, exception
from jitgrad.script.graph.ir import (Block, Graph, Loop, Nested, Node, Value, committed, map_attr, payload,
                                     type_symbols, unnested)
from jitgrad.script.graph.text import describe

OnCommit = Callable[[int, Any], None]


class InterpretError(JitgradError):
    """A value that is not what its type says: a bug in whatever made the graph, or a wrong input."""


@dataclass(frozen=True, slots=True)
class Some:
    """The payload of an Optional that is there."""

    value: Any


def interpret(graph: Graph, inputs: Sequence[Any], on_commit: OnCommit | None = None) -> list[Any]:
    """Run `graph`; its outputs.

    Args:
        graph: a graph that `verify` accepts; composites are allowed.
        inputs: an ndarray per tensor, a Python number per number, None or the value per Optional, a list per Seq (of
            payloads or None for a List of Optionals).
        on_commit: called with (input number, number or payload) for commits to inputs that are not tensors; commits to
            a tensor write its memory, and nothing else does.

    Raises:
        what `check` nodes and checked arithmetic raise; the exception has a note with the node's source line and an
        attribute `span`.
        InterpretError: a value disagrees with its type.
    """
    with np.errstate(all="ignore"):
        return _Run(graph, inputs, on_commit).outputs()


class _Run:
    """One execution. Values and symbols are flat maps: dominance makes a value's latest binding the right one."""

    def __init__(self, graph: Graph, inputs: Sequence[Any], on_commit: OnCommit | None):
        if len(inputs) != len(graph.inputs):
            raise InterpretError(f"the graph has {len(graph.inputs)} inputs, {len(inputs)} were given")
        self.graph, self.memory, self.on_commit = graph, inputs, on_commit
        self.values: dict[Value, Any] = {}
        self.sizes: dict[Symbol, int] = {}
        self.arrays = ArrayNamespace(np)
        self.stopped: StopIteration | None = None  # what a node raised and no generator lets through
        written = [w for i in committed(graph.block) if isinstance(w := inputs[i], np.ndarray)]
        given = []
        for array, value in zip(inputs, graph.inputs, strict=True):
            if isinstance(array, np.ndarray) and any(np.may_share_memory(array, w) for w in written):
                array = array.copy()  # values do not change where memory does
            given.append(_wrap(array, value.type))
        self.bind(graph.block.params, given, graph.block.binds)

    def outputs(self) -> list[Any]:
        try:
            unnested(self.block(self.graph.block, None))
        except RuntimeError:
            if self.stopped is not None:
                raise self.stopped from None
            raise
        taken = [v for v in self.memory if isinstance(v, np.ndarray)]
        results = []
        for value in self.graph.outputs:
            result = _unwrap(self.values[value], value.type)
            if isinstance(result, np.ndarray):
                if any(np.may_share_memory(result, t) for t in taken):
                    result = result.copy()
                taken.append(result)
            results.append(result)
        return results

    # --- control ---

    def block(self, block: Block, pending: Pending | None) -> Nested[list[Any]]:
        """Run a block; its results. `pending`: what an exception would store where it begins."""
        values = self.values
        for node in block.nodes:
            if node.blocks:
                yield (self.branch if node.op == "if" else self.loop)(node, pending)
                continue
            if node.op == "pending":
                a, found = node.attrs, [_unwrap(values[v], v.type) for v in node.inputs]
                pending = Pending(a["recipe"], a["carried"], a["hosted"], found, pending if a["more"] else None)
                continue
            try:
                self.node(node)
            except InterpretError as error:
                error.add_note("in: " + describe(self.graph, node)[0])
                raise
            except BaseException as error:
                if isinstance(error, StopIteration):
                    self.stopped = error
                if pending is not None and node.op != "callback":
                    error._pending = pending  # type: ignore[attr-defined]  # for `Specialisation.run`
                if isinstance(error, Exception):
                    _annotate(error, node)
                raise
        return [values[v] for v in block.results]

    def branch(self, node: Node, pending: Pending | None) -> Nested[None]:
        taken = node.blocks[0 if self.values[node.inputs[0]] else 1]
        self.bind(node.outputs, (yield self.block(taken, pending)), node.binds)

    def loop(self, node: Node, pending: Pending | None) -> Nested[None]:
        """A `while` or `scan`: the carries, and the sequences of ys; the body's symbols take its parameters' sizes."""
        loop = Loop(node)
        head, *rest = [self.values[v] for v in node.inputs]  # whether to go on, or the number of iterations
        carries, xs = rest[:loop.n], rest[loop.n:]
        for value, sequence in zip(loop.seqs, xs, strict=True):
            if len(sequence) != max(0, head):
                raise InterpretError(f"`{value!r}` has {len(sequence)} elements in a scan of {max(0, head)}")
        reverse, k = bool(node.attrs.get("reverse")), 0
        ys: list[list[Any]] = [[] for _ in loop.y_outputs]
        while head if loop.counter is None else k < head:
            at = head - 1 - k if reverse else k
            self.bind(loop.body.params, [*[at] * loop.first, *carries, *(x[at] for x in xs)], loop.body.binds)
            results = yield self.block(loop.body, pending)
            if loop.lead:
                head, *results = results
            carries = results[:loop.n]
            for made, y in zip(ys, results[loop.n:], strict=True):
                made.append(y)
            k += 1
        self.bind(node.outputs, [*[k] * loop.lead, *carries, *(y[::-1] if reverse else y for y in ys)], node.binds)

    def bind(self, targets: Sequence[Value], values: Sequence[Any], binds: Sequence[Symbol]) -> None:
        """Give `targets` their values, after `binds` took the sizes that they have there; checks types."""
        for symbol in binds:
            self.sizes.pop(symbol, None)
        if binds:
            wanted = set(binds)
            for target, value in zip(targets, values, strict=True):
                self.bind_sizes(target.type, value, wanted)
            within = {s for target in targets if isinstance(payload(target.type), ListType)
                      for s in type_symbols(target.type)}
            for symbol in binds:  # only something absent has it as a size, or the elements of a list: each its own
                if symbol not in within:
                    self.sizes.setdefault(symbol, 0)
        for target, value in zip(targets, values, strict=True):
            self.check(target, value)
            self.values[target] = value

    def bind_sizes(self, type_: Type, value: Any, wanted: set[Symbol]) -> None:
        if isinstance(type_, OptionalType) and value is not None:
            self.bind_sizes(type_.elem, value.value, wanted)
        if isinstance(type_, TensorType):
            for size, actual in zip(type_.dims, getattr(value, "shape", ()), strict=False):
                if isinstance(size, Dim) and size.symbol in wanted:
                    self.sizes.setdefault(size.symbol, actual)

    def check(self, target: Value, value: Any) -> None:
        """Raise InterpretError unless `value` is of the target's type."""
        problem = self.mismatch(target.type, value, {})
        if problem:
            raise InterpretError(f"`{target!r}` is {problem}")

    def mismatch(self, type_: Type, value: Any, local: dict[Symbol, int]) -> str:
        """What is wrong with `value` as a `type_`; `local` binds existential symbols of a sequence's element."""
        if isinstance(type_, TensorType):
            if not isinstance(value, np.ndarray):
                return f"a {type(value).__name__}"
            if value.dtype == type_.dtype.np and value.ndim == len(type_.dims):
                for size, actual in zip(type_.dims, value.shape, strict=True):
                    if isinstance(size, Dim):
                        if size.symbol is not None and size.symbol not in self.sizes:
                            size = local.setdefault(size.symbol, actual)
                        else:
                            size = dims.evaluate(size, {**self.sizes, **local} if local else self.sizes)
                    if size != actual:
                        break
                else:
                    return ""
            return f"{value.dtype}{list(value.shape)} where {self.sizes}"
        if isinstance(type_, SeqType):
            if not isinstance(value, list):
                return f"a {type(value).__name__}"
            return next((p for v in value if (p := self.mismatch(type_.elem, v, {}))), "")
        if isinstance(type_, OptionalType):
            if value is None:
                return ""
            return self.mismatch(type_.elem, value.value, local) if isinstance(value, Some) else "not wrapped"
        wanted = {BOOL: (bool,), INT: (int,), FLOAT: (float,), NUMBER: (bool, int, float), TEXT: (str, tuple)}[type_]
        return "" if type(value) in wanted else f"a {type(value).__name__} ({value!r})"

    # --- nodes ---

    def node(self, node: Node) -> None:
        values = self.values
        inputs = [values[v] for v in node.inputs]
        op = node.op
        if op.startswith("num."):
            results: Sequence[Any] = (
                numbers.compute(op, tuple(inputs), node.attrs, node.outputs[0].type),)
        else:
            special = _SPECIAL.get(op)
            if special is not None:
                results = special(self, node, inputs)
            else:
                results = self.table_op(op, inputs, self.attrs(node.attrs))
        self.bind(node.outputs, results, node.binds if op != "dim.bind" else ())

    def attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attrs with every size evaluated."""
        return {k: map_attr(a, self.size) for k, a in attrs.items()}

    def size(self, size: dims.Size) -> int:
        return dims.evaluate(size, self.sizes)

    def table_op(self, name: str, inputs: list[Any], attrs: dict[str, Any]) -> Sequence[Any]:
        if name in ("amax", "amin") and inputs[0].size == 0:  # NumPy raises; a user's own is checked before
            name = "sum"
        result = getattr(self.arrays, name)(*inputs, **attrs)
        if isinstance(result, (tuple, list)):
            return [np.asarray(r) for r in result]
        return (np.asarray(result),)

    def dim_bind(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        self.sizes[node.attrs["symbol"]] = inputs[0]
        return (inputs[0],)

    def fill(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        type_ = node.output.type
        assert isinstance(type_, TensorType)
        return (np.full([self.size(s) for s in type_.dims], np.asarray(inputs[0]).astype(type_.dtype.np)),)

    def select(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        """Views cost native code nothing, so one may stand ahead of the check that its place exists: of none it shows
        NaNs (zeros), which nobody reads.
        """
        attrs = self.attrs(node.attrs)
        if -(size := inputs[0].shape[attrs["axis"]]) <= attrs["index"] < size:
            return self.table_op("select", inputs, attrs)
        rest = np.delete(inputs[0].shape, attrs["axis"])
        return (np.full(rest, np.nan if inputs[0].dtype.kind in "fc" else 0).astype(inputs[0].dtype),)

    def opt_get(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        if inputs[0] is None:
            raise InterpretError(f"`opt.get` of `{node.inputs[0]!r}`, which is absent")
        return (inputs[0].value,)

    def seq_get(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        sequence, k = inputs
        if not 0 <= k < len(sequence):
            raise InterpretError(f"`seq.get` at {k} of `{node.inputs[0]!r}`, which has {len(sequence)} elements")
        return (sequence[k],)

    def list_put(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        """An element set or appended. A list of Optionals grows as far as it must, by absent ones."""
        elements, k, value = inputs
        type_ = node.output.type
        if k > len(elements) and isinstance(type_, ListType) and isinstance(type_.elem, OptionalType):
            elements = [*elements, *[None] * (k - len(elements))]
        if not 0 <= k <= len(elements):
            raise InterpretError(f"`list.put` at {k} of `{node.inputs[0]!r}`, which has {len(elements)} elements")
        return ([*elements[:k], value, *elements[k + 1:]],)

    def list_get(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        """An element; beyond the end of a list of Optionals an absent one."""
        elements, k = inputs
        if isinstance(node.output.type, OptionalType) and k >= len(elements):
            return (None,)
        return self.seq_get(node, inputs)

    # --- effects ---

    def check_node(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        if inputs[0]:
            return ()
        raise exception(node.attrs["error"], node.attrs.get("template"), inputs[1:])

    def print_node(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        getattr(sys, node.attrs.get("stream", "stdout")).write(render(node.attrs["template"], inputs))
        return ()

    def callback(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        given = [_unwrap(x, v.type) for x, v in zip(inputs, node.inputs, strict=True)]
        results: Sequence[Any] = node.attrs["call"].run(given)
        return results

    def callback_vjp(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        attrs, n = node.attrs, len(node.outputs) // 2
        found = attrs["call"].backward(inputs[0], attrs["wanted"], attrs["present"], inputs[1:])
        zeros = [np.zeros([self.size(s) for s in v.type.dims], v.type.dtype.np)  # type: ignore[union-attr]
                 for v in node.outputs[:n]]
        return [*[z if g is None else np.asarray(g) for z, g in zip(zeros, found, strict=True)],
                *[g is not None for g in found]]

    def commit(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        target = node.attrs["target"]
        memory = self.memory[target]
        if isinstance(self.graph.inputs[target].type, TensorType):
            put_back(memory, inputs[0])
        elif self.on_commit is None:
            raise InterpretError(f"a commit to input {target}, and no `on_commit`")
        else:
            self.on_commit(target, _unwrap(inputs[0], node.inputs[0].type))
        return ()


_SPECIAL: dict[str, Callable[[_Run, Node, list[Any]], Sequence[Any]]] = {
    "dim.value": lambda run, node, inputs: (run.size(node.attrs["dim"]),),
    "dim.bind": _Run.dim_bind, "fill": _Run.fill, "select": _Run.select, "opt.get": _Run.opt_get,
    "seq.get": _Run.seq_get,
    "item": lambda run, node, inputs: (inputs[0].item(),),
    "opt.some": lambda run, node, inputs: (Some(inputs[0]),),
    "opt.none": lambda run, node, inputs: (None,),
    "opt.has": lambda run, node, inputs: (inputs[0] is not None,),
    "list.new": lambda run, node, inputs: ([],),
    "list.put": _Run.list_put, "list.get": _Run.list_get,
    "list.take": lambda run, node, inputs: (inputs[0][:max(inputs[1], 0)],),
    **dict.fromkeys(("seq.len", "list.len"), lambda run, node, inputs: (len(inputs[0]),)),
    **dict.fromkeys(("leaf", "list.copy", "custom"), lambda run, node, inputs: inputs[:len(node.outputs)]),
    **dict.fromkeys(("region.begin", "region.end"), lambda run, node, inputs: ()),
    "text": lambda run, node, inputs: (compute(node.attrs, inputs),),
    "check": _Run.check_node, "print": _Run.print_node, "commit": _Run.commit,
    "callback": _Run.callback, "callback.vjp": _Run.callback_vjp,
}


def _wrap(value: Any, type_: Type) -> Any:
    """An input as the interpreter holds it. Elements of what another run of it saved are already in that form."""
    if isinstance(type_, OptionalType):
        return None if value is None else Some(_wrap(value, type_.elem))
    if isinstance(type_, SeqType) and isinstance(type_.elem, (OptionalType, SeqType)):
        return [v if isinstance(v, Some) else _wrap(v, type_.elem) for v in value]
    return value


def _unwrap(value: Any, type_: Type) -> Any:
    if isinstance(type_, OptionalType):
        return None if value is None else _unwrap(value.value, type_.elem)
    if isinstance(type_, ListType):
        elements = [_unwrap(v, type_.elem) for v in value]
        return [v.copy() if isinstance(v, np.ndarray) else v for v in elements]
    return value


def _annotate(error: Exception, node: Node) -> None:
    """Say on which source line a node raised."""
    if node.span is None:
        return
    error._place = node.span  # type: ignore[attr-defined]  # for `tracebacks.show_lines`
    if not hasattr(error, "span"):
        error.span = node.span  # type: ignore[attr-defined]
        chain = node.span.chain()
        error.add_note(f"{node.span}\n{node.span.excerpt()}" + (f"\n{chain}" if chain else ""))

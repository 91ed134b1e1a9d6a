"""The backward pass: nodes in order of decreasing number, so that all of a node's cotangents have come before it runs.

Numbers grow with time and a node is younger than everything it leads to; a heap of numbers is therefore a topological
order, and nothing recurses, however long the chain. One loop serves both orders of derivative: its values are arrays,
or Tensors where the pass itself is recorded (`create_graph`); `cotangents.py` says how to handle them.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from jitgrad.eager.arrays.arrays import filled_like, several
from jitgrad.eager.arrays.blocks import keep, release
from jitgrad.eager.arrays.errstate import SILENT, restore, silence
from jitgrad.eager.autograd.anomaly import made_by, require_numbers, watching
from jitgrad.eager.autograd.cotangents import Arrays, Placed, Tensors, own
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import Edge, Meta, Node, TapedArray, edge_of
from jitgrad.eager.autograd.tape import TAPE
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor, install_engine

Given = Tensor | Iterable[Tensor]
_ndarray = np.ndarray


class _Pass:
    """One backward pass.

    Args:
        values: how to handle cotangents.
        wanted: None to reach every leaf; else the edges of the tensors whose gradient is asked for: nothing else is
            computed or touched.
        collect: keep the gradients of `wanted` in `collected` instead of adding them to `.grad`.
        inner: part of another pass: end at every wanted edge, and leave the hooks there to that pass.
    """

    def __init__(self, values: Arrays | Tensors, keep_graph: bool, wanted: Sequence[Edge] | None, collect: bool,
                 inner: bool = False):
        self.inner = inner
        self.values, self.keep_graph, self.collect = values, keep_graph, collect
        self.pending: dict[Node, list[Any]] = {}
        self.heap: list[tuple[int, Node]] = []
        self.leaves: dict[TapedArray, Any] = {}
        self.own: set[Edge] = set()  # where what is pending was summed here, so that it can be added to in place
        self.wanted: set[Edge] = set() if wanted is None else set(wanted)
        self.collected: dict[Edge, Any] = {}
        self.all = wanted is None
        self.useful: set[Any] = set()
        self.stops: set[Node] = set()

    def prune(self, roots: Sequence[Edge]) -> None:
        """Find the nodes from which something wanted can be reached, and those where the pass need not go on."""
        if self.all:
            return
        nodes: set[Node] = set()
        useful = self.useful = {target for target, _ in self.wanted}
        if self.inner:
            self.stops = {target for target in useful if isinstance(target, Node)}
        stack = [r[0] for r in roots if isinstance(r[0], Node)]
        while stack:
            node = stack.pop()
            if node not in nodes and node not in self.stops:
                nodes.add(node)
                stack.extend([e[0] for e in node.edges if e is not None and isinstance(e[0], Node)])
        for node in sorted(nodes, key=lambda n: n.number):
            leads = any(e is not None and e[0] in useful for e in node.edges)
            if node in useful and not leads:
                self.stops.add(node)
            elif leads:
                useful.add(node)

    def send(self, edge: Edge, value: Any) -> None:
        """Add a cotangent to what an edge leads to."""
        target, slot = edge
        if isinstance(target, Node):
            waiting = self.pending.get(target)
            if waiting is None:
                waiting = self.pending[target] = [None] * target.n_outputs
                heappush(self.heap, (-target.number, target))
            elif waiting[slot] is not None:
                value = self.values.add(waiting[slot], value, edge in self.own)
                self.own.add(edge)
            waiting[slot] = value
        else:
            leaves = self.leaves
            if target in leaves:
                value = self.values.add(leaves[target], value, edge in self.own)
                self.own.add(edge)
            leaves[target] = value

    def run(self) -> None:
        """Work until nothing is pending, then hand the leaves their gradients."""
        heap, pending, everything = self.heap, self.pending, self.all
        values, useful = self.values, self.useful
        fit, send = values.fit, self.send
        while heap:
            _, node = heappop(heap)
            cotangents = pending.pop(node)
            if not everything:
                if node in self.stops:  # the last to see this gradient: hooks come first, as in torch
                    if not self.inner:
                        self._before(node, cotangents)
                    self._collect(node, cotangents)
                    continue
                self._collect(node, cotangents)
            if node.hooks is not None or node.retained is not None:
                self._before(node, cotangents)
            edges = node.edges
            needs = node.needs
            if not everything:
                needs = tuple([e is not None and e[0] in useful for e in edges])
            metas = node.metas
            gradients = self._watched(node, cotangents, needs) if watching.on else values.run(node, cotangents, needs)
            if node.hooks is not None and node.hooks.after:
                gradients = self._after(node, gradients, cotangents)
            del cotangents
            for i, gradient in enumerate(gradients):
                if gradient is not None and needs[i]:
                    meta = metas[i]  # type: ignore[index]
                    if gradient.shape != meta.shape or gradient.dtype != meta.dtype:
                        gradient = fit(gradient, meta)
                    send(edges[i], gradient)  # type: ignore[arg-type]
            gradient = gradients = None  # type: ignore[assignment]
            if not self.keep_graph:
                node.release()
        self._finish()

    def _watched(self, node: Node, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        """What a node gives; errors tell the call that made it, and NaN is one."""
        try:
            gradients = self.values.run(node, cotangents, needs)
        except Exception as error:
            error.add_note(made_by(node))
            raise
        if watching.check_nan:
            require_numbers(node, [None if g is None else getattr(g, "_data", g) for g in gradients])
        return gradients

    def _collect(self, node: Node, cotangents: list[Any]) -> None:
        for slot, value in enumerate(cotangents):
            if value is not None and (node, slot) in self.wanted:
                self.collected[(node, slot)] = value

    def _finish(self) -> None:
        leaves = self.leaves
        while leaves:
            leaf = next(iter(leaves))
            value = leaves.pop(leaf)
            for wanted in leaf._grad_dtype:
                value = value if wanted is None else self.values.fit(value, Meta(value.shape, wanted.np))
            if leaf._hooks and not self.inner:
                value = self._hooked(list(leaf._hooks.values()), value)
            if self.collect:
                self.collected[(leaf, 0)] = value
                continue
            self.values.accumulate(leaf, value)
            if leaf._after_hooks:
                for hook in list(leaf._after_hooks.values()):
                    hook(leaf)

    # --- hooks -------------------------------------------------------------------------------------------------

    def _hooked(self, hooks: Sequence[Any], value: Any) -> Any:
        gradient = self.values.wrap(value)
        for hook in hooks:
            result = hook(gradient)
            if result is not None:
                if not isinstance(result, Tensor):
                    raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
                if result._data.shape != gradient._data.shape:
                    name = getattr(hook, "__name__", type(hook).__name__)
                    raise RuntimeError(f"hook '{name}' has changed the size of value")
                gradient = result
        return self.values.unwrap(gradient)

    def _before(self, node: Node, cotangents: list[Any]) -> None:
        if node.hooks is not None:
            for slot, hooks in node.hooks.outputs.items():
                if hooks and cotangents[slot] is not None:
                    cotangents[slot] = self._hooked(list(hooks.values()), cotangents[slot])
            for hook in list(node.hooks.before.values()):
                result = hook(self._wrapped(cotangents))
                if result is not None:
                    cotangents[:] = self._unwrapped(result)
        if node.retained is not None:
            for slot, reference in node.retained.items():
                tensor, value = reference(), cotangents[slot]
                if tensor is not None and value is not None:
                    self.values.accumulate(tensor, value)

    def _after(self, node: Node, gradients: Sequence[Any], cotangents: list[Any]) -> Sequence[Any]:
        assert node.hooks is not None
        for hook in list(node.hooks.after.values()):
            result = hook(self._wrapped(gradients), self._wrapped(cotangents))
            if result is not None:
                gradients = self._unwrapped(result)
        return gradients

    def _wrapped(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([None if v is None else self.values.wrap(v) for v in values])

    def _unwrapped(self, tensors: Any) -> list[Any]:
        if isinstance(tensors, Tensor):
            tensors = (tensors,)
        return [None if t is None else self.values.unwrap(t) for t in tensors]


# --- the public functions ------------------------------------------------------------------------------------------


def listed(given: Given) -> tuple[Tensor, ...]:
    return (given,) if isinstance(given, Tensor) else tuple(given)


def _edges(inputs: Sequence[Tensor], message: str) -> list[Edge]:
    """Where gradients of `inputs` arrive; {} in the message is the number of one that needs none."""
    found = []
    for i, x in enumerate(inputs):
        edge = edge_of(x)
        if edge is None:
            raise RuntimeError(message.format(i))
        found.append(edge)
    return found


def _roots(outputs: tuple[Tensor, ...], given: Any) -> list[tuple[Edge, Tensor]]:
    """Edge and cotangent to start with, for each output."""
    cotangents = (None,) * len(outputs) if given is None else listed(given)
    if len(cotangents) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(cotangents)} gradients")
    roots: list[tuple[Edge, Tensor]] = []
    for i, (y, g) in enumerate(zip(outputs, cotangents, strict=True)):
        edge = edge_of(y)
        if edge is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        if g is None:
            if y._data.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if y._data.dtype.kind == "c":
                raise RuntimeError("grad can be implicitly created only for real scalar outputs but got "
                                   f"torch.{y.dtype.name}")
            g = wrap(np.ones(y._data.shape, y._data.dtype) if type(y._data) is _ndarray else
                     filled_like(y._data, "ones_like"))
        elif not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        elif g._data.shape != y._data.shape:
            raise RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a "
                               f"shape of {y.shape}.")
        elif y._data.dtype.kind == "c" and g._data.dtype.kind != "c":
            raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. "
                               f"Mismatch in dtype: grad_output[{i}] has a dtype of torch.{g.dtype.name} and output"
                               f"[{i}] has a dtype of torch.{y.dtype.name}.")
        elif g._data.dtype != y._data.dtype:
            g = TAPE.cast(g, dtype=y.dtype)
        roots.append((edge, g))
    return roots


def _run(roots: list[tuple[Edge, Tensor]], keep_graph: bool, create_graph: bool, wanted: Sequence[Edge] | None,
         collect: bool, inner: bool = False) -> _Pass:
    values: Arrays | Tensors = Tensors() if create_graph else Placed() if several() else Arrays()
    work = _Pass(values, keep_graph, wanted, collect, inner)
    work.prune([edge for edge, _ in roots])
    for edge, g in roots:
        if work.all or edge[0] in work.useful:
            work.send(edge, g if create_graph else g._data)
    before, mode.enabled = mode.enabled, create_graph and not mode.inference
    token, kept = silence(SILENT), keep()
    try:
        work.run()
    finally:
        release(kept)
        restore(token)
        mode.enabled = before
    return work


def backward(tensors: Given, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None, inputs: Given | None = None) -> None:
    """Add the gradient of the sum of `tensors` to the `.grad` of the leaves that they were computed from.

    Args:
        tensors: what to differentiate.
        grad_tensors: a cotangent (or None, for one element) for each of them.
        retain_graph: keep what was saved, so that backward can run again; `create_graph` by default.
        create_graph: record the backward pass itself.
        inputs: add to these tensors' `.grad` only.

    Raises:
        RuntimeError: torch's errors, with torch's words.
    """
    outputs = listed(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    targets = () if inputs is None else listed(inputs)
    if inputs is not None and not targets:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    roots = _roots(outputs, grad_tensors if grad_tensors is not None else grad_variables)
    wanted = None if inputs is None else _edges(
        targets, "One of the differentiated Tensors (number {}) does not require grad")
    work = _run(roots, keep, create_graph, wanted, collect=False)
    for x, edge in zip(targets, wanted or (), strict=True):
        value = work.collected.get(edge)
        if value is not None and isinstance(edge[0], Node) and not x._retains:
            work.values.accumulate(x, value)


def grad(outputs: Given, inputs: Given, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` with respect to `inputs`, leaves or not; no `.grad` changes.

    Args:
        outputs, grad_outputs, retain_graph, create_graph: as for `backward`.
        inputs: with respect to what.
        allow_unused: None instead of an error for an input that the outputs do not depend on.
        materialize_grads: zeros for such an input.

    Raises:
        RuntimeError: torch's errors, with torch's words.
    """
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched is not available: call grad once per cotangent")
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    if allow_unused is None:
        allow_unused = materialize_grads
    targets = listed(inputs)
    roots = _roots(listed(outputs), grad_outputs)
    wanted = _edges(targets, "One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    work = _run(roots, keep, create_graph, wanted, collect=True)
    results: list[Tensor | None] = []
    for i, (x, edge) in enumerate(zip(targets, wanted, strict=True)):
        value = work.collected.get(edge)
        if value is not None:
            results.append(value if create_graph else wrap(own(value)))
        elif materialize_grads:
            results.append(wrap(filled_like(x._data, "zeros_like")))
        elif allow_unused:
            results.append(None)
        else:
            raise RuntimeError(f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                               "Set allow_unused=True if this is the desired behavior.")
    return tuple(results)


def run_to_edges(outputs: Sequence[Tensor], cotangents: Sequence[Tensor], edges: Sequence[Edge],
                 create_graph: bool) -> list[Tensor | None]:
    """The gradients that arrive at `edges`, where the pass ends; None where nothing does. No `.grad` changes, and no
    hook is called there.
    """
    roots = [(edge, g) for y, g in zip(outputs, cotangents, strict=True) if (edge := edge_of(y)) is not None]
    work = _run(roots, create_graph, create_graph, edges, collect=True, inner=True)
    values = [work.collected.get(edge) for edge in edges]
    return [None if v is None else v if create_graph else wrap(v) for v in values]


install_engine(backward)

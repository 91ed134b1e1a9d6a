"""A segment of eager computation whose intermediate values are not kept: the backward computes them again.

The function runs once, recorded; its tape is then replaced by one node that has the edges by which the tape left the
segment, to arguments, parameters and whatever else it read. The node's backward runs the function again and the tape
of that run backwards, down to the same edges.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.eager.autograd.engine import run_to_edges
from jitgrad.eager.autograd.grad_mode import enable_grad
from jitgrad.eager.autograd.node import SECOND_BACKWARD, Edge, Meta, Node, edge_of, next_number
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor

#: runs the function again: what it returns, as a flat list
Again = Callable[[], Sequence[Any]]


class CheckpointBackward(Node):
    """The segment as one step of the tape."""

    __slots__ = ("again", "places", "shapes")

    def __init__(self, again: Again, edges: dict[Edge, Meta], outputs: Sequence[tuple[int, Tensor]]):
        self.begin((), len(outputs))
        self.title = "CheckpointBackward"
        self.edges = list(edges)
        self.needs = (True,) * len(edges)
        self.metas = list(edges.values())
        self.again: Again | None = again
        self.places = [i for i, _ in outputs]
        self.shapes = [y._data.shape for _, y in outputs]

    def _run(self, cotangents: list[Any], create_graph: bool) -> Sequence[Any]:
        if self.again is None:
            raise RuntimeError(SECOND_BACKWARD)
        with enable_grad():
            results = self.again()
        found = [results[i] for i in self.places]
        for y, shape in zip(found, self.shapes, strict=True):
            if not isinstance(y, Tensor) or y._data.shape != shape:
                raise RuntimeError("checkpoint: the function returned other shapes when it ran again for the backward "
                                   f"pass: {list(getattr(y, 'shape', ()))} where it was {list(shape)}")
        pairs = [(y, g) for y, g in zip(found, cotangents, strict=True) if g is not None and y.requires_grad]
        wanted = [e for e in self.edges if e is not None]
        return run_to_edges([y for y, _ in pairs], [g for _, g in pairs], wanted, create_graph)

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        given = [None if g is None else wrap(g) for g in cotangents]
        return [None if g is None else g._data for g in self._run(given, False)]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return self._run(cotangents, True)

    def release(self) -> None:
        self.again = None


def run(function: Again, again: Again) -> list[Any]:
    """What `function` returns, with this segment's history as one node that calls `again`."""
    start = next_number()
    results = list(function())
    moving: list[tuple[int, Tensor]] = []
    for i, y in enumerate(results):
        if isinstance(y, Tensor) and y.requires_grad:
            edge = edge_of(y)
            if edge is not None and isinstance(edge[0], Node) and edge[0].number > start:
                moving.append((i, y))
    edges = _leaving([y for _, y in moving], start)
    if not edges:
        return results
    node = CheckpointBackward(again, edges, moving)
    for slot, (i, y) in enumerate(moving):
        results[i] = node.attach(wrap(y._data), slot)
    return results


def _leaving(outputs: Sequence[Tensor], start: int) -> dict[Edge, Meta]:
    """The edges by which the tape behind `outputs` leaves the nodes made since `start`, with what arrives there."""
    found: dict[Edge, Meta] = {}
    seen: set[int] = set()
    pending = [edge[0] for y in outputs if (edge := edge_of(y)) is not None]
    while pending:
        node = pending.pop()
        assert isinstance(node, Node)
        if id(node) in seen:
            continue
        seen.add(id(node))
        for edge, meta in zip(node.edges, node.metas or (), strict=True):
            if edge is None:
                continue
            target = edge[0]
            if isinstance(target, Node) and target.number > start:
                pending.append(target)
            elif edge not in found:
                found[edge] = Meta(meta.shape, meta.dtype)
    return found

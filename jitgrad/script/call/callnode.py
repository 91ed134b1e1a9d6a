"""The node that a scripted call is on eager's tape: what it keeps, which gradients go where."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from jitgrad.eager.autograd.anomaly import remember, watching
from jitgrad.eager.autograd.node import (SECOND_BACKWARD, Node, Storage, changed, edge_of, next_number,
                                         version_of as saved_version)

_NONE: frozenset[int] = frozenset()


class Differentiable(Protocol):
    """What the node knows of the `GraphFunction` that was called."""

    wrt: tuple[int, ...]
    differentiable: tuple[int, ...]
    histories: tuple[int, ...]
    arguments: tuple[int, ...]
    list_inputs: tuple[int, ...]
    saved: frozenset[int]
    calls_back: bool
    title: str

    def backward(self, residuals: list[Any], unreached: Collection[int], cotangents: Sequence[Any],
                 objects: Sequence[Any] = ()) -> list[Any]:
        """First order: arrays in, arrays (or None where an input was not reached) out."""

    def backward_on_tape(self, objects: Sequence[Any], versions: list[int], unreached: Collection[int],
                         cotangents: Sequence[Any]) -> list[Any]:
        """The gradient as a function on the tape."""


class CallNode(Node):
    """A call on the tape: owns the residuals, and the versions of arguments and results that its backward reads again.
    """

    __slots__ = ("freed", "function", "items_seen", "lists", "objects", "reached", "residuals", "results", "seen",
                 "tapes", "unreached")

    def __init__(self, function: Differentiable, objects: Sequence[Any], residuals: list[Any],
                 unreached: Collection[int]):
        inputs = [objects[i] for i in function.wrt]
        if function.list_inputs:
            inputs = [x for given in inputs for x in (given if type(given) is list else (given,))]
        self.number = next_number()
        self.edges = [None if x is None else edge_of(x) if x._base is not None or (x._node is None and not x._needs)
                      else (x, 0) if x._node is None else (x._node, x._slot) for x in inputs]
        self.needs = tuple([e is not None for e in self.edges])
        self.metas = [None if x is None else x._data for x in inputs]
        #: results that are lists: (number among the differentiable outputs, slot of the first item, outline)
        self.lists: list[tuple[int, int, list[Any]]] = []
        self.n_outputs = len(function.differentiable)
        #: storages of results that are residuals as well, with their versions, arrays and slots
        self.results: list[tuple[Storage, int, Any, int]] = []
        self.hooks = self.retained = None
        self.title = function.title
        self.function, self.objects, self.residuals, self.unreached = function, objects, residuals, unreached
        self.tapes = None
        if watching.on:
            remember(self)
        #: the histories that the last backward went through, and those that earlier ones have freed
        self.reached = self.freed = _NONE
        if function.calls_back:
            from jitgrad.script.call import callback  # few programs do

            self.tapes = callback.current().tapes
        self.seen = [version_of(objects[i]) for i in function.arguments]
        self.items_seen = [[version_of(x) for x in objects[i]] for i in function.list_inputs]

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        cotangents = self.ready(cotangents)
        if self.tapes is not None:
            from jitgrad.script.call import callback

            with callback.running(callback.Recorded(self.tapes)):
                return self.function.backward(self.residuals, self.unreached, cotangents, self.objects)
        return self.function.backward(self.residuals, self.unreached, cotangents, self.objects)

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        cotangents = self.ready(cotangents)
        return self.function.backward_on_tape(self.objects, self.seen, self.unreached, cotangents)

    def keep(self, results: Sequence[Any]) -> None:
        """Note tensors whose memory is that of residuals."""
        for x in results:
            storage, version, array, _, slot = saved_version(x)
            self.results.append((storage, version, array, slot))

    def attach_list(self, number: int, items: Sequence[Any]) -> None:
        """Make the tensors of a list outputs of this node."""
        start = self.n_outputs
        found = flat(items)
        for slot, item in enumerate(found, start):
            if item is not None:
                self.attach(item, slot)
        self.lists.append((number, start, _outline(items)))
        self.n_outputs = start + len(found)

    def ready(self, cotangents: list[Any]) -> list[Any]:
        """Cotangents per slot as one per differentiable output: for a list a list, or None. Raises RuntimeError where
        what the backward reads is gone, or was overwritten.
        """
        if self.metas is None:
            raise RuntimeError(SECOND_BACKWARD)
        self.check_versions()
        given = cotangents[:len(self.function.differentiable)]
        for number, start, outline in self.lists:
            given[number] = _shaped(outline, iter(cotangents[start:]))
        if self.function.histories:
            self.reached = frozenset(
                h for h, c in zip(self.function.histories, given, strict=True) if c is not None)
            if not self.freed.isdisjoint(self.reached):
                raise RuntimeError(SECOND_BACKWARD)
        return given

    def release(self) -> None:
        self.freed |= self.reached
        if self.freed < frozenset(self.function.histories):
            return
        self.metas = None
        self.objects, self.residuals, self.results, self.tapes = (), [], [], None

    def check_versions(self) -> None:
        function = self.function
        for i, version in zip(function.arguments, self.seen, strict=True):
            found = version_of(self.objects[i])
            if found != version and i in function.saved:
                edge = self.edges[function.wrt.index(i)] if i in function.wrt else None
                origin = edge[0] if edge is not None and isinstance(edge[0], Node) else None
                raise changed(self.objects[i]._data, origin, edge[1] if edge is not None else 0, version, found)
        for storage, version, array, slot in self.results:
            if storage.version != version:
                raise changed(array, self, slot, version, storage.version)
        for i, versions in zip(function.list_inputs, self.items_seen, strict=True):
            if i in function.saved:
                for x, version in zip(self.objects[i], versions, strict=True):
                    if version_of(x) != version:
                        raise changed(x._data, None, 0, version, version_of(x))


def flat(items: Sequence[Any]) -> list[Any]:
    return [x for item in items for x in (flat(item) if type(item) is list else (item,))]


def _outline(items: Sequence[Any]) -> list[Any]:
    """A list without what it holds, but for the lists in it."""
    return [_outline(x) if type(x) is list else None for x in items]


def _shaped(like: Sequence[Any], items: Iterator[Any]) -> list[Any] | None:
    """Items as the lists in `like` have them; None for one that holds nothing but None."""
    found = [_shaped(x, items) if type(x) is list else next(items) for x in like]
    return None if all(x is None for x in found) else found


def version_of(tensor: Any) -> int:
    """How often the tensor's memory was written in place (a constant's array, or one without a storage, never was)."""
    storage = getattr(tensor, "_storage", None)
    version: int = 0 if storage is None else storage.version
    return version


def as_arrays(cotangent: Any) -> Any:
    """A cotangent as an array; that of a list with its items as arrays. NumPy makes scalars of 0-dim results."""
    if type(cotangent) is list:
        return [np.asarray(c) if isinstance(c, np.generic) else as_arrays(c) if type(c) is list else c
                for c in cotangent]
    return np.asarray(cotangent) if isinstance(cotangent, np.generic) else cotangent

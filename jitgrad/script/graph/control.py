"""Control flow of an interpreted graph: blocks under way, and the nodes that say which block runs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dims import Symbol
from jitgrad.errors import JitgradError
from jitgrad.script.graph.effects import Pending
from jitgrad.script.graph.nodes import Block, Node, Value

#: gives values what they are in this run, and symbols that they bind their sizes
Bind = Callable[[Sequence[Value], Sequence[Any], Sequence[Symbol]], None]


class InterpretError(JitgradError):
    """A value that is not what its type says: a bug in whatever made the graph, or a wrong input."""


class Frame:
    """A block under way: its next node, and the control node that it belongs to."""

    __slots__ = ("around", "block", "control", "next", "pending")

    def __init__(self, block: Block, control: Control | None, pending: Pending | None = None):
        self.block, self.control, self.next = block, control, 0
        self.pending = self.around = pending  # what an exception would store, here and where the block begins


class Control:
    """A structural node under way. `enter` and `leave` give the block to run next, or None at the end."""

    def __init__(self, node: Node, inputs: list[Any], bind: Bind):
        self.node, self.inputs, self.bind = node, inputs, bind

    def enter(self) -> Block | None:
        raise NotImplementedError

    def leave(self, results: list[Any]) -> Block | None:
        raise NotImplementedError

    def finish(self, results: list[Any]) -> None:
        self.bind(self.node.outputs, results, self.node.binds)


class If(Control):
    def enter(self) -> Block:
        return self.node.blocks[0 if self.inputs[0] else 1]

    def leave(self, results: list[Any]) -> None:
        self.finish(results)


class Loop(Control):
    """What `while` and `scan` share: the carries and the sequences of ys."""

    carries: list[Any]
    ys: list[list[Any]]
    k = 0

    def start(self, arguments: list[Any]) -> Block:
        """Enter the body with `arguments`; in each iteration the block's symbols take the sizes of its parameters."""
        body = self.node.blocks[0]
        self.bind(body.params, arguments, body.binds)
        return body

    def store(self, ys: list[Any]) -> None:
        for sequence, y in zip(self.ys, ys, strict=True):
            sequence.append(y)


class While(Loop):
    def enter(self) -> Block | None:
        self.going, *self.carries = self.inputs
        self.ys = [[] for _ in range(len(self.node.outputs) - 1 - len(self.carries))]
        return self.step()

    def step(self) -> Block | None:
        if self.going:
            return self.start(self.carries)
        self.finish([self.k, *self.carries, *self.ys])
        return None

    def leave(self, results: list[Any]) -> Block | None:
        n = len(self.carries)
        self.going, self.carries = results[0], results[1 : n + 1]
        self.store(results[n + 1 :])
        self.k += 1
        return self.step()


class Scan(Loop):
    def enter(self) -> Block | None:
        n = self.node.attrs["n_carries"]
        self.trips, self.carries, self.xs = max(0, self.inputs[0]), self.inputs[1 : n + 1], self.inputs[n + 1 :]
        self.reverse = bool(self.node.attrs.get("reverse"))
        self.ys = [[] for _ in range(len(self.node.outputs) - n)]
        for value, sequence in zip(self.node.inputs[n + 1 :], self.xs, strict=True):
            if len(sequence) != self.trips:
                raise InterpretError(f"`{value!r}` has {len(sequence)} elements in a scan of {self.trips}")
        return self.step()

    def step(self) -> Block | None:
        if self.k < self.trips:
            k = self.trips - 1 - self.k if self.reverse else self.k
            return self.start([k, *self.carries, *(x[k] for x in self.xs)])
        if self.reverse:
            for sequence in self.ys:
                sequence.reverse()
        self.finish([*self.carries, *self.ys])
        return None

    def leave(self, results: list[Any]) -> Block | None:
        n = len(self.carries)
        self.carries = results[:n]
        self.store(results[n:])
        self.k += 1
        return self.step()


CONTROL: dict[str, type[Control]] = {"if": If, "while": While, "scan": Scan}

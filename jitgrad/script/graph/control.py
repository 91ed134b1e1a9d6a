"""Control flow of an interpreted graph: blocks under way, and the nodes that say which block runs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dims import Symbol
from jitgrad.errors import JitgradError
from jitgrad.script.graph.effects import Pending
from jitgrad.script.graph.nodes import Block, Loop, Node, Value

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


class Looping(Control):
    """A `while` or `scan`: the carries, and the sequences of ys."""

    def enter(self) -> Block | None:
        loop = self.loop = Loop(self.node)
        self.head, *rest = self.inputs  # whether to go on, or the number of iterations
        self.carries, self.xs = rest[:loop.n], rest[loop.n:]
        self.reverse = bool(self.node.attrs.get("reverse"))
        self.ys: list[list[Any]] = [[] for _ in loop.y_outputs]
        self.k = 0
        for value, sequence in zip(loop.seqs, self.xs, strict=True):
            if len(sequence) != max(0, self.head):
                raise InterpretError(f"`{value!r}` has {len(sequence)} elements in a scan of {max(0, self.head)}")
        return self.step()

    def step(self) -> Block | None:
        """Enter the body, in which the block's symbols take the sizes of its parameters; or end."""
        loop, k = self.loop, self.k
        if self.head if loop.counter is None else k < self.head:
            at = self.head - 1 - k if self.reverse else k
            counter = [at] * loop.first
            self.bind(loop.body.params, [*counter, *self.carries, *(x[at] for x in self.xs)], loop.body.binds)
            return loop.body
        trips = [k] * loop.lead
        self.finish([*trips, *self.carries, *(ys[::-1] if self.reverse else ys for ys in self.ys)])
        return None

    def leave(self, results: list[Any]) -> Block | None:
        loop = self.loop
        if loop.lead:
            self.head, *results = results
        self.carries = results[:loop.n]
        for sequence, y in zip(self.ys, results[loop.n:], strict=True):
            sequence.append(y)
        self.k += 1
        return self.step()


CONTROL: dict[str, type[Control]] = {"if": If, "while": Looping, "scan": Looping}

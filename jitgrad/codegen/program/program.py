"""The second level: what lowering makes of a graph, and what a backend prints.

A `Program` is one function. Its memory is a set of `Buffer`s; a `Ref` is a strided window into one. Steps are run in
order; branches and loops hold nested lists of steps. Numbers stay `ir.Value`s: a backend keeps them in registers.
"""

from typing import Any, Literal

from jitgrad.classes import dataclass
from jitgrad.codegen.program.step import Buffer, Ref, Use, uses_in
from jitgrad.dims import Size, Symbol
from jitgrad.ops.types import Type
from jitgrad.script.graph.ir import Node, Value


@dataclass(slots=True, eq=False, repr=False)
class CallSite:
    """Where native code leaves for Python: a failing check, a print, a library call."""

    kind: Literal["check", "print", "text", "library", "arithmetic", "memory", "callback", "fetch", "callback.vjp",
                  "pending"]
    node: Node


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """An array: made by the launcher and written in place (`fresh`) where its sizes are known at entry, else copied.

    `flags`: whether it is there, for an Optional.
    """

    ref: Ref
    fresh: bool
    shape: tuple[Size, ...]
    flags: tuple[Value, ...] = ()

    @property
    def uses(self) -> list[Use]:
        return uses_in(self.ref, self.shape, self.flags)


@dataclass(frozen=True, slots=True)
class NumberOutput:
    """Flags and a number or sequence."""

    type: Type
    parts: tuple[Value, ...]

    @property
    def uses(self) -> list[Use]:
        return uses_in(self.parts)


@dataclass(slots=True)
class Program:
    """One function: what to run and what it needs.

    Attributes:
        name: the native function's name.
        inputs: the types of the inputs.
        input_parts: per input, the flags and numbers that the launcher passes.
        input_symbols: symbol -> (input, axis) where its value is read at entry.
        steps: the body.
        outputs: one per graph output.
        buffers: every buffer that is not an input's or an output's.
        sites: places that may raise, print or call the library.
        reasons: (producer, consumer, why the two are not in one kernel).
        origins: step -> the nodes that it computes.
        commits: inputs whose memory or slot the program writes.
    """

    name: str
    inputs: tuple[Type, ...]
    input_buffers: dict[int, Buffer]
    input_parts: list[tuple[Value, ...]]
    input_symbols: dict[Symbol, tuple[int, int]]
    steps: list[Any]
    outputs: list[TensorOutput | NumberOutput]
    sites: list[CallSite]
    reasons: list[tuple[Node, Node, str]]
    commits: tuple[int, ...]
    origins: dict[Any, tuple[Node, ...]]

"""A graph as a differentiable function of eager tensors: native code, and one node on the tape per call.

The forward program returns the graph's outputs and the residuals; the node keeps the residuals, so any number of calls
may be outstanding and their backward passes run in any order. `create_graph=True` calls the gradient function
`g(inputs, cotangents)`, itself a GraphFunction: order k needs no new mechanism.
"""

from __future__ import annotations

import functools
import marshal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad import config, locks
from jitgrad.classes import cached_property, dataclass, fields
from jitgrad.determinism import are_deterministic_algorithms_enabled
from jitgrad.device import CPU, device as Device
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.construct import wrap, wrap_each
from jitgrad.errors import ErrorName
from jitgrad.ops.types import ListType, TensorType
from jitgrad.script.call import devices
from jitgrad.script.call.callnode import CallNode, as_arrays, version_of
from jitgrad.script.graph.ir import Graph, ancestors, committed, payload, walk

if TYPE_CHECKING:
    from jitgrad.script.autodiff import Derivative

# What only compiling needs (derivatives, passes, the code generator) is imported where it is used: a stored program
# runs without.

Program = Callable[..., list[Any]]


class Backward(NamedTuple):
    """A compiled derivative: gradients first, then flags; `flags` pairs a gradient's number with its flag's."""

    program: Program
    flags: tuple[tuple[int, int], ...]


@dataclass(eq=False)
class Interface:
    """What a function takes and gives, by numbers of inputs and outputs.

    Attributes:
        name: for messages and the tape.
        wrt: the inputs that need a gradient; empty: no derivative is compiled.
        differentiable: outputs that get a call's history.
        histories: for each of them a number, equal where they share history; () where all do.
        n_outputs: number of graph outputs; what the forward program returns after them are residuals.
        tensors, lists: outputs that are tensors (or absent), and lists.
        arguments, list_inputs: inputs that are tensors, and lists of tensors or None.
        writes: inputs that are tensors and written in place.
        kept: those of them of whose first content results with a history are made: a second derivative reads it again.
        device: where it runs.
        on_host: outputs that are brought from there to the CPU.
        lent: outputs of whose memory eager's derivative reads, too: what is kept for the backward is no copy of them.
    """

    name: str
    wrt: tuple[int, ...]
    differentiable: tuple[int, ...]
    histories: tuple[int, ...]
    n_outputs: int
    tensors: tuple[int, ...]
    lists: tuple[int, ...]
    arguments: tuple[int, ...]
    list_inputs: tuple[int, ...]
    writes: tuple[int, ...]
    kept: tuple[int, ...]
    device: Device
    on_host: tuple[int, ...]
    lent: tuple[int, ...] = ()


class GraphFunction(Interface):
    """Call with one object (Tensor or number) per graph input; returns Tensors and numbers, one per graph output.

    `graph`: after passes; or its text. The rest is its interface.
    """

    def __init__(self, graph: Graph | str, **interface: Any):
        super().__init__(**interface)
        #: inputs of one element that are on the CPU while the program runs elsewhere: the host computes with them
        self.hosted: frozenset[int] = frozenset()
        #: whether equal calls give equal bits, on a GPU too
        self.ordered = are_deterministic_algorithms_enabled()
        self._graph = graph
        self.calls_back = not isinstance(graph, str) and any(n.op == "callback" for n in walk(graph.block))
        self.title = self.name + "Backward"
        #: inputs whose memory the first-order backward reads again
        self.saved: frozenset[int] = frozenset()
        #: exceptions that are not Python's, by the names that the graph's text has for them
        self._errors: dict[str, ErrorName] = {}
        self._lock = threading.RLock()
        locks.new_in_children(self)
        self._backwards: dict[tuple[bool, ...], Backward] = {}
        self._gradients: dict[tuple[tuple[bool, ...], tuple[bool, ...]], GraphFunction] = {}
        self._compiled: list[Any] = []
        self.forward: Program
        #: where each residual is: index of a forward output, or ~index of an input that the backward reads again
        self.residuals: tuple[int, ...] = ()

    def interface(self) -> dict[str, Any]:
        """By name, what another function like this is made with."""
        return {f.name: getattr(self, f.name) for f in fields(Interface)}

    @property
    def graph(self) -> Graph:
        """The graph (parsed on demand where the program came from the disk cache)."""
        if isinstance(self._graph, str):
            from jitgrad.script.graph.parse import parse

            self._graph = parse(self._graph, {name: error.find() for name, error in self._errors.items()})
        return self._graph

    @property
    def faces(self) -> Sequence[Any]:
        """What launching native code needs to know of it; nothing where the interpreter runs."""
        return self._compiled[0].faces if self._compiled else ()

    @cached_property
    def reads(self) -> set[int]:
        """The inputs whose elements the graph reads."""
        blocks = [self.graph.block, *(b for node in walk(self.graph.block) for b in node.blocks)]
        used = {v for b in blocks for v in b.results} | {v for b in blocks for node in b.nodes for v in node.inputs}
        return {i for i, v in enumerate(self.graph.inputs) if v in used}

    @cached_property
    def by_hand(self) -> bool:
        """Whether some of its derivative was written by hand: an `autograd.Function`."""
        return any(n.op == "custom" for n in walk(self.graph.block))

    @property
    def on_device(self) -> bool:
        """Whether the graphs are made for a device that is not the host."""
        return self.device.type != "cpu"

    @cached_property
    def derivative(self) -> Derivative:
        """The graph's derivative; deterministic, so that residuals fit programs compiled in another process."""
        from jitgrad.script.autodiff import differentiate

        return differentiate(self.graph, self.wrt, self.differentiable)

    def gradient_graphs(self) -> tuple[Graph, Graph]:
        """The forward that saves and the backward for cotangents of every output, simplified, not yet in primitives.

        Raises RuntimeError where there is nothing to differentiate.
        """
        from jitgrad.script.passes import pipeline

        if not self.differentiable:
            raise RuntimeError(f"`{self.name}` has no gradient: no input requires one, or no result can carry it")
        backward = self.derivative.backward((True,) * len(self.differentiable))
        return pipeline.prepare(self.derivative.forward), pipeline.prepare(backward)

    def _compile(self) -> None:
        """Forward, and backward for cotangents of every output: one native module."""
        graphs, flags, places = self._graphs()
        self._use(self._programs(graphs), flags, places)

    def _use(self, programs: Any, flags: tuple[tuple[int, int], ...], places: tuple[int, ...]) -> None:
        self.residuals, self._flags, self._whole = places, flags, programs
        self.saved = frozenset(~i for i in places if i < 0)
        self.kept_results = tuple(sorted({i for i in places if 0 <= i < self.n_outputs}))

    def finish(self) -> GraphFunction:
        """Itself, ready to be called: waits for the code generator. Raises what that raises."""
        self.forward = self._whole["forward"]
        if self.differentiable:
            self._backwards[(True,) * len(self.differentiable)] = Backward(self._whole["backward"], self._flags)
        return self

    def _graphs(self) -> tuple[dict[str, Graph], Any, tuple[int, ...]]:
        """What is compiled, the backward's flags (`split_flags`), and where residuals are (`without_inputs`)."""
        from jitgrad.script.autodiff import split_flags, without_inputs
        from jitgrad.script.passes import pipeline

        if not self.differentiable:
            return {"forward": pipeline.run(self.graph, device=self.on_device)}, (), ()
        forward = pipeline.run(self.derivative.forward, device=self.on_device)
        forward, places = without_inputs(forward, self.n_outputs, self.lent)
        backward = pipeline.run(self.derivative.backward((True,) * len(self.differentiable)), device=self.on_device)
        backward, flags = split_flags(backward)
        return {"forward": forward, "backward": backward}, flags, places

    @classmethod
    def prepare(cls, graph: Graph, objects: Sequence[Any], name: str,
                differentiable: Sequence[int] | None = None, device: Device = CPU,
                on_host: Sequence[int] = (), wait: bool = True) -> GraphFunction:
        """Optimise and compile `graph` for inputs like `objects` in the current grad mode. `wait`: else `finish` it."""
        from jitgrad.eager.autograd.grad_mode import is_grad_enabled
        from jitgrad.script.autodiff.flow import histories, is_differentiable, kept_alike
        from jitgrad.script.passes import pipeline

        wrt: tuple[int, ...] = ()
        if is_grad_enabled():
            wrt = tuple(i for i, o in enumerate(objects) if _requires_grad(o))
        if differentiable is None:
            differentiable = [i for i, v in enumerate(graph.outputs) if is_differentiable(v.type)]
        types = [v.type for v in graph.outputs]
        inputs = [v.type for v in graph.inputs]
        recorded = tuple(i for i in differentiable if is_differentiable(types[i])) if wrt else ()
        apart = histories(graph, [graph.outputs[i] for i in recorded]) if len(recorded) > 1 else ()
        optimised = pipeline.prepare(graph)
        writes = tuple(i for i in committed(optimised.block) if _is_tensor(inputs[i]))
        read = ancestors(optimised.block, (optimised.outputs[i] for i in recorded)) if writes and recorded else ()
        function = cls(
            optimised, name=name, wrt=wrt, n_outputs=len(types), device=device, on_host=tuple(on_host),
            differentiable=recorded, histories=apart,
            tensors=tuple(i for i, t in enumerate(types) if _is_tensor(t)),
            lists=tuple(i for i, t in enumerate(types) if isinstance(t, ListType)),
            arguments=tuple(i for i, t in enumerate(inputs) if _is_tensor(t)),
            list_inputs=tuple(i for i, t in enumerate(inputs) if isinstance(t, ListType)),
            lent=tuple(i for i in kept_alike(graph) if i not in on_host) if recorded else (),
            writes=writes, kept=tuple(i for i in writes if optimised.inputs[i] in read))
        if device.type != "cpu":
            function.hosted = devices.hosted(graph, objects)
        function._compile()
        return function.finish() if wait else function

    @property
    def is_storable(self) -> bool:
        """Whether another process could run this: not where a derivative's text has no form, by hand."""
        return not self.by_hand and bool(self._compiled) and self._compiled[0].storable

    def to_bytes(self) -> bytes:
        """Everything that another process needs to run this, where it `is_storable`."""
        from jitgrad.codegen.run.serial import pack
        from jitgrad.script.graph.text import to_text

        named: dict[str, Any] = {}
        text = to_text(self.graph, "chain", objects=named)
        errors = {name: [e.__module__, e.__qualname__] for name, e in named.items() if e.__module__ != "builtins"}
        header = self.interface() | {"device": str(self.device)}, errors, self._flags, self.residuals
        return pack([marshal.dumps(header), text.encode(), self._compiled[0].to_bytes()])

    @classmethod
    def from_bytes(cls, data: bytes) -> GraphFunction:
        """The inverse of `to_bytes`: loads native code; the graph's text is parsed only if somebody asks."""
        from jitgrad.codegen.run.compiled import Compiled
        from jitgrad.codegen.run.serial import unpack

        header, text, program = unpack(data)
        interface, errors, flags, residuals = marshal.loads(header)
        function = cls(text.decode(), **(interface | {"device": Device(interface["device"])}))
        function._errors = {name: ErrorName(*found) for name, found in errors.items()}
        compiled = (Compiled.from_bytes(program) if function.device.type == "cpu"
                    else devices.loaded(program, function.device))
        function._compiled.append(compiled)
        function._use(compiled, flags, residuals)
        return function.finish()

    def _programs(self, graphs: Mapping[str, Graph]) -> Any:
        """What has the programs of these graphs by their names."""
        if config.current().interpret:
            return {name: self._interpreted(graph) for name, graph in graphs.items()}
        if self.device.type == "cpu":
            from jitgrad.codegen.run.compile import compile

            compiled = compile(graphs)
        else:
            compiled = devices.compiled(graphs, self.device, {"forward": self.hosted}, self.ordered)
        self._compiled.append(compiled)
        return compiled

    def _interpreted(self, graph: Graph) -> Program:
        """The interpreter for a graph; on the host, for a device between copies."""
        if self.device.type != "cpu":
            return devices.interpreted(graph, self.device)
        from jitgrad.script.graph.interpret import interpret

        return functools.partial(interpret, graph)

    def kernels(self, device: str = "cpu") -> list[str]:
        """The text of every generated kernel, in the order of compilation; for "cuda" as CUDA C++, on any machine."""
        if device == "cpu":
            return [text for compiled in self._compiled for text in compiled.kernels]
        if device.partition(":")[0] != "cuda":
            raise ValueError(f"kernels are generated for \"cpu\" and \"cuda\", not for \"{device}\"")
        from jitgrad.codegen.cuda.host.module import shown

        own = self if self.on_device else self._uncompiled(Device("cuda"))
        return shown(own._graphs()[0], self.ordered).sources

    def _uncompiled(self, device: Device) -> GraphFunction:
        """The same function, for a device, not compiled."""
        return GraphFunction(self.graph, **(self.interface() | {"device": device}))

    def asm(self) -> str:
        """The machine code as text; a program from the disk cache is compiled again for it."""
        from jitgrad.codegen.llvm import engine

        compiled = self._compiled
        if any(not c.llvm for c in compiled):
            again = self._uncompiled(self.device)
            again._compile()
            compiled = again._compiled
        return "\n".join(engine.assembly(c.llvm) for c in compiled)

    def __call__(self, objects: Sequence[Any], arrays: list[Any],
                 on_commit: Callable[[int, Any], None] | None = None, unreached: Collection[int] = ()) -> list[Any]:
        """Run on inputs given twice: as objects (for the tape) and as arrays and numbers (for the program).

        `unreached` is kept by reference: when the node runs, inputs in it get no gradient.
        """
        if self.kept:
            objects = [o.clone() if i in self.kept and o is not None else o for i, o in enumerate(objects)]
        outputs = self.forward(arrays) if on_commit is None else self.forward(arrays, on_commit)
        for i in self.on_host:
            if outputs[i] is not None:
                outputs[i] = to_host(outputs[i])
        node = None
        if self.differentiable:
            residuals = [outputs[i] if i >= 0 else arrays[~i] for i in self.residuals]
            del outputs[self.n_outputs:]
            node = CallNode(self, objects, residuals, unreached)
        wrap_each(outputs, self.tensors)
        for i in self.lists:
            outputs[i] = _items(outputs[i])
        if node is not None:
            for slot, i in enumerate(self.differentiable):
                if i in self.lists:
                    node.attach_list(slot, outputs[i])
                elif outputs[i] is not None:
                    node.attach(outputs[i], slot)
            node.keep([outputs[i] for i in self.kept_results])
        return outputs

    def rebase(self, target: Any, outputs: Sequence[Any], index: int) -> bool:
        """Give tensor `target`, written in place by the program, the history of graph output `index`, if it has any."""
        if index not in self.differentiable:
            return False
        target._rebase(outputs[index])
        return True

    def backward(self, residuals: list[Any], unreached: Collection[int], cotangents: Sequence[Any],
                 objects: Sequence[Any] = ()) -> list[Any]:
        """First order: arrays in, arrays (or None where an input was not reached) out."""
        present = tuple([c is not None for c in cotangents])
        backward = self._backwards.get(present) or self._compile_backward(present)
        given = [as_arrays(c) for c in cotangents if c is not None]
        values = backward.program([*residuals, *given])
        for value, flag in backward.flags:
            if not values[flag]:
                values[value] = None
        del values[len(self.wrt):]
        if self.device.type != "cpu":
            values = [v if v is None or devices.is_there(objects, i) else to_host(v)
                      for i, v in zip(self.wrt, values, strict=True)]
        if unreached:
            values = [None if i in unreached else v for i, v in zip(self.wrt, values, strict=True)]
        return self._per_item(objects, values) if self.list_inputs else values

    def _per_item(self, objects: Sequence[Any], values: list[Any]) -> list[Any]:
        """Gradients of the inputs `wrt` with those of a list's items in place of the list's."""
        result: list[Any] = []
        for i, v in zip(self.wrt, values, strict=True):
            if i in self.list_inputs:
                items = [] if v is None else v if type(v) is list else v.to_list()
                result += [*items, *[None] * (len(objects[i]) - len(items))][:len(objects[i])]
            else:
                result.append(v)
        return result

    def _compile_backward(self, present: tuple[bool, ...]) -> Backward:
        from jitgrad.script.autodiff import split_flags
        from jitgrad.script.passes import pipeline

        with self._lock:
            if present not in self._backwards:
                backward = pipeline.run(self.derivative.backward(present), device=self.on_device)
                graph, flags = split_flags(backward)
                self._backwards[present] = Backward(self._programs({"backward": graph})["backward"], flags)
            return self._backwards[present]

    def backward_on_tape(self, objects: Sequence[Any], versions: list[int], unreached: Collection[int],
                          cotangents: Sequence[Any]) -> list[Any]:
        """With `create_graph`: the gradient function, recorded as one node; it reads the inputs again."""
        present = tuple(c is not None for c in cotangents)
        given = [*objects, *(c for c in cotangents if c is not None)]
        key = (present, tuple([_requires_grad(o) for o in given]))
        gradient = self._gradients.get(key)
        if gradient is None:
            from jitgrad.script.autodiff import gradient_function

            with self._lock:
                graph = gradient_function(self.graph, self.wrt, self.differentiable, present)
                gradient = self._gradients[key] = GraphFunction.prepare(
                    graph, given, self.name + "Backward", device=self.device, on_host=[
                        2 * k for k, i in enumerate(self.wrt)
                        if self.device.type != "cpu" and not devices.is_there(objects, i)])
        for i, version in zip(self.arguments, versions, strict=True):
            if i in gradient.reads and version_of(objects[i]) != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"argument {i} of `{self.name}` is at version {objects[i]._version}; expected version {version} "
                    "instead. Hint: create_graph=True computes a scripted function's gradient from its arguments.")
        # What was not reached now is not reached by derivatives of this gradient either, but for one written by hand.
        dead = set(unreached)
        flat = gradient(given, [_data(o) for o in given], None, dead)
        if not self.by_hand:
            dead.update(i for i, reached in zip(self.wrt, flat[1::2], strict=True) if not reached)
        values = [value if reached else None for value, reached in zip(flat[::2], flat[1::2], strict=True)]
        values = [None if i in unreached else v for i, v in zip(self.wrt, values, strict=True)]
        return self._per_item(objects, values) if self.list_inputs else values


def _requires_grad(value: Any) -> bool:
    """Whether an input, or an item of one, asks for a gradient."""
    if type(value) is list:
        return any(_requires_grad(v) for v in value)
    return bool(getattr(value, "requires_grad", False))


def _data(value: Any) -> Any:
    """An input as the program takes it."""
    return [_data(v) for v in value] if type(value) is list else getattr(value, "_data", value)


def _items(value: Any) -> list[Any]:
    found = value if type(value) is list else value.to_list()
    return [wrap(v) if hasattr(v, "dtype") else _items(v) if type(v) is list else v for v in found]


def _is_tensor(type_: Any) -> bool:
    return isinstance(payload(type_), TensorType)

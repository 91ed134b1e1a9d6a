"""What `jitgrad.jit.load` returns: a module whose call runs saved programs.

A call takes the first specialisation that fits, as any scripted function does; a saved program becomes one when the
first call that it takes comes. There is no Python source to fall back on: a call that no program takes is an error,
which says why for each.

A program that was saved where gradients are recorded also runs where fewer are asked for (`no_grad`, a frozen
parameter), unless it looks at the grad mode or at `requires_grad`. It never runs where more are asked for.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jitgrad.dims import evaluate
from jitgrad.dtypes import get_default_dtype
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.errors import JitgradError
from jitgrad.nn import Module
from jitgrad.ops import autocast
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.mismatch import actual_sizes, autocast_mismatch, broken, first_broken
from jitgrad.script.call.sources import Unreadable, describe, resolve, tensor_key, type_of_tensor
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.executor import ScriptFunction
from jitgrad.script.graph.ir import Block, Graph, Node, Value, walk
from jitgrad.script.stored.file.placed import following
from jitgrad.script.stored.file.records import Program


class NoProgram(JitgradError, TypeError):
    """A call of a loaded function that none of its saved programs takes."""


class SavedObject:
    """An object of the saved program that a file cannot hold: a function, a class, an instance of a user's class.

    It has the attributes that the program reads, and cannot be called.
    """

    def __init__(self, title: str):
        self.__dict__["_saved_title"] = title

    def __repr__(self) -> str:
        return f"<saved: {self._saved_title}>"  # type: ignore[attr-defined]


class OwnDefault:
    """A parameter's default that a file cannot hold; the program was compiled for it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class LoadedPart(Module):
    """A submodule of a loaded program: its state, without its code."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: the code of a submodule was compiled into the whole."""
        raise TypeError(f"`{self._get_name()}` is a part of a loaded program and has no code of its own: call the "
                        "loaded module")

    def _get_name(self) -> str:
        return str(self.__dict__.get("_saved_name", "LoadedPart"))


class LoadedModule(LoadedPart):
    """A saved module or function: call it as what was saved; its state can be read, trained, loaded and saved again.

    Attributes:
        graph: the graph of the program that ran last, or of the first.
        code: that graph as Python.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function()(self, *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call: hooks were compiled into the programs."""
        return self._function()(self, *args, **kwargs)

    def _function(self) -> LoadedFunction:
        function: LoadedFunction = self.__dict__["_loaded_function"]
        return function

    def save(self, f: Any) -> None:
        """Write the programs and the state as it is now; see `jitgrad.jit.save`."""
        from jitgrad.script.stored.file.api import save

        save(self, f)

    def export_onnx(self, path: Any, *args: Any, **options: Any) -> Any:
        """Write what a call with these arguments runs as an ONNX model; options as of `jitgrad.onnx.export`."""
        from jitgrad.onnx.api import export_function

        return export_function(self, path, *args, **options)

    @property
    def graph(self) -> Graph:
        return self._function().graph

    @property
    def code(self) -> str:
        return self._function().code

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments runs."""
        return self._function().graph_for(self, *args, **kwargs)

    def cache_info(self) -> Any:
        """Counters since loading."""
        return self._function().cache_info()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from jitgrad.script.stored.file.api import save

        buffer = io.BytesIO()
        save(self, buffer)
        return from_bytes, (buffer.getvalue(),)


def from_bytes(data: bytes) -> Any:
    """A loaded module from the bytes of its file: how it is unpickled and copied."""
    from jitgrad.script.stored.file.api import load

    return load(io.BytesIO(data))


class LoadedFunction(ScriptFunction):
    """The compiled call of a loaded module; its first parameter is that module."""

    def __init__(self, name: str, signature: inspect.Signature, root_parameter: str, programs: list[Program]):
        super().__init__(_stub(name, signature, root_parameter))
        self.programs = programs
        self.call_signature = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        params = self._bind(*args, **kwargs)
        for specialisation in self._specialisations:
            entered = specialisation.enter(params)
            if entered is not None:
                self._hits += 1
                return specialisation.run(params, entered)
        return self._first(params)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        """The specialisation of the first program that takes the call. Raises NoProgram."""
        values = dict(zip(self._params, params, strict=True))
        self._misses += 1
        reasons = []
        for saved in sorted(self.programs, key=lambda p: _distance(p, values)):
            program = following(saved, values)
            reason = refusal(program, values)
            if not reason:
                break
            reasons.append(reason)
        else:
            listed = "\n".join(f"  {r}" for r in dict.fromkeys(reasons))
            raise NoProgram(f"`{self.__name__}` was saved without a program for this call; the saved programs say:\n"
                            f"{listed}\nhint: save it again after a call of this kind, or with `example_inputs`")
        specialisation = Specialisation(adapted(program, values), self._params, values, self.__name__)
        self._specialisations.insert(0, specialisation)
        self._compilations += 1
        return specialisation

    @property
    def graph(self) -> Graph:
        return self._specialisations[0].function.graph if self._specialisations else self.programs[0].script.graph

    @property
    def code(self) -> str:
        from jitgrad.script.inspect.pycode import to_python

        script = self._specialisations[0].script if self._specialisations else self.programs[0].script
        return to_python(self.graph, [describe(s) for s in script.inputs])


def _stub(name: str, signature: inspect.Signature, root_parameter: str) -> Callable[..., Any]:
    """A function with the signature of the saved one; its code is in the programs."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"`{name}` was loaded from a file, without its Python code")

    first = inspect.Parameter(root_parameter, inspect.Parameter.POSITIONAL_ONLY)
    parameters = list(signature.parameters.values())
    whole = inspect.Signature([first, *parameters])
    made: Any = stub
    made.__name__ = made.__qualname__ = name
    made.__signature__ = whole
    made.__defaults__ = tuple(p.default for p in parameters
                              if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY) or None
    made.__kwdefaults__ = {p.name: p.default for p in parameters
                           if p.default is not p.empty and p.kind is p.KEYWORD_ONLY} or None
    return stub


# --- which program ---------------------------------------------------------------------------------------------------


def _distance(program: Program, values: dict[str, Any]) -> int:
    """How much more a program records than a call asks for: the closest comes first."""
    if program.grad_mode is not is_grad_enabled():
        return 1 << 30
    if not program.grad_mode:
        return 0
    return sum(g.value.requires_grad for g in (*program.arguments, *program.script.guards) if g.kind == "tensor"
               and not _needs_grad(g.source, values))


def _needs_grad(source: sig.Source, values: dict[str, Any]) -> bool:
    try:
        return bool(getattr(resolve(source, values), "requires_grad", False))
    except Unreadable:
        return False


def refusal(program: Program, values: dict[str, Any]) -> str:
    """Why a program does not take a call, in words; "" where it does."""
    exact = program.script.gradient_state
    if program.refusal:
        return program.refusal
    if program.grad_mode is not is_grad_enabled() and (exact or not program.grad_mode):
        return f"the grad mode was {program.grad_mode}, is {not program.grad_mode}"
    if program.autocast is not autocast.mode.low:
        return autocast_mismatch(program.autocast)
    if program.default_dtype is not get_default_dtype():
        return f"the default dtype was {program.default_dtype}, is {get_default_dtype()}"
    guards = (*program.arguments, *program.script.guards)
    return (first_broken(guards, values, lambda guard, found: _problem(guard, found, exact))
            or _sizes(program.script, values))


def _problem(guard: sig.Guard, found: Any, exact: bool) -> str:
    value = guard.value
    if guard.kind == "type" and hasattr(value, "_fields"):  # a named tuple is known by its fields
        same = getattr(found, "_fields", None) == value._fields
        return "" if same else f"was a named tuple {value.__name__}{value._fields}"
    if guard.kind == "tensor" and not exact and isinstance(found, type_of_tensor()):
        recorded = is_grad_enabled()
        if not recorded or (value.requires_grad and not found.requires_grad):
            value = replace(value, requires_grad=tensor_key(found).requires_grad)
    return broken(replace(guard, value=value), found)


def _sizes(script: sig.ScriptGraph, values: dict[str, Any]) -> str:
    objects = [resolve(s, values) for s in script.inputs]
    sizes = actual_sizes(script, objects)
    for a, b in script.size_guards:
        if evaluate(a, sizes) != evaluate(b, sizes):
            return f"sizes that were equal at the saved call are {evaluate(a, sizes)} and {evaluate(b, sizes)}"
    sizes |= {symbol: objects[i] for symbol, i in script.int_symbols.items()}
    if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.trip_guards):
        return "whether a loop runs at all decides the type of a variable, and it differs from the saved call"
    return ""


def adapted(program: Program, values: dict[str, Any]) -> sig.ScriptGraph:
    """The program for a call that it takes: its guards ask for the needs-gradient flags of this call."""
    script = program.script
    guards, changed = [], program.grad_mode is not is_grad_enabled()
    for guard in script.guards:
        if guard.kind == "tensor":
            key = replace(guard.value, requires_grad=_needs_grad(guard.source, values))
            changed |= key != guard.value
            guard = replace(guard, value=key)
        guards.append(guard)
    changed |= any(g.value.requires_grad and not _needs_grad(g.source, values) for g in program.arguments
                   if g.kind == "tensor")
    differentiable = script.differentiable
    if changed and differentiable is not None:
        wanted = [i for i, s in enumerate(script.inputs) if _needs_grad(s, values)]
        reached = reached_from(script.graph, [script.graph.inputs[i] for i in wanted])
        differentiable = tuple(i for i in differentiable if script.graph.outputs[i] in reached)
        graph = _with_history(script.graph, reached)
        return replace(script, guards=guards, differentiable=differentiable, graph=graph)
    return replace(script, guards=guards)


def _with_history(graph: Graph, reached: set[Value]) -> Graph:
    """`graph` where what an exception stores has history only if it is among `reached`."""
    if not any(n.op == "pending" and n.attrs["carried"] for n in walk(graph.block)):
        return graph

    def rebuilt(block: Block) -> Block:
        nodes = []
        for n in block.nodes:
            attrs = n.attrs
            if n.op == "pending":
                attrs = {**attrs, "carried": tuple(k for k in attrs["carried"] if n.inputs[k] in reached)}
            nodes.append(Node(n.op, n.inputs, attrs, n.outputs, tuple([rebuilt(b) for b in n.blocks]), n.span, n.binds))
        return Block(block.params, nodes, block.results, block.binds)

    return Graph(rebuilt(graph.block), graph.name)


def reached_from(graph: Graph, sources: Sequence[Value]) -> set[Value]:
    """Floating values that depend differentiably on any of `sources` (loops: until nothing changes)."""
    from jitgrad.ops import OPS
    from jitgrad.ops.opdef import NONDIFF

    reached = set(sources)
    nodes = list(walk(graph.block))
    before = -1
    while before != len(reached):
        before = len(reached)
        for node in nodes:
            if node.blocks:
                _through_blocks(node, reached)
            elif not reached.isdisjoint(node.inputs):
                row = OPS.get(node.op)
                if node.op.startswith(("opt.", "seq.", "list.")) if row is None else row.vjp is not NONDIFF:
                    reached.update(v for v in node.outputs if _floating(v.type))
    return reached


def _through_blocks(node: Node, reached: set[Value]) -> None:
    """Into a block by its parameters, out of it by its results; from one iteration to the next."""
    for block in node.blocks:
        if node.op == "if":
            pairs = list(zip(block.results, node.outputs, strict=True))
        else:
            skip = 1  # the condition of a `while`, the number of trips of a `scan`
            entering = list(zip(node.inputs[skip:], block.params[-len(node.inputs[skip:]):], strict=False))
            results = block.results[1:] if node.op == "while" else block.results
            outputs = node.outputs[1:] if node.op == "while" else node.outputs
            carries = len(node.inputs) - 1 if node.op == "while" else node.attrs["n_carries"]
            params = block.params if node.op == "while" else block.params[1:]
            pairs = [*entering, *zip(results, outputs, strict=True),
                     *zip(results[:carries], params[:carries], strict=True)]
        reached.update(target for source, target in pairs if source in reached and _floating(target.type))


def _floating(type_: Type) -> bool:
    if isinstance(type_, (OptionalType, SeqType)):
        return _floating(type_.elem)
    return isinstance(type_, TensorType) and type_.dtype.is_floating_point


__all__ = ["LoadedFunction", "LoadedModule", "LoadedPart", "NoProgram", "OwnDefault", "SavedObject", "adapted",
           "reached_from", "refusal"]

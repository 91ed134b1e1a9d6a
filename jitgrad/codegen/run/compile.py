"""Graphs to native functions: `compile(graphs)`.

    compiled = compile({"forward": graph})
    outputs = compiled["forward"]([x, 0.5])
    compiled.kernels, compiled.reasons, compiled.timing
"""

import itertools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jitgrad import config
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.llvm.module import ModuleText
from jitgrad.codegen.llvm.program import ProgramPrinter
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.lower.rules.ops import without_sizes
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.layout import Layout
from jitgrad.codegen.program.memory import kind_of
from jitgrad.codegen.program.plan import STORES
from jitgrad.codegen.program.program import CallSite, Program, TensorOutput
from jitgrad.codegen.program.sites import SIZE, Site
from jitgrad.codegen.program.step import Ref, every
from jitgrad.codegen.program.steps import CallStep
from jitgrad.codegen.run.compiled import Compiled
from jitgrad.codegen.run.launch import Interface, OutputPlan
from jitgrad.dims import Atom, Dim, Size, Symbol, render
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, Node, payload


def compile(graphs: Mapping[str, Graph]) -> Compiled:
    """Native code for graphs after passes, in one module.

    Raises:
        NotImplementedError: a row has no native form and is not one that the library runs (trait "in_library").
    """
    module = ModuleText(ProgramPrinter)
    code, faces, told = build(module, graphs, lower)
    return Compiled(code, faces, {s: d.name for s, d in module.externals.items()}, **told)


def build(module: ModuleText, graphs: Mapping[str, Graph],
          prepare: Callable[[str, Graph], Program]) -> tuple[Callable[[], bytes], list[Interface], dict[str, Any]]:
    """What waits for the object of a module of programs, their interfaces, and what else `Compiled` is told, by name.
    """
    clock = time.perf_counter
    start = clock()
    programs = [prepare(name, graph) for name, graph in graphs.items()]
    lowered = clock()
    layouts = [module.add(p) for p in programs]
    text = module.text()
    faces = [interface(p, layout) for p, layout in zip(programs, layouts, strict=True)]
    knobs = config.current()
    if knobs.debug >= 4 or knobs.dump:
        show(graphs, text, knobs)
    emitted = clock()
    code = engine.meanwhile(*module.halves())
    timing = {"lower": 1e3 * (lowered - start), "emit": 1e3 * (emitted - lowered)}
    return code, faces, {
        "kernels": [describe(k, name) for name, k in module.kernel_list],
        "reasons": list(dict.fromkeys(reason(*r) for p in programs for r in p.reasons)), "timing": timing, "llvm": text}


# --- the interface of a program ---


def interface(program: Program, layout: Layout) -> Interface:
    """What the launcher needs to know."""
    outputs = []
    for k, output in enumerate(program.outputs):
        if isinstance(output, TensorOutput):
            kind: Any = f"t:{output.ref.dtype.name}:{len(output.shape)}"
            shape = tuple(python_size(s, program.input_symbols) for s in output.shape) if output.fresh else None
            for _ in output.flags:
                kind = ("optional", kind)
            flags = [layout.flags[k] + j for j in range(len(output.flags))] if output.fresh else []
            outputs.append(OutputPlan(kind, shape, layout.outputs.get(k, -1), flags))
        else:
            outputs.append(OutputPlan(kind_of(output.type), None, layout.outputs[k]))
    steps = (part for step in every(program.steps) for part in (step, *every(step.before)))
    calls = {step.site: step for step in steps if isinstance(step, CallStep)}
    return Interface(program.name, [kind_of(t) for t in program.inputs], layout.numbers, outputs, layout.commits,
                     [c for c in program.commits if isinstance(program.inputs[c], TensorType)],
                     list(layout.growable.values()), layout.words,
                     [site(s, calls.get(i), layout.left.get(i)) for i, s in enumerate(program.sites)],
                     layout.pointers, layout.sizes)


def site(place: CallSite, call: CallStep | None, left: tuple[int, int] | None) -> Site:
    """A call site as plain data. `left`: see `Layout`."""
    node = place.node
    result = kind_of(node.outputs[0].type) if place.kind in ("arithmetic", "text") else None
    inputs = node.inputs[1:] if place.kind == "check" else node.inputs
    kinds: list[Any] = [kind_of(v.type) for v in inputs]
    if place.kind == "library":
        assert call is not None
        kinds = [f"t:{v.dtype.name}:{len(v.dims)}" if isinstance(v, Ref) else SIZE if isinstance(v, (int, Dim))
                 else kind_of(v.type) for v in call.values]
    if place.kind in ("callback", "fetch", "callback.vjp"):
        assert call is not None
        results = [v for v in call.values if isinstance(v, Ref)]
        tensors = 0 if place.kind == "fetch" else sum(isinstance(payload(v.type), TensorType) for v in node.inputs)
        kinds = [] if place.kind == "fetch" else kinds
        kinds += [f"t:{v.dtype.name}:{len(v.dims)}" for v in results[tensors:]]
    sizes: list[Size] = []
    attrs = {k: without_sizes(a, sizes) for k, a in node.attrs.items()}
    if left is not None:
        attrs["word"], attrs["more"] = left
    return Site(place.kind, node.op, attrs, kinds, result, len(node.inputs), node.span)


def python_size(size: Size, places: Mapping[Symbol, tuple[int, int]]) -> str:
    """A size as a Python expression over `s<input>[axis]`."""
    def atom(a: Atom) -> str:
        if isinstance(a, Symbol):
            return "s{}_[{}]".format(*places[a])
        return f"dims[{a.fn!r}]({', '.join([python_size(s, places) for s in a.args])})"

    return render(size, atom)


# --- for people ---

_numbering = itertools.count()


def reason(producer: Node, consumer: Node, why: str) -> str:
    place = f" ({consumer.span})" if consumer.span is not None else ""
    return f"{producer.op} and {consumer.op}{place} are not one kernel: {why}"


def show(graphs: Mapping[str, Graph], text: str, knobs: config.Config) -> None:
    """The module on stderr (JITGRAD_DEBUG=4, 6) and, with its graphs, in files (JITGRAD_DUMP)."""
    config.log(4, f"LLVM IR\n{text}")
    if knobs.debug >= 6:
        config.log(6, f"machine code\n{engine.assembly(text)}")
    if not knobs.dump:
        return
    from jitgrad.script.graph.text import to_text

    folder = Path(knobs.dump)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f"{os.getpid()}-{next(_numbering)}"
    for name, graph in graphs.items():
        (folder / f"{prefix}-{name}.graph").write_text(to_text(graph))
    (folder / f"{prefix}.ll").write_text(text)


def describe(kernel: Kernel, name: str) -> str:
    """A kernel's statements, one a line."""
    axes = [f"i{k}" for k in range(len(kernel.outer))] + [f"r{k}" for k in range(len(kernel.inner))]
    lines = [f"{name}({', '.join(axes)}):"]
    for k, o in enumerate(kernel.operands):
        where = " + ".join(f"{'' if s == 1 else 'stride * '}{a}" for a, s in zip(axes, o.strides, strict=True)
                           if s != 0)
        lines.append(f"  {o.role} p{k}: {o.dtype.name}[{where or 0}]")
    for i, s in enumerate(kernel.body):
        arguments = [f"v{a}" for a in s.args]
        if s.op == "const":
            arguments.append(repr(s.value))
        if s.operand >= 0:
            arguments.insert(0, f"p{s.operand}")
        if s.op == "scalar":
            arguments.append(f"c{s.number}")
        if s.op == "index":
            arguments.append(axes[s.axis])
        target = "" if s.op in STORES else f"v{i} = "
        lines.append(f"  {target}{s.op}{' ' + s.fn if s.fn else ''}({', '.join(arguments)})")
    return "\n".join(lines)

"""Graphs to native functions: `compile(graphs)`.

    compiled = compile({"forward": graph})
    outputs = compiled["forward"]([x, 0.5])
    compiled.kernels, compiled.reasons, compiled.timing
    again = Compiled.from_bytes(compiled.to_bytes())
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen import engine, launch, serial
from jitgrad.codegen.kernel import Kernel
from jitgrad.codegen.launch import Interface, Launcher, OutputPlan
from jitgrad.codegen.llvm_program import Layout, ModuleText, symbol
from jitgrad.codegen.lower import lower
from jitgrad.codegen.lower_effects import TensorOutput
from jitgrad.codegen.lower_ops import without_sizes
from jitgrad.codegen.program import CallSite, CallStep, IfStep, LoopStep, Program, Ref
from jitgrad.codegen.sites import SIZE, Site, kind_of
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.kernels.blas import gemm_symbol
from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Graph

Native = Callable[..., list[Any]]


class Compiled:
    """Native functions by name, and what there is to see of them.

    Attributes:
        kernels: the text of every kernel (equal ones once).
        reasons: why two nodes did not become one kernel.
        timing: milliseconds spent on "lower", "emit", "llvm" and "load".
        llvm: the module's text; "" after loading.
    """

    def __init__(self, code: bytes, faces: list[Interface], gemms: dict[str, str], kernels: list[str],
                 reasons: list[str], timing: dict[str, float], llvm: str = ""):
        self.code, self.faces, self.gemms = code, faces, gemms
        self.kernels, self.reasons, self.timing, self.llvm = kernels, reasons, timing, llvm
        start = time.perf_counter()
        self.loaded = engine.load(code, _symbols(gemms), [symbol(f.name) for f in faces])
        self.functions: dict[str, Native] = {
            f.name: Launcher(f, self.loaded.address(symbol(f.name)), self.loaded).build() for f in faces}
        timing["load"] = 1e3 * (time.perf_counter() - start)

    def __getitem__(self, name: str) -> Native:
        return self.functions[name]

    @property
    def storable(self) -> bool:
        """Whether another process could run it: every exception it raises can be found by its name."""
        return self._faces_json() is not None

    def _faces_json(self) -> list[Any] | None:
        try:
            return [serial.dump(f) for f in self.faces]
        except serial.NotStorable:
            return None

    def to_bytes(self) -> bytes:
        """Everything that is needed to run it. Raises ValueError unless `storable`."""
        faces = self._faces_json()
        if faces is None:
            raise ValueError("this program raises an exception that cannot be found by its name")
        bits = {name: gemm_symbol(dtypes.by_name(d)).int_bits for name, d in self.gemms.items()}
        header = serial.to_json([faces, self.gemms, bits, self.kernels, self.reasons])
        return struct.pack("=q", len(header)) + header + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled:
        """The inverse of `to_bytes`. Raises ValueError where this process's BLAS has other integers."""
        (length,) = struct.unpack_from("=q", data)
        faces, gemms, bits, kernels, reasons = json.loads(data[8:8 + length])
        if any(gemm_symbol(dtypes.by_name(gemms[name])).int_bits != wanted for name, wanted in bits.items()):
            raise ValueError("the program was compiled for a BLAS with other integers")
        return cls(data[8 + length:], [serial.load(f) for f in faces], gemms, kernels, reasons, {})


def compile(graphs: Mapping[str, Graph]) -> Compiled:
    """Native code for graphs after passes, in one module.

    Raises:
        NotImplementedError: a row has no native form and is not one that `lower_ops.LIBRARY` runs in Python.
    """
    clock = time.perf_counter
    start = clock()
    programs = [lower(name, graph) for name, graph in graphs.items()]
    lowered = clock()
    module = ModuleText()
    layouts = [module.add(p) for p in programs]
    text = module.text()
    faces = [interface(p, layout) for p, layout in zip(programs, layouts, strict=True)]
    emitted = clock()
    code = engine.compile_module(text)
    timing = {"lower": 1e3 * (lowered - start), "emit": 1e3 * (emitted - lowered), "llvm": 1e3 * (clock() - emitted)}
    return Compiled(code, faces, {s: d.name for s, d in module.gemms.items()},
                    [describe(k, name) for name, k in module.kernel_list],
                    list(dict.fromkeys(r for p in programs for r in p.reasons)), timing, text)


def _symbols(gemms: Mapping[str, str]) -> dict[str, int]:
    """Addresses of everything that a module may leave undefined."""
    found = {**engine.runtime_symbols(), **launch.callback_symbols()}
    for name, d in gemms.items():
        found[name] = gemm_symbol(dtypes.by_name(d)).address
    return found


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
            outputs.append(OutputPlan(kind, shape, layout.outputs.get(k, -1)))
        else:
            outputs.append(OutputPlan(kind_of(output.type), None, layout.outputs[k]))
    calls = _calls(program.steps)
    return Interface(program.name, [kind_of(t) for t in program.inputs], layout.numbers, outputs, layout.commits,
                     [c for c in program.commits if isinstance(program.inputs[c], TensorType)],
                     list(layout.growable.values()), layout.words,
                     [site(s, calls.get(i)) for i, s in enumerate(program.sites)])


def _calls(steps: list[Any]) -> dict[int, CallStep]:
    found: dict[int, CallStep] = {}
    stack = [steps]
    while stack:
        for step in stack.pop():
            if isinstance(step, CallStep):
                found[step.site] = step
            elif isinstance(step, IfStep):
                stack += [step.then, step.otherwise]
            elif isinstance(step, LoopStep):
                stack.append(step.body)
            if isinstance(step, CallStep):
                stack.append(step.before)
    return found


def site(place: CallSite, call: CallStep | None) -> Site:
    """A call site as plain data."""
    node = place.node
    assert node is not None
    result = kind_of(node.outputs[0].type) if place.kind == "arithmetic" else None
    inputs = node.inputs[1:] if place.kind == "check" else node.inputs
    kinds: list[Any] = [kind_of(v.type) for v in inputs]
    if place.kind == "library":
        assert call is not None
        kinds = [f"t:{v.dtype.name}:{len(v.dims)}" if isinstance(v, Ref) else SIZE if isinstance(v, (int, Dim))
                 else kind_of(v.type) for v in call.values]
    sizes: list[Size] = []
    attrs = {k: without_sizes(a, sizes) for k, a in node.attrs.items()}
    return Site(place.kind, node.op, attrs, kinds, result, len(node.inputs), place.span)


def python_size(size: Size, places: Mapping[Symbol, tuple[int, int]]) -> str:
    """A size as a Python expression over `s<input>[axis]`."""
    if isinstance(size, int):
        return str(size)
    terms = []
    for monomial, coefficient in size.terms:
        factors = [str(coefficient)] if coefficient != 1 or not monomial else []
        for atom in monomial:
            if isinstance(atom, Symbol):
                factors.append("s{}_[{}]".format(*places[atom]))
            else:
                arguments = [python_size(a, places) for a in atom.args]
                text = arguments[0]
                for other in arguments[1:]:
                    text = f"dims[{atom.fn!r}]({text}, {other})"
                factors.append(text if len(arguments) > 1 else f"dims[{atom.fn!r}]({text})")
        terms.append("*".join(factors))
    return " + ".join(terms)


# --- for people ---


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
        target = "" if s.op in ("store", "scatter", "scatter_add") else f"v{i} = "
        lines.append(f"  {target}{s.op}{' ' + s.fn if s.fn else ''}({', '.join(arguments)})")
    return "\n".join(lines)

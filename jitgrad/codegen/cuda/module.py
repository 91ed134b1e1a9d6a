"""Some graphs for a device: all kernels as CUDA text, and the host functions that launch them as LLVM text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.cuda import runtime, text
from jitgrad.codegen.cuda.device_program import DevicePrinter
from jitgrad.codegen.kernel import Kernel
from jitgrad.codegen.lower import lower
from jitgrad.codegen.module import ModuleText
from jitgrad.codegen.program import IfStep, KernelStep, LoopStep
from jitgrad.script.ir import Graph


class DeviceModule(ModuleText):
    """The host functions of several programs; `sources` has the kernels that they share, as CUDA text, by symbol."""

    printer = DevicePrinter

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[Hashable, int] = {}
        self.sources: dict[str, str] = {}
        self.externals |= {*runtime.EXTERNALS}

    def kernel_number(self, step: KernelStep) -> int:
        """The place of a kernel in the table of handles, printed unless an equal one is there."""
        kernel = step.kernel
        key = llvm_kernel.body_key(kernel)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            name = _name(kernel, number)
            symbol = f"jg_{text.kind(kernel)}_{name}"
            self.sources[symbol] = text.source(kernel, name)
            self.kernel_list.append((symbol, kernel))
        return number

    def halves(self) -> tuple[str, str]:
        """All of it for the good code generator where something repeats, else for the quick one."""
        quick = all(q for _, q in self.programs)
        return ("", self.text()) if quick else (self.text(), "")

    def _around(self) -> list[str]:
        return [*super()._around(), runtime.handles(len(self.sources)), runtime.TEXT]

    def source(self) -> str:
        """The prelude and all kernels: one text to compile."""
        return "\n".join([text.prelude(), *self.sources.values()])


def kernels(graphs: Mapping[str, Graph]) -> list[str]:
    """The kernels of graphs after passes, in order, equal ones once. Needs no CUDA.

    Without them: matrix products, which are calls of a library, and what stays on the host.
    """
    found: dict[Hashable, Kernel] = {}
    for name, graph in graphs.items():
        for kernel in _kernels(lower(name, graph, device=True).steps):
            found.setdefault(llvm_kernel.body_key(kernel), kernel)
    return [text.source(kernel, _name(kernel, k)) for k, kernel in enumerate(found.values())]


def _name(kernel: Kernel, number: int) -> str:
    return f"{kernel.name}_{number}".replace(".", "_")


def _kernels(steps: Iterable[Any]) -> Iterator[Kernel]:
    for step in steps:
        if isinstance(step, KernelStep):
            yield step.kernel
        elif isinstance(step, IfStep):
            yield from _kernels(step.then)
            yield from _kernels(step.otherwise)
        elif isinstance(step, LoopStep):
            yield from _kernels(step.body)


__all__ = ["DeviceModule", "kernels"]

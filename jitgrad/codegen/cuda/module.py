"""All kernels of some graphs as CUDA text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.cuda import text
from jitgrad.codegen.kernel import Kernel
from jitgrad.codegen.lower import lower
from jitgrad.codegen.program import IfStep, KernelStep, LoopStep
from jitgrad.script.ir import Graph


def kernels(graphs: Mapping[str, Graph]) -> list[str]:
    """The kernels of graphs after passes, in order, equal ones once. Needs no CUDA.

    Without them: matrix products, which are calls of a library, and what stays on the host.
    """
    found: dict[Hashable, Kernel] = {}
    for name, graph in graphs.items():
        for kernel in _kernels(lower(name, graph).steps):
            found.setdefault(llvm_kernel.body_key(kernel), kernel)
    return [text.source(kernel, f"{kernel.name}_{k}") for k, kernel in enumerate(found.values())]


def _kernels(steps: Iterable[Any]) -> Iterator[Kernel]:
    for step in steps:
        if isinstance(step, KernelStep):
            yield step.kernel
        elif isinstance(step, IfStep):
            yield from _kernels(step.then)
            yield from _kernels(step.otherwise)
        elif isinstance(step, LoopStep):
            yield from _kernels(step.body)


__all__ = ["kernels"]

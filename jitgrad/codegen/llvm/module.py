"""One LLVM module: the functions of several programs, the kernels that they share, and helpers that they call.

Texts of kernels are kept for later modules: a script that is compiled for further arguments, and its gradients, consist
of the same kernels.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.codegen.llvm import engine, kernel as llvm_kernel
from jitgrad.codegen.llvm.chunks import KnownKernel
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.layout import Layout
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.dtypes import dtype
from jitgrad.kernels.native import Native

#: lines of glue from which the quick code generator pays: below it, a second object costs more than it saves
MUCH_GLUE = 1000
#: the attributes of what the quick code generator makes
QUICK = " noinline optnone"
#: how many kernels are kept, as texts, and what stands there for a kernel's symbol
KEPT, SYMBOL = 256, "?"


@dataclass(frozen=True, slots=True)
class _Body:
    """What the text of a kernel depends on, but for the symbol."""

    host: engine.Host
    key: Hashable
    kernel: Kernel = field(compare=False)


@lru_cache(KEPT)
def of_body(body: _Body) -> llvm_kernel.KernelText:
    """A kernel's text."""
    return llvm_kernel.emit(body.kernel, SYMBOL)


def printed(kernel: Kernel, symbol: str) -> llvm_kernel.KernelText:
    """What `kernel.emit` prints, though it may have printed it before."""
    found = of_body(_Body(engine.host(), llvm_kernel.body_key(kernel), kernel))
    functions = {name.replace(SYMBOL, symbol): text.replace(SYMBOL, symbol) for name, text in found.functions.items()}
    return llvm_kernel.KernelText(found.text.replace(SYMBOL, symbol), found.declares, functions, found.total)


class ModuleText:
    """One module: the functions of several programs, the kernels that they share, and helpers.

    Attributes:
        programs: text, and whether each of its steps runs at most once (so it matters little how good its code is).
        functions: helpers, internal.
        parts: functions that long programs are made of, internal: text, and whether it is made quickly.
        shared: by name, what programs need to let threads share kernels (`chunks.py`).
        printer: makes what prints a program into this module, whose layout is complete once its text is.
    """

    def __init__(self, printer: Callable[[Any, Program], Any] | None = None) -> None:
        self.printer = printer
        self.programs: list[tuple[str, bool]] = []
        self.kernel_texts: list[str] = []
        self.functions: list[str] = []
        self.parts: dict[tuple[str, str, bool], str] = {}
        self.shared: dict[str, str] = {}
        self.declares: dict[str, str] = {}
        self.kernels: dict[Any, KnownKernel] = {}
        self.kernel_list: list[tuple[str, Any]] = []
        self.externals: dict[str, dtype] = {}  # products and convolutions that are called, and of what
        self.helpers: dict[Any, str] = {}  # checked number operations that are called (numbers.py)

    def kernel(self, step: KernelStep) -> KnownKernel:
        """A kernel, printed unless an equal one is there."""
        key = llvm_kernel.body_key(step.kernel)
        known = self.kernels.get(key)
        if known is None:
            symbol = f"k{len(self.kernels)}_{step.kernel.name}"
            text = printed(step.kernel, symbol)
            known = self.kernels[key] = KnownKernel(symbol, bool(text.functions), text.total)
            self.kernel_texts.append(text.text)
            self.declares.update(text.declares)
            self.shared.update(text.functions)
            self.kernel_list.append((symbol, step.kernel))
        return known

    def helper(self, code: Native, name: str, parameters: Sequence[str]) -> None:
        """A function of the module's own, made quickly."""
        self.functions.append("\n".join(code.defined(f"internal {name}", parameters, QUICK)))
        self.declares.update(code.declares)

    def part(self, symbol: str, parameters: str, text: str, quick: bool) -> str:
        """Enter a function that returns an i64, unless an equal one is there; the symbol of that or of this."""
        return self.parts.setdefault((parameters, text, quick), symbol)

    def add(self, program: Program) -> Layout:
        """Print a program; the layout of its block."""
        assert self.printer is not None
        printer = self.printer(self, program)
        self.programs.append((printer.text(), printer.quick))
        layout: Layout = printer.layout
        vars(printer).clear()  # its parts know it: else the program would live until the next garbage collection
        return layout

    def text(self) -> str:
        """All of it as one module."""
        return "\n".join([*self._around(), *self.kernel_texts, *self._parts(True), *self._parts(False),
                          *(text for text, _ in self.programs)])

    def _parts(self, quick: bool) -> list[str]:
        """The functions of long programs that are made quickly, or the others."""
        return [f"define internal i64 @{symbol}({parameters}) nounwind{QUICK if quick else ''} {{\nentry:\n{text}\n}}\n"
                for (parameters, text, q), symbol in self.parts.items() if q == quick]

    def halves(self) -> tuple[str, str]:
        """Two modules to link: one for good code, one for code that is made quickly; the latter "" if it is short.

        Register allocation for a long function of straight-line calls costs more than the calls ever do.
        """
        glue = [*self._parts(True), *(text for text, quick in self.programs if quick)]
        if sum(text.count("\n") for text in glue) < MUCH_GLUE:
            return self.text(), ""
        rest = [text for text, quick in self.programs if not quick]
        loops = self._parts(False)
        around, shared, declared = self._around(), [], []
        for text in (*self.kernel_texts, *loops):
            function = text.replace("define internal", "define", 1)
            shared.append(function)
            declared.append(function[:function.index("{")].replace("define", "declare", 1))
        good = [*(around if rest or loops else self.declares.values()), *shared, *rest]
        return "\n".join(good), "\n".join([*around, *declared, *glue])

    def _around(self) -> list[str]:
        """Declarations and helpers."""
        return [*self.declares.values(), *self.functions, *self.shared.values()]

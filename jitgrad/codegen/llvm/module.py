"""One LLVM module: the functions of several programs, the kernels that they share, and helpers that they call."""

from __future__ import annotations

from typing import Any

from jitgrad.codegen.llvm import kernel as llvm_kernel
from jitgrad.codegen.llvm.program import ProgramPrinter
from jitgrad.codegen.llvm.sequences import arena_text
from jitgrad.codegen.program.layout import ARENA, FIRST_FREE, SITE, Layout
from jitgrad.codegen.program.program import KernelStep, Program
from jitgrad.dtypes import dtype

#: lines of glue from which the quick code generator pays: below it, a second object costs more than it saves
MUCH_GLUE = 1000


class ModuleText:
    """One module: the functions of several programs, the kernels that they share, and helpers.

    Attributes:
        programs: text, and whether each of its steps runs at most once (so it matters little how good its code is).
        functions: helpers, internal.
        printer: the class that prints programs.
    """

    printer = ProgramPrinter

    def __init__(self) -> None:
        self.programs: list[tuple[str, bool]] = []
        self.kernel_texts: list[str] = []
        self.functions: list[str] = []
        self.declares: dict[str, str] = {}
        self.externals: set[str] = set()
        self.kernels: dict[Any, str] = {}
        self.kernel_list: list[tuple[str, Any]] = []
        self.gemms: dict[str, dtype] = {}
        self.helpers: dict[Any, str] = {}  # checked number operations that are called (numbers.py)
        self.reserves = False
        self.gathers = False
        self.polls = False
        self.arena = False

    def kernel(self, step: KernelStep) -> str:
        """The symbol of a kernel, printed unless an equal one is there."""
        key = llvm_kernel.body_key(step.kernel)
        symbol = self.kernels.get(key)
        if symbol is None:
            symbol = self.kernels[key] = f"k{len(self.kernels)}_{step.kernel.name}"
            printed = llvm_kernel.emit(step.kernel, symbol)
            self.kernel_texts.append(printed.text)
            self.declares.update(printed.declares)
            self.externals |= printed.externals
            self.kernel_list.append((symbol, step.kernel))
        return symbol

    def add(self, program: Program) -> Layout:
        """Print a program; the layout of its block."""
        printer = self.printer(self, program)
        self.programs.append((printer.text(), printer.quick))
        layout = printer.layout
        vars(printer).clear()  # its parts know it: else the program would live until the next garbage collection
        return layout

    def text(self) -> str:
        """All of it as one module."""
        return "\n".join([*self._around(), *self.kernel_texts, *(text for text, _ in self.programs)])

    def halves(self) -> tuple[str, str]:
        """Two modules to link: one for good code, one for code that is made quickly; the latter "" if it is short.

        Register allocation for a long function of straight-line calls costs more than the calls ever do.
        """
        glue = [text for text, quick in self.programs if quick]
        if sum(text.count("\n") for text in glue) < MUCH_GLUE:
            return self.text(), ""
        rest = [text for text, quick in self.programs if not quick]
        around, shared, declared = self._around(), [], []
        for text in self.kernel_texts:
            function = text.replace("define internal", "define", 1)
            shared.append(function)
            declared.append(function[:function.index("{")].replace("define", "declare", 1))
        good = [*(around if rest else self.declares.values()), *shared, *rest]
        return "\n".join(good), "\n".join([*around, *declared, *glue])

    def _around(self) -> list[str]:
        """Declarations and helpers."""
        parts = list(self.declares.values())
        if self.reserves or self.arena:
            parts.append(ALLOCATION)
        if self.reserves:
            parts.append(RESERVE)
        if self.gathers:
            parts.append(GATHER)
        if self.polls:
            parts.append(POLL)
        if self.arena:
            parts.append(arena_text(ARENA))
        return parts + self.functions


ALLOCATION = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""

#: grow a (pointer, capacity) pair; what was in it is lost. false: no memory
RESERVE = """
define internal i1 @jg_reserve(ptr %slot, i64 %bytes) nounwind noinline optnone {
entry:
  %place = getelementptr i64, ptr %slot, i64 1
  %have = load i64, ptr %place
  %enough = icmp uge i64 %have, %bytes
  br i1 %enough, label %good, label %grow
grow:
  %old = load ptr, ptr %slot
  call void @free(ptr %old)
  %half = lshr i64 %bytes, 3
  %more = add i64 %bytes, %half
  %padded = add i64 %more, 127
  %rounded = and i64 %padded, -64
  %sane = icmp ult i64 %bytes, 140737488355328
  %asked = select i1 %sane, i64 %rounded, i64 140737488355328
  %new = call ptr @aligned_alloc(i64 64, i64 %asked)
  store ptr %new, ptr %slot
  %null = icmp eq ptr %new, null
  %size = select i1 %null, i64 0, i64 %rounded
  store i64 %size, ptr %place
  br i1 %null, label %bad, label %good
good:
  ret i1 true
bad:
  ret i1 false
}
"""

#: fill a table with the data pointers of arrays, given the offsets of two fields; the flags that all of them have
GATHER = """
define internal i32 @jg_gather(ptr %items, i64 %count, ptr %table, i64 %data, i64 %flags) nounwind noinline {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %following, %each ]
  %together = phi i32 [ -1, %entry ], [ %common, %each ]
  %item.place = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.place
  %data.place = getelementptr i8, ptr %item, i64 %data
  %start = load ptr, ptr %data.place
  %table.place = getelementptr ptr, ptr %table, i64 %i
  store ptr %start, ptr %table.place
  %flags.place = getelementptr i8, ptr %item, i64 %flags
  %own = load i32, ptr %flags.place
  %common = and i32 %together, %own
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %count
  br i1 %more, label %each, label %done
done:
  ret i32 %common
}
"""

#: run pending signal handlers; an exception that one raises is kept in the block's first free words. 1: none
POLL = f"""
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
define internal i64 @jg_poll(ptr %block) nounwind noinline optnone {{
entry:
  %lock = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %none = icmp eq i32 %raised, 0
  br i1 %none, label %done, label %fetch
fetch:
  %type = getelementptr i64, ptr %block, i64 {FIRST_FREE}
  %value = getelementptr i64, ptr %block, i64 {FIRST_FREE + 1}
  %trace = getelementptr i64, ptr %block, i64 {FIRST_FREE + 2}
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  %site = getelementptr i64, ptr %block, i64 {SITE}
  store i64 -1, ptr %site
  br label %done
done:
  call void @PyGILState_Release(i32 %lock)
  %result = zext i1 %none to i64
  ret i64 %result
}}
"""

"""One LLVM module: the functions of several programs, the kernels that they share, and helpers that they call."""

from __future__ import annotations

from typing import Any

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.layout import ARENA, FIRST_FREE, SITE, Layout
from jitgrad.codegen.llvm_program import ProgramPrinter
from jitgrad.codegen.llvm_sequences import arena_text
from jitgrad.codegen.program import KernelStep, Program
from jitgrad.dtypes import dtype


class ModuleText:
    """One module: the functions of several programs, and the kernels that they share."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declares: dict[str, str] = {}
        self.externals: set[str] = set()
        self.kernels: dict[Any, str] = {}
        self.kernel_list: list[tuple[str, Any]] = []
        self.gemms: dict[str, dtype] = {}
        self.helpers: dict[Any, str] = {}  # checked number operations that are called (llvm_numbers.py)
        self.reserves = False
        self.polls = False
        self.arena = False

    def kernel(self, step: KernelStep) -> str:
        """The symbol of a kernel, printed unless an equal one is there."""
        key = llvm_kernel.body_key(step.kernel)
        symbol = self.kernels.get(key)
        if symbol is None:
            symbol = self.kernels[key] = f"k{len(self.kernels)}_{step.kernel.name}"
            printed = llvm_kernel.emit(step.kernel, symbol)
            self.functions.append(printed.text)
            self.declares.update(printed.declares)
            self.externals |= printed.externals
            self.kernel_list.append((symbol, step.kernel))
        return symbol

    def add(self, program: Program) -> Layout:
        """Print a program; the layout of its block."""
        printer = ProgramPrinter(self, program)
        self.functions.append(printer.text())
        return printer.layout

    def text(self) -> str:
        parts = list(self.declares.values())
        if self.reserves or self.arena:
            parts.append(ALLOCATION)
        if self.reserves:
            parts.append(RESERVE)
        if self.polls:
            parts.append(POLL)
        if self.arena:
            parts.append(arena_text(ARENA))
        return "\n".join([*parts, *self.functions])


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

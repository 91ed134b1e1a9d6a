"""CUDA C++ to machine code by NVRTC, which needs neither a GPU nor a driver.

    cubin = nvrtc.compile(text, "sm_90")           # bytes of a cubin, for cupy.RawModule
    cubins = nvrtc.compile_units(texts, "sm_90")   # several, in threads; equal to compiling each

What was compiled once is read from the disk cache; its key is everything that the machine code depends on: source,
options, architecture and NVRTC's version.

Options: no fast math and no flush of denormals to zero, as on the CPU; and no contraction of `a * b + c`
(`-fmad=false`): eager, the interpreter and the CPU round after the product, so the GPU does. The kernels are bound by
memory, and where an fma is meant (dot products, the math library) it is written.

A program's kernels are one translation unit up to `KERNELS_PER_UNIT`: to read the prelude costs 50 ms (NVRTC 13.0), a
kernel 10 to 30 ms. More are divided into units that threads compile at the same time (`divided`); NVRTC lets go of
the interpreter's lock.

By ctypes, because CuPy's own way appends `-ftz=true`, and eight functions need no other package.
"""

import ctypes
import os
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from typing import Any

from jitgrad.codegen.cuda.driver import libraries
from jitgrad.codegen.cuda.driver.libraries import CudaError, Functions, Symbols, bind
from jitgrad.codegen.run import store

OPTIONS = ("-std=c++17", "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true")
KERNELS_PER_UNIT = 12
#: seconds after which a terminal is told how far the compilation is
PATIENCE = 1.5

_Int, _Size = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_size_t)
_Program, _Text = ctypes.c_void_p, ctypes.c_char_p
_Texts = ctypes.POINTER(ctypes.c_char_p)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvrtcVersion": (_Int, _Int),
    "nvrtcCreateProgram": (ctypes.POINTER(_Program), _Text, _Text, ctypes.c_int, _Texts, _Texts),
    "nvrtcCompileProgram": (_Program, ctypes.c_int, _Texts),
    "nvrtcGetCUBINSize": (_Program, _Size),
    "nvrtcGetCUBIN": (_Program, ctypes.c_void_p),
    "nvrtcGetPTXSize": (_Program, _Size),
    "nvrtcGetPTX": (_Program, ctypes.c_void_p),
    "nvrtcGetProgramLogSize": (_Program, _Size),
    "nvrtcGetProgramLog": (_Program, ctypes.c_void_p),
    "nvrtcDestroyProgram": (ctypes.POINTER(_Program),),
}
_COMPILATION_FAILED = 6
_ENTRY = re.compile(r'^extern "C" __global__', re.MULTILINE)
_PLACE = re.compile(r"^kernels\.cu\((\d+)\): (?:catastrophic )?error", re.MULTILINE)


class CompileError(CudaError):
    """NVRTC refused a text: its log, with the lines of the text that it names.

    Attributes:
        source: the text.
        log: what NVRTC said.
    """

    def __init__(self, source: str, log: str, code: int, name: str):
        super().__init__("nvrtcCompileProgram", code, name, _explained(source, log))
        self.source, self.log = source, log


def _explained(source: str, log: str) -> str:
    lines = source.splitlines()
    parts = [log.strip().removesuffix("\x00")]
    for number in dict.fromkeys(int(n) for n in _PLACE.findall(log)):
        around = range(max(1, number - 2), min(len(lines), number + 2) + 1)
        parts += ["", *(f"{'>' if n == number else ' '}{n:>5} | {lines[n - 1]}" for n in around)]
    return "\n".join(parts)


class Compiler(Functions):
    """NVRTC as found in `library`. RuntimeError where a function of it is missing."""

    def __init__(self, library: Symbols):
        super().__init__(library, _SIGNATURES)
        self._text = bind(library, "nvrtcGetErrorString", ctypes.c_char_p, ctypes.c_int)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def told(self, code: int) -> tuple[str, str]:
        return (self._text(code) or b"").decode() or f"error {code}", ""

    def _bytes(self, what: str, program: Any) -> bytes:
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw[:size.value]

    def compile(self, source: str, options: Sequence[str], what: str = "CUBIN") -> bytes:
        """The machine code ("CUBIN") or assembly ("PTX") of a text.

        Raises:
            CompileError: the text is not CUDA C++.
            CudaError: NVRTC cannot work (an unknown option or architecture).
        """
        program = _Program()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
        try:
            texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
            code = self.code("nvrtcCompileProgram", program, len(options), texts)
            if code:
                log = self._bytes("ProgramLog", program).rstrip(b"\x00").decode(errors="replace")
                if code == _COMPILATION_FAILED:
                    raise CompileError(source, log, code, self.told(code)[0])
                raise CudaError("nvrtcCompileProgram", code, self.told(code)[0], log.strip())
            return self._bytes(what, program)
        finally:
            self.call("nvrtcDestroyProgram", ctypes.byref(program))


@cache
def compiler() -> Compiler:
    """NVRTC, loaded at the first call. LibraryError where it is not installed."""
    return Compiler(libraries.load("nvrtc"))


def compile(source: str, arch: str) -> bytes:
    """The cubin of a text for an architecture ("sm_90"), from the disk cache if it is there.

    Raises:
        CompileError: the text is not CUDA C++; LibraryError: NVRTC is not installed; CudaError: it cannot work.
    """
    nvrtc = compiler()
    chosen = (f"-arch={arch}", *OPTIONS)
    key = store.key_of("nvrtc", repr(nvrtc.version), "\n".join(chosen), source)
    return store.kept(key, lambda: nvrtc.compile(source, chosen))


def divided(source: str, most: int = KERNELS_PER_UNIT) -> list[str]:
    """A text of a head and kernels as units of the head and at most `most` kernels.

    Each kernel begins with a line `extern "C" __global__`, and nothing but kernels follows the first of them.
    """
    starts = [m.start() for m in _ENTRY.finditer(source)]
    if len(starts) <= most:
        return [source]
    head, units = source[:starts[0]], -(-len(starts) // most)
    cuts = [starts[len(starts) * u // units] for u in range(units)] + [len(source)]
    return [head + source[cuts[u]:cuts[u + 1]] for u in range(units)]


def compile_units(sources: Sequence[str], arch: str) -> list[bytes]:
    """The cubin of each text, in order, compiled in threads. A terminal sees how far it is. Raises as `compile`."""
    if len(sources) == 1:
        return [compile(sources[0], arch)]
    compiler()  # loaded once, before the threads
    started, done, told = time.monotonic(), 0, False
    with ThreadPoolExecutor(min(len(sources), os.cpu_count() or 1)) as pool:
        tasks = [pool.submit(compile, source, arch) for source in sources]
        for _ in as_completed(tasks):
            done += 1
            if sys.stderr.isatty() and time.monotonic() - started > PATIENCE:
                told = True
                print(f"\rcompiling CUDA kernels: {done} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    if told:
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)
    return [task.result() for task in tasks]

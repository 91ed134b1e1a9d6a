"""Kernels' text compiled without a GPU, by NVRTC or nvcc, and what the machine code says of registers and the stack.

    used = machinecode.compiled(whole, "sm_90")        # whole: the prelude and kernels
    used["jg_pw_add_0"].registers, used["jg_pw_add_0"].stack
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from jitgrad.codegen.cuda.driver import libraries, nvrtc
from tests.required import compilers

NVCC = shutil.which("nvcc")
#: kernels in one text: more of them share what it costs to read the prelude, fewer are told apart by the log
TOGETHER = 24
#: bytes of the stack that are no register: ptxas keeps the barriers of loops that diverge there, here and there, of
#: three nested ones at most
BARRIER = 24
#: attributes of a kernel in the section .nv.info: registers, bytes of its frame, bytes of it and of what it calls
REGISTERS, FRAME, STACK = 0x2f, 0x11, 0x12
#: of a multiprocessor from sm_80 to sm_90; a warp's registers are given in units, eight for each of its threads
FILE, WARPS, BLOCKS, UNIT = 65536, 64, 32, 8
#: threads that it holds of a kernel of rows, at least: three blocks of 256, or as many in larger ones
HELD = 3 * 256
#: where a kernel begins: the most threads of a block, the name
HEAD = re.compile(r'extern "C" __global__ void __launch_bounds__\((\d+)[^)]*\)\s+(\w+)\(')
_VALUE = 4  # the format of an attribute with data of its own


@functools.cache
def by_nvrtc() -> bool:
    """Whether NVRTC is installed, from pip or with the toolkit."""
    try:
        libraries.load("nvrtc")
    except RuntimeError:
        return False
    return True


needs_nvrtc = compilers(by_nvrtc(), "no NVRTC: kernels' CUDA text is not compiled")
needs_cuda = compilers(by_nvrtc() or NVCC is not None, "no NVRTC and no nvcc: kernels' CUDA text is not compiled")


@dataclass(frozen=True)
class Used:
    """What a kernel takes: registers of a thread, bytes of its stack (spilled registers, arrays)."""

    registers: int
    stack: int


def blocks(registers: int, threads: int) -> int:
    """How many blocks a multiprocessor holds, as far as registers say."""
    warps = threads // 32
    return min(FILE // (-(-registers // UNIT) * UNIT * 32) // warps, WARPS // warps, BLOCKS)


def usage(cubin: bytes) -> dict[str, Used]:
    """What each kernel of a cubin takes, from its ELF section .nv.info."""
    (sections_at,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, named = struct.unpack_from("<HHH", cubin, 0x3A)
    # name, type, flags, address, offset, size, link, ...
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections_at + k * size) for k in range(count)]

    def text(table: int, place: int) -> str:
        start = sections[table][4] + place
        return cubin[start:cubin.index(b"\0", start)].decode()

    by_name = {text(named, s[0]): s for s in sections}
    symbols, info = by_name[".symtab"], by_name[".nv.info"]
    found: dict[str, dict[int, int]] = {}
    at, end = info[4], info[4] + info[5]
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form == _VALUE:
            if attribute in (REGISTERS, FRAME, STACK):
                symbol, value = struct.unpack_from("<II", cubin, at)
                (place,) = struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)
                found.setdefault(text(symbols[6], place), {})[attribute] = value
            at += length
    return {name: Used(facts[REGISTERS], max(facts[FRAME], facts[STACK])) for name, facts in found.items()
            if REGISTERS in facts}


@functools.cache
def _nvrtc() -> nvrtc.Compiler:
    """NVRTC itself, also where an emulated GPU stands in for what programs compile with."""
    return nvrtc.Compiler(libraries.load("nvrtc"))


def _nvcc(source: str, options: tuple[str, ...], what: str) -> bytes:
    assert NVCC is not None
    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder) / "kernels.cu", Path(folder) / "made"
        file.write_text(source)
        done = subprocess.run([NVCC, what, *options, "-o", made, file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return made.read_bytes()


def assembly(source: str) -> str:
    """The PTX of a text."""
    if by_nvrtc():
        return _nvrtc().compile(source, ("-arch=compute_80", *nvrtc.OPTIONS), "PTX").decode()
    return _nvcc(source, ("-arch=compute_80", *nvrtc.OPTIONS), "-ptx").decode()


def machine_code(source: str, arch: str) -> list[bytes]:
    """The cubins of a text of kernels, compiled in threads: by NVRTC, else by nvcc."""
    units = nvrtc.divided(source, TOGETHER)
    options = (f"-arch={arch}", *nvrtc.OPTIONS)
    compiler = _nvrtc() if by_nvrtc() else None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda unit: compiler.compile(unit, options) if compiler is not None
                             else _nvcc(unit, options, "-cubin"), units))


def compiled(source: str, arch: str) -> dict[str, Used]:
    """What each kernel of a text takes. AssertionError or CompileError where it is not CUDA C++."""
    found = [usage(cubin) for cubin in machine_code(source, arch)]
    used = {name: facts for unit in found for name, facts in unit.items()}
    assert len(used) == sum(map(len, found)) == len(re.findall(r'^extern "C" __global__', source, re.MULTILINE))
    return used



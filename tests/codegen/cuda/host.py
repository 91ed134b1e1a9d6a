"""Generated CUDA kernels on the host: compiled by g++ behind `host.h`, each launch run forward and reversed."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.cuda.kernels import geometry, text
from jitgrad.codegen.llvm import kernel as llvm_kernel
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.dims import evaluate
from tests.codegen.cuda import compilecache
from tests.required import compilers

COMPILER = shutil.which("g++")
needs_compiler = compilers(COMPILER is not None, "no g++: kernels' CUDA text is not run on the host")
#: of tests that run kernels' text: `make test` runs samples of them
emulated = [needs_compiler, pytest.mark.sampled("emulated GPU")]
FLAGS = ("-O0", "-fPIC", "-w", "-std=c++17", "-U_FORTIFY_SOURCE", "-fwrapv", "-ffp-contract=off")
CTYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
          "i8": ctypes.c_int8, "i1": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double}
HERE = Path(__file__).parent
_ENTRY = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]+\)\s+(\w+)\(([^)]*)\)')


def entries(source: str) -> str:
    """A C function around each kernel, which takes its arguments as `cuLaunchKernel` does."""
    lines = []
    for name, listed in _ENTRY.findall(source):
        types = [p.rsplit(" ", 1)[0] for p in listed.split(", ") if p]
        values = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
        lines.append(f"static void body_{name}(void** a) {{ {name}({values}); }}\n"
                     f'extern "C" int launch_{name}(void** a, unsigned gx, unsigned gy, unsigned threads, '
                     f"unsigned shared) {{\n"
                     f"    return run(body_{name}, a, gx, gy, threads, shared);\n}}\n")
    assert lines
    return "".join(lines)


@functools.cache
def _version() -> str:
    """Which compiler it is."""
    assert COMPILER is not None
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout


def _compile(*arguments: str, source: str = "") -> None:
    """Run g++; the text is its standard input."""
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *arguments], input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@functools.cache
def header() -> Path:
    """`host.h` and the prelude, precompiled: each kernel then takes a tenth of a second."""
    prelude = text.prelude().replace("#pragma once\n", "")
    before, half, after = prelude.partition("#ifndef JG_HOST\nJG_DEVICE float jg_widen")
    assert half
    whole = (f"{(HERE / 'host.h').read_text()}{before}#ifdef JG_HOST\nJG_HALF_ON_HOST\n#else\n"
             f"JG_DEVICE float jg_widen{after}")
    name = compilecache.key(_version(), *FLAGS, whole)
    path = compilecache.file(f"{name}.h", lambda made: made.write_text(whole))
    compilecache.file(f"{name}.h.gch", lambda made: _compile("-x", "c++-header", str(path), "-o", str(made)))
    return path


@functools.cache
def _runner() -> None:
    """Load what runs kernels, for all libraries of kernels. Optimised: it is where the time of a launch goes."""
    source = (HERE / "host.cpp").read_text().replace('#include "host.h"\n', (HERE / "host.h").read_text())
    _library(source, ("-O2",), ctypes.RTLD_GLOBAL)


def _library(source: str, flags: tuple[str, ...] = (), mode: int = ctypes.DEFAULT_MODE) -> Any:
    name = compilecache.key(_version(), *FLAGS, *flags, source)
    path = compilecache.file(f"{name}.so", lambda made: _compile(
        *flags, "-s", "-shared", "-x", "c++", "-", "-o", str(made), source=source))
    return ctypes.CDLL(str(path), mode)


@functools.cache
def library(source: str) -> Any:
    """The kernels' text as a loaded library."""
    return kernels(f"{source}\n{entries(source)}")


@functools.cache
def kernels(whole: str) -> Any:
    """A text that needs the kernels' header as a loaded library."""
    _runner()
    return _library(f'#include "{header()}"\n{whole}')


@functools.cache
def shared(whole: str) -> Any:
    """C++ text as a loaded library."""
    return _library(whole)


def values_of(kernel: Kernel, sizes: Sequence[int], arrays: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any],
              values: Mapping[Any, int]) -> list[Any]:
    """The arguments as ctypes objects."""
    where = iter(sizes)
    arguments: list[Any] = []
    for p in llvm_kernel.parameters(kernel):
        of = CTYPES[p.llvm_type]
        if p.kind == "size":
            arguments.append(of(next(where)))
        elif p.kind == "operand":
            arguments.append(of(arrays[int(p.value)].ctypes.data))
        elif p.kind == "stride":
            arguments.append(of(evaluate(p.value, values)))
        else:
            arguments.append(of(scalars[int(p.value)]))
    return arguments


def launch(loaded: Any, form: geometry.Form, outer: int, inner: int, arguments: Sequence[Any]) -> None:
    """Run the launches of a form."""
    pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
    for one in form.launches:
        x, y = geometry.grid(one, outer, inner)
        shared = geometry.shared_bytes(one, inner)
        assert shared <= geometry.MOST_SHARED
        function = getattr(loaded, f"launch_{one.symbol}")
        status = function(pointers, x, y, one.threads, shared)
        assert status == 0, ("", "threads wait for each other", "a vector is not aligned", "beyond shared")[status]


def run(kernel: Kernel, sizes: Sequence[int], arrays: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any] = (),
        values: Mapping[Any, int] | None = None) -> None:
    """Run every form of a kernel that takes such sizes, with the threads in order and in reverse order.

    Both must write the same bits, forms about the same values. The arrays keep what the form for these sizes wrote.
    """
    outer, inner = math.prod(sizes[:len(kernel.outer)]), math.prod(sizes[len(kernel.outer):])
    if not outer:
        return
    forms = text.forms(kernel, "test")
    loaded = library(text.source(kernel, "test"))
    arguments = values_of(kernel, sizes, arrays, scalars, values or {})
    wanted = geometry.scratch(forms)
    scratch = np.full(wanted, 0xA5, np.uint8)
    scratch[:geometry.TICKETS] = 0
    if wanted:
        arguments.append(ctypes.c_void_p(scratch.ctypes.data))
    before = [a.copy() for a in arrays]
    found: list[list[np.ndarray[Any, Any]]] = []
    for form in reversed([f for f in forms if inner <= f.bound and outer <= f.rows]):
        for reverse in (1, 0):
            for a, b in zip(arrays, before, strict=True):
                if a.flags.writeable:
                    a[...] = b
            loaded.jg_set_reversed(reverse)
            launch(loaded, form, outer, inner, arguments)
            assert not scratch[:geometry.TICKETS].any(), "a ticket is left"
            found.append([a.copy() for a in arrays])
        assert [a.tobytes() for a in found[-1]] == [a.tobytes() for a in found[-2]], "the order of the threads matters"
    parts = {s.operand for s in kernel.body if s.op == "column"}  # of which only the sums are the same
    for results in found[:-2:2]:
        for k, (a, b) in enumerate(zip(results, found[-1], strict=True)):
            if k in parts:
                a, b = a.sum(0), b.sum(0)
            rough = a.dtype.itemsize == 2 and a.dtype.kind not in "iu"
            tolerance = 1e-2 if rough else 1e-4
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), tolerance, tolerance)

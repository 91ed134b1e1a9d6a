"""Generated CUDA kernels on the host: compiled by g++ behind `host.h`, each launch run forward and reversed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.cuda import geometry, text
from jitgrad.codegen.kernel import Kernel
from jitgrad.dims import evaluate

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++: kernels' CUDA text is not run on the host")
FLAGS = ("-O0", "-fPIC", "-w", "-std=c++17", "-U_FORTIFY_SOURCE", "-fwrapv", "-ffp-contract=off")
CTYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
          "i8": ctypes.c_int8, "i1": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double}
HERE = Path(__file__).parent
_ENTRY = re.compile(r'extern "C" __global__ void __launch_bounds__\(\d+\)\s+(\w+)\(([^)]*)\)')


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="jitgrad-cuda-"))


def entry(source: str) -> str:
    """A C function around the kernel, which takes its arguments as `cuLaunchKernel` does."""
    found = _ENTRY.search(source)
    assert found is not None
    name, parameters = found.group(1), [p for p in found.group(2).split(", ") if p]
    types = [p.rsplit(" ", 1)[0] for p in parameters]
    values = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
    return (f"static void body(void** a) {{ {name}({values}); }}\n"
            'extern "C" int launch(void** a, unsigned blocks, unsigned threads) {\n'
            "    return run(body, a, blocks, threads);\n}\n")


@functools.cache
def header() -> Path:
    """`host.h` and the prelude, precompiled: each kernel then takes a tenth of a second."""
    prelude = text.prelude().replace("#pragma once\n", "")
    before, half, after = prelude.partition("#ifndef JG_HOST\nJG_DEVICE float jg_widen")
    assert half
    path = _folder() / "kernels.h"
    path.write_text(f'#pragma once\n#include "{HERE / "host.h"}"\n{before}#ifdef JG_HOST\nJG_HALF_ON_HOST\n#else\n'
                    f"JG_DEVICE float jg_widen{after}")
    _compile("-x", "c++-header", str(path), "-o", f"{path}.gch")
    return path


def _compile(*arguments: str) -> None:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@functools.cache
def library(source: str) -> Any:
    """The kernel's text as a loaded library."""
    return shared(f'#include "{header()}"\n{source}\n{entry(source)}')


@functools.cache
def shared(whole: str) -> Any:
    """C++ text as a loaded library."""
    stem = _folder() / hashlib.sha256(whole.encode()).hexdigest()[:16]
    stem.with_suffix(".cpp").write_text(whole)
    _compile("-shared", "-o", str(stem.with_suffix(".so")), str(stem.with_suffix(".cpp")))
    return ctypes.CDLL(str(stem.with_suffix(".so")))


def run(kernel: Kernel, sizes: Sequence[int], arrays: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any] = (),
        values: Mapping[Any, int] | None = None, wide: bool = False) -> None:
    """Run a kernel, with the threads in order and in reverse order: both must write the same bits."""
    outer, inner = math.prod(sizes[:len(kernel.outer)]), math.prod(sizes[len(kernel.outer):])
    if not outer:
        return
    (launch,) = geometry.pick(text.forms(kernel, "test"), inner).launches
    grid = geometry.grid(launch, outer, inner)
    blocks, threads = min(grid.x, 6), min(grid.threads, 128)
    where = iter(sizes)
    arguments: list[Any] = []
    for p in llvm_kernel.parameters(kernel):
        of = CTYPES[p.llvm_type]
        if p.kind == "size":
            arguments.append(of(next(where)))
        elif p.kind == "operand":
            arguments.append(of(arrays[int(p.value)].ctypes.data))
        elif p.kind == "stride":
            arguments.append(of(evaluate(p.value, values or {})))
        else:
            arguments.append(of(scalars[int(p.value)]))
    pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
    before = [a.copy() for a in arrays]
    results = []
    loaded = library(text.source(kernel, "test", wide))
    for reverse in (1, 0):
        for a, b in zip(arrays, before, strict=True):
            if a.flags.writeable:
                a[...] = b
        loaded.jg_set_reversed(reverse)
        assert loaded.launch(pointers, blocks, threads) == 0, "threads wait for each other"
        results.append([a.tobytes() for a in arrays])
    assert results[0] == results[1], "the result depends on the order of the threads"

"""Our constants, structures and signatures against CUDA's own headers, where they are installed."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jitgrad.codegen.cuda import driverapi, nvrtc

COMPILER = shutil.which("g++")
#: how many arguments a function takes, and their sizes
SIZES = """
#include <cstdio>
#include <cstddef>
template <class R, class... A> void show(const char* name, R (*)(A...)) {
    printf("%s", name);
    int sizes[] = {0, (int)sizeof(A)...};
    for (unsigned i = 1; i < sizeof(sizes) / sizeof(int); i++) printf(" %d", sizes[i]);
    printf("\\n");
}
#define SHOW(f) show(#f, (decltype(&f))nullptr)
#define VALUE(v) printf("%s %lld\\n", #v, (long long)(v))
"""


def folder_of(header: str) -> Path | None:
    candidates = [Path(home) / "include" for home in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") if home]
    for entry in sys.path:
        candidates += sorted(Path(entry or ".").glob("nvidia/*/include"))
    return next((folder for folder in candidates if (folder / header).exists()), None)


def printed(tmp_path: Path, headers: tuple[str, ...], body: str) -> dict[str, list[int]]:
    """The lines that a program prints: a name and numbers."""
    folders = [folder_of(h) for h in headers]
    if COMPILER is None or None in folders:
        pytest.skip(f"no g++ or no {', '.join(headers)}")
    source = tmp_path / "probe.cpp"
    includes = "".join(f"#include <{h}>\n" for h in headers)
    source.write_text(f"{includes}{SIZES}int main() {{\n{body}\n}}\n")
    runtime = folder_of("driver_types.h")
    flags = [f"-I{f}" for f in dict.fromkeys([*folders, *([runtime] if runtime else [])])]
    done = subprocess.run([COMPILER, "-w", *flags, str(source), "-o", str(tmp_path / "probe")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    lines = subprocess.run([str(tmp_path / "probe")], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0]: [int(n) for n in line.split()[1:]] for line in lines}


def check_signatures(found: dict[str, list[int]], signatures: dict[str, tuple[type, ...]]) -> None:
    assert found == {name: [ctypes.sizeof(a) for a in arguments] for name, arguments in signatures.items()}


def test_signatures_of_the_driver(tmp_path):
    found = printed(tmp_path, ("cuda.h",), "\n".join(f"SHOW({name});" for name in driverapi.SIGNATURES))
    check_signatures(found, driverapi.SIGNATURES)


def test_signatures_of_nvrtc(tmp_path):
    found = printed(tmp_path, ("nvrtc.h",), "\n".join(f"SHOW({name});" for name in nvrtc._SIGNATURES))
    check_signatures(found, nvrtc._SIGNATURES)


def test_constants_of_the_driver(tmp_path):
    expected = {
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": driverapi.MAJOR,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": driverapi.MINOR,
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": driverapi.PROCESSORS,
        "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": driverapi.L2_BYTES,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": driverapi.SHARED_OPTIN,
        "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": driverapi.FUNCTION_STATIC_SHARED,
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": driverapi.FUNCTION_DYNAMIC_SHARED,
        "CU_STREAM_NON_BLOCKING": driverapi.NON_BLOCKING,
        "CU_STREAM_CAPTURE_MODE_RELAXED": driverapi.CAPTURE_RELAXED,
        "CU_GRAPH_NODE_TYPE_CONDITIONAL": driverapi.NODE_CONDITIONAL,
        "CU_GRAPH_COND_TYPE_IF": driverapi.COND_IF, "CU_GRAPH_COND_TYPE_WHILE": driverapi.COND_WHILE,
        "CUDA_SUCCESS": driverapi.SUCCESS, "CUDA_ERROR_INVALID_VALUE": driverapi.INVALID_VALUE,
    }
    found = printed(tmp_path, ("cuda.h",), "\n".join(f"VALUE({name});" for name in expected))
    assert found == {name: [value] for name, value in expected.items()}


STRUCTURES = {
    "CUDA_KERNEL_NODE_PARAMS_v2": (driverapi.KernelNode, {
        "function": "func", "grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes",
        "parameters": "kernelParams", "extra": "extra", "kernel": "kern", "context": "ctx"}),
    "CUDA_CONDITIONAL_NODE_PARAMS": (driverapi.Conditional, {
        "handle": "handle", "kind": "type", "size": "size", "graphs": "phGraph_out", "context": "ctx"}),
    "CUgraphNodeParams": (driverapi.NodeParameters, {"kind": "type", "of": "kernel", "reserved2": "reserved2"}),
    "CUgraphExecUpdateResultInfo": (driverapi.UpdateResult, {
        "result": "result", "node": "errorNode", "from_node": "errorFromNode"}),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_of_the_driver(tmp_path, name):
    ours, members = STRUCTURES[name]
    body = [f'printf("size %d\\n", (int)sizeof({name}));']
    body += [f'printf("{own} %d\\n", (int)offsetof({name}, {theirs}));' for own, theirs in members.items()]
    found = printed(tmp_path, ("cuda.h",), "\n".join(body))
    assert found == {"size": [ctypes.sizeof(ours)], **{own: [getattr(ours, own).offset] for own in members}}

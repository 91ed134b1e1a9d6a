"""Our constants, structures and signatures against CUDA's own headers, where they are installed."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jitgrad.codegen.cuda.driver import blaslt, driverapi, nvrtc

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
        "CU_STREAM_NON_BLOCKING": driverapi.NON_BLOCKING,
        "CU_STREAM_CAPTURE_MODE_RELAXED": driverapi.CAPTURE_RELAXED,
        "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": driverapi.COOPERATIVE,
        "CU_MEMORYTYPE_DEVICE": driverapi.DEVICE_MEMORY,
        "CUDA_ERROR_INVALID_VALUE": driverapi.INVALID_VALUE,
    }
    found = printed(tmp_path, ("cuda.h",), "\n".join(f"VALUE({name});" for name in expected))
    assert found == {name: [value] for name, value in expected.items()}


def test_signatures_of_cublaslt(tmp_path):
    found = printed(tmp_path, ("cublasLt.h",), "\n".join(f"SHOW({name});" for name in blaslt.SIGNATURES))
    check_signatures(found, blaslt.SIGNATURES)


def test_constants_and_structures_of_cublaslt(tmp_path):
    epilogues = ("DEFAULT", "RELU", "BIAS", "RELU_BIAS", "GELU", "GELU_BIAS", "RELU_AUX", "RELU_AUX_BIAS", "DRELU",
                 "DRELU_BGRAD", "GELU_AUX", "GELU_AUX_BIAS", "DGELU", "DGELU_BGRAD", "BGRADA", "BGRADB")
    description = {"TRANSA": "TRANS_A", "TRANSB": "TRANS_B", "EPILOGUE": "EPILOGUE", "BIAS_POINTER": "BIAS_POINTER",
                   "EPILOGUE_AUX_POINTER": "AUX_POINTER", "EPILOGUE_AUX_LD": "AUX_STRIDE",
                   "EPILOGUE_AUX_BATCH_STRIDE": "AUX_BATCH_STRIDE"}
    preference = {"MAX_WORKSPACE_BYTES": "MAX_WORKSPACE", "MIN_ALIGNMENT_A_BYTES": "ALIGNMENT_A",
                  "MIN_ALIGNMENT_B_BYTES": "ALIGNMENT_B", "MIN_ALIGNMENT_C_BYTES": "ALIGNMENT_C",
                  "MIN_ALIGNMENT_D_BYTES": "ALIGNMENT_D"}
    ours = {**{f"CUBLASLT_EPILOGUE_{e}": e for e in epilogues},
            **{f"CUBLASLT_MATMUL_DESC_{theirs}": own for theirs, own in description.items()},
            **{f"CUBLASLT_MATMUL_PREF_{theirs}": own for theirs, own in preference.items()},
            "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": "BATCH_COUNT",
            "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": "BATCH_STRIDE",
            "CUDA_R_32F": "R_32F", "CUDA_R_64F": "R_64F", "CUDA_R_16F": "R_16F", "CUDA_R_16BF": "R_16BF",
            "CUBLAS_COMPUTE_32F": "COMPUTE_32F", "CUBLAS_COMPUTE_64F": "COMPUTE_64F",
            "CUBLAS_COMPUTE_32F_FAST_TF32": "COMPUTE_TF32", "CUBLAS_STATUS_INVALID_VALUE": "INVALID_VALUE",
            "CUBLAS_STATUS_NOT_SUPPORTED": "NOT_SUPPORTED"}
    members = {"algorithm": "algo", "workspace": "workspaceSize", "state": "state", "waves": "wavesCount",
               "reserved": "reserved"}
    body = [f"VALUE({name});" for name in ours]
    body += [f'printf("{own} %d\\n", (int)offsetof(cublasLtMatmulHeuristicResult_t, {theirs}));'
             for own, theirs in members.items()]
    body.append('printf("size %d\\n", (int)sizeof(cublasLtMatmulHeuristicResult_t));')
    found = printed(tmp_path, ("cublasLt.h",), "\n".join(body))
    assert found == {**{theirs: [getattr(blaslt, own)] for theirs, own in ours.items()},
                     **{own: [getattr(blaslt.Heuristic, own).offset] for own in members},
                     "size": [ctypes.sizeof(blaslt.Heuristic)]}


STRUCTURES = {
    "CUDA_KERNEL_NODE_PARAMS_v2": (driverapi.KernelNode, {
        "function": "func", "grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes",
        "parameters": "kernelParams", "extra": "extra", "kernel": "kern", "context": "ctx"}),
    "CUDA_MEMCPY3D": (driverapi.Copy, {
        "from_place": "srcXInBytes", "from_kind": "srcMemoryType", "source": "srcDevice", "to_place": "dstXInBytes",
        "to_kind": "dstMemoryType", "target": "dstDevice", "bytes": "WidthInBytes", "height": "Height",
        "depth": "Depth"}),
    "CUlaunchAttributeValue": (driverapi.LaunchAttribute, {"cooperative": "cooperative"}),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_of_the_driver(tmp_path, name):
    ours, members = STRUCTURES[name]
    body = [f'printf("size %d\\n", (int)sizeof({name}));']
    body += [f'printf("{own} %d\\n", (int)offsetof({name}, {theirs}));' for own, theirs in members.items()]
    found = printed(tmp_path, ("cuda.h",), "\n".join(body))
    assert found == {"size": [ctypes.sizeof(ours)], **{own: [getattr(ours, own).offset] for own in members}}

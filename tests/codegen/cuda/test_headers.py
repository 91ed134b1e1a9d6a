"""Our constants, structures and signatures against CUDA's own headers, or what is recorded of them.

    python -m tests.codegen.cuda.test_headers      # records anew what there are headers of

The record is of CUDA 13.0 and of cuBLASLt 13.1, whose headers come with 420 MB (`pip install nvidia-cublas`); where
headers are installed, it is compared with them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jitgrad.codegen.cuda.driver import blaslt, driverapi, nvrtc

COMPILER = shutil.which("g++")
RECORD = Path(__file__).parent / "golden" / "headers.json"
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


def printed(header: str, body: str) -> dict[str, list[int]] | None:
    """The lines that a program prints: a name and numbers; None where the header, or a compiler, is lacking."""
    own, runtime = folder_of(header), folder_of("driver_types.h")
    if COMPILER is None or own is None:
        return None
    flags = [f"-I{f}" for f in dict.fromkeys([own, runtime or own])]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "probe.cpp", Path(folder) / "probe"
        source.write_text(f"#include <{header}>\n{SIZES}int main() {{\n{body}\n}}\n")
        done = subprocess.run([COMPILER, "-w", *flags, source, "-o", program], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr[:2000]
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0]: [int(n) for n in line.split()[1:]] for line in lines}


@dataclass
class Probe:
    """What is asked of a header, and what of ours should be the answer."""

    header: str
    body: str
    ours: dict[str, list[int]]


def signatures(header: str, ours: Mapping[str, Sequence[Any]]) -> Probe:
    """How many arguments functions take, and their sizes."""
    return Probe(header, "\n".join(f"SHOW({name});" for name in ours),
                 {name: [ctypes.sizeof(a) for a in arguments] for name, arguments in ours.items()})


def structure(header: str, name: str, ours: type[ctypes.Structure], members: Mapping[str, str]) -> Probe:
    """The size of a structure, and where its members are."""
    body = [f'printf("size %d\\n", (int)sizeof({name}));']
    body += [f'printf("{own} %d\\n", (int)offsetof({name}, {theirs}));' for own, theirs in members.items()]
    return Probe(header, "\n".join(body),
                 {"size": [ctypes.sizeof(ours)], **{own: [getattr(ours, own).offset] for own in members}})


def constants(header: str, ours: Mapping[str, int]) -> Probe:
    """The values of names."""
    return Probe(header, "\n".join(f"VALUE({name});" for name in ours), {name: [v] for name, v in ours.items()})


def of_cublaslt() -> dict[str, int]:
    """Its name -> our value."""
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
    return {theirs: getattr(blaslt, own) for theirs, own in ours.items()}


DRIVER = {
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
PROBES = {
    "signatures of the driver": signatures("cuda.h", driverapi.SIGNATURES),
    "constants of the driver": constants("cuda.h", DRIVER),
    "a node of a graph": structure("cuda.h", "CUDA_KERNEL_NODE_PARAMS_v2", driverapi.KernelNode, {
        "function": "func", "grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes",
        "parameters": "kernelParams", "extra": "extra", "kernel": "kern", "context": "ctx"}),
    "a copy": structure("cuda.h", "CUDA_MEMCPY3D", driverapi.Copy, {
        "from_place": "srcXInBytes", "from_kind": "srcMemoryType", "source": "srcDevice", "to_place": "dstXInBytes",
        "to_kind": "dstMemoryType", "target": "dstDevice", "bytes": "WidthInBytes", "height": "Height",
        "depth": "Depth"}),
    "an attribute of a launch": structure("cuda.h", "CUlaunchAttributeValue", driverapi.LaunchAttribute,
                                          {"cooperative": "cooperative"}),
    "signatures of NVRTC": signatures("nvrtc.h", nvrtc._SIGNATURES),
    "signatures of cuBLASLt": signatures("cublasLt.h", blaslt.SIGNATURES),
    "constants of cuBLASLt": constants("cublasLt.h", of_cublaslt()),
    "what cuBLASLt finds": structure("cublasLt.h", "cublasLtMatmulHeuristicResult_t", blaslt.Heuristic, {
        "algorithm": "algo", "workspace": "workspaceSize", "state": "state", "waves": "wavesCount",
        "reserved": "reserved"}),
}


@pytest.mark.parametrize("name", PROBES)
def test_ours_are_theirs(name: str) -> None:
    probe, recorded = PROBES[name], json.loads(RECORD.read_text())[name]
    now = printed(probe.header, probe.body)
    assert now is None or now == recorded, "CUDA has changed, or what is asked of it: record it anew"
    assert recorded == probe.ours


if __name__ == "__main__":
    answers = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    answers = {name: printed(p.header, p.body) or answers[name] for name, p in PROBES.items()}
    RECORD.write_text(json.dumps(answers, indent=1) + "\n")

"""Texts of kernels as `cupy.RawKernel`s, which the native launcher (`cudadriver.py`) and anyone else can launch.

CuPy would compile a text with other options (it flushes denormals), so that the machine code is ours, given to it as a
file.
"""

import hashlib
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from jitgrad.codegen.cuda.driver import driverapi, libraries, nvrtc

_NAME = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(', re.MULTILINE)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where machine code is until the process ends: CuPy reads it for each device when a kernel is first launched."""
    return tempfile.TemporaryDirectory(prefix="jitgrad-")


def raw_kernels(source: str, xp: Any = None, arch: str = "") -> dict[str, Any]:
    """The kernels of a whole text (`DeviceModule.source`), by name, for CuPy's current device.

    Args:
        xp, arch: CuPy and the architecture; other than the machine's in tests only.

    Raises:
        LibraryError: CuPy, NVRTC or the NVIDIA driver is missing.
    """
    xp = libraries.cupy() if xp is None else xp
    found: dict[str, Any] = {}
    if not _NAME.search(source):
        return found
    arch = arch or driverapi.driver().arch(xp.cuda.Device().id)
    units = nvrtc.divided(source)
    for unit, cubin in zip(units, nvrtc.compile_units(units, arch), strict=True):
        path = Path(_folder().name, f"{hashlib.sha256(cubin).hexdigest()}.cubin")
        path.write_bytes(cubin)
        module = xp.RawModule(path=str(path))
        found.update({name: module.get_function(name) for name in _NAME.findall(unit)})
    return found

"""The CUDA driver's functions that are used, by ctypes: names with the version of their signature, and error texts.

    api = DriverApi(libraries.load("cuda"))
    api.call("cuStreamSynchronize", stream)       # CudaError where it fails
    api.made("cuStreamCreate", NON_BLOCKING)      # a function that stores one handle or number: what it stored
    api.address("cuLaunchKernel")                 # for generated code

By ctypes, because generated code calls the addresses and changes the structures where they are (`graphs/replaying.py`):
their layout has to be known here, and CuPy has neither nodes of graphs nor their updates. `cuda.bindings` would be one
more package, for the same calls; that signatures, structures and constants are CUDA's, tests compare with its headers.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint64, c_void_p
from functools import cache
from typing import Any

from jitgrad.codegen.cuda.driver import libraries
from jitgrad.codegen.cuda.driver.libraries import Functions, Symbols, bind

# attributes of devices, flags, kinds (cuda.h)
MAJOR, MINOR, PROCESSORS, L2_BYTES, SHARED_OPTIN = 75, 76, 16, 38, 97
NON_BLOCKING = 1
CAPTURE_RELAXED = 2
DEVICE_MEMORY = 2
COOPERATIVE = 2
INVALID_VALUE = 1
KERNEL = 0  # of the types of a graph's nodes
BUFFER_POINTER, BUFFER_SIZE = 1, 2  # what `KernelNode.extra` lists: arguments in one buffer


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
                ("parameters", c_void_p), ("extra", c_void_p), ("kernel", c_void_p), ("context", c_void_p))


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D_v2: here always of one row of device memory."""

    _fields_ = (("from_place", c_size_t * 4), ("from_kind", c_int), ("from_host", c_void_p), ("source", c_uint64),
                ("from_array", c_void_p), ("reserved0", c_void_p), ("from_pitch", c_size_t), ("from_height", c_size_t),
                ("to_place", c_size_t * 4), ("to_kind", c_int), ("to_host", c_void_p), ("target", c_uint64),
                ("to_array", c_void_p), ("reserved1", c_void_p), ("to_pitch", c_size_t), ("to_height", c_size_t),
                ("bytes", c_size_t), ("height", c_size_t), ("depth", c_size_t))


class LaunchAttribute(ctypes.Union):
    """CUlaunchAttributeValue, as far as it is used."""

    _fields_ = (("pad", ctypes.c_char * 64), ("cooperative", c_int))


_Handle, _Out = c_void_p, POINTER(c_void_p)
_GraphNode = (_Out, _Handle, _Out, c_size_t)  # the node made, its graph, the nodes that it follows, how many

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuCtxGetCurrent": (_Out,),
    "cuFuncGetParamInfo": (_Handle, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "cuKernelGetParamInfo": (_Handle, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), _Handle, c_int, c_size_t),
    "cuLaunchKernel": (_Handle, *(c_uint,) * 7, _Handle, _Out, _Out),
    "cuLaunchCooperativeKernel": (_Handle, *(c_uint,) * 7, _Handle, _Out),
    "cuStreamCreate": (_Out, c_uint),
    "cuStreamDestroy_v2": (_Handle,),
    "cuStreamSynchronize": (_Handle,),
    "cuStreamQuery": (_Handle,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, _Handle),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, _Handle),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, _Handle),
    "cuMemsetD8Async": (c_uint64, c_uint8, c_size_t, _Handle),
    "cuMemsetD2D8Async": (c_uint64, c_size_t, c_uint8, c_size_t, c_size_t, _Handle),
    "cuStreamBeginCapture_v2": (_Handle, c_int),
    "cuStreamEndCapture": (_Handle, _Out),
    "cuGraphCreate": (_Out, c_uint),
    "cuGraphDestroy": (_Handle,),
    "cuGraphGetNodes": (_Handle, _Out, POINTER(c_size_t)),
    "cuGraphNodeGetType": (_Handle, POINTER(c_int)),
    "cuGraphChildGraphNodeGetGraph": (_Handle, _Out),
    "cuGraphKernelNodeGetParams_v2": (_Handle, POINTER(KernelNode)),
    "cuGraphAddKernelNode_v2": (*_GraphNode, POINTER(KernelNode)),
    "cuGraphKernelNodeSetAttribute": (_Handle, c_int, POINTER(LaunchAttribute)),
    "cuGraphAddMemcpyNode": (*_GraphNode, POINTER(Copy), _Handle),
    "cuGraphAddChildGraphNode": (*_GraphNode, _Handle),
    "cuGraphInstantiateWithFlags": (_Out, _Handle, c_uint64),
    "cuGraphLaunch": (_Handle, _Handle),
    "cuGraphExecDestroy": (_Handle,),
    "cuGraphExecKernelNodeSetParams_v2": (_Handle, _Handle, POINTER(KernelNode)),
    "cuGraphExecMemcpyNodeSetParams": (_Handle, _Handle, POINTER(Copy), _Handle),
    "cuGraphExecChildGraphNodeSetParams": (_Handle, _Handle, _Handle),
}


class DriverApi(Functions):
    """The functions of a driver."""

    lacks = "the NVIDIA driver is too old: it has no {}"

    def __init__(self, library: Symbols):
        super().__init__(library, SIGNATURES)

    def told(self, code: int) -> tuple[str, str]:
        name, text = [self._text(about, code) for about in ("cuGetErrorName", "cuGetErrorString")]
        return name or f"error {code}", text

    def _text(self, about: str, code: int) -> str:
        place = c_char_p()
        unknown = bind(self.library, about, c_int, c_int, POINTER(c_char_p))(code, ctypes.byref(place))
        return "" if unknown else (place.value or b"").decode()

    # --- the machine ---

    def attribute(self, attribute: int, device: int) -> int:
        """A number that describes a device."""
        return self.made("cuDeviceGetAttribute", attribute, device)

    def arch(self, device: int) -> str:
        """What code for a device is compiled for: "sm_90"."""
        return f"sm_{self.attribute(MAJOR, device)}{self.attribute(MINOR, device)}"

    def name(self, device: int) -> str:
        """A device's name."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), device)
        return text.value.decode(errors="replace")


@cache
def driver() -> DriverApi:
    """The machine's driver, initialised. LibraryError where there is none, CudaError where it cannot work."""
    api = DriverApi(libraries.load("cuda"))
    api.call("cuInit", 0)
    return api


def version_text(number: int) -> str:
    """13000 as "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"

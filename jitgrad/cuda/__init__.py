"""torch.cuda: the GPUs of this machine, through CuPy. Asking whether there is one imports CuPy if it is installed."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitgrad.device import device as _device, has_gpu, patient, require_gpu, resolve
from jitgrad.eager.arrays.arrays import settle
from jitgrad.random import default_generator

if TYPE_CHECKING:
    from collections.abc import Iterator

Where = _device | str | int | None


def is_available() -> bool:
    """Whether there is CuPy and a GPU that it can use."""
    return has_gpu()


def device_count() -> int:
    """How many GPUs there are, 0 where none can be used."""
    return int(require_gpu().cuda.runtime.getDeviceCount()) if has_gpu() else 0


def is_initialized() -> bool:
    """Whether a GPU can be used."""
    return has_gpu()


def init() -> None:
    """Raises RuntimeError where no GPU can be used; nothing else needs to be done."""
    require_gpu()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether kernels may compute with bfloat16, which they do in float32: wherever there is a GPU."""
    return has_gpu()


def _index(where: Where) -> int:
    """The number of a GPU, of the current one for None."""
    if where is None:
        return current_device()
    found = resolve(where)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return found.index or 0


# --- devices -------------------------------------------------------------------------------------------------------


def current_device() -> int:
    """The number of the GPU on which `device="cuda"` makes tensors."""
    return int(require_gpu().cuda.Device().id)


def set_device(device: Where) -> None:
    """Make a GPU the current one of this thread; nothing for a negative number."""
    if not isinstance(device, int) or device >= 0:
        require_gpu().cuda.Device(_index(device)).use()


@contextmanager
def device(device: Where) -> Iterator[None]:
    """Make a GPU the current one inside a `with`; nothing for None or a negative number."""
    if device is None or (isinstance(device, int) and device < 0):
        yield
        return
    with require_gpu().cuda.Device(_index(device)):
        yield


def device_of(obj: Any) -> AbstractContextManager[None]:
    """Make the GPU of a tensor the current one inside a `with`; nothing for a tensor on the CPU."""
    return device(obj.get_device() if obj.is_cuda else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What a GPU is: memory in bytes, version of its architecture."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    warp_size: int
    L2_cache_size: int
    shared_memory_per_block: int


def get_device_properties(device: Where = None) -> DeviceProperties:
    """Name, architecture, memory and processors of a GPU."""
    p = require_gpu().cuda.runtime.getDeviceProperties(_index(device))
    name = p["name"]
    return DeviceProperties(
        name.decode() if isinstance(name, bytes) else name, p["major"], p["minor"], p["totalGlobalMem"],
        p["multiProcessorCount"], p["maxThreadsPerMultiProcessor"], p["warpSize"], p["l2CacheSize"],
        p["sharedMemPerBlock"])


def get_device_name(device: Where = None) -> str:
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Where = None) -> tuple[int, int]:
    """The version of a GPU's architecture: (9, 0) for an H200."""
    p = get_device_properties(device)
    return p.major, p.minor


def synchronize(device: Where = None) -> None:
    """Wait until a GPU has done all that it was given."""
    index = _index(device)
    if index in patient:
        patient[index](None)
    require_gpu().cuda.Device(index).synchronize()
    settle()


# --- random numbers ------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Start the stream of a seed. There is one stream of random numbers, for all devices: `jitgrad.manual_seed`."""
    default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def initial_seed() -> int:
    """The seed of the stream."""
    return default_generator.initial_seed()


def get_rng_state(device: Where = "cuda") -> Any:
    """`jitgrad.get_rng_state()`: one stream for all devices."""
    from jitgrad.eager.interop import get_rng_state

    return get_rng_state()


def set_rng_state(new_state: Any, device: Where = "cuda") -> None:
    """`jitgrad.set_rng_state(new_state)`: one stream for all devices."""
    from jitgrad.eager.interop import set_rng_state

    set_rng_state(new_state)


# --- memory --------------------------------------------------------------------------------------------------------

_peaks: dict[int, int] = {}
_watch: Any = None


def _pool(where: Where) -> tuple[Any, Any]:
    """A context in which a GPU is current, and CuPy's pool of memory."""
    cupy = require_gpu()
    return cupy.cuda.Device(_index(where)), cupy.get_default_memory_pool()


def memory_allocated(device: Where = None) -> int:
    """Bytes that tensors (and whatever else uses CuPy) hold on a GPU."""
    there, pool = _pool(device)
    with there:
        used = int(pool.used_bytes())
    if there.id in _peaks:
        _peaks[there.id] = max(_peaks[there.id], used)
    return used


def memory_reserved(device: Where = None) -> int:
    """Bytes that CuPy's pool has taken from a GPU, in use or kept for later."""
    there, pool = _pool(device)
    with there:
        return int(pool.total_bytes())


def max_memory_allocated(device: Where = None) -> int:
    """The most bytes held at a time since `reset_peak_memory_stats`, from whose first call on they are counted."""
    index = _index(device)
    used = memory_allocated(index)
    return max(used, _peaks.get(index, 0))


def reset_peak_memory_stats(device: Where = None) -> None:
    """Count the most bytes held at a time anew. The first call makes every later allocation a little slower."""
    global _watch
    index = _index(device)
    _peaks[index] = 0
    if _watch is None:
        hook: Any = require_gpu().cuda.MemoryHook
        pool = require_gpu().get_default_memory_pool()

        class Watch(hook):  # type: ignore[misc]
            """Looks at what is in use after every allocation in this thread: CuPy's pool does not count the most."""

            name = "jitgrad"

            def malloc_postprocess(self, **allocation: Any) -> None:
                there = allocation["device_id"]
                if there in _peaks:
                    _peaks[there] = max(_peaks[there], int(pool.used_bytes()))

        _watch = Watch()
        _watch.__enter__()
    memory_allocated(index)


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Give memory that nothing uses back to the GPUs; nothing where there is none."""
    if has_gpu():
        require_gpu().get_default_memory_pool().free_all_blocks()


def mem_get_info(device: Where = None) -> tuple[int, int]:
    """Free and total bytes of a GPU."""
    free, total = require_gpu().cuda.Device(_index(device)).mem_info
    return int(free), int(total)


def memory_summary(device: Where = None, abbreviated: bool = False) -> str:
    """Allocated, reserved and free memory of a GPU as text."""
    index = _index(device)
    free, total = mem_get_info(index)
    rows = (("allocated", memory_allocated(index)), ("peak", max_memory_allocated(index)),
            ("reserved", memory_reserved(index)), ("free on the device", free), ("on the device", total))
    return "\n".join([f"device cuda:{index}", *(f"  {name:<20}{n / 2 ** 20:>14,.1f} MiB" for name, n in rows)])


from jitgrad.cuda import amp as amp  # noqa: E402 (amp asks whether there is a GPU)
from jitgrad.cuda.streams import (Event, ExternalStream, Stream, current_stream, default_stream,  # noqa: E402
                                  set_stream, stream)

__all__ = ["DeviceProperties", "Event", "ExternalStream", "Stream", "amp", "current_device", "current_stream",
           "default_stream", "device", "device_count", "device_of", "empty_cache", "get_device_capability",
           "get_device_name", "get_device_properties", "get_rng_state", "init", "initial_seed", "is_available",
           "is_bf16_supported",
           "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info",
           "memory_allocated", "memory_reserved", "memory_summary", "reset_max_memory_allocated",
           "reset_peak_memory_stats", "set_device", "set_rng_state", "set_stream", "stream", "synchronize"]

"""The most memory in use at a time, which CuPy's pool does not count itself."""

from __future__ import annotations

from typing import Any


def watch(cupy: Any, peaks: dict[int, int]) -> Any:
    """Keep `peaks`, bytes by the number of a GPU that is in it, up to date from now on."""
    pool = cupy.get_default_memory_pool()

    class Watch(cupy.cuda.MemoryHook):  # type: ignore[misc]
        """Looks at what is in use after every allocation in this thread."""

        name = "jitgrad"

        def malloc_postprocess(self, **allocation: Any) -> None:
            there = allocation["device_id"]
            if there in peaks:
                peaks[there] = max(peaks[there], int(pool.used_bytes()))

    hook = Watch()
    hook.__enter__()
    return hook

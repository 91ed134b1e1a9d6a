"""How a thread computes floating-point numbers, for Python: see `kernels/modes.py`."""

import ctypes

from jitgrad.codegen.run import runtime


def set_flush_denormal(mode: bool, /) -> bool:
    """Let numbers too small for full precision count as zero, eagerly and in compiled functions, or not.

    For the thread that calls, and what others compute for it. In float32 these are numbers below 1.2e-38, as moments of
    an optimizer come to be whose gradients vanish, and a processor may leave its fast path for each.

    Returns:
        False where the machine cannot.

    Raises:
        RuntimeError: `mode` is not a bool.
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return bool(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(runtime.symbols()["jg_flush"])(mode))

"""Regions of mixed precision, as context managers and decorators, and what may be asked about them.

`ops/autocast.py` says which functions cast their operands. In a script, regions are entered while compiling; autocast
at the call is part of what a specialisation is for.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from jitgrad.device import has_gpu
from jitgrad.dtypes import dtype as _dtype, float64
from jitgrad.eager.tensor import Tensor
from jitgrad.ops import autocast as _casts

Fn = TypeVar("Fn", bound=Callable[..., Any])


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast(device_type)` exists: for "cpu" and "cuda"."""
    return device_type in _casts.DEFAULTS


def _require(device_type: str) -> None:
    if not is_autocast_available(device_type):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device in this thread; without an argument, as in torch, for "cuda"."""
    _require(device_type)
    return _casts.enabled(device_type) is not None


def get_autocast_dtype(device_type: str) -> _dtype:
    """The dtype of `autocast(device_type)`, on or off: bfloat16 on the CPU and float16 on CUDA, unless it was set."""
    _require(device_type)
    return getattr(_casts.mode, device_type)  # type: ignore[no-any-return]


def is_autocast_cache_enabled() -> bool:
    """What `cache_enabled` said. Casts are not kept in any case: a script makes equal ones once."""
    return _casts.mode.cache


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Autocast on or off from now on, in this thread."""
    _require(device_type)
    _casts.enter(device_type, get_autocast_dtype(device_type), bool(enabled), _casts.mode.cache)


def set_autocast_dtype(device_type: str, dtype: _dtype) -> None:
    """The dtype of autocast from now on, in this thread."""
    _require(device_type)
    _casts.enter(device_type, dtype, is_autocast_enabled(device_type), _casts.mode.cache)


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Accepted: what `is_autocast_cache_enabled` answers from now on."""
    _casts.mode.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Nothing: casts are not kept."""


class autocast:
    """Products in `dtype` and sensitive functions in float32: `with autocast("cpu", dtype=jitgrad.bfloat16):`.

    A context manager, which may be entered again and nested, and a decorator.

    Args:
        device_type: "cpu" or "cuda": whose tensors are concerned. "cuda" warns and does nothing where there is no GPU.
        dtype: bfloat16 or float16; without it the former for the CPU, the latter for a GPU.
        enabled: False turns autocast off inside.
        cache_enabled: accepted; see `is_autocast_cache_enabled`.

    Raises:
        ValueError: `device_type` is no string.
        RuntimeError: another device.
    """

    def __init__(self, device_type: str, dtype: _dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        _require(device_type)
        self.device = device_type
        self.fast_dtype = getattr(_casts.mode, device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled) and self._usable()
        self._before: list[_casts.State] = []

    def _usable(self) -> bool:
        """Whether an enabled region has an effect: torch warns where it has none."""
        if self.device == "cuda" and not has_gpu():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3)
            return False
        if self.fast_dtype not in _casts.LOW:
            warnings.warn(f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling "
                          f"autocast.\n{self.device.upper()} Autocast only supports dtypes of "
                          f"{', '.join(map(str, _casts.LOW))} currently.", stacklevel=3)
            return False
        return True

    def begin(self) -> None:
        """Set the mode of the thread: what `__enter__` does, for those who put the mode back themselves."""
        _casts.enter(self.device, self.fast_dtype, self._enabled, self._cache_enabled)

    def __enter__(self) -> autocast:
        self._before.append(_casts.state())
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _casts.restore(self._before.pop())

    def __call__(self, function: Fn) -> Fn:
        """`function`, each call in this region."""
        if not callable(function):
            raise TypeError(f"autocast()(func) requires a callable, but got {type(function).__name__}. Did you mean "
                            "to use autocast as a context manager? For example:\n    with torch.autocast("
                            "device_type=...):\n        output = model(input)")
        region = self

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with region:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), self.device, self.fast_dtype, self._enabled, self._cache_enabled))


def _again(cls: type[autocast], device: str, dtype: _dtype | None, enabled: bool, cache: bool) -> autocast:
    """A region as it was pickled."""
    region = cls.__new__(cls)
    region.device, region.fast_dtype, region._enabled, region._cache_enabled = device, dtype, enabled, cache
    region._before = []
    return region


# --- autograd.Function ---------------------------------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: _dtype) -> Any:
    """`value` with its floating-point tensors but float64 as `dtype`, also those in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type and value.dtype is not float64
        return value.to(dtype) if fits else value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(v, device_type, dtype) for v in value])
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: _dtype | None = None) -> Any:
    """Decorates `forward` of an `autograd.Function`: where autocast is on, its tensors are cast to `cast_inputs`.

    `forward` then runs with autocast off. Without `cast_inputs` it runs in the region that it is called in. Outside of
    regions nothing changes.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type) if enabled else None
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *[_cast(a, device_type, cast_inputs) for a in args],
                       **{k: _cast(v, device_type, cast_inputs) for k, v in kwargs.items()})

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates `backward` of an `autograd.Function`: it runs in the region in which `forward` ran."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args)

    return backward

__all__ = ["autocast", "clear_autocast_cache", "get_autocast_dtype", "is_autocast_cache_enabled", "is_autocast_enabled",
           "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled"]

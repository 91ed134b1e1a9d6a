"""Whether operations on a GPU must give the same bits each time: torch's `use_deterministic_algorithms` and kin.

On the CPU everything always does. On a GPU, sums of what goes to one place (`index_add`, `scatter_add`, the gradients
of indexing, embedding and pooling) are made in the order in which threads come, unless this is set; then they are made
in the order of the indices, which costs a sort of these. Nothing is refused: every operation has a fixed order.
"""

_enabled = False
_warn_only = False

#: what `set_deterministic_debug_mode` takes
_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Make results on a GPU the same from run to run (True), in all threads; scripts are compiled for one or the other.

    `warn_only` is kept, and makes no difference: there is no operation to warn of.
    """
    global _enabled, _warn_only
    _enabled, _warn_only = bool(mode), bool(mode) and bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` was said last."""
    return _enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was said with `warn_only=True`."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same by name or number: "default" or 0, "warn" or 1, "error" or 2. TypeError, RuntimeError for others."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                               f"{debug_mode}")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see `set_deterministic_debug_mode`."""
    return 0 if not _enabled else 1 if _warn_only else 2


__all__ = ["are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
           "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode",
           "use_deterministic_algorithms"]

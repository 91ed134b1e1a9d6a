"""The setting itself: torch's functions and their words."""

from __future__ import annotations

import pytest

import jitgrad


def test_modes() -> None:
    try:
        assert not jitgrad.are_deterministic_algorithms_enabled()
        jitgrad.use_deterministic_algorithms(True, warn_only=True)
        assert jitgrad.are_deterministic_algorithms_enabled()
        assert jitgrad.is_deterministic_algorithms_warn_only_enabled()
        assert jitgrad.get_deterministic_debug_mode() == 1
        jitgrad.use_deterministic_algorithms(True)
        assert not jitgrad.is_deterministic_algorithms_warn_only_enabled()
        assert jitgrad.get_deterministic_debug_mode() == 2
        for mode, number in (("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)):
            jitgrad.set_deterministic_debug_mode(mode)
            assert jitgrad.get_deterministic_debug_mode() == number
        with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected 0, 1, or 2, but got 3"):
            jitgrad.set_deterministic_debug_mode(3)
        with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`, but got often"):
            jitgrad.set_deterministic_debug_mode("often")
        with pytest.raises(TypeError, match="debug_mode must be str or int"):
            jitgrad.set_deterministic_debug_mode(1.0)  # type: ignore[arg-type]
    finally:
        jitgrad.use_deterministic_algorithms(False)


def test_switches_of_cudnn() -> None:
    assert not jitgrad.backends.cudnn.is_available()
    assert jitgrad.backends.cudnn.version() is None
    before = jitgrad.backends.cudnn.deterministic, jitgrad.backends.cudnn.benchmark
    assert before == (False, False)

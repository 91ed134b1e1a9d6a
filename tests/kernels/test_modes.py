"""Numbers too small for full precision count as zero where a thread asks for it, whoever computes for it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import jitgrad

SMALL = 1.0e-38  # less than the smallest float32 of full precision


@pytest.fixture(autouse=True)
def _as_before():
    threads = jitgrad.get_num_threads()
    yield
    jitgrad.set_flush_denormal(False)
    jitgrad.set_num_threads(threads)


def test_eager_and_scripts_flush_what_the_thread_says():
    x = jitgrad.full((1000,), SMALL)
    halved = jitgrad.script(lambda x: x * 0.5 + 0.0)
    expected = np.full(1000, np.float32(SMALL) * np.float32(0.5))
    assert expected[0] > 0
    for _ in range(2):
        assert np.array_equal((x * 0.5).numpy(), expected)
        assert np.array_equal(halved(x).numpy(), expected)
        if not jitgrad.set_flush_denormal(True):
            pytest.skip("this machine has no such mode")
        with ThreadPoolExecutor(1) as other:
            assert np.array_equal(other.submit(lambda: np.copysign(expected, -1)).result(), -expected)
        found = (x * 0.5).numpy(), halved(x).numpy()
        assert jitgrad.set_flush_denormal(False)
        assert not any(f.any() for f in found)


def test_those_who_help_compute_as_the_owner_does():
    scaled = jitgrad.script(lambda x: x * 0.5 + 0.0)
    x = jitgrad.full((1 << 21,), SMALL)
    jitgrad.set_num_threads(3)
    for _ in range(4):
        assert (scaled(x).numpy() > 0).all()
        if not jitgrad.set_flush_denormal(True):
            pytest.skip("this machine has no such mode")
        found = [scaled(x).numpy() for _ in range(3)]
        assert jitgrad.set_flush_denormal(False)
        assert not any(f.any() for f in found)


def test_what_is_no_bool_is_refused():
    with pytest.raises(RuntimeError, match="flush_denormal expects a bool, but got int"):
        jitgrad.set_flush_denormal(1)

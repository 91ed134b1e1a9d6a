"""Philox: the published vectors, the layout of draws, the stream."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import tracemalloc
from unittest import mock

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes, random
from jitgrad.eager import backend
from jitgrad.random import Generator, bits, philox, uniform, words


def block_of(counter, key):
    """The four words of one counter."""
    even, odd = (np.array([[a], [b]], np.uint64) for a, b in (counter[0::2], counter[1::2]))
    philox(even, odd, key)
    return [int(even[0, 0]), int(odd[0, 0]), int(even[1, 0]), int(odd[1, 0])]


# Source: Random123 (Salmon et al., 2011), tests/kat_vectors, lines philox4x32 10
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers(counter, key, expected) -> None:
    assert block_of(counter, key) == list(expected)


def test_layout_of_words() -> None:
    seed, offset = 0x299F31D0A4093822, (1 << 32) - 1  # the counter's carry into the second word is crossed
    w = words(seed, offset, 10)
    assert w.dtype == np.uint32
    assert w.shape == (10,)
    for block in range(3):
        counter = offset + block
        expected = block_of((counter & 0xFFFFFFFF, counter >> 32, 0, 0), (0xA4093822, 0x299F31D0))
        assert w[4 * block:4 * block + 4].tolist() == expected[:len(w[4 * block:4 * block + 4])]
    assert words(0, 0, 4).tolist() == list(VECTORS[0][2])
    assert words(3, 5, 0).shape == (0,)
    np.testing.assert_array_equal(words(7, (1 << 64) - 1, 8)[4:], words(7, 0, 4))  # the counter wraps
    np.testing.assert_array_equal(words(7, 0, 40000)[20000:], words(7, 5000, 20000))  # over chunks


def test_uniform_is_as_documented() -> None:
    w = words(11, 2, 12)
    np.testing.assert_array_equal(uniform(11, 2, (3, 4), dtypes.float32).reshape(-1),
                                  (w >> 8).astype(np.float32) * np.float32(2.0 ** -24))
    np.testing.assert_array_equal(uniform(11, 2, (12,), dtypes.float16),
                                  uniform(11, 2, (12,), dtypes.float32).astype(np.float16))
    expected = [((int(a) << 32 | int(b)) >> 11) * 2.0 ** -53 for a, b in zip(w[0::2], w[1::2], strict=True)]
    np.testing.assert_array_equal(uniform(11, 2, (6,), dtypes.float64), expected)
    np.testing.assert_array_equal(bits(11, 2, (2, 6)).reshape(-1), w)
    assert bits(11, 2, (2, 6)).dtype == np.int64
    assert uniform(1, 0, (), dtypes.float32).shape == ()


def test_uniform_is_uniform() -> None:
    for d in (dtypes.float32, dtypes.float64):
        u = uniform(1, 0, (200000,), d)
        assert u.min() >= 0
        assert u.max() < 1
        counts = np.histogram(u, 20, (0, 1))[0]
        assert ((counts - 10000) ** 2 / 10000).sum() < 50  # chi-squared, 19 degrees of freedom


def test_generator() -> None:
    g = Generator().manual_seed(5)
    assert g.advance(10) == (5, 0)
    assert g.advance(1) == (5, 3)
    assert g.advance(0) == (5, 4)
    state = g.get_state()
    assert g.position == (5, 4)
    assert (state.dtype, tuple(state.shape)) == (jitgrad.uint8, (16,))
    assert g.advance(4) == (5, 4)
    assert g.set_state(state) is g
    assert g.clone_state().advance(4) == g.advance(4) == (5, 4)
    assert Generator().manual_seed(-1).initial_seed() == (1 << 64) - 1
    assert Generator().set_state(Generator(-1).get_state()).position == ((1 << 64) - 1, 0)
    assert g.seed() == g.initial_seed()
    assert Generator().initial_seed() == random.DEFAULT_SEED


@pytest.mark.parametrize(("state", "error"), [
    ((1, 2), TypeError), (None, TypeError), (jitgrad.zeros(16), TypeError),
    (jitgrad.zeros(3, dtype=jitgrad.uint8), RuntimeError), (jitgrad.zeros(32, dtype=jitgrad.uint8)[::2], RuntimeError)])
def test_what_is_no_state(state, error):
    for take in (Generator().set_state, jitgrad.set_rng_state):
        with pytest.raises(error):
            take(state)


def test_many_are_drawn_by_parts():
    """The same numbers as all at once, in memory for the result and a part."""
    n = 8 * backend.PART + 77
    draws = (lambda: jitgrad.randn(n), lambda: jitgrad.randn(n // 2, 2, dtype=jitgrad.float64),
             lambda: jitgrad.randint(-3, 1000, (n,)), lambda: jitgrad.randperm(n), lambda: jitgrad.rand(n),
             lambda: jitgrad.randperm(n, dtype=jitgrad.int32), lambda: jitgrad.rand(n, dtype=jitgrad.float64))

    def drawn(draw):
        jitgrad.manual_seed(3)
        return draw(), random.default_generator.position

    for draw in draws:
        parts, at = drawn(draw)
        with mock.patch.object(backend, "PART", 1 << 40):
            whole, there = drawn(draw)
        assert parts.dtype is whole.dtype
        assert parts.shape == whole.shape
        assert at == there
        assert jitgrad.equal(parts, whole)
    for draw in draws[:5]:
        tracemalloc.start()
        result, _ = drawn(draw)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < result.numel() * result.element_size() + 64 * backend.PART


@pytest.mark.parametrize("seed", [2 ** 63 + 5, -1])
def test_a_script_draws_for_seeds_of_64_bits(seed):
    def draw(n):
        return jitgrad.rand(n)

    found = []
    for f in (draw, jitgrad.script(draw)):
        jitgrad.manual_seed(seed)
        found.append((f(3).tolist(), jitgrad.rand(2).tolist(), jitgrad.initial_seed()))
    assert found[0] == found[1]


MODES = {"eager": {"jit": False}, "native": {"interpret": False}, "interpreted": {"interpret": True}}


@jitgrad.ignore
def anothers_turn(out: list[bytes]) -> None:
    thread = threading.Thread(target=lambda: out.append(jitgrad.rand(64).numpy().tobytes()))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@jitgrad.ignore
def seeds_anew() -> None:
    jitgrad.rand(5)
    jitgrad.manual_seed(-9)
    jitgrad.rand(3)


def twice(n: int):
    return jitgrad.rand(n), jitgrad.rand(n)


def masked(x):
    return jitgrad.nn.functional.dropout(x, 0.5) + jitgrad.rand_like(x)


@pytest.mark.parametrize("mode", MODES)
def test_threads_draw_apart(mode):
    with config.override(**MODES[mode], cache=""):
        function = jitgrad.script(twice)
        function(64)  # all threads hit
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        found: list[list[bytes]] = [[] for _ in range(4)]

        def work(out: list[bytes]) -> None:
            for _ in range(25):
                out += [x.numpy().tobytes() for x in function(64)]

        threads = [threading.Thread(target=work, args=(out,)) for out in found]
        jitgrad.manual_seed(3)
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            sys.setswitchinterval(interval)
        assert random.default_generator.offset == 4 * 25 * 2 * 16
        drawn = [x for out in found for x in out]
        jitgrad.manual_seed(3)
        assert sorted(drawn) == sorted(jitgrad.rand(64).numpy().tobytes() for _ in drawn)


@pytest.mark.parametrize("mode", MODES)
def test_forward_mode_draws_as_eager(mode):
    with config.override(**MODES[mode], cache=""):
        function = jitgrad.script(masked)
        x = jitgrad.ones(8)
        found = []
        for f in (masked, function):
            jitgrad.manual_seed(2)
            y, t = jitgrad.func.jvp(f, (x,), (x,))
            found.append([y.tolist(), t.tolist(), random.default_generator.position])
        assert found[0] == found[1]


@pytest.mark.parametrize("mode", MODES)
def test_other_threads_draw_while_an_ignored_function_runs(mode):
    def draws(out):
        a = jitgrad.rand(64)
        anothers_turn(out)
        return a, jitgrad.rand(64)

    with config.override(**MODES[mode], cache=""):
        out: list[bytes] = []
        jitgrad.manual_seed(4)
        a, b = jitgrad.script(draws)(out)
        jitgrad.manual_seed(4)
        assert [a.numpy().tobytes(), *out, b.numpy().tobytes()] == [jitgrad.rand(64).numpy().tobytes()
                                                                    for _ in range(3)]


@pytest.mark.parametrize("mode", MODES)
def test_a_script_goes_on_with_the_seed_of_an_ignored_function(mode):
    def draws(n: int):
        x = jitgrad.rand(3)
        for _ in range(n):
            seeds_anew()
            x = x + jitgrad.rand(3)
        return x, jitgrad.rand(2)

    with config.override(**MODES[mode], cache=""):
        found = []
        for f in (draws, jitgrad.script(draws)):
            jitgrad.manual_seed(2 ** 63 + 1)
            found.append([[x.tolist() for x in f(n)] + [random.default_generator.position] for n in (0, 2)])
        assert found[0] == found[1]


def draw_in_child() -> None:
    assert jitgrad.rand(2).shape == (2,)
    assert jitgrad.script(twice)(4)[0].shape == (4,)
    assert _own.advance(1)[0] == 5


_own = Generator(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")
@pytest.mark.filterwarnings("ignore:This process")  # Python's own, of threads and forks
@pytest.mark.parametrize("generator", [random.default_generator, _own], ids=["default", "own"])
def test_a_child_draws_while_a_thread_of_its_parent_does(generator):
    jitgrad.script(twice)(4)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with generator:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=draw_in_child)
    try:
        child.start()
        child.join(60)
        assert child.exitcode == 0
    finally:
        done.set()
        thread.join()
        if child.is_alive():
            child.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")
def test_a_child_keeps_what_its_own_thread_holds():
    with _own:
        child = multiprocessing.get_context("fork").Process(target=release_in_child)
        child.start()
        child.join(60)
    assert child.exitcode == 0


def release_in_child() -> None:
    _own._lock.release()  # held since the fork
    with pytest.raises(RuntimeError):
        _own._lock.release()


# --- generators of one's own ---------------------------------------------------------------------------------------


def test_many_draws_with_replacement_take_no_pairs() -> None:
    weights, n = jitgrad.arange(1000.0), 1 << 16
    tracemalloc.start()
    drawn = jitgrad.multinomial(weights, n, replacement=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * drawn.nbytes
    assert (jitgrad.bincount(drawn, minlength=1000)[:3] < 5).all()
    assert abs(drawn.double().mean().item() - 666) < 5


DRAWS = {
    "rand": lambda g: jitgrad.rand(3, generator=g), "randn": lambda g: jitgrad.randn(size=(3,), generator=g),
    "randint": lambda g: jitgrad.randint(0, 9, (3,), generator=g),
    "randperm": lambda g: jitgrad.randperm(5, generator=g),
    "normal": lambda g: jitgrad.normal(0.0, 1.0, (3,), generator=g),
    "rand_like": lambda g: jitgrad.rand_like(jitgrad.ones(3), generator=g),
    "bernoulli": lambda g: jitgrad.bernoulli(jitgrad.full((9,), 0.5), generator=g),
    "multinomial": lambda g: jitgrad.multinomial(jitgrad.ones(9), 4, generator=g),
    "uniform_": lambda g: jitgrad.zeros(3).uniform_(1, 2, generator=g),
    "normal_": lambda g: jitgrad.zeros(3).normal_(1, 2, generator=g),
    "random_": lambda g: jitgrad.zeros(3).random_(9, generator=g),
    "exponential_": lambda g: jitgrad.zeros(3).exponential_(generator=g),
    "init": lambda g: jitgrad.nn.init.kaiming_uniform_(jitgrad.zeros(3, 2), generator=g),
    "orthogonal": lambda g: jitgrad.nn.init.orthogonal_(jitgrad.zeros(2, 2), generator=g)}


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_ones_own(name: str) -> None:
    """It draws what the default one draws for the seed, which is not touched."""
    own = Generator(device="cpu").manual_seed(7)
    before = random.default_generator.position
    first, second = DRAWS[name](own), DRAWS[name](own)
    assert random.default_generator.position == before
    assert first.tolist() != second.tolist()
    assert DRAWS[name](own.manual_seed(7)).tolist() == first.tolist()
    try:
        jitgrad.manual_seed(7)
        assert DRAWS[name](None).tolist() == first.tolist()
    finally:
        random.default_generator.position = before
    with pytest.raises(TypeError, match=r"argument 'generator' must be torch\.Generator, not int"):
        DRAWS[name](3)


def default_named(x):
    return x + jitgrad.rand(2, generator=random.default_generator)


def own_named(x):
    return x + jitgrad.rand(2, generator=_own)


def test_a_script_draws_from_the_default_generator() -> None:
    jitgrad.manual_seed(3)
    expected = jitgrad.rand(2).tolist()
    jitgrad.manual_seed(3)
    assert jitgrad.script(default_named)(jitgrad.zeros(2)).tolist() == expected
    _own.manual_seed(3)
    assert jitgrad.script(own_named)(jitgrad.zeros(2)).tolist() == expected


def test_fork_rng() -> None:
    jitgrad.manual_seed(4)
    assert jitgrad.random.initial_seed() == 4
    expected = jitgrad.rand(3).tolist()
    jitgrad.random.manual_seed(4)
    with jitgrad.random.fork_rng():
        jitgrad.rand(5)
        jitgrad.manual_seed(9)
    assert jitgrad.rand(3).tolist() == expected
    with jitgrad.random.fork_rng(enabled=False):
        jitgrad.manual_seed(9)
    assert jitgrad.initial_seed() == 9

"""Sizes: what is known of them, and that they stay small."""

from __future__ import annotations

import jitgrad
from jitgrad.dims import Symbol, call, dim, is_not_one


def test_a_multiple_is_not_one() -> None:
    n, m = Symbol("n"), Symbol("m")
    assert is_not_one(dim(n) * 2 - dim(m) * 2)
    assert not is_not_one(dim(n) * 2 - dim(m))


def test_sizes_that_nest_deeply_compile_in_time() -> None:
    """chunk, compute, cat, layer after layer: sizes nest as deep as there are layers; their spelling is kept."""
    def coupling(x, u, w):
        for _ in (1, 2, 3, 4):
            a, b = x.chunk(2, dim=1)
            s, t = (a @ u @ w).chunk(2, dim=1)
            x = jitgrad.cat([a, b * s.exp() + t], dim=1)
        return x

    scripted = jitgrad.script(coupling)
    for n, d in ((5, 4), (3, 6)):
        args = jitgrad.randn(n, d), jitgrad.randn(d // 2, 7) * 0.3, jitgrad.randn(7, d) * 0.3
        assert jitgrad.allclose(scripted(*args), coupling(*args), rtol=1e-4, atol=1e-5)
    assert scripted.cache_info().compilations == 1


def test_minima_of_minima() -> None:
    n, m = dim(Symbol("n")), dim(Symbol("m"))
    assert call("min", call("min", n, 2), 2) == call("min", n, 2) == call("min", 3, call("min", 2, n))
    assert call("min", call("min", n, m), n) == call("min", n, m)
    assert call("max", call("max", n, 0), call("max", 1, n)) == call("max", n, 1)
    assert call("min", call("min", n, 2), m) != call("min", n, 2)
    assert call("max", call("min", n, 2), 2) != call("min", n, 2)

"""Strings that only the run knows: gradients through what is asked of them, memory, graphs, programs from disks and
files."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.codegen.program.memory import Grown, extended, handle, read_text
from jitgrad.ops.texts import METHODS, TEXTS
from jitgrad.script.graph.checker import InvalidGraph
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.text import equal, to_text
from jitgrad.script.graph.verify import verify
from tests.script.frontend.agree import t


def weighted(x, n):
    s = ""
    for i in range(n):
        s += f"{i}"
        if s.endswith("2") or s == "0":
            x = x.sin() * float(f"1.{i}")
        else:
            x = x * x * (0.1 * len(s))
    return (x * x).sum(), s


def lines(x, n):
    words = [f"w{i}" for i in range(n)]
    text = ", ".join(words)
    counts: dict[str, int] = {}
    for c in text:
        counts[c] = counts.get(c, 0) + 1
    try:
        first = text.index("w1")
    except ValueError:
        first = -1
    return text.upper().split(", "), counts, first, x * len(text)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_second_order(n: int, interpret: bool) -> None:
    def derivatives(f: Any) -> list[np.ndarray]:
        x = t(3).requires_grad_()
        y, _ = f(x, n)
        g, = torch.autograd.grad(y, x, create_graph=True)
        h, = torch.autograd.grad((g * g).sum(), x, allow_unused=True)
        return [g.detach().numpy(), *([] if h is None else [h.detach().numpy()])]

    with config.override(interpret=interpret):
        for mine, theirs in zip(derivatives(torch.script(weighted)), derivatives(weighted), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_second_call_compiles_nothing() -> None:
    scripted = torch.script(lines)
    for n in (5, 0, 1, 12):
        found, expected = scripted(t(2), n), lines(t(2), n)
        assert found[:3] == expected[:3]
    assert scripted.cache_info().compilations == 1


def test_static_strings_cost_nothing() -> None:
    def known(x, n, name="ab"):
        label = name.upper() + "c".ljust(3)
        print(f"{label}: {n}")
        return x * len(label) if label.startswith("A") else x

    scripted = torch.script(known)
    scripted(t(2), 3)
    assert "text(" not in to_text(scripted.graph)


def test_strings_live_as_long_as_the_call() -> None:
    @torch.script
    def long(x, n):
        s = f"{n}" * n
        return x * (1 if s + "a" == s + "b" else 2)

    long(t(2), 1000)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(5):
            long(t(2), 100_000)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_a_growing_string_is_kept_once() -> None:
    s: Any = "x" * 2000
    kept = []
    for i in range(1000):
        s = extended(s, f"{i},")
        kept.append(s)
    assert str(s) == "x" * 2000 + "".join(f"{i}," for i in range(1000))
    assert len({id(k.buffer) for k in kept}) == 1
    other = extended(kept[1], "!")  # what goes on from an older one does not change the others
    assert (str(other), str(kept[2])) == ("x" * 2000 + "0,1,!", "x" * 2000 + "0,1,2,")
    assert isinstance(other, Grown)
    assert read_text(handle(other)) == str(other)


def test_handles() -> None:
    word = "word"
    assert handle("") == 0
    assert read_text(0) == ""
    assert read_text(handle(word)) is word


def test_methods_are_those_of_str() -> None:
    assert all(hasattr(str, name) for name in METHODS)
    assert set(TEXTS) >= METHODS


def test_text_form() -> None:
    graph = torch.script(lines).graph_for(t(2), 3)
    objects: dict[str, Any] = {}
    again = parse(to_text(graph, objects=objects), objects)
    verify(again)
    assert equal(graph, again)


@pytest.mark.parametrize(("node", "complaint"), [
    ("text(%n){fn='shout', args=(('value', 0),)}", "no function of strings"),
    ("text(%n){fn='upper', args=(('value', 1),)}", "of 1 values"),
    ("text(%n){fn='upper', args=(('text', (3, '', '')),)}", "names value 3 of 1"),
    ("text(%n){fn='upper', args=(('text', 'a'),), error='KeyError'}", "raises no KeyError"),
])
def test_verify(node: str, complaint: str) -> None:
    with pytest.raises(InvalidGraph, match=complaint):
        verify(parse(f"graph f(%n: int) -> str:\n  %0: str = {node}\n  return %0\n"))


def test_code() -> None:
    def f(x, n):
        s = f"a{n}"
        return s.upper(), len(s), "1" in s, s == "a1", s * n, s[n], int(f"{n}")

    scripted = torch.script(f)
    scripted(t(2), 1)
    scope: dict[str, Any] = {}
    exec(compile(scripted.code, "<code>", "exec"), scope)
    for n in (0, 1):
        assert tuple(scope["f"](t(2), n)) == f(None, n)


def test_disk_cache(tmp_path: Any) -> None:
    with config.override(cache=str(tmp_path)):
        first, second = torch.script(weighted), torch.script(weighted)
        for scripted in (first, second):
            x = t(3).requires_grad_()
            y, s = scripted(x, 4)
            y.backward()
            assert s == "0123"
        assert second.cache_info().disk_hits == 1


def test_saved(tmp_path: Any) -> None:
    def f(x, n):
        s = ""
        for i in range(n):
            s += f"{i};"
        return x * len(s), s, s.split(";")

    path = tmp_path / "f.jit"
    torch.jit.save(torch.script(f), path, example_inputs=(t(2), 3))
    loaded = torch.jit.load(path)
    for n in (0, 1, 5):
        assert loaded(t(2), n)[1:] == f(t(2), n)[1:]

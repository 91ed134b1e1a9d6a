"""Programs on disk: hits, misses, and what a hit does not import."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.codegen.run import compiled
from jitgrad.kernels import blas
from jitgrad.script.stored import diskcache


def layer(x, w):
    return ((x @ w).tanh() ** 2).sum()


def gradient(scripted):
    x = jitgrad.from_numpy(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    w = jitgrad.from_numpy(np.linspace(-2, 1, 6, dtype=np.float32).reshape(3, 2)).requires_grad_()
    value = scripted(x, w)
    value.backward()
    return value.detach().numpy(), w.grad.numpy()


@pytest.fixture
def folder(tmp_path):
    with config.override(cache=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def test_a_second_function_is_loaded(folder):
    first, second = jitgrad.script(layer), jitgrad.script(layer)
    expected, found = gradient(first), gradient(second)
    assert (first.cache_info().disk_hits, second.cache_info().disk_hits) == (0, 1)
    for a, b, eager in zip(expected, found, gradient(layer), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, eager, rtol=1e-5)


def test_what_the_library_composes_is_found_by_its_name(folder):
    def loss(x, classes):
        return nn.functional.cross_entropy(nn.functional.layer_norm(x, (3,)), classes)

    x, classes = jitgrad.eye(3), jitgrad.arange(3)
    for hits in range(2):
        scripted = jitgrad.script(loss)
        assert scripted(x, classes).item() == pytest.approx(loss(x, classes).item())
        assert scripted.cache_info().disk_hits == hits


def test_a_program_for_two_tensors_is_not_one_for_one_twice(folder):
    def both(x, y):
        return jitgrad.autograd.grad((x * 2 + y * 3).sum(), [x])[0]

    for twice in (False, True):
        scripted = jitgrad.script(both)
        x = jitgrad.ones(3).requires_grad_()
        assert scripted(x, x if twice else jitgrad.ones(3).requires_grad_()).tolist() == [5.0 if twice else 2.0] * 3
        assert scripted.cache_info().disk_hits == 0
    assert list(folder.iterdir())


def test_a_program_for_another_blas_is_a_miss(folder, monkeypatch, capsys):
    expected = gradient(jitgrad.script(layer))

    def other(d):
        found = blas.gemm_symbol(d)
        return dataclasses.replace(found, int_bits=96 - found.int_bits)

    monkeypatch.setattr(compiled, "gemm_symbol", other)
    again = jitgrad.script(layer)
    with config.override(debug=1):
        found = gradient(again)
    assert again.cache_info().disk_hits == 0
    assert "layer is compiled again: the program was compiled for a BLAS with other int" in capsys.readouterr().err
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("knobs", [{"verify": 1}, {"debug": 3}, {"dump": "there"}, {"interpret": True}])
def test_who_wants_to_see_the_compilation_gets_one(folder, knobs, tmp_path):
    gradient(jitgrad.script(layer))
    if "dump" in knobs:
        knobs = {"dump": str(tmp_path / "there")}
    again = jitgrad.script(layer)
    with config.override(**knobs):
        gradient(again)
    assert again.cache_info().disk_hits == 0


class Factors(nn.Module):
    """As many factors as it was asked for, under names."""

    def __init__(self, n):
        super().__init__()
        self.names = [f"w{i}" for i in range(n)]
        for name in self.names:
            setattr(self, name, nn.Parameter(jitgrad.full((2,), 3.0)))

    def forward(self, x):
        for name in self.names:
            x = x * getattr(self, name)
        return x


def test_a_program_for_an_object_with_more_attributes_is_a_miss(folder):
    for n in (2, 1, 0):
        scripted = jitgrad.script(Factors(n))
        assert scripted(jitgrad.ones(2)).tolist() == [3.0 ** n] * 2
        assert scripted.cache_info().disk_hits == 0


PROGRAM = """
import sys
import jitgrad
from tests.script.stored.test_diskcache import gradient, layer
scripted = jitgrad.script(layer)
gradient(scripted)
print(scripted.cache_info().disk_hits, *sorted(sys.modules))
"""


def test_a_hit_imports_no_compiler(folder):
    for _ in range(2):  # two processes, since this one has the state that other tests have left
        ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
                             env={**os.environ, "JITGRAD_CACHE": str(folder)})
    hits, *modules = ran.stdout.split()
    assert hits == "1", ran.stderr
    compilers = ("jitgrad.script.frontend.build", "jitgrad.script.passes", "jitgrad.script.autodiff",
                 "jitgrad.script.graph.interpret", "jitgrad.script.graph.text", "jitgrad.codegen.l",
                 "jitgrad.codegen.program.program", "jitgrad.codegen.run.compile")
    loaders = ("jitgrad.codegen.llvm", "jitgrad.codegen.llvm.engine", "jitgrad.codegen.run.compiled")
    seldom = ("jitgrad.optim", "jitgrad.script.call.callback", "jitgrad.script.call.mismatch",
              "jitgrad.script.call.pushforward", "jitgrad.script.frontend.source.liveness")
    assert [m for m in modules if m.startswith((*compilers, *seldom)) and m not in loaders] == []


def scaling(factor):
    """A class that a function makes."""

    class Scale(nn.Module):
        def forward(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return x * factor

    return Scale


def pair(first, second):
    def program(x):
        return (first(x) + second(x)).sum()

    return jitgrad.script(program)


def test_classes_made_by_functions(folder):
    """Their methods are found through the instances; two classes of one name are not taken for one."""
    x = jitgrad.ones(3)
    one, same = scaling(2), scaling(2)
    for first, second, total, hit in ((one, one, 12, 0), (same, same, 12, 1), (same, one, 12, 0),
                                      (scaling(2), scaling(3), 15, 0), (scaling(2), scaling(3), 15, 1),
                                      (scaling(3), scaling(2), 15, 0), (scaling(4), scaling(4), 24, 0)):
        f = pair(first(), second())
        assert (f(x).item(), f.cache_info().disk_hits) == (total, hit)


def test_a_whole_step_is_stored(folder):
    def build():
        jitgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), scaling(2)())
        optimizer = jitgrad.optim.AdamW(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return jitgrad.script(step), model

    x = jitgrad.ones(2, 3)
    runs = []
    for hits in (0, 1):
        step, model = build()
        runs.append([step(x).item() for _ in range(3)] + [p.sum().item() for p in model.parameters()])
        assert step.cache_info().disk_hits == hits * step.cache_info().compilations
    assert runs[0] == runs[1]


def told(x, n: int):
    return f"{n:>3} of {x.sum().item():.1f}, {n > 2}!"


def collected(a, b, n: int):
    xs = [a[0]]
    for i in range(n):
        xs.append(b if i == 1 else a[i] * 2)
    return xs


def test_strings_and_items_that_are_arguments(folder):
    a, b = jitgrad.ones(4, 3), jitgrad.zeros(3)
    for f in (told, collected):
        first, second = jitgrad.script(f), jitgrad.script(f)
        args = (a, 3) if f is told else (a, b, 3)
        first(*args)
        found = second(*args)
        assert second.cache_info().disk_hits == 1
        if f is told:
            assert found == told(a, 3)
        else:
            assert found[2] is b
            assert np.shares_memory(found[0].numpy(), a.numpy())


def test_calls_with_one_key_have_entries_of_their_own(folder):
    """A whole step finds no gradient in the first call and one in the second: another process finds both on disk."""
    def build():
        jitgrad.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1)

        def step(x, n: int):
            for _ in range(n):
                optimizer.zero_grad()
                loss = model(x).pow(2).sum()
                loss.backward()
                optimizer.step()
            return loss

        return jitgrad.script(step)

    x = jitgrad.ones(4, 3)
    for hits in (0, 2, 2):
        step = build()
        step(x, 2)
        step(x, 2)
        info = step.cache_info()
        assert (info.compilations, info.disk_hits) == (2, hits)


def test_one_entry_more_than_variants_replaces_the_one_longest_unused(folder):
    x = jitgrad.ones(3)

    def hits(k):
        f = pair(scaling(k)(), scaling(k)())
        f(x)
        return f.cache_info().disk_hits

    assert [hits(k) for k in range(diskcache.VARIANTS)] == [0] * diskcache.VARIANTS
    assert hits(0) == 1
    for age, entry in enumerate(sorted(folder.iterdir(), key=lambda e: -e.stat().st_mtime_ns)):
        os.utime(entry, (1e9 - age, 1e9 - age))  # the same order, whatever the clock's resolution
    entries = len(list(folder.iterdir()))
    assert hits(diskcache.VARIANTS) == 0
    assert len(list(folder.iterdir())) == entries
    assert [hits(k) for k in (0, 2, 3, diskcache.VARIANTS)] == [1, 1, 1, 1]
    assert hits(1) == 0

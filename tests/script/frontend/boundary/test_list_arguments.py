"""Lists and tuples as arguments, of another length with every call: one program for each length but the first."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.script.call.list_kinds import Tensors, fit, from_plain, joined, kind_of, paths, to_plain
from tests.script.frontend.agree import agree, registry, suite, t

PROGRAMS, program = registry()


def rows(n: int, *shape: int, seed: int = 0):
    return [t(*shape, seed=seed + k) for k in range(n)]


CALLS = tuple((rows(n, 3), t(3, seed=9)) for n in (3, 5, 2, 7, 1, 4))
TUPLES = tuple((tuple(rows(n, 2, 3)), t(3, 3, seed=9)) for n in (2, 4, 3, 6))


@program(*CALLS, compilations=2)
def total(xs, w):
    out = 0.0
    for x in xs:
        out = out + (x * w).sum()
    return out, len(xs)


@program(*TUPLES, compilations=2)
def rnn(xs, w):
    h = torch.zeros(2, 3)
    states = []
    for x in xs:
        h = torch.tanh(x + h @ w)
        states.append(h)
    return torch.stack(states), h


@program(*TUPLES, compilations=2)
def first_and_rest(xs, w):
    h = xs[0]
    for x in xs[1:]:
        h = torch.tanh(h @ w + x)
    return h.sum(), xs[-1].sum()


@program(*CALLS, compilations=2)
def joins(xs, w):
    return torch.stack(xs), torch.cat(xs), torch.stack(xs, dim=1) * w[:, None], sum(x.sum() for x in xs)


@program(*[([t(k + 2, 3, seed=k) for k in range(n)], t(3)) for n in (2, 4, 3)], compilations=2)
def ragged(xs, w):
    best = 0
    for i, x in enumerate(xs):
        if x.shape[0] > 3:
            best = best + i
    return torch.cat(xs) @ w, [x.sum(0) for x in xs], best


@program(([1, 2, 3], t(3)), ([4, 5], t(3)), ([], t(3)), ([6], t(3)), ([1] * 9, t(3)), compilations=2)
def numbers(ns, x):
    out = 0
    for n in ns:
        out += n
    return out, max(ns, default=0), [n * 2 for n in ns], x * out, 2 in ns


@program(*[([(k, t(3, seed=k)) for k in range(n)], t(3)) for n in (2, 3, 5)], compilations=2)
def pairs(ps, w):
    out = torch.zeros(3)
    for k, x in ps:
        out = out + x * w * k
    return out, sum(k for k, _ in ps)


@program(*CALLS, compilations=2)
def pairwise(xs, w):
    d = torch.zeros(())
    for a, b in zip(xs, xs[1:], strict=False):  # noqa: RUF007
        d = d + ((a - b) * w).pow(2).sum()
    for i in range(len(xs)):
        for j in range(i):
            d = d + (xs[i] * xs[j]).sum()
    return d, [x * k for k, x in enumerate(reversed(xs))]


@program(*[({"xs": rows(n, 3), "k": 2}, n) for n in (2, 4, 3)], compilations=2)
def in_a_dict(batch, n: int):
    out = torch.zeros(3)
    for x in batch["xs"]:
        if n > 2:
            out = out + x * batch["k"]
    return out


@program(*CALLS, compilations=2)
def choice(xs, w):
    scores = [(x * w).sum().item() for x in xs]
    best = max(range(len(xs)), key=lambda k: scores[k])
    chosen = xs[best] if best > 0 else xs[-1]
    return chosen * 2, best


@program(*CALLS[:3], compilations=2)
def two_lists_of_one(xs, w):
    total = torch.zeros(3)
    for a in xs:
        for b in xs:
            total = total + a * b.sum()
    return total * w


@program(*CALLS[:4], compilations=None)
def an_item_returned(xs, w):
    return xs[-1], w * 2


@program(*CALLS[:4], compilations=None)
def list_grown(xs, w):
    xs.append(w * 2)
    return len(xs), xs[0] * w


@program((rows(2, 3),), (rows(3, 3),), (rows(1, 3),), compilations=None)
def unpacked(xs):
    a, b = xs
    return a * b


@program(*[(rows(n, 3),) for n in (2, 3)], compilations=None, grad=False)
def written(xs):
    for x in xs:
        x.mul_(2)
    return xs[0].sum()


@program(*TUPLES[:3], compilations=None)
def returned(xs, w):
    return xs, xs[1:], isinstance(xs, tuple), type(xs) is tuple, w


test_programs = suite(PROGRAMS)


@pytest.mark.parametrize("interpreted", [False, True])
def test_ragged_after_equal_lengths(interpreted):
    def f(xs):
        out = 0.0
        for x in xs:
            out = out + (x * x).sum()
        return out

    lists = [rows(n, 3) for n in (2, 3)] + [[t(2), t(5)], [t(1), t(4)], [t(1), t(1)], rows(4, 7)]
    with config.override(interpret=interpreted):
        agree(f, *[(xs,) for xs in lists], compilations=4)


def test_second_order():
    def f(xs, w):
        h = xs[0]
        for x in xs[1:]:
            h = torch.tanh(h * w + x)
        return h.pow(3).sum()

    scripted = torch.script(f)
    for n in (2, 4, 3):
        found = []
        for g in (f, scripted):
            xs, w = [x.requires_grad_() for x in rows(n, 3)], t(3, seed=5).requires_grad_()
            first = torch.autograd.grad(g(xs, w), [*xs, w], create_graph=True)
            sum((a * a).sum() for a in first).backward()
            found.append([x.grad.numpy() for x in (*xs, w)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert scripted.cache_info().compilations == 2


def test_what_is_not_reached_has_no_gradient():
    @torch.script
    def f(xs, n: int):
        out = torch.zeros(3)
        for k in range(n):
            out = out + xs[k] * 2
        return out

    for count, n in ((3, 2), (4, 2), (5, 4)):
        xs = [x.requires_grad_() for x in rows(count, 3)]
        f(xs, n).sum().backward()
        assert [x.grad is None for x in xs] == [k >= n for k in range(count)]


def test_an_item_written_between_the_call_and_backward():
    """The gradient is that of the values that the call has seen, or an error: never one of the new values."""
    @torch.script
    def by_loop(xs, w):
        out = torch.zeros(3)
        for x in xs:
            out = out + x * w
        return out

    @torch.script
    def by_index(xs, w):
        return xs[0] * w + xs[1] * w

    for f in (by_loop, by_index):
        f(rows(2, 3), t(3).requires_grad_())
        xs, w = rows(3, 3), t(3).requires_grad_()
        wanted = sum(xs) if f is by_loop else xs[0] + xs[1]
        out = f(xs, w)
        xs[1].mul_(3)
        try:
            out.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017
        else:
            np.testing.assert_allclose(w.grad.numpy(), wanted.numpy(), rtol=1e-6)


def test_an_item_that_shares_memory_with_what_is_written():
    def f(xs, y):
        out = torch.zeros(3)
        for x in xs:
            y.add_(1)
            out = out + x
        return out

    scripted = torch.script(f)
    for xs in (rows(2, 3), rows(3, 3), rows(4, 3)):
        np.testing.assert_allclose(scripted(xs, torch.zeros(3)).numpy(), f(xs, torch.zeros(3)).numpy(), rtol=1e-6)
    assert scripted.cache_info().compilations == 2
    a, b = torch.zeros(5, 3), torch.zeros(5, 3)
    found = []
    for g, base in ((f, a), (scripted, b)):
        try:
            found.append(g(list(base.unbind(0)), base[2]).tolist())
        except torch.errors.ScriptError:
            found.append(None)
    assert found[1] in (None, found[0])


def test_an_attribute_of_a_global():
    holder = type("Holder", (), {})()

    @torch.script
    def f(x):
        out = x
        for w in holder.ws:
            out = out * w
        return out

    for n in (2, 3, 5, 4):
        holder.ws = rows(n, 3)
        np.testing.assert_allclose(f(t(3)).numpy(), f.eager(t(3)).numpy(), rtol=1e-6)
    assert f.cache_info().compilations == 2
    assert f.recompilations == ["`holder.ws` had length 2, has 3"]


def test_backward_inside_is_compiled_per_length():
    def f(ws, x):
        loss = torch.zeros(())
        for w in ws:
            loss = loss + (w * x).pow(2).sum()
        loss.backward()
        return loss.detach()

    scripted = torch.script(f)
    for n in (2, 3):
        mine, theirs = ([w.requires_grad_() for w in rows(n, 3)] for _ in range(2))
        f(mine, t(3)), scripted(theirs, t(3))
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


def test_kinds():
    assert kind_of([1, 2]) is int
    assert [kind_of([1, 2.0]), kind_of([]), kind_of(["a"])] == [None, None, None]
    kind = kind_of([(1, t(2, 3)), (2, t(2, 1))])
    assert kind == (int, Tensors(torch.float32, (False, None), (True, False), False, True))
    assert from_plain(to_plain(kind)) == kind
    assert [path for path, _ in paths(kind)] == [(0,), (1,)]
    assert [fit([(3, t(2, 5))], kind), fit([(3, t(4)), (3, t(2, 5))], kind), fit([], kind)] == [True, False, False]
    assert joined(kind, kind_of([(1, t(3, 3))])) == kind
    assert joined(int, float) is None
    assert fit([], int)


def test_what_is_said_about_it(tmp_path):
    @torch.script
    def f(xs, w):
        h = torch.zeros(3)
        for x in xs:
            h = torch.tanh(h * w + x)
        return h

    for n in (2, 3):
        f(rows(n, 3), t(3))
    report = f.explain(rows(4, 3), t(3))
    assert "`xs` has items of one kind: float32[n]" in report.guards
    assert report.others == ["`xs` had length 2, has 4"]
    with pytest.raises(TypeError, match="`xs` is taken with any length"):
        f.save(tmp_path / "f.zip")


def test_the_model_of_a_list_has_its_length(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")

    @torch.script
    def f(xs):
        out = torch.zeros(3)
        for x in xs:
            out = out + x * x
        return out

    for n in (2, 3, 4):
        f(rows(n, 3))
    f.export_onnx(tmp_path / "f.onnx", rows(2, 3))
    session = runtime.InferenceSession(tmp_path / "f.onnx")
    (found,) = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), rows(2, 3), strict=True)})
    np.testing.assert_allclose(found, f(rows(2, 3)).numpy(), rtol=1e-6)


def test_another_process(tmp_path):
    """The disk cache keeps the program for any length, found by the second length that a process sees."""
    text = "def f(xs):\n    out = 0.0\n    for x in xs:\n        out = out + x.sum()\n    return out\n"
    (tmp_path / "anylength.py").write_text(text)
    script = ("import sys, jitgrad\nsys.path.insert(0, sys.argv[1])\nimport anylength\n"
              "f = jitgrad.script(anylength.f)\n"
              "for n in (2, 3, 5): f([jitgrad.ones(4)] * n)\nprint(f.cache_info()[2:4])\n")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    found = [subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True,
                            text=True, check=True).stdout.strip() for _ in range(2)]
    assert found == ["(2, 0)", "(2, 2)"]

"""The text of whole programs: the same in every process, and how it grows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jitgrad
from benchmarks.models import gpt
from jitgrad.codegen.llvm import engine

ROOT = Path(__file__).parents[3]


class _Enough(Exception):
    """The text is known; nothing needs to be compiled."""


def texts(monkeypatch, f, *args):
    """The two halves of the module that a call of a scripted function prints."""
    found = []

    def stop(good, quick=""):
        found.append((good, quick))
        raise _Enough

    with monkeypatch.context() as patch:
        patch.setattr(engine, "compile_module", stop)
        with pytest.raises(_Enough):
            jitgrad.script(f)(*args)
    return found[0]


def grows(x, w, limit):
    hs = []
    h = x
    while h.sum() < limit:
        h = h * w + 1 if h.mean() > 0.3 else h.tanh() + w * w
        hs.append(h)
    total = x.new_zeros(())
    for a in hs:
        total = total + (a * w).sum()
    return total, len(hs)


def picks(x, w):
    chosen = x[x > 0]
    best, where = (chosen * w[0]).sort(descending=True)
    rows = []
    for i in range(x.shape[0]):
        row = x[i]
        if row.sum() > 0:
            row = row[row > 0]
        rows.append((row * w[i]).sum())
    return best.sum() + jitgrad.stack(rows).prod(), where


def scans(xs, h, w):
    seen = []
    for t in range(xs.shape[0]):
        if xs[t].sum() < 0:
            continue
        h = (xs[t] @ w + h).tanh()
        seen.append(h)
        if len(seen) > 3:
            break
    return jitgrad.cat(seen).sum() if seen else h.sum()


def programs():
    w = jitgrad.ones(4, requires_grad=True)
    yield grows, (jitgrad.ones(3, 4), w, 30.0)
    yield picks, (jitgrad.randn(4, 5), w)
    yield scans, (jitgrad.randn(6, 2, 4), jitgrad.zeros(2, 4), jitgrad.ones(4, 4, requires_grad=True))
    yield gpt(2)(jitgrad)


def fingerprints():
    """What a process prints of every program."""
    import hashlib

    with pytest.MonkeyPatch.context() as patch:
        for f, args in programs():
            good, quick = texts(patch, f, *args)
            print(f.__name__, len(good) + len(quick), hashlib.sha256((good + quick).encode()).hexdigest())


def test_the_text_is_the_same_in_every_process():
    command = [sys.executable, "-c", "from tests.codegen.llvm.test_module import fingerprints; fingerprints()"]
    runs = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {
        "PYTHONHASHSEED": seed, "JITGRAD_CACHE": "off", "PYTHONPATH": str(ROOT)}) for seed in ("1", "2", "3")]
    first, *others = [run.communicate()[0] for run in runs]
    assert len(first.splitlines()) == 4
    assert all(other == first for other in others)


def test_equal_layers_share_kernels_and_add_the_same_glue(monkeypatch):
    found = {n: texts(monkeypatch, *_program(n)) for n in (4, 5, 6)}
    kernels = {n: good.count("\ndefine void @k") for n, (good, _) in found.items()}
    assert kernels[4] == kernels[5] == kernels[6] < 50
    lines = {n: quick.count("\n") for n, (_, quick) in found.items()}
    assert abs((lines[6] - lines[5]) - (lines[5] - lines[4])) < 100  # what crosses from part to part differs
    assert lines[6] - lines[5] < 1200


def _program(layers):
    step, arguments = gpt(layers)(jitgrad)
    return step, *arguments

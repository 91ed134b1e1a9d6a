"""The precision of float32 products, by torch's names."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.codegen.cuda.driver import precision


@pytest.fixture(autouse=True)
def as_before():
    yield
    jitgrad.set_float32_matmul_precision("highest")


def test_both_names_are_one_switch():
    matmul = jitgrad.backends.cuda.matmul
    assert matmul.allow_tf32 is False
    assert jitgrad.get_float32_matmul_precision() == "highest"
    changes = precision.changes
    matmul.allow_tf32 = True
    assert (precision.allow_tf32, jitgrad.get_float32_matmul_precision()) == (True, "high")
    jitgrad.set_float32_matmul_precision("medium")
    assert (matmul.allow_tf32, jitgrad.get_float32_matmul_precision()) == (True, "medium")
    assert precision.changes == changes + 1
    jitgrad.set_float32_matmul_precision("highest")
    assert matmul.allow_tf32 is False
    assert precision.changes == changes + 2


def test_other_words_are_refused():
    with pytest.raises(RuntimeError, match="one of highest, high, medium, not 'low'"):
        jitgrad.set_float32_matmul_precision("low")
    with pytest.raises(AttributeError, match="Unknown attribute allow_fp16"):
        jitgrad.backends.cuda.matmul.allow_fp16 = True


def test_the_names_are_torchs():
    torch = pytest.importorskip("torch")
    assert torch.backends.cuda.matmul.allow_tf32 == jitgrad.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == jitgrad.get_float32_matmul_precision()

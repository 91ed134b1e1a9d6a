"""What the code generator tells on request: runs, LLVM IR, machine code, files."""

import re

import numpy as np
import pytest

from jitgrad import config
from jitgrad.codegen.run import compile, threads
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.text import equal
from jitgrad.script.passes import pipeline
from tests.codegen.programs import graph, sizes, tensor


def small():
    (n,) = sizes("n")
    return pipeline.run(graph(lambda F, x: F.add(x, x), tensor(n)))


def test_runs_are_told(capsys):
    with config.override(debug=2):
        program = compile.compile({"double": small()})["double"]
        out, = program([np.ones(3, np.float32)])
    np.testing.assert_array_equal(out, 2)
    said = capsys.readouterr().err
    assert re.fullmatch(r"jitgrad: ran double: [0-9.]+ us, 12 bytes in, 12 bytes out\n", said)


@pytest.mark.parametrize(("level", "ir", "machine"), [(3, False, False), (4, True, False), (6, True, True)])
def test_code_is_shown(level, ir, machine, capsys):
    with config.override(debug=level):
        compile.compile({"double": small()})
    said = capsys.readouterr().err
    assert ("define i64 @jgp_double" in said) == ir
    assert ("machine code" in said and "jgp_double:" in said) == machine


def test_files(tmp_path):
    made = small()
    with config.override(dump=str(tmp_path / "a" / "b")):
        compile.compile({"double": made})
    text, ir = sorted((tmp_path / "a" / "b").iterdir(), key=lambda p: p.suffix)
    assert re.fullmatch(r"\d+-\d+-double\.graph", text.name)
    assert re.fullmatch(r"\d+-\d+\.ll", ir.name)
    assert equal(parse(text.read_text()), made)
    assert "define i64 @jgp_double" in ir.read_text()


def test_threads_of_products(monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "manage_blas", lambda functions: asked.append(1))
    (n,) = sizes("n")
    product = pipeline.run(graph(lambda F, x: F.matmul(x, x), tensor(n, n)))
    compile.compile({"double": small()})
    assert asked == []
    assert compile.compile({"product": product})["product"]
    assert asked == [1]

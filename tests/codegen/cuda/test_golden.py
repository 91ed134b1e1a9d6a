"""The CUDA text of one small program of each kind and form of kernel, as files of `golden/`: read the difference.

    python -m tests.codegen.cuda.test_golden      # writes them anew
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad.codegen.cuda.kernels import each, text
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.dims import Symbol, dim
from tests.codegen.cuda import machinecode

FOLDER = Path(__file__).parent / "golden"
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
ones = jitgrad.ones


def program(*args: Any) -> Callable[[Callable[..., Any]], None]:
    """Register a program under its name, with arguments."""
    def mark(function: Callable[..., Any]) -> None:
        PROGRAMS[function.__name__] = function, args

    return mark


@program(ones(4, 6), ones(6), ones(4, 1))
def pw_vector(x, b, c):
    return x * b + c


@program(ones(4, 6), ones(6, 4))
def pw_strided(x, y):
    return x.t() - y


@program(ones(4, 6), ones(4, 6))
def pw_scalar(x, y):
    y[:, 1] = x[:, 2]


@program(ones(4, 6, dtype=jitgrad.bfloat16), ones(6, dtype=jitgrad.bfloat16))
def pw_half(x, b):
    return (x + b).sigmoid()


@program(ones(4, 6))
def pw_draw(x):
    return jitgrad.nn.functional.dropout(x, 0.1)


@program(ones(4, 6), jitgrad.tensor([0, 2, 3]))
def pw_gather(table, i):
    return table[i] * 2


@program(ones(4), jitgrad.tensor([0, 2, 2]), ones(3))
def pw_scatter(x, i, y):
    return x.index_add(0, i, y)


@program(ones(4, 6))
def row_sum(x):
    return (x * x).sum(1)


@program(ones(4, 6))
def row_softmax(x):
    return x.softmax(1)


@program(ones(4, 6, dtype=jitgrad.float16))
def row_half(x):
    return x.exp().sum(1)


@program(ones(4, 6))
def row_largest(x):
    return x.argmax(1)


@program(ones(4, 6))
def all_sum(x):
    return x.abs().sum()


@program(ones(4, 6))
def all_phases(x):
    return x / (x * x).sum()


@program(ones(4, 6))
def col_sum(x):
    return x.sum(0) * 0.5


@program(ones(4, 6, requires_grad=True), ones(6, requires_grad=True))
def mix_norm(x, weight):
    return jitgrad.nn.functional.layer_norm(x, (6,), weight)


@program(ones(6), ones(6, 6))
def loop_solve(x, a):
    while (a @ x).abs().max() > 1.0:
        x = x * 0.5
    return x


def each_update() -> str:
    """p -= rate * g, for as many tensors as the table has."""
    n, f32 = dim(Symbol("n")), jitgrad.float32
    kernel = Kernel((n,), (), (Operand(f32, (1,), "inout"), Operand(f32, (1,))), (f32,),
                    (Stmt("load", operand=0), Stmt("load", operand=1), Stmt("scalar", number=0, dtype=f32),
                     Stmt("mul", (1, 2), f32), Stmt("sub", (0, 3), f32), Stmt("store", (4,), operand=0)))
    about = "// p -= rate * g, for as many tensors as the table has\n\n"
    return about + each.each_source(kernel, "update", (True,), 16)


def golden(name: str) -> str:
    """The program as a comment, and its kernels."""
    if name == "each_update":
        return each_update()
    function, args = PROGRAMS[name]
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    shown = "".join(f"// {line}\n" for line in lines if not line.startswith("@"))
    kernels = jitgrad.script(function).kernels(*args, device="cuda")
    if name in ONLY:
        kernel = next(k for k in kernels if f"jg_{ONLY[name]}_" in k)
        kernels = [re.sub(r"^(jg_\w+)_\d+", r"\1_0", kernel, flags=re.MULTILINE)]
    if name in LAST:
        kernels = [re.sub(r"^(jg_\w+)_\d+\(", r"\1_0(", kernels[-1], flags=re.MULTILINE)]
    return shown + "\n" + "\n".join(kernels)


#: programs of which the last kernel is shown: others look whether indices are in range, or copy
LAST = ("pw_gather", "pw_scatter", "pw_scalar")
#: programs of which one kernel of a kind is shown
ONLY = {"mix_norm": "mix", "loop_solve": "loop"}
NAMES = [*PROGRAMS, "each_update"]


@pytest.mark.parametrize("name", NAMES)
def test_text(name: str) -> None:
    assert golden(name) == (FOLDER / f"{name}.cu").read_text()


def test_every_kind_and_form_is_there() -> None:
    """The files are those of the programs, and what they must show is in them."""
    assert sorted(p.stem for p in FOLDER.glob("*.cu")) == sorted(NAMES)
    marks = {"pw_vector": "jg_read<4>", "pw_half": "jg_narrow", "pw_draw": "jg_philox", "pw_scatter": "jg_add(&",
             "row_sum": "_split(", "row_softmax": "_sweeps(", "all_phases": "_phase1(", "each_update": "jg_entry",
             "mix_norm": "jg_mix_", "loop_solve": "jg_meet_or_stop(arrived, stop, seen)"}
    for name, mark in marks.items():
        assert mark in (FOLDER / f"{name}.cu").read_text(), name
    softmax = (FOLDER / "row_softmax.cu").read_text()
    assert all(f"_{form}(" in softmax for form in ("group", "shared", "sweeps"))
    assert "jg_read<" not in (FOLDER / "pw_scalar.cu").read_text()


@machinecode.needs_cuda
def test_they_compile() -> None:
    renamed = [re.sub(r"^jg_", f"{name}_jg_", golden(name), flags=re.MULTILINE) for name in NAMES]
    used = machinecode.compiled("\n".join([text.prelude(), *renamed]), "sm_90")
    assert all(facts.stack <= machinecode.BARRIER for facts in used.values())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for _name in NAMES:
        (FOLDER / f"{_name}.cu").write_text(golden(_name))

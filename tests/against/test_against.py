"""A few hundred random programs give here what PyTorch gives, where that is installed; and the comparison compares."""

from __future__ import annotations

import random

import pytest

import jitgrad
from tests.against.answers import Answer, answer, compare
from tests.against.drafts import Case, Draft, Made
from tests.against.families import FAMILIES

COUNT = 60


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_agree_with_pytorch(family: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the answers are those of PyTorch 2.13")
    from tests.against.report import Report, drawn

    report = Report()
    for number, case in enumerate(drawn(family, COUNT, 1000)):
        report.add(case, number % 10 == 0)
    assert not report.different, "\n\n".join(report.different)
    assert report.total("agree") >= 0.9 * COUNT


@pytest.mark.parametrize("family", FAMILIES)
def test_drawing_is_a_function_of_the_numbers(family: str) -> None:
    texts = []
    for _ in range(2):
        drafts = [Draft(random.Random(seed), family) for seed in range(20)]
        for draft in drafts:
            FAMILIES[family](draft)
        texts.append([d.case().text for d in drafts])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 15


def _case(line: str, made: Made | None = None) -> Case:
    return Case("views", {"x": made or Made("float32", (2, 3), "usual", 1, True)}, (f"r = {line}",), ("r",))


@pytest.mark.parametrize(("line", "other", "what"), [
    ("x + 1", "x + 2", "values"), ("x * 2", "(x * 2).double()", "dtype"),
    ("x.sum(0)", "x.sum(0, keepdim=True)", "shape"),
    ("x[0]", "x[0] * 1", "strides"), ("x * 2", "(x * 2).detach()", "history"), ("x * x", "x * x.detach()", "gradient"),
    ("x + 1", "x + t.ones(7)", "error"), ("x.t()", "x.t().contiguous()", "strides"), ("x.shape", "x.size(0)", "type")])
def test_each_difference_is_seen(line: str, other: str, what: str) -> None:
    case = _case(line)
    assert not compare(case, answer(case, jitgrad), answer(case, jitgrad))
    assert compare(case, answer(_case(other), jitgrad), answer(case, jitgrad)).startswith(what)


def test_types_of_errors_are_compared() -> None:
    case = _case("x[5]")
    found = answer(case, jitgrad)
    assert found.error == "IndexError"
    assert compare(case, found, Answer(error="RuntimeError")).startswith("error: IndexError")


@pytest.mark.parametrize(("first", "line"), [("t.tensor([-1, -2, 1])", "t.ldexp(x, y)"), ("x", "t.std(x, ())")])
def test_what_is_said_otherwise_excuses_where_pytorch_then_agrees(first: str, line: str) -> None:
    torch = pytest.importorskip("torch")
    from tests.against.reasons import told_otherwise

    case = _case(line)._replace(lines=(f"y = {first}", f"r = {line}"))
    ours, theirs = answer(case, jitgrad), answer(case, torch)
    assert compare(case, ours, theirs)
    assert told_otherwise(case, ours, theirs, jitgrad, torch)
    wrong = ours._replace(gradients=[("float32", (2, 3), [[9.0] * 3] * 2)])
    assert not told_otherwise(case, wrong, theirs, jitgrad, torch)


def test_names_that_only_one_takes_are_told_in_its_own() -> None:
    torch = pytest.importorskip("torch")
    from tests.against.reasons import told_otherwise

    case = _case("F.linear(x=x, weight=x)")
    ours, theirs = answer(case, jitgrad), answer(case, torch)
    assert ours.error == "TypeError"
    assert told_otherwise(case, ours, theirs, jitgrad, torch)
    assert not told_otherwise(case, ours, theirs._replace(gradients=None), jitgrad, torch)


def test_numbers_tell_what_is_lost() -> None:
    from tests.against.reasons import reason

    def found(line: str, ours: float, theirs: float) -> str:
        case = _case(line)
        return reason(case, "gradient: 1 2", *[Answer([], [("float32", (), [y])]) for y in (ours, theirs)])

    inf, nan = float("inf"), float("nan")
    assert found("t.logit(x)", inf, -inf)
    assert not found("t.logit(x)", 1.0, -1.0)
    assert found("x.prod()", nan, 0.0)
    assert not found("x.prod()", 1.0, 0.0)
    assert found("F.hardsigmoid(x)", 1 / 6, 1 / 6 + 1e-8)
    assert not found("F.hardsigmoid(x)", 1 / 6, 0.17)


def test_scripts_are_compared_with_eager() -> None:
    case = _case("t.where(x > 0, x, x * 2).sum(-1)")
    scripted = answer(case, jitgrad, jitgrad.script)
    assert not scripted.refused
    assert not compare(case, scripted, answer(case, jitgrad), scripted=True)

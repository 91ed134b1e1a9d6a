"""Compares what an observer sees of a program in each mode with what eager shows."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config
from tests.fuzz import beside, world
from tests.fuzz.beside import close, unsigned
from tests.fuzz.generator import program
from tests.fuzz.session import Outcome, SavedSession, Session, as_method, compile_source, optimizer_of


def foreseen(expected: Outcome, got: Outcome) -> bool:
    """Whether a program that cannot be compiled surely raises this exception."""
    return bool(got.refused and expected.error and expected.error.partition(": ")[2] in got.error)


def difference(expected: Outcome, got: Outcome) -> str:
    """What differs, or nothing."""
    if expected.error != got.error and not foreseen(expected, got):
        return f"exception: expected {expected.error or 'none'!r}, got {got.error or 'none'!r}"
    if unsigned(expected.printed) != unsigned(got.printed) and not got.refused:
        return f"printed: expected {expected.printed!r}, got {got.printed!r}"
    if not close(expected.value, got.value):
        return f"value: expected {expected.value}, got {got.value}"
    if expected.overwritten or got.refused:
        return ""
    if not expected.error:
        for what, wanted, found in (("gradient", expected.gradients, got.gradients),
                                    ("second-order gradient", expected.second, got.second)):
            if not wanted:  # a result without history; a script knows only what may have one, and reaches nothing
                wanted = [None] * len(found)
            for i, (a, b) in enumerate(zip(wanted, found, strict=False)):
                if (a is None) != (b is None):
                    if what == "second-order gradient" and not np.any(a if b is None else b):
                        continue  # eager's None is zero here where a branch made a first gradient vanish
                    return f"{what} {i}: expected {_presence(a)}, got {_presence(b)}"
                if a is not None and not close(a, b):
                    return f"{what} {i}: expected {a}, got {b}"
    a, b = expected.state, got.state
    if expected.error:  # attributes that are bound anew are stored when a call ends, not when it raises
        a, b = ([v for name, v in zip(STATE[1:], s[1:] if isinstance(s[0], str) else s, strict=False) if name in KEPT]
                for s in (a, b))
    if not close(a, b):
        return f"state: {differing(expected.state, got.state)}"
    return ""


def _presence(gradient: Any) -> str:
    return "None" if gradient is None else "a tensor"


#: what an exception leaves as eager does: memory and numbers
KEPT = ("c", "maybe", "box.p", "box.q", "box.count", "box.scale")
STATE = ("list", "c", "xs", "maybe", "box.p", "box.q", "box.total", "box.count", "box.scale", "box.last", "x.grad",
         "y.grad", "w.grad", "b.grad", "p.grad", "q.grad", "optimizer", "lr", "flags")


def differing(a: Any, b: Any) -> str:
    """The first part of the state that differs."""
    if a is None or b is None:
        return f"expected {a}, got {b}"
    for name, p, q in zip(STATE, a, b, strict=False):
        if not close(p, q):
            return f"{name}: expected {p}, got {q}"
    return ""


@dataclass
class Report:
    """The outcome of one program: what differs, or why it was refused, or neither."""

    problem: str = ""
    refused: str = ""
    compilations: int = 0
    from_disk: int = 0  # of those of the second turn of "stored"
    saved: int = 0  # calls that ran from a file
    unsaved: list[str] = field(default_factory=list)  # why others did not
    seconds: float = 0.0  # of processor time, for what every program goes through
    died: bool = False  # crashed or took too long, so that nothing makes it smaller here


#: how a program is run: by the interpreter; as native code; as both, its graphs verified between passes or not; as both
#: and then as native code from a disk cache of its own; from a file, as a method of the box
MODES = ("interpreted", "native", "both", "verified", "stored", "saved")
FILES = 3  # of so many calls of a saved program one is from a file, since each file is compiled on its own


def modes_of(seed: int) -> tuple[str, ...]:
    """The modes of a seed's program: of five, one is verified, one stored and one saved."""
    return (("both",), ("stored",), ("both", "saved"), ("verified",), ("both",))[seed % 5]


@contextlib.contextmanager
def _knobs(mode: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        knobs: dict[str, Any] = {"interpret": mode == "interpreted", "verify": int(mode == "verified"), "cache": ""}
        if mode in ("both", "verified", "stored"):
            stack.enter_context(beside.interpreter())
        if mode == "stored":
            knobs["cache"] = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(config.override(**knobs))
        yield


def check_source(source: str, name: str, second_order: bool, cases: Sequence[world.Case],
                 modes: Sequence[str] = ("both",)) -> Report:
    """Compare the modes of one program with eager on every case."""
    function, optimizer = compile_source(source, name), optimizer_of(source)
    eager = Session(function, second_order, optimizer)
    expected = [eager.run(case) for case in cases]
    report = Report()
    for mode in modes:
        with _knobs(mode):
            for turn in range(2 if mode == "stored" else 1):
                if mode == "saved":
                    scripted = jitgrad.script(compile_source(as_method(source), f"{name} as a method"))
                    session: Session = SavedSession(scripted, second_order, optimizer)
                else:
                    scripted = jitgrad.script(function)
                    session = Session(scripted, second_order, optimizer)
                started = sum(os.times()[:4])
                _compare(session, mode, cases, expected, report)
                if not turn and mode != "saved":
                    report.seconds += sum(os.times()[:4]) - started
                if report.refused or report.problem:
                    return report
                if turn:
                    report.from_disk = scripted.cache_info().disk_hits
                elif mode != "saved":
                    report.compilations = scripted.cache_info().compilations
    return report


def _compare(session: Session, mode: str, cases: Sequence[world.Case], expected: Sequence[Outcome], report: Report,
             ) -> None:
    for i, (case, wanted) in enumerate(zip(cases, expected, strict=True)):
        if mode == "saved" and (case.again or i % FILES):
            continue  # each file has a box of its own
        if case.again and (expected[i - 1].error or expected[i - 1].overwritten):
            return  # the state after a failed gradient is not compared, so nothing may build on it
        outcome = session.run(case)
        if outcome.unsaved:
            report.unsaved.append(outcome.unsaved)
            continue
        if outcome.refused and not foreseen(wanted, outcome):
            report.refused = outcome.refused
            return
        report.saved += mode == "saved"
        found = difference(wanted, outcome)
        if found:
            report.problem = f"{mode}, arguments {case}: {found}"
            return


def check_program(seed: int, modes: Sequence[str] = ()) -> Report:
    """Generate and compare one program, in `modes` or `modes_of` it. A crash of the compiler is a problem too."""
    modes = modes or modes_of(seed)
    try:
        return check_source(program(seed).source, str(seed), seed % 10 == 0, world.sequence(seed), modes)
    except Exception as error:  # whatever it is, it is the finding
        return Report(f"{type(error).__name__}: {error}")


__all__ = ["MODES", "Outcome", "Report", "Session", "check_program", "check_source", "compile_source", "difference",
           "modes_of"]

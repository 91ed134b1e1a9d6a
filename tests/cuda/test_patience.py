"""Where Python waits for a GPU on which a loop may never end, it asks, so that it sees signals; on the stand-in."""

from __future__ import annotations

import time
from typing import Any

import pytest

import jitgrad as torch
from jitgrad.device import patient
from tests.codegen.cuda import host
from tests.cuda import hosted, standin

pytestmark = host.emulated


@pytest.fixture
def waits(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The streams that were waited for."""
    found: list[Any] = []
    monkeypatch.setitem(patient, 0, found.append)
    return found


@pytest.mark.parametrize("read", [
    lambda x: x.sum().item(), lambda x: float(x.sum()), lambda x: x.cpu(), lambda x: x.tolist(),
    lambda x: torch.linalg.eigh(x)], ids=["item", "float", "cpu", "tolist", "computed by NumPy"])
def test_what_reads_numbers_asks_first(waits: list[Any], read: Any) -> None:
    read(torch.eye(2, device="cuda"))
    assert waits


def test_an_event_asks(waits: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answers, pauses = [True, False, False], []
    monkeypatch.setattr(standin.Event, "done", property(lambda self: answers.pop()))
    monkeypatch.setattr(time, "sleep", pauses.append)
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    assert len(pauses) == 2
    patient.clear()
    event.synchronize()  # asks no more
    assert not answers


def test_a_first_call_with_loops_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(x: Any) -> Any:
        while x.sum() > 1:
            x = x * 0.5
        return x

    with hosted.gpu() as driver:
        waited: list[Any] = []
        monkeypatch.setattr(driver, "wait", waited.append)
        script = torch.script(halved)
        for _ in range(3):
            script(torch.ones(8, device="cuda"))
        assert waited == [driver.stream()]

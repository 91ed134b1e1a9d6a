"""Programs on disk, where one process has a GPU and another has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    with config.override(cache=str(tmp_path)):
        yield


def asks(x: Any) -> Any:
    return x.cuda().exp().cpu() if torch.cuda.is_available() else x.sin()


def default(x: Any) -> Any:
    return x + torch.ones(3).to(x.device)


def current(x: Any) -> Any:
    return x.cuda() * 2


def named(x: Any) -> Any:
    return x.to("cuda:0") * 2


def called(f: Callable[..., Any], *args: Any, on: str = "") -> tuple[Any, int]:
    """What a process, with a GPU or without, gets from the function, and how often it found it on disk."""
    with ExitStack() as stack:
        if on:
            stack.enter_context(gpu())
            if on == "default":
                stack.enter_context(torch.device("cuda"))
            elif on != "gpu":
                stack.enter_context(torch.cuda.device(int(on)))
        scripted = torch.script(f)
        return scripted(*args), scripted.cache_info().disk_hits


def test_whether_there_is_a_gpu_is_asked_again() -> None:
    x = torch.randn(3)
    assert torch.allclose(called(asks, x, on="gpu")[0], x.exp())
    y, hits = called(asks, x)
    assert hits == 0
    assert torch.allclose(y, x.sin())
    assert called(asks, x)[1] == 1
    y, hits = called(asks, x, on="gpu")
    assert hits == 1  # both are kept
    assert torch.allclose(y, x.exp())


def test_default_and_current_devices() -> None:
    x = torch.randn(3)
    assert [called(default, x, on=on)[1] for on in ("", "gpu", "default", "default")] == [0, 1, 0, 1]
    found = [called(current, x, on=on) for on in ("0", "1", "1", "0", "0")]
    assert [y.device.index for y, _ in found] == [0, 1, 1, 0, 0]
    assert [hits for _, hits in found] == [0, 0, 1, 1, 1]  # both are kept


@pytest.mark.parametrize("f", [current, named], ids=lambda f: f.__name__)
def test_without_a_gpu_the_error_is_that_of_eager(f: Any) -> None:
    x = torch.randn(3)
    called(f, x, on="gpu")
    with pytest.raises(Exception, match=r"CUDA is not available.*jitgrad\[cuda13\]"):
        called(f, x)


def test_kernels_are_compiled_for_the_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is text: another architecture has its own machine code of it."""
    loaded: list[str] = []
    load = StandinDriver.load
    monkeypatch.setattr(StandinDriver, "load", lambda self, source, names: loaded.append(source) or load(
        self, source, names))
    with gpu():
        x = torch.randn(3).cuda()
        _, first = called(lambda_free, x, on="gpu")
        _, second = called(lambda_free, x, on="gpu")
    assert (first, second) == (0, 1)
    assert len(loaded) == 2
    assert loaded[0] == loaded[1]


def lambda_free(x: Any) -> Any:
    return (x.exp() + 1).sum()

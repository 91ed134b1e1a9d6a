"""docs/api_coverage.md is true, and what is there stays there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import jitgrad
from tools import api_coverage
from tools.api_coverage import Name, aims, differentiable, is_there, names, scripted

PAGE = api_coverage.PAGE.read_text()
SPACES = list(dict.fromkeys(n.space for n in names()))
#: percent of the names in scope, at least
FLOORS = {"torch": 94, "Tensor": 98, "torch.linalg": 87, "torch.special": 100, "torch.fft": 0,
          "torch.nn.functional": 100, "torch.nn": 100, "torch.func": 71, "torch.optim": 100, "torch.distributions": 100,
          "torch.utils.data": 100}


def listed(space: str, title: str) -> set[str]:
    """The names that the page lists under a title of a namespace."""
    section = PAGE.partition(f"\n## {space}\n")[2].partition("\n## ")[0]
    line = re.search(rf"^- {title} \(\d+\): (.*)$", section, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", line[1])) if line else set()


@pytest.mark.parametrize("space", SPACES)
def test_the_share_does_not_fall(space: str) -> None:
    own = aims(jitgrad, space)
    there = sum(is_there(jitgrad, space, n.name) for n in own)
    assert 100 * there // len(own) >= FLOORS[space]


@pytest.mark.parametrize("space", SPACES)
def test_the_page_is_current(space: str) -> None:
    own = aims(jitgrad, space)
    missing = {n.name for n in own if not is_there(jitgrad, space, n.name)}
    assert listed(space, "missing") == missing, "python -m tools.api_coverage"
    assert f"| `{space}` | {api_coverage.share(len(own) - len(missing), len(own))} |" in PAGE


@pytest.mark.parametrize("space", SPACES)
def test_gradients_are_as_listed(space: str) -> None:
    smooth = [n.name for n in aims(jitgrad, space) if n.grad and is_there(jitgrad, space, n.name)]
    assert {n for n in smooth if not differentiable(jitgrad, space, n)} == listed(space, "without gradient")


@pytest.mark.parametrize("space", [s for s in SPACES if listed(s, "calls back in scripts")])
def test_scripts_are_as_listed(space: str, tmp_path: Path) -> None:
    """Of a tenth of the functions, and of what is listed."""
    back, refused = listed(space, "calls back in scripts"), listed(space, "refused in scripts")
    own = [n.name for n in aims(jitgrad, space) if n.kind == "function" and is_there(jitgrad, space, n.name)]
    for name in own[::10]:
        expected = {"call-back"} if name in back else {"no"} if name in refused else {"native", ""}
        assert scripted(space, name, tmp_path) in expected, name


def test_every_name_is_of_a_kind() -> None:
    assert {n.kind for n in names()} == {"function", "class", "constant", "attribute"}
    assert max(Counter((n.space, n.name) for n in names()).values()) == 1
    known = {(n.space, n.name): n for n in names()}
    assert known["torch", "exp"] == Name("torch", "exp", "function", True)
    assert known["torch.nn", "Linear"].kind == "class"
    assert not known["torch", "argmax"].grad


def test_rules_leave_out_what_they_say() -> None:
    outside = {n.name: n.outside for n in names()}
    assert outside["quantize_per_tensor"] == "quantized tensors"
    assert outside["mkldnn_convolution"] == "libraries that PyTorch calls"
    assert outside["DistributedSampler"] == "several machines, or several GPUs at once"
    for name in ("exp", "fft", "complex64", "Linear", "flipud", "MultivariateNormal", "Optimizer", "Generator", "eigh"):
        assert not outside[name]
    used = {n.outside for n in names() if n.outside}
    assert [reason for reason, _ in api_coverage.OUTSIDE if reason not in used] == []

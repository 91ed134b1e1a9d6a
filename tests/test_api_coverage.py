"""docs/api_coverage.md is true, and what is there stays there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import jitgrad
from tools import api_coverage
from tools.api_coverage import Name, aims, is_there, names
from tools.api_tries import differentiable, on_cuda, scripted

PAGE = api_coverage.PAGE.read_text()
SPACES = list(dict.fromkeys(n.space for n in names()))
#: percent of each column, at least; names first
FLOORS = {"torch": (100, 98, 98, 86, 99, 100), "Tensor": (100, 98, 95, 88, 99, 99),
          "torch.linalg": (100, 100, 100, 26, 100, 100), "torch.special": (100, 100, 100, 73, 100, 100),
          "torch.fft": (100, 100, 100, 18, 100, 100), "torch.nn.functional": (100, 100, 100, 92, 100, 100),
          "torch.nn": (100,), "torch.func": (100,), "torch.optim": (100,), "torch.distributions": (100,),
          "torch.utils.data": (100,)}


def listed(space: str, title: str) -> set[str]:
    """The names that the page lists under a title of a namespace."""
    section = PAGE.partition(f"\n## {space}\n")[2].partition("\n## ")[0]
    line = re.search(rf"^- {title} \(\d+\): (.*)$", section, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", line[1])) if line else set()


@pytest.mark.parametrize("space", SPACES)
def test_the_share_does_not_fall(space: str) -> None:
    own = aims(jitgrad, space)
    there = sum(is_there(jitgrad, space, n.name) for n in own)
    assert 100 * there // len(own) >= FLOORS[space][0]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{space}` |"))
    shares = [int(percent) for percent in re.findall(r"(\d+)% \(", row)]
    for floor, percent in zip(FLOORS[space], shares, strict=True):
        assert percent >= floor, row


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


@pytest.mark.parametrize("space", [s for s in SPACES if len(FLOORS[s]) > 1])
def test_scripts_and_cuda_are_as_listed(space: str, tmp_path: Path) -> None:
    """Of a tenth of the functions, and of those that differ on CUDA."""
    back, refused = listed(space, "calls back in scripts"), listed(space, "refused in scripts")
    eagerly, in_scripts = listed(space, "different on CUDA"), listed(space, "different in CUDA scripts")
    own = [n.name for n in aims(jitgrad, space) if n.kind == "function" and is_there(jitgrad, space, n.name)]
    for name in {*own[::10], *eagerly, *in_scripts}:
        way, reason = scripted(space, name, tmp_path)
        assert way in ({"call-back"} if name in back else {"no"} if name in refused else {"native", ""}), name
        assert (reason != "") == (name in in_scripts), (name, reason)
        reason = on_cuda(space, name)
        assert (reason != "") == (name in eagerly), (name, reason)


def test_what_differs_on_cuda_is_told() -> None:
    assert on_cuda("torch", "exp") == ""
    assert on_cuda("Tensor", "cpu") == "x.cpu(): on the CPU"
    assert on_cuda("Tensor", "get_device") == "x.get_device(): 0 for -1"
    assert on_cuda("Tensor", "bernoulli_") == ""


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

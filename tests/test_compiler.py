"""`torch.compile` and torch.compiler's names."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError


@torch.compile
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3 if torch.compiler.is_compiling() else x * 2


@torch.compile(fullgraph=True, dynamic=True, backend="eager", mode="max-autotune", options={"epilogue_fusion": True})
def power(x: torch.Tensor, n: int) -> torch.Tensor:
    y = torch.ones_like(x)
    for _ in range(n):
        y = y * x
    return y


@torch.compiler.disable
def counted(x: torch.Tensor) -> torch.Tensor:
    assert not torch.compiler.is_compiling()
    return x + len(x.tolist())


def test_functions_are_scripts() -> None:
    x = torch.tensor([1.0, 2.0])
    assert tripled(x).tolist() == [3.0, 6.0]
    assert power(x, 3).tolist() == [1.0, 8.0]
    assert power.cache_info().compilations == 1
    assert not torch.compiler.is_compiling()


def test_disabled_functions_are_called() -> None:
    assert torch.compile(lambda x: counted(x) * 2)(torch.tensor([1.0, 2.0])).tolist() == [6.0, 8.0]
    assert torch.compiler.disable(reason="reads a file")(len)("ab") == 2


def test_modules_share_their_parameters() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    compiled = torch.compile(net)
    x = torch.ones(2, 3)
    compiled(x).sum().backward()
    assert net[0].weight.grad is not None
    assert torch.equal(compiled(x), net(x))
    assert torch.compile(net, disable=True) is net
    assert torch.compile(disable=True)(net) is net


def test_what_no_script_may_contain_is_refused() -> None:
    def outer():
        class Inner:
            pass

        return Inner

    with pytest.raises(ScriptError, match="class definition"):
        torch.compile(outer)
    with pytest.raises(TypeError):
        torch.compile(3)


def test_what_has_nothing_to_do() -> None:
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()
    assert torch.compiler.allow_in_graph(len) is len
    assert torch.compiler.list_backends() == ["jitgrad"]
    assert not torch.compiler.is_dynamo_compiling()

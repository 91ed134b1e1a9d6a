"""View ops that change nothing give new views, as in torch; in a script they give the tensor itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.eager.both import torch

VIEWS: dict[str, Callable[[Any], Any]] = {
    "view_as": lambda x: x.view_as(x), "view": lambda x: x.view(x.shape), "reshape": lambda x: x.reshape(x.shape),
    "reshape_as": lambda x: x.reshape_as(x), "t": lambda x: x.t(),
    "squeeze": lambda x: x.squeeze(), "squeeze(0)": lambda x: x.squeeze(0), "squeeze((0,))": lambda x: x.squeeze((0,)),
    "x[...]": lambda x: x[...], "x[:]": lambda x: x[:], "x[()]": lambda x: x[()], "x[::1]": lambda x: x[::1],
    "x[0:n]": lambda x: x[0:x.shape[0]], "x[..., 0:99]": lambda x: x[..., 0:99],
    "narrow": lambda x: x.narrow(0, 0, x.shape[0]), "expand": lambda x: x.expand(x.shape),
    "expand_as": lambda x: x.expand_as(x), "broadcast_to": lambda x: x.broadcast_to(x.shape),
    "permute": lambda x: x.permute(*range(x.ndim)), "transpose": lambda x: x.transpose(0, 0),
    "swapaxes": lambda x: x.swapaxes(-1, -1), "movedim": lambda x: x.movedim(0, 0), "flatten": lambda x: x.flatten(),
    "flatten one": lambda x: x.flatten(0, 0), "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(0, (x.shape[0],)), "tensor_split": lambda x: x.tensor_split(1)[0],
    "contiguous": lambda x: x.contiguous(), "to": lambda x: x.to(x.dtype), "+x": lambda x: +x,
    "float": lambda x: x.float(), "type_as": lambda x: x.type_as(x),
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "split": lambda x: x.split(x.shape[0])[0], "sections": lambda x: x.split([x.shape[0]])[0],
    "chunk": lambda x: x.chunk(1)[0]}


def outcome(x: Any, y: Any) -> list[Any]:
    try:
        y.add_(1)
    except RuntimeError as e:
        message = str(e)
    else:
        message = ""
    return [y is x, y.is_leaf, y._is_view(), message]


@pytest.mark.skipif(torch is None, reason="torch is the oracle")
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("name", VIEWS)
def test_identity_leafness_and_refusals_are_torchs(name: str, shape: tuple[int, ...]) -> None:
    view = VIEWS[name]
    found = []
    for m in (jitgrad, torch):
        leaf = m.ones(shape).requires_grad_()
        inner = m.ones(shape).requires_grad_() * 2
        with m.no_grad():
            quiet = m.ones(shape).requires_grad_()
            unrecorded = view(quiet)
        found.append([outcome(leaf, view(leaf)), outcome(inner, view(inner)), unrecorded is quiet,
                      outcome(quiet, unrecorded)[3][:40]])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [*VIEWS, *PARTS])
def test_memory_and_gradients_are_shared(name: str) -> None:
    view = {**VIEWS, **PARTS}[name]
    a = jitgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = a * 1
    y = view(x)
    y.mul_(a)
    assert x.tolist() == [1.0, 4.0, 9.0]
    (x * y).sum().backward()
    assert a.grad.tolist() == [4.0, 32.0, 108.0]


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_all_are_views(name: str) -> None:
    x = jitgrad.ones(3, requires_grad=True)
    assert outcome(x, PARTS[name](x)) == [
        False, False, True, "a view of a leaf Variable that requires grad is being used in an in-place operation."]


@pytest.mark.parametrize("key", [slice(None), ..., (), slice(0, 3), slice(None, None, 1)], ids=str)
def test_writing_to_all_of_a_tensor_is_writing_to_it(key: Any) -> None:
    x = jitgrad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^a leaf Variable"):
        x[key] = 1.0
    y = x * 1
    y[key] = jitgrad.zeros(3)
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "CopyBackward"


def test_scripts_emit_nothing() -> None:
    from jitgrad.script.frontend.build import build

    def f(x: Any) -> Any:
        y = x.view_as(x).view(x.shape)[:][...].squeeze(0).expand(x.shape).narrow(0, 0, x.shape[0])
        return y * 2

    graph = build(f, (jitgrad.ones(3, 4),), {}).graph
    names = [node.op for node in graph.block.nodes]
    assert not set(names) & {"reshape", "slice", "expand", "squeeze", "permute"}, names
    assert "mul" in names

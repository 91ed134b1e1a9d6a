"""`_foreach_*`: each gives what its method gives for each tensor, eagerly and in scripts."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad.ops.library import foreach

NAMES = [n.removeprefix("_foreach_") for n in foreach.__all__ if not n.endswith(("_", "powsum"))]
TWO, THREE = {"add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow", "mm"}, {
    "addcmul", "addcdiv", "lerp"}


def tensors() -> list[Any]:
    return [torch.tensor([[0.25, 0.5], [0.75, 0.125]]), torch.tensor([[0.5, 0.25], [0.375, 0.875]])]


@pytest.mark.parametrize("name", NAMES)
def test_each(name: str) -> None:
    own, more = tensors(), tensors()[::-1]
    rest = [more] if name in TWO else [more, more] if name in THREE else []
    found = getattr(torch, f"_foreach_{name}")(own, *rest)
    assert isinstance(found, tuple)
    for k, y in enumerate(found):
        method = getattr(own[k], name)
        assert y.tolist() == method(*(r[k] for r in rest)).tolist()
    in_place = getattr(torch, f"_foreach_{name}_", None)
    if in_place is not None:
        assert in_place(own, *rest) is own
        assert [x.tolist() for x in own] == [y.tolist() for y in found]


def step(params: Any, grads: Any, lr: float) -> Any:
    torch._foreach_mul_(params, 1 - lr)
    torch._foreach_add_(params, grads, alpha=-lr)
    norms = torch._foreach_norm(grads)
    torch._foreach_addcdiv_(params, grads, torch._foreach_add(torch._foreach_sqrt(grads), 1e-3), value=-lr)
    return norms


def test_an_optimizers_step_in_a_script() -> None:
    eager, scripted = tensors(), tensors()
    expected = step(eager, tensors()[::-1], 0.1)
    found = torch.script(step)(scripted, tensors()[::-1], 0.1)
    for a, b in zip([*eager, *expected], [*scripted, *found], strict=True):
        assert torch.allclose(a, b)


def test_arguments() -> None:
    x = [torch.ones(2), torch.zeros(3)]
    assert [y.tolist() for y in torch._foreach_add(x, [1, 2.0])] == [[2.0, 2.0], [2.0, 2.0, 2.0]]
    assert [y.tolist() for y in torch._foreach_mul(x, torch.tensor(2.0))] == [[2.0, 2.0], [0.0, 0.0, 0.0]]
    assert [y.tolist() for y in torch._foreach_addcmul(x, x, x, [1.0, 2.0])] == [[2.0, 2.0], [0.0, 0.0, 0.0]]
    assert [y.tolist() for y in torch._foreach_powsum([torch.tensor([3.0, -4.0])])] == [25.0]
    assert [y.tolist() for y in torch._foreach_powsum([torch.tensor([3.0, -4.0])], 1)] == [7.0]
    assert [y.tolist() for y in torch._foreach_pow(2.0, x)] == [[2.0, 2.0], [1.0, 1.0, 1.0]]
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_exp([])
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(x, x[:1])

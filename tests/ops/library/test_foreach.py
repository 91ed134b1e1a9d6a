"""`_foreach_*`: each gives what its method gives for each tensor, eagerly and in scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
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


# --- the step of Adam ------------------------------------------------------------------------------------------------


def by_hand(p: Any, g: Any, m: Any, v: Any, t: int, decay: float) -> Any:
    """The parameter, in float64, as the paper has it."""
    p, g, m, v = (np.asarray(x.tolist()) for x in (p, g, m, v))
    g = g + decay * p
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return 0.5 * p - 0.01 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-8)


@pytest.mark.parametrize("d", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (70000,), (0, 2)])
@pytest.mark.parametrize("scripted", [False, True])
def test_adam(d: str, shape: tuple[int, ...], scripted: bool) -> None:
    """Small ones by NumPy in place, large ones by native code, in a script by kernels; of halves rounded at the end."""
    if scripted and shape == (70000,):
        shape = (70,)
    torch.manual_seed(0)
    p, g, m, v = (torch.rand(shape).to(getattr(torch, d)) for _ in range(4))
    m = m.t() if m.ndim == 2 and m.numel() else m
    g = g.t() if g.ndim == 2 and g.numel() else g
    p, v = (x.t() if x.ndim == 2 and x.numel() else x for x in (p, v))
    wanted = by_hand(p, g, m, v, 3, 0.1)

    def step(p: Any, g: Any, m: Any, v: Any, rate: float, t: float) -> None:
        foreach.adam_(p, g, m, v, None, t, rate, (0.9, 0.99), 1e-8, 0.5, 0.1)

    (torch.script(step) if scripted else step)(p, g, m, v, 0.01, 3.0)
    rtol, atol = {"float32": (1e-5, 1e-7), "float64": (1e-12, 0), "bfloat16": (2e-2, 1e-2)}[d]
    np.testing.assert_allclose(np.asarray(p.tolist()), wanted, rtol=rtol, atol=atol)

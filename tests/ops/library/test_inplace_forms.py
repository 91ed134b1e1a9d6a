"""Every in-place method of torch that follows from another writes what the other computes, and returns the tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.ops.library.calls.forms import table
from jitgrad.ops.methods import Methods
from tests.calls.arguments import TENSORS
from tests.calls.generator import calls

#: draws, and what changes the tensor's own shape (`tests/eager/test_memory.py`)
OTHER = {"bernoulli_", "squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_"}
NAMES = [name for name in table()["Tensor"] if name.endswith("_") and name not in OTHER
         and hasattr(jitgrad.Tensor, name) and hasattr(Methods, name[:-1]) and calls("Tensor", name)]


def test_which_there_are() -> None:
    assert len(NAMES) > 120
    assert {"acosh_", "addmv_", "arctan2_", "divide_", "gcd_", "greater_equal_", "lcm_", "ldexp_", "mvlgamma_",
            "nextafter_", "sgn_", "tril_", "xlogy_"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_writes_what_the_function_computes(name: str) -> None:
    """The first of the generated calls that gives something, written to a view."""
    scope: dict[str, Any] = {k: jitgrad.from_numpy(a.copy()) for k, a in TENSORS.items()} | {"t": jitgrad}
    with np.errstate(all="ignore"):
        for call in calls("Tensor", name):
            receiver, _, arguments = call.text.partition(f".{name}")
            x = eval(receiver, scope)
            try:
                expected = eval(f"given.{name[:-1]}{arguments}", scope | {"given": x})
            except RuntimeError:
                continue
            break
        whole = jitgrad.stack([x, x])
        view = whole[1]
        found = eval(f"given.{name}{arguments}", scope | {"given": view})
    assert found is view
    np.testing.assert_array_equal(whole[1].numpy(), expected.to(x.dtype).numpy())
    np.testing.assert_array_equal(whole[0].numpy(), x.numpy())


@pytest.mark.parametrize("name", [n for n in table()["torch"] if n.endswith("_") and n[:-1] in table()["torch"]
                                  and hasattr(Methods, n)])
def test_functions_beside_the_methods(name: str) -> None:
    assert getattr(jitgrad, name) is not None
    assert getattr(jitgrad, name).__name__.endswith("_")


@pytest.mark.parametrize(("name", "arguments"), [
    ("acosh", ()), ("xlogy", (jitgrad.tensor([2.0, 3.0]),)), ("ldexp", (jitgrad.tensor([1, 2]),)),
    ("addmv", (jitgrad.eye(2), jitgrad.ones(2))), ("atan2", (jitgrad.ones(2),)), ("i0", ()), ("renorm", (2, 0, 0.5))])
def test_derived_forms_have_gradients(name: str, arguments: tuple[Any, ...]) -> None:
    w = jitgrad.tensor([0.5, 1.5], requires_grad=True)

    def start() -> Any:
        return w.reshape(2, 1) * 2 + 1 if name == "renorm" else w * 2 + 1

    changed = start()
    assert getattr(changed, name + "_")(*arguments) is changed
    (found,) = jitgrad.autograd.grad((changed * changed).sum(), w)
    plain = getattr(start(), name)(*arguments)
    (expected,) = jitgrad.autograd.grad((plain * plain).sum(), w)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_derived_forms_in_scripts(script: bool) -> None:
    def f(x: Any, n: Any) -> Any:
        v = x[0]
        v.acosh_().divide_(2)
        x.tril_(1)
        jitgrad.log1p_(x)
        n.gcd_(jitgrad.tensor(12))
        return x, n

    x, n = jitgrad.tensor([[1.5, 2.0], [3.0, 4.0]]), jitgrad.tensor([8, 9])
    (jitgrad.script(f) if script else f)(x, n)
    expected = np.log1p([[np.arccosh(1.5) / 2, np.arccosh(2.0) / 2], [3.0, 4.0]])
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
    assert n.tolist() == [4, 3]


def test_float_power_in_place_needs_float64() -> None:
    with pytest.raises(RuntimeError, match="the base given to float_power_ has dtype Float but the operation's result "
                                           "requires dtype Double"):
        jitgrad.ones(2).float_power_(2)
    x = jitgrad.tensor([2.0, 3.0], dtype=jitgrad.float64)
    assert x.float_power_(2).tolist() == [4.0, 9.0]

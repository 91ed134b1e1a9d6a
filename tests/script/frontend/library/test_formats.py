"""Tensors without axes are formatted as numbers, as in torch; library functions are scripted by a call."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, nn, script


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


VALUES = [torch.tensor(1.5), torch.tensor(3), torch.tensor(True), torch.tensor(0.1), torch.tensor([1.5]),
          torch.tensor(0.1, dtype=torch.float64)]


def texts(t):
    return f"{t}", f"{t!r}", f"{t!s}", "{}".format(t), "%s" % t, str(t)  # noqa: UP031, UP032


def padded(t):
    return f"{t:.2f}", f"{t:>8}"


def printed(t):
    print(t, f"v={t}")
    raise ValueError(f"bad {t}")


def outcome(function, t):
    try:
        return function(t)
    except (TypeError, ValueError) as error:
        return repr(error)


@pytest.mark.parametrize("function", [texts, padded, printed])
@pytest.mark.parametrize("index", range(len(VALUES)))
def test_scripts_format_as_eager_does(function, index, capsys):
    t = VALUES[index]
    found = [(outcome(run, t), capsys.readouterr().out) for run in (function, script(function))]
    assert found[0] == found[1]


def test_as_torch():
    assert f"{torch.tensor(1.5)}" == "1.5"
    assert f"{torch.tensor(1.5, requires_grad=True):.3f}" == "1.500"
    assert f"{torch.tensor(True)} {torch.tensor(True):>3}" == "True   1"
    assert f"{torch.tensor([1.5])}" == "tensor([1.5000])"
    assert f"{nn.Parameter(torch.tensor(1.5))}".startswith("Parameter containing")


def test_a_parameter_is_no_number():
    scale = nn.Parameter(torch.tensor(1.5))
    with torch.no_grad():
        assert script(lambda x: f"{scale} {scale * 2}")(scale) == f"{scale} {scale * 2}"

    @script
    def f(x):
        return f"{x * 2} {x.detach()}"

    assert f(scale.detach()) == "3.0 1.5"


def test_library_functions():
    x = torch.arange(3.0).requires_grad_()
    for function, args in ((torch.sigmoid, (x,)), (torch.sum, (x,)), (torch.add, (x, x)), (torch.matmul, (x, x)),
                           (torch.stack, ([x, x],)), (torch.zeros, (2, 3)), (torch.Tensor.exp, (x,))):
        f = script(function)
        assert torch.allclose(f(*args), function(*args), atol=1e-6)
        assert f.__name__ == function.__name__
    y = script(torch.exp)(x)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(y.tolist())

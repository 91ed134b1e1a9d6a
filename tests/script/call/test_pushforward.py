"""Forward mode of scripted functions: one compiled program, effects once, results that are inputs or views."""

import numpy as np
import pytest

import jitgrad
from jitgrad import config, func, nn
from jitgrad.script import executor


@pytest.fixture(params=[True, False], autouse=True)
def _mode(request):
    with config.override(interpret=request.param):
        yield


def ones(*shape):
    return jitgrad.ones(*shape, dtype=jitgrad.float64)


def test_compiled_once_for_all_sizes_and_trip_counts():
    @jitgrad.script
    def f(x, n: int):
        for i in range(n):
            x = jitgrad.sin(x) + i
        return x

    for size, n in ((2, 3), (5, 8), (3, 1)):
        x = ones(size)
        t = func.jvp(lambda x, n=n: f(x, n), (x,), (x,))[1]
        assert executor.scripted(f.eager) is None
        expected = func.jvp(lambda x, n=n: f.eager(x, n), (x,), (x,))[1]
        np.testing.assert_allclose(t.numpy(), expected.numpy())
    scripted = jitgrad.script(lambda x, w: jitgrad.tanh(x @ w).sum())
    for size in (2, 3, 7):
        func.jvp(scripted, (ones(size, 4), ones(4, 4)), (ones(size, 4), ones(4, 4)))
    specialisation = scripted.specialise(ones(2, 4), ones(4, 4))
    assert scripted.cache_info().compilations == 1
    assert len(specialisation.tangents) == 1


def test_results_that_are_inputs_or_views_of_them():
    @jitgrad.script
    def f(x, y):
        return {"same": x, "view": x[0], "sum": [x.sum(), y]}

    x, y, t = ones(2, 3), ones(2), 2 * ones(2, 3)
    value, tangent = func.jvp(jitgrad.script(lambda x: f.eager(x, y)), (x,), (t,))
    assert value["same"] is x
    assert tangent["same"].tolist() == t.tolist()
    assert tangent["view"].tolist() == [2, 2, 2]
    assert tangent["sum"][0].item() == 12
    assert tangent["sum"][1].tolist() == [0, 0]


def test_effects_happen_once(capsys):
    @jitgrad.script
    def f(x):
        print("called")
        return x * jitgrad.rand(3, dtype=jitgrad.float64)

    jitgrad.manual_seed(0)
    y, t = func.jvp(f, (ones(3),), (ones(3),))
    again = jitgrad.rand(3)
    jitgrad.manual_seed(0)
    expected = f.eager(ones(3))
    assert jitgrad.rand(3).tolist() == again.tolist()
    assert y.tolist() == expected.tolist() == t.tolist()
    assert capsys.readouterr().out == "called\n" * 2


def test_a_module_and_a_method():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2, dtype=jitgrad.float64)

        def forward(self, x):
            return jitgrad.relu(self.linear(x))

    layer = Layer()
    x, v = jitgrad.randn(4, 3, dtype=jitgrad.float64), jitgrad.randn(4, 3, dtype=jitgrad.float64)
    expected = func.jvp(layer, (x,), (v,))
    for scripted in (jitgrad.script(layer), jitgrad.script(layer.forward)):
        found = func.jvp(scripted, (x,), (v,))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)
            assert a.requires_grad == b.requires_grad
    loss = found[1].sum()
    loss.backward()
    grads = [p.grad.clone() if p.grad is not None else None for p in layer.parameters()]
    for p in layer.parameters():
        p.grad = None
    expected[1].sum().backward()
    np.testing.assert_allclose(grads[0].numpy(), layer.linear.weight.grad.numpy(), rtol=1e-9)


def test_writes_inside_a_script_and_one_tensor_given_twice():
    def f(x):
        y = x * 1
        y[0] = 3.0
        return y * x

    x, v = ones(3) * 2, ones(3)
    for g in (f, jitgrad.script(f)):
        assert func.jvp(g, (x,), (v,))[1].tolist() == [3, 4, 4]
    assert func.jvp(jitgrad.script(lambda a, b: a * b), (x, x), (v, 3 * v))[1].tolist() == [8, 8, 8]


def test_an_exception_is_that_of_the_call():
    @jitgrad.script
    def f(x, w):
        return x @ w

    with pytest.raises(RuntimeError, match="shape"):
        func.jvp(f, (ones(2, 3), ones(2, 3)), (ones(2, 3), ones(2, 3)))

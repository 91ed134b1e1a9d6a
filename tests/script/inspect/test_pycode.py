"""`f.code`: what a script became, as Python."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.eager.construct import wrap
from jitgrad.script import executor
from jitgrad.script.call.sources import resolve
from jitgrad.script.inspect.face import _besides
from tests.script.inspect.pycode_programs import PROGRAMS
from tools.devcheck.lecture import programs


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 4)
        self.down = nn.Linear(4, 2)

    def forward(self, x):
        return self.down(jitgrad.relu(self.up(x)))


@jitgrad.script
def rnn(xs, h, wx, wh):
    for x in xs:
        h = jitgrad.tanh(x @ wx + h @ wh)
    return (h * h).sum()


@jitgrad.script
def newton(a, tol: float):
    x = a
    steps = 0
    while abs(x * x - a) > tol:
        x = 0.5 * (x + a / x)
        steps += 1
    return x, steps


@jitgrad.script
def branch(x, loss: float):
    if loss > 1.0:
        y = x * 2
    elif x.sum() > 0:
        y = x.exp()
    else:
        y = -x
    print(f"loss {loss:.2f} {{}}")
    return y + 1


@jitgrad.script
def write(x, y):
    x.add_(y)
    assert x.sum() > 0, "not positive"
    return x - (y - 1) - (-x) ** 2


def code(function):
    """The function alone, without comments."""
    lines = function.code.partition("def ")[2].splitlines()
    return "\n".join(["def " + lines[0], *(line for line in lines[1:] if not line.lstrip().startswith("#"))])


def test_a_module_is_one_expression():
    scripted = jitgrad.script(MLP())
    scripted(jitgrad.ones(2, 3))
    assert code(scripted) == """\
def MLP(args_0, weight, bias, weight2, bias2):
    return jitgrad.relu(args_0 @ weight.T + bias) @ weight2.T + bias2"""


def test_a_loop_over_a_tensor_reads_like_the_source():
    rnn(jitgrad.ones(5, 2, 3), jitgrad.zeros(2, 4), jitgrad.ones(3, 4, requires_grad=True), jitgrad.ones(4, 4))
    assert code(rnn) == """\
def rnn(xs, h, wx, wh):
    for k in range(xs.shape[0]):
        h = jitgrad.tanh(xs[k] @ wx + h @ wh)
    return (h * h).sum()"""


def test_a_data_dependent_loop():
    newton(jitgrad.tensor(2.0), 1e-3)
    assert code(newton) == """\
def newton(a, tol):
    steps, x = 0, a
    running = (jitgrad.abs(a * a - a) > tol).item()
    while running:
        t1 = (x + a / x) * 0.5
        t2 = steps + 1
        running, steps, x = (jitgrad.abs(t1 * t1 - a) > tol).item(), t2, t1
    return x, steps"""


def test_branches_and_prints(capsys):
    branch(jitgrad.ones(3), 2.0)
    assert capsys.readouterr().out == "loss 2.00 {}\n"
    assert code(branch) == """\
def branch(x, loss):
    if loss > 1.0:
        t1 = x * 2
    else:
        if (x.sum() > 0).item():
            t1 = jitgrad.exp(x)
        else:
            t1 = -x
    print(f'loss {loss:.2f} {{}}')
    return t1 + 1"""


def test_writes_checks_and_precedence():
    write(jitgrad.ones(3), jitgrad.ones(3))
    text = code(write)
    assert "commit(x, " in text
    assert "raise AssertionError('not positive')" in text
    assert compile(write.code, "<code>", "exec")


def run(text, name, *args):
    scope = {"__name__": "generated"}
    exec(compile(text, "<code>", "exec"), scope)
    with jitgrad.no_grad():
        result = scope[name](*args)
    return result


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def close(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if b is None:
            continue
        assert isinstance(a, jitgrad.Tensor) == isinstance(b, jitgrad.Tensor)
        if isinstance(a, jitgrad.Tensor):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            a, b = a.detach().numpy(), b.detach().numpy()
        else:
            assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def check(function, params):
    """`code` and `grad_code` of a call against the programs that they show."""
    specialisation = function.specialisation_of(params)
    compiled = specialisation.function
    values = dict(zip(function.parameters, params, strict=True))
    objects = [resolve(s, values) for s in specialisation.script.inputs]
    again = [o.detach().clone() if isinstance(o, jitgrad.Tensor) else o for o in objects]
    arrays = [o._data.copy() if isinstance(o, jitgrad.Tensor) else o for o in objects]
    stored = {}
    outputs = compiled.forward(arrays, stored.__setitem__ if specialisation.script.commits else None)
    besides = _besides(specialisation.script, len(outputs))
    results = [wrap(o) if isinstance(o, np.ndarray) else o for i, o in enumerate(outputs) if i not in besides]
    assigned = [{}] if specialisation.script.commits else []
    close(as_list(run(function.code, function.__name__, *again, *assigned)) if results else [], results)
    for i in compiled.writes:
        np.testing.assert_allclose(again[i].numpy(), arrays[i], rtol=2e-4, atol=1e-5)
    assert len(stored) == sum(map(len, assigned))
    if not compiled.differentiable:
        return
    again = [o.detach().clone() if isinstance(o, jitgrad.Tensor) else o for o in objects]
    text = function.grad_code
    result, saved = run(text, function.__name__ + "_forward", *again, *assigned)
    close(as_list(result) if len(results) != 1 else [result], results)
    cotangents = [jitgrad.ones_like(wrap(outputs[i])) for i in compiled.differentiable]
    kept = [outputs[i] if i >= 0 else arrays[~i] for i in compiled.residuals]
    want = [None if g is None else wrap(g) for g in compiled.backward(kept, (), [g._data for g in cotangents])]
    close(as_list(run(text, function.__name__ + "_backward", saved, *cotangents)), want)


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_code_and_grad_code_run(function, arguments, capsys):
    scripted = jitgrad.script(function)
    check(scripted, scripted._bind(*arguments()))
    eager = as_list(function(*arguments()))
    got = as_list(run(scripted.code, function.__name__, *scripted.graph_inputs(*arguments())))
    close(got, eager)


@pytest.mark.parametrize("program", [p for p in programs.PROGRAMS if p.__name__.startswith("script")],
                         ids=lambda p: p.__name__)
def test_code_of_the_lecture_s_scripts_runs(program, monkeypatch):
    seen = []
    monkeypatch.setattr(executor, "observers", [lambda f, params: (check(f, params), seen.append(f))])
    program(jitgrad)
    assert seen


def test_gradients_are_those_of_eager():
    args = (jitgrad.ones(5, 2, 3), jitgrad.zeros(2, 4), None, jitgrad.ones(4, 4) * 0.1)
    weight = (jitgrad.ones(3, 4) * 0.1).requires_grad_()
    rnn.eager(args[0], args[1], weight, args[3]).backward()
    rnn(args[0], args[1], weight, args[3])
    result, saved = run(rnn.grad_code, "rnn_forward", *rnn.graph_inputs(args[0], args[1], weight, args[3]))
    close([run(rnn.grad_code, "rnn_backward", saved, jitgrad.ones_like(result))], [weight.grad])


def test_numbers_that_are_assigned_are_stored():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 1.5

        def forward(self, x):
            self.calls += 1.0
            return x * self.calls

    scripted = jitgrad.script(Counter())
    x = jitgrad.ones(2)
    check(scripted._script(), (scripted._unscripted, (x,), {}))
    stored = {}
    run(scripted.code, "Counter", *scripted.graph_inputs(x), stored)
    assert stored == {"calls": 2.5}


def test_what_is_overwritten_is_copied_where_it_is_read_later():
    @jitgrad.script
    def rotate(x):
        first = x[0]
        x[0] = x[1]
        x[1] = first * 2
        return first + x[0]

    check(rotate, (jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]]),))
    assert "x_before = x.clone()" in rotate.code


def test_the_user_s_lines_are_comments():
    branch(jitgrad.ones(3), 2.0)
    lines = [line.strip() for line in branch.code.splitlines()]
    first = branch.eager.__code__.co_firstlineno
    assert f"# test_pycode.py:{first + 2}  if loss > 1.0:" in lines
    assert f'# test_pycode.py:{first + 8}  print(f"loss {{loss:.2f}} {{{{}}}}")' in lines


def test_sources_of_parameters_are_told():
    scripted = jitgrad.script(MLP())
    scripted(jitgrad.ones(2, 3))
    assert "= self.down.weight\n" in scripted.code


def test_no_gradient_is_said():
    with jitgrad.no_grad():
        rnn(jitgrad.ones(5, 2, 3), jitgrad.zeros(2, 4), jitgrad.ones(3, 4), jitgrad.ones(4, 4))
    with pytest.raises(RuntimeError, match="`rnn` has no gradient"):
        _ = rnn.grad_code


def test_a_whole_training_step_runs():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = jitgrad.optim.Adam(model.parameters())

    @jitgrad.script
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x, y = jitgrad.randn(6, 4), jitgrad.randint(0, 3, (6,))
    step(x, y)
    check(step, (x, y))
    assert "loss.backward()" in step.code

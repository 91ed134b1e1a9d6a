"""`f.code`: what a script became, as Python."""

from __future__ import annotations

import jitgrad
from jitgrad import nn
from jitgrad.script.pycode import to_python


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
    """Without the comments that name lines."""
    return "\n".join(line.split("  # ")[0].rstrip() for line in function.code.splitlines())


def test_a_module_is_one_expression():
    scripted = jitgrad.script(MLP())
    scripted(jitgrad.ones(2, 3))
    assert code(scripted) == """\
def MLP(args_0, weight, bias, weight2, bias2):
    return relu(args_0 @ weight.T + bias) @ weight2.T + bias2"""


def test_a_loop_over_a_tensor_reads_like_the_source():
    rnn(jitgrad.ones(5, 2, 3), jitgrad.zeros(2, 4), jitgrad.ones(3, 4, requires_grad=True), jitgrad.ones(4, 4))
    assert code(rnn) == """\
def rnn(xs, h, wx, wh):
    for k in range(xs.shape[0]):
        h = tanh(xs[k] @ wx + h @ wh)
    return sum(h * h, axes=(0, 1))"""


def test_a_data_dependent_loop():
    newton(jitgrad.tensor(2.0), 1e-3)
    assert code(newton) == """\
def newton(a, tol):
    steps, x = 0, a
    running = item(abs(a * a - a) > tol)
    while running:
        t1 = (x + a / x) * 0.5
        t2 = steps + 1
        running, steps, x = item(abs(t1 * t1 - a) > tol), t2, t1
    return x, steps"""


def test_branches_and_prints(capsys):
    branch(jitgrad.ones(3), 2.0)
    assert capsys.readouterr().out == "loss 2.00 {}\n"
    assert code(branch) == """\
def branch(x, loss):
    if loss > 1.0:
        t1 = x * 2
    else:
        if item(sum(x, axes=(0,)) > 0):
            t1 = exp(x)
        else:
            t1 = -x
    print(f'loss {loss:.2f} {{}}')
    return t1 + 1"""


def test_lines_name_the_user_s_source():
    branch(jitgrad.ones(3), 2.0)
    first = branch.eager.__code__.co_firstlineno
    line = next(line for line in branch.code.splitlines() if "print" in line)
    assert line.endswith(f"  # test_pycode.py:{first + 8}")


def test_writes_checks_and_precedence():
    write(jitgrad.ones(3), jitgrad.ones(3))
    text = code(write)
    assert "commit(x, " in text
    assert "raise AssertionError('not positive')" in text
    assert compile(write.code, "<code>", "exec")


def test_code_of_every_kind_compiles():
    for function in (branch, newton, rnn):
        assert compile(function.code, "<code>", "exec")
    derivative = rnn.specialise(jitgrad.ones(5, 2, 3), jitgrad.zeros(2, 4), jitgrad.ones(3, 4, requires_grad=True),
                                jitgrad.ones(4, 4)).function.derivative
    forward, backward = to_python(derivative.forward), to_python(derivative.backward((True,)))
    assert " = []\n" in forward
    assert ".append(" in forward
    assert "in reversed(range(" in backward
    assert compile(forward, "<code>", "exec")
    assert compile(backward, "<code>", "exec")

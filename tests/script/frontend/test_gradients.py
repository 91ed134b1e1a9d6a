"""Gradients and whole steps inside scripts, as docs/language.md lists them: eager, interpreted and native."""

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Fit:
    """A weight and its optimizer (not compared: its state is keyed by tensors)."""

    def __init__(self, search):
        self.w = t(3, 2, seed=7).requires_grad_()
        self._optimizer = torch.optim.LBFGS([self.w], lr=0.5, max_iter=3, history_size=2, line_search_fn=search)


@program((Fit(None), t(4, 3), t(4, 2)), grad=False)
def closure_step(fit, x, y):
    def closure():
        fit._optimizer.zero_grad()
        loss = ((x @ fit.w - y) ** 2).sum()
        loss.backward()
        return loss

    return [fit._optimizer.step(closure).item() for _ in range(3)]


@program((Fit("strong_wolfe"), t(4, 3), t(4, 2), 3), (Fit("strong_wolfe"), t(5, 3), t(5, 2), 4), grad=False,
         compilations=2)  # one for each optimizer
def line_search(fit, x, y, steps: int):
    def closure():
        fit._optimizer.zero_grad()
        loss = torch.cosh(x @ fit.w - y).sum()
        loss.backward()
        return loss

    last = 0.0
    for _ in range(steps):
        last = fit._optimizer.step(closure).item()
    return last


test_programs = suite(PROGRAMS)

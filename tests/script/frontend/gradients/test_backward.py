"""Gradients and whole steps inside scripts, as docs/language.md lists them: eager, interpreted and native."""

import jitgrad as torch
from jitgrad.autograd import grad
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


# --- gradients in the bodies of loops ------------------------------------------------------------------------------


@program((t(3, 2), t(4, 3), 3), (t(3, 2), t(5, 3), 0))
def leaf_remade_in_a_loop(w, x, n: int):
    for _ in range(n):
        w = w.detach().requires_grad_()
        loss = torch.tanh(x @ w).pow(2).sum()
        (g,) = grad(loss, w)
        w = w - 0.1 * g
    return w.detach()


@program((t(3, 2), t(4, 3), 3), (t(3, 2), t(5, 3), 1))
def leaf_carried_by_a_loop(w, x, n: int):
    w = w.detach().clone().requires_grad_()
    for _ in range(n):
        (g,) = grad(torch.tanh(x @ w).pow(2).sum(), w)
        w = (w - 0.1 * g).detach().requires_grad_()
    return w.detach()


@program((t(3), 0.5), (t(3), 1e-3), (t(3), 100.0))
def loss_of_the_iteration_before(w, tolerance: float):
    w = w.detach().clone().requires_grad_()
    loss = (w - 2).pow(2).sum()
    while loss.item() > tolerance:
        loss.backward()
        with torch.no_grad():
            w -= 0.2 * w.grad
        w.grad = None
        loss = (w - 2).pow(2).sum()
    return w.detach()


@program((t(3, 2), t(2), t(4, 3), t(5, 3), 3), (t(3, 2), t(2), t(2, 3), t(5, 3), 0))
def inner_steps(w, b, x, y, n: int):
    """MAML: the outer gradient goes through any number of inner steps."""
    fast = [w, b]
    for _ in range(n):
        loss = torch.tanh(x @ fast[0] + fast[1]).pow(2).sum()
        fast = [p - 0.1 * g for p, g in zip(fast, grad(loss, fast, create_graph=True), strict=True)]
    torch.tanh(y @ fast[0] + fast[1]).pow(2).sum().backward()
    return w.grad, b.grad


@program((t(3, 2), t(2), t(2, 4, 3), 3), (t(3, 2), t(2), t(3, 5, 3), 1))
def inner_steps_of_tasks(p, q, tasks, n: int):
    total = 0.0
    for x in tasks:
        w, b = p, q
        for _ in range(n):
            gw, gb = grad(torch.tanh(x @ w + b).pow(2).sum(), (w, b), create_graph=True)
            w, b = w - 0.1 * gw, b - 0.1 * gb
        total = total + torch.tanh(x @ w + b).pow(3).sum()
    total.backward()
    return p.grad, q.grad


@program((t(3, 2), t(2), t(4, 3), 3), (t(3, 2), t(2), t(2, 3), 1))
def inner_steps_of_first_order(p, q, x, n: int):
    w = p
    for _ in range(n):
        (g,) = grad(torch.tanh(x @ w + q).pow(2).sum(), w)
        w = w - 0.1 * g
    w.pow(2).sum().backward()
    return p.grad, q.grad


def fit(w, x):
    return torch.tanh(x @ w).pow(2).sum()


@program((t(3, 2), t(4, 3), 3), (t(3, 2), t(2, 3), 1))
def inner_steps_of_functions(w, x, n: int):
    fast = w
    for _ in range(n):
        fast = fast - 0.1 * torch.func.grad(fit)(fast, x)
    return fit(fast, x + 1)


def rows(w, x):
    return torch.tanh(x @ w)


@program((t(3, 2), t(4, 3)), (t(3, 2), t(5, 3)))
def forward_mode(w, x):
    y, along = torch.func.jvp(lambda w: rows(w, x), (w,), (w * 2,))
    return y, along


@program((t(3, 2), t(4, 3)), (t(3, 2), t(2, 3)))
def jacobians(w, x):
    return torch.func.jacrev(rows)(w, x), torch.func.jacfwd(rows, 1)(w, x), torch.func.jacrev(rows, argnums=-1)(w, x)


@program((t(3, 2), t(4, 3)), (t(3, 2), t(2, 3)))
def second_derivatives(w, x):
    return torch.func.hessian(fit)(w, x)


@program((t(3), 4), (t(3), 0))
def newton(x, n: int):
    def f(x):
        return torch.cosh(x - 1).sum() + (x ** 4).sum()

    for _ in range(n):
        x = x - torch.linalg.solve(torch.func.hessian(f)(x), torch.func.grad(f)(x))
    return x


@program((2, 5), (0, 3), (3, -7))
def seeds(n: int, seed: int):
    torch.manual_seed(11)
    a = torch.rand(2)
    for k in range(n):
        if k != 1:
            torch.manual_seed(seed + k)
        a = a + torch.rand(2)
    return a, torch.randint(0, 10, (4,))


@program((torch.tensor(0.1, requires_grad=True), t(3, 2), t(4, 3), 3), grad=False)
def rate_learned(rate, w, x, n: int):
    for _ in range(n):
        w = w.detach().requires_grad_()
        (g,) = grad(torch.tanh(x @ w).pow(2).sum(), w, create_graph=True)
        w = w - rate * g
    w.pow(2).sum().backward()
    return rate.grad


# --- what requires a gradient, known only at run time -------------------------------------------------------------


@program((t(3), torch.ones(3)), (t(3), -torch.ones(3)))
def loss_of_one_side(w, x):
    if x.sum() > 0:
        loss = (w * x).sum()
    else:
        loss = (x.detach() * 2).sum()
    loss.backward()
    return w.grad


@program((t(3), t(3), 2), (t(3), t(3), 0))
def gradient_of_one_side(w, x, n: int):
    y = w * x if n > 1 else x.detach() + 1
    return grad(y.sum(), w)


@program((t(3), t(3), 2), (t(3), t(3), 3), (t(3), t(3), 0), (t(3), t(3), 5))
def history_of_a_loop(w, x, n: int):
    a = x.detach()
    k = 0
    while k < n:
        b = a
        if k == 2:
            b = w * a
        a = b + 1
        k += 1
    y = a * 2
    return y, y.requires_grad, "with" if a.requires_grad else "without"


@program((t(3), t(3), 2), (t(3), t(3), 3), (t(3), t(3), 0), (t(3), t(3), 5))
def history_of_items(w, x, n: int):
    a = x.detach()
    rows = [a * k if k % 2 else w * k for k in range(n)]
    return rows, [(r.requires_grad, r.is_leaf) for r in rows]


@program((t(3), t(3), 2), (t(3), t(3), 3))
def made_by_an_operation(w, x, n: int):
    y = w * 2 if n % 2 else x.detach() * 2
    return y, "made" if y.grad_fn is not None else "a constant", x.grad_fn is None


@program((t(3), t(3), 1), (t(3), t(3), 2), (t(3), t(3), 3))
def history_of_what_may_be_none(w, x, n: int):
    y = None
    if n > 1:
        y = x.detach() * 1
        if n > 2:
            y = w * 1
    return y


@program((t(3),), (t(3, seed=1),))
def history_of_a_leaf_inside(x):
    v = x.detach().clone().requires_grad_()
    return v * 2


@program((t(3), torch.zeros(3), 3), (t(3), torch.zeros(3), 1))
def history_of_what_is_written(w, x, n: int):
    y = x.detach().clone()
    if n > 2:
        y += w
    y *= 2
    return y, y.requires_grad


test_programs = suite(PROGRAMS)

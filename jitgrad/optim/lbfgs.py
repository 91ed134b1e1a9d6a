"""L-BFGS: a quasi-Newton method on all parameters as one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Optimizer, Params, require_rate

Evaluate = Callable[[float], tuple[float, Tensor]]


def _cubic(x1: float, f1: float, g1: float, x2: float, f2: float, g2: float,
           bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two points with slopes, in bounds (by default between the points)."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = float(square ** 0.5)
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(place, low), high)


class _Point:
    """A place on the search line: step, loss, gradient, slope."""

    __slots__ = ("f", "g", "slope", "t")

    def __init__(self, t: float, f: float, g: Tensor, slope: float):
        self.t, self.f, self.g, self.slope = t, f, g, slope


def _strong_wolfe(evaluate: Evaluate, t: float, d: Tensor, f: float, g: Tensor, slope: float, c1: float = 1e-4,
                  c2: float = 0.9, tolerance_change: float = 1e-9,
                  max_ls: int = 25) -> tuple[float, Tensor, float, int]:
    """A step with enough decrease and a small slope: (loss, gradient, step, evaluations).

    Source: Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6.
    """
    scale = float(d.abs().max())

    def at(step: float) -> _Point:
        loss, gradient = evaluate(step)
        return _Point(step, loss, gradient, float(gradient.dot(d)))

    start = _Point(0.0, f, g, slope)
    before, new = start, at(t)
    evaluations, turns, done = 1, 0, False
    bracket: list[_Point] = []
    while turns < max_ls:
        if new.f > f + c1 * new.t * slope or (turns > 1 and new.f >= before.f):
            bracket = [before, new]
            break
        if abs(new.slope) <= -c2 * slope:
            bracket, done = [new], True
            break
        if new.slope >= 0:
            bracket = [before, new]
            break
        low, high = new.t + 0.01 * (new.t - before.t), new.t * 10
        following = _cubic(before.t, before.f, before.slope, new.t, new.f, new.slope, (low, high))
        before, new = new, at(following)
        evaluations, turns = evaluations + 1, turns + 1
    if turns == max_ls:
        bracket = [start, new]

    slow = False
    low_at = 0 if len(bracket) == 1 or bracket[0].f <= bracket[-1].f else 1
    while not done and turns < max_ls:
        left, right = min(b.t for b in bracket), max(b.t for b in bracket)
        if (right - left) * scale < tolerance_change:
            break
        a, b = bracket
        t = _cubic(a.t, a.f, a.slope, b.t, b.f, b.slope)
        edge = 0.1 * (right - left)
        if min(right - t, t - left) < edge:  # too near to an end: give it one more chance, then keep away
            if slow or t >= right or t <= left:
                t = right - edge if abs(t - right) < abs(t - left) else left + edge
                slow = False
            else:
                slow = True
        else:
            slow = False
        new = at(t)
        evaluations, turns = evaluations + 1, turns + 1
        if new.f > f + c1 * new.t * slope or new.f >= bracket[low_at].f:
            bracket[1 - low_at] = new
            low_at = 0 if bracket[0].f <= bracket[1].f else 1
        else:
            if abs(new.slope) <= -c2 * slope:
                done = True
            elif new.slope * (bracket[1 - low_at].t - bracket[low_at].t) >= 0:
                bracket[1 - low_at] = bracket[low_at]
            bracket[low_at] = new
    best = bracket[low_at] if len(bracket) > 1 else bracket[0]
    return best.f, best.g, best.t, evaluations


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last changes of parameters and gradients; `step` needs a closure.

    Source: Liu and Nocedal, "On the Limited Memory BFGS Method for Large Scale Optimization", 1989.

    Args:
        params: tensors; one group only.
        lr: the first step of each line search, or the step where there is none.
        max_iter: iterations in one `step`.
        max_eval: calls of the closure in one `step`, 1.25 max_iter by default.
        tolerance_grad: stop where no gradient is larger.
        tolerance_change: stop where neither parameters nor loss change more.
        history_size: how many changes are kept.
        line_search_fn: None or "strong_wolfe".

    Raises:
        ValueError: a negative lr, or several groups.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        require_rate(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, {"lr": lr, "max_iter": max_iter, "max_eval": max_eval,
                                  "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                                  "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        return jitgrad.cat([(jitgrad.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params])

    def _move(self, t: float, d: Tensor) -> None:
        start = 0
        for p in self._params:
            p.add_(d[start : start + p.numel()].view_as(p), alpha=t)
            start += p.numel()

    def _along(self, evaluate: Callable[[], Any], d: Tensor) -> Evaluate:
        """Loss and gradient at a step along d; the parameters end where they were."""
        places = [p.detach().clone() for p in self._params]

        def at(t: float) -> tuple[float, Tensor]:
            self._move(t, d)
            loss = float(evaluate())
            gradient = self._gradient()
            for p, place in zip(self._params, places, strict=True):
                p.copy_(place)
            return loss, gradient

        return at

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterate; the loss before. `closure` clears the gradients, computes the loss, calls backward, returns it."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        evaluate = jitgrad.enable_grad()(closure)
        with jitgrad.no_grad():
            return self._iterate(evaluate)

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        original = evaluate()
        loss, evaluations = float(original), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return original
        d, t = state.get("d"), state.get("t")
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            d = self._direction(state, gradient, d, t, group["history_size"])
            state["prev_flat_grad"] = gradient.clone()
            before = loss
            t = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(gradient.dot(d))
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                loss, gradient, t, calls = _strong_wolfe(self._along(evaluate, d), t, d, loss, gradient, slope)
                self._move(t, d)
            else:
                self._move(t, d)
                if iterations != group["max_iter"]:
                    loss = float(evaluate())
                    gradient, calls = self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            if (evaluations >= group["max_eval"] or float(gradient.abs().max()) <= group["tolerance_grad"]
                    or float((d * t).abs().max()) <= group["tolerance_change"]
                    or abs(loss - before) < group["tolerance_change"]):
                break
        state.update(d=d, t=t, prev_loss=before)
        return original

    @staticmethod
    def _direction(state: dict[str, Any], gradient: Tensor, d: Tensor | None, t: float | None, size: int) -> Tensor:
        """Minus the inverse Hessian's estimate times the gradient: the two-loop recursion."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        changes, moves, factors = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = gradient - state["prev_flat_grad"], d * t  # type: ignore[operator]
        curvature = float(y.dot(s))
        if curvature > 1e-10:
            if len(changes) == size:
                for kept in (changes, moves, factors):
                    kept.pop(0)
            changes.append(y)
            moves.append(s)
            factors.append(1.0 / curvature)
            state["H_diag"] = curvature / float(y.dot(y))
        q = -gradient
        weights = state.setdefault("al", [None] * size)
        for i in range(len(changes) - 1, -1, -1):
            weights[i] = float(moves[i].dot(q)) * factors[i]
            q = q - changes[i] * weights[i]
        r: Tensor = q * state["H_diag"]
        for i in range(len(changes)):
            r = r + moves[i] * (weights[i] - float(changes[i].dot(r)) * factors[i])
        return r

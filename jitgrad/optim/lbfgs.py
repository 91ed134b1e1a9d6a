"""L-BFGS: a quasi-Newton method on all parameters as one vector.

Everything here is in the subset of Python that `@script` compiles, the line search and its data-dependent exits too.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Optimizer, Params, options, require_rate

Closure = Callable[[], Any]


class _History(NamedTuple):
    """Changes of the gradient, [rows, n], of the parameters, and one over the products of the two, [rows].

    Rows are written in turns: row k % rows is number k of those that are kept, and one row is free.
    """

    changes: Tensor
    moves: Tensor
    factors: Tensor


class _Point(NamedTuple):
    """A place on the search line: step, loss, gradient, slope."""

    t: float
    f: float
    g: Tensor
    slope: float


def _cubic(x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, low: float, high: float) -> float:
    """The minimum in [low, high] of the cubic through two points with slopes."""
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    top, bottom = (g2 + d2 - d1, g2 - g1 + 2 * d2) if x1 <= x2 else (g1 + d2 - d1, g1 - g2 + 2 * d2)
    part = top / bottom if bottom != 0 else top * math.inf
    place = x2 - (x2 - x1) * part if x1 <= x2 else x1 - (x1 - x2) * part
    return min(max(place, low), high)


def _inside(a: _Point, b: _Point, slow: bool) -> tuple[float, bool]:
    """Where to look next between two points; whether that is near to one of them, which is allowed once in a row."""
    left, right = min(a.t, b.t), max(a.t, b.t)
    t = _cubic(a.t, a.f, a.slope, b.t, b.f, b.slope, left, right)
    edge = 0.1 * (right - left)
    if min(right - t, t - left) >= edge:
        return t, False
    if slow or t >= right or t <= left:
        return right - edge if abs(t - right) < abs(t - left) else left + edge, False
    return t, True


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
        super().__init__(params, options(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        found: list[Tensor] = self.param_groups[0]["params"]
        return found

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        params = group["params"]
        if p is not params[0]:  # all state is the first parameter's
            return {}
        nothing = jitgrad.cat([jitgrad.zeros_like(q).detach().reshape(-1) for q in params])
        return {"func_evals": 0, "n_iter": 0, "d": nothing, "t": 0.0, "prev_flat_grad": nothing.clone(),
                "prev_loss": 0.0, "H_diag": 1.0, **_ring([], [], [], nothing, group["history_size"])}

    def _gradient(self) -> Tensor:
        return jitgrad.cat([(jitgrad.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params])

    def _move(self, t: float, d: Tensor) -> None:
        start = 0
        for p in self._params:
            p.add_(d[start : start + p.numel()].view_as(p), alpha=t)
            start += p.numel()

    def _at(self, closure: Closure, t: float, d: Tensor) -> _Point:
        """Loss and gradient at a step along d; the parameters end where they were."""
        places = [p.detach().clone() for p in self._params]
        self._move(t, d)
        with jitgrad.enable_grad():
            loss = float(closure())
        gradient = self._gradient()
        for p, place in zip(self._params, places, strict=True):
            p.copy_(place)
        return _Point(t, loss, gradient, float(gradient.dot(d)))

    def _strong_wolfe(self, closure: Closure, t: float, d: Tensor, start: _Point, c1: float = 1e-4, c2: float = 0.9,
                      tolerance_change: float = 1e-9, max_ls: int = 25) -> tuple[_Point, int]:
        """A step along d with enough decrease and a small slope, and how many times the loss was computed.

        Steps grow until two of them bracket such a step; then the bracket shrinks.
        Source: Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6.
        """
        scale = float(d.abs().max())
        before, a, b = start, start, start  # a and b are the bracket
        found, shrinking, slow, a_is_low = False, False, False, True
        evaluations, turns = 0, 0
        while True:
            new = self._at(closure, t, d)
            evaluations += 1
            too_high = new.f > start.f + c1 * new.t * start.slope
            flat = abs(new.slope) <= -c2 * start.slope
            if shrinking:
                low, other = (a, b) if a_is_low else (b, a)
                if too_high or new.f >= low.f:
                    a, b = (a, new) if a_is_low else (new, b)
                    a_is_low = a.f <= b.f
                else:
                    found = flat
                    if not flat and new.slope * (other.t - low.t) >= 0:
                        other = low
                    a, b = (new, other) if a_is_low else (other, new)
            elif turns == max_ls:
                a, b, a_is_low, shrinking = start, new, start.f <= new.f, True
            else:
                bad = too_high or (turns > 1 and new.f >= before.f)
                if flat and not bad:
                    return new, evaluations
                if bad or new.slope >= 0:
                    a, b, a_is_low, shrinking = before, new, before.f <= new.f, True
                else:
                    t = _cubic(before.t, before.f, before.slope, new.t, new.f, new.slope,
                               new.t + 0.01 * (new.t - before.t), new.t * 10)
                    before, turns = new, turns + 1
            if shrinking:
                if found or turns >= max_ls or abs(b.t - a.t) * scale < tolerance_change:
                    return (a if a_is_low else b), evaluations
                t, slow = _inside(a, b, slow)
                turns += 1

    def step(self, closure: Closure | None = None) -> Any:
        """Iterate; the loss before. `closure` clears the gradients, computes the loss, calls backward, returns it."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with jitgrad.no_grad():
            return self._iterate(closure)

    def _iterate(self, closure: Closure) -> Any:
        group = self.param_groups[0]
        state = self._state_of(self._params[0], group)
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else float(group["lr"])
        search = group["line_search_fn"]
        with jitgrad.enable_grad():
            original = closure()
        loss, evaluations = float(original), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return original
        d, t, before = state["d"], state["t"], state["prev_loss"]
        history = _History(state["old_dirs"], state["old_stps"], state["ro"])
        if jitgrad.jit.is_scripting():  # a compiled step writes these once, when it ends
            history = _History(history.changes.clone(), history.moves.clone(), history.factors.clone())
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            d = self._direction(state, history, gradient, d, t)
            state["prev_flat_grad"] = gradient.clone()
            before = loss
            t = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(gradient.dot(d))
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                best, calls = self._strong_wolfe(closure, t, d, _Point(0.0, loss, gradient, slope))
                loss, gradient, t = best.f, best.g, best.t
                self._move(t, d)
            else:
                self._move(t, d)
                if iterations != group["max_iter"]:
                    with jitgrad.enable_grad():
                        loss = float(closure())
                    gradient, calls = self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            if (evaluations >= group["max_eval"] or float(gradient.abs().max()) <= group["tolerance_grad"]
                    or float((d * t).abs().max()) <= group["tolerance_change"]
                    or abs(loss - before) < group["tolerance_change"]):
                break
        state["d"], state["t"], state["prev_loss"] = d, t, before
        state["old_dirs"], state["old_stps"], state["ro"] = history
        return original

    @staticmethod
    def _direction(state: dict[str, Any], history: _History, gradient: Tensor, d: Tensor, t: float) -> Tensor:
        """Minus the inverse Hessian's estimate times the gradient: the two-loop recursion."""
        changes, moves, factors = history
        if state["n_iter"] == 1:
            state["kept"], state["H_diag"] = 0, 1.0
        rows = changes.shape[0]
        y, s = gradient - state["prev_flat_grad"], d * t
        curvature = float(y.dot(s))
        place = state["kept"] % rows  # a free row; it is written in any case, which costs a compiled step no branch
        changes[place], moves[place], factors[place] = y, s, 1.0 / max(curvature, 1e-10)
        if curvature > 1e-10:
            state["kept"], state["H_diag"] = state["kept"] + 1, curvature / float(y.dot(y))
        last = state["kept"]
        first = max(last - rows + 1, 0)
        q = -gradient
        weights = jitgrad.zeros_like(factors)
        for k in range(last - 1, first - 1, -1):
            i = k % rows
            weights[i] = moves[i].dot(q) * factors[i]
            q = q - changes[i] * weights[i]
        r: Tensor = q * state["H_diag"]
        for k in range(first, last):
            i = k % rows
            r = r + moves[i] * (weights[i] - changes[i].dot(r) * factors[i])
        return r

    def state_dict(self) -> dict[str, Any]:
        """As torch's: the history as lists, the oldest first."""
        found = super().state_dict()
        found["state"] = {k: _listed(v) for k, v in found["state"].items()}
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for own in self.state.values():
            if isinstance(own.get("old_dirs"), list):
                own.pop("al", None)
                own.update(_ring(own["old_dirs"], own["old_stps"], own["ro"], own["d"],
                                 self.param_groups[0]["history_size"]))


def _ring(changes: list[Tensor], moves: list[Tensor], factors: list[Any], like: Tensor, size: int) -> dict[str, Any]:
    """The history from lists, as the state has it; `like` has the size of a row."""
    changes, moves, factors = changes[-size:], moves[-size:], factors[-size:]
    rows = [jitgrad.zeros(size + 1, like.numel(), dtype=like.dtype, device=like.device) for _ in range(2)]
    scales = jitgrad.zeros(size + 1, dtype=like.dtype, device=like.device)
    for k in range(len(changes)):
        rows[0][k], rows[1][k], scales[k] = changes[k], moves[k], factors[k]
    return {"old_dirs": rows[0], "old_stps": rows[1], "ro": scales, "kept": len(changes)}


def _listed(own: dict[str, Any]) -> dict[str, Any]:
    """The state of one parameter with lists in place of the ring; "al" is scratch memory of torch's."""
    rows = own["old_dirs"].shape[0]
    found = {k: v for k, v in own.items() if k != "kept"}
    for name in ("old_dirs", "old_stps", "ro"):
        found[name] = [own[name][k % rows].clone() for k in range(max(own["kept"] - rows + 1, 0), own["kept"])]
    found["al"] = [None] * (rows - 1)
    return found

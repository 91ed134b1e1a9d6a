"""Lists of run-time length: eager, interpreted and native agree in values, gradients, exceptions, text."""

from __future__ import annotations

import contextlib
import gc
import io
import time
import tracemalloc
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.errors import NotStatic
from tests.script.frontend.containers import list_programs as programs

IDS = [f"{f.__name__}-{i}" for i, (f, _) in enumerate(programs.CALLS)]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, len(value), *(leaf for v in value for leaf in _flat(v))]
    return [value]


def _fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.clone().requires_grad_(a.is_floating_point()) if isinstance(a, torch.Tensor) else a for a in args)


def _loss(result: Any) -> Any:
    total: Any = 0
    for k, t in enumerate(_flat(result)):
        if isinstance(t, torch.Tensor) and t.requires_grad:
            total = total + (k + 1) * (t * torch.arange(t.numel()).reshape(t.shape).cos()).sum()
    return total


def _outcome(function: Any, args: tuple[Any, ...], order: int = 1) -> list[Any]:
    """Leaves of the result (or the exception), gradients, what was printed."""
    args, out = _fresh(args), io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = function(*args)
        except Exception as error:
            if not type(error).__module__ == "builtins":
                raise
            return [type(error), str(error), out.getvalue()]
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    loss, leaves = _loss(result), _flat(result)
    if not isinstance(loss, torch.Tensor):
        return [*leaves, out.getvalue()]
    if order == 1:
        loss.backward()
        return [*leaves, *(a.grad for a in inputs), out.getvalue()]
    grads = torch.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
    again = _loss([None if g is None else g.sin() for g in grads])
    second: Any = [None] * len(inputs)
    if isinstance(again, torch.Tensor):
        second = torch.autograd.grad(again, inputs, allow_unused=True)
    # a gradient that does not depend on the inputs may say so in eager only
    grads = [None if g is None else g.detach() for g in grads]
    return [*grads, *(torch.zeros_like(x) if g is None else g for g, x in zip(second, inputs, strict=True))]


def _same(found: list[Any], expected: list[Any], rtol: float = 1e-9) -> None:
    assert len(found) == len(expected), (found, expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, torch.Tensor), (a, b)
            assert (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad)
            assert torch.allclose(a, b, rtol=rtol, atol=1e-11, equal_nan=True), (a, b)
        else:
            assert type(a) is type(b), (a, b)
            assert a == b


@pytest.mark.parametrize("interpret", [False, True], ids=["native", "interpreted"])
@pytest.mark.parametrize(("function", "args"), programs.CALLS, ids=IDS)
def test_as_eager(function, args, interpret):
    expected, scripted = _outcome(function, args), torch.script(function)
    with config.override(interpret=interpret, verify=2):
        _same(_outcome(scripted, args), expected)


@pytest.mark.sampled("second order")
@pytest.mark.parametrize(("function", "args"), programs.CALLS, ids=IDS)
def test_second_order_as_eager(function, args):
    _same(_outcome(torch.script(function), args, order=2), _outcome(function, args, order=2), rtol=1e-6)


@pytest.mark.parametrize("name", ["stacked", "ragged", "stack_machine", "queue", "attention_over_the_past", "replaced"])
def test_finite_differences(name):
    function, args = next(c for c in programs.CALLS if c[0].__name__ == name)
    scripted = torch.script(function)
    tensors = [a.clone().requires_grad_() for a in args if isinstance(a, torch.Tensor)]
    numbers = [a for a in args if not isinstance(a, torch.Tensor)]

    def run(*given: Any) -> Any:
        result = scripted(*given, *numbers)
        return result[0] if isinstance(result, tuple) else result

    assert torch.autograd.gradcheck(run, tuple(tensors))
    assert torch.autograd.gradgradcheck(run, tuple(tensors))


@pytest.mark.parametrize("name", ["stacked", "ragged", "stack_machine", "queue", "inserted", "replaced"])
def test_forward_mode(name):
    function, (x, n) = next(c for c in programs.CALLS if c[0].__name__ == name)

    def run(v: Any) -> Any:
        result = function(v, n)
        return result[0] if isinstance(result, tuple) else result

    direction = torch.arange(x.numel()).reshape(x.shape).cos().to(x.dtype)
    for a, b in zip(torch.func.jvp(torch.script(run), (x,), (direction,)), torch.func.jvp(run, (x,), (direction,)),
                    strict=True):
        assert torch.allclose(a, b, rtol=1e-9)


def test_code_runs():
    for function, args in ((programs.stacked, (torch.ones(3), 4)), (programs.stack_machine, (torch.ones(11), 11)),
                           (programs.queue, (torch.ones(3), 5))):
        scripted = torch.script(function)
        expected, scope = scripted(*args), {}
        exec(scripted.code, scope)  # generated text
        assert torch.allclose(scope[function.__name__](*args), expected)


def test_saved_and_loaded(tmp_path):
    scripted = torch.script(programs.returned_structure)
    scripted(torch.ones(3), 3)
    torch.jit.save(scripted, tmp_path / "lists.zip")
    loaded = torch.jit.load(tmp_path / "lists.zip")
    a, k, total, again = loaded(torch.ones(3), 5)
    assert (len(a), k, float(total)) == (5, [0.0, 0.5, 1.0, 1.5, 2.0], 3.0)
    assert a is again


def test_backward_inside():
    def step(w: Any, x: Any, n: int) -> Any:
        states, h = [], x
        for _ in range(n):
            h = torch.tanh(h @ w)
            states.append(h)
        loss = torch.stack(states).sum()
        loss.backward()
        return loss

    def gradient(function: Any) -> Any:
        w = torch.full((3, 3), 0.3, requires_grad=True)
        function(w, torch.ones(2, 3), 4)
        return w.grad

    assert torch.allclose(gradient(torch.script(step)), gradient(step), rtol=1e-5)


def test_long_loops_in_segments():
    def gradient(function: Any) -> Any:
        x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        function(x, 50).sum().backward()
        return x.grad

    assert torch.allclose(gradient(torch.script(remat=True)(programs.stacked)), gradient(programs.stacked))


def test_one_program_for_all_lengths():
    scripted = torch.script(programs.stacked)
    for n in (1, 2, 17, 40):
        scripted(torch.ones(3), n)
    assert scripted.cache_info().compilations == 1
    returned = torch.script(programs.returned)
    assert [len(returned(torch.ones(3), n)) for n in (0, 1, 5)] == [0, 1, 5]
    assert returned.cache_info().compilations == 1


def test_an_unreached_gradient_stays_none():
    scripted = torch.script(programs.untouched)
    for n in (2, 6):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        scripted(x, y, n).sum().backward()
        assert (y.grad is None) == (n == 2)


def test_a_sum_of_no_tensors():
    @torch.script
    def total(x, n):
        rows = []
        for k in range(n):
            rows.append(x * k)
        return sum(rows)

    x = torch.ones(3)
    assert total(x, 3).tolist() == [3.0, 3.0, 3.0]
    assert total(x, 0) == 0
    assert total.cache_info().compilations == 1


def test_results_are_new_lists_each_time():
    scripted = torch.script(programs.returned_structure)
    first, second = scripted(torch.ones(2), 3), scripted(torch.ones(2), 3)
    assert first[0] is first[3]
    assert first[0] is not second[0]


def test_backward_in_any_order():
    scripted = torch.script(programs.returned)
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    early, late = scripted(x, 3), scripted(x, 4)
    late[3].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    (early[1] * early[2]).sum().backward(retain_graph=True)
    (early[1] * early[2]).sum().backward()
    assert x.grad.tolist() == [3.0 + 16.0, 3.0 + 24.0]


def _seconds(function: Any, n: int) -> float:
    x = torch.ones(4, requires_grad=True)
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        function(x, n).sum().backward()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("function", [programs.stacked, programs.stack_machine, programs.fibonacci_of_tensors])
def test_time_is_linear(function):
    """Appending, popping and stacking take the same time per item, forward and backward."""
    scripted = torch.script(function)

    def run(x: Any, n: int) -> Any:
        return scripted(x.repeat(n) if function is programs.stack_machine else x, n)

    _seconds(run, 10)
    short, long = _seconds(run, 8000), _seconds(run, 64000)
    assert long < 35 * short + 0.02  # 8 times as long; the square would be 64, and 2 s


def test_no_leaks():
    scripted = torch.script(programs.stack_machine)
    failing = torch.script(programs.popped_too_often)
    listed = torch.script(programs.returned)
    x = torch.ones(11, requires_grad=True)

    def run() -> None:
        scripted(x, 11).backward()
        sum(t.sum() for t in listed(x, 5)).backward()
        with pytest.raises(IndexError):
            failing(x, 3)

    for _ in range(50):
        run()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(300):
            run()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50_000


def test_a_tuple_is_not_repeated_as_often_as_the_run_says() -> None:
    with pytest.raises(NotStatic, match="how often a tuple is repeated"):
        torch.script(lambda n: (n,) * n)(2)

"""`with`: grad modes on every way out, managers written in Python, and scopes that are chosen at run time."""

from __future__ import annotations

import contextlib

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Noted:
    """A manager that says what happens, and swallows one kind of exception."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        print("enter", self.name)
        return self.name

    def __exit__(self, kind, value, traceback):
        print("exit", self.name, kind is None)
        return kind is KeyError


@contextlib.contextmanager
def bracketed(k):
    print("open", k)
    yield k + 1
    print("close", k)


@program((t(3), 1), (t(3), 5))
def what_is_made_in_inference_mode_is_written_there_only(x, k):
    with torch.inference_mode():
        y = x * 2
        y.add_(1)
        z = x.view(3)
    with torch.inference_mode(k > 3):
        w = x + 1
    try:
        if k > 3:
            y[0] = 5.0
        w.mul_(2)
    except RuntimeError as e:
        print(e)
    return y.clone() + w, y.is_inference(), z.is_inference()


@program((t(3),))
def an_inference_tensor_is_not_written_outside(x):
    print("before")
    with torch.inference_mode():
        y = x.exp()
    with torch.no_grad():
        y.view(3, 1).mul_(2)
    return y


@program((t(3), t(2)))
def a_view_made_under_no_grad_is_not_written_where_history_is_kept(x, w):
    y = x * 1
    z = x.detach()
    with torch.no_grad():
        views = [x.view(3), y[:2], y.view(3), z[:2], (x * 2)[:2]]
        views[1] += 1
    for k, v in enumerate(views):
        try:
            v[0].add_(w[0])
            print("written", k)
        except RuntimeError as e:
            print(k, e)
    return y * 2


@program((t(3), 2), (t(3), 5))
def an_unbound_variable_in_a_generator_expression_is_free(x, k):
    if x.sum() > 1000.0:
        y = x
    return sum(y[0] for _ in range(k))


@program((t(3), 2), (t(3), 5))
def an_unbound_variable_in_a_comprehension(x, k):
    if x.sum() > 1000.0:
        y = x
    return [y * j for j in range(2)]


@program((t(3), 2), (t(3), 5))
def the_first_iterable_is_evaluated_outside(x, k):
    if x.sum() > 1000.0:
        y = x
    return [j * 2 for j in y]


@program((t(3), 2), (t(3), 5))
def no_grad_ends_with_its_block(x, k):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
    return a, b, x * k


@program((t(3), True), (t(3), False))
def a_mode_that_the_run_chooses(x, train):
    with torch.set_grad_enabled(train):
        y = x * 2
    return y + 1


@program((t(3), 1), (t(3), 7))
def a_mode_ends_with_an_early_return(x, k):
    for i in range(3):
        with torch.no_grad():
            if i == k:
                return x * i
    return x * 10


@program((t(3), 1), (t(3), 7))
def managers_leave_in_reverse(x, k):
    with Noted("a") as a, Noted("b"), bracketed(k) as m:
        print(a, m)
        y = x * m
    return y


@program((t(3), 1), (t(3), -1))
def a_manager_sees_what_is_raised(x, k):
    with Noted("a"), Noted("b"):
        y = x * k
        if k < 0:
            raise ValueError("negative")
    return y


@program((t(3), 2), (t(3), 0))
def a_manager_sees_a_division_by_zero(x, k):
    with Noted("a"):
        y = x * (4 // k)
    return y


@program((t(3), 2), (t(3), 0))
def a_null_scope_or_a_mode(x, k):
    scope = torch.no_grad() if k > 1 else contextlib.nullcontext()
    with scope:
        y = x * 3
    return y


test_programs = suite(PROGRAMS)

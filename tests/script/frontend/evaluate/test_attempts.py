"""Operations inside a `try` that fail only in some runs: control leaves in the middle of the statement."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Holder:
    def __init__(self, a):
        self.a = a


class Deep(Exception):
    pass


def checked(x, k):
    if k > 2:
        raise ValueError(f"too large: {k}")
    return x * k


def item(xs, k):
    return xs[k] if k >= 0 else 7


def nested(x, k):
    if k % 2 == 0:
        return checked(x, k) + 1
    return checked(x, k + 1)


def deep(x, k, n):
    if n == 0:
        if k > 1:
            raise Deep("deep", k)
        return x
    return deep(x + 1, k, n - 1)


KS = tuple((t(2), k) for k in (0, 1, 2, 3, 4, -1))


@program(*KS)
def raised_by_a_called_function(x, k):
    try:
        y = checked(x, k)
    except ValueError as e:
        print(e)
        y = x
    return y


@program(*KS)
def raised_twice_in_a_statement_of_a_loop(x, k):
    out = []
    for i in range(4):
        try:
            out.append(checked(x, i) + checked(x, i + k))
        except ValueError as e:
            print(i, e)
    return out


@program(*KS)
def an_index_in_a_branch_of_a_called_function(x, k):
    xs = [k, k + 1]
    try:
        return item(xs, k) + item(xs, k - 1)
    except IndexError as e:
        return str(e)


@program(*KS)
def one_of_several_objects_has_no_items(x, k):
    v = Holder(k)
    if k == 0:
        v = "name"
    elif k == 1:
        v = None
    try:
        return v[0]
    except TypeError as e:
        return str(e)


@program(*KS)
def a_list_or_an_object_by_a_run_time_index(x, k):
    v = Holder(k)
    if k == 2:
        v = [3, 4]
    try:
        return v[k]
    except TypeError as e:
        return str(e)
    except IndexError:
        return "index"


@program(*KS)
def branches_in_called_functions_and_every_way_out(x, k):
    r = 0
    try:
        r = nested(x, k).sum() + nested(x, k - 1).sum()
    except ValueError:
        r = x.sum() * 0 - 1
    else:
        r = r + 100
    finally:
        print("done", k)
    return r


@program(*KS)
def an_inner_finally_runs_once(x, k):
    try:
        try:
            return nested(x, k)
        except KeyError:
            return x
        finally:
            print("inner")
    except ValueError:
        return x - 1


@program(*KS)
def an_inner_finally_counts_once_in_a_loop(x, k):
    n = 0
    for i in range(5):
        try:
            try:
                n += 1
                x = checked(x, i + k)
            finally:
                n += 10
        except ValueError:
            continue
        n += 100
    return x, n


@program(*KS)
def a_loop_that_it_ends_and_none_or_a_number(x, k):
    v = 3 if k > 0 else None
    n = 0
    while n < k:
        try:
            n += 1
            x = x + checked(x, n)
        except ValueError:
            break
    try:
        w = v + 1
    except TypeError:
        w = -1
    return x, w


@program(*KS)
def writes_before_it_stay(x, k):
    y = x.clone()
    try:
        y[0] = 5.0
        y += checked(y, k)
        y.mul_(2)
    except ValueError:
        y -= 1
    return y


@program(*KS)
def a_function_that_calls_itself_raises(x, k):
    try:
        return deep(x, k, 3)
    except Deep:
        return x * 0


@program(*KS)
def none_or_text_or_a_tensor(x, k):
    if x.sum() > k:
        try:
            z = checked(x, k)
        except ValueError as e:
            z = str(e)
    else:
        z = None
    return z


@program(*KS)
def the_mode_is_put_back(x, k):
    try:
        with torch.no_grad():
            y = checked(x, k)
    except ValueError:
        y = x
    return y * 1, torch.is_grad_enabled()


@program(*KS)
def classes_and_texts_of_several(x, k):
    try:
        y = checked(x, k) + item([1, 2, 3], k)
    except (ValueError, IndexError) as e:
        y = x
        print(type(e).__name__, e)
    return y


@program(*KS)
def arguments_of_several(x, k):
    try:
        if k > 3:
            raise KeyError(k)
        if k < 0:
            raise KeyError("negative", 2.5)
        if k == 1:
            raise KeyError
    except KeyError as e:
        print(len(e.args), e)
        return x * len(e.args)
    return x


@program(*KS)
def lists_are_changed_or_cleared(x, k):
    xs = [x, x * 2]
    try:
        xs.append(checked(x, k))
        xs.pop(0)
    except ValueError:
        xs.clear()
    return xs


@program(*KS)
def raised_in_a_generator(x, k):
    def numbers():
        for i in range(3):
            yield checked(x, i + k)

    out = []
    try:
        for v in numbers():
            out.append(v)
    except ValueError:
        out.append(None)
    return out


@program((t(3), 2), (t(3), 0))
def the_rest_of_the_block_is_skipped(x, k):
    y = x
    try:
        y = y * (10 // k)
        y = y + 1
    except ZeroDivisionError:
        y = y - 1
    return y


@program((t(3), 1), (t(3), 3), (t(3), 5))
def what_came_before_in_the_statement_stays(x, k):
    seen = [x, x + 1]
    try:
        a = seen.pop() * 2 + [x, x + 1, x + 2][k]
    except IndexError:
        a = x * len(seen)
    return a, seen


@program((t(3), 0), (t(3), 1), (t(3), 2))
def the_first_handler_that_fits(x, k):
    try:
        if k == 1:
            raise KeyError("k")
        y = x * (6 // k)
    except LookupError:
        y = x * 2
    except ArithmeticError as error:
        print(type(error).__name__, error)
        y = x * 3
    else:
        y = x * 4
    return y


@program((t(3), 0), (t(3), 2))
def finally_runs_on_every_way_out(x, k):
    try:
        y = x * (4 // k)
    finally:
        print("out", k)
    return y


@program((t(4), 3), (t(4), 0))
def a_failure_ends_a_loop(x, k):
    total = x * 0
    try:
        for i in range(3):
            total = total + x * (6 // (k - i))
    except ZeroDivisionError:
        total = total - 100
    return total


@program((t(3), 0, 1), (t(3), 1, 0), (t(3), 1, 1))
def an_inner_try_passes_on_what_it_does_not_handle(x, k, m):
    try:
        try:
            y = x * (2 // k)
            z = [x + 1, y][m * 2]
        except ZeroDivisionError:
            z = x - 1
    except IndexError:
        z = x - 2
    return z


test_programs = suite(PROGRAMS)


def test_a_statement_that_called_python_is_not_evaluated_twice() -> None:
    calls: list[int] = []

    @torch.ignore(returns=int)
    def count() -> int:
        calls.append(1)
        return 0

    def f(x: Any, k: int) -> Any:
        try:
            y = x * (count() + 10 // k)
        except ZeroDivisionError:
            y = x
        return y

    scripted = torch.script(f)
    try:
        result = scripted(torch.ones(2), 0)
    except ScriptError:
        assert not calls
    else:
        assert result.tolist() == [1.0, 1.0]
        assert len(calls) == 1


def test_an_error_that_is_not_handled_leaves_the_script() -> None:
    def f(x: Any, k: int) -> Any:
        try:
            y = x * (10 // k)
        except IndexError:
            y = x
        return y

    with pytest.raises(ZeroDivisionError):
        torch.script(f)(torch.ones(2), 0)

"""`raise`, handlers and what they know of the exception, where that is known only at run time."""

from __future__ import annotations

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Trouble(Exception):
    """An exception of a user."""

    def __init__(self, what, k):
        super().__init__(what, k)


@program((t(2), 1), (t(2), -1))
def raised_by_a_branch_and_caught_outside(x, k):
    try:
        if k < 0:
            raise ValueError("negative", k)
        y = x * k
    except ValueError as error:
        print(error.args[0], error.args[1])
        y = x - 1
    return y


@program((t(2), 4), (t(2), 1), (t(2), 0))
def raised_in_a_loop_ends_it(x, n):
    total = x
    for i in range(n):
        if i == 2:
            raise RuntimeError(f"too many: {i} of {n}")
        total = total + i
    return total


@program((t(2), 1), (t(2), 2), (t(2), 3))
def raised_again(x, k):
    try:
        if k > 1:
            raise ValueError(f"value {k}")
        return x + 1
    except ValueError:
        if k > 2:
            raise
        print("handled", k)
    return x * k


@program((t(2), 1), (t(2), 2))
def another_one_instead(x, k):
    try:
        if k > 1:
            raise IndexError(k)
    except IndexError as error:
        raise KeyError("from an index") from error
    return x


@program((t(2), 1), (t(2), 2))
def a_class_of_the_user(x, k):
    if k > 1:
        raise Trouble("k", k)
    return x


@program((t(2), 1), (t(2), 2))
def the_name_is_gone_after_the_handler(x, k):
    error = 7
    try:
        if k > 1:
            raise ValueError
    except ValueError as error:
        print(error)
    return x * error


test_programs = suite(PROGRAMS)


"""Memory that a gradient needs and that is written before it is taken: eager's error, there and nowhere else."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def p(*values):
    return torch.tensor([float(k) for k in values], requires_grad=True)


def v(*values):
    return torch.tensor([float(k) for k in values])


@nasty(lambda: (p(1, 2, 3),), lambda: (p(1, 2),), lambda: (v(1, 2),))
def result_written(x):
    """A result that its own derivative reads is written."""
    y = x.exp()
    y += 1
    return y


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2), v(3, 4)), lambda: (v(1, 2), p(3, 4)))
def factor_written(x, w):
    """Only one factor's gradient needs the other factor."""
    h = x * 1
    y = h * w
    h.add_(1)
    return y


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def not_reached(x, w):
    """The written value is needed by what is not returned."""
    h = x * 1
    y = h * w
    h.add_(1)
    return h, (y > 3).sum().item()


@nasty(lambda: (p(1, 2), v(3, 4)), lambda: (p(1, 2, 3), v(3, 4, 5)))
def argument_written(x, c):
    """The caller's tensor is needed, and written."""
    y = c * x
    c.add_(1)
    return y, c * x


@nasty(lambda: (p(1, 2), v(3, 4), True), lambda: (p(1, 2), v(3, 4), False), lambda: (p(1, 2, 3), v(3, 4, 5), True))
def written_in_a_branch(x, c, f: bool):
    """Whether it is written only the run knows."""
    y = c * x
    if f:
        c.add_(1)
    return y


@nasty(lambda: (p(1, 2), v(3, 4), True), lambda: (p(1, 2), v(3, 4), False))
def saved_in_a_branch(x, c, f: bool):
    """Whether it is needed only the run knows."""
    y = c * x if f else x * 2
    c.mul_(3)
    return y


@nasty(lambda: (p(1, 2), v(3, 4), True), lambda: (p(1, 2), v(3, 4), False))
def saved_here_written_there(x, c, f: bool):
    """No run does both."""
    if f:
        y = c * x
    else:
        c.add_(1)
        y = x * 2
    return y


@nasty(lambda: (p(1, 2), True), lambda: (p(1, 2), False), lambda: (p(1, 2, 3), True))
def one_of_two_results(x, f: bool):
    """Of what two sides made only one is needed."""
    y = x.exp() if f else x + 1
    y += 1
    return y


@nasty(lambda: (p(1, 2), v(3, 4), 3, True), lambda: (p(1, 2), v(3, 4), 0, True), lambda: (p(1, 2), v(3, 4), 3, False))
def written_in_a_loop(x, c, n: int, f: bool):
    """How often it is written only the run knows."""
    y = c * x
    for _ in range(n):
        if f:
            c.add_(1)
    return y


@nasty(lambda: (p(1, 2), v(3, 4), 3), lambda: (p(1, 2), v(3, 4), 2), lambda: (p(1, 2), v(3, 4), 0))
def saved_in_a_loop(x, c, n: int):
    """What every iteration needs is written after the loop, in some runs."""
    y = x * 2
    for _ in range(n):
        y = y + c * x
    if n > 2:
        c.add_(1)
    return y


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2), 0), lambda: (p(1, 2, 3), 2))
def each_iteration_overwrites(x, n: int):
    """Every iteration writes its own result."""
    h = x * 1
    for _ in range(n):
        h = h.tanh()
        h += 1
    return h


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2, 3), 2))
def last_iteration_overwritten(x, n: int):
    """What the last iteration made is written after the loop."""
    h = x * 1
    for _ in range(n):
        h = (h * 2).tanh()
    h[0] = 0
    return h


@nasty(lambda: (p(1, 2),), lambda: (p(1, 2, 3),))
def in_place_of_itself(x):
    """What an operation in place reads of its own memory is copied first."""
    y = x * 2
    y *= y
    y.mul_(x)
    y[0] *= x[1]
    return y.div_(x).pow_(2)


@nasty(lambda: (p(1, 2),), lambda: (p(1, 2, 3),))
def other_part_of_the_memory(x):
    """Versions count for the whole memory: another element was written."""
    y = x * 2
    z = y[0] * x
    y[1] = 3
    return z


@nasty(lambda: (p(1, 2), 0), lambda: (p(1, 2), 1), lambda: (p(1, 2), 2))
def by_another_name(x, k: int):
    """The write goes by a detached name, or is not recorded."""
    y = x * 2
    z = y * x
    if k == 0:
        y.detach().zero_()
    elif k == 1:
        with torch.no_grad():
            y.zero_()
    return z


@nasty(lambda: (p(1, 2), 1), lambda: (p(1, 2, 3), 2))
def sizes_in_the_message(x, n: int):
    """The message says the size of this run."""
    y = x[:n].exp()
    y[0] = 1
    return y


@nasty(lambda: (p(1, 2), v(3, 4), 1), lambda: (p(1, 2, 3), v(3, 4, 5), 3))
def gradient_inside(x, c, n: int):
    """The gradient that the script itself takes needs what was written, in some runs."""
    loss = (x * c).sum()
    if n > 2:
        c.mul_(2)
    (g,) = torch.autograd.grad(loss, x)
    return g


@nasty(lambda: (p(1, 2), v(3, 4), 2), lambda: (p(1, 2, 3), v(3, 4, 5), 3))
def steps_inside(x, c, n: int):
    """Every gradient is taken before its weights are written."""
    w = x.detach().clone().requires_grad_()
    for _ in range(n):
        loss = ((w * c) ** 2).sum()
        (g,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 0.1 * g
    return w * x


@nasty(lambda: (p(1, 2), v(3, 4), 2), lambda: (p(1, 2, 3), v(3, 4, 5), 3))
def items_overwritten(x, c, n: int):
    """The items of a list that the run makes need what was written."""
    rows = []
    for _ in range(n):
        rows.append(c * x)
    c.add_(1)
    return rows


@nasty(lambda: (p(1, 2, 3), v(3, 4, 5)), lambda: (p(1, 2), v(3, 4)))
def what_is_not_needed(x, c):
    """A mask, a sum, a concatenation: their operands may be written."""
    y = x * 1
    z = torch.cat([y, y + c]), y.sum(), y.relu(), y - c, y.t(), y.mean()
    c.zero_()
    with torch.no_grad():
        y.zero_()
    return z[0], z[1], z[2], z[3], z[5]


class Holder:
    def __init__(self, h):
        self.h = h


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 1), lambda: (p(1, 2), 0), lambda: (v(1, 2), 2))
def by_a_name_that_is_bound_again(x, n: int):
    """What holds the written memory has another name in each iteration."""
    held = Holder(x.tanh())
    for _ in range(n):
        held.h *= 0.5
        held = held
    return held.h


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 1), lambda: (p(1, 2), 0))
def by_a_variable_of_the_loop(x, n: int):
    """The first iteration writes to what a gradient needs, the others to what the iteration before it made."""
    h = x.exp()
    for _ in range(n):
        h *= 0.5
        h = h.sin()
    return h


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 0))
def by_a_variable_with_memory_of_its_own(x, n: int):
    """No derivative reads what is written."""
    h = x.exp() + 1
    for _ in range(n):
        h *= 0.5
        h = h + x
    return h


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 0), lambda: (p(1, 2), 1))
def saved_before_a_loop_and_written_after_it(x, n: int):
    """Without an iteration, what is written is what the square has saved."""
    h = [x.tanh()]
    squared = h[0] * h[0]
    for _ in range(n):
        h[0] = x * 2
    h[0] *= 0.5
    return squared + h[0]


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 0), lambda: (p(1, 2), 1))
def saved_in_a_loop_and_written_after_it(x, n: int):
    """By an attribute, which the loop binds anew."""
    held = Holder(x.clone())
    for _ in range(n):
        held.h = x.tanh()
    held.h *= 0.5
    return held.h


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 1), lambda: (p(1, 2, 3), 3))
def by_a_variable_that_only_a_loop_binds(x, n: int):
    """Before the loop there is no such variable."""
    for _ in range(n):
        t = x.tanh()
    t[-1] += 1
    return t + x


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 0), lambda: (p(1, 2), 1))
def by_a_loop_after_the_loop_that_made_it(x, n: int):
    """Each iteration of a loop around begins with what the one before it made, and wrote."""
    t = x * 2
    for _ in range(n):
        for _ in range(n):
            t = x.tanh()
        for _ in range(n):
            t[-1] += 1
    return t


@nasty(lambda: (p(1, 2), 2, True), lambda: (p(1, 2), 0, True), lambda: (p(1, 2), 0, False))
def after_a_loop_in_a_branch(x, n: int, flag: bool):
    """Without an iteration it is what the square needs."""
    t = x.tanh()
    s = t * t
    if flag:
        for _ in range(n):
            t = x * 2
        t[-1] += 1
    return t, s


@nasty(lambda: (p(1, 2), 1), lambda: (p(1, 2), 2), lambda: (p(1, 2), 0))
def items_by_turns(x, n: int):
    """Which items were written the number of iterations says; the message is that of the last one."""
    rows = [x.tanh(), x.exp()]
    for k in range(n):
        rows[k % 2] *= 2
    return rows[0] + rows[1]


@nasty(lambda: (p(1, 2), 2, True), lambda: (p(1, 2), 2, False), lambda: (p(1, 2), 0, True))
def of_the_last_object_of_a_loop(x, n: int, flag: bool):
    """An attribute of one that the loop made, or of the one before it."""
    r = Holder(x.tanh())
    for _ in range(n):
        if flag:
            r = Holder(r.h.exp())
    r.h *= 2
    return r.h


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2), 1), lambda: (p(1, 2), 2))
def in_one_of_the_iterations(x, n: int):
    """What the second iteration made is written there, and needed by all later ones."""
    t = x * 0.1
    for k in range(n):
        u = t.exp()
        if k == 1:
            u += 1
        t = u
    return t


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2), 1), lambda: (p(1, 2), 2))
def by_the_next_iteration(x, n: int):
    """Every iteration first writes what the one before it made."""
    t = x * 0.1
    for _ in range(n):
        t *= 0.5
        t = t.exp()
    return t


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2), 1), lambda: (p(1, 2), 2))
def by_another_name_in_the_loop(x, n: int):
    """Two names of what the iteration made; one of them is written."""
    t = x * 0.1
    for k in range(n):
        t = t.exp()
        u = t
        if k == 1:
            u *= 2
    return t


@nasty(lambda: (p(1, 2), True), lambda: (p(1, 2), False))
def one_of_two_is_written(x, flag: bool):
    """Only the chosen one was overwritten."""
    t, u = x.exp(), x.tanh()
    one = t if flag else u
    one *= 2
    return u * 1


@nasty(lambda: (p(1, 2), True, 2), lambda: (p(1, 2), False, 2), lambda: (p(1, 2), True, 0))
def one_of_two_is_needed(x, flag: bool, k: int):
    """What the product has saved is one of two, and then one of them is written."""
    t, u = x * 2, x * 3
    one = t if flag else u
    z = one * x
    if k == 2:
        t += 1
    return z


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 1), lambda: (p(1, 2), 0))
def names_that_loops_swap(x, n: int):
    """Which of the two is written is known at run time, and so is which is needed."""
    t, u = x.exp(), x.tanh()
    for _ in range(n):
        t, u = u, t
    t *= 2
    return u * 1


@nasty(lambda: (p(1, 2), 2, True), lambda: (p(1, 2), 2, False), lambda: (p(1, 2), 1, True))
def in_a_handler(x, n: int, flag: bool):
    """The handler writes what was made before the exception."""
    t = x * 0.1
    for _ in range(n):
        try:
            t = t.exp()
            if flag:
                raise ValueError("no")
        except ValueError:
            t *= 0.5
    return t


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2), 1), lambda: (p(1, 2), 0))
def by_a_function_in_a_loop(x, n: int):
    """A function writes its argument, which the iteration before it made."""
    def step(a, b):
        a *= b
        return a.tanh()

    t = x * 2
    for k in range(n):
        t = step(t, k)
    return t


@nasty(lambda: (p(1, 2), True), lambda: (p(1, 2), False))
def in_place_of_one_of_several(x, flag: bool):
    """What an operation in place reads of its own memory is copied, by whichever name it has it."""
    t = x * 2
    u = t if flag else x.sin()
    t *= u
    t *= t.detach()
    t.copy_(x if flag else x.sin())
    return t


@nasty(lambda: (p(1, 2),), lambda: (p(1, 2, 3),))
def saved_before_an_operation_in_place(x):
    """What is added to it has been computed before, and is not what the operation itself saves."""
    t = x * 2
    t += t * t
    return t


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2, 3), 3))
def memory_that_is_overwritten_by_itself(x, n: int):
    """The result still requires a gradient, which is zero."""
    t = x * 2
    t.copy_(t.detach())
    return t


@nasty(lambda: (p(1, 2), v(3, 4)), lambda: (v(1, 2), v(3, 4)))
def views_made_while_nothing_is_recorded(x, y):
    """They have no history, though their memory gets one later."""
    with torch.no_grad():
        u, w = y.expand(2), y[0]
    y.copy_(x.tanh())
    return x + u, w * x, u.requires_grad, w.is_leaf


@nasty(lambda: (p(1, 2), 2), lambda: (p(1, 2), 0), lambda: (p(1, 2), 1))
def made_anew_by_a_loop_that_may_end(x, n: int):
    """What an iteration writes was made by the one before it, and no gradient needs that any more."""
    rows = [x.tanh(), x * 2]
    for k in range(2):
        rows[0] = rows[0] * x
        rows[0] *= 0.5
        if k + n == 1:
            return x * 2
        rows[0] = x.exp()
    return rows[0] + rows[1]


@nasty(lambda: (p(1, 2), v(3, 4), 2), lambda: (p(1, 2), v(3, 4), 0))
def written_before_the_operation_in_place(x, c, n: int):
    """What the product has saved is written, in some runs, before an operation in place that would have copied it."""
    t = x * 2
    y = c * t * x
    if n > 1:
        t[0] = 2
    t.copy_(y.tanh())
    return y


@nasty(lambda: (p(1, 2), True), lambda: (p(1, 2), False))
def none_for_a_tensor(x, flag: bool):
    """The function that is given None says so itself, and a method too."""
    one = x * 2 if flag else None
    said = []
    try:
        y = torch.where(x > 0, one, x)
    except TypeError as error:
        said.append(str(error))
        y = x * 3
    try:
        y.copy_(one)
    except TypeError as error:
        said.append(str(error))
    print(said)
    return y


@nasty(lambda: (p(1, 2), v(3, 4), 0), lambda: (p(1, 2), v(3, 4), 1))
def history_of_some_runs(x, y, n: int):
    """What has none saves nothing that could be overwritten."""
    t = y * 1
    if n == 0:
        t[0] = x[1]
    u = t * 2
    t.mul_(t[:])
    return (u + t).sum() + x.sum()


@nasty(lambda: (p(1, 2), v(3, 4), 1), lambda: (p(1, 2), v(3, 4), 0))
def history_from_the_second_iteration_on(x, y, n: int):
    """What is multiplied has one then, so that the other factor is saved."""
    t, u = y * 1, x * 2
    for _ in range(n):
        t.mul_(u[:])
    u.mul_(y)
    return t.sum() + u.sum()


@nasty(lambda: (p(1, 2), v(3, 4), 1), lambda: (p(1, 2), v(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1))
def no_history_in_a_view_made_under_no_grad(x, y, n: int):
    """It raises where what is written has one in this run."""
    t = x * 1
    u = y.view(-1)
    with torch.no_grad():
        if n == 1:
            t = u[:]
    t[0] = t[1]
    return t.sum()


@nasty(lambda: (p(1, 2),), lambda: (p(1, 2, 3),))
def a_view_that_shows_the_same(x):
    """It is another array, so that what was saved of it is overwritten."""
    t = (x * 2).view(-1)
    t.mul_(t.view(-1))
    return t.sum()

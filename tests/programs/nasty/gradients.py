"""Gradients: flags, leaves, detach and no_grad in the middle, backward inside, accumulation, hooks, versions."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


def w(*values):
    return v(*values).requires_grad_()


def with_grad(*values):
    t = w(*values)
    t.grad = torch.ones_like(t)
    return t


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * x * 100


@nasty(lambda: (w(1, 2),), lambda: (v(1, 2),), lambda: (w(3),))
def detach_in_the_middle(x):
    """A detached tensor shares the memory and not the history."""
    d = x.detach()
    y = x * d
    return y, d, y.requires_grad, d.requires_grad, y.is_leaf


@nasty(lambda: (w(1, 2),), lambda: (w(1, 2, 3),))
def update_under_no_grad(x):
    """A leaf may be written where no gradient is recorded."""
    y = (x * x).sum()
    with torch.no_grad():
        x -= 0.1
        z = x * 2
    return y.item(), z, z.requires_grad, (x * 3)


@nasty(lambda: (w(1, 2),), lambda: (v(1, 2),))
def leaf_written_in_place(x):
    """A leaf that requires a gradient may not be written; another may."""
    x.add_(1)
    return x * x


@nasty(lambda: (w(1, 2),), lambda: (w(3, 4, 5),))
def backward_inside(x):
    """backward fills the argument's grad."""
    loss = (x ** 3).sum()
    loss.backward()
    return loss.detach(), x.grad


@nasty(lambda: (with_grad(1, 2),), lambda: (w(1, 2),))
def backward_accumulates(x):
    """backward adds to the grad that is there, in its memory."""
    before = x.grad
    (x * x).sum().backward()
    (x * 3).sum().backward()
    return before is None, x.grad


@nasty(lambda: (with_grad(1, 2),), lambda: (w(1, 2),))
def grad_set_to_none(x):
    """x.grad = None, then a gradient."""
    old = x.grad
    x.grad = None
    (x * 2).sum().backward()
    return old, x.grad


@nasty(lambda: (w(1, 2), w(3, 4)), lambda: (w(1, 2), v(3, 4)))
def unused_has_no_gradient(x, y):
    """A tensor that the loss does not reach keeps None, not zeros."""
    z = (y * 2).sum()
    (x * x).sum().backward()
    return z.requires_grad, y.grad


@nasty(lambda: (w(1, 2), True), lambda: (w(1, 2), False))
def flag_of_one_branch(x, c: bool):
    """requires_grad of a result that depends on the branch."""
    y = x * 2 if c else x.detach() * 2
    return y, y.requires_grad


@nasty(lambda: (w(1, 2), w(3, 4), True), lambda: (w(1, 2), w(3, 4), False))
def branch_reaches_one(x, y, c: bool):
    """The branch that is not taken gives None, not zero."""
    t = x if c else y
    (t * t).sum().backward()
    return x.grad is None, y.grad is None


@nasty(lambda: (v(1, 2),), lambda: (v(3),))
def requires_grad_in_the_middle(x):
    """A tensor that asks for a gradient from now on."""
    y = x * 2
    y.requires_grad_()
    z = (y * y).sum()
    z.backward()
    return y.grad, y.is_leaf, y


@nasty(lambda: (w(1, 2),), lambda: (w(1, 2, 3),))
def gradient_of_a_gradient(x):
    """create_graph."""
    g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    h, = torch.autograd.grad((g * g).sum(), x)
    return g, h


@nasty(lambda: (w(1, 2),), lambda: (w(3, 4),))
def backward_twice(x):
    """A second backward through the same graph raises."""
    y = (x * x).sum()
    y.backward()
    y.backward()
    return x.grad


@nasty(lambda: (w(1, 2),), lambda: (w(3, 4),))
def backward_twice_retained(x):
    """retain_graph."""
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@nasty(lambda: (w(1, 2),), lambda: (w(1, 2, 3),))
def backward_of_a_vector(x):
    """backward of a vector needs a gradient."""
    y = x * x
    y.backward(torch.ones_like(x) * 2)
    return x.grad


@nasty(lambda: (w(1, 2),), lambda: (w(1, 2, 3),))
def backward_of_a_vector_raises(x):
    """backward of a vector without one raises."""
    (x * x).backward()
    return x.grad


@nasty(lambda: (v(1, 2),), lambda: (v(3),))
def backward_without_history(x):
    """backward of what has no history raises."""
    (x * x).sum().backward()
    return x


@nasty(lambda: (w(1, 2), 3), lambda: (w(1, 2), 1))
def steps_of_descent(x, n: int):
    """Each step's gradient is that of the step."""
    for _ in range(n):
        loss = (x * x).sum()
        loss.backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
            x.grad.zero_()
    return loss.detach(), x.grad


@nasty(lambda: (w(1, 2),), lambda: (w(3, 4),))
def written_after_it_was_used(x):
    """A write to a tensor whose value the gradient does not need is no error."""
    y = x * 2
    z = y + 1
    y.mul_(3)
    return z, y


@nasty(lambda: (w(1, 2, 3),), lambda: (w(4, 5),))
def gradient_through_an_in_place_write(x):
    """The part that was overwritten gets no gradient."""
    y = x * 1
    y[0] = 5
    y[1:] *= 2
    return y


@nasty(lambda: (w(1, 2, 3), v(0, 0, 0)), lambda: (w(4, 5), v(1, 1)))
def copied_into_an_argument(x, out):
    """A tensor that needed no gradient needs one after it was written."""
    out.copy_(x * 2)
    return out.sum(), out.requires_grad


@nasty(lambda: (w(1, 2),), lambda: (w(3),))
def custom_function(x):
    """A function with its own backward, which is not the derivative."""
    return Square.apply(x), Square.apply(x.detach()).requires_grad


@nasty(lambda: (w(1, 2),), lambda: (w(3),))
def hook_on_a_tensor(x):
    """A hook changes the gradient that passes."""
    y = x * 2
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward()
    return x.grad


@nasty(lambda: (w(1, 2),), lambda: (w(3),))
def retained_grad(x):
    """retain_grad keeps the gradient of what is no leaf."""
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, x.grad


@nasty(lambda: (w(1, 2),), lambda: (v(1, 2),))
def grad_mode_restored(x):
    """no_grad ends with its block, also by a return from a helper."""
    def quiet(t):
        with torch.no_grad():
            return t * 2

    a = quiet(x)
    with torch.no_grad(), torch.enable_grad():
        b = x * 3
    return a.requires_grad, b.requires_grad, torch.is_grad_enabled(), b + a


@nasty(lambda: (w(0, 1),), lambda: (w(0, 0),))
def derivative_at_the_kink(x):
    """Derivatives of abs, relu, max, sqrt and norm at 0."""
    return x.abs().sum() + torch.relu(x).sum() + x.clamp(0, 1).sum() + x.norm() + torch.maximum(x, x * 0).sum()


@nasty(lambda: (w(1, 1, 0),), lambda: (w(2, 2),))
def ties_share_the_gradient(x):
    """Which of equal elements gets the gradient of max, amax and sort."""
    return x.max() + 10 * x.amax() + 100 * x.sort().values[0]


@nasty(lambda: (w(-1, 4),), lambda: (w(0, 1),))
def where_and_nan(x):
    """The side of a where that is not chosen still spreads its NaN."""
    return torch.where(x > 0, x.sqrt(), torch.zeros_like(x))


@nasty(lambda: (w(1, 2), 0), lambda: (w(1, 2), 3))
def loop_of_no_trips(x, n: int):
    """A loop that does not run leaves a constant without a gradient."""
    y = torch.zeros(2)
    for k in range(n):
        y = y + x * k
    return y, y.requires_grad


@nasty(lambda: (w(1, 2),), lambda: (w(1, 2, 3),))
def leaf_returned(x):
    """The argument itself, a view of it and a copy are returned."""
    return x, x[0], x.clone(), x.view(-1), x.detach()


@nasty(lambda: (w(1, 2), v(1, 0)), lambda: (w(1, 2), v(0, 0)))
def masked_mean(x, mask):
    """Division by a count that may be 0."""
    return (x * mask).sum() / mask.sum().clamp(min=1), (x * mask).sum() / mask.sum()


@nasty(lambda: (lambda t: (t, t))(w(1, 2)), lambda: (w(1, 2), w(1, 2)))
def gradient_of_one_tensor_twice(x, y):
    """Two arguments that are one tensor get the sum of both gradients."""
    return (x * 2 + y * y).sum()


@nasty(lambda: (w(1, 2), 2), lambda: (w(1, 2), 3))
def power_by_the_run(x, n: int):
    """The derivative of x ** n, at n = 0 too."""
    return x ** n, x ** (n - 2), n ** x


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (w(1, 2), v(3, 4), 4), lambda: (w(1, 2), v(3, 4), 0))
def history_of_items(x, y, n: int):
    """Every item of a list is said to require a gradient because one does."""
    rows = []
    for k in range(n):
        rows.append(x * k if k % 2 else y * k)
    for r in rows:
        print(r.requires_grad, r.is_leaf, r.grad_fn is None)
    return rows


@nasty(lambda: ([v(1, 2), w(3, 4)], 3), lambda: ([w(1, 2), v(3, 4), v(1, 1)], 2), lambda: ([v(1, 2), v(3, 4)], 2))
def history_of_given_items(xs, n: int):
    """So is what is made of each item of a list that was given."""
    ys = [x * n for x in xs]
    zs = [xs[k % len(xs)] for k in range(n)]
    return ys, [y.requires_grad for y in ys], [z.requires_grad for z in zs]


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (w(1, 2), v(3, 4), 4), lambda: (w(1, 2), v(3, 4), 0))
def history_of_lists_in_lists(x, y, n: int):
    """So is every item of a table."""
    rows = []
    for k in range(n):
        rows.append([x * j if (k + j) % 2 else y * k for j in range(k + 1)])
    return rows, [[t.requires_grad for t in row] for row in rows]


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (w(1, 2), v(3, 4), 4), lambda: (w(1, 2), v(3, 4), 0))
def history_of_a_list_that_changes(x, y, n: int):
    """Items that are replaced, taken out and moved take their history along."""
    rows = [x * 2]
    for k in range(n):
        if k == 2:
            rows[0] = y * 3
        elif k == 3:
            rows.pop()
        else:
            rows.insert(0, y + k)
    if n > 3:
        rows.reverse()
    print([r.requires_grad for r in rows])
    rows.extend([x.detach() * 2, y * 2])
    return rows, sum(rows).requires_grad


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (w(1, 2), v(3, 4), 4), lambda: (w(1, 2), v(3, 4), 1))
def history_of_maybe_a_list(x, y, n: int):
    """A list that may be None, of items that may be None."""
    rows = None
    if n > 1:
        rows = [x * k if k % 3 == 0 else y * 2 if k % 3 == 1 else None for k in range(n)]
    if rows is None:
        return 0, x
    return [r is not None and r.requires_grad for r in rows], rows


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (w(1, 2), v(3, 4), 4), lambda: (v(1, 2), v(3, 4), 4))
def leaf_of_one_side(x, y, n: int):
    """What is made of a constant on one side of a branch is a leaf."""
    z = x * 2 if n % 2 else y * 2
    made = "a constant" if z.grad_fn is None else "made"
    return z, z.is_leaf, made, (z * 2).is_leaf, z[0].grad_fn is not None


@nasty(lambda: (w(1, 2), v(3, 4), True, 0), lambda: (w(1, 2), v(3, 4), False, 2))
def handed_on_where_nothing_is_recorded(x, y, flag: bool, n: int):
    """A branch and a loop whose other side makes something without history do not take that of x."""
    kept = x
    with torch.no_grad():
        if not flag:
            kept = kept.view(2)
        for _ in range(n):
            x = y[:]
    return kept.sum() + (x * 1).sum()


@nasty(lambda: (w(1, 2), w(3, 4), 2), lambda: (w(1, 2), w(3, 4), 1))
def leaf_that_a_loop_swaps_in(x, y, n: int):
    """The second iteration writes to the argument, a leaf."""
    other = x * 2
    for _ in range(n):
        y, other = other, y
        y.zero_()
    return y.sum()


@nasty(lambda: (v(1, 2), w(3, 4)), lambda: (w(1, 2), w(3, 4)))
def written_to_what_was_detached(x, y):
    """The detached tensor has a history from then on, and x, whose memory it is, has not."""
    h = (x * 2).detach()
    h += y
    u = h[1:]
    u *= y[0]
    return (h * y).sum() + x.sum(), h.requires_grad, u.requires_grad


@nasty(lambda: (v(1, 2), w(3, 4), 3), lambda: (v(1, 2), w(3, 4), 0))
def cut_off_at_every_step(x, y, n: int):
    """Truncated back-propagation: only the last step's sum counts."""
    h = x * 1
    for _ in range(n):
        h = h.detach()
        h += y * h.clone()
        h[0] = y[1]
    return (h * y).sum()


@nasty(lambda: (v(1, 2), w(3, 4)), lambda: (w(1, 2), w(3, 4)))
def argument_written_by_way_of_detach(x, y):
    """The argument's elements change, its history does not."""
    h = x.detach()
    h[0] = y[0]
    return h.sum() + (x * 3).sum()


@nasty(lambda: (torch.ones(3, 1).requires_grad_(), v(0)), lambda: (torch.ones(4, 1).requires_grad_(), v(0)),
       lambda: (torch.ones(4, 1).requires_grad_(), v(2)))
def saved_with_a_size_that_a_branch_makes(x, c):
    """What the gradient reads is of the two parts of a roll, whose sizes only the branch knows."""
    if c.sum() < 0.1:
        return x.sigmoid() + x.roll(1, 0).tanh()
    return None


@nasty(lambda: (w(1, 2), v(3, 4), 2), lambda: (w(1, 2), v(3, 4), 0), lambda: (w(1, 2), w(3, 4), 1))
def leaf_written_after_what_fails(x, y, n: int):
    """What comes first is seen first: the text, an index, another leaf."""
    print(n)
    y[n] += 1
    x *= 0.5
    return x.sum()


@nasty(lambda: (w(1, 2), w(3, 4), 0), lambda: (w(1, 2), w(3, 4), 1))
def through_a_loop_or_past_it(x, y, n: int):
    """The gradient of what the loop made is nothing, of what was before it something."""
    t = x * 2
    u = y.data
    k = (u, y)[n].sum()
    t.zero_()
    h = t[:]
    for _ in range(2):
        if n > 1:
            continue
        t += (t, u)[n]
    if n == 0:
        return t.sum(), k.detach()
    return x.sum(), k.detach(), h


@nasty(lambda: (w(1, 2), v(3, 4), 2, False), lambda: (w(1, 2), v(3, 4), 2, True), lambda: (w(1, 2), v(3, 4), 0, True))
def factors_in_place_by_turns(x, y, n: int, flag: bool):
    """The gradient of the result alone; the argument has a history, too, where the run comes there."""
    t = x * 2
    if flag:
        for _ in range(n):
            y.mul_(t)
            t = t * y.clone()
    return t.sum()


@nasty(lambda: (w(1, -2), 2), lambda: (w(1, -2), 3))
def what_one_of_two_results_needs(x, n: int):
    """The gradient of the sum alone, in a loop that may end early: it is compiled after that of both."""
    y = x.clone()
    a, b = x * 1, y
    for k in range(2):
        y.zero_()
        if n == 3:
            break
        y[k] += 1
        a, b = b, a
    return b.sum(), b

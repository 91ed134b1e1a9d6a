"""Tensors that are one another, or show one another's memory, and writes that all of them see."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


def m(rows=2, columns=3):
    return torch.arange(float(rows * columns)).reshape(rows, columns)


def twice(x):
    return x, x


@nasty(lambda: twice(v(1, 2)), lambda: (v(1, 2), v(1, 2)), lambda: twice(v(1, 2, 3)))
def same_argument_twice(x, y):
    """The write to x is not seen through y, which is the same object."""
    x.add_(1)
    return y * 2


@nasty(lambda: (v(1, 2), v(3, 4), True), lambda: (v(1, 2), v(3, 4), False), lambda: (*twice(v(1, 2)), False))
def chosen_and_written(x, y, c: bool):
    """The chosen tensor is a copy, so the write is lost."""
    t = x if c else y
    t.add_(10)


@nasty(lambda: (v(1, 2), v(3, 4), 3), lambda: (v(1, 2), v(3, 4), 4), lambda: (*twice(v(1, 2)), 1))
def swapped_by_a_loop(x, y, n: int):
    """After an odd number of swaps the write reaches the wrong tensor."""
    for _ in range(n):
        x, y = y, x
    x.mul_(3)
    return x, y


@nasty(lambda: (v(1, 2), v(3, 4), v(5, 6), 4), lambda: (v(1, 2), v(3, 4), v(5, 6), 2))
def rotated_by_a_loop(x, y, z, n: int):
    """Three references that rotate are merged one by one."""
    for k in range(n):
        x, y, z = y, z, x
        x.add_(k)
    return z


@nasty(lambda: (m(),), lambda: (m(3, 3),))
def views_of_views(x):
    """A write through a view of a view does not reach the base."""
    a = x[:2]
    b = a[:, 1:]
    b[0].fill_(9)
    a[1, 0] = 7
    return b


@nasty(lambda: (m(2, 2),), lambda: (m(3, 3),))
def transposed_write(x):
    """A write through a transposed view lands untransposed."""
    t = x.t()
    t[0, 1] = 50
    t[1].add_(100)
    return t


@nasty(lambda: (m(2, 2),), lambda: (m(3, 3),))
def matrix_plus_its_transpose(x):
    """x += x.t() reads what it has already overwritten."""
    x += x.t()
    return x


@nasty(lambda: (v(1, 2, 3, 4, 5),), lambda: (v(1, 2),))
def shifted_onto_itself(x):
    """Overlapping source and target of a copy are walked in the wrong order."""
    x[1:] = x[:-1].clone()
    x[:-1] += x[1:]
    return x


@nasty(lambda: (v(1, 2, 3),), lambda: (v(4, 5),))
def result_is_the_argument(x):
    """A result that is an argument comes back as a copy."""
    y = x
    y += 1
    return y, x, [y]


@nasty(lambda: (v(1, 2, 3, 4),), lambda: (v(1, 2, 3, 4, 5, 6),))
def result_is_a_view(x):
    """A returned view does not share memory with the argument it shows."""
    h = x.view(-1, 2)
    return h, h[1:], x[::2]


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def expanded_and_returned(x):
    """An expanded result is filled out, so it has memory of its own."""
    return x.expand(3, -1), x.unsqueeze(0)


@nasty(lambda: (v(1, 2, 3),), lambda: (v(1,),))
def base_written_under_an_expanded_view(x):
    """A zero-stride view that was computed early is stale after the write to its base."""
    e = x.unsqueeze(1).expand(-1, 4)
    s = e.sum()
    x.mul_(2)
    return s, e.sum(), e[0]


@nasty(lambda: (v(1, 2, 3, 4),), lambda: (v(1, 2, 3, 4, 5, 6),))
def two_halves_of_one_tensor(x):
    """Writes through two disjoint views are ordered as if they were one."""
    n = x.shape[0] // 2
    a, b = x[:n], x[n:]
    a.add_(b)
    b.sub_(a)
    return a, b


@nasty(lambda: (v(3, 1, 2),), lambda: (v(5, 4, 9),))
def swap_of_elements(x):
    """x[0], x[1] = x[1], x[0] swaps nothing, for both are views: eager does not either."""
    x[0], x[1] = x[1], x[0]
    return x


@nasty(lambda: (m(3, 2),), lambda: (m(4, 2),))
def swap_of_cloned_rows(x):
    """A clone is taken after the first of two writes."""
    x[0], x[-1] = x[-1].clone(), x[0].clone()
    return x[0]


@nasty(lambda: (m(3, 2), [0, 2]), lambda: (m(4, 2), [1, 1]))
def index_list_is_a_copy(x, rows):
    """Indexing by a list makes a copy: writing it must not reach x."""
    picked = x[rows]
    picked.zero_()
    x[rows] += 1
    return picked


@nasty(lambda: (v(1, -2, 3),), lambda: (v(-1, -2),))
def mask_is_a_copy(x):
    """x[x > 0].add_(1) changes nothing, x[x > 0] += 1 does."""
    x[x > 0].add_(100)
    x[x > 0] += 1
    return x.sum()


@nasty(lambda: (m(2, 4),), lambda: (m(4, 2),))
def reshape_that_copies(x):
    """reshape of a transposed tensor is a copy, that of a contiguous one a view."""
    a = x.t().reshape(-1)
    b = x.reshape(-1)
    a.zero_()
    b[0] = 5
    return a, b


@nasty(lambda: (m(2, 4),), lambda: (m(3, 3),))
def contiguous_is_the_same_tensor(x):
    """contiguous, float and to give the tensor itself where nothing is to be done."""
    a = x.contiguous()
    b = x.float()
    c = x.to(torch.float64)
    a.add_(1)
    return a is x, b, c


@nasty(lambda: ([v(1, 2), v(3, 4)],), lambda: ([v(1, 2), v(3, 4), v(5, 6)],))
def list_item_written_in_place(xs):
    """xs[0] += 1 stores a new tensor in the list."""
    first = xs[0]
    xs[0] += 1
    xs[-1] = xs[-1] + 1
    return first


@nasty(lambda: (lambda t: ([t, t],))(v(1, 2)), lambda: ([v(1, 2), v(1, 2)],))
def list_of_one_tensor_twice(xs):
    """Two items of an argument list are taken for different tensors."""
    xs[0].add_(1)
    return xs[1] * 2, xs[0] is xs[1]


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def list_multiplied(x):
    """[x] * 3 holds one tensor three times."""
    xs = [x] * 3
    xs[0].add_(1)
    xs[1] = xs[1] + 1
    return xs


@nasty(lambda: (3,), lambda: (4,))
def rows_of_one_list(n: int):
    """[[0] * n] * 2 holds one row twice."""
    rows = [[0] * 3] * 2
    rows[0][1] = n
    return rows


@nasty(lambda: ({"a": v(1, 2)},), lambda: ({"a": v(1, 2, 3)},))
def alias_of_a_dict_value(d):
    """A value that is stored under two keys becomes two tensors."""
    d["b"] = d["a"]
    d["b"].add_(1)
    d["c"] = d["a"][0]
    return d["a"]


@nasty(lambda: (v(1, 2), 0), lambda: (v(1, 2), 2))
def list_aliased_by_a_branch(x, n: int):
    """The list that one branch made an alias of another is appended to as a copy."""
    a = [x]
    b = a if n > 1 else [x]
    b.append(x * n)
    return len(a), a, b


@nasty(lambda: (m(3, 2),), lambda: (m(5, 2),))
def rows_of_a_loop_are_views(x):
    """The loop's row is a copy of the row."""
    for k, row in enumerate(x):
        row.mul_(k)
    return x


@nasty(lambda: (m(3, 4), True), lambda: (m(3, 4), False))
def view_chosen_of_one_base(x, c: bool):
    """Two views of one base are chosen from and written."""
    w = x[0] if c else x[:, 0][:2]
    w.fill_(-1)
    return x[0, 0]


@nasty(lambda: (v(1, 2, 3),), lambda: (v(4, 5, 6),))
def diagonal_of_a_new_matrix(x):
    """A write to the diagonal's view is lost."""
    a = torch.zeros(3, 3)
    a.diagonal().copy_(x)
    a.diagonal()[0] += 10
    return a


@nasty(lambda: (m(2, 6),), lambda: (m(3, 6),))
def chunks_written(x):
    """chunk, split and unbind give views, and a write to one reaches x."""
    a, b = x.chunk(2, dim=1)
    a += b
    for piece in x.split(2, dim=1):
        piece[0, 0] = 0
    x.unbind(0)[1].neg_()
    return b


@nasty(lambda: (m(2, 3),), lambda: (m(1, 3),))
def squeeze_is_a_view_or_the_like(x):
    """squeeze of nothing is a new tensor over the same memory."""
    s = x.squeeze(0)
    s.add_(1)
    return s, s is x


@nasty(lambda: (v(1, 2), v(1, 2)), lambda: twice(v(1, 2)))
def identity_decides(x, y):
    """`is` between arguments is decided once and for all."""
    if x is y:
        return x
    y.zero_()
    return x + y


@nasty(lambda: (v(1, 2, 3),), lambda: (v(1, 2, 3, 4),))
def running_sum_in_place(x):
    """A prefix sum written in place runs in parallel."""
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]
    return x[-1]


@nasty(lambda: (v(1, 2), None), lambda: (v(1, 2), v(3, 4)), lambda: twice(v(1, 2)))
def default_that_is_an_argument(x, y):
    """`y or x` by identity: the tensor that stands in is x itself."""
    y = x if y is None else y
    y.sub_(1)
    return y


@nasty(lambda: (m(3, 2),), lambda: (m(2, 2),))
def last_row_written_after_a_loop(x):
    """The loop variable is a view of the argument after the loop, too."""
    for row in x:
        pass
    row.add_(1)
    return row


@nasty(lambda: (m(3, 2), 4.0), lambda: (m(2, 2), 0.0), lambda: (m(4, 2), 99.0))
def row_that_a_loop_stopped_at(x, s: float):
    """The row at which a search ended is written, and x with it."""
    for row in x:
        if row.sum() > s:
            break
    row.mul_(10)
    return row


@nasty(lambda: (torch.ones(3, 2), torch.zeros(2, 2), 1), lambda: (torch.ones(3, 2), torch.zeros(2, 2), 0))
def rows_of_one_of_two_are_written(x, y, n: int):
    """A loop over what the run chose goes over the tensor itself."""
    v = x if n > 0 else y
    for row in v:
        row.add_(1)
    for k, (a, b) in enumerate(zip(v, x)):
        a += b * k
    next(iter(v)).mul_(5)
    return x.sum(), y.sum()


@nasty(lambda: (torch.arange(4.0).reshape(2, 2) - 2, torch.zeros(2, 2) - 1, 1),
       lambda: (torch.arange(4.0).reshape(2, 2) - 2, torch.zeros(2, 2) - 1, 0))
def functions_write_one_of_two(x, y, n: int):
    """What a function of the library writes, or gives a view of, is the chosen tensor and no copy of it."""
    v = x if n > 0 else y
    torch.nn.functional.relu_(v)
    torch.transpose(v, 0, 1)[0].add_(3)
    torch.add(v, 1, out=v)
    torch.nn.functional.dropout(v, 0.5, False).mul_(2)
    a, b = v
    a -= b
    return x, y


@nasty(lambda: (m(3, 2).requires_grad_(),), lambda: (m(2, 2),))
def one_view_returned_twice(x):
    """A view is an object, too."""
    a, y = x[0], x * 2
    b = y[1]
    return a, [a, x[0]], {"b": b, "y": y}, b


class Held:
    def __init__(self, h, n):
        self.h, self.n = h, n


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def written_by_another_name_in_a_loop_in_a_loop(x, n: int):
    """The inner loop's variable is bound anew in each iteration, and is what another name refers to all the time."""
    one = Held(x * 1, 0)
    other = one
    for _ in range(n):
        for _ in range(2):
            other.h *= 0.5
            other.n += 1
            other = other
    return one.h, one.n, one is other


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def argument_written_in_a_loop_in_a_loop(x, n: int):
    """The memory that is written in one of two branches is an argument's."""
    held = Held(x.detach(), 0)
    for _ in range(n):
        for _ in range(2):
            if n > 1:
                held = held
            else:
                held.h *= 0.5
    return x.sum()


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def changed_around_a_loop_that_looks(x, n: int):
    """An attribute is a constant before the outer loop, and not when its second iteration gets to the inner one."""
    held = Held(x * 1, 0) if n else None
    for _ in range(2):
        for _ in range(2):
            if held is not None:
                pass
        held.n += 1
    return x * held.n


@nasty(lambda: (v(1, 2), v(3, 4), 0), lambda: (v(1, 2), v(3, 4), 1))
def a_loop_that_raises_at_once(x, y, n: int):
    """What comes after it has seen no iteration: x is the argument."""
    for k in range(n):
        x, y = y, x
        raise ValueError(k)
    return [x, y]


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0))
def list_in_an_object_that_a_loop_hands_on(x, n: int):
    """Only the object has two names, and what is written is a list that it holds."""
    one = Held(x, [])
    other = one
    for _ in range(n):
        again = other
        other = again
    one.n.append(3)
    return other.n


@nasty(lambda: (v(1, 2), v(3, 4), 2, False), lambda: (v(1, 2), v(3, 4), 1, True))
def argument_bound_by_a_loop_and_perhaps_changed(x, y, n: int, more: bool):
    """What is returned is the argument itself, unless the branch makes something else."""
    for _ in range(n):
        x = y
    if more:
        x = x + 1
    return x


@nasty(lambda: (v(1, 2), 1), lambda: (v(1, 2), 0), lambda: (v(1, 2), 2))
def list_of_an_object_changed_after_an_inner_loop(x, n: int):
    """The inner loop binds the name in a branch that is never taken: it is the object's list all the same."""
    marks = [0, 1, 2]
    held = Held(x, marks)
    for _ in range(n):
        for _ in range(2):
            if 3 < 2:
                marks = marks[:1]
        marks.pop()
    return held.n, marks


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0), lambda: (v(1, 2), 6))
def written_where_it_is_perhaps_in_a_list(x, n: int):
    """The tensor is one of two, and one of a list whose length the run decides."""
    y = x * 2
    if n > 5:
        y = x.view(2)
    held = [x.clone(), y]
    for _ in range(n):
        held.append(x)
    y.zero_()
    return sum(held).sum()


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0))
def objects_returned_by_one_way_out(x, n: int):
    """What the other way returns is not made."""
    if n:
        return 1
    return [2, x], [x, Held(x, [0])]


@nasty(lambda: (m(4, 1),), lambda: (m(1, 4),), lambda: (m(3, 4),))
def in_order_already_or_not(x):
    """`contiguous` of a part is the part itself where that lies in order, which its sizes say; a diagonal does not."""
    y, z = x * 1, x.clone()
    y[:, 0].contiguous().neg_()
    z.diagonal().ravel().neg_()
    w = x.unfold(0, 1, 1).contiguous()
    w += 1
    return y, z, w

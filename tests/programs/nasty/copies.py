"""Copies, shallow and deep, and where the elements of tensors are."""

from __future__ import annotations

import copy

import jitgrad as torch
from tests.programs.nasty.harness import nasty


class Point:
    def __init__(self, x, n):
        self.x, self.n = x, n


class Counted:
    def __init__(self, x, copies=0):
        self.x, self.copies = x, copies

    def __copy__(self):
        return Counted(self.x, self.copies + 1)

    def __deepcopy__(self, memo):
        return Counted(copy.deepcopy(self.x), self.copies + 10)


def v(*values):
    return torch.tensor([float(k) for k in values])


def m(rows=2, columns=3):
    return torch.arange(float(rows * columns)).reshape(rows, columns)


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def tensors_copied(x):
    """A shallow copy shares memory, a deep one does not."""
    y, z = copy.copy(x), copy.deepcopy(x)
    y.add_(1)
    z.mul_(10)
    return y, z, y is x, z is x


@nasty(lambda: (v(1, 2).requires_grad_(),), lambda: (v(1, 2, 3).requires_grad_(),))
def deep_copy_of_a_leaf(x):
    """The copy is a leaf of its own."""
    w = copy.deepcopy(x)
    loss = (w * w).sum()
    loss.backward()
    return w.grad, w.is_leaf


@nasty(lambda: (v(1, 2).requires_grad_(),), lambda: (v(1, 2, 3),))
def deep_copy_of_what_has_history(x):
    """Only leaves are copied deeply."""
    return copy.deepcopy(x * 2)


@nasty(lambda: ([v(1, 2), v(3)],), lambda: ([v(1, 2), v(3), v(4)],))
def lists_copied(xs):
    """The items of a shallow copy are the same objects."""
    a, b = copy.copy(xs), copy.deepcopy(xs)
    a.append(v(5))
    a[0].add_(1)
    b[1].mul_(10)
    return a, b


@nasty(lambda: ({"a": v(1, 2), "b": [1, 2]},), lambda: ({"a": v(3), "b": []},))
def dicts_copied(d):
    """A list in a dict is copied with it, or shared."""
    a, b = copy.copy(d), copy.deepcopy(d)
    a["b"].append(3)
    b["b"].append(4)
    b["a"].add_(1)
    return a, b


@nasty(lambda: (Point(v(1), 2),), lambda: (Point(v(1, 2), 5),))
def given_objects_copied(p):
    """Attributes of the copy are its own, what they refer to may not be."""
    a, b = copy.copy(p), copy.deepcopy(p)
    a.n += 1
    a.x.add_(1)
    b.x.mul_(5)
    return a.n, b.n, a.x, b.x


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 4))
def made_objects_copied(x, n: int):
    """An object that the script made, copied."""
    p = Point(x, n)
    a, b = copy.copy(p), copy.deepcopy(p)
    a.x = a.x * 2
    b.x.add_(1)
    return p, a, b


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 4))
def copied_by_its_own_rule(x, n: int):
    """The class says how it is copied."""
    c = Counted(x, n)
    return copy.copy(c), copy.deepcopy(c), copy.copy(copy.copy(c)).copies


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 0))
def lists_of_run_time_length_copied(x, n: int):
    """The items of a deep copy are new."""
    rows = []
    for i in range(n):
        rows.append(x * i)
    a, b = copy.copy(rows), copy.deepcopy(rows)
    a.append(x)
    for row in b:
        row.add_(5)
    return rows, a, b


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1))
def what_occurs_twice(x, n: int):
    """One list in two places is one list in the copy."""
    a = [x * 1, n]
    b = [a, a, (a, n)]
    c = copy.deepcopy(b)
    c[0].append(x)
    return len(c[1]), len(b[1]), c[0] is c[1], c[2][0] is c[0], c


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1))
def sets_and_tuples_copied(x, n: int):
    """What cannot change is its own copy."""
    s, t = {1, 2}, (1, "a")
    u = copy.copy(s)
    u.add(n)
    return sorted(u), sorted(s), copy.copy(t) is t, copy.deepcopy(t) is t, copy.deepcopy((t, [n]))


@nasty(lambda: (m(),), lambda: (m(3, 4),))
def strides(x):
    """Strides follow from sizes and views."""
    y = x * 2
    return x.stride(), x.stride(0), y.t().stride(), y[1:].storage_offset(), y[1, 2:].storage_offset(), y[:, 1].stride()


@nasty(lambda: (m(),), lambda: (m(3, 4),))
def addresses(x):
    """What begins at the same element has the same address."""
    y, z = x[0], x * 1
    return (y.data_ptr() == x.data_ptr(), z.data_ptr() == x.data_ptr(), x[1].data_ptr() == x.data_ptr(),
            x.view(-1).data_ptr() == x.data_ptr(), z.detach().data_ptr() != z.data_ptr())


@nasty(lambda: (v(1, 2), v(3, 4)), lambda: (v(1, 2, 3), v(3, 4, 5)))
def out_is_resized(x, y):
    """An empty `out` gets the size of the result, under all its names."""
    o = torch.empty(0)
    rows = [o]
    r = torch.add(x, y, out=o)
    rows[0].add_(1)
    return o, r is o, rows[0] is o


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def a_tensor_changes_its_own_shape(x, n: int):
    """All names see the other shape, views do not."""
    y = x * 2
    z, first = y, y[0]
    y.unsqueeze_(0)
    z.add_(1)
    w = m() * 1
    w.t_()
    w[0, 1] = 9
    if n > 2:
        w.unsqueeze_(0)
    return y, first, z is y, w


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def a_shape_changed_by_every_iteration(x, n: int):
    """Every iteration adds an axis in place."""
    y = x * 2
    for _ in range(n):
        y.unsqueeze_(0)
    return y

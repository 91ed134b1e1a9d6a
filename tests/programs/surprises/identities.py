"""Who is who: arguments that are one object, names that are swapped, results that are arguments, views of views."""

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X, Y = t(3), t(3, seed=1)
SAME = t(3, seed=2)


class Box:
    shared = []

    def __init__(self, x):
        self.x = x


class Pair:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


@program((X, Y), (SAME, SAME), compilations=None)
def one_tensor_given_twice(x, y):
    """A write through one name is seen by the other, if they are one."""
    x = x * 1 if x is y else x
    print(x is y)
    return x + y


@program(([X, Y], 0), ([X, Y], 1))
def a_list_holds_one_tensor_twice(xs, k):
    """Both places see a change of the one tensor."""
    a = xs[k] * 2
    ys = [a, a, xs[0]]
    ys[0].add_(1)
    return ys[1], ys[0] is ys[1], ys[2] is xs[0]


@program((X, Y, 0), (X, Y, 1), (X, Y, 2))
def a_name_chosen_by_the_run_is_written(x, y, k):
    """The write goes to whichever tensor it is, not to a copy."""
    a, b = x * 2, y * 3
    m = (a, b)[k % 2]
    m[m > 0.3] = -2.0
    return a, b


@program((X, Y, 0), (X, Y, 1))
def the_same_through_a_dict(x, y, k):
    a, b = x * 2, y * 3
    d = {"p": a, "q": b}
    d["p" if k else "q"].mul_(10)
    return a, b, d["p"]


@program((X, Y, 0), (X, Y, 1))
def the_same_through_an_attribute(x, y, k):
    p = Pair(x * 2, y * 2)
    chosen = p.left if k else p.right
    chosen += 1
    return p.left, p.right


@program((X, Y, 3), (X, Y, 4))
def names_swapped_by_a_loop(x, y, n):
    """After an odd number of turns the write goes to the other tensor."""
    a, b = x * 1, y * 1
    first, second = a, b
    for _ in range(n):
        first, second = second, first
    first.zero_()
    return a, b


@program((X, 0), (X, 1))
def a_default_argument_that_is_mutable(x, k):
    """The default list is one for all calls of the inner function."""
    def keep(v, held=[]):  # noqa: B006
        held.append(v)
        return held

    keep(x)
    keep(x * k)
    return len(keep(x + 1)), keep(x)[1]


@program((X, Y), (SAME, SAME), compilations=None)
def results_that_are_arguments(x, y):
    """They are the very objects, nested too."""
    return [x, (y, {"x": x})], x is y


@program((X, 0), (X, 1))
def an_argument_or_a_new_tensor(x, k):
    if k:
        return x
    return x + 0


@program((t(2, 3),))
def views_of_one_result_share_memory(x):
    y = x * 2
    a, b = y[0], y.t()
    a.add_(1)
    return y, a, b


@program((t(2, 3),))
def a_view_of_a_view_is_written(x):
    y = x * 1
    y.t()[1].view(2, 1)[0] = 7.0
    return y


@program((t(1, 3),))
def two_views_written_in_turn(x):
    """A squeeze and an expanded row of one memory."""
    w = x * 1
    u = w.squeeze()
    w.expand_as(x)[-1] -= 1
    u[...] = u * 0.5
    return w, u


@program((X,))
def a_reshape_that_is_a_view_and_one_that_copies(x):
    y = torch.stack([x, x + 1])
    a, b = y.reshape(6), y.t().reshape(6)
    a += 1
    b *= 0
    return y, a, b


@program((t(3, 3),))
def rows_of_a_matrix_in_a_loop_are_views(x):
    y = x.clone()
    for row in y:
        row /= row.detach().abs().sum()
    return y


@program((t(3, 3), 1), (t(3, 3), 2))
def a_row_chosen_at_run_time_is_a_view(x, k):
    y = x.clone()
    y[k].fill_(1.5)
    y[-k][0] = -1
    return y


@program((X,))
def is_after_an_in_place_operator(x):
    """`+=` on a tensor keeps the object, `+` makes a new one."""
    y = x * 1
    z = y
    z += 1
    a = z is y
    z = z + 1
    return a, z is y, y


@program((X,))
def is_after_an_in_place_operator_on_a_list(x):
    xs = [x]
    ys = xs
    ys += [x * 2]
    a = xs is ys
    ys = ys + [x]
    return a, xs is ys, len(xs), len(ys)


@program((X,))
def tuples_are_rebound_by_plus(x):
    a = (x,)
    b = a
    b += (x * 2,)
    return len(a), len(b), a is b


@program((X, 2), (X, 0))
def an_object_that_a_loop_replaces(x, n):
    """The old one keeps what it had."""
    first = box = Box(x)
    for k in range(n):
        box = Box(box.x * (k + 2))
    box.x = box.x + 1
    return first.x, box.x, first is box


@program((X,))
def two_objects_that_refer_to_each_other(x):
    a, b = Box(x), Box(x * 2)
    a.other, b.other = b, a
    a.other.other.x = x + 5
    return a.x, b.other is a


@program((X, 0), (X, 1), (X, 2))
def none_or_an_object(x, k):
    box = None
    if k:
        box = Box(x * k)
    if k == 2:
        box.x.add_(1)
    return x if box is None else box.x


@program(({"w": X, "b": Y}, "w"), ({"w": X, "b": Y}, "b"), compilations=None)
def a_tensor_of_a_given_dict_by_name(d, name):
    d[name] = d[name] * 2
    return d["w"] + d["b"], d[name] is d["w"]


@program((X, Y, True), (X, Y, False))
def swapped_by_a_condition(x, y, c):
    a, b = (x * 1, y * 1) if c else (y * 1, x * 1)
    if c:
        a, b = b, a
    a.sub_(b)
    return a, b


@program((X,))
def a_list_in_itself_by_two_names(x):
    rows = [[x] * 2] * 2
    rows[0][0] = x * 3
    return rows[1][0], rows[0] is rows[1], rows


@program((X,))
def a_class_attribute_is_one_for_all(x):
    a, b = Box(x), Box(x)
    n = len(a.shared)
    a.shared = [x]
    return n, len(b.shared), a.shared is b.shared


@program((X, 1), (X, 0))
def a_tensor_kept_before_it_is_written(x, k):
    y = x * 2
    kept = y.clone()
    alias = y
    if k:
        y.exp_()
    return kept, alias, alias is y

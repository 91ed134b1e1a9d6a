"""Dtypes, sizes of 0 and 1, NaN, indices and flags of tensors."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values, dtype=torch.float32):
    return torch.tensor(list(values), dtype=dtype)


def m(rows=2, columns=3):
    return torch.arange(float(rows * columns)).reshape(rows, columns)


@nasty(lambda: (v(250, 3, dtype=torch.uint8),), lambda: (v(0, 255, 7, dtype=torch.uint8),))
def unsigned_wraps(x):
    """uint8 arithmetic widens."""
    return x + 10, x - 5, -x, x * x, x // 2, x.sum()


@nasty(lambda: (v(100, -128, dtype=torch.int8),), lambda: (v(127, dtype=torch.int8),))
def signed_wraps(x):
    """int8 overflow is undefined."""
    y = x + x
    x += 1
    return y, x.abs(), x / 2


@nasty(lambda: (v(7, -7, dtype=torch.int64), 2), lambda: (v(7, -7, 0, dtype=torch.int64), -2))
def division_of_integer_tensors(x, n: int):
    """`//` and `%` of tensors floor; `/` gives floats."""
    return x // n, x % n, x / n, torch.fmod(x, n), torch.div(x, n, rounding_mode="trunc")


@nasty(lambda: (v(1, 2, dtype=torch.int64), 0.5), lambda: (v(3, dtype=torch.int64), 2.0))
def number_promotes(x, s: float):
    """An int tensor times a Python float is float64, as in NumPy."""
    return x * s, x + 1, x > s, s / x


@nasty(lambda: (v(1, 2), torch.tensor(3.0, dtype=torch.float64)), lambda: (v(1), torch.tensor(4, dtype=torch.int32)))
def zero_dim_does_not_promote(x, s):
    """A 0-dim float64 tensor widens a float32 vector."""
    return x * s, s * 2, s + s, x[0] * s


@nasty(lambda: (v(True, False, dtype=torch.bool),), lambda: (v(True, True, True, dtype=torch.bool),))
def arithmetic_of_bools(b):
    """bool + bool is a bool, bool + 1 an int64, sum an int64."""
    return b + b, b * b, b + 1, b.sum(), ~b, b & True, b.float().mean(), b * 0.5


@nasty(lambda: (torch.zeros(0),), lambda: (v(1, 2),), lambda: (torch.zeros(0),))
def empty_sums(x):
    """Reductions of nothing."""
    return x.sum(), x.prod(), x.mean(), x.any(), (x > 0).all(), x.numel(), x.shape


@nasty(lambda: (torch.zeros(0, 3),), lambda: (torch.zeros(2, 3),))
def loop_over_no_rows(x):
    """A loop over no rows leaves what it would have bound."""
    total, rows = torch.ones(3), 0
    for row in x:
        total, rows = total + row, rows + 1
    return total, rows, torch.cat([x, total[None]])


@nasty(lambda: (torch.zeros(0),), lambda: (v(3, 1),))
def maximum_of_nothing(x):
    """The maximum of an empty tensor raises."""
    return x.max()


@nasty(lambda: (v(1, float("nan"), 3),), lambda: (v(float("nan"), 2),))
def nan_spreads(x):
    """NaN in max, relu, clamp, comparison and sort."""
    return x.max(), torch.relu(x), x.clamp(0, 2), x > 1, x == x, x.argmax(), torch.where(x.isnan(), 0.0, x)


@nasty(lambda: (v(0.0, -0.0, 1.0),), lambda: (v(-0.0, float("inf")),))
def divided_by_zero(x):
    """Division by zeros of either sign."""
    return 1 / x, x / x, x * 0, 0 / x, x.sign(), x + 0.0


@nasty(lambda: (m(3, 4), -1), lambda: (m(3, 4), 1), lambda: (m(3, 4), 7))
def negative_and_failing_indices(x, i: int):
    """A negative index reads before the memory, one too large behind it."""
    return x[i], x[:, i], x[i][-1]


@nasty(lambda: (v(1, 2, 3, 4), -2, 9), lambda: (v(1, 2, 3, 4), 3, 1), lambda: (v(1, 2, 3, 4), -9, -1))
def slices_clamp(x, a: int, b: int):
    """Slices that reach over the ends, or are empty."""
    return x[a:b], x[:b], x[a:], x[a:b].sum(), x[::2][:a]


@nasty(lambda: (m(3, 4),), lambda: (m(2, 2),))
def none_and_ellipsis(x):
    """None and ... among indices."""
    return x[None, ..., 0], x[..., None, :1].shape, x[:, None][0], x[-1, ..., -1]


@nasty(lambda: (m(3, 4), v(0, 2, dtype=torch.int64)), lambda: (m(3, 4), v(-1, dtype=torch.int64)))
def two_index_tensors(x, i):
    """Two index tensors are paired; one, a slice and one put the axis first."""
    return x[i, i], x[i][:, i], x[:, i], x[i, :1]


@nasty(lambda: (m(2, 3), v(0, 0, 1, dtype=torch.int64)), lambda: (m(2, 3), v(1, 1, 1, dtype=torch.int64)))
def repeated_indices(x, i):
    """x[i] += 1 with a repeated index counts once, index_add_ counts each."""
    x[i] += 1
    y = torch.zeros(2).index_add_(0, i, torch.ones(3))
    return y


@nasty(lambda: (v(1, 2),), lambda: (v(1),), lambda: (v(1, 2, 3),))
def size_one_broadcasts(x):
    """A size that becomes 1 broadcasts, one that is neither raises."""
    return x + torch.ones(2)


@nasty(lambda: (m(2, 3), m(3, 2)), lambda: (m(2, 3), m(2, 3)), lambda: (m(1, 1), m(1, 4)))
def matmul_sizes(a, b):
    """The error of a product whose sizes do not fit."""
    return a @ b


@nasty(lambda: (v(3, 1, 2, 1),), lambda: (v(5, 5),))
def sorts_with_ties(x):
    """Equal elements in sort, argsort and topk."""
    values, order = x.sort(stable=True)
    return values, order, x.topk(2).values, x.min(), x.argmin()


@nasty(lambda: (v(1, 2, 3),), lambda: (v(0, 0),))
def tensor_as_condition(x):
    """A 0-dim tensor is true; a vector's truth is an error."""
    if x.sum():
        return "some"
    return bool(x)


@nasty(lambda: (v(1.5, -2.5),), lambda: (v(2.5, 3.5),))
def casts(x):
    """Floats to ints truncate, round to even."""
    return x.int(), x.long(), x.round(), x.bool(), x.to(torch.uint8) if (x > 0).all() else x.double()


@nasty(lambda: (m(2, 3),), lambda: (m(3, 3),))
def argument_by_dim(x):
    """keepdim and negative dims, tuples of dims."""
    return x.sum(-1, keepdim=True), x.mean((0, 1)), x.max(dim=0).indices, x.std(0), x.var(1, unbiased=False)


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2, 3), 3))
def shape_arithmetic(x, n: int):
    """Sizes in arithmetic, tuples and text."""
    a, = x.shape
    print(x.shape, f"{x.size(0)}", len(x), list(x.size()))
    return torch.zeros(n, a + 1), x.shape == (n,), x.dim(), x.new_ones(a // 2)


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def tensor_text(x):
    """A tensor is printed as it was at that moment."""
    print(x)
    x.add_(1)
    print(f"{x} {x.sum():.1f}", x.dtype)
    return str(x[0].item())


@nasty(lambda: (3,), lambda: (1,))
def random_numbers(n: int):
    """The draws of a loop are made in order, and one under a condition only then."""
    xs = [torch.rand(2) for _ in range(n)]
    if n > 2:
        torch.rand(1)
    return xs, torch.randn(n), torch.randint(0, 5, (2,)), torch.randperm(4)


@nasty(lambda: (v(1, 2, dtype=torch.float16),), lambda: (v(60000, 3, dtype=torch.float16),))
def half_precision_overflows(x):
    """float16 overflows to infinity, and is not computed in float32 throughout."""
    return x * 2, x.sum(), x.float() * 2, x + 1


@nasty(lambda: (v(1, 2, dtype=torch.float64), v(1, 2)), lambda: (v(1, dtype=torch.float64), v(1)))
def inplace_of_a_wider_dtype(a, b):
    """a += b keeps the dtype of a whichever is wider."""
    b += a
    a *= b
    return a.dtype, b.dtype, torch.result_type(a, b), a.dtype == torch.float64


@nasty(lambda: (v(1, 2, 3),), lambda: (v(4, 5),))
def shape_changed_by_a_loop(x):
    """A tensor that grows in a loop."""
    y = x[:0]
    for k in range(3):
        y = torch.cat([y, x[k:k + 1] * k, x[:1]])
    return y, y.shape[0]


@nasty(lambda: (m(2, 3), [0, 1]), lambda: (m(2, 3), [1, 1]), lambda: (m(2, 3), [0, 5]))
def indices_from_a_list(x, xs):
    """A list of indices is a tensor of them, not a tuple."""
    return x[xs], x[:, xs], x[tuple(xs)]


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def scalar_tensor_loops(x):
    """A loop whose condition is a tensor."""
    k = torch.tensor(0)
    while k < x.sum():
        k += 2
        x = x + 0.1
    return k, x


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2, 3), 0))
def zero_size_made_from_a_number(x, n: int):
    """Sizes that are arguments may be 0."""
    z = torch.ones(n, 2)
    return z.sum(0), torch.arange(n), torch.eye(n), torch.full((n,), x[0].item()), x.repeat(n)


@nasty(lambda: (2,), lambda: (3,))
def one_element_of_a_range(n: int):
    """The place of one element is forgotten where it is a number on its own: the first is read."""
    return n / torch.arange(2)[1:]


@nasty(lambda: (1, v(1, 2, 3, 4)), lambda: (0, v(5, 6, 7, 8)))
def one_element_of_a_range_decides(n: int, x):
    """A condition on one element of a range."""
    i = torch.arange(4)
    while i[n + 1:n + 2] > 0:
        i = i - 1
    if torch.arange(5)[3:4] > n + 2:
        x = x + 1
    return i, x / torch.arange(1, 9, 2)[n:n + 1]


@nasty(lambda: (m(3, 4), 2), lambda: (m(3, 4).requires_grad_(), 0), lambda: (m(3, 4), 1))
def list_of_conditions_is_a_mask(x, n: int):
    """A list whose bools the run decides is read as the indices 0 and 1."""
    y = x * 1
    y[[n > 0, False, True]] = 9
    y[:, [n > 1, True, False, n == 1]] *= 2
    kept = []
    for k in range(3):
        kept.append(k >= n)
    high = x[[(row.sum() > 6).item() for row in x]]
    return y, x[kept], high, x[[n > 5, n > 5, n > 5]], x[[n, True]], x[[n, 0], [1, n]]


@nasty(lambda: (m(), 1.0), lambda: (m(), 0.0))
def list_of_floats_is_no_index(x, s: float):
    """A float that the run decides is rounded to an index."""
    return x[[s, 0]]

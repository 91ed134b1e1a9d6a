"""A reshape, or what `contiguous` gives, shares memory where eager's does; where nobody knows, writes are refused."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad import config
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.build import build
from tests.script.frontend.agree import compare, run


def numbered(*shape):
    """A tensor whose elements are all different."""
    return jitgrad.arange(float(jitgrad.Size(shape).numel())).reshape(*shape)


#: tensors of n rows and m columns, whose elements lie in memory in different orders
LAYOUTS = {
    "rows": numbered,
    "columns": lambda n, m: numbered(m, n).t(),
    "every other row": lambda n, m: numbered(2 * n, m)[::2],
    "every other column": lambda n, m: numbered(n, 2 * m)[:, ::2],
    "first columns": lambda n, m: numbered(n, m + 2)[:, :m],
    "last rows": lambda n, m: numbered(n + 2, m)[2:],
    "columns of every other row": lambda n, m: numbered(2 * m, n)[::2].t(),
    "columns of a block": lambda n, m: numbered(n, 2, m)[:, 1],
}
SIZES = [(4, 6), (6, 4), (2, 2), (1, 6), (5, 1), (1, 1), (2, 6)]
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def contiguous_written(x):
    y = x.contiguous()
    y.mul_(2)
    return y


@program
def contiguous_in_a_branch(x):
    y = x.contiguous() if x.sum() > 3 else x
    y.mul_(2)
    return y


@program
def contiguous_returned(x):
    return x.contiguous(), [x], {"t": x.t().contiguous()}


@program
def base_of_a_reshape_written(x):
    v = x.reshape(-1)
    x[0] += 1
    return v * 1


@program
def base_written_in_a_loop(x):
    v = x.flatten()
    for k in range(x.shape[0]):
        x[k] = x[k] * 2
    return v * 1


@program
def reshape_written(x):
    v = x.reshape(-1, 1)
    v[0] = 7
    return x * 1


@program
def reshapes_returned(x):
    return x.flatten(), x.reshape(-1, 1), x[::2].reshape(-1), x.t().reshape(-1)


@program
def reshaped_parts(x):
    u, v, w = x[::2].flatten(), x[:, :1].reshape(-1), x[1:].reshape(-1)
    x[0] = 9
    return u * 1, v * 1, w * 1


@program
def reshaped_transpose(x):
    v = x.t().reshape(-1)
    x[0] = 9
    return v * 1, x.t().t().flatten()


@program
def expanded(x):
    w = x.expand(*x.shape).contiguous()
    w[0] = 5
    v = x[:, :1].expand(*x.shape).contiguous()
    v[0] = 6
    return w, v


@program
def reshaped_results(x):
    y = x.contiguous() * 2
    u, v, w = y.t().flatten(), y.t().t().flatten(), y[::2].flatten()
    y[0] = 9
    return u, v, w, y


@program
def axes_of_size_one(x):
    v, w = x.reshape(1, x.shape[0], 1, x.shape[1]), x[:1].reshape(x.shape[1])
    v.mul_(2)
    w += 1
    x[0] *= 3
    return v * 1, w * 1, v.reshape(x.shape[0], x.shape[1])


@program
def asked(x):
    return [y.is_contiguous() for y in (x, x[1:], x.t(), x.t().t(), x[:, :1])]


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_sharing_is_that_of_eager(function, mode):
    with config.override(interpret=mode == "interpreted"):
        scripted = jitgrad.script(function)
        for sizes in SIZES + SIZES[::-1]:
            for name, make in LAYOUTS.items():
                eager, found = (run(f, (make(*sizes),), fresh=False) for f in (function, scripted))
                compare(eager, found, (function.__name__, name, sizes))


@pytest.mark.parametrize("repeated", [(1, 6), (4, 1)])
def test_what_is_repeated_is_copied(repeated):
    scripted = jitgrad.script(contiguous_written)
    for sizes in (repeated, (4, 6), repeated):
        eager, found = (run(f, (numbered(*sizes).expand(4, 6),), fresh=False)
                        for f in (contiguous_written, scripted))
        compare(eager, found, sizes)


def test_memory_is_not_asked_about_where_nothing_is_written():
    def f(x):
        return x.reshape(-1).sum() + x.contiguous().flatten().max()

    scripted = jitgrad.script(f)
    for make in LAYOUTS.values():
        x = make(3, 4)
        assert scripted(x).item() == f(x).item()
    assert scripted.cache_info().compilations == 1


def test_axes_of_size_one_are_no_question():
    """A batch norm's weight by channel, which the optimizer then writes: no second evaluation decides what it is."""
    def f(x):
        y = x.reshape(1, x.shape[0], 1, x.shape[1]) * 2
        x += 1
        return y

    for make in LAYOUTS.values():
        assert not any("reshape" in line for line in build(f, (make(3, 4),), {}).log)


def permuted(y):
    z = y.t() + 1
    u = z.reshape(-1)
    u *= 2
    return z


def permuted_in_a_branch(y):
    z = y.t() + 1 if y.sum() > 0 else y.t() * 2
    u = z.reshape(-1)
    u *= 2
    return z


def permuted_in_a_loop(y, n: int):
    z = y.t() + 1
    for _ in range(n):
        z = z * 2
    u = z.reshape(-1)
    u *= 2
    return z


def plain(y):
    z = y + 1
    u = z.reshape(-1)
    u *= 2
    return z


def argument(y):
    u = y.reshape(-1)
    u *= 2
    return y.sum()


def test_the_result_of_a_permuted_operand_is_not_in_row_order():
    y = jitgrad.arange(6.0).reshape(2, 3)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted)(y)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted_in_a_branch)(y)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted_in_a_loop)(y, 2)
    assert jitgrad.script(plain)(y).tolist() == plain(y).tolist()


def test_the_order_of_an_argument_is_guarded():
    scripted = jitgrad.script(argument)
    x = jitgrad.arange(6.0).reshape(2, 3)
    assert scripted(x).item() == 30.0
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert scripted(x.t()).item() == 30.0  # a copy: what is written there is not in x
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert scripted(jitgrad.ones(2, 5)).item() == 20.0
    assert scripted.cache_info().compilations == 2
    assert "has another order of memory" in scripted.recompilations[0]


def doubled(x):
    y = x * 2
    v = y.reshape(-1)
    y[0] = 9
    v[-1:] = 7
    return y, v


def normalised(x):
    y = jitgrad.nn.functional.layer_norm(x, (x.shape[1],))
    v = y.view(-1)
    y[0] = 9
    return y, v


def cloned_in_a_loop(x):
    y = x.clone()
    for _ in range(2):
        y = y.clamp(min=-1) + 1
    v = y.reshape(-1)
    y[0] = 9
    return y, v


@pytest.mark.parametrize("function", [doubled, normalised, cloned_in_a_loop], ids=lambda f: f.__name__)
def test_what_is_made_of_arguments_lies_as_they_do(function):
    scripted = jitgrad.script(function)
    for sizes in SIZES[:3]:
        for name, make in LAYOUTS.items():
            if name.startswith("columns of every") or name == "columns":  # eager copies, a script does not know what
                with pytest.raises(UnsupportedCall, match="may be a copy"):
                    scripted(make(*sizes))
            else:
                compare(*(run(f, (make(*sizes),), fresh=False) for f in (function, scripted)), (name, sizes))


def test_rows_of_a_number_known_at_run_time_are_in_row_order():
    def f(x, n: int):
        y = x * 1
        u = y[n % 2:]
        v = u.view(-1)[1:]
        u[...] = u * 3
        v[...] = v + 1
        return y, v

    scripted = jitgrad.script(f)
    for n in (0, 1, 2, 3):
        compare(*(run(g, (numbered(3, 4), n), fresh=False) for g in (f, scripted)), n)
    assert scripted.cache_info().compilations == 1


def test_whether_a_result_is_in_row_order_is_asked_of_the_arguments():
    def f(x):
        return (x * 2).is_contiguous()

    scripted = jitgrad.script(f)
    assert [scripted(make(3, 4)) for make in LAYOUTS.values()] == [f(make(3, 4)) for make in LAYOUTS.values()]

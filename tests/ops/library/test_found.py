"""What torch answers in corners that were once answered otherwise."""

from __future__ import annotations

import math

import pytest

import jitgrad as torch


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_running_extremes_of_every_integer_dtype(script: bool) -> None:
    def f(x):
        return x.cummax(0)[0], x.cummin(0)[0]

    run = torch.script(f) if script else f
    for values, dtype in (([2, 1, 3], torch.uint8), ([255, 0, 3], torch.uint8), ([False, True], torch.bool),
                          ([-128, 127, 0], torch.int8), ([-2**63, 2**63 - 1], torch.int64)):
        x = torch.tensor(values, dtype=dtype)
        assert [y.tolist() for y in run(x)] == [[max(values[:k + 1]) for k in range(len(values))],
                                                [min(values[:k + 1]) for k in range(len(values))]]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_scattered_extremes_of_every_integer_dtype(script: bool) -> None:
    def f(x, i, y):
        return [x.scatter_reduce(0, i, y, how, include_self=False) for how in ("amax", "amin")]

    i = torch.tensor([0, 0, 2])
    for dtype in (torch.uint8, torch.int8, torch.int64):
        x, y = torch.tensor([9, 9, 9], dtype=dtype), torch.tensor([3, 5, 7], dtype=dtype)
        assert [z.tolist() for z in (torch.script(f) if script else f)(x, i, y)] == [[5, 9, 7], [3, 9, 7]]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_shifts_in_place_write(script: bool) -> None:
    def f(x):
        v = x[:2]
        v <<= 1
        v += 1
        v >>= 1
        return v

    x = torch.arange(4)
    assert (torch.script(f) if script else f)(x).tolist() == [0, 1]
    assert x.tolist() == [0, 1, 2, 3]
    x[1] = 3
    (torch.script(f) if script else f)(x)
    assert x.tolist() == [0, 3, 2, 3]


def test_a_repeated_subscript_has_one_size() -> None:
    with pytest.raises(RuntimeError, match="subscript i is repeated in an operand but the sizes don't match, 3 != 2"):
        torch.einsum("ii->i", torch.ones(2, 3))


def test_hypot_of_infinities() -> None:
    inf = torch.tensor([math.inf, math.inf, -math.inf, 0.0])
    assert torch.hypot(inf, torch.tensor([math.inf, 1.0, -math.inf, 0.0])).tolist() == [math.inf] * 3 + [0.0]


# --- windows are views ---------------------------------------------------------------------------------------------

MODES = {"eager": {"jit": False}, "native": {"interpret": False}, "interpreted": {"interpret": True}}


def write_a_window(x, y):
    x.unfold(0, 2, 2)[0] = 9
    return x


def see_later_writes(x, y):
    v = x.unfold(0, 2, 3)
    x.mul_(2)
    return v, v.sum()


def windows_of_a_run_time_size(x, y):
    for n in range(1, 4):
        v = x.unfold(0, n, n + 1)
        v.add_(n)
        v[0, n - 1] = 50.0
    return x


def overlapping_windows(x, y):
    v = x.unfold(0, 3, 1)
    v[2] = y[0, :3]
    return x, v


def slopes_through_windows(x, y):
    z = y * 2
    v = z.unfold(1, 2, 3)
    v.mul_(y.unfold(1, 2, 3))
    (z * z).sum().backward()
    return v.clone()


def slopes_through_parts_of_windows(x, y):
    z = y * 2
    v = z.t().unfold(0, 3, 1)[1:, :, ::2]
    v[0] = y[0, 1]
    (z * z * y).sum().backward()
    return v.clone()


def a_window_of_a_window(x, y):
    v = x.unfold(0, 4, 2).unfold(1, 2, 2)
    v[:, 1, 1] += 1
    return x, v


def no_elements(x, y):
    return x.unfold(0, 0, 3), x.unfold(0, 7, 1)


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("function", [
    write_a_window, see_later_writes, windows_of_a_run_time_size, overlapping_windows, slopes_through_windows,
    slopes_through_parts_of_windows, a_window_of_a_window, no_elements], ids=lambda f: f.__name__)
def test_windows_are_views(function, mode) -> None:
    def run(f):
        x, y = torch.arange(7.0), torch.arange(10.0).reshape(2, 5).requires_grad_()
        found = f(x, y)
        results = found if isinstance(found, tuple) else (found,)
        return [r.tolist() for r in results], x.tolist(), y.grad.tolist() if y.grad is not None else None

    with torch.config.override(**MODES[mode], cache=""):
        assert run(torch.script(function)) == run(function)


def test_windows_show_the_memory() -> None:
    x = torch.arange(7.0)
    v = x.unfold(0, 2, 2)
    assert v.tolist() == [[0, 1], [2, 3], [4, 5]]
    v[0] = 9
    assert x.tolist() == [9, 9, 2, 3, 4, 5, 6]
    w = torch.script(lambda x: x.unfold(0, 3, 4))(x)
    w += 1
    assert x.tolist() == [10, 10, 3, 3, 5, 6, 7]
    assert torch.arange(12).reshape(3, 4).unfold(0, 2, 1).tolist() == [[[0, 4], [1, 5], [2, 6], [3, 7]],
                                                                       [[4, 8], [5, 9], [6, 10], [7, 11]]]

    @torch.script
    def shared(x, v):
        x.add_(1)
        return v * 1

    with pytest.raises(torch.errors.UnsupportedCall, match="memory that two tensors share"):
        shared(x, v)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize(("size", "step", "words"), [
    (8, 1, "maximum size for tensor at dimension 0 is 7 but size is 8"), (-1, 1, "size is -1 but must be >= 0"),
    (2, 0, "step is 0 but must be > 0"), (2, -1, "step is -1 but must be > 0")])
def test_windows_that_do_not_fit(script, size, step, words) -> None:
    def f(x, n: int, k: int):
        return x.unfold(0, n, k)

    with pytest.raises(RuntimeError, match=words):
        (torch.script(f) if script else f)(torch.arange(7.0), size, step)


# --- division of integers by zero ----------------------------------------------------------------------------------

DIVISIONS = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "fmod": lambda a, b: torch.fmod(a, b),
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "in place": lambda a, b: a.floor_divide_(b), "%=": lambda a, b: a.remainder_(b),
    "reflected": lambda a, b: 7 // b + 7 % b,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_not_divided_by_zero(name, mode) -> None:
    with torch.config.override(**MODES[mode], cache=""):
        f = torch.script(DIVISIONS[name])
        for dtype in (torch.int64, torch.uint8):
            a, b = torch.tensor([7, 3], dtype=dtype), torch.tensor([2, 1], dtype=dtype)
            expected = {"//": [3, 3], "%": [1, 0], "fmod": [1, 0], "%=": [1, 0], "reflected": [4, 7]}.get(name, [3, 3])
            assert f(a.clone(), b).tolist() == expected
            for divisor in (torch.tensor([1, 0], dtype=dtype), torch.tensor(0, dtype=dtype)):
                given = a.clone()
                with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                    f(given, divisor)
                assert given.tolist() == a.tolist()
            if name != "reflected":
                with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                    f(a.clone(), 0)
        floats = f(torch.tensor([7.0, -7.0]), torch.zeros(2))
        assert not floats.isfinite().any()
        assert f(torch.ones(0, dtype=torch.int64), torch.ones(0, dtype=torch.int64)).tolist() == []


# --- slopes at NaN, at infinity and at ties ------------------------------------------------------------------------

F, NAN, INF = torch.nn.functional, math.nan, math.inf
#: torch's, at NaN, inf, -inf and 0
SLOPES = {
    "elu": (F.elu, [NAN, 1, 0, 1]), "selu": (F.selu, [NAN, 1.0507009873554805, 0, 1.7580993408473768]),
    "celu": (lambda x: F.celu(x, 2.0), [NAN, 1, 0, 1]), "hardswish": (F.hardswish, [NAN, 1, 0, 0.5]),
    "relu": (F.relu, [1, 1, 0, 0]), "leaky_relu": (lambda x: F.leaky_relu(x, 0.5), [0.5, 1, 0.5, 0.5]),
    "hardtanh": (F.hardtanh, [1, 0, 0, 1]), "hardsigmoid": (F.hardsigmoid, [0, 0, 0, 1 / 6]),
    "softplus": (F.softplus, [NAN, 1, 0, 0.5]), "abs": (torch.abs, [0, 1, -1, 0]),
    "clamp": (lambda x: x.clamp(-1.0, 1.0), [0, 0, 0, 1]), "clamp_min": (lambda x: x.clamp(min=0.0), [0, 1, 0, 1]),
    "maximum": (lambda x: torch.maximum(x, torch.zeros(4)), [1, 1, 0, 0.5]),
    "fmax": (lambda x: torch.fmax(x, torch.zeros(4)), [0, 1, 0, 1]),
    "fmin": (lambda x: torch.fmin(torch.zeros(4), x), [0, 0, 1, 0]),
    "hypot": (lambda x: torch.hypot(x, torch.ones(4)), [NAN, NAN, NAN, 0]),
    "smooth_l1": (lambda x: F.smooth_l1_loss(x, torch.zeros(4), reduction="sum"), [NAN, 1, -1, 0]),
    "huber": (lambda x: F.huber_loss(x, torch.zeros(4), reduction="sum", delta=0.5), [NAN, 0.5, -0.5, 0]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_at_the_edges(name, mode) -> None:
    function, expected = SLOPES[name]
    with torch.config.override(**MODES[mode], cache=""):
        x = torch.tensor([NAN, INF, -INF, 0.0], requires_grad=True)
        torch.script(function)(x).sum().backward()
        assert x.grad.tolist() == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_hypot_of_something_infinite() -> None:
    x = torch.tensor([3.0, 0.0, -2.0], requires_grad=True)
    y = torch.hypot(x, torch.full((3,), INF))
    assert y.tolist() == [INF] * 3
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    assert torch.hypot(torch.tensor(NAN), torch.tensor(-INF)).item() == INF
    assert torch.fmax(torch.tensor([NAN, 1.0, NAN]), torch.tensor([2.0, NAN, NAN])).tolist() == pytest.approx(
        [2, 1, NAN], nan_ok=True)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_copies_where_torch_has_copies(script: bool) -> None:
    """A vector with gaps in its memory, running sums of a number, a product of one matrix."""
    def f(x):
        return [x[:, 0].ravel().add_(1), x[0, 0].logcumsumexp(0).add_(1), torch.chain_matmul(x).add_(1)]

    def views(x):
        return x.ravel().add_(1)

    x = torch.zeros(3, 2)
    (torch.script(f) if script else f)(x)
    assert not x.any()
    (torch.script(views) if script else views)(x)
    assert x.all()


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_what_has_no_elements(script: bool) -> None:
    def taken(x, i):
        return x.index_select(0, i)

    def normalised(x):
        return torch.nn.functional.group_norm(x, 2)

    run, norm = [torch.script(fn) if script else fn for fn in (taken, normalised)]
    assert run(torch.ones(0, 3), torch.tensor([], dtype=torch.int64)).shape == (0, 3)
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        run(torch.ones(0, 3), torch.tensor([0]))
    assert norm(torch.ones(0, 4, 5)).shape == (0, 4, 5)
    assert norm(torch.ones(2, 4, 0)).shape == (2, 4, 0)
    assert norm(torch.tensor([[1.0, 1.0, 2.0, 2.0]])).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_variance_without_degrees_of_freedom(script: bool) -> None:
    """The slope of what is infinite is infinite, that of NaN is NaN."""
    def f(x):
        return torch.var(x, correction=3)

    for values, wanted in (([1.0, 2.0, 4.0], math.inf), ([2.0, 2.0, 2.0], math.nan)):
        x = torch.tensor(values, requires_grad=True)
        (torch.script(f) if script else f)(x).backward()
        assert repr(x.grad.tolist()) == repr([wanted] * 3)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_losses_of_broadcast_and_of_other_dtypes(script: bool) -> None:
    F = torch.nn.functional

    def soft_margin(x, y):
        return F.multilabel_soft_margin_loss(x, y, reduction="sum")

    def margin(x, y):
        return F.multi_margin_loss(x, y)

    def entropy(x, y, w):
        return F.cross_entropy(x, y, w, label_smoothing=0.1)

    soft_margin, margin, entropy = [torch.script(fn) if script else fn for fn in (soft_margin, margin, entropy)]
    assert soft_margin(torch.zeros(4), torch.ones(3, 4)).item() == pytest.approx(12 * math.log(2) / 4)
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Byte"):
        margin(torch.ones(3, 5), torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        entropy(torch.ones(3, 5, dtype=torch.float64), torch.zeros(3, dtype=torch.int64), torch.ones(5))


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_what_some_dtypes_have_and_have_not(script: bool) -> None:
    def bounded(x, y):
        return torch.clamp_min(x, y)

    def reduced(x, i, y):
        return x.index_reduce(0, i, y, "amax")

    def outer(x, a, b):
        return torch.addr(x, a, b, alpha=True)

    bounded, reduced, outer = [torch.script(fn) if script else fn for fn in (bounded, reduced, outer)]
    assert bounded(torch.tensor([True, False]), torch.tensor([False, False])).tolist() == [True, False]
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            reduced(torch.ones(2, dtype=dtype), torch.tensor([0]), torch.ones(1, dtype=dtype))
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        outer(torch.ones(2, 3), torch.ones(2), torch.ones(3))


@pytest.mark.parametrize("call", [
    lambda d: torch.rand(2, dtype=d), lambda d: torch.randperm(2, dtype=d),
    lambda d: torch.normal(0.0, 1.0, (2,), dtype=d), lambda d: torch.bartlett_window(3, dtype=d),
    lambda d: torch.nn.functional.softmax(torch.ones(2), 0, dtype=d),
    lambda d: torch.linalg.matrix_norm(torch.ones(2, 2), dtype=d), lambda d: torch.frombuffer(b"abcd", dtype=d),
    lambda d: torch.nn.Linear(1, 1).to(dtype=d), torch.set_default_dtype, torch.finfo, torch.iinfo,
    lambda d: torch.promote_types(d, torch.float32), lambda d: torch.can_cast(torch.float32, d),
    lambda d: torch.triu_indices(2, 2, dtype=d)])
def test_a_dtype_by_its_name_is_none(call) -> None:
    with pytest.raises(TypeError, match=r"must be torch\.dtype, not str"):
        call("float32")


def test_strides_of_complex_tensors_in_scripts() -> None:
    for how in ("stride", "storage_offset"):
        with pytest.raises(NotImplementedError, match="complex numbers as pairs"):
            torch.script(lambda x, how=how: getattr(x * 2, how)())(torch.ones(2, dtype=torch.complex64))


def _answer(f, *given):
    try:
        found = f(*given)
    except (RuntimeError, TypeError, ValueError) as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return [y.tolist() for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("f", [
    lambda x: torch.diff(x), lambda x: torch.diff(x, n=2), lambda x: torch.trapezoid(x), lambda x: torch.gradient(x),
    lambda x: x.unique(), lambda x: x.unique_consecutive(return_counts=True), lambda x: x.repeat(x.shape[0] - 1),
    lambda x: x.split(x.shape[0] - 1), lambda x: x.split([x.shape[0] - 2, 2]),
    lambda x: x.repeat_interleave(x.shape[0] - 1), lambda x: x.chunk(3), lambda x: x.chunk(2),
    lambda x: torch.nn.functional.glu(torch.cat([x, x])),
    lambda x: torch.cumulative_trapezoid(x), lambda x: torch.cumulative_trapezoid(x, x),
    lambda x: torch.trapezoid(x, x), lambda x: torch.gradient(x, edge_order=2)])
def test_differences_of_few_elements(f) -> None:
    """In a script the length is one of its numbers: a difference of nothing is none."""
    script = torch.script(f)
    for n in (5, 0, 1, 2, 3):
        x = torch.arange(float(n))
        assert _answer(script, x) == _answer(f, x)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize("f", [lambda y, x: torch.trapezoid(y, x), lambda y, x: torch.cumulative_trapezoid(y, x),
                               lambda y, x: torch.gradient(y, spacing=(x,))])
def test_as_many_places_as_values(f, script: bool) -> None:
    run = torch.script(f) if script else f
    assert _answer(run, torch.ones(4), torch.arange(4.0)) is not RuntimeError
    for n, m in ((3, 5), (5, 3), (4, 2), (3, 0)):
        assert _answer(run, torch.ones(n), torch.arange(float(m))) is RuntimeError


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_sums_of_complex_exponentials(script: bool) -> None:
    def f(x, y):
        return torch.logsumexp(x, 0), torch.logcumsumexp(x, 0)[-1], torch.logaddexp(x, y)[0]

    x, y = torch.tensor([1000 + 2j, 1000.5 - 1j]), torch.tensor([999 + 1j, 0j])
    run = torch.script(f) if script else f
    total = math.e ** 0 * complex(math.cos(2), math.sin(2)) + math.e ** 0.5 * complex(math.cos(1), -math.sin(1))
    for found in run(x, y)[:2]:
        assert abs(found.item() - (1000 + complex(math.log(abs(total)), math.atan2(total.imag, total.real)))) < 1e-3
    pair = complex(math.cos(2), math.sin(2)) + math.e ** -1 * complex(math.cos(1), math.sin(1))
    wanted = 1000 + complex(math.log(abs(pair)), math.atan2(pair.imag, pair.real))
    assert abs(run(x, y)[2].item() - wanted) < 1e-3
    parts = torch.tensor([[1.0, 2.0], [-3.0, 0.5]], dtype=torch.float64, requires_grad=True)

    def real(x):
        z = torch.view_as_complex(x)
        sums = torch.logsumexp(z, 0), torch.logcumsumexp(z, 0), torch.logaddexp(z, z * 2)
        return [torch.view_as_real(y) for y in sums]

    torch.autograd.gradcheck(lambda x: tuple(real(x)), (parts,))


def test_half_types_beside_others() -> None:
    """Neighbours in their own steps; quotients by numbers that they do not have, rounded once."""
    for dtype, step in ((torch.float16, 2.0 ** -10), (torch.bfloat16, 2.0 ** -7)):
        one, two = torch.tensor([1.0], dtype=dtype), torch.tensor([2.0], dtype=dtype)
        assert torch.nextafter(one, two).tolist() == [1 + step]
        assert torch.script(lambda a, b: torch.nextafter(a, b))(one, two).tolist() == [1 + step]
    x = torch.tensor([3.0, 5.0, 0.1], dtype=torch.float16)
    for f in (lambda x: torch.div(x, 0.1, rounding_mode="floor"), lambda x: x // 0.1):
        assert f(x).tolist() == torch.script(f)(x).tolist() == [29, 49, 0]
    assert torch.div(x, 0.1, rounding_mode="trunc").tolist() == [30, 50, 0]


def test_what_is_gathered_from_nothing() -> None:
    """A script loads what no axis changes before it knows that an axis is empty: there must be memory."""
    def f(x):
        nothing = x.repeat(0, 0)
        return nothing.gather(-1, torch.zeros_like(nothing, dtype=torch.int64))

    assert torch.script(f)(torch.ones(2, 3)).shape == (0, 0)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_weights_are_one_for_each_class(script: bool) -> None:
    """Of too many, those that no class had were left out without a word, and so was one too few."""
    def f(x, y, w):
        return torch.nn.functional.cross_entropy(x, y, w), torch.nn.functional.nll_loss(x, y, w)

    run = torch.script(f) if script else f
    x, y = torch.ones(3, 5), torch.tensor([1, 2, 3])
    assert run(x, y, torch.ones(5))[1].item() == -1.0
    for weight in (torch.ones(4), torch.ones(6), torch.ones(1, 5), torch.tensor(2.0)):
        with pytest.raises(RuntimeError, match="defined either for all"):
            run(x, y, weight)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_small_integers_are_summed_and_multiplied_as_int64(script: bool) -> None:
    def f(x):
        return torch.vander(x, 3), x[0].sum_to_size(())

    run = torch.script(f) if script else f
    powers, total = run(torch.tensor([100, 120], dtype=torch.uint8))
    assert (powers.tolist(), powers.dtype) == ([[10000, 100, 1], [14400, 120, 1]], torch.int64)
    assert (total.item(), total.dtype) == (100, torch.int64)
    assert run(torch.tensor([True, False]))[0].tolist() == [[1, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize(("call", "error"), [
    (lambda: torch.prod(torch.ones(2, 2), (0, 1)), TypeError),
    (lambda: torch.aminmax(torch.ones(2, 2), dim=(0,)), TypeError),
    (lambda: torch.frobenius_norm(torch.ones(2, 2), None), TypeError),
    (lambda: torch.frobenius_norm(torch.ones(2, 2, dtype=torch.int64), 0, 1), TypeError),
    (lambda: torch.nansum(torch.ones(2, dtype=torch.complex64), 3), IndexError),
    (lambda: torch.cumulative_trapezoid(torch.tensor([True]), dim=3), RuntimeError),
    (lambda: torch.arange(2, dtype=torch.bool), NotImplementedError),
    (lambda: torch.linalg.lu(torch.ones(2, 2, dtype=torch.uint8)), NotImplementedError),
    (lambda: torch.linalg.lu_factor(torch.ones(2, 2, dtype=torch.uint8)), NotImplementedError)])
def test_the_order_of_checks(call, error) -> None:
    with pytest.raises(error):
        call()

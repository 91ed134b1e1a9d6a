"""Pooling and columns against torch: values, gradients and second order in all three ways of running; messages."""

# ruff: noqa: E501  (tables)

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F

torch = pytest.importorskip("torch")

CASES = [
    ("max_pool1d", (2, 3, 8), (2,), {}), ("max_pool1d", (3, 7), (3, 2), {"padding": 1}),
    ("max_pool2d", (2, 3, 6, 8), (2,), {}), ("max_pool2d", (2, 3, 7, 8), (3, 2, 1), {}),
    ("max_pool2d", (3, 7, 8), ((2, 3),), {"stride": (1, 2), "dilation": (2, 1)}), ("max_pool2d", (2, 2, 7, 7), (2,), {"ceil_mode": True}),
    ("max_pool2d", (2, 2, 6, 7), (3, 2, 1), {"ceil_mode": True}), ("max_pool2d", (1, 1, 12, 13), ((6, 7),), {"stride": 3, "padding": 2}),
    ("max_pool2d", (2, 3, 1, 1), (1,), {}), ("max_pool2d", (0, 3, 4, 4), (2,), {}), ("max_pool3d", (1, 2, 4, 5, 4), (2,), {"padding": 1}),
    ("avg_pool1d", (2, 3, 8), (2,), {}), ("avg_pool1d", (3, 7), (3, 2, 1), {"count_include_pad": False}),
    ("avg_pool2d", (2, 3, 6, 8), (2,), {}), ("avg_pool2d", (2, 3, 7, 8), (3, 2, 1), {}), ("avg_pool2d", (2, 3, 7, 8), (3, 2, 1), {"count_include_pad": False}),
    ("avg_pool2d", (2, 3, 7, 8), (3, 2, 1), {"ceil_mode": True}), ("avg_pool2d", (3, 7, 8), ((2, 3), 2), {"ceil_mode": True, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 7, 8), (3,), {"divisor_override": 5}), ("avg_pool2d", (2, 3, 7, 8), ((7, 8),), {}), ("avg_pool3d", (1, 2, 4, 5, 4), (2, 2, 1), {}),
    ("lp_pool1d", (2, 3, 8), (2.0, 2), {}), ("lp_pool2d", (2, 3, 6, 6), (3.0, 2, 1), {}),
    ("adaptive_avg_pool1d", (2, 3, 7), (3,), {}), ("adaptive_avg_pool2d", (2, 3, 7, 5), ((3, 2),), {}), ("adaptive_avg_pool2d", (2, 3, 7, 5), (1,), {}),
    ("adaptive_avg_pool2d", (3, 4, 6), ((None, 3),), {}), ("adaptive_avg_pool2d", (2, 3, 3, 4), ((7, 5),), {}), ("adaptive_avg_pool3d", (1, 2, 4, 5, 3), (2,), {}),
    ("adaptive_max_pool1d", (2, 3, 7), (3,), {}), ("adaptive_max_pool2d", (2, 3, 7, 5), ((3, 2),), {}), ("adaptive_max_pool2d", (3, 7, 5), (1,), {}),
    ("adaptive_max_pool3d", (1, 2, 4, 5, 3), (2,), {}),
    ("unfold", (2, 3, 6, 5), ((3, 2),), {}), ("unfold", (3, 6, 7), (2,), {"dilation": 2, "padding": 1, "stride": 2}),
    ("fold", (2, 18, 16), ((6, 5), (3, 2)), {}), ("fold", (2, 12, 12), ((6, 7), 2), {"dilation": 2, "padding": 1, "stride": 2}), ("fold", (12, 9), ((4, 4), 2), {}),
]
NAMES = [f"{c[0]}-{i}" for i, c in enumerate(CASES)]


def gradients(library, fn, array):
    """The result, its gradient, and that of a function of it."""
    x = library.tensor(array, requires_grad=True)
    y = fn(x)
    (first,) = library.autograd.grad((y * y * y).sum(), [x], create_graph=True)
    (second,) = library.autograd.grad((first * first).sum(), [x])
    return [t.detach().numpy() for t in (y, first, second)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_values_and_gradients(case):
    name, shape, args, kwargs = case
    rng = np.random.default_rng(0)
    array = rng.permutation(int(np.prod(shape))).reshape(shape) * 0.01 + 0.1
    expected = gradients(torch, lambda x: getattr(torch.nn.functional, name)(x, *args, **kwargs), array)

    def fn(x):
        return getattr(F, name)(x, *args, **kwargs)

    for mode, run in (("eager", fn), ("native", jitgrad.script(fn)), ("interpreted", jitgrad.script(fn))):
        with config.override(interpret=mode == "interpreted"):
            ours = gradients(jitgrad, run, array)
        for k, (a, b) in enumerate(zip(ours, expected, strict=True)):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{mode} {k}")


@pytest.mark.parametrize("case", [c for c in CASES if "max" in c[0] and c[1][0]], ids=lambda c: c[0])
def test_indices(case):
    """Where maxima come from, with ties, infinities and NaN."""
    name, shape, args, kwargs = case
    rng = np.random.default_rng(1)
    array = rng.integers(0, 4, shape).astype(np.float32)
    array[array == 0] = -np.inf
    if "adaptive" not in name:
        array[rng.random(shape) < 0.05] = np.nan
    values, indices = getattr(torch.nn.functional, name)(torch.tensor(array), *args, return_indices=True, **kwargs)

    def fn(x):
        return getattr(F, name)(x, *args, return_indices=True, **kwargs)

    for run in (fn, jitgrad.script(fn)):
        a, b = run(jitgrad.tensor(array))
        np.testing.assert_array_equal(a.numpy(), values.numpy())
        np.testing.assert_array_equal(b.numpy(), indices.numpy())


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "unfold"])
def test_one_compilation_for_all_sizes(name):
    args = {"max_pool2d": (3, 2, 1), "avg_pool2d": (3, 2, 1, True, False)}.get(name, (2,))
    fn = jitgrad.script(lambda x: getattr(F, name)(x, *args))
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 6, 5), (4, 2, 9, 8), (0, 5, 7, 7), (3, 3, 4, 12)):
        array = rng.standard_normal(shape)
        x, t = jitgrad.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        y, z = fn(x), getattr(torch.nn.functional, name)(t, *args)
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), atol=1e-12)
        (y * y).sum().backward()
        (z * z).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), atol=1e-12)
    assert fn.cache_info().compilations == 1


ERRORS = [
    ("max_pool2d", (2, 3, 5, 5), (7,), {}), ("max_pool2d", (2, 3, 5, 5), (3,), {"padding": 2}), ("max_pool2d", (5,), (3,), {}),
    ("max_pool2d", (2, 3, 5, 5), ((3, 3, 3),), {}), ("max_pool2d", (2, 3, 5, 5), (2,), {"stride": 0}), ("max_pool2d", (2, 3, 5, 5), (2,), {"dilation": 0}),
    ("avg_pool2d", (2, 3, 5, 5), (7,), {}), ("avg_pool2d", (2, 3, 5, 5), (3,), {"padding": 2}), ("avg_pool2d", (2, 3, 5, 5), (3,), {"divisor_override": 0}),
    ("avg_pool1d", (2, 3, 5), (7,), {}), ("adaptive_avg_pool2d", (2, 3, 5, 5), ((2, 2, 2),), {}), ("adaptive_avg_pool2d", (5,), (2,), {}),
    ("unfold", (2, 3, 2, 2), (3,), {}), ("fold", (2, 27, 4), ((5, 5), 3), {}), ("fold", (2, 26, 9), ((5, 5), 3), {}),
]


@pytest.mark.parametrize("case", ERRORS, ids=[f"{c[0]}-{i}" for i, c in enumerate(ERRORS)])
def test_messages(case):
    name, shape, args, kwargs = case
    messages = []
    for library in (torch, jitgrad):
        with pytest.raises(RuntimeError) as error:
            getattr(library.nn.functional, name)(library.zeros(*shape), *args, **kwargs)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_messages_at_run_time():
    fn = jitgrad.script(lambda x: F.max_pool2d(x, 3))
    fn(jitgrad.zeros(2, 3, 5, 5))
    with pytest.raises(RuntimeError, match=r"Given input size: \(4x2x5\)\. Calculated output size: \(4x0x1\)\. Output size is"):
        fn(jitgrad.zeros(2, 4, 2, 5))


TYPES = ["F.unfold(x(2, 3, 5, 4), 2)", "F.fold(x(1, 8, 4), (3, 3), 2)", "F.avg_pool1d(x(2, 3, 7), 2)", "F.avg_pool2d(x(2, 3, 6, 5), 3, 1, 1, True, False)",
         "F.avg_pool3d(x(1, 2, 4, 4, 4), 2)", "F.lp_pool1d(x(2, 3, 6), 2, 2)", "F.lp_pool1d(x(2, 3, 6), 3.0, 2)", "F.lp_pool2d(x(1, 2, 5, 5), 2, 2, ceil_mode=True)",
         "F.adaptive_max_pool1d(x(2, 3, 7), 3)", "F.adaptive_max_pool2d(x(2, 3, 6, 5), 3)", "F.adaptive_avg_pool2d(x(2, 3, 7, 7), 3)",
         "F.interpolate(x(1, 2, 5), size=3, mode='nearest')", "F.interpolate(x(1, 2, 4, 5), size=3)", "F.interpolate(x(1, 2, 4), size=3, mode='linear')",
         "F.pad(x(2, 3, 4), (1, 1), mode='reflect')", "F.pad(x(2, 3, 4, 4), (1, 1, 0, 1), mode='replicate')", "F.pad(x(2, 3, 4), (1, 1), mode='circular')",
         "F.conv1d(x(2, 4, 7), x(6, 4, 3))", "F.conv2d(x(2, 4, 6, 5), x(4, 4, 3, 2), dilation=2)", "F.conv_transpose2d(x(2, 4, 4, 3), x(4, 2, 3, 2))",
         "F.conv2d(x(0, 4, 6, 5), x(4, 4, 3, 2), dilation=2)", "F.conv1d(x(2, 4, 7), x(0, 4, 3))", "F.conv1d(x(2, 4, 7), x(1, 2, 3), groups=2)"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("source", TYPES)
def test_types(source, dtype):
    """Integers, bools and halves: torch's numbers where it has a kernel, its error where it has none."""
    def answer(library):
        def x(*shape):
            return library.arange(int(np.prod(shape))).reshape(shape).remainder(5).to(getattr(library, dtype))

        try:
            y = eval(source, {"F": library.nn.functional, "x": x})
        except Exception as e:
            return type(e)
        return str(y.dtype).rpartition(".")[2], y.to(library.float64).numpy()

    ours, theirs = answer(jitgrad), answer(torch)
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours is theirs
    else:
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1], theirs[1], rtol=0.02)


COMPLEX = [lambda m, x: m.nn.functional.conv1d(x(2, 4, 7), x(6, 4, 3), x(6), padding="same"),
           lambda m, x: m.nn.functional.conv2d(x(2, 4, 6, 5), x(4, 2, 3, 2), None, 1, 0, 2, 2),
           lambda m, x: m.nn.functional.conv_transpose2d(x(2, 4, 4, 3), x(4, 2, 3, 2), x(2), 2, 1), lambda m, x: m.renorm(x(3, 2), 2, 1, 0.5)]


@pytest.mark.parametrize("call", COMPLEX)
def test_complex_numbers(call):
    def answer(library):
        xs, rng = [], np.random.default_rng(0)

        def x(*shape):
            xs.append(library.tensor(rng.normal(size=shape) + 1j * rng.normal(size=shape), requires_grad=True))
            return xs[-1]

        y = call(library, x)
        gradients = library.autograd.grad(library.view_as_real(y).pow(2).sum(), xs)
        return [np.asarray(v.detach().resolve_conj()) for v in (y, *gradients)]

    for ours, theirs in zip(answer(jitgrad), answer(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_complex_numbers_in_scripts():
    def f(x, w, b):
        return F.conv2d(x, w, b, (2, 1), 1, 1, 2)

    rng = np.random.default_rng(0)
    xs = [jitgrad.tensor(rng.normal(size=s) + 1j * rng.normal(size=s), requires_grad=True) for s in ((2, 4, 6, 5), (4, 2, 3, 2), (4,))]
    y, z = f(*xs), jitgrad.script(f)(*xs)
    np.testing.assert_allclose(z.detach().numpy(), y.detach().numpy(), atol=1e-9)
    pairs = [jitgrad.autograd.grad(jitgrad.view_as_real(v).pow(2).sum(), xs) for v in (y, z)]
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-9)

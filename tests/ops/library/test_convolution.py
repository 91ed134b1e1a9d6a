"""Convolutions against torch: values, gradients and second order in all three ways of running; sizes; messages."""

# ruff: noqa: E501  (tables)

import itertools

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F

torch = pytest.importorskip("torch")

#: function, shapes of input and weight, whether there is a bias, keyword arguments
CASES = [
    ("conv1d", (2, 3, 8), (4, 3, 3), True, {}),
    ("conv1d", (3, 8), (4, 3, 3), True, {"stride": 2, "padding": 1}),
    ("conv1d", (2, 4, 9), (4, 2, 4), False, {"padding": "same", "groups": 2, "dilation": 2}),
    ("conv2d", (2, 3, 6, 5), (4, 3, 3, 2), True, {}),
    ("conv2d", (2, 4, 7, 6), (6, 2, 3, 3), True, {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}),
    ("conv2d", (3, 6, 5), (2, 3, 2, 2), False, {"padding": "same"}),
    ("conv2d", (2, 3, 4, 4), (5, 3, 1, 1), True, {}),
    ("conv2d", (2, 3, 5, 5), (5, 3, 1, 1), False, {"stride": 2}),
    ("conv2d", (2, 3, 4, 4), (3, 1, 3, 3), True, {"padding": "same", "groups": 3}),
    ("conv2d", (1, 1, 1, 1), (1, 1, 1, 1), True, {"padding": "valid"}),
    ("conv2d", (0, 2, 4, 4), (3, 2, 3, 3), True, {"padding": 1}),
    ("conv3d", (2, 2, 4, 3, 5), (3, 2, 2, 3, 2), True, {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
    ("conv_transpose1d", (2, 3, 5), (3, 4, 3), True, {"stride": 2, "padding": 1, "output_padding": 1}),
    ("conv_transpose2d", (2, 4, 3, 4), (4, 3, 3, 2), True, {}),
    ("conv_transpose2d", (2, 4, 3, 4), (4, 2, 3, 3), True, {"stride": 2, "padding": 1, "groups": 2, "output_padding": (1, 0)}),
    ("conv_transpose2d", (4, 3, 3), (4, 2, 2, 2), False, {"dilation": 3, "output_padding": 2, "padding": 1}),
    ("conv_transpose2d", (2, 3, 4, 4), (3, 5, 1, 1), False, {}),
    ("conv_transpose3d", (1, 2, 2, 3, 2), (2, 3, 2, 2, 3), True, {"stride": (2, 1, 2)}),
]
NAMES = [f"{c[0]}-{i}" for i, c in enumerate(CASES)]


def arrays_of(case, seed=0):
    _, x, w, bias, kwargs = case
    rng = np.random.default_rng(seed)
    channels = w[1] * kwargs.get("groups", 1) if "transpose" in case[0] else w[0]
    return [rng.standard_normal(s) for s in (x, w, *([(channels,)] if bias else []))]


def gradients(library, fn, arrays):
    """The result, its gradients, and those of a function of these."""
    xs = [library.tensor(a, requires_grad=True) for a in arrays]
    y = fn(*xs)
    first = library.autograd.grad((y * y * y).sum(), xs, create_graph=True)
    total = sum((g * g).sum() for g in first)
    second = library.autograd.grad(total, xs)
    return [t.detach().numpy() for t in (y, *first, *second)]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_values_and_gradients(case):
    name, *_, kwargs = case
    arrays = arrays_of(case)
    empty = not case[1][0]  # torch then has no second order
    theirs = None if empty else gradients(torch, lambda *xs: getattr(torch.nn.functional, name)(*xs, **kwargs), arrays)

    def fn(*xs):
        return getattr(F, name)(*xs, **kwargs)

    scripted, interpreted = jitgrad.script(fn), jitgrad.script(fn)
    for mode, run in (("eager", fn), ("native", scripted), ("interpreted", interpreted)):
        with config.override(interpret=mode == "interpreted"):
            ours = gradients(jitgrad, run, arrays)
        for k, (a, b) in enumerate(zip(ours, theirs or ours, strict=True)):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-8, err_msg=f"{mode} {k}")


def test_one_compilation_for_all_sizes():
    rng = np.random.default_rng(0)
    fn = jitgrad.script(lambda x, w: F.conv2d(x, w, None, 2, 1))
    for n, h in ((2, 6), (5, 9), (3, 7), (0, 8)):
        x, w = rng.standard_normal((n, 2, h, h + 1)), rng.standard_normal((3, 2, 3, 2))
        xs = [jitgrad.tensor(a, requires_grad=True) for a in (x, w)]
        ts = [torch.tensor(a, requires_grad=True) for a in (x, w)]
        y, t = fn(*xs), torch.conv2d(*ts, None, 2, 1)
        np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), atol=1e-12)
        (y * y).sum().backward()
        (t * t).sum().backward()
        for a, b in zip(xs, ts, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-10)
    assert fn.cache_info().compilations == 1


def test_a_kernel_whose_size_is_known_only_at_run_time():
    def fn(x, w, k: int):
        return F.conv2d(x, w[:, :, :k], None, 2, 1)

    scripted = jitgrad.script(fn)
    rng = np.random.default_rng(0)
    x, w = (jitgrad.tensor(rng.standard_normal(s), requires_grad=True) for s in ((2, 2, 7, 6), (3, 2, 4, 3)))
    for k in (2, 3, 4):
        results = []
        for run in (fn, scripted):
            y = run(x, w, k)
            results.append([y, *jitgrad.autograd.grad((y * y).sum(), [x, w])])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), atol=1e-10)
    assert scripted.cache_info().compilations == 1


def test_strides_of_memory_do_not_matter():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 2, 3, 6)), rng.standard_normal((3, 3, 2, 4))

    def fn(x, w):
        return F.conv2d(x.permute(1, 2, 3, 0)[:, :, ::2], w.permute(3, 0, 2, 1), padding=1)

    expected = torch.nn.functional.conv2d(
        torch.tensor(x).permute(1, 2, 3, 0)[:, :, ::2], torch.tensor(w).permute(3, 0, 2, 1), padding=1).numpy()
    for run in (fn, jitgrad.script(fn)):
        np.testing.assert_allclose(run(jitgrad.tensor(x), jitgrad.tensor(w)).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_dtypes(dtype):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-3, 4, (2, 3, 5, 5)).astype(dtype), rng.integers(-3, 4, (2, 3, 3, 3)).astype(dtype)
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w)).numpy()
    for run in (F.conv2d, jitgrad.script(lambda x, w: F.conv2d(x, w))):
        y = run(jitgrad.tensor(x), jitgrad.tensor(w)).numpy()
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


X, W = (2, 3, 5, 5), (4, 3, 3, 3)
ERRORS = [
    (X, (4, 1, 3, 3), {}), (X, (4, 1, 3, 3), {"groups": 2}), (X, W, {"groups": 3}), ((5, 5), W, {}),
    (X, (4, 3, 7, 7), {}), (X, (4, 3, 7, 7), {"padding": (0, 1)}), (X, W, {"bias": (3,)}), (X, W, {"bias": (4, 1)}),
    (X, W, {"stride": 0}), (X, W, {"stride": (1, 2, 3)}), (X, W, {"padding": -1}), (X, W, {"padding": (1, 1, 1)}),
    (X, W, {"dilation": 0}), (X, W, {"padding": "same", "stride": 2}), (X, W, {"padding": "other"}),
    (X, W, {"groups": 0}), ((2, 3, 0, 5), W, {}),
]


@pytest.mark.parametrize(("transposed", "case"), [*itertools.product([False], ERRORS), *itertools.product([True], [
    (X, (2, 4, 3, 3), {}), (X, (3, 4, 3, 3), {"bias": (2,)}), (X, (3, 4, 3, 3), {"output_padding": 1}),
    ((2, 3, 1, 1), (3, 4, 1, 1), {"padding": 1})])])
def test_messages(transposed, case):
    x, w, kwargs = case
    name = "conv_transpose2d" if transposed else "conv2d"

    def call(library):
        options = dict(kwargs)
        if "bias" in options:
            options["bias"] = library.zeros(*options["bias"])
        return getattr(library.nn.functional, name)(library.zeros(*x), library.zeros(*w), **options)

    with pytest.raises(RuntimeError) as theirs:
        call(torch)
    with pytest.raises(RuntimeError) as ours:
        call(jitgrad)
    assert str(ours.value) == str(theirs.value)


def test_dtypes_must_agree():
    for x, w, b in (("float32", "float64", None), ("float32", "float32", "float64")):
        messages = []
        for library in (torch, jitgrad):
            args = [library.zeros(*s, dtype=getattr(library, d)) for s, d in ((X, x), (W, w), ((4,), b)) if d]
            with pytest.raises(RuntimeError) as error:
                library.nn.functional.conv2d(*args)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_messages_at_run_time():
    fn = jitgrad.script(lambda x, w: F.conv2d(x, w))
    fn(jitgrad.zeros(2, 3, 5, 5), jitgrad.zeros(4, 3, 3, 3))
    with pytest.raises(RuntimeError, match=r"Calculated padded input size per channel: \(2 x 5\)\. Kernel size: \(3 x 3\)"):
        fn(jitgrad.zeros(2, 3, 2, 5), jitgrad.zeros(4, 3, 3, 3))
    with pytest.raises(RuntimeError, match=r"weight of size \[4, 2, 3, 3\], expected input\[2, 3, 5, 5\] to have 2 channels"):
        fn(jitgrad.zeros(2, 3, 5, 5), jitgrad.zeros(4, 2, 3, 3))


def test_names_in_the_public_namespace():
    """The functions that torch itself has, beside those of its nn.functional."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 6)), rng.standard_normal((3, 4, 2))
    for name, args in (("conv1d", (w,)), ("avg_pool1d", (2,)), ("max_pool1d", (2,)), ("adaptive_avg_pool1d", (3,)),
                       ("channel_shuffle", (2,)), ("pixel_shuffle", (2,))):
        given = [x.reshape(1, 4, 2, 6) if name == "pixel_shuffle" else x, *args]
        ours, theirs = (getattr(library, name)(*[library.tensor(a) if isinstance(a, np.ndarray) else a for a in given])
                        for library in (jitgrad, torch))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-12)

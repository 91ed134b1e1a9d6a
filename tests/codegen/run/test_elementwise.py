"""Error function and gamma family: accuracy in ulp, poles, infinities, dtypes."""

import math

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run.on_arrays.elementwise import computed

# 40-digit values rounded to float64 (mpmath 1.3)
TABLE = {
    "erfinv": [
        (1e-12, 8.86226925452758e-13), (0.001, 0.0008862271574665521), (0.3, 0.2724627147267543),
        (0.8499, 1.0176527650769829), (0.8501, 1.018152291584008), (0.9, 1.1630871536766743),
        (0.95, 1.3859038243496777), (0.999999, 3.458910737275499), (0.9999999999990905, 5.05125408524939),
        (-0.5, -0.4769362762044699)],
    "lgamma": [
        (1e-20, 46.051701859880914), (0.1, 2.252712651734206), (0.5, 0.5723649429247001), (0.9, 0.06637623973474295),
        (0.95, 0.030968795237972926), (1.0000001, -5.772155829918507e-08), (1.2, -0.08537409000331583),
        (1.4616, -0.12148629003589732), (1.7, -0.09580769740706588), (1.9999, -4.227520877215346e-05),
        (2.5, 0.2846828704729192), (3.5, 1.2009736023470743), (7.99, 8.50501160608848), (8.0, 8.525161361065415),
        (50.5, 146.51925549072064), (100000.0, 1051287.7089736569), (-0.3, 1.4648400508576025),
        (-1.7, 0.9218446876946375), (-5.5, -4.517832174007741)],
    "digamma": [
        (1e-10, -10000000000.577215), (0.3, -3.502524222200133), (1.0, -0.5772156649015329),
        (1.4616321, -4.3514636958769774e-08), (1.7, 0.2085478748734939), (2.0, 0.42278433509846713),
        (5.5, 1.6110931485817512), (9.99, 2.250700372831201), (10.0, 2.251752589066721),
        (10000.0, 9.210290371142849), (-0.3, 2.113309779635399), (-3.7, -0.8450768588704194)],
    "polygamma 1": [
        (0.001, 1000001.6425331958), (0.5, 4.934802200544679), (1.0, 1.6449340668482264), (4.5, 0.24872510303901038),
        (20.0, 0.05127082293520312), (1000000.0, 1.0000005000001667e-06), (-0.25, 18.541879647671607),
        (-4.7, 14.887691216772538)],
    "polygamma 2": [
        (0.001, -2000000002.3976321), (0.5, -16.82879664423432), (1.0, -2.4041138063191885),
        (4.5, -0.061556821321027695), (20.0, -0.0026281224023146548), (1000000.0, -1.0000010000005e-12),
        (-0.25, 122.69736678366236), (-4.7, -68.87419113435514)],
    "polygamma 5": [
        (0.5, 7691.113548602436), (1.0, 122.0811674381339), (4.5, 0.0217702556694113), (20.0, 8.48426620615823e-06),
        (1000.0, 2.4060059999944e-14), (-0.25, 492198.7533428746)],
}


def ulps(actual, expected):
    """Distance in units of the last place of the expected value."""
    expected = np.asarray(expected)
    return np.abs(actual - expected) / np.spacing(np.abs(expected))


@pytest.mark.parametrize("name", TABLE)
def test_table(name) -> None:
    xs, expected = (np.array(c) for c in zip(*TABLE[name], strict=True))
    function, *n = name.split()
    actual = computed(function, xs, *map(int, n))
    assert ulps(actual, expected).max() <= (4 if n in ([], ["1"]) else 8)
    narrow = computed(function, xs.astype(np.float32), *map(int, n))
    assert narrow.dtype == np.float32
    wide = computed(function, xs.astype(np.float32).astype(np.float64), *map(int, n))
    np.testing.assert_array_equal(narrow, wide.astype(np.float32))


@pytest.mark.parametrize(("ours", "theirs", "low", "high", "bound"), [
    ("erf", math.erf, -7, 7, 2), ("erfc", math.erfc, -7, 26, 4)])
def test_against_the_c_library(ours, theirs, low, high, bound) -> None:
    rng = np.random.default_rng(0)
    xs = np.concatenate([rng.uniform(low, high, 20000), 10.0 ** rng.uniform(-30, 0, 2000)])
    assert ulps(computed(ours, xs), [theirs(x) for x in xs.tolist()]).max() <= bound


def test_erf_in_float32() -> None:
    """Every 4099th float32 from the smallest to 8, against float64."""
    xs = np.arange(0, 0x41000000, 4099, dtype=np.int64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = computed("erf", xs.astype(np.float64))
        error = np.abs(computed("erf", xs) - exact) / np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert error.max() <= 2


def test_against_scipy() -> None:
    scipy = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(1)
    xs = np.concatenate([rng.uniform(0.01, 40, 3000), 10.0 ** rng.uniform(-5, 8, 3000)])
    np.testing.assert_allclose(computed("lgamma", xs), scipy.gammaln(xs), rtol=1e-14, atol=4e-15)
    assert ulps(computed("digamma", xs), scipy.digamma(xs))[np.abs(xs - 1.4616) > 0.1].max() <= 8
    for n in (1, 2, 3, 7):
        np.testing.assert_allclose(computed("polygamma", xs, n), scipy.polygamma(n, xs), rtol=1e-14)
    negative = -rng.uniform(0, 20, 1000)
    np.testing.assert_allclose(computed("digamma", negative), scipy.digamma(negative), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(computed("lgamma", negative), scipy.gammaln(negative), rtol=1e-11, atol=1e-12)
    inside = rng.uniform(-1, 1, 3000)
    np.testing.assert_allclose(computed("erfinv", inside), scipy.erfinv(inside), rtol=2e-15)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(("function", "xs", "expected"), [
    (("erf", 0), [0.0, -0.0, INF, -INF, NAN, 1e300], [0.0, -0.0, 1, -1, NAN, 1]),
    (("erfc", 0), [0.0, INF, -INF, NAN, 28.0, 1e300], [1, 0, 2, NAN, 0, 0]),
    (("erfinv", 0), [0.0, -0.0, 1, -1, 1.5, -INF, NAN, 5e-324], [0.0, -0.0, INF, -INF, NAN, NAN, NAN, 5e-324]),
    (("lgamma", 0), [0.0, -0.0, 1, 2, -1, -7, INF, -INF, NAN], [INF, INF, 0, 0, INF, INF, INF, INF, NAN]),
    (("digamma", 0), [0.0, -0.0, -1, -5, INF, -INF, NAN], [-INF, INF, NAN, NAN, INF, NAN, NAN]),
    (("polygamma", 1), [0.0, -3, INF, -INF, NAN, 1e300], [INF, INF, 0, NAN, NAN, 1e-300]),
    (("polygamma", 2), [0.0, -3, INF, NAN], [-INF, -INF, 0, NAN]),
    (("polygamma", 0), [0.0, 1.0], [-INF, -0.5772156649015329]),
])
@pytest.mark.parametrize("d", [np.float32, np.float64])
def test_extremes(function, xs, expected, d) -> None:
    with np.errstate(all="ignore"):
        actual, wanted = computed(function[0], np.array(xs, d), function[1]), np.array(expected, d)
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)
    zero = np.array(xs) == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(wanted[zero]))


def test_shapes() -> None:
    for shape in ((), (0,), (2, 0, 3), (2, 3)):
        for d in (np.float16, np.float32, np.float64):
            y = computed("lgamma", np.full(shape, 2.5, d))
            assert (y.shape, y.dtype) == (shape, d)


@pytest.mark.parametrize("d", ["float32", "float64"])
@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "lgamma", "digamma", "polygamma"])
def test_a_value_does_not_depend_on_where_it_is_computed(name, d) -> None:
    """In a vector or alone, eagerly or in a script: bit for bit."""
    order = 2 if name == "polygamma" else 0
    xs = np.random.default_rng(3).uniform(0.05, 0.95, 37).astype(d)
    whole = computed(name, xs, order)
    np.testing.assert_array_equal(whole, np.concatenate([computed(name, xs[k:k + 1], order) for k in range(37)]))
    np.testing.assert_array_equal(whole[::3], computed(name, xs[::3], order))
    function = {"polygamma": lambda x: jitgrad.polygamma(2, x)}.get(name, getattr(jitgrad, name, None))
    scripted = jitgrad.script(lambda x: function(x))
    np.testing.assert_array_equal(whole, scripted(jitgrad.from_numpy(xs)).numpy())

"""Maps of parts, shapes and matrices: torch's values, derivatives and errors; scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D

RNG = np.random.default_rng(0)
VECTORS, MATRICES = RNG.standard_normal((4, 3)), RNG.standard_normal((2, 3, 3))

#: a map made of a library's names, and where it is tried
MAPS: dict[str, Any] = {
    "cat": (lambda d: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, -2.0)], -1, [1, 2]), VECTORS),
    "cat of rows": (lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [3, 1]), VECTORS),
    "cat of ones": (lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform(), d.ExpTransform()], -1), VECTORS),
    "cat of vectors": (lambda d: d.CatTransform([
        d.AffineTransform(0.0, 3.0, event_dim=1), d.IndependentTransform(d.ExpTransform(), 1)], -2, [1, 3]), VECTORS),
    "stack": (lambda d: d.StackTransform([d.ExpTransform(), d.SigmoidTransform(), d.TanhTransform()], -1), VECTORS),
    "stack of rows": (lambda d: d.StackTransform([d.ExpTransform()] * 3 + [d.TanhTransform()], 0), VECTORS),
    "reshape": (lambda d: d.ReshapeTransform((3,), (1, 3, 1)), VECTORS),
    "correlation": (lambda d: d.CorrCholeskyTransform(), VECTORS),
    "correlation of two": (lambda d: d.CorrCholeskyTransform(), VECTORS[:, :1]),
    "correlation of four": (lambda d: d.CorrCholeskyTransform(), RNG.standard_normal((2, 6))),
    "cdf": (lambda d: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), VECTORS),
    "factor": (lambda d: d.LowerCholeskyTransform(), MATRICES),
    "definite": (lambda d: d.PositiveDefiniteTransform(), MATRICES),
}


@pytest.mark.parametrize("name", MAPS)
def test_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, points = MAPS[name]
    found = []
    for library in (torch, jitgrad):
        transform, x = make(library.distributions), library.tensor(points, requires_grad=True)
        y = transform(x)
        values = [y, transform.inv(y)]
        if name not in ("factor", "definite"):
            values.append(transform.log_abs_det_jacobian(x, y))
        sum((v * v).sum() for v in values).backward()
        facts = [transform.bijective, tuple(transform.forward_shape(tuple(points.shape)))]
        found.append(([v.detach().numpy() for v in values] + [x.grad.numpy()], facts))
    assert found[0][1] == found[1][1]
    for a, b in zip(found[1][0], found[0][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [n for n in MAPS if n != "cdf"])
def test_equal_if_made_alike(name: str) -> None:
    make = MAPS[name][0]
    assert make(D) == make(D)
    assert make(D) != D.ReshapeTransform((2,), (2, 1))


@pytest.mark.parametrize("name", MAPS)
def test_in_a_script(name: str) -> None:
    make, points = MAPS[name]

    def slope(x: Any) -> Any:
        transform = make(D)
        y = transform(x)
        return y, transform.inv(y)

    x = jitgrad.tensor(points)
    for a, b in zip(jitgrad.script(slope)(x), slope(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


def test_stacks_of_vectors() -> None:
    """The slopes are of the axes that are left; among the axes taken together they are summed."""
    x = jitgrad.tensor(RNG.standard_normal((5, 2, 3)))
    vector = D.IndependentTransform(D.ExpTransform(), 1)
    beside = D.StackTransform([vector, D.AffineTransform(0.0, 2.0)], -2)
    slope = beside.log_abs_det_jacobian(x, beside(x))
    assert (beside.domain_event_dim, slope.shape) == (1, (5, 2))
    np.testing.assert_allclose(slope[:, 0].numpy(), x[:, 0].sum(-1).numpy())
    np.testing.assert_allclose(slope[:, 1].numpy(), 3 * np.log(2))
    within = D.StackTransform([vector, vector, vector], -1)
    slope = within.log_abs_det_jacobian(x, within(x))
    assert (within.domain_event_dim, slope.shape) == (2, (5,))
    np.testing.assert_allclose(slope.numpy(), x.sum((-2, -1)).numpy())
    p = D.TransformedDistribution(D.Normal(jitgrad.zeros(2, 3), 1.0), beside)
    assert (p.batch_shape, p.event_shape, p.log_prob(beside(x)).shape) == ((2,), (3,), (5, 2))


def test_correlations_of_what_is_drawn() -> None:
    p = D.TransformedDistribution(D.Normal(jitgrad.zeros(3), 1.0), D.CorrCholeskyTransform())
    factor = p.rsample((7,))
    assert (p.event_shape, factor.shape) == ((3, 3), (7, 3, 3))
    np.testing.assert_allclose((factor * factor).sum(-1).numpy(), 1, rtol=1e-5)
    assert p.log_prob(factor).shape == (7,)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: D.ReshapeTransform((2,), (3,)), ValueError, "different numbers of elements"),
    (lambda: D.ReshapeTransform((2, 1), (2,)).forward_shape((2,)), ValueError, "Too few dimensions"),
    (lambda: D.ReshapeTransform((2,), (2, 1)).forward_shape((3,)), ValueError, "Shape mismatch"),
    (lambda: D.CatTransform([D.ExpTransform()], 0, [1, 2]), AssertionError, "must match transforms"),
    (lambda: D.CatTransform([D.ExpTransform()], 0, [2])(jitgrad.zeros(3)), AssertionError, "must equal length 2"),
    (lambda: D.CatTransform([D.ExpTransform()], 1, [2])(jitgrad.zeros(3)), AssertionError, "dim 1 out of range"),
    (lambda: D.StackTransform([D.ExpTransform()])(jitgrad.zeros(3)), AssertionError, "must equal length 1"),
    (lambda: D.CorrCholeskyTransform().forward_shape((4,)), ValueError, "not a flattened lower-diagonal number"),
    (lambda: D.CorrCholeskyTransform().forward_shape(()), ValueError, "Too few dimensions"),
    (lambda: D.CorrCholeskyTransform()(jitgrad.zeros(4)), ValueError, ""),
    (lambda: D.StackTransform([D.ExpTransform()]).sign, NotImplementedError, "^$"),
])
def test_errors(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message or None):
        make()

"""Linear algebra of complex matrices, and eigenvalues, which are complex: torch's values and gradients of both orders,
eager and scripted; differences where torch is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.eager.complex_oracle import agree, derivatives, loss_of, numbers

try:
    import torch
except ImportError:
    torch = None

EYE = 2 * np.eye(3)


def square(seed: int = 0, batch: tuple[int, ...] = ()) -> Any:
    return numbers(*batch, 3, 3, seed=seed) + EYE


def real(*shape: int, seed: int = 0) -> Any:
    return numbers(*shape, seed=seed, real=True)


#: expressions of complex matrices of which the results have no phases of LAPACK's
CASES = {
    "inv": (lambda t, a: t.linalg.inv(a), [square(batch=(2,))]),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), [square(), numbers(3, 2, seed=1)]),
    "solve right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [square(), numbers(2, 3, seed=1)]),
    "det": (lambda t, a: t.linalg.det(a), [square(batch=(2,))]),
    "slogdet sign": (lambda t, a: t.linalg.slogdet(a).sign, [square()]),
    "slogdet size": (lambda t, a: t.linalg.slogdet(a).logabsdet, [square(batch=(2,))]),
    "slogdet": (lambda t, a: t.linalg.slogdet(a)[1] * t.linalg.slogdet(a)[0], [square()]),
    "logdet": (lambda t, a: t.logdet(a), [square()]),
    "cholesky": (lambda t, a: t.linalg.cholesky(a @ a.mH), [square(batch=(2,))]),
    "cholesky upper": (lambda t, a: t.linalg.cholesky(a @ a.mH, upper=True), [square()]),
    "cholesky_ex": (lambda t, a: t.linalg.cholesky_ex(a @ a.mH, upper=True).L, [square()]),
    "cholesky_solve": (lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mH)), [square(), numbers(3, 2)]),
    "cholesky_solve u": (lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mH, upper=True), upper=True),
                         [square(), numbers(3, 2)]),
    "cholesky_inverse": (lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a @ a.mH)), [square()]),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a + a.mH), [square(batch=(2,))]),
    "eigh": (lambda t, a: t.linalg.eigh(a + a.mH)[1].abs(), [square()]),
    "eigh upper": (lambda t, a: t.linalg.eigh(a + a.mH, "U").eigenvectors.abs(), [square()]),
    "eig": (lambda t, a: t.linalg.eig(a).eigenvectors.abs(), [square(batch=(2,))]),
    "eig both": (lambda t, a: (t.linalg.eig(a)[1].abs() * t.linalg.eig(a)[0]).sum(-1), [square()]),
    "eigvals": (lambda t, a: t.linalg.eigvals(a), [square()]),
    "eig of reals": (lambda t, a: t.linalg.eig(a).eigenvectors.abs(), [real(2, 4, 4)]),
    "eigvals of reals": (lambda t, a: t.linalg.eigvals(a), [real(4, 4)]),
    "svd u": (lambda t, a: t.linalg.svd(a, full_matrices=False).U.abs(), [numbers(4, 3)]),
    "svd v": (lambda t, a: t.linalg.svd(a, full_matrices=False).Vh.abs(), [numbers(2, 3, 4)]),
    "svd": (lambda t, a: (lambda u, s, v: (u * (s + 1)) @ v)(*t.linalg.svd(a, False)), [numbers(4, 3)]),
    "svd w": (lambda t, a: (lambda u, s, v: (u * s.exp().unsqueeze(-2)) @ v)(*t.linalg.svd(a, False)),
              [numbers(2, 3, 4)]),
    "svd full": (lambda t, a: t.linalg.svd(a).U[:, :3].abs(), [numbers(4, 3)]),
    "t.svd": (lambda t, a: (lambda u, s, v: (u * (s + 1)) @ v.mH)(*t.svd(a)), [numbers(4, 3)]),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), [square(batch=(2,))]),
    "qr q": (lambda t, a: t.linalg.qr(a).Q, [numbers(4, 3)]),
    "qr r": (lambda t, a: t.linalg.qr(a).R, [numbers(2, 3, 5)]),
    "qr w": (lambda t, a: t.linalg.qr(a).Q, [numbers(2, 3, 5)]),
    "qr complete": (lambda t, a: (lambda q, r: q * r[:, :3])(*t.linalg.qr(a, mode="complete")), [numbers(3, 4)]),
    "lu l": (lambda t, a: t.linalg.lu(a).L, [numbers(2, 4, 3)]),
    "lu u": (lambda t, a: t.linalg.lu(a).U, [numbers(2, 3, 4)]),
    "lu p": (lambda t, a: t.linalg.lu(a).P, [numbers(3, 3)]),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), [square(), numbers(3, 2)]),
    "lu_solve a": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
                   [square(), numbers(3, 2)]),
    "lu_solve ra": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=False, adjoint=True),
                    [square(), numbers(2, 3)]),
    "solve_triangular": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), [square(), numbers(3, 2)]),
    "triangular_solve": (lambda t, a, b: t.triangular_solve(b, a, transpose=True)[0], [square(), numbers(3, 2)]),
    "inv_ex": (lambda t, a: t.linalg.inv_ex(a)[0], [square()]),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b)[0], [square(), numbers(3, 2)]),
    "pinv": (lambda t, a: t.linalg.pinv(a), [numbers(4, 3)]),
    "pinv w": (lambda t, a: t.linalg.pinv(a, atol=0.1), [numbers(2, 3, 4)]),
    "pinv h": (lambda t, a: t.linalg.pinv(a + a.mH, hermitian=True), [square()]),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b).solution, [numbers(5, 3), numbers(5, 2, seed=1)]),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a), [numbers(2, 3, 3)]),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, -3), [square()]),
    "cond": (lambda t, a: t.linalg.cond(a), [numbers(3, 4)]),
    "norm nuc": (lambda t, a: t.linalg.norm(a, "nuc"), [numbers(3, 4)]),
    "norm 2": (lambda t, a: t.linalg.matrix_norm(a, 2, dim=(0, 2)), [numbers(3, 2, 4)]),
    "norm 1": (lambda t, a: t.linalg.matrix_norm(a, 1), [numbers(3, 4)]),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a, ind=2), [numbers(2, 3, 6)]),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b), [numbers(2, 3, 6), numbers(2, 3)]),
    "vander": (lambda t, a: t.linalg.vander(a), [numbers(2, 3)]),
    "multi": (lambda t, a, b: t.linalg.multi_dot([a, b, a]), [square(), square(1)]),
    "cross": (lambda t, a, b: t.linalg.cross(a, b), [numbers(2, 3), numbers(2, 3, seed=1)]),
}
#: results without a gradient, or that torch's own lacks
VALUES = {
    "lstsq gelsd": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd").residuals, [numbers(5, 3), numbers(5, 2)]),
    "singular values": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd").singular_values,
                        [numbers(5, 3), numbers(5, 2)]),
    "matrix_rank": (lambda t, a: t.linalg.matrix_rank(a), [numbers(4, 2) @ numbers(2, 3)]),
    "matrix_rank h": (lambda t, a: t.linalg.matrix_rank(a + a.mH, hermitian=True), [square()]),
    "lu_factor": (lambda t, a: t.linalg.lu_factor(a).LU, [numbers(2, 4, 4)]),
    "pivots": (lambda t, a: t.linalg.lu_factor(a).pivots, [numbers(2, 4, 4)]),
    "cond 1": (lambda t, a: t.linalg.cond(a, 1), [square()]),
    "householder": (lambda t, a, b: t.linalg.householder_product(a, b), [numbers(2, 4, 3), numbers(2, 3) * 0.3]),
    "geqrf": (lambda t, a: t.linalg.householder_product(*t.geqrf(a)), [numbers(4, 3)]),
    "ormqr": (lambda t, a, b, c: t.ormqr(a, b, c), [numbers(4, 3), numbers(3) * 0.3, numbers(4, 2)]),
    "ormqr h": (lambda t, a, b, c: t.ormqr(a, b, c, left=False, transpose=True),
                [numbers(4, 3), numbers(3) * 0.3, numbers(2, 4)]),
    "ldl": (lambda t, a: t.linalg.ldl_factor(a + a.mT).LD, [numbers(2, 5, 5)]),
    "ldl hermitian": (lambda t, a: t.linalg.ldl_factor(a + a.mH, hermitian=True).LD, [numbers(7, 7)]),
    "ldl of reals": (lambda t, a: t.linalg.ldl_factor(a + a.mT).LD, [real(2, 7, 7)]),
    "ldl pivots": (lambda t, a: t.linalg.ldl_factor(a + a.mT).pivots, [real(2, 7, 7)]),
    "ldl info": (lambda t, a: t.linalg.ldl_factor_ex(a * 0).info, [real(2, 3, 3)]),
    "ldl_solve": (lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a + a.mT), b), [real(2, 5, 5), real(5, 2)]),
    "ldl_solve c": (lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a + a.mT), b),
                    [numbers(6, 6), numbers(6, 2)]),
    "ldl_solve h": (lambda t, a, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(a + a.mH, hermitian=True), b,
                                                       hermitian=True), [numbers(2, 6, 6), numbers(2, 6, 2)]),
}


def scripted(function: Any) -> Any:
    def ours(*xs: Any) -> Any:
        return function(jitgrad, *xs)

    return jitgrad.script(ours)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch(name: str) -> None:
    function, arrays = CASES[name]
    agree(derivatives(jitgrad, function, *arrays), derivatives(torch, function, *arrays))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_scripts_agree_with_eager(name: str) -> None:
    function, arrays = CASES[name]
    script = scripted(function)
    agree(derivatives(jitgrad, lambda m, *xs: script(*xs), *arrays), derivatives(jitgrad, function, *arrays))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_differences(name: str) -> None:
    """dL/dRe + i dL/dIm along one direction, by central differences."""
    function, arrays = CASES[name]
    found = derivatives(jitgrad, function, *arrays)
    rng = np.random.default_rng(3)
    for k, g in enumerate(found[1:1 + len(arrays)]):
        if g is None:
            continue
        step = rng.normal(size=g.shape) + (1j * rng.normal(size=g.shape) if g.dtype.kind == "c" else 0)
        moved = []
        for sign in (1, -1):
            changed = list(arrays)
            changed[k] = changed[k] + sign * 1e-6 * step
            moved.append(loss_of(jitgrad, function(jitgrad, *[jitgrad.tensor(a) for a in changed])).item())
        assert (np.conj(g) * step).real.sum() == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    function, arrays = VALUES[name]
    eager, script = [f(*[jitgrad.tensor(a) for a in arrays]) for f in (
        lambda *xs: function(jitgrad, *xs), scripted(function))]
    libraries = [] if torch is None else [function(torch, *[torch.tensor(a) for a in arrays])]
    for other in (script, *libraries):
        assert str(other.dtype).rpartition(".")[2] == eager.dtype.name
        np.testing.assert_allclose(eager.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_factors_are_factors() -> None:
    a = numbers(2, 4, 3)
    u, s, v = jitgrad.linalg.svd(jitgrad.tensor(a), full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(-2)) @ v, a, rtol=1e-12)
    b = jitgrad.tensor(real(2, 4, 4))
    values, vectors = jitgrad.linalg.eig(b)
    np.testing.assert_allclose(b.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), atol=1e-12)
    assert jitgrad.linalg.eig(b.float()).eigenvalues.dtype is jitgrad.complex64
    assert jitgrad.linalg.eig(jitgrad.eye(2))[0].tolist() == [1, 1]
    assert [tuple(y.shape) for y in jitgrad.linalg.eig(jitgrad.zeros(2, 0, 0))] == [(2, 0), (2, 0, 0)]
    assert jitgrad.linalg.eigvals(jitgrad.zeros(0, 3, 3)).shape == (0, 3)
    with pytest.raises(RuntimeError, match="infs or NaNs"):  # on which PyTorch 2.13 crashes
        jitgrad.linalg.eigvals(jitgrad.ones(2, 2) / 0)


REFUSED = ["m.linalg.eig(m.ones(3))", "m.linalg.eig(m.ones(2, 3))", "m.linalg.eig(m.ones(2, 2).half())",
           "m.linalg.eig(m.ones(2, 2, dtype=m.int64))", "m.linalg.eig(m.tensor([[float('nan'), 1], [0, 1]]))",
           "m.linalg.ldl_factor(m.zeros(2, 2))",
           "m.linalg.ldl_factor_ex(m.zeros(2, 2, 2), check_errors=True)", "m.linalg.ldl_factor(m.ones(3))",
           "m.linalg.ldl_factor(m.ones(2, 3))", "m.linalg.ldl_factor(m.ones(2, 2).half())",
           "m.linalg.ldl_solve(m.eye(2), m.tensor([1, 2], dtype=m.int32), m.ones(3, 1))",
           "m.linalg.ldl_solve(m.eye(2), m.tensor([1], dtype=m.int32), m.ones(2, 1))",
           "m.linalg.ldl_solve(m.eye(2), m.tensor([1, 2], dtype=m.int32), m.ones(2, 1).double())",
           "m.linalg.ldl_factor(m.eye(2).requires_grad_()).LD.sum().backward()",
           "m.linalg.ldl_solve(m.eye(2), m.arange(1, 3, dtype=m.int32), m.eye(2).requires_grad_()).sum().backward()",
           "m.linalg.inv(m.zeros(2, 2, dtype=m.complex64))", "m.linalg.cholesky(m.ones(2, 2, dtype=m.complex64) * 1j)"]


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_as_torch(text: str) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)) as ours:
        eval(text, {"m": jitgrad})
    if torch is not None:
        with pytest.raises(RuntimeError) as theirs:
            eval(text, {"m": torch})
        assert issubclass(theirs.type, RuntimeError)
        assert isinstance(ours.value, RuntimeError)


def test_one_program_for_all_sizes() -> None:
    def f(z):
        u, s, v = jitgrad.linalg.svd(z, full_matrices=False)
        return jitgrad.linalg.eigvals((u * s) @ v)

    script = jitgrad.script(f)
    for n in (2, 3, 5):
        z = jitgrad.tensor(numbers(n, n))
        np.testing.assert_allclose(script(z), f(z), rtol=1e-9)
    assert script.cache_info().compilations == 1

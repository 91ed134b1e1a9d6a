"""Inverses, solutions, determinants, factors: torch's values, gradients and second order, eager and scripted."""

import warnings

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def general(*shape):
    return RNG.standard_normal(shape) + 2 * np.eye(shape[-1])


#: expressions, of one result or a list; what has no sign of its own without it
CASES = {
    "inv": (lambda t, a: t.linalg.inv(a), [general(2, 3, 3)]),
    "inverse": (lambda t, a: a.inverse(), [general(3, 3)]),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), [general(3, 3), RNG.standard_normal((3, 2))]),
    "solve batch": (lambda t, a, b: t.linalg.solve(a, b), [general(2, 3, 3), RNG.standard_normal((3, 2))]),
    "solve vector": (lambda t, a, b: t.linalg.solve(a, b), [general(3, 3), RNG.standard_normal(3)]),
    "solve right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [general(3, 3), RNG.standard_normal((2, 3))]),
    "det": (lambda t, a: t.linalg.det(a), [general(2, 3, 3)]),
    "slogdet": (lambda t, a: t.slogdet(a)[1], [general(2, 3, 3)]),
    "logdet": (lambda t, a: t.logdet(a @ a.mT), [general(3, 3)]),
    "cholesky": (lambda t, a: t.linalg.cholesky(a @ a.mT), [general(2, 3, 3)]),
    "cholesky upper": (lambda t, a: t.linalg.cholesky(a @ a.mT, upper=True), [general(3, 3)]),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a + a.mT), [general(2, 3, 3)]),
    "eigh": (lambda t, a: t.linalg.eigh(a + a.mT)[1].abs(), [general(3, 3)]),
    "power": (lambda t, a: t.linalg.matrix_power(a, -3), [general(3, 3)]),
    "svd": (lambda t, a: [x.abs() for x in t.linalg.svd(a, full_matrices=False)], [normal(4, 3)]),
    "svd w": (lambda t, a: [x.abs() for x in t.linalg.svd(a, full_matrices=False)], [normal(2, 3, 4)]),
    "svd full vals": (lambda t, a: t.linalg.svd(a).S, [normal(4, 3)]),
    "svd full": (lambda t, a: t.linalg.svd(a).U[:, :3].abs(), [normal(4, 3)]),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), [normal(2, 3, 3)]),
    "qr": (lambda t, a: list(t.linalg.qr(a)), [normal(4, 3)]),
    "qr w": (lambda t, a: list(t.linalg.qr(a)), [normal(2, 3, 5)]),
    "qr complete": (lambda t, a: list(t.linalg.qr(a, mode="complete")), [normal(3, 4)]),
    "lu": (lambda t, a: list(t.linalg.lu(a))[1:], [normal(4, 3)]),
    "lu w": (lambda t, a: list(t.linalg.lu(a))[1:], [normal(2, 3, 4)]),
    "lu s": (lambda t, a: t.linalg.lu(a).U, [normal(2, 4, 4)]),
    "lu_factor": (lambda t, a: t.linalg.lu_factor(a).LU, [general(3, 3)]),
    "lu_factor_ex": (lambda t, a: t.linalg.lu_factor_ex(a)[0], [general(3, 3)]),
    "lu_solve": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), [general(3, 3), normal(3, 2)]),
    "lu_solve r": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=False),
                   [general(3, 3), normal(2, 3)]),
    "lu_solve a": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
                   [general(2, 3, 3), normal(3, 2)]),
    "lu_solve ra": (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=False, adjoint=True),
                    [general(3, 3), normal(2, 3)]),
    "t.lu_solve": (lambda t, a, b: t.lu_solve(b, *t.linalg.lu_factor(a)), [general(3, 3), normal(3, 2)]),
    "b.lu_solve": (lambda t, a, b: b.lu_solve(*t.linalg.lu_factor(a)), [general(3, 3), normal(3, 2)]),
    "lu_unpack": (lambda t, a: list(t.lu_unpack(*t.linalg.lu_factor(a)))[1:], [normal(4, 3)]),
    "solve_triangular": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), [general(3, 3), normal(3, 2)]),
    "solve_triangular l": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False, left=False),
                           [general(2, 3, 3), normal(4, 3)]),
    "solve_triangular u": (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False, unitriangular=True),
                           [general(3, 3), normal(2, 3, 2)]),
    "triangular_solve": (lambda t, a, b: t.triangular_solve(b, a, transpose=True)[0], [general(3, 3), normal(3, 2)]),
    "cholesky_ex": (lambda t, a: t.linalg.cholesky_ex(a @ a.mT)[0], [general(3, 3)]),
    "cholesky_solve": (lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT)), [general(3, 3), normal(3, 2)]),
    "cholesky_solve u": (lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a @ a.mT, upper=True), upper=True),
                         [general(3, 3), normal(3, 2)]),
    "cholesky_inverse": (lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a @ a.mT)), [general(3, 3)]),
    "inv_ex": (lambda t, a: t.linalg.inv_ex(a)[0], [general(2, 3, 3)]),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b)[0], [general(3, 3), normal(3, 2)]),
    "pinv": (lambda t, a: t.linalg.pinv(a), [normal(4, 3)]),
    "pinv w": (lambda t, a: t.linalg.pinv(a), [normal(2, 3, 4)]),
    "pinv rank": (lambda t, a: t.linalg.pinv(a, rtol=1e-06), [normal(4, 2) @ normal(2, 3)]),
    "pinv h": (lambda t, a: t.linalg.pinv(a + a.mT, hermitian=True), [general(3, 3)]),
    "pinv tol": (lambda t, a: t.linalg.pinv(a, atol=0.5, rtol=0.1), [normal(2, 3, 4)]),
    "pinverse": (lambda t, a: a.pinverse(), [normal(4, 3)]),
    "pinv eye": (lambda t, a: t.linalg.pinv(a), [np.eye(3)]),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b).solution, [normal(5, 3), normal(5, 2)]),
    "lstsq v": (lambda t, a, b: t.linalg.lstsq(a, b).solution, [normal(5, 3), normal(5)]),
    "lstsq w": (lambda t, a, b: t.linalg.lstsq(a, b).solution, [normal(2, 3, 5), normal(2, 3, 2)]),
    "lstsq gelsd": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd").residuals.detach() + a.sum() + b.sum(),
                    [normal(5, 3), normal(5, 2)]),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a), [normal(2, 3, 3)]),
    "matrix_exp big": (lambda t, a: a.matrix_exp(), [4 * normal(3, 3)]),
    "cond": (lambda t, a: t.linalg.cond(a), [normal(3, 4)]),
    "cond1": (lambda t, a: t.linalg.cond(a, 1), [general(2, 3, 3)]),
    "cond fro": (lambda t, a: t.linalg.cond(a, "fro"), [general(3, 3)]),
    "cond nuc": (lambda t, a: t.linalg.cond(a, "nuc"), [general(2, 3, 3)]),
    "cond -2": (lambda t, a: t.linalg.cond(a, -2), [normal(3, 4)]),
    "norm nuc": (lambda t, a: t.linalg.norm(a, "nuc"), [normal(3, 4)]),
    "norm 2": (lambda t, a: t.linalg.matrix_norm(a, 2, dim=(0, 2), keepdim=True), [normal(3, 2, 4)]),
    "norm -2": (lambda t, a: t.linalg.matrix_norm(a, -2, dim=(2, 0)), [normal(3, 2, 4)]),
    "t.norm nuc": (lambda t, a: t.norm(a, "nuc"), [normal(3, 4)]),
    "nuclear_norm": (lambda t, a: t.nuclear_norm(a), [normal(3, 4)]),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a, ind=2), [normal(2, 3, 6)]),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b), [normal(2, 3, 6), normal(2, 3)]),
    "tensorsolve d": (lambda t, a, b: t.linalg.tensorsolve(a, b, dims=(0,)), [normal(6, 2, 3), normal(2, 3)]),
    "vander": (lambda t, a: t.linalg.vander(a), [normal(2, 3)]),
    "vander N": (lambda t, a: t.linalg.vander(a, N=5), [normal(3)]),
    "householder": (lambda t, a, b: t.linalg.householder_product(a, b), [normal(2, 4, 3), normal(2, 3) * 0.3]),
    "householder k": (lambda t, a, b: t.linalg.householder_product(a, b), [normal(4, 3), normal(2) * 0.3]),
    "ormqr": (lambda t, a, b, c: t.ormqr(a, b, c).sum(), [normal(4, 3), normal(3) * 0.3, normal(4, 2)]),
    "ormqr rt": (lambda t, a, b, c: t.ormqr(a, b, c, left=False, transpose=True),
                 [normal(4, 3), normal(3) * 0.3, normal(2, 4)]),
    "t.svd": (lambda t, a: [x.abs() for x in t.svd(a)], [normal(4, 3)]),
    "t.qr": (lambda t, a: list(t.qr(a)), [normal(4, 3)]),
    "power method": (lambda t, a: a.matrix_power(3), [general(3, 3)]),
    "multi": (lambda t, a, b: t.linalg.multi_dot([a, b, a]), [general(3, 3), normal(3, 3)]),
    "chain": (lambda t, a, b: t.chain_matmul(a, b, a), [general(3, 3), normal(3, 3)]),
}
#: torch spoils the inverse in place, and refuses the gradient
NO_GRADIENT = {"cond1", "cond fro"}


def flat(y):
    return y if isinstance(y, list) else [y]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    function, arrays = CASES[name]

    def ours(*xs):
        return function(jitgrad, *xs)

    results = []
    for library, call in ((torch, lambda *xs: function(torch, *xs)), (jitgrad, ours), (jitgrad, jitgrad.script(ours))):
        xs = [library.tensor(a, requires_grad=True) for a in arrays]
        ys = flat(call(*xs))
        found = list(ys)
        if name not in NO_GRADIENT:
            first = library.autograd.grad(sum((y ** 3).sum() for y in ys), xs, create_graph=True)
            second = library.autograd.grad(sum((g ** 2).sum() for g in first), xs, allow_unused=True)
            found += [*first, *[x * 0 if g is None else g for x, g in zip(xs, second, strict=True)]]
        results.append([y.detach().numpy() for y in found])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_cross_takes_the_first_axis_of_three():
    a, b = normal(2, 3, 3), normal(2, 3, 3)

    def ours(a, b):
        return jitgrad.cross(a, b), a.cross(b), jitgrad.linalg.cross(a, b)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = torch.tensor(a), torch.tensor(b)
        expected = torch.cross(x, y), x.cross(y), torch.linalg.cross(x, y)
    for run in (ours, jitgrad.script(ours)):
        for found, theirs in zip(run(jitgrad.tensor(a), jitgrad.tensor(b)), expected, strict=True):
            np.testing.assert_allclose(found, theirs)
    script = jitgrad.script(lambda a, b: jitgrad.cross(a, b))
    for shape in ((2, 3), (3, 3), (3, 2)):  # another size of the first axis is another axis
        x, y = jitgrad.tensor(normal(*shape)), jitgrad.tensor(normal(*shape))
        np.testing.assert_allclose(script(x, y), jitgrad.cross(x, y))
    with pytest.raises(RuntimeError, match="no dimension of size 3 in input"):
        jitgrad.cross(jitgrad.ones(2, 2), jitgrad.ones(2, 2))

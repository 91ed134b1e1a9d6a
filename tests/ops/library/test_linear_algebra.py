"""Factors and solutions of matrices by what defines them, on NumPy: no other library is asked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import linalg

RNG = np.random.default_rng(3)
SHAPES = [(4, 3), (3, 4), (3, 3), (2, 5, 3), (2, 0, 3, 2), (0, 3), (3, 0), (1, 1), (40, 40), (2, 37, 50)]
#: sizes at which no blocks, one and several are solved
SIZES = [(3, 3), (2, 17, 17), (50, 50), (0, 0)]


def normal(*shape: int) -> Any:
    return jitgrad.tensor(RNG.standard_normal(shape))


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    assert tuple(a.shape) == np.shape(b)
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)


def orthogonal(q: Any) -> None:
    close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])))


@pytest.mark.parametrize("shape", SHAPES)
def test_factors(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    k = min(shape[-2:])
    for view in (x, jitgrad.tensor(x.mT.numpy()).mT):  # the second is not in order
        for full in (False, True):
            u, s, v = linalg.svd(view, full_matrices=full)
            orthogonal(u)
            orthogonal(v.mT)
            close(u[..., :k] * s[..., None, :] @ v[..., :k, :], x)
            assert bool((s[..., 1:] <= s[..., :-1]).all()) if k else s.numel() == 0
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(view, mode)
            orthogonal(q)
            close(q @ r, x)
            close(r.triu(), r)
        p, lower, upper = linalg.lu(view)
        orthogonal(p)
        close(p @ lower @ upper, x)
        close(lower.tril(), lower)
        close(upper.triu(), upper)
        assert bool((lower.abs() <= 1).all()), "rows are exchanged"
        lu, pivots = jitgrad.lu(view) if k and shape[-1] <= shape[-2] else linalg.lu_factor_ex(view)[:2]
        assert pivots.dtype is jitgrad.int32
        for a, b in zip(jitgrad.lu_unpack(lu, pivots), (p, lower, upper), strict=True):
            close(a, b.numpy())


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4, 2), (3, 0)])
def test_reflections(shape: tuple[int, ...]) -> None:
    x, c = normal(*shape), normal(*shape[:-2], shape[-2], 4)
    a, tau = jitgrad.geqrf(x)
    q = linalg.qr(x, "complete")[0]
    close(linalg.householder_product(a, tau), q[..., :shape[-1]].numpy())
    close(a.triu()[..., :shape[-1], :], linalg.qr(x).R.numpy())
    close(jitgrad.ormqr(a, tau, c), (q @ c).numpy())
    close(jitgrad.ormqr(a, tau, c.mT, left=False, transpose=True), (c.mT @ q.mT).numpy())


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangles(shape: tuple[int, ...], upper: bool, unit: bool) -> None:
    a = normal(*shape) / shape[-1] if shape[-1] else normal(*shape)
    a = a + jitgrad.eye(shape[-1], dtype=jitgrad.float64)
    b = normal(*shape[:-1], 2)
    triangle = a.triu() if upper else a.tril()
    if unit:
        triangle = triangle.tril(-1) + triangle.triu(1) + jitgrad.eye(shape[-1], dtype=jitgrad.float64)
    x = linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
    close(triangle @ x, b)
    x = linalg.solve_triangular(a, b.mT, upper=upper, unitriangular=unit, left=False)
    close(x @ triangle, b.mT)
    close(jitgrad.triangular_solve(b, a, upper, True, unit).solution.mT @ triangle, b.mT)


@pytest.mark.parametrize("shape", SIZES)
def test_solutions(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape), normal(*shape[:-1], 2)
    lu, pivots = linalg.lu_factor(a)
    for adjoint, matrix in ((False, a), (True, a.mT)):
        close(matrix @ linalg.lu_solve(lu, pivots, b, adjoint=adjoint), b, 1e-7)
        close(linalg.lu_solve(lu, pivots, b.mT, left=False, adjoint=adjoint) @ matrix, b.mT, 1e-7)
    close(a @ linalg.inv_ex(a).inverse @ b, b, 1e-7)
    close(a @ linalg.solve_ex(a, b).result, b, 1e-7)
    spd = a @ a.mT + jitgrad.eye(shape[-1], dtype=jitgrad.float64)
    for upper in (False, True):
        factor, info = linalg.cholesky_ex(spd, upper=upper)
        assert not bool(info.any())
        close(factor.mT @ factor if upper else factor @ factor.mT, spd, 1e-7)
        close(spd @ jitgrad.cholesky_solve(b, factor, upper), b, 1e-6)
        close(jitgrad.cholesky_inverse(factor, upper) @ spd @ b, b, 1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 5, 3), (3, 0), (0, 3), (2, 0, 3, 3)])
def test_pseudoinverses(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape), normal(*shape[:-1], 2)
    p = linalg.pinv(a)
    for left, right in ((a @ p @ a, a), (p @ a @ p, p), ((a @ p).mT, a @ p), ((p @ a).mT, p @ a)):
        close(left, right)
    found = linalg.lstsq(a, b, driver="gelsd")
    close(found.solution, (p @ b).numpy())
    close(a.mT @ (a @ found.solution - b), np.zeros((*shape[:-2], shape[-1], 2)))
    assert found.rank.dtype is jitgrad.int64
    assert found.rank.tolist() == np.full(shape[:-2], min(shape[-2:])).tolist()
    assert linalg.matrix_rank(a).tolist() == found.rank.tolist()
    if shape[-2] > shape[-1]:
        close(found.residuals, ((a @ found.solution - b) ** 2).sum(-2).numpy())


def test_ranks() -> None:
    a = jitgrad.tensor(np.diag([10.0, 1.0, 1e-3, 0.0]))
    assert int(linalg.matrix_rank(a)) == 3
    assert int(linalg.matrix_rank(a, 0.1)) == int(linalg.matrix_rank(a, atol=0.1)) == 2
    assert int(linalg.matrix_rank(a, rtol=0.2)) == 1
    assert linalg.matrix_rank(a.expand(2, 4, 4), atol=jitgrad.tensor([0.1, 5.0])).tolist() == [2, 1]
    assert int(linalg.matrix_rank(-a, hermitian=True)) == 3
    close(linalg.pinv(a, atol=0.1), np.diag([0.1, 1, 0, 0]))
    close(linalg.pinv(a, 0.2), np.diag([0.1, 0, 0, 0]))
    close(a.pinverse(), np.diag([0.1, 1, 1000, 0]))
    assert [float(linalg.cond(a[:3, :3], p)) for p in (None, 2, -2, 1, float("inf"))] == pytest.approx(
        [1e4, 1e4, 1e-4, 1e4, 1e4])
    for p in (1, -1, "fro", "nuc", float("inf")):
        assert float(linalg.cond(a, p)) == float("inf")
        assert float(linalg.cond(jitgrad.zeros(0, 0), p)) == 0


def test_slopes_of_pseudoinverses_need_no_distinct_singular_values() -> None:
    a = jitgrad.eye(3, dtype=jitgrad.float64, requires_grad=True)
    linalg.pinv(a).sum().backward()
    assert a.grad is not None
    close(a.grad, -np.ones((3, 3)))


def test_exponentials() -> None:
    for scale in (0.0, 1e-3, 1.0, 30.0):
        for d, tolerance in ((jitgrad.float64, 1e-10), (jitgrad.float32, 1e-4)):
            a = jitgrad.tensor(np.array([[0.0, -scale], [scale, 0.0]])).to(d)
            close(linalg.matrix_exp(a), [[np.cos(scale), -np.sin(scale)], [np.sin(scale), np.cos(scale)]], tolerance)
    close(linalg.matrix_exp(jitgrad.tensor(np.diag([1.0, -50.0, 3.0]))), np.diag(np.exp([1.0, -50.0, 3.0])))
    assert linalg.matrix_exp(jitgrad.zeros(2, 0, 0)).shape == (2, 0, 0)
    bad = linalg.matrix_exp(jitgrad.tensor([[[0.0, 1.0], [0.0, 0.0]], [[float("nan"), 0.0], [0.0, 0.0]]]))
    close(bad[0], [[1, 1], [0, 1]])
    assert bool(bad[1].isnan().any())


def test_tensors_and_powers() -> None:
    a, b = normal(2, 3, 6), normal(2, 3)
    close(jitgrad.tensordot(a, linalg.tensorsolve(a, b), 1), b)
    close(jitgrad.tensordot(linalg.tensorinv(a, ind=2), b, 2), linalg.tensorsolve(a, b).numpy())
    c = normal(6, 2, 3)
    close(linalg.tensorsolve(c, b, dims=(0,)), linalg.tensorsolve(c.permute(1, 2, 0), b).numpy())
    x = jitgrad.tensor([1, 2, 3])
    assert linalg.vander(x, N=4).tolist() == np.vander([1, 2, 3], 4, increasing=True).tolist()
    m = normal(3, 3)
    close(linalg.matrix_power(m, 0), np.eye(3))
    close(m.matrix_power(5), np.linalg.matrix_power(m.numpy(), 5))
    close(jitgrad.matrix_power(m, -2), np.linalg.matrix_power(m.numpy(), -2), 1e-6)
    close(jitgrad.chain_matmul(m, m, m), np.linalg.matrix_power(m.numpy(), 3))


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, -2, 1, -1, float("inf"), float("-inf")])
def test_norms(ord: Any) -> None:
    a = normal(3, 2, 4)
    for axes in ((0, 2), (2, 0), (1, 2)):
        expected = np.linalg.norm(a.numpy(), ord, axes)
        close(linalg.matrix_norm(a, ord, axes), expected)
        close(linalg.norm(a, ord, axes, keepdim=True), np.linalg.norm(a.numpy(), ord, axes, keepdims=True))
    close(linalg.norm(a[0], ord), np.linalg.norm(a[0].numpy(), ord))


@pytest.mark.parametrize("d", [jitgrad.float16, jitgrad.bfloat16, jitgrad.float32])
def test_dtypes_are_kept(d: Any) -> None:
    a = (normal(3, 3) + 3 * jitgrad.eye(3, dtype=jitgrad.float64)).to(d)
    if d.is_half:
        with pytest.raises(NotImplementedError, match="geqrf_cpu"):
            linalg.qr(a)
    factors = () if d.is_half else linalg.qr(a)
    for y in (*linalg.svd(a), *factors, *linalg.lu(a), linalg.pinv(a), linalg.matrix_exp(a), linalg.cond(a),
              linalg.solve_triangular(a, a, upper=True), linalg.inv_ex(a).inverse):
        assert y.dtype is d


# --- what has no result --------------------------------------------------------------------------------------------

SINGULAR = jitgrad.tensor([[1.0, 1.0], [1.0, 1.0]])
INDEFINITE = jitgrad.tensor([[1.0, 0.0, 0.0], [0.0, -2.0, 0.0], [0.0, 0.0, 3.0]])


def test_infos() -> None:
    pair = jitgrad.stack([jitgrad.eye(2), SINGULAR])
    assert linalg.inv_ex(pair).info.tolist() == linalg.lu_factor_ex(pair).info.tolist() == [0, 2]
    assert linalg.solve_ex(pair, jitgrad.ones(2, 2, 1)).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(jitgrad.stack([INDEFINITE, INDEFINITE.abs()])).info.tolist() == [2, 0]
    assert linalg.inv_ex(pair).info.dtype is jitgrad.int32
    assert bool(linalg.inv_ex(pair).inverse[0].isfinite().all())
    assert linalg.inv_ex(jitgrad.ones(0, 2, 2)).info.shape == (0,)


ERRORS = {
    "svd": (lambda: linalg.svd(SINGULAR * float("nan")), linalg.LinAlgError, "contained non-finite values"),
    "pinv": (lambda: linalg.pinv(SINGULAR * float("nan")), linalg.LinAlgError, "contained non-finite values"),
    "inv_ex": (lambda: linalg.inv_ex(SINGULAR, check_errors=True), linalg.LinAlgError,
               "linalg.inv_ex: The diagonal element 2 is zero, the inversion could not be completed"),
    "inv_ex batch": (lambda: linalg.inv_ex(jitgrad.stack([jitgrad.eye(2), SINGULAR]), check_errors=True),
                     linalg.LinAlgError, r"linalg.inv_ex: \(Batch element 1\): The diagonal element 2 is zero"),
    "solve_ex": (lambda: linalg.solve_ex(SINGULAR, jitgrad.ones(2, 1), check_errors=True), linalg.LinAlgError,
                 "torch.linalg.solve_ex: The solver failed because the input matrix is singular."),
    "cholesky_ex": (lambda: linalg.cholesky_ex(INDEFINITE, check_errors=True), linalg.LinAlgError,
                    r"\(the leading minor of order 2 is not positive-definite\)"),
    "lu_factor": (lambda: linalg.lu_factor(SINGULAR), RuntimeError,
                  r"torch.linalg.lu_factor: U\[2,2\] is zero and using it on lu_solve"),
    "lu pivot": (lambda: linalg.lu(SINGULAR, pivot=False), RuntimeError, "LU without pivoting is not implemented"),
    "lu vector": (lambda: linalg.lu(SINGULAR[0]), RuntimeError, r"Got size: \[2\] instead"),
    "square": (lambda: linalg.matrix_exp(SINGULAR[:1]), RuntimeError, "but they are 1 by 2 matrices"),
    "ints": (lambda: linalg.svdvals(SINGULAR.long()), RuntimeError, "Expected a floating point .* Got Long"),
    "qr": (lambda: linalg.qr(SINGULAR, "q"), RuntimeError, "qr received unrecognized mode 'q'"),
    "qr slope": (lambda: linalg.qr(jitgrad.ones(3, 2, requires_grad=True), "complete"), RuntimeError,
                 "not differentiable when mode='complete' and nrows > ncols"),
    "driver": (lambda: linalg.svd(SINGULAR, driver="gesvd"), RuntimeError, "only supported on CUDA"),
    "triangle": (lambda: linalg.solve_triangular(SINGULAR, jitgrad.ones(3, 1), upper=True), RuntimeError,
                 r"for the equation AX = B \(2x2 and 3x1\)"),
    "lstsq": (lambda: linalg.lstsq(SINGULAR, SINGULAR, driver="gelss!"), RuntimeError, "should be one of"),
    "lstsq rows": (lambda: linalg.lstsq(SINGULAR, jitgrad.ones(3, 1)), RuntimeError, "should match other.size"),
    "cond": (lambda: linalg.cond(SINGULAR, 3), RuntimeError, "got an invalid norm type: 3"),
    "norm": (lambda: linalg.matrix_norm(SINGULAR, 3), RuntimeError, "Order 3 not supported"),
    "norm axes": (lambda: linalg.matrix_norm(SINGULAR, dim=(0, 0)), RuntimeError, "dims must be different"),
    "tensorinv": (lambda: linalg.tensorinv(jitgrad.ones(2, 3)), RuntimeError, "but got 1 != 6"),
    "vander": (lambda: linalg.vander(SINGULAR, N=1), RuntimeError, "N must be greater than 1."),
    "tau": (lambda: linalg.householder_product(SINGULAR, SINGULAR), RuntimeError, "Expected tau to have one dimension"),
    "multi_dot": (lambda: linalg.multi_dot([SINGULAR]), RuntimeError, "at least 2 tensors but got 1"),
    "cholesky_solve": (lambda: jitgrad.cholesky_solve(SINGULAR[0], SINGULAR), RuntimeError,
                       "b should have at least 2 dimensions, but has 1"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call()


def test_errors_in_scripts() -> None:
    @jitgrad.script
    def factor(a: Any) -> Any:
        return linalg.cholesky_ex(a, check_errors=True).L

    @jitgrad.script
    def values(a: Any) -> Any:
        return linalg.svdvals(a)

    close(factor(jitgrad.eye(3, dtype=jitgrad.float64)), np.eye(3))
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2 is not"):
        factor(INDEFINITE)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\).*order 2 is not"):
        factor(jitgrad.stack([jitgrad.eye(3), INDEFINITE]))
    with pytest.raises(linalg.LinAlgError, match="non-finite"):
        values(SINGULAR * float("nan"))


# --- in scripts ----------------------------------------------------------------------------------------------------


def test_one_program_for_all_sizes() -> None:
    """Of matrices with more rows, with more columns and square: the derivative asks for no size."""
    def f(a: Any) -> Any:
        q, r = linalg.qr(a)
        _, lower, upper = linalg.lu(a)
        return linalg.svdvals(a).sum() + (q.sum() + r.sum()) + (lower ** 2).sum() + upper.sum() + linalg.pinv(a).sum()

    scripted = jitgrad.script(f)
    for shape in ((4, 3), (3, 4), (5, 5), (2, 6)):
        found = []
        for run in (f, scripted):
            a = jitgrad.tensor(np.random.default_rng(1).standard_normal(shape), requires_grad=True)
            y = run(a)
            y.backward()
            assert a.grad is not None
            found.append((y.detach(), a.grad))
        close(found[0][0], found[1][0].numpy())
        close(found[0][1], found[1][1].numpy(), 1e-7)
    assert scripted.cache_info().misses == 1


def test_signatures_are_torchs() -> None:
    assert list(inspect.signature(linalg.svd).parameters)[:2] == ["A", "full_matrices"]
    assert linalg.svd(A=SINGULAR, full_matrices=False).Vh.shape == (2, 2)
    assert jitgrad.svd(input=SINGULAR, some=True).V.shape == (2, 2)
    out = jitgrad.empty(0)
    assert linalg.pinv(SINGULAR, out=out) is out
    assert out.shape == (2, 2)


@pytest.mark.parametrize("order", [1, float("inf"), 2])
def test_norms_of_matrices_without_elements(order: float) -> None:
    for shape in ((0, 0), (2, 0, 0)):
        x = jitgrad.zeros(shape, requires_grad=True)
        y = linalg.matrix_norm(x, order)
        assert (tuple(y.shape), y.sum().item()) == (shape[:-2], 0.0)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape


def test_norms_of_small_orders_have_slope_0_at_0() -> None:
    x = jitgrad.tensor([0.0, 1.0, 4.0], requires_grad=True)
    linalg.vector_norm(x, 0.5).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 3.0, 1.5]
    y = jitgrad.zeros(2, 3, requires_grad=True)
    jitgrad.renorm(y, 0.5, 0, 1.0).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [[1.0] * 3] * 2

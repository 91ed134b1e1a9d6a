"""Sparse tensors: values, gradients, errors as PyTorch has them; eager and in scripts."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import sparse

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, of what it calls beta

_rng = np.random.default_rng(5)
PLACES = np.array([[0, 2, 2, 0, 3], [1, 0, 3, 1, 3]])
VALUES = _rng.standard_normal(5)
SIZE = (4, 5)
DENSE = _rng.standard_normal((5, 3))
LEFT = _rng.standard_normal((2, 4))
LEFT_T = np.ascontiguousarray(LEFT.T)


def made(lib, grad=True, **options):
    """A matrix with one coordinate twice, and its values."""
    values = lib.tensor(VALUES, requires_grad=grad)
    return lib.sparse_coo_tensor(lib.tensor(PLACES), values, SIZE, **options), values


PROGRAMS = {
    "to_dense": lambda lib, a, x: a.to_dense(),
    "coalesce": lambda lib, a, x: a.coalesce().values(),
    "mm": lambda lib, a, x: lib.sparse.mm(a, x),
    "matmul": lambda lib, a, x: a @ x,
    "method": lambda lib, a, x: a.mm(x),
    "spmm": lambda lib, a, x: lib.spmm(a, x),
    "torch.mm": lambda lib, a, x: lib.mm(a, mat2=x),
    "torch.mm from the left": lambda lib, a, x: lib.mm(lib.tensor(LEFT), a) @ x,
    "torch.mm of both": lambda lib, a, x: lib.mm(a, a.t()).to_dense() @ x[:4],
    "torch.mm of rows": lambda lib, a, x: lib.mm(a.to_sparse_csr(), x),
    "torch.matmul": lambda lib, a, x: lib.matmul(a, x) + lib.matmul(a, x[:, 0]).unsqueeze(1),
    "torch.mv": lambda lib, a, x: lib.mv(a, x[:, 1]),
    "torch.addmm": lambda lib, a, x: lib.addmm(lib.ones(4, 3, dtype=lib.float64), a, x, beta=0.5, alpha=2.0),
    "torch.addmv of rows": lambda lib, a, x: lib.addmv(lib.ones(4, dtype=lib.float64), a.to_sparse_csr(), x[:, 0]),
    "linear": lambda lib, a, x: lib.nn.functional.linear(x.t(), a),
    "a dense one's mm": lambda lib, a, x: lib.tensor(LEFT).mm(a) @ x,
    "vector": lambda lib, a, x: a @ x[:, 0],
    "left": lambda lib, a, x: lib.tensor(LEFT) @ a @ x,
    "addmm": lambda lib, a, x: lib.sparse.addmm(lib.ones(4, 3, dtype=lib.float64), a, x, beta=0.5, alpha=2.0),
    "transposed": lambda lib, a, x: a.t() @ lib.tensor(LEFT_T) * x[:, :2],
    "scaled": lambda lib, a, x: (a * 3.0 / 2.0) @ x,
    "negative": lambda lib, a, x: (-a).to_dense(),
    "sum": lambda lib, a, x: (lib.sparse.sum(a) * x).exp(),
    "sum of an axis": lambda lib, a, x: lib.sparse.sum(a, 0).to_dense() @ x,
    "sum of the other": lambda lib, a, x: lib.sparse.sum(a, 1).to_dense().sum() * x,
    "added": lambda lib, a, x: (a + a.coalesce()).to_dense() @ x,
    "softmax": lambda lib, a, x: lib.sparse.softmax(a, 1).to_dense() @ x,
    "softmax of columns": lambda lib, a, x: lib.sparse.softmax(a, 0).to_dense() @ x,
    "with dense": lambda lib, a, x: (lib.ones(SIZE, dtype=lib.float64) + a) @ x,
    "double": lambda lib, a, x: a.float().to(lib.float64).to_dense() @ x,
}


def results(lib, program, script=False):
    a, values = made(lib)
    x = lib.tensor(DENSE, requires_grad=True)
    run = lib.script(lambda a, x: program(lib, a, x)) if script else lambda a, x: program(lib, a, x)
    y = run(a, x)
    (y * y).sum().backward()
    return [t.detach().numpy() for t in (y, values.grad, x.grad) if t is not None]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("script", [False, True], ids=["eager", "script"])
def test_values_and_gradients(name, script):
    ours, theirs = results(jitgrad, PROGRAMS[name], script), results(torch, PROGRAMS[name])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def facts(lib, a):
    return (list(a.shape), a.dim(), a.sparse_dim(), a.dense_dim(), a._nnz(), a.is_coalesced(), a.is_sparse, a.numel(),
            str(a.dtype).rpartition(".")[2], a._indices().tolist(), a._values().tolist(), repr(a.layout), a.size(0))


@pytest.mark.parametrize("make", [
    lambda lib: made(lib, False)[0],
    lambda lib: made(lib, False)[0].coalesce(),
    lambda lib: lib.sparse_coo_tensor([[0, 3]], [1.0, 2.0]),
    lambda lib: lib.sparse_coo_tensor([[0, 3], [1, 1]], [[1.0, 2], [3, 4]], (5, 2, 2), dtype=lib.float64),
    lambda lib: lib.tensor([[0.0, 1, 0], [2, 0, 3]]).to_sparse(),
    lambda lib: lib.tensor([[0.0, 1, 0], [0, 0, 0], [2, 0, 3]]).to_sparse(1),
    lambda lib: lib.tensor([[[0.0, 1], [0, 0]], [[2, 0], [0, 3]]]).to_sparse(2),
    lambda lib: lib.tensor([[0.0, 1, 0], [2, 0, 3]]).to_sparse().t().coalesce(),
    lambda lib: lib.tensor([[0.0, 1, 0], [2, 0, 3]]).to_sparse_csr().to_sparse(),
    lambda lib: lib.sparse.FloatTensor(lib.tensor([[0, 1], [1, 0]]), lib.tensor([1.0, 2.0]), lib.Size([2, 3])),
], ids=range(10))
def test_facts(make):
    assert facts(jitgrad, make(jitgrad)) == facts(torch, make(torch))
    assert make(jitgrad).to_dense().tolist() == make(torch).to_dense().tolist()


def test_rows():
    starts, columns = [0, 2, 2, 3], [0, 3, 1]
    for lib in (jitgrad, torch):
        values = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = lib.sparse_csr_tensor(lib.tensor(starts), lib.tensor(columns), values, (3, 4))
        assert a.to_dense().tolist() == [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]
        assert (a @ lib.ones(4, 2)).tolist() == [[3, 3], [0, 0], [3, 3]]
        assert (a.crow_indices().tolist(), a.col_indices().tolist()) == (starts, columns)
        assert (a.is_sparse_csr, a.is_sparse, repr(a.layout)) == (True, False, "torch.sparse_csr")
    a = jitgrad.sparse_csr_tensor(starts, columns, [1.0, 2.0, 3.0], requires_grad=True)
    (a @ jitgrad.ones(4, 2)).sum().backward()
    assert a.grad.values().tolist() == [2, 2, 2]
    assert jitgrad.sparse_csr_tensor(starts, columns, [1.0, 2, 3]).shape == (3, 4)
    back = jitgrad.tensor([[0.0, 5], [6, 0], [0, 0]]).to_sparse_csr()
    assert back.crow_indices().tolist() == [0, 1, 2, 2]
    assert back.t().to_dense().tolist() == [[0, 6, 0], [5, 0, 0]]
    f = jitgrad.script(lambda a, x: (a @ x).exp().sum())
    assert f(back, jitgrad.ones(2)).item() == pytest.approx((back.to_dense() @ jitgrad.ones(2)).exp().sum().item())


def test_leaves_have_sparse_gradients():
    grads = []
    for lib in (jitgrad, torch):
        a = made(lib, False, requires_grad=True)[0]
        assert a.requires_grad
        lib.sparse.mm(a, lib.tensor(DENSE)).sum().backward()
        grads.append(a.grad.coalesce().to_dense().tolist() if lib is torch else a.grad._values().tolist())
    rows = np.array(grads[1])[PLACES[0], PLACES[1]]
    np.testing.assert_allclose(grads[0], rows)
    assert not a.detach().requires_grad


def test_scripts_take_graphs_of_any_size():
    f = jitgrad.script(lambda a, x: (a @ x).relu().sum())
    for n, m, k in ((5, 4, 6), (8, 9, 10), (20, 11, 30), (2, 31, 40)):
        places = jitgrad.stack([jitgrad.randint(0, n, (k,)), jitgrad.randint(0, m, (k,))])
        a, x = jitgrad.sparse_coo_tensor(places, jitgrad.randn(k), (n, m)), jitgrad.randn(m, 3)
        jitgrad.testing.assert_close(f(a, x), (a.to_dense() @ x).relu().sum())
    assert f.cache_info().compilations == 2


def test_scripts_make_them_and_have_them_in_closures():
    a, values = made(jitgrad)
    places = jitgrad.tensor(PLACES)
    x = jitgrad.tensor(DENSE)

    @jitgrad.script
    def captured(x):
        return a @ x

    @jitgrad.script
    def inside(values, x):
        b = jitgrad.sparse_coo_tensor(places, values, SIZE)
        return sparse.mm(b, x), b.coalesce().indices()

    expected = a.to_dense() @ x
    jitgrad.testing.assert_close(captured(x), expected)
    product, indices = inside(values, x)
    jitgrad.testing.assert_close(product, expected)
    assert indices.tolist() == a.coalesce().indices().tolist()
    product.sum().backward()
    jitgrad.testing.assert_close(values.grad, x.sum(1)[places[1]])


@pytest.mark.parametrize("call", [
    lambda lib: made(lib)[0].indices(), lambda lib: made(lib)[0].values(),
    lambda lib: lib.sparse_coo_tensor([[0, 4]], [1.0, 2.0], (4,), check_invariants=True),
    lambda lib: lib.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (4,), check_invariants=True),
    lambda lib: lib.sparse_coo_tensor([[0, 1]], [1.0], (4,)),
    lambda lib: lib.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (4, 4)),
    lambda lib: lib.sparse_coo_tensor([0, 1], [1.0, 2.0], (4,)),
    lambda lib: made(lib)[0] @ lib.ones(4, 2, dtype=lib.float64),
    lambda lib: lib.ones(2, 3, dtype=lib.float64) @ made(lib)[0],
    lambda lib: made(lib)[0] / lib.ones(SIZE, dtype=lib.float64).to_sparse(),
    lambda lib: made(lib)[0] + lib.ones(3, 3, dtype=lib.float64).to_sparse(),
    lambda lib: lib.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (1, 2), check_invariants=True),
    lambda lib: lib.sparse_csr_tensor([0, 2], [0, 3], [1.0, 2.0], (1, 2), check_invariants=True),
    lambda lib: lib.sparse_csr_tensor([0, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True),
], ids=range(14))
def test_errors(call):
    kinds = []
    for lib in (torch, jitgrad):
        with pytest.raises(RuntimeError, match=r"\w") as caught:
            call(lib)
        kinds.append(caught.type)
    assert issubclass(kinds[1], kinds[0])


def test_what_is_refused():
    a, _ = made(jitgrad)
    for call in (lambda: a * a, lambda: jitgrad.ones(2, 2).to_sparse_csr(1)):
        with pytest.raises(NotImplementedError, match=r"to_dense\(\)|dense_dim"):
            call()
    for other in (a, a.to_sparse_csr()):
        with pytest.raises(TypeError, match="expected an ordinary tensor, but got a sparse one: use `a @ x`"):
            jitgrad.softmax(other, 0)
        for call in (jitgrad.mm, jitgrad.matmul, sparse.mm, jitgrad.script(lambda a, x: jitgrad.mm(a, x))):
            with pytest.raises(RuntimeError, match="dtype"):
                call(other, jitgrad.ones(5, 2))
            with pytest.raises(TypeError, match="must be Tensor, not int"):
                call(other, 3)
        with pytest.raises(IndexError, match="Dimension out of range"):
            jitgrad.mm(other, jitgrad.ones(5, dtype=jitgrad.float64))
        with pytest.raises(RuntimeError, match="expected, got 1, 2, 2"):
            jitgrad.mv(other, jitgrad.ones(5, 2, dtype=jitgrad.float64))
    hybrid = jitgrad.sparse_coo_tensor([[0, 1]], jitgrad.ones(2, 3), (2, 3))
    for refused in (lambda: hybrid @ jitgrad.ones(3), lambda: hybrid.to_sparse_csr(), lambda: hybrid.transpose(0, 1)):
        with pytest.raises(RuntimeError, match="sparse"):
            refused()
    for refused in (lambda: sparse.sum(hybrid, 0), lambda: sparse.softmax(hybrid, 0)):
        with pytest.raises(NotImplementedError, match="of sparse matrices"):
            refused()
    with pytest.raises(IndexError, match="Dimension out of range"):
        jitgrad.ones(2).to_sparse(2)


def test_other_ways_to_see_them():
    a, _ = made(jitgrad, False)
    assert a.cpu().clone().double().shape == SIZE
    assert (a - a).to_dense().abs().sum() == 0
    assert (a * jitgrad.full(SIZE, 2.0, dtype=jitgrad.float64)).to_dense().equal(a.to_dense() * 2)
    assert repr(a).startswith("tensor(indices=tensor([[0, 2, 2, 0, 3],")
    assert "nnz=5, layout=torch.sparse_coo)" in repr(a)
    jitgrad.testing.assert_close(a.sum(), a.to_dense().sum())
    assert (a.ndim, a.device, a.to_sparse() is a) == (2, jitgrad.device("cpu"), True)


def test_scripts_make_them_of_dense_ones():
    f = jitgrad.script(lambda x, y: sparse.to_sparse(x) @ y)
    x = jitgrad.tensor([[0.0, 1, 0], [2, 0, 3]], requires_grad=True)
    y = jitgrad.ones(3, 2)
    f(x, y).sum().backward()
    assert f(x, y).tolist() == (x @ y).tolist()
    assert x.grad.tolist() == [[0, 2, 0], [2, 0, 2]]
    assert jitgrad.script(lambda x: x.layout is jitgrad.strided)(y)


def test_products_of_two_sparse_matrices():
    """torch's numbers, and its gradients at what is there; a script does what eager does; nothing is a matrix too."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) * (rng.random(s) < 0.4) for s in ((4, 5), (5, 3))]

    def product(x, y):
        return x @ y

    def run(lib, function):
        x, y = [lib.tensor(v, requires_grad=True) for v in arrays]
        made = function(x.to_sparse(), y.to_sparse()).to_dense()
        gradients = lib.autograd.grad((made ** 2).sum(), [x, y])
        return [made.detach().numpy(), *[g.numpy() * (v != 0) for g, v in zip(gradients, arrays, strict=True)]]

    expected = run(jitgrad, lambda x, y: (x.to_dense() @ y.to_dense()).to_sparse())
    for lib, function in ((jitgrad, product), (jitgrad, jitgrad.script(product)), (torch, product)):
        for a, b in zip(run(lib, function), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    one, other = [jitgrad.tensor(v).to_sparse() for v in arrays]
    rows = one.to_sparse_csr() @ other.to_sparse_csr()
    assert rows.is_sparse_csr
    np.testing.assert_allclose(rows.to_dense().numpy(), expected[0])
    assert (jitgrad.zeros(2, 4).to_sparse() @ one.float())._nnz() == 0
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        one @ one

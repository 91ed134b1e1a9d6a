"""NumPy around tensors: operators and functions of NumPy's give tensors, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as torch

X = torch.tensor([1.0, 2.0, 3.0])
N = torch.tensor([1, 2, 3])
A, K = np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3])


@pytest.mark.parametrize(("text", "dtype", "values"), [
    ("X + A", "float64", [2, 4, 6]), ("X - K", "float64", [0, 0, 0]), ("X * A", "float64", [1, 4, 9]),
    ("X / A", "float64", [1, 1, 1]), ("X ** A", "float64", [1, 4, 27]), ("X % A", "float64", [0, 0, 0]),
    ("N & K", "int64", [1, 2, 3]), ("N << K", "int64", [2, 8, 24]), ("X @ A", "float64", 14),
    ("X == A", "bool", [True] * 3), ("A == X", "bool", [True] * 3), ("X != A", "bool", [False] * 3),
    ("np.float32(2) * X", "float32", [2, 4, 6]), ("X * np.float64(2)", "float32", [2, 4, 6]),
    ("np.square(X)", "float32", [1, 4, 9]), ("np.add(X, X)", "float32", [2, 4, 6]),
    ("np.add(A, X)", "float64", [2, 4, 6]),
    ("np.isnan(X)", "uint8", [0, 0, 0]), ("np.sqrt(torch.tensor(4.0))", "float32", 2),
    ("np.add.reduce(X)", "float32", 6), ("np.cumsum(X)", "float32", [1, 3, 6]),
    ("np.reshape(X, (3, 1))", "float32", [[1], [2], [3]]), ("np.bitwise_and(N, K)", "int64", [1, 2, 3])])
def test_tensors(text: str, dtype: str, values: Any) -> None:
    found = eval(text, {"torch": torch, "np": np, "X": X, "N": N, "A": A, "K": K})
    assert isinstance(found, torch.Tensor)
    assert found.dtype is getattr(torch, dtype)
    assert found.tolist() == values


def test_several_results() -> None:
    fraction, whole = np.modf(X)
    assert isinstance(fraction, torch.Tensor)
    assert whole.tolist() == [1.0, 2.0, 3.0]


def test_arrays_stay_arrays() -> None:
    assert type(np.asarray(X)) is np.ndarray
    assert type(np.concatenate([X, X])) is np.ndarray
    assert type(np.exp(X, out=np.zeros(3, np.float32))) is np.ndarray


def test_gradients_do_not_get_lost() -> None:
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
        np.exp(X.clone().requires_grad_())


# --- types ---------------------------------------------------------------------------------------------------------


def made() -> Any:
    return torch.FloatTensor([1, 2]), torch.LongTensor(2, 3), torch.ByteTensor([[7]]), torch.BoolTensor([0, 1])


def told(x: Any) -> Any:
    if isinstance(x, torch.LongTensor):
        return x + 1
    return x * 2, isinstance(x * 2, torch.FloatTensor), isinstance(x, (torch.LongTensor, torch.Tensor)), x.type(
        torch.DoubleTensor)


@pytest.mark.parametrize("run", [made, torch.script(made)], ids=["eager", "scripted"])
def test_types_make_tensors(run: Any) -> None:
    assert [x.dtype for x in run()] == [torch.float32, torch.int64, torch.uint8, torch.bool]
    assert [tuple(x.shape) for x in run()] == [(2,), (2, 3), (1, 1), (2,)]


def by_sizes(x: Any) -> Any:
    rows = torch.Tensor(x.shape[0], 2)
    rows[0] = x.sum()
    return rows, torch.Tensor(), torch.Tensor(x.shape), torch.FloatTensor(torch.Size([2])), torch.LongTensor(size=(1,))


def of_data(x: Any) -> Any:
    return torch.Tensor([1, 2]), torch.Tensor((2, 3)), torch.Tensor([x.sum(), 1.0]), torch.Tensor(x + 1)


@pytest.mark.parametrize("wrap", [lambda f: f, torch.script], ids=["eager", "scripted"])
def test_tensors_by_their_class(wrap: Any) -> None:
    rows, *zeros = wrap(by_sizes)(X)
    assert rows.tolist() == [[6.0, 6.0], [0.0, 0.0], [0.0, 0.0]]
    assert [x.tolist() for x in zeros] == [[], [0.0, 0.0, 0.0], [0.0, 0.0], [0]]
    assert [x.tolist() for x in wrap(of_data)(X)] == [[1.0, 2.0], [2.0, 3.0], [6.0, 1.0], [2.0, 3.0, 4.0]]
    assert wrap(of_data)(N)[3].dtype is torch.int64
    for refused in (lambda: torch.Tensor(2.5), lambda: torch.Tensor(None), lambda: torch.Tensor(True),
                    lambda: torch.Tensor([1.0], 2), lambda: torch.FloatTensor(N), lambda: torch.Tensor(2, 2.5)):
        with pytest.raises(TypeError):
            wrap(refused)()
    with pytest.raises(RuntimeError, match="negative dimension"):
        wrap(lambda: torch.Tensor(-1))()


def test_a_tensor_of_a_tensor_is_a_view() -> None:
    x = torch.ones(2, requires_grad=True)
    view = torch.Tensor(x)
    assert view._base is x
    assert view.requires_grad


@pytest.mark.parametrize("run", [told, torch.script(told)], ids=["eager", "scripted"])
def test_types_tell_tensors_apart(run: Any) -> None:
    assert run(N).tolist() == [2, 3, 4]
    doubled, *answers, wide = run(X)
    assert doubled.tolist() == [2.0, 4.0, 6.0]
    assert answers == [True, True]
    assert wide.dtype is torch.float64
    assert not isinstance([1.0], torch.FloatTensor)


def test_the_default_type() -> None:
    try:
        torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.ones(2).dtype is torch.float64
        torch.set_default_tensor_type("torch.HalfTensor")
        assert torch.ones(2).dtype is torch.float16
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    with pytest.raises(TypeError, match="only floating-point types"):
        torch.set_default_tensor_type(torch.LongTensor)


def test_asarray_and_dlpack() -> None:
    assert torch.asarray(X) is X
    assert torch.asarray(X, copy=True) is not X
    a = np.ones(2, np.float32)
    shared, copied = torch.asarray(a), torch.asarray(a, copy=True)
    a[0] = 5
    assert shared.tolist() == [5.0, 1.0]
    assert copied.tolist() == [1.0, 1.0]
    assert torch.asarray([1.0], requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="copy is needed"):
        torch.asarray([1.0], copy=False)
    assert torch.from_dlpack(a, copy=True).tolist() == [5.0, 1.0]


# --- out -----------------------------------------------------------------------------------------------------------


def test_out_gets_the_results_shape() -> None:
    out = torch.empty(0)
    assert torch.add(X, X, out=out) is out
    assert out.tolist() == [2.0, 4.0, 6.0]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized since it had shape"):
        torch.sum(X, 0, out=out)
    assert out.shape == ()
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    found = torch.sort(X, descending=True, out=(values, places))
    assert found.values is values
    assert places.tolist() == [2, 1, 0]


def test_out_is_written() -> None:
    x = X.clone()
    before = x._version
    torch.exp(x, out=x)
    assert x._version > before
    assert x.tolist() == pytest.approx(np.exp(A).tolist(), rel=1e-6)
    assert torch.zeros(2, out=torch.ones(2, dtype=torch.int64)).dtype is torch.int64
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.add(X, X, out=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float32, but got float64"):
        torch.gather(X, 0, N - 1, out=torch.zeros(3, dtype=torch.float64))
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not int"):
        torch.add(X, X, out=3)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(X.clone().requires_grad_(), X, out=torch.zeros(3))
    with torch.no_grad():
        assert torch.add(X.clone().requires_grad_(), X, out=torch.zeros(3)).tolist() == [2.0, 4.0, 6.0]


class Exporter:
    """An array of another library, as far as DLPack says."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.ndim = array, array.ndim

    def __dlpack__(self, **asked: Any) -> Any:
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def tolist(self) -> Any:
        return self.array.tolist()

    def item(self) -> Any:
        return self.array.item()


def test_arrays_of_other_libraries() -> None:
    array = np.arange(3, dtype=np.float32)
    shared, copied = torch.as_tensor(Exporter(array)), torch.tensor(Exporter(array), dtype=torch.float64)
    array += 1
    assert shared.tolist() == [1.0, 2.0, 3.0]
    assert copied.tolist() == [0.0, 1.0, 2.0]
    assert copied.dtype is torch.float64
    assert torch.tensor([Exporter(array), [4, 5, 6]]).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert torch.tensor([Exporter(np.array(1.5)), 2]).tolist() == [1.5, 2.0]


@pytest.mark.parametrize("asked", [{}, {"max_version": (1, 0)}])
def test_bfloat16_by_dlpack(asked: Any) -> None:
    a = torch.tensor([1.5, -2.0]).bfloat16()
    for back in (torch.from_dlpack(a), torch.from_dlpack(a.__dlpack__(**asked))):
        assert back.dtype is torch.bfloat16
        assert back.data_ptr() == a.data_ptr()
        assert back.tolist() == [1.5, -2.0]
    capsule = torch.ones(2).__dlpack__()
    assert torch.from_dlpack(capsule).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read already"):
        torch.from_dlpack(capsule)


def test_tensors_of_pytorch() -> None:
    pytorch = pytest.importorskip("torch")
    for d in ("float32", "bfloat16", "int64", "bool"):
        theirs = pytorch.ones(2, 3, dtype=getattr(pytorch, d)).t()
        ours = torch.as_tensor(theirs)
        assert ours.dtype is getattr(torch, d)
        assert ours.stride() == theirs.stride()
        assert torch.tensor(theirs).tolist() == theirs.tolist()
        assert pytorch.from_dlpack(ours).data_ptr() == theirs.data_ptr()
    assert torch.tensor([pytorch.tensor(1.0), pytorch.tensor(2.0)]).tolist() == [1.0, 2.0]

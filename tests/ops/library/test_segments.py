"""Reductions of segments, eigenpairs, bags of embeddings and vectors on files are PyTorch's, whose numbers are here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as torch

NAN, INF = math.nan, math.inf
#: reduction, initial, result for pieces of 2, 0 and 4 elements, gradient of its sum
SEGMENTS = [
    ("sum", None, [2.0, 0.0, 9.0], [1, 1, 1, 1, 1, 1]), ("sum", 1.5, [3.5, 1.5, 10.5], [1, 1, 1, 1, 1, 1]),
    ("mean", None, [1.0, NAN, 2.25], [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]),
    ("mean", 1.0, [1.5, 1.0, 2.5], [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]),
    ("max", None, [1.0, -INF, 5.0], [0.5, 0.5, 0, 0, 1, 0]), ("max", 1.0, [1.0, 1.0, 5.0], [0.5, 0.5, 0, 0, 1, 0]),
    ("min", None, [1.0, INF, 0.0], [0.5, 0.5, 0.5, 0, 0, 0.5]), ("min", -1.0, [-1.0, -1.0, -1.0], [0] * 6),
    ("prod", None, [1.0, 1.0, 0.0], [1, 1, 0, 0, 0, 0]), ("prod", 2.0, [2.0, 2.0, 0.0], [2, 2, 0, 0, 0, 0])]


def reduced(x: Any, lengths: Any, kind: str, initial: Any) -> Any:
    return torch.segment_reduce(x, kind, lengths=lengths, initial=initial)


@pytest.mark.parametrize("run", [reduced, torch.script(reduced)])
@pytest.mark.parametrize(("kind", "initial", "wanted", "slope"), SEGMENTS)
def test_segments(kind: str, initial: Any, wanted: list[float], slope: list[float], run: Any) -> None:
    x = torch.tensor([1.0, 1.0, 0.0, 4.0, 5.0, 0.0], dtype=torch.float64, requires_grad=True)
    y = run(x, torch.tensor([2, 0, 4]), kind, initial)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), wanted)
    np.testing.assert_allclose(x.grad.numpy(), slope)


def test_segments_of_rows_by_offsets() -> None:
    x = torch.arange(24.0).reshape(2, 6, 2)
    offsets = torch.tensor([[0, 2, 6], [0, 6, 6]], dtype=torch.int32)
    y = torch.segment_reduce(x, "sum", offsets=offsets, axis=1)
    assert y.tolist() == [[[2.0, 4.0], [28.0, 32.0]], [[102.0, 108.0], [0.0, 0.0]]]
    short = torch.segment_reduce(x[0], "sum", lengths=torch.tensor([1, 0]), unsafe=True)
    assert short.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(("error", "arguments"), [
    (RuntimeError, {}), (RuntimeError, {"indices": [0]}), (RuntimeError, {"lengths": [1, 2]}),
    (RuntimeError, {"lengths": [-1, 3]}), (RuntimeError, {"lengths": [[1, 1]]}),
    (NotImplementedError, {"lengths": [2.0]})])
def test_segments_that_are_none(error: type[Exception], arguments: dict[str, Any]) -> None:
    with pytest.raises(error):
        torch.segment_reduce(torch.ones(2, 3), "sum", **{k: torch.tensor(v) for k, v in arguments.items()})


def test_words_and_types_of_segments() -> None:
    with pytest.raises(RuntimeError, match="got median"):
        torch.segment_reduce(torch.ones(2), "median", lengths=torch.tensor([2]))
    with pytest.raises(NotImplementedError, match="Long"):
        torch.segment_reduce(torch.arange(2), "sum", lengths=torch.tensor([2]))


@pytest.mark.parametrize("largest", [True, False])
def test_eigenpairs_are_scipys(largest: bool) -> None:
    eigh = pytest.importorskip("scipy.linalg").eigh
    rng = np.random.default_rng(0)
    a, b = (m @ m.T + 9 * np.eye(9) for m in rng.standard_normal((2, 9, 9)))
    for weight in (None, b):
        values, vectors = eigh(a, weight)
        order = slice(None, -4, -1) if largest else slice(3)
        found = torch.lobpcg(torch.tensor(a), 3, None if weight is None else torch.tensor(weight), largest=largest)
        np.testing.assert_allclose(found[0].numpy(), values[order])
        np.testing.assert_allclose(np.abs(found[1].numpy()), np.abs(vectors[:, order]), atol=1e-9)


def test_the_slope_of_eigenvalues() -> None:
    rng = np.random.default_rng(1)
    m = rng.standard_normal((6, 6))
    a = torch.tensor(m @ m.T, requires_grad=True)
    values, vectors = torch.lobpcg(a, 2)
    values.sum().backward()
    v = vectors.detach()
    np.testing.assert_allclose(a.grad.numpy(), (v @ v.T).numpy(), atol=1e-12)
    with pytest.raises(ValueError, match="smaller than 3 x"):
        torch.lobpcg(a, 3)


@pytest.mark.parametrize(("mode", "bags", "places", "sizes", "last"), [
    (0, [[3, 5, 7], [0, 0, 0], [18, 21, 24]], [], [0, 0, 0], [0, 0, 0]),
    (1, [[1.5, 2.5, 3.5], [0, 0, 0], [6, 7, 8]], [0, 0, 2, 2, 2], [2, 0, 3], [2, 0, 3]),
    (2, [[3, 4, 5], [0, 0, 0], [9, 10, 11]], [0, 0, 2, 2, 2], [2, 0, 3], [[1, 1, 1], [0, 0, 0], [3, 3, 3]])])
def test_bags_of_torch(mode: int, bags: Any, places: Any, sizes: Any, last: Any) -> None:
    weight = torch.arange(12.0).reshape(4, 3)
    found = torch.embedding_bag(weight, torch.tensor([0, 1, 2, 3, 1]), torch.tensor([0, 2, 2]), mode=mode)
    assert [x.tolist() for x in found] == [bags, places, sizes, last]


def test_vectors_on_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    x = torch.from_file(str(path), shared=True, size=4, dtype=torch.int32)
    x[1] = 7
    del x
    assert np.fromfile(path, np.int32).tolist() == [0, 7, 0, 0]
    y = torch.from_file(path, size=2, dtype=torch.int32)
    y += 1
    assert y.tolist() == [1, 8]
    assert np.fromfile(path, np.int32).tolist() == [0, 7, 0, 0]
    with pytest.raises(RuntimeError, match="unable to map"):
        torch.from_file(path, size=5, dtype=torch.int32)


def test_switches_and_capsules() -> None:
    torch.set_warn_always(True)
    assert torch.is_warn_always_enabled()
    torch.set_warn_always(False)
    x = torch.arange(3)
    y = torch.from_dlpack(torch.to_dlpack(x))
    y[0] = 5
    assert x.tolist() == [5, 1, 2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_names_of_autocast() -> None:
    assert torch.get_autocast_gpu_dtype() is torch.float16
    before = torch.get_autocast_cpu_dtype()
    try:
        torch.set_autocast_cpu_dtype(torch.float16)
        torch.set_autocast_cpu_enabled(True)
        assert torch.is_autocast_cpu_enabled()
        assert torch.get_autocast_dtype("cpu") is torch.float16
    finally:
        torch.set_autocast_cpu_enabled(False)
        torch.set_autocast_cpu_dtype(before)
    torch.set_autocast_gpu_dtype(torch.get_autocast_gpu_dtype())
    with pytest.warns(DeprecationWarning, match="is_autocast_enabled"):
        torch.is_autocast_cpu_enabled()


def test_results_are_numbered_and_loaded() -> None:
    x = torch.eye(3, requires_grad=True)
    assert [part.output_nr for part in (x, *torch.linalg.eigh(x))] == [0, 0, 1]
    y = torch.zeros(2)
    assert y.module_load(torch.ones(2)).data_ptr() == y.data_ptr()
    other = torch.full((2,), 3.0)
    assert y.module_load(other, assign=True).data_ptr() == other.data_ptr()

"""Tensors on devices: where they are made, how they move, what mixes, what is refused, as in torch."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import device
from jitgrad.utils.data import DataLoader, TensorDataset
from tests.cuda import standin

CUDA = device("cuda", 0)


def test_without_cupy() -> None:
    """CuPy is neither needed nor imported; what asks for a GPU says how to get it."""
    code = """
import sys
sys.modules["cupy"] = None
import jitgrad
assert not jitgrad.cuda.is_available() and jitgrad.cuda.device_count() == 0 and not jitgrad.accelerator.is_available()
assert jitgrad.ones(2).sum().item() == 2
jitgrad.cuda.manual_seed(1)
jitgrad.cuda.manual_seed_all(1)
jitgrad.cuda.empty_cache()
for act in (lambda: jitgrad.ones(2, device="cuda"), lambda: jitgrad.ones(2).cuda(), jitgrad.cuda.current_device,
            lambda: jitgrad.nn.Linear(1, 1).to("cuda:0"), jitgrad.cuda.synchronize, jitgrad.cuda.Stream,
            lambda: jitgrad.set_default_device("cuda"), lambda: jitgrad.ones(2).pin_memory()):
    try:
        act()
    except RuntimeError as error:
        assert 'pip install "jitgrad[cuda13]"' in str(error), error
    else:
        raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_imports_cupy_unasked() -> None:
    code = "import sys, jitgrad; jitgrad.ones(2).to('cpu'); assert 'cupy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_making(cuda: Any) -> None:
    made = [jitgrad.zeros(2, device="cuda"), jitgrad.ones(2, device=CUDA), jitgrad.full((2,), 3, device=0),
            jitgrad.arange(3, device="cuda"), jitgrad.arange(0.5, 3, 0.5, device="cuda"),
            jitgrad.linspace(0, 1, 5, device="cuda"), jitgrad.eye(2, device="cuda"),
            jitgrad.tensor([1.0], device="cuda"), jitgrad.rand(2, device="cuda"), jitgrad.randn(2, device="cuda"),
            jitgrad.randint(5, (2,), device="cuda"), jitgrad.randperm(4, device="cuda"),
            jitgrad.empty(0, device="cuda"), jitgrad.tril_indices(2, 2, device="cuda"),
            jitgrad.logspace(0, 1, 3, device="cuda")]
    assert all(t.device == CUDA and t.is_cuda and t.get_device() == 0 for t in made)
    x = made[1]
    like = [jitgrad.zeros_like(x), jitgrad.rand_like(x), jitgrad.randn_like(x), x.new_zeros(2), x.new_tensor([1]),
            x.new_full((1,), 2.0), jitgrad.full_like(x, 3.0), jitgrad.bernoulli(x), x.clone().uniform_(),
            x.clone().normal_(), jitgrad.nn.functional.dropout(x), jitgrad.normal(x, 1.0),
            jitgrad.multinomial(x, 3, True), jitgrad.one_hot(made[3]) if hasattr(jitgrad, "one_hot") else x]
    assert all(t.device == CUDA for t in like)
    assert jitgrad.zeros_like(x, device="cpu").device.type == "cpu"
    assert str(x.type()) == "torch.cuda.FloatTensor"


def test_the_same_random_numbers_as_on_the_cpu(cuda: Any) -> None:
    def draws(where: str) -> list[Any]:
        jitgrad.manual_seed(5)
        found = [jitgrad.rand(7, device=where), jitgrad.randn(3, 3, device=where), jitgrad.randperm(9, device=where),
                 jitgrad.randint(2, 50, (6,), device=where), jitgrad.rand(5, dtype=jitgrad.float64, device=where),
                 jitgrad.nn.functional.dropout(jitgrad.ones(20, device=where), 0.3), jitgrad.rand(1, device=where)]
        return [t.tolist() for t in found]

    assert draws("cuda") == draws("cpu")


def test_default_device(cuda: Any) -> None:
    assert jitgrad.get_default_device() == device("cpu")
    with device("cuda:1"):
        assert jitgrad.ones(1).device == device("cuda:1")
        assert jitgrad.nn.Linear(1, 1).weight.device == device("cuda:1")
        with device("cpu"):
            assert jitgrad.ones(1).device == device("cpu")
        assert jitgrad.rand(1).device == device("cuda:1")
        assert jitgrad.from_numpy(np.ones(1)).device == device("cpu")
    assert jitgrad.ones(1).device == device("cpu")
    jitgrad.set_default_device("cuda")
    try:
        assert jitgrad.tensor([1]).device == CUDA
        assert jitgrad.get_default_device() == CUDA
    finally:
        jitgrad.set_default_device(None)
    assert jitgrad.tensor([1]).device == device("cpu")


def test_moving(cuda: Any) -> None:
    x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.to("cuda", non_blocking=True)
    assert (y.device, y.requires_grad, y.is_leaf) == (CUDA, True, False)
    assert y.to("cuda:0") is y
    assert y.cuda() is y
    assert x.cpu() is x
    z = y.T.to("cuda:1", jitgrad.float64)
    assert (z.device, z.dtype, z.tolist()) == (device("cuda:1"), jitgrad.float64, [[1.0, 3.0], [2.0, 4.0]])
    (z * 2).sum().backward()
    assert x.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (device("cpu"), [[2.0, 2.0], [2.0, 2.0]])
    (g,) = jitgrad.autograd.grad((x.cuda() ** 3).sum(), x, create_graph=True)
    assert jitgrad.autograd.grad(g.sum(), x)[0].tolist() == [[6.0, 12.0], [18.0, 24.0]]
    other = jitgrad.zeros(1, dtype=jitgrad.float64, device="cuda:1")
    assert x.detach().to(other).dtype == jitgrad.float64
    assert x.detach().type_as(other).device == other.device
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        x.to("cuda:7")


def test_copies_between_devices(cuda: Any) -> None:
    x, y = jitgrad.zeros(3), jitgrad.arange(3.0, device="cuda")
    assert x.copy_(y).tolist() == [0.0, 1.0, 2.0]
    y[1:] = jitgrad.tensor([7.0, 8.0])
    y[0] = 5
    assert y.tolist() == [5.0, 7.0, 8.0]
    assert y.fill_(2.5).tolist() == [2.5] * 3
    assert y.zero_().tolist() == [0.0] * 3
    w = jitgrad.ones(3, requires_grad=True)
    y.copy_(w)
    (y * 3).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0] * 3


def test_mixing(cuda: Any) -> None:
    x, s = jitgrad.ones(2, device="cuda"), jitgrad.tensor(3.0, requires_grad=True)
    y = x * s + jitgrad.tensor(1.0)
    assert (y.device, y.tolist()) == (CUDA, [4.0, 4.0])
    y.sum().backward()
    assert s.grad is not None
    assert (s.grad.device.type, s.grad.item()) == ("cpu", 2.0)
    assert (jitgrad.tensor(2) * x).dtype == jitgrad.float32
    assert x.mul_(jitgrad.tensor(4.0)).tolist() == [4.0, 4.0]
    assert x[jitgrad.tensor([1, 0])].device == CUDA  # indices may be on the CPU
    assert jitgrad.where(x > 1, x, jitgrad.tensor(0.0)).device == CUDA
    words = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for act in (lambda: x + jitgrad.ones(2), lambda: jitgrad.ones(2) @ x, lambda: jitgrad.cat([x, jitgrad.ones(2)]),
                lambda: jitgrad.nn.Linear(2, 2)(x), lambda: jitgrad.ones(2).add_(x)):
        with pytest.raises(RuntimeError, match=words):
            act()
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        x + x.to("cuda:1")


def test_no_numpy(cuda: Any) -> None:
    x = jitgrad.ones(2, device="cuda")
    for act in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            act()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="with device type"):
        x.grad = jitgrad.ones(2)


def test_printing(cuda: Any) -> None:
    assert repr(jitgrad.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"
    assert repr(jitgrad.ones(2, dtype=jitgrad.float64, device="cuda:1")) == (
        "tensor([1., 1.], device='cuda:1', dtype=jitgrad.float64)")
    assert repr(jitgrad.ones(1, device="cuda", requires_grad=True)) == (
        "tensor([1.], device='cuda:0', requires_grad=True)")
    assert repr(jitgrad.zeros(0, 2, device="cuda")) == "tensor([], device='cuda:0', size=(0, 2))"
    big = jitgrad.arange(6000.0).reshape(20, 300)
    assert repr(big.cuda()).replace(", device='cuda:0'", "") == repr(big)
    many = jitgrad.arange(2000)
    assert repr(many.cuda()).replace(", device='cuda:0'", "") == repr(many)


def test_modules_and_optimizers(cuda: Any) -> None:
    net = jitgrad.nn.Sequential(jitgrad.nn.Linear(3, 4), jitgrad.nn.BatchNorm1d(4), jitgrad.nn.Linear(4, 2))
    parameters = list(net.parameters())
    assert net.cuda() is net
    assert [p is q for p, q in zip(net.parameters(), parameters, strict=True)] == [True] * len(parameters)
    assert all(t.device == CUDA for t in (*net.parameters(), *net.buffers()))
    optimizer = jitgrad.optim.Adam(net.parameters())
    net(jitgrad.randn(5, 3, device="cuda")).square().mean().backward()
    optimizer.step()
    assert all(p.grad is not None and p.grad.device == CUDA for p in net.parameters())
    assert all(s["exp_avg"].device == CUDA for s in optimizer.state.values())
    state = optimizer.state_dict()
    net.cpu()
    assert all(p.grad is not None and p.grad.device.type == "cpu" for p in net.parameters())
    optimizer.load_state_dict(state)
    assert all(s["exp_avg"].device.type == "cpu" for s in optimizer.state.values())
    optimizer.step()
    twin = jitgrad.nn.Linear(3, 4, device="cuda")
    twin.load_state_dict(net[0].state_dict())
    assert twin.weight.device == CUDA
    assert net[0].to(jitgrad.zeros(1, dtype=jitgrad.float64, device="cuda")).weight.dtype == jitgrad.float64


def test_saving(cuda: Any) -> None:
    x = jitgrad.arange(3.0, device="cuda:1")
    file = io.BytesIO()
    jitgrad.save({"x": x, "same": x, "p": jitgrad.nn.Parameter(jitgrad.ones(2, device="cuda")),
                  "c": jitgrad.ones(1)}, file)

    def load(where: Any) -> Any:
        file.seek(0)
        return jitgrad.load(file, where)

    found = load(None)
    assert [found[k].device for k in "xpc"] == [device("cuda:1"), CUDA, device("cpu")]
    assert found["x"].tolist() == [0.0, 1.0, 2.0]
    found["x"].zero_()
    assert found["same"].tolist() == [0.0] * 3
    assert load("cpu")["x"].device.type == "cpu"
    assert load("cuda")["c"].device == CUDA
    assert load({"cuda:1": "cpu"})["x"].device.type == "cpu"
    assert load(lambda storage, location: storage)["x"].device.type == "cpu"
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == x.tolist()
    assert copy.deepcopy(x).device == x.device


def test_loading_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    with standin.installed():
        jitgrad.save(jitgrad.ones(2, device="cuda"), file)
    monkeypatch.setitem(sys.modules, "cupy", None)
    file.seek(0)
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        jitgrad.load(file)
    file.seek(0)
    assert jitgrad.load(file, "cpu").tolist() == [1.0, 1.0]


def test_pinned_memory(cuda: Any) -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    y = x.pin_memory()
    assert (x.is_pinned(), y.is_pinned(), y.tolist()) == (False, True, x.tolist())
    assert y.pin_memory() is y
    loader = DataLoader(TensorDataset(x, x), batch_size=2, pin_memory=True)
    assert all(a.is_pinned() and b.is_pinned() for a, b in loader)
    with pytest.raises(RuntimeError, match="cannot pin"):
        x.cuda().pin_memory()


def test_cupy_arrays(cuda: Any) -> None:
    array = cuda.asarray(np.arange(3.0, dtype=np.float32))
    x = jitgrad.as_tensor(array)
    assert (x.device, x.dtype) == (CUDA, jitgrad.float32)
    x.zero_()
    assert array.get().tolist() == [0.0] * 3
    assert jitgrad.tensor(array).add_(1).tolist() == [1.0] * 3
    assert array.get().tolist() == [0.0] * 3
    assert x.__cuda_array_interface__["data"] == (x.data_ptr(), False)
    with pytest.raises(AttributeError, match="non-CUDA"):
        _ = jitgrad.ones(1).__cuda_array_interface__
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = x.requires_grad_().__cuda_array_interface__
    assert np.from_dlpack(jitgrad.arange(3)).tolist() == [0, 1, 2]
    assert jitgrad.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]


def test_views_and_writes(cuda: Any) -> None:
    x = jitgrad.zeros(2, 3, device="cuda")
    x[0].add_(1)
    x.T[2] = 5
    assert x.tolist() == [[1.0, 1.0, 5.0], [0.0, 0.0, 5.0]]
    w = jitgrad.ones(4, device="cuda", requires_grad=True)
    y = w * 2
    y[1:3] *= 10
    y.view(2, 2)[0] = 0
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [0.0, 0.0, 20.0, 2.0]
    with pytest.raises(RuntimeError, match="more than one element"):
        jitgrad.ones(1, device="cuda").expand(3).add_(1)
    y = w.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_functions_that_make_tensors_of_their_own(cuda: Any) -> None:
    """What a function makes inside is where its operands are."""
    F, x = jitgrad.nn.functional, jitgrad.randn(2, 6, device="cuda")
    image, labels = jitgrad.randn(1, 1, 4, 4, device="cuda"), jitgrad.tensor([0, 1], device="cuda")
    found = [x.tril(), x.diag_embed(), x.unfold(1, 2, 1), x.quantile(0.5), x.quantile(jitgrad.tensor([0.2]).cuda()),
             x.cummax(1).values, x.unique(), jitgrad.repeat_interleave(x, labels, 0), jitgrad.bincount(labels),
             jitgrad.vander(x[0]), jitgrad.searchsorted(x[0].sort().values, x[1]), x.median(), x[0].topk(2).values,
             F.interpolate(image, scale_factor=2, mode="bilinear"), F.pad(image, (1, 1, 1, 1), mode="reflect"),
             F.avg_pool2d(image, 2, padding=1, count_include_pad=False), F.adaptive_avg_pool2d(image, 3),
             F.fold(jitgrad.ones(1, 4, 4, device="cuda"), (3, 3), 2), F.max_pool2d(image, 2), F.one_hot(labels, 3),
             F.multi_margin_loss(x, labels), F.cross_entropy(x, labels, label_smoothing=0.1),
             F.ctc_loss(jitgrad.randn(5, 2, 4, device="cuda").log_softmax(2), labels.unsqueeze(1) + 1, [5, 5], [1, 1]),
             F.embedding_bag(labels.unsqueeze(1), x), F.dropout2d(image),
             F.scaled_dot_product_attention(image, image, image, is_causal=True),
             F.alpha_dropout(x, 0.5, True), jitgrad.linalg.inv(jitgrad.eye(2, device="cuda")),
             jitgrad.func.grad(lambda v: (v ** 3).sum())(x), jitgrad.nn.LSTM(6, 3).cuda()(x)[0],
             jitgrad.distributions.Normal(x, x.exp()).sample(), jitgrad.distributions.Categorical(logits=x).sample(),
             jitgrad.nn.init.orthogonal_(jitgrad.empty(3, 3, device="cuda"))]
    assert [i for i, t in enumerate(found) if t.device != CUDA] == []
    jitgrad.testing.assert_close(x, x.cpu())
    assert jitgrad.autograd.gradcheck(lambda v: (v ** 2).sum(), x.double().requires_grad_())

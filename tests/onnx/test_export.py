"""Exported models compute what eager computes, at sizes other than those of the export."""

from __future__ import annotations

import dataclasses
import io
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import jitgrad
from jitgrad import nn
from jitgrad.errors import UnsupportedOnnx
from jitgrad.nn import functional as F
from tests.onnx.models import compare, session


@dataclasses.dataclass
class Both:
    first: jitgrad.Tensor
    rest: tuple[jitgrad.Tensor, jitgrad.Tensor]


@pytest.fixture(autouse=True)
def seeded():
    jitgrad.manual_seed(0)


def batches(*shape, sizes=(3, 7, 2)):
    return [(jitgrad.randn(n, *shape),) for n in sizes]


def test_mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 3))
    exported = compare(model.eval(), batches(8))
    graph = exported.graph
    assert {i.name for i in graph.initializer} >= set(model.state_dict()) - {"3.num_batches_tracked"}
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == ["input_0", 8]
    assert [d.dim_param or d.dim_value for d in graph.output[0].type.tensor_type.shape.dim] == ["input_0", 3]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 5, padding=2), nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.head = nn.Linear(6 * 6 * 6, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.relu(self.second(x))
        return F.log_softmax(self.head(x.flatten(1)), dim=1)


def test_convolutions():
    compare(LeNet(), batches(1, 28, 28))


LAYERS = {
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (3, 5, 6), (3, 4, 4)),
    "pooling": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2)),
                (3, 8, 8), (3, 6, 4)),
    "activations": (lambda: nn.Sequential(nn.SiLU(), nn.ELU(), nn.Softplus(), nn.LeakyReLU(), nn.Hardswish(), nn.Mish(),
                                          nn.GELU("tanh"), nn.Softsign(), nn.SELU(), nn.LogSigmoid()), (5,), (7,)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
                (5, 8), (7, 8)),
    "recurrent": (lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True), (3, 4), (2, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, *shapes = LAYERS[name]
    compare(make().eval(), [(jitgrad.randn(n, *shape),) for n, shape in zip((2, 5), shapes, strict=True)], 3e-5)


class Block(nn.Module):
    """A transformer's block, as in a GPT."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [p.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for p in self.qkv(self.norm1(x)).split(c, dim=2)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, words=11, width=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(32, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.places(jitgrad.arange(ids.shape[1]))
        return self.norm(self.blocks(x)) @ self.words.weight.T


def test_gpt():
    compare(Gpt(), [(jitgrad.randint(0, 11, shape),) for shape in ((2, 5), (3, 9), (4, 2))])


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.h = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = jitgrad.zeros(x.shape[1], 6)
        total = h.sum()
        for t in range(x.shape[0]):
            h = jitgrad.tanh(self.i(x[t]) + self.h(h))
            if bool(h.sum() > 0):
                total = total + h.mean()
        return h, total


def test_a_loop_over_time():
    model = compare(jitgrad.script(Rnn()), [(jitgrad.randn(t, b, 4),) for t, b in ((5, 3), (9, 2), (2, 4))])
    assert "Loop" in {n.op_type for n in model.graph.node}


def test_recurrent_layers():
    compare(nn.LSTM(4, 5), [(jitgrad.randn(t, b, 4),) for t, b in ((5, 3), (8, 2))])


@jitgrad.script
def collatz(n: int):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@jitgrad.script
def settle(x, w, limit: int):
    steps = 0
    for _ in range(limit):
        new = jitgrad.tanh(x @ w)
        steps += 1
        if bool((new - x).abs().max() < 1e-2):
            break
        x = new
    return x, steps


def test_loops_whose_length_depends_on_data():
    compare(collatz, [(n,) for n in (6, 1, 27)])
    w = jitgrad.randn(4, 4) * 0.2
    compare(settle, [(jitgrad.randn(n, 4), w, limit) for n, limit in ((3, 50), (5, 2), (2, 0))])


@jitgrad.script
def branches(x, flag: bool):
    if bool(x.sum() > 0):
        y = x * 2
    else:
        y = -x
        if flag:
            y = y + 1
    return {"y": y, "size": x.shape[0]}


def test_branches_on_values_and_numbers():
    x = jitgrad.ones(3, 2)
    model = compare(branches, [(s * x, f) for s in (1, -1) for f in (True, False)])
    assert [o.name for o in model.graph.output] == ["y", "size"]


@jitgrad.script
def sizes(x, y):
    n = x.shape[0]
    top = jitgrad.cat([x[:n // 2], y, x[-1:]])
    return (top.reshape(-1), x[::2], x[:, 1], y.flip(0), jitgrad.stack([x.sum(0), y.mean(0)]), x.T[1:].clone(),
            jitgrad.arange(n) % 3, F.pad(x, (1, 2), value=3.0), x.unsqueeze(0).expand(n, -1, -1))


def test_slices_and_joins_follow_the_sizes():
    compare(sizes, [(jitgrad.randn(n, 3), jitgrad.randn(m, 3)) for n, m in ((4, 2), (7, 5), (2, 9))])


@jitgrad.script
def indices(x, i, j):
    picked = x[i, j]
    y = x.clone()
    y[i] = 0.0
    y[0, 1] += 2.0
    y[1:, 0] = 5.0
    return (x[i], picked, x[:, j], x[i.unsqueeze(1), j], y, x.gather(1, j.unsqueeze(0).expand(x.shape[0], -1)),
            x[x > 0], x.sort(dim=1, descending=True), x.topk(2)[1], x.argmax(dim=1), x.cumsum(0),
            jitgrad.where(x > 0, x, 0.0), jitgrad.zeros(5).scatter_add(0, i, x[:, 0][:2]))


def test_indexing():
    i, j = jitgrad.tensor([1, 0]), jitgrad.tensor([2, 0])
    compare(indices, [(jitgrad.randn(n, 4), i, j) for n in (3, 6)])


@jitgrad.script
def numbers(x, n: int, s: float, flag: bool):
    a = (n * 3 - 7) // 4
    b = (n % 5) ** 2 - abs(-n)
    c = s / 3 if flag else s * n
    d = min(max(n, 2), 5)
    return x * c + a, b, c, d, not flag, n > 3 and s < 1.0, int(s * 10) // 3, -7 // n, -7 % n, -7.5 // s


def test_numbers_are_pythons():
    x = jitgrad.randn(2, 3)
    compare(numbers, [(x, 4, 0.5, True), (x, -3, 2.5, False), (x, 11, -0.3, True)])


@jitgrad.script
def optional(x, n: int):
    best = None
    for i in range(n):
        if bool(x[i].sum() > 0):
            best = x[i]
    if best is None:
        best = jitgrad.zeros(3)
    return best * 2


def test_absent_values():
    compare(optional, [(x, n) for x in (jitgrad.ones(4, 3), -jitgrad.ones(4, 3), jitgrad.randn(4, 3)) for n in (0, 3)])


def test_statistics_and_losses():
    @jitgrad.script
    def f(x, y):
        return (x.var(dim=0), x.std(), jitgrad.logsumexp(x, 1), F.softmax(x, 0), F.mse_loss(x, x * 2),
                F.cross_entropy(x, y), x.norm(), x.amax((0, 1)), (x > 0).all(), (x > 0).any(1), x.prod(1))

    compare(f, [(jitgrad.randn(n, 4), jitgrad.randint(0, 4, (n,))) for n in (3, 6)])


# --- the interface ---------------------------------------------------------------------------------------------------


def test_names_axes_and_opset(tmp_path):
    model = nn.Linear(3, 2)
    path = tmp_path / "model.onnx"
    made = jitgrad.onnx.export(model, (jitgrad.ones(4, 3),), path, input_names=["x"], output_names=["y"],
                               dynamic_axes={"x": {0: "batch"}}, opset_version=20)
    assert made.opset_import[0].version == 20
    ran = session(made)
    assert [(i.name, i.shape) for i in ran.get_inputs()] == [("x", ["batch", 3])]
    assert [(o.name, o.shape) for o in ran.get_outputs()] == [("y", ["batch", 2])]
    fixed = jitgrad.onnx.export(model, jitgrad.ones(4, 3), path, dynamic_axes={})
    assert session(fixed).get_inputs()[0].shape == [4, 3]
    assert path.stat().st_size > 0
    with pytest.raises(ValueError, match="opset_version is from 18"):
        jitgrad.onnx.export(model, jitgrad.ones(4, 3), opset_version=9)
    with pytest.raises(ValueError, match="1 outputs, but 2"):
        jitgrad.onnx.export(model, jitgrad.ones(4, 3), output_names=["a", "b"])
    with pytest.raises(ValueError, match="left over"):
        jitgrad.onnx.export(model, jitgrad.ones(4, 3), input_names=["a", "b"])


def test_the_mode_comes_back_and_files_are_written():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    file = io.BytesIO()
    jitgrad.onnx.export(model, jitgrad.ones(4, 3), file)
    assert model.training
    assert model[1].training
    assert file.getvalue()


def test_scripted_functions_methods_and_loaded_programs():
    scripted = jitgrad.script(nn.Linear(3, 2))
    x = jitgrad.randn(4, 3)
    wanted = scripted(x).detach().numpy()
    file = io.BytesIO()
    jitgrad.jit.save(scripted, file)
    file.seek(0)
    loaded = jitgrad.jit.load(file)
    for f in (scripted, loaded):
        model = f.export_onnx(None, x)
        (found,) = session(model).run(None, {model.graph.input[0].name: x.numpy()})
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    model = branches.export_onnx(None, x, True)
    assert [i.name for i in model.graph.input] == ["x", "flag"]


def refused(f, *args, match):
    with pytest.raises(UnsupportedOnnx, match=match) as caught:
        f.export_onnx(None, *args)
    assert "test_export.py:" in str(caught.value) or "jitgrad" in str(caught.value)


def test_a_dataclass_gives_an_output_for_each_field():
    class Model(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return Both(y.relu(), (y, y.sum()))

    exported = jitgrad.onnx.export(Model(3, 2), (jitgrad.ones(4, 3),))
    assert [o.name for o in exported.graph.output] == ["first", "rest.0", "rest.1"]


def test_what_has_no_equivalent_is_refused_with_its_line():
    total = jitgrad.zeros(3)

    @jitgrad.script
    def noisy(x):
        return x + jitgrad.randn(3)

    @jitgrad.script
    def loud(x):
        print(x.sum().item())
        return x

    @jitgrad.script
    def stateful(x):
        total.add_(x)
        return total * 2

    @jitgrad.script
    def gamma(x):
        return jitgrad.lgamma(x)

    @jitgrad.script
    def nothing(x):
        return x * 2 if bool(x.sum() > 0) else None

    x = jitgrad.ones(3)
    refused(noisy, x, match="random numbers cannot be part of an ONNX model")
    refused(loud, x, match="`print` cannot be part")
    refused(stateful, x, match="a write to state")
    refused(gamma, x, match="the operation `lgamma` cannot be part")
    with pytest.raises(UnsupportedOnnx, match="a result that may be None"):
        nothing.export_onnx(None, x)
    growing = jitgrad.script(lambda x, n: [x * k for k in range(n)])
    with pytest.raises(UnsupportedOnnx, match="a result of kind `Repeated`"):
        growing.export_onnx(None, x, 99)
    with pytest.raises(TypeError, match="script it first"):
        jitgrad.onnx.export_function(nn.Linear(2, 2), None, x)


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    example = Path(__file__).parents[2] / "examples" / "export.py"
    monkeypatch.setattr(sys, "argv", [str(example), "--out", str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    assert "in onnxruntime:   differs by at most" in capsys.readouterr().out

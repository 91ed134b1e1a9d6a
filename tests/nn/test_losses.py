"""Losses of margins, distances and alignments, and bags of embeddings, against torch, eager and scripted."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.autograd import gradcheck
from jitgrad.nn import functional as F

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def values(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def signs(*shape):
    return np.where(RNG.random(shape) < 0.5, -1.0, 1.0).astype(np.float32)


LABELS = np.array([[1, 3, -1, 2], [0, -1, 1, 1], [2, 1, 0, 3]])
WEIGHT = [0.5, 1.0, 2.0, 0.1]
#: name, options, differentiable inputs, targets
LOSSES = [
    ("CosineEmbeddingLoss", {"margin": 0.1}, [values(3, 4), values(3, 4)], [np.array([1, -1, 1])]),
    ("HingeEmbeddingLoss", {"margin": 0.5}, [values(3, 4)], [signs(3, 4)]),
    ("MarginRankingLoss", {"margin": 0.2}, [values(3), values(3)], [signs(3)]),
    ("SoftMarginLoss", {}, [values(3, 4)], [signs(3, 4)]),
    ("MultiMarginLoss", {}, [values(3, 4)], [np.array([1, 3, 0])]),
    ("MultiMarginLoss", {"p": 2, "margin": 0.7, "weight": WEIGHT}, [values(3, 4)], [np.array([1, 3, 0])]),
    ("MultiMarginLoss", {}, [values(4)], [np.array(2)]),
    ("MultiLabelMarginLoss", {}, [values(3, 4)], [LABELS]), ("MultiLabelMarginLoss", {}, [values(4)], [LABELS[0]]),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, [values(3, 4)], [(signs(3, 4) + 1) / 2]),
    ("TripletMarginLoss", {}, [values(3, 4), values(3, 4), values(3, 4)], []),
    ("TripletMarginLoss", {"p": 1.0, "swap": True, "margin": 2.0}, [values(3, 4), values(3, 4), values(3, 4)], []),
    ("TripletMarginWithDistanceLoss", {"swap": True}, [values(3, 4), values(3, 4), values(3, 4)], []),
    ("PoissonNLLLoss", {}, [values(3, 4)], [np.abs(values(3, 4)) * 3]),
    ("PoissonNLLLoss", {"log_input": False, "full": True}, [np.abs(values(3, 4))], [np.abs(values(3, 4)) * 3]),
    ("GaussianNLLLoss", {"full": True}, [values(3, 4)], [values(3, 4), np.abs(values(3, 4))]),
]


@pytest.mark.parametrize(("name", "options", "inputs", "targets"), LOSSES,
                         ids=[f"{c[0]}-{i}" for i, c in enumerate(LOSSES)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss(name, options, inputs, targets, reduction):
    results = []
    for library in (torch, jitgrad):
        given = {k: library.tensor(v) if isinstance(v, list) else v for k, v in options.items()}
        loss = getattr(library.nn, name)(**given, reduction=reduction)
        calls = [loss] if library is torch else [loss, jitgrad.script(loss)]
        for call in calls:
            xs = [library.tensor(a, requires_grad=True) for a in inputs]
            value = call(*xs, *[library.tensor(t) for t in targets])
            value.sum().backward()
            results.append([repr(loss), value.detach().numpy()] + [x.grad.numpy() for x in xs])
    for found in results[1:]:
        assert found[0] == results[0][0]
        for a, b in zip(found[1:], results[0][1:], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


CTC = [
    ([9, 9, 9], [3, 0, 4], True), ([9, 5, 7], [2, 1, 3], True), ([9, 5, 7], [2, 1, 3], False),
    ([2, 9, 3], [4, 1, 2], True),
]


@pytest.mark.parametrize(("times", "lengths", "padded"), CTC, ids=range(len(CTC)))
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc(times, lengths, padded, reduction):
    logits = values(9, 3, 5)
    rows = RNG.integers(1, 5, (3, 4))
    rows[0, 1] = rows[0, 0]  # a label twice needs a blank between
    targets = rows if padded else np.concatenate([r[:n] for r, n in zip(rows, lengths, strict=True)])
    results = []
    for library, call in ((torch, torch.nn.functional.ctc_loss), (jitgrad, F.ctc_loss),
                          (jitgrad, jitgrad.script(F.ctc_loss))):
        x = library.tensor(logits, requires_grad=True)
        loss = call(library.log_softmax(x, 2), library.tensor(targets), library.tensor(times), library.tensor(lengths),
                    0, reduction, True)
        loss.sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_ctc_without_an_alignment():
    x = jitgrad.log_softmax(jitgrad.zeros(2, 1, 3), 2)
    args = (x, jitgrad.tensor([[1, 1, 1]]), [2], [3])
    assert F.ctc_loss(*args, reduction="sum").item() == float("inf")
    assert nn.CTCLoss(zero_infinity=True)(*args).item() == 0
    assert repr(nn.CTCLoss()) == "CTCLoss()"


def test_ctc_gradients():
    x = jitgrad.tensor(RNG.standard_normal((4, 2, 3)), requires_grad=True)
    targets, times, lengths = jitgrad.tensor([[1, 1], [2, 1]]), jitgrad.tensor([4, 3]), jitgrad.tensor([2, 1])
    assert gradcheck(lambda x: F.ctc_loss(jitgrad.log_softmax(x, 2), targets, times, lengths), (x,))


BAGS = [
    ({"mode": "sum"}, {}), ({"mode": "mean"}, {}), ({"mode": "max"}, {}), ({"mode": "sum"}, {"weights": True}),
    ({"mode": "mean", "padding_idx": 1}, {}), ({"mode": "max", "padding_idx": -1}, {}),
    ({"mode": "sum", "include_last_offset": True}, {}), ({"max_norm": 1.0}, {}),
]


@pytest.mark.parametrize(("options", "more"), BAGS, ids=range(len(BAGS)))
@pytest.mark.parametrize("flat", [True, False])
def test_embedding_bag(options, more, flat):
    theirs, ours = torch.nn.EmbeddingBag(6, 3, **options), nn.EmbeddingBag(6, 3, **options)
    assert repr(ours) == repr(theirs)
    state = {k: v.numpy().copy() for k, v in theirs.state_dict().items()}
    if flat:
        indices, offsets = np.array([1, 5, 1, 0, 2, 4, 3]), np.array([0, 2, 2, 5])
        if options.get("include_last_offset"):
            offsets = np.array([0, 2, 2, 7])
    elif options.get("include_last_offset"):
        return
    else:
        indices, offsets = np.array([[1, 5, 1], [0, 2, 5]]), None
    factors = values(*indices.shape) if more else None
    results = []
    for library, module, call in ((torch, theirs, theirs), (jitgrad, ours, ours),
                                  (jitgrad, ours, jitgrad.script(ours))):
        if library is jitgrad:
            module.load_state_dict(state)
        w = None if factors is None else library.tensor(factors, requires_grad=True)
        y = call(library.tensor(indices), None if offsets is None else library.tensor(offsets), w)
        (y ** 3).sum().backward()
        results.append([y.detach().numpy(), module.weight.grad.numpy().copy(), module.weight.detach().numpy().copy()]
                       + ([] if w is None else [w.grad.numpy()]))
        module.zero_grad()
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_pdist_and_shapes():
    x = values(5, 3)
    for p in (1.0, 2.0, float("inf")):
        np.testing.assert_allclose(F.pdist(jitgrad.tensor(x), p).numpy(),
                                   torch.nn.functional.pdist(torch.tensor(x), p).numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["AlphaDropout", "FeatureAlphaDropout", "Dropout1d", "Dropout2d", "RReLU"])
def test_random_layers(name):
    """The same draws scripted as eager; mean and variance stay."""
    module = getattr(nn, name)()
    x = jitgrad.from_numpy(values(*((40, 60, 2, 2) if name == "Dropout2d" else (40, 60, 4))))
    scripted = jitgrad.script(module)
    found = []
    for call in (module, scripted):
        jitgrad.manual_seed(0)
        found.append(call(x).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)
    with config.override(interpret=True):
        jitgrad.manual_seed(0)
        np.testing.assert_allclose(jitgrad.script(module)(x).numpy(), found[0], rtol=1e-6, atol=1e-6)
    if "Alpha" in name:
        assert abs(found[0].mean()) < 0.1
        assert abs(found[0].std() - 1) < 0.1
    module.eval()
    if name != "RReLU":
        assert module(x) is x
    if "Drop" in name:
        with pytest.raises(ValueError, match="has to be between 0 and 1"):
            getattr(nn, name)(1.5)


def test_initialisations():
    for shape in ((3, 5), (5, 3), (4, 2, 3)):
        w = nn.init.orthogonal_(jitgrad.empty(*shape), gain=2.0).numpy().reshape(shape[0], -1)
        product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-4)
    for shape, groups in (((4, 2, 3), 2), ((2, 3, 3, 3), 1)):
        np.testing.assert_array_equal(nn.init.dirac_(jitgrad.empty(*shape), groups).numpy(),
                                      torch.nn.init.dirac_(torch.empty(*shape), groups).numpy())


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "poisson_nll_loss",
                                  "soft_margin_loss", "hinge_embedding_loss", "binary_cross_entropy",
                                  "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"])
@pytest.mark.parametrize("old", [{"reduce": False}, {"size_average": False}, {"size_average": True, "reduction": "sum"},
                                 {"size_average": False, "reduce": False}, {"reduce": "sum", "reduction": "none"}])
@pytest.mark.filterwarnings("ignore")
def test_old_names_of_the_reduction(name, old):
    x, y = (RNG.random((3, 4)).astype(np.float32) for _ in range(2))
    expected = getattr(torch.nn.functional, name)(torch.tensor(x), torch.tensor(y), **old)

    def loss(a, b):
        return getattr(F, name)(a, b, **old)

    given = jitgrad.tensor(x), jitgrad.tensor(y)
    np.testing.assert_allclose(loss(*given).numpy(), expected.numpy(), rtol=1e-5)


def test_old_names_of_the_reduction_in_scripts():
    @jitgrad.script
    def loss(x, y, classes):
        apart = F.mse_loss(x, y, reduce=False)
        return apart + F.l1_loss(x, y, size_average=False) + F.nll_loss(x, classes, reduce=False).sum()

    x, y, classes = jitgrad.tensor(values(3, 4)), jitgrad.tensor(values(3, 4)), jitgrad.tensor([0, 3, 1])
    expected = (x - y) ** 2 + (x - y).abs().sum() - x.gather(1, classes.unsqueeze(1)).sum()
    np.testing.assert_allclose(loss(x, y, classes).numpy(), expected.numpy(), rtol=1e-5)

"""Attention and transformer layers: torch's state, results and gradients, and scripts that give eager's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.nn import functional as F

RNG = np.random.default_rng(0)


def close(found, expected, rtol=2e-4, atol=2e-5):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def same(name, args, kwargs):
    """Our and torch's module with the same state."""
    torch = pytest.importorskip("torch")
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs)
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [
        (n, tuple(p.shape)) for n, p in theirs.named_parameters()]
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


def run(library, module, arrays, options):
    """Results and gradients of inputs and parameters, as arrays or None."""
    xs = [library.tensor(a, requires_grad=True) for a in arrays]
    given = {k: library.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    found = module(*xs, **given)
    found = [t for t in found if t is not None] if isinstance(found, tuple) else [found]
    sum((t ** 3).sum() for t in found).backward()
    result = [t.detach().numpy() for t in found] + [x.grad.numpy() for x in xs]
    result += [None if p.grad is None else p.grad.numpy() for p in module.parameters()]
    for p in module.parameters():
        p.grad = None
    return result


def values(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


CAUSAL = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, True], [False, False, False]])
ATTENTION = [
    ({}, {}), ({"bias": False}, {"need_weights": False}), ({}, {"average_attn_weights": False}),
    ({}, {"attn_mask": CAUSAL}), ({}, {"attn_mask": CAUSAL, "need_weights": False, "is_causal": True}),
    ({}, {"attn_mask": CAUSAL.astype(np.float32) * -2}), ({}, {"key_padding_mask": PADDING}),
    ({}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL, "need_weights": False}),
    ({}, {"attn_mask": values(4, 3, 3)}), ({"batch_first": True}, {}),
    ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": PADDING, "attn_mask": CAUSAL}),
    ({"kdim": 5, "vdim": 7}, {}), ({"kdim": 5, "vdim": 7, "bias": False, "add_bias_kv": True}, {"need_weights": False}),
]


@pytest.mark.parametrize(("kwargs", "options"), ATTENTION, ids=range(len(ATTENTION)))
@pytest.mark.parametrize("itself", [True, False])
def test_multihead_attention(kwargs, options, itself):
    ours, theirs = same("MultiheadAttention", (4, 2), kwargs)
    if itself and ours._qkv_same_embed_dim:
        arrays = [values(2, 3, 4) if ours.batch_first else values(3, 2, 4)]
        calls = [lambda x, m=m, **k: m(x, x, x, **k) for m in (ours, theirs, jitgrad.script(ours))]
        for call, m in zip(calls, (ours, theirs, ours), strict=True):
            call.parameters = m.parameters
    else:
        shape = (2, 3) if ours.batch_first else (3, 2)
        arrays = [values(*shape, 4), values(*shape, ours.kdim), values(*shape, ours.vdim)]
        calls = [ours, theirs, jitgrad.script(ours)]
    torch = pytest.importorskip("torch")

    expected = run(torch, calls[1], arrays, options)
    close(run(jitgrad, calls[0], arrays, options), expected)
    if "average_attn_weights" in options:  # decides the rank of a result: a script needs it written down
        return
    close(run(jitgrad, calls[2], arrays, options), expected)
    with config.override(interpret=True):
        close(run(jitgrad, calls[2], arrays, options), expected)


def test_attention_without_a_batch():
    ours, theirs = same("MultiheadAttention", (4, 2), {})
    torch = pytest.importorskip("torch")

    arrays = [values(3, 4), values(5, 4), values(5, 4)]
    options = {"key_padding_mask": np.array([False, True, False, False, True])}
    close(run(jitgrad, ours, arrays, options), run(torch, theirs, arrays, options))


ERRORS = [
    lambda m, ones: m.MultiheadAttention(5, 2), lambda m, ones: m.MultiheadAttention(0, 2),
    lambda m, ones: m.MultiheadAttention(4, 2)(*[ones(1, 2, 3, 4)] * 3),
    lambda m, ones: m.MultiheadAttention(4, 2)(ones(2, 3, 4), ones(2, 4), ones(2, 4)),
    lambda m, ones: m.MultiheadAttention(4, 2)(*[ones(2, 3, 4)] * 3, is_causal=True),
    lambda m, ones: m.MultiheadAttention(4, 2)(*[ones(2, 3, 6)] * 3),
    lambda m, ones: m.MultiheadAttention(4, 2)(*[ones(2, 3, 4)] * 3, key_padding_mask=ones(2, 2)),
    lambda m, ones: m.MultiheadAttention(4, 2)(*[ones(2, 3, 4)] * 3, attn_mask=ones(2)),
    lambda m, ones: m.TransformerEncoderLayer(4, 2, activation="elu"),
    lambda m, ones: m.Transformer(4, 2, 1, 1, 8)(ones(2, 3, 4), ones(2, 2, 4)),
    lambda m, ones: m.Transformer(4, 2, 1, 1, 8)(ones(2, 3, 4), ones(2, 3, 3)),
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("make", ERRORS, ids=range(len(ERRORS)))
def test_errors(make):
    torch = pytest.importorskip("torch")
    with pytest.raises((ValueError, RuntimeError, AssertionError)) as theirs:
        make(torch.nn, torch.ones)
    with pytest.raises(theirs.type) as ours:
        make(nn, jitgrad.ones)
    assert str(ours.value) == str(theirs.value)


LAYERS = [("TransformerEncoderLayer", 1), ("TransformerDecoderLayer", 2), ("Transformer", 2)]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("name", "inputs"), LAYERS)
@pytest.mark.parametrize(("norm_first", "batch_first"), list(itertools.product([False, True], repeat=2)))
def test_layers(name, inputs, norm_first, batch_first):
    torch = pytest.importorskip("torch")

    args = (4, 2, 2, 1, 6) if name == "Transformer" else (4, 2, 6)
    kwargs = {"dropout": 0.0, "norm_first": norm_first, "batch_first": batch_first, "activation": "gelu"}
    ours, theirs = same(name, args, kwargs)
    arrays = [values(*((2, n) if batch_first else (n, 2)), 4) for n in (3, 5)][:inputs]
    masks = {"TransformerEncoderLayer": {"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
             "TransformerDecoderLayer": {"tgt_mask": CAUSAL},
             "Transformer": {"src_key_padding_mask": PADDING}}[name]
    scripted = jitgrad.script(ours)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        for options in ({}, masks):
            expected = run(torch, theirs, arrays, options)
            close(run(jitgrad, ours, arrays, options), expected, 1e-3, 1e-4)
            close(run(jitgrad, scripted, arrays, options), expected, 1e-3, 1e-4)


def test_dropout_in_a_script():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3), 2, nn.LayerNorm(4))
    scripted = jitgrad.script(model)
    for shape in ((3, 2, 4), (6, 3, 4)):
        x = values(*shape)
        results = []
        for call in (model, scripted):
            jitgrad.manual_seed(1)
            results.append(run(jitgrad, call, [x], {"mask": nn.Transformer.generate_square_subsequent_mask(shape[0])}))
        close(*results)
    assert scripted.cache_info().compilations == 1
    assert model.layers[0].linear1.weight is not model.layers[1].linear1.weight


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "empty row", "scale", "grouped"])
def test_scaled_dot_product(case):
    torch = pytest.importorskip("torch")
    q, k, v = values(2, 4, 3, 6), values(2, 2 if case == "grouped" else 4, 5, 6), values(2, 2, 5, 3)
    if case != "grouped":
        v = values(2, 4, 5, 3)
    mask = RNG.random((3, 5)) < 0.6
    mask[:, 0] = True
    if case == "empty row":
        mask[1] = False
    options = {"plain": {}, "causal": {"is_causal": True}, "bool": {"attn_mask": mask}, "scale": {"scale": 0.3},
               "float": {"attn_mask": values(4, 3, 5)}, "empty row": {"attn_mask": mask},
               "grouped": {"enable_gqa": True}}[case]
    results = []
    for library, call in ((torch, torch.nn.functional.scaled_dot_product_attention),
                          (jitgrad, F.scaled_dot_product_attention),
                          (jitgrad, jitgrad.script(F.scaled_dot_product_attention))):
        xs = [library.tensor(a, requires_grad=True) for a in (q, k, v)]
        given = {n: library.tensor(m) if isinstance(m, np.ndarray) else m for n, m in options.items()}
        y = call(*xs, **given)
        (y ** 3).sum().backward()
        results.append([y.detach().numpy()] + [x.grad.numpy() for x in xs])
    close(results[1], results[0])
    close(results[2], results[0])


def test_weights_of_each_head_in_a_script():
    model = nn.MultiheadAttention(4, 2)

    def attend(x):
        return model(x, x, x, average_attn_weights=False)

    x = jitgrad.from_numpy(values(3, 2, 4))
    for found, expected in zip(jitgrad.script(attend)(x), attend(x), strict=True):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)

"""Recurrent layers and cells: torch's results, and scripts with compiled loops that give eager's."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.nn.utils.rnn import (PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence,
                                  pad_sequence, unpack_sequence, unpad_sequence)

LAYERS = [
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "num_layers": 2}), ("RNN", {"bias": False, "bidirectional": True}),
    ("GRU", {}), ("GRU", {"bidirectional": True, "num_layers": 2, "batch_first": True}), ("GRU", {"bias": False}),
    ("LSTM", {}), ("LSTM", {"bidirectional": True, "num_layers": 2}), ("LSTM", {"proj_size": 3, "num_layers": 2}),
    ("LSTM", {"bias": False, "batch_first": True}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(LAYERS)]


def layer(name, kwargs):
    jitgrad.manual_seed(0)
    return getattr(nn, name)(4, 5, **kwargs)


def states(model, batch, rng, unbatched=False):
    """Initial states as arrays, one per state."""
    d = (2 if model.bidirectional else 1) * model.num_layers
    sizes = [model.proj_size or model.hidden_size] + ([model.hidden_size] if model.mode == "LSTM" else [])
    return [rng.standard_normal((d, n) if unbatched else (d, batch, n)).astype(np.float32) for n in sizes]


def run(library, model, array, initial, lengths=None):
    """Outputs, last states and all gradients as arrays."""
    x = library.tensor(array, requires_grad=True)
    hx = [library.tensor(a, requires_grad=True) for a in initial]
    given = () if not hx else (hx[0] if len(hx) == 1 else tuple(hx),)
    if lengths is None:
        out, last = model(x, *given)
    else:
        rnn = library.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, library.tensor(lengths), model.batch_first, enforce_sorted=False)
        out, last = model(packed, *given)
        out = rnn.pad_packed_sequence(out, model.batch_first)[0]
    last = last if isinstance(last, tuple) else (last,)
    loss = (out * out).sum()
    for h in last:
        loss = loss + (h ** 3).sum()
    loss.backward()
    found = [t.detach() for t in (out, *last)] + [t.grad for t in (x, *hx, *model.parameters())]
    for p in model.parameters():
        p.grad = None
    return [t.numpy() for t in found]


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize(("name", "kwargs"), LAYERS, ids=IDS)
def test_layer_scripted(name, kwargs):
    model = layer(name, kwargs)
    scripted = jitgrad.script(model)
    rng = np.random.default_rng(0)
    for shape in ((7, 3, 4), (6, 2, 4), (3, 7, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        for initial in ([], states(model, shape[0 if model.batch_first else 1], rng)):
            expected = run(jitgrad, model, x, initial)
            close(run(jitgrad, scripted, x, initial), expected)
    assert scripted.cache_info().compilations == 2  # with and without states
    with config.override(interpret=True):
        close(run(jitgrad, jitgrad.script(model), x, initial), expected)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("name", "kwargs"), LAYERS, ids=IDS)
def test_layer_against_torch(name, kwargs):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(4, 5, **kwargs)
    ours = layer(name, kwargs)
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [
        (n, tuple(p.shape)) for n, p in theirs.named_parameters()]
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    for shape in ((7, 3, 4), (5, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        batch = shape[0 if ours.batch_first else 1]
        for initial in ([], states(ours, batch, rng, unbatched=len(shape) == 2)):
            close(run(jitgrad, ours, x, initial), run(torch, theirs, x, initial))
    x = rng.standard_normal((4, 6, 4) if ours.batch_first else (6, 4, 4)).astype(np.float32)
    if not ours.proj_size:  # torch refuses gradients of packed batches with projections
        for initial in ([], states(ours, 4, rng)):
            close(run(jitgrad, ours, x, initial, [2, 6, 1, 4]), run(torch, theirs, x, initial, [2, 6, 1, 4]))


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_dropout_between_layers(name):
    model = getattr(nn, name)(4, 5, num_layers=3, dropout=0.5)
    scripted = jitgrad.script(model)
    x = np.random.default_rng(0).standard_normal((6, 3, 4)).astype(np.float32)
    results = []
    for call in (model, scripted):
        jitgrad.manual_seed(3)
        results.append(run(jitgrad, call, x, []))
    close(*results)
    model.eval()
    close(run(jitgrad, scripted, x, []), run(jitgrad, model, x, []))
    with pytest.warns(UserWarning, match="dropout option adds dropout"):
        getattr(nn, name)(4, 5, dropout=0.5)


@pytest.mark.parametrize(("name", "kwargs"), [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu", "bias": False}),
                                              ("GRUCell", {}), ("LSTMCell", {}), ("LSTMCell", {"bias": False})])
def test_cell(name, kwargs):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name)(4, 5, **kwargs), getattr(torch.nn, name)(4, 5, **kwargs)
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    n = 2 if name == "LSTMCell" else 1
    for shape in ((3, 4), (4,)):
        x = rng.standard_normal(shape).astype(np.float32)
        for initial in ([], [rng.standard_normal((*shape[:-1], 5)).astype(np.float32) for _ in range(n)]):
            results = []
            for library, cell in ((torch, theirs), (jitgrad, ours), (jitgrad, jitgrad.script(ours))):
                hx = [library.tensor(a, requires_grad=True) for a in initial]
                given = () if not hx else (hx[0] if n == 1 else tuple(hx),)
                found = cell(library.tensor(x), *given)
                found = found if n == 2 else (found,)
                sum((h ** 3).sum() for h in found).backward()
                results.append([h.detach().numpy() for h in found] + [h.grad.numpy() for h in hx]
                               + [p.grad.numpy() for p in cell.parameters()])
                cell.zero_grad()
            close(results[1], results[0])
            close(results[2], results[0])


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_packed_in_a_script(name):
    """Packing, the layer and padding in one script; lengths are data."""
    model = getattr(nn, name)(4, 5, bidirectional=True)

    def whole(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = model(packed)
        out, back = pad_packed_sequence(out, batch_first=True, padding_value=0.5)
        return out, back, last[0] if name == "LSTM" else last

    scripted = jitgrad.script(whole)
    rng = np.random.default_rng(0)
    for lengths in ([3, 5, 1], [2, 2], [1, 6, 6, 2]):
        array = rng.standard_normal((len(lengths), 7, 4)).astype(np.float32)
        results = []
        for call in (whole, scripted):
            x = jitgrad.tensor(array, requires_grad=True)
            out, back, last = call(x, jitgrad.tensor(lengths))
            ((out ** 2).sum() + last.sum()).backward()
            results.append([t.detach().numpy() for t in (out, back, last)] + [x.grad.numpy()]
                           + [p.grad.numpy() for p in model.parameters()])
            model.zero_grad()
        close(results[1], results[0])
        assert results[0][1].tolist() == lengths
        assert results[0][0].shape[1] == max(lengths)
    assert scripted.cache_info().compilations == 1


def test_padding_and_packing():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.utils.rnn
    arrays = [np.arange(n * 2.0, dtype=np.float32).reshape(n, 2) for n in (3, 5, 1)]
    ours, their = [jitgrad.tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]
    for kwargs in ({}, {"batch_first": True, "padding_value": -1.0}, {"padding_side": "left"}):
        expected = theirs.pad_sequence(their, **kwargs)
        np.testing.assert_array_equal(pad_sequence(ours, **kwargs).numpy(), expected.numpy())
    a, b = pack_sequence(ours, enforce_sorted=False), theirs.pack_sequence(their, enforce_sorted=False)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    for x, y in zip(unpack_sequence(a), arrays, strict=True):
        np.testing.assert_array_equal(x.numpy(), y)
    for x, y in zip(pad_packed_sequence(a, total_length=7), theirs.pad_packed_sequence(b, total_length=7), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    found = unpad_sequence(pad_sequence(ours), jitgrad.tensor([3, 5, 1]))
    assert [f.shape[0] for f in found] == [3, 5, 1]
    assert a.to(jitgrad.float64).data.dtype is jitgrad.float64
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        pack_sequence(ours)
    with pytest.raises(RuntimeError, match="greater than 0"):
        pack_padded_sequence(jitgrad.ones(2, 1, 1), [0])
    with pytest.raises(ValueError, match="at least the length"):
        pad_packed_sequence(a, total_length=2)
    with pytest.raises(ValueError, match="left or right"):
        pad_sequence(ours, padding_side="up")


ERRORS = [
    (lambda m: m.GRU(4, 5, dropout=2), ValueError), (lambda m: m.GRU(4, 0), ValueError),
    (lambda m: m.GRU(4.0, 5), TypeError), (lambda m: m.LSTM(4, 5, proj_size=6), ValueError),
    (lambda m: m.GRU(4, 5, proj_size=2), ValueError), (lambda m: m.RNN(4, 5, nonlinearity="gelu"), ValueError),
]


@pytest.mark.parametrize(("make", "error"), ERRORS, ids=range(len(ERRORS)))
def test_constructor_errors(make, error):
    torch = pytest.importorskip("torch")
    with pytest.raises(error) as theirs:
        make(torch.nn)
    with pytest.raises(error) as ours:
        make(nn)
    assert str(ours.value) == str(theirs.value)


CALLS = [
    ("LSTM", [(2, 3, 3)]), ("GRU", [(4,)]), ("RNN", [(2, 3, 4, 1)]), ("GRU", [(2, 3, 4), (1, 2, 5)]),
    ("GRU", [(2, 3, 4), (3, 5)]), ("GRU", [(3, 4), (1, 1, 5)]), ("LSTM", [(2, 3, 4), (1, 3, 5), (1, 2, 5)]),
    ("LSTM", [(2, 3, 4), (3, 5), (3, 5)]), ("GRUCell", [(3, 3)]), ("LSTMCell", [(2, 3, 4)]),
    ("RNNCell", [(3, 4), (2, 5)]), ("GRUCell", [(3, 4), (3, 4)]), ("LSTMCell", [(3, 4), (3, 5), (3, 6)]),
]


@pytest.mark.parametrize(("name", "shapes"), CALLS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CALLS)])
def test_call_errors(name, shapes):
    torch = pytest.importorskip("torch")
    caught = []
    for library in (torch, jitgrad):
        module = getattr(library.nn, name)(4, 5)
        x, *hx = (library.ones(*s) for s in shapes)
        with pytest.raises((RuntimeError, ValueError)) as error:
            module(x, *([hx[0] if len(hx) == 1 else tuple(hx)] if hx else []))
        caught.append((error.type, str(error.value)))
    assert caught[1] == caught[0]
    scripted = jitgrad.script(module)
    with pytest.raises((RuntimeError, ValueError)) as error:
        scripted(x, *([hx[0] if len(hx) == 1 else tuple(hx)] if hx else []))
    assert (error.type, str(error.value)) == caught[0]


def test_state_and_options():
    model = nn.LSTM(4, 5, num_layers=2, bidirectional=True)
    assert [len(w) for w in model.all_weights] == [4] * 4
    assert all(abs(float(p.abs().max())) <= 5 ** -0.5 for p in model.parameters())
    model.flatten_parameters()
    assert isinstance(pack_padded_sequence(jitgrad.ones(2, 1, 3), [2]), PackedSequence)
    assert nn.GRU(4, 5, dtype=jitgrad.float64)(jitgrad.ones(2, 3, 4, dtype=jitgrad.float64))[0].dtype is jitgrad.float64
    with pytest.raises(ValueError, match="does not match weight dtype"):
        model(jitgrad.ones(2, 3, 4, dtype=jitgrad.float64))


# --- functions of weights --------------------------------------------------------------------------------------------

FUNCTIONS = {"RNN": "rnn_tanh", "GRU": "gru", "LSTM": "lstm"}


def of_weights(library, model, x, hx, sizes=None):
    """What the function computes from a layer's weights."""
    name = "rnn_relu" if model.mode == "RNN_RELU" else FUNCTIONS[type(model).__name__]
    params = [w for weights in model.all_weights for w in weights]
    options = (params, model.bias, model.num_layers, 0.0, False, model.bidirectional)
    if sizes is not None:
        return getattr(library, name)(x, sizes, hx, *options)
    return getattr(library, name)(x, hx, *options, model.batch_first)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("name", "kwargs"), LAYERS, ids=IDS)
def test_functions_of_weights(name, kwargs):
    """torch's values and gradients, padded and packed, and what a script computes."""
    torch = pytest.importorskip("torch")
    ours, theirs = layer(name, kwargs), getattr(torch.nn, name)(4, 5, **kwargs)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    array, sizes = rng.standard_normal((6, 3, 4)).astype(np.float32), [3, 3, 2, 1]
    initial = states(ours, 6 if ours.batch_first else 3, rng)

    def results(library, model, call, x, initial, *more):
        x = library.tensor(x, requires_grad=True)
        hx = [library.tensor(a, requires_grad=True) for a in initial]
        found = call(x, hx[0] if len(hx) == 1 else tuple(hx), *more)
        sum((y ** 2).sum() for y in found).backward()
        leaves = [x, *hx, *model.parameters()]
        arrays = [t.detach().numpy() for t in found] + [t.grad.numpy().copy() for t in leaves]
        model.zero_grad()
        return arrays

    expected = results(torch, theirs, lambda x, hx: of_weights(torch, theirs, x, hx), array, initial)
    scripted = jitgrad.script(lambda x, hx: of_weights(jitgrad, ours, x, hx))
    for call in (lambda x, hx: of_weights(jitgrad, ours, x, hx), scripted):
        close(results(jitgrad, ours, call, array, initial), expected)
    if ours.proj_size:  # torch refuses gradients of packed batches with projections
        return
    data, initial = array.reshape(-1, 4)[:9], states(ours, 3, rng)
    expected = results(torch, theirs, lambda x, hx: of_weights(torch, theirs, x, hx, torch.tensor(sizes)), data,
                       initial)
    scripted = jitgrad.script(lambda x, hx, sizes: of_weights(jitgrad, ours, x, hx, sizes))
    for call in (lambda x, hx, sizes: of_weights(jitgrad, ours, x, hx, sizes), scripted):
        close(results(jitgrad, ours, call, data, initial, jitgrad.tensor(sizes)), expected)


def test_functions_take_keywords_and_draw_dropout():
    model = layer("LSTM", {"num_layers": 2, "dropout": 0.5})
    params = [w for weights in model.all_weights for w in weights]
    x, h = jitgrad.randn(5, 3, 4), jitgrad.zeros(2, 3, 5)
    options = {"params": params, "has_biases": True, "num_layers": 2, "dropout": 0.5, "bidirectional": False}
    for train in (True, False):
        model.train(train)
        jitgrad.manual_seed(1)
        out, (h_n, c_n) = model(x)
        jitgrad.manual_seed(1)
        found = jitgrad.lstm(input=x, hx=[h, h], train=train, batch_first=False, **options)
        close([t.detach().numpy() for t in found], [t.detach().numpy() for t in (out, h_n, c_n)])
    packed = pack_padded_sequence(x, jitgrad.tensor([5, 4, 1]))
    found = jitgrad.lstm(data=packed.data, batch_sizes=packed.batch_sizes, hx=(h, h), train=False, **options)
    expected = model(packed)[0].data.detach().numpy()
    close([found[0].detach().numpy()], [expected])
    del options["params"]
    by_position = (packed.data, packed.batch_sizes, (h, h))
    close([jitgrad.lstm(*by_position, params=params, train=False, **options)[0].detach().numpy()], [expected])
    close([jitgrad.lstm(*by_position, params, train=False, **options)[0].detach().numpy()], [expected])
    close([jitgrad.lstm(*by_position[:2], hx=(h, h), params=params, train=False, **options)[0].detach().numpy()],
          [expected])


@pytest.mark.parametrize("call", [
    lambda t, x, h, w: t.lstm(x, [h], w, True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.lstm(x, (h, h), w[:3], True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.lstm(x, (h, h), w, True, 1, 0.0, False, False),
    lambda t, x, h, w: t.lstm(x, (h, h), w, True, 1, 0.0, False, False, other=False),
    lambda t, x, h, w: t.lstm(x, h, w, True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.lstm(x.double(), (h, h), w, True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.lstm(x[0], (h, h), w, True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.gru(x, h, w[:2], True, 1, 0.0, False, False, False),
    lambda t, x, h, w: t.rnn_tanh(3, h, w, True, 1, 0.0, False, False, False),
], ids=range(9))
def test_functions_refuse_as_torch(call):
    torch = pytest.importorskip("torch")
    kinds = []
    for library in (torch, jitgrad):
        weights = [w for ws in library.nn.LSTM(4, 5).all_weights for w in ws]
        with pytest.raises((RuntimeError, TypeError, IndexError)) as caught:
            call(library, library.ones(5, 3, 4), library.zeros(1, 3, 5), weights)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def test_functions_look_at_states():
    """torch does not: what does not fit is read from memory that is not the state's."""
    w = [w for ws in nn.LSTM(4, 5).all_weights for w in ws]
    x = jitgrad.ones(5, 3, 4)
    for h, c in (((1, 2, 5), (1, 3, 5)), ((1, 3, 5), (1, 3, 4)), ((2, 3, 5), (1, 3, 5)), ((3, 5), (3, 5))):
        with pytest.raises(RuntimeError, match=r"Expected (hidden|cell) size"):
            jitgrad.lstm(x, (jitgrad.zeros(h), jitgrad.zeros(c)), w, True, 1, 0.0, False, False, False)

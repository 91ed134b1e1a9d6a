"""Every layer and loss against torch: same constructor, state_dict, repr, output and gradients."""

# ruff: noqa: E501  (tables)

import inspect
import itertools

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

torch = pytest.importorskip("torch")

LAYERS = [
    ("Linear", (5, 3), {}, (4, 5)), ("Linear", (5, 3), {"bias": False}, (2, 4, 5)), ("Linear", (5, 3), {}, (5,)),
    ("Bilinear", (5, 4, 3), {}, [(2, 5), (2, 4)]), ("Bilinear", (5, 4, 3), {"bias": False}, [(2, 3, 5), (2, 3, 4)]),
    ("Identity", (1, "anything"), {"at": 2}, (3,)), ("Flatten", (), {}, (2, 3, 4)), ("Flatten", (0, 1), {}, (2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, (4, 6)),
    ("ReLU", (), {}, (3, 4)), ("ReLU6", (), {}, (3, 4)), ("Tanh", (), {}, (3, 4)), ("Sigmoid", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)), ("GELU", ("tanh",), {}, (3, 4)), ("SiLU", (), {}, (3, 4)), ("Mish", (), {}, (3, 4)),
    ("Softplus", (), {}, (3, 4)), ("Softplus", (2.0, 1.0), {}, (3, 4)), ("LeakyReLU", (), {}, (3, 4)),
    ("LeakyReLU", (0.3,), {}, (3, 4)), ("ELU", (), {}, (3, 4)), ("ELU", (2.0,), {}, (3, 4)), ("CELU", (0.5,), {}, (3, 4)),
    ("SELU", (), {}, (3, 4)), ("Hardtanh", (-0.5, 0.7), {}, (3, 4)), ("Hardsigmoid", (), {}, (3, 4)),
    ("Hardswish", (), {}, (3, 4)), ("Threshold", (0.1, 7.0), {}, (3, 4)), ("LogSigmoid", (), {}, (3, 4)),
    ("Softsign", (), {}, (3, 4)), ("Tanhshrink", (), {}, (3, 4)), ("PReLU", (), {}, (3, 4)), ("PReLU", (4,), {}, (3, 4)),
    ("Softmax", (1,), {}, (3, 4)), ("LogSoftmax", (), {"dim": 0}, (3, 4)), ("Softmin", (), {"dim": -1}, (3, 4)),
    ("GLU", (), {}, (3, 4)), ("GLU", (0,), {}, (4, 3)),
    ("Dropout", (0.0,), {}, (3, 4)), ("Dropout2d", (0.0,), {}, (3, 4, 2, 2)), ("AlphaDropout", (0.0,), {}, (3, 4)),
    ("FeatureAlphaDropout", (0.0,), {}, (3, 4, 2)), ("Hardshrink", (0.3,), {}, (3, 4)), ("Softshrink", (), {}, (3, 4)),
    ("Softmax2d", (), {}, (2, 3, 4, 2)), ("RReLU", (0.2, 0.2), {}, (3, 4)),
    ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]), ("PairwiseDistance", (1.0,), {"keepdim": True}, [(3, 4), (3, 4)]),
    ("LayerNorm", (4,), {}, (3, 4)), ("LayerNorm", ([3, 4],), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", (4,), {"elementwise_affine": False, "eps": 1e-3}, (3, 4)),
    ("RMSNorm", (4,), {}, (3, 4)), ("RMSNorm", ((3, 4),), {"eps": 1e-3}, (2, 3, 4)), ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (4, 4), {"affine": False}, (3, 4, 5)), ("GroupNorm", (2, 4), {"bias": False}, (3, 4)),
    ("BatchNorm1d", (4,), {}, (3, 4)), ("BatchNorm1d", (4,), {"momentum": None}, (3, 4, 5)),
    ("BatchNorm1d", (4,), {"affine": False, "track_running_stats": False}, (3, 4)), ("BatchNorm2d", (4,), {"bias": False}, (3, 4, 2, 2)),
    ("BatchNorm3d", (2,), {"momentum": 0.3}, (2, 2, 3, 2, 2)), ("InstanceNorm1d", (3,), {"affine": True}, (2, 3, 5)), ("InstanceNorm2d", (3,), {}, (2, 3, 4, 5)),
    ("InstanceNorm2d", (3,), {"track_running_stats": True, "affine": True}, (2, 3, 4, 5)), ("InstanceNorm2d", (3,), {}, (3, 4, 5)), ("InstanceNorm3d", (2,), {"bias": False}, (2, 2, 3, 2, 2)),
    ("LocalResponseNorm", (3,), {"alpha": 0.1}, (2, 4, 3, 3)),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 8)), ("Conv2d", (3, 4, 3), {"padding": "same", "bias": False}, (2, 3, 5, 6)),
    ("Conv2d", (3, 4, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}, (2, 3, 7, 6)), ("Conv2d", (3, 4, 3), {"padding": 1, "padding_mode": "reflect"}, (3, 5, 6)),
    ("Conv2d", (3, 4, 3), {"padding": "same", "padding_mode": "circular", "dilation": 2}, (2, 3, 6, 6)), ("Conv3d", (2, 3, 2), {"padding": "valid"}, (2, 2, 3, 4, 3)),
    ("Conv1d", (2, 3, 3), {"padding": 2, "padding_mode": "replicate"}, (2, 2, 6)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, (2, 4, 5)), ("ConvTranspose2d", (3, 4, 3, 2, 1, 1), {}, (2, 3, 4, 5)),
    ("ConvTranspose3d", (2, 3, 2), {"bias": False}, (2, 2, 3, 2, 3)),
    ("MaxPool1d", (2,), {}, (2, 3, 8)), ("MaxPool2d", (3, 2, 1), {}, (2, 3, 7, 8)), ("MaxPool2d", (2,), {"ceil_mode": True}, (3, 7, 8)), ("MaxPool3d", ((1, 2, 2),), {}, (2, 3, 2, 4, 4)),
    ("AvgPool1d", (2,), {"padding": 1}, (2, 3, 8)), ("AvgPool2d", (3, 2, 1), {"count_include_pad": False}, (2, 3, 7, 8)), ("AvgPool3d", (2,), {}, (2, 3, 2, 4, 4)),
    ("LPPool1d", (2, 3), {"stride": 2}, (2, 3, 8)), ("LPPool2d", (2, 2), {}, (2, 3, 6, 6)), ("LPPool3d", (2, 2), {"stride": 1}, (2, 3, 3, 4, 3)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 8)), ("AdaptiveAvgPool2d", ((None, 3),), {}, (2, 3, 4, 7)), ("AdaptiveAvgPool2d", (1,), {}, (2, 3, 4, 7)), ("AdaptiveAvgPool3d", (2,), {}, (2, 3, 3, 4, 5)),
    ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 8)), ("AdaptiveMaxPool2d", (2,), {}, (2, 3, 4, 7)), ("AdaptiveMaxPool3d", (2,), {}, (2, 3, 3, 4, 5)),
    ("Upsample", (), {"scale_factor": 2}, (2, 3, 4, 5)), ("Upsample", (), {"size": (3, 7), "mode": "bilinear"}, (2, 3, 4, 5)), ("UpsamplingNearest2d", (), {"scale_factor": 3}, (2, 3, 2, 2)),
    ("UpsamplingBilinear2d", ((5, 6),), {}, (2, 3, 4, 4)), ("Upsample", (), {"scale_factor": (1.5, 2.0), "mode": "bicubic", "align_corners": True}, (2, 3, 4, 5)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 2)), ("PixelUnshuffle", (2,), {}, (2, 3, 4, 2)), ("ChannelShuffle", (2,), {}, (2, 4, 3, 2)),
    ("Unfold", (2,), {"padding": 1}, (2, 3, 4, 5)), ("Fold", ((4, 5), 2), {}, (2, 12, 12)), ("Dropout2d", (0.0,), {}, (2, 3, 4, 4)), ("Dropout1d", (0.0,), {}, (2, 3, 4)), ("Dropout3d", (0.0,), {}, (2, 3, 4, 2, 2)),
    ("ConstantPad1d", (2, 3.5), {}, (2, 3, 4)), ("ConstantPad2d", (1, 2), {}, (2, 3, 4)), ("ConstantPad3d", (1, 0.5), {}, (1, 2, 2, 3, 2)), ("ZeroPad1d", (1,), {}, (2, 3, 4)), ("ZeroPad2d", ((1, 2, 0, -1),), {}, (2, 3, 4)), ("ZeroPad3d", (1,), {}, (1, 2, 2, 3, 2)),
    ("ReflectionPad1d", (2,), {}, (2, 3, 4)), ("ReflectionPad2d", ((1, 2, 0, 1),), {}, (2, 3, 4, 4)), ("ReflectionPad3d", (1,), {}, (1, 2, 2, 3, 2)),
    ("ReplicationPad1d", (2,), {}, (2, 3, 4)), ("ReplicationPad2d", ((1, 2, 0, 1),), {}, (2, 3, 4, 4)), ("ReplicationPad3d", (1,), {}, (1, 2, 2, 3, 2)),
    ("CircularPad1d", (2,), {}, (2, 3, 4)), ("CircularPad2d", ((1, 2, 0, 1),), {}, (2, 3, 4, 4)), ("CircularPad3d", (1,), {}, (1, 2, 2, 3, 2)),
]


def same_state(ours, theirs):
    """Copy torch's values, moved off their special initial ones, through arrays."""
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    state = theirs.state_dict()
    assert list(state) == list(ours.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in state.items()})


def compare(ours, theirs, rtol=2e-5, atol=2e-6):
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "args", "kwargs", "shapes"), LAYERS, ids=[f"{c[0]}-{i}" for i, c in enumerate(LAYERS)])
@pytest.mark.parametrize("training", [True, False])
def test_layer(name, args, kwargs, shapes, training):
    torch.manual_seed(0)
    ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs)
    assert ours.state_dict()._metadata == dict(theirs.state_dict()._metadata)
    same_state(ours, theirs)
    ours.train(training)
    theirs.train(training)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shapes if isinstance(shapes, list) else [shapes])]
    for _ in range(2):
        xs = [jitgrad.tensor(a, requires_grad=True) for a in arrays]
        ts = [torch.tensor(a, requires_grad=True) for a in arrays]
        y, t = ours(*xs), theirs(*ts)
        compare(y, t)
        g = rng.standard_normal(tuple(t.shape)).astype(np.float32)
        y.backward(jitgrad.tensor(g))
        t.backward(torch.tensor(g))
        for a, b in zip(xs, ts, strict=True):
            compare(a.grad, b.grad, atol=1e-5)
    for (n, p), (m, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert n == m
        compare(p.grad, q.grad, atol=2e-5)
    for (n, b), (m, c) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert n == m
        compare(b, c)


PAIR, BINARY = "pair", "binary"
LOSSES = [
    ("MSELoss", {}, PAIR), ("MSELoss", {"reduction": "sum"}, PAIR), ("L1Loss", {}, PAIR), ("L1Loss", {"reduction": "none"}, PAIR),
    ("SmoothL1Loss", {}, PAIR), ("SmoothL1Loss", {"beta": 0.3, "reduction": "sum"}, PAIR), ("HuberLoss", {"delta": 0.5}, PAIR),
    ("KLDivLoss", {"reduction": "batchmean"}, "log"), ("KLDivLoss", {"reduction": "sum", "log_target": True}, "loglog"),
    ("BCELoss", {}, BINARY), ("BCELoss", {"reduction": "sum"}, BINARY), ("BCEWithLogitsLoss", {}, "logits"),
    ("BCEWithLogitsLoss", {"pos_weight": [1.0, 2.0, 3.0]}, "logits"), ("NLLLoss", {}, "logclasses"),
    ("NLLLoss", {"weight": [1.0, 2.0, 3.0], "ignore_index": 1}, "logclasses"), ("CrossEntropyLoss", {}, "classes"),
    ("CrossEntropyLoss", {"label_smoothing": 0.2, "reduction": "sum"}, "classes"),
    ("CrossEntropyLoss", {"weight": [1.0, 2.0, 3.0], "ignore_index": 2}, "classes"), ("CrossEntropyLoss", {}, "probabilities"),
    ("MSELoss", {"size_average": False}, PAIR), ("MSELoss", {"reduce": False}, PAIR),
]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(("name", "kwargs", "kind"), LOSSES, ids=[f"{c[0]}-{i}" for i, c in enumerate(LOSSES)])
def test_loss(name, kwargs, kind):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 3)).astype(np.float32)
    target = rng.standard_normal((6, 3)).astype(np.float32)
    soft = np.exp(target) / np.exp(target).sum(1, keepdims=True)
    if kind == BINARY:
        x, target = 1 / (1 + np.exp(-x)), (target > 0).astype(np.float32)
    elif kind == "logits":
        target = (target > 0).astype(np.float32)
    elif kind in ("log", "loglog"):
        target = soft if kind == "log" else np.log(soft)
    elif kind in ("classes", "logclasses"):
        target = rng.integers(0, 3, 6)
    elif kind == "probabilities":
        target = soft
    if kind.startswith("log") and kind != "logits":
        x = x - np.log(np.exp(x).sum(1, keepdims=True))
    results = []
    for library in (jitgrad, torch):
        options = {k: library.tensor(v) if isinstance(v, list) else v for k, v in kwargs.items()}
        loss = getattr(library.nn, name)(**options)
        input = library.tensor(x, requires_grad=True)
        value = loss(input, library.tensor(target))
        value.sum().backward()
        results.append((value, input.grad, repr(loss), list(loss.state_dict())))
    (a, ga, ra, sa), (b, gb, rb, sb) = results
    compare(a, b)
    compare(ga, gb)
    assert (ra, sa) == (rb, sb)


def test_embedding():
    torch.manual_seed(0)
    for kwargs in ({}, {"padding_idx": -1}, {"padding_idx": 1, "norm_type": 1.0}, {"max_norm": 0.9},
                   {"scale_grad_by_freq": True, "max_norm": 1.0, "norm_type": 1.0}):
        ours, theirs = nn.Embedding(6, 3, **kwargs), torch.nn.Embedding(6, 3, **kwargs)
        assert repr(ours) == repr(theirs)
        if kwargs.get("padding_idx") is not None:
            assert ours.weight[ours.padding_idx].tolist() == [0, 0, 0]
        ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
        indices = np.array([[1, 5, 1], [0, 2, 5]])
        y, t = ours(jitgrad.tensor(indices)), theirs(torch.tensor(indices))
        compare(y, t)
        (y * y).sum().backward()
        (t * t).sum().backward()
        compare(ours.weight.grad, theirs.weight.grad)
        compare(ours.weight, theirs.weight)
    table = nn.Embedding.from_pretrained(jitgrad.ones(2, 3))
    assert not table.weight.requires_grad
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(2, 3, padding_idx=5)


#: what torch's constructors take and ours do not: deprecated names
LACKING = {"Hardtanh": {"min_value", "max_value"}}


#: torch's take *args, which says nothing
UNNAMED = ("Module", "RNN", "GRU", "LSTM", "NLLLoss2d")


def default_of(p):
    return p.default.__name__ if inspect.isfunction(p.default) else p.default


@pytest.mark.parametrize("name", [n for n in nn.modules.__all__ if inspect.isclass(getattr(nn, n)) and n not in UNNAMED])
def test_constructors_have_torchs_signatures(name):
    ours, theirs = ([p for p in inspect.signature(getattr(m, name)).parameters.values() if p.kind not in (2, 4)]
                    for m in (nn, torch.nn))
    theirs = [p for p in theirs if p.name not in LACKING.get(name, ())]
    assert [(p.name, p.kind, default_of(p)) for p in ours] == [(p.name, p.kind, default_of(p)) for p in theirs]


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_linear_starts_in_torchs_range(name):
    jitgrad.manual_seed(0)
    values = getattr(nn.Linear(100, 2000), name).detach().numpy()
    assert abs(values).max() <= 0.1
    assert abs(values).max() > 0.099
    assert abs(values.mean()) < 0.003
    np.testing.assert_allclose(values.std(), 0.1 / 3**0.5, rtol=0.03)


INITS = [("uniform_", (-1.0, 2.0)), ("normal_", (1.0, 3.0)), ("trunc_normal_", (0.5, 1.0, -1.0, 2.0)), ("constant_", (0.3,)),
         ("ones_", ()), ("zeros_", ()), ("eye_", ()), ("xavier_uniform_", (2.0,)), ("xavier_normal_", ()),
         ("kaiming_uniform_", (0.2, "fan_out")), ("kaiming_normal_", (0, "fan_in", "relu")), ("sparse_", (0.3,))]


@pytest.mark.parametrize(("name", "args"), INITS)
def test_initialisation_has_torchs_distribution(name, args):
    jitgrad.manual_seed(1)
    torch.manual_seed(1)
    ours = getattr(nn.init, name)(nn.Parameter(jitgrad.empty(300, 200)), *args)
    theirs = getattr(torch.nn.init, name)(torch.empty(300, 200), *args)
    assert ours.is_leaf
    a, b = ours.detach().numpy(), theirs.numpy()
    quantiles = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(np.quantile(a, quantiles), np.quantile(b, quantiles), atol=0.05 * (b.std() + 1e-9))
    np.testing.assert_allclose(a.std(), b.std(), rtol=0.03, atol=1e-9)


def test_initialisation_errors():
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"):
        nn.init.xavier_uniform_(jitgrad.ones(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity frob"):
        nn.init.calculate_gain("frob")
    with pytest.raises(ValueError, match=r"Mode x not supported, please use one of \['fan_in', 'fan_out'\]"):
        nn.init.kaiming_normal_(jitgrad.ones(3, 3), mode="x")
    for name in ("linear", "tanh", "relu", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        nn.init.kaiming_uniform_(jitgrad.empty(0, 3))


def test_dropout_scales_what_it_keeps():
    jitgrad.manual_seed(0)
    layer = nn.Dropout(0.25)
    y = layer(jitgrad.ones(100, 100)).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    assert (layer.eval()(jitgrad.ones(3)).numpy() == 1).all()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_clipping_and_vectors():
    grads = [np.array([[3.0, -4.0]], np.float32), np.array([12.0], np.float32)]
    for norm_type in (2.0, 1.0, float("inf"), 3.0):
        results = []
        for library in (jitgrad, torch):
            params = [library.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
            for p, g in zip(params, grads, strict=True):
                p.grad = library.tensor(g)
            total = library.nn.utils.clip_grad_norm_(params, 6.5, norm_type)
            results.append([float(total), *[p.grad.numpy() for p in params]])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    p = jitgrad.tensor([1.0, 2.0], requires_grad=True)
    p.grad = jitgrad.tensor([5.0, -7.0])
    nn.utils.clip_grad_value_(p, 6)
    assert p.grad.tolist() == [5, -6]
    p.grad.fill_(float("nan"))
    with pytest.raises(RuntimeError, match=r"The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(jitgrad.arange(9.0), layer.parameters())
    assert layer.bias.tolist() == [6, 7, 8]
    assert layer.weight.is_leaf


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm", "running", "instance_norm", "rms_norm"])
@pytest.mark.filterwarnings("ignore")  # torch's, of mixed dtypes in rms_norm
def test_dtypes_of_the_parameters_of_norms(name):
    """A norm's vectors have its input's dtype, or all float32 where that is of half precision; else RuntimeError."""
    def answer(library, of_input, of_weight, of_bias):
        F, ones = library.nn.functional, library.ones
        x = library.arange(24.0).reshape(2, 4, 3).to(getattr(library, of_input))
        weight = ones(4, dtype=getattr(library, of_weight))
        bias = None if of_bias is None else ones(4, dtype=getattr(library, of_bias))
        y = {"layer_norm": lambda: F.layer_norm(x.transpose(1, 2), (4,), weight, bias),
             "group_norm": lambda: F.group_norm(x, 2, weight, bias),
             "batch_norm": lambda: F.batch_norm(x, None, None, weight, bias, True),
             "running": lambda: F.batch_norm(x, ones(4), ones(4), weight, bias),
             "instance_norm": lambda: F.instance_norm(x, None, None, weight, bias),
             "rms_norm": lambda: F.rms_norm(x.transpose(1, 2), (4,), weight)}[name]
        try:
            return str(y().dtype).rpartition(".")[2]
        except Exception as e:
            return type(e).__name__

    floats = ["float16", "bfloat16", "float32", "float64"]
    for three in itertools.product(floats, floats, [None, *floats]):
        assert answer(jitgrad, *three) == answer(torch, *three), three


SOURCES = [
    "t.addcmul(ones(3).int(), ones(3).int(), ones(3).int(), value=-2.5)", "t.add(ones(3).half(), ones(3).half(), alpha=1e5)",
    "t.sub(ones(3).byte(), ones(3).byte(), alpha=300)", "t.linalg.vecdot(ones(3).int(), ones(3).int())",
    "t.linalg.vecdot(ones(3).half(), ones(3))", "t.linalg.qr(ones(3, 2).half())",
    "F.layer_norm(ones(2, 4), (4,), ones(3))",
    "F.layer_norm(ones(2, 4), (4,), None, ones(1))",
    "F.rms_norm(ones(2, 4), (4,), ones(()))",
    "F.rms_norm(ones(2, 4, dtype=t.complex64), (4,))",
    "F.batch_norm(ones(3, 4).int(), None, None)",
    "F.pdist(ones(3, 4).half())",
    "F.pdist(ones(3, 4, dtype=t.complex64))",
    "F.cosine_similarity(ones(3).int(), ones(3).double(), 0)",
    "F.gaussian_nll_loss(ones(3), ones(3), ones(3).int())",
    "F.local_response_norm(ones(2, 4, 3, 2).half(), 2)",
    "F.ctc_loss(ones(6, 2, 4).bfloat16(), t.ones(2, 2).long(), (6, 5), (2, 1))",
    "t.addbmm(ones(3), ones(3, 4), ones(4))",
    "t.addbmm(ones(3), ones(2, 3, 4), ones(2, 4, 3))",
    "t.addbmm(ones(5, 5), ones(2, 3, 4), ones(2, 4, 3))",
    "t.addbmm(ones(3).double(), ones(2, 3, 4), ones(2, 4, 3))",
    "t.addbmm(ones(3).int(), ones(2, 3, 4).int(), ones(2, 4, 3).int(), beta=0.5)",
    "t.addbmm(ones(3).bool(), ones(2, 3, 4).bool(), ones(2, 4, 3).bool())",
    "t.addbmm(ones(3), ones(2, 3, 4, 5), ones(2, 4, 3))",
]


@pytest.mark.parametrize("source", SOURCES)
def test_preconditions(source):
    def answer(library):
        try:
            y = eval(source, {"t": library, "F": library.nn.functional, "ones": library.ones})
        except Exception as e:
            return type(e)
        return str(y.dtype).rpartition(".")[2], y.tolist()

    ours, theirs = answer(jitgrad), answer(torch)
    assert ours == theirs if isinstance(theirs, type) else ours[0] == theirs[0] and np.allclose(ours[1], theirs[1])

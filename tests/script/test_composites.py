"""Norms and losses are native programs, of few elements as of many, and give what their operations give one by one."""

import math

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.eager.arrays.arrays import FEW, MANY
from jitgrad.nn import functional as F
from jitgrad.profiler import profile
from jitgrad.script import composites
from jitgrad.script.executor import eager_mode

ROWS, COLUMNS = 256, 260
SMALL = 16, 20
assert ROWS * COLUMNS >= MANY > SMALL[0] * SMALL[1] >= FEW
RNG = np.random.default_rng(0)
X, Y, V = RNG.normal(size=(ROWS, COLUMNS)), RNG.normal(size=(ROWS, COLUMNS)), RNG.normal(size=COLUMNS)
P = RNG.uniform(0.1, 0.9, (ROWS, COLUMNS))
CLASSES, SIGNS = RNG.integers(0, COLUMNS, ROWS), RNG.choice([-1.0, 1.0], (ROWS, COLUMNS))


def cases(n, m):
    """Calls on the first n rows and m columns of the numbers above."""
    x, y, v, p, signs = X[:n, :m], Y[:n, :m], V[:m], P[:n, :m], SIGNS[:n, :m]
    classes = CLASSES[:n] % m
    return {
        "layer_norm": (F.layer_norm, (x, (m,), v, v), {}),
        "layer_norm, plain": (F.layer_norm, (x, (m,)), {"eps": 0.5}),
        "rms_norm": (F.rms_norm, (x, [m], v), {}),
        "group_norm": (lambda x, *rest: F.group_norm(x.reshape(n, 4, m // 4), *rest), (x, 2, v[:4], v[:4]), {}),
        "batch_norm": (F.batch_norm, (x, None, None, v, v, True), {}),
        "cosine_similarity": (F.cosine_similarity, (x, y), {}),
        "mse_loss": (F.mse_loss, (x, y), {}),
        "mse_loss, none": (F.mse_loss, (x, y), {"reduction": "none"}),
        "l1_loss": (F.l1_loss, (x, y), {"reduction": "sum"}),
        "smooth_l1_loss": (F.smooth_l1_loss, (x, y), {"beta": 0.5}),
        "smooth_l1_loss, no beta": (F.smooth_l1_loss, (x, y), {"beta": 0.0}),
        "huber_loss": (F.huber_loss, (x, y), {}),
        "binary_cross_entropy": (F.binary_cross_entropy, (p, p), {}),
        "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, (x, p), {}),
        "kl_div": (F.kl_div, (x, p), {"reduction": "batchmean"}),
        "gaussian_nll_loss": (F.gaussian_nll_loss, (x, y, p), {}),
        "poisson_nll_loss": (F.poisson_nll_loss, (x, p), {"full": True}),
        "hinge_embedding_loss": (F.hinge_embedding_loss, (x, signs), {}),
        "margin_ranking_loss": (F.margin_ranking_loss, (x, y, signs), {"margin": 0.2}),
        "soft_margin_loss": (F.soft_margin_loss, (x, signs), {}),
        "cosine_embedding_loss": (F.cosine_embedding_loss, (x, y, signs[:, 0]), {}),
        "triplet_margin_loss": (F.triplet_margin_loss, (x, y, p), {"swap": True}),
        "pairwise_distance": (F.pairwise_distance, (x, y), {}),
        "nll_loss": (F.nll_loss, (x, classes), {}),
        "nll_loss, weighted": (F.nll_loss, (x, classes, p[0]), {"ignore_index": int(classes[0])}),
        "cross_entropy": (F.cross_entropy, (x, classes), {"label_smoothing": 0.1}),
        "cross_entropy, soft": (F.cross_entropy, (x, p), {}),
        "norm": (jitgrad.norm, (x,), {}),
        "norm of columns": (jitgrad.linalg.vector_norm, (x, 2, -2), {"keepdim": True}),
        "norm of both axes": (jitgrad.linalg.vector_norm, (x,), {"dim": (1, 0)}),
        "max": (lambda x, dim: jitgrad.max(x, dim)[0], (x, 1), {}),
        "min": (lambda x, dim: jitgrad.min(x, dim, keepdim=True)[0], (x, -2), {}),
    }


CASES = {f"{name}, {size}": case for size, shape in (("large", (ROWS, COLUMNS)), ("small", SMALL))
         for name, case in cases(*shape).items()}


def tensors(arguments, grad=True, dtype=np.float32):
    return [jitgrad.tensor(a.astype(dtype) if a.dtype.kind == "f" else a).requires_grad_(
        grad and a.dtype.kind == "f") if isinstance(a, np.ndarray) else a for a in arguments]


def close(found, expected):
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.dtype is expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4,
                                   atol=1e-5 if found.dtype is jitgrad.float32 else 1e-9)


def is_one(y):
    """Whether a result is that of one program."""
    return y.grad_fn.name() in {f"{c.__name__}Backward" for c in composites._known.values()}


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_of_both_orders(case):
    fn, arguments, options = CASES[case]
    results = []
    for way in (eager_mode, None):
        given = tensors(arguments, dtype=np.float64)
        floats = [v for v in given if isinstance(v, jitgrad.Tensor) and v.requires_grad]
        if way is None:
            y = fn(*given, **options)
            assert is_one(y)
        else:
            with way():
                y = fn(*given, **options)
        first = jitgrad.autograd.grad((y * y).sum(), floats, create_graph=True, allow_unused=True)
        total = sum(((g * g).sum() for g in first if g is not None and g.requires_grad), jitgrad.zeros(()))
        second = jitgrad.autograd.grad(total, floats, allow_unused=True) if total.requires_grad else ()
        results.append([y, *first, *second])
    expected, found = results
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@pytest.mark.parametrize("shape", [SMALL, (ROWS, COLUMNS)])
def test_dropout_draws_what_its_operations_draw(shape):
    found = []
    for way in (eager_mode, jitgrad.enable_grad):
        jitgrad.manual_seed(3)
        (x,) = tensors([X[:shape[0], :shape[1]]])
        with way():
            y = F.dropout(x, 0.3)
            z = F.dropout(x, 1.0)
        assert is_one(y) is (way is not eager_mode)
        (y + z).backward(x.detach())
        found.append((y, z, x.grad, jitgrad.rand(3)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_batch_norm_follows_its_moments():
    moved = []
    for way in (eager_mode(), None):
        x, mean, variance = tensors([X, np.zeros(COLUMNS), np.ones(COLUMNS)], grad=False)
        if way is None:
            y = F.batch_norm(x, mean, variance, None, None, True, 0.3)
        else:
            with way:
                y = F.batch_norm(x, mean, variance, None, None, True, 0.3)
        assert (mean._version, variance._version) == (2, 2) or way is None
        moved.append((y, mean, variance))
    for a, b in zip(*moved, strict=True):
        close(a, b)


def test_numbers_that_are_none_go_through():
    strange = X.copy()
    strange[0, 0], strange[1, 1], strange[2, 2] = math.nan, math.inf, -math.inf
    for fn in (F.smooth_l1_loss, F.mse_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        x, y = tensors([strange, P])
        found = fn(x, y, reduction="none")
        with eager_mode():
            expected = fn(x, y, reduction="none")
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
        gradients = [jitgrad.autograd.grad(v, x, jitgrad.ones_like(v))[0].numpy() for v in (found, expected)]
        np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-6)


def test_types_and_orders_that_no_program_is_for():
    x, y = tensors([X, Y])
    for a, b in [(x.t(), y.t()), (x.half(), y.half()), (x[:, ::2].repeat(1, 2)[:, 1:], y[:, 1:])]:
        loss = F.mse_loss(a, b)
        assert not is_one(loss)
        with eager_mode():
            close(loss, F.mse_loss(a, b))
    assert is_one(F.mse_loss(x.double(), y.double()))
    assert is_one(F.mse_loss(x[:1], y[:1]))
    assert not is_one(F.mse_loss(x[0, :FEW - 1], y[0, :FEW - 1]))


def test_what_is_very_short_pays_for_many_elements_only():
    (x,) = tensors([X])
    assert is_one(x**3)
    assert not is_one(x[:9] ** 3)
    close((x**3)[:9], x[:9] ** 3)


def test_where_nothing_is_recorded():
    x, y = tensors([X, Y])
    with jitgrad.no_grad():
        assert F.mse_loss(x, y).grad_fn is None
    with jitgrad.inference_mode():
        found = F.mse_loss(x, y)
    assert found.is_inference()
    assert not F.mse_loss(x.detach(), y.detach()).requires_grad


def test_who_looks_at_the_operations_sees_them():
    x, y = tensors([X, Y])
    with profile() as seen:
        F.mse_loss(x, y)
    assert {"aten::sub", "aten::mul"} <= {event.name for event in seen.events()}
    with jitgrad.autograd.set_detect_anomaly(True):
        assert not is_one(F.mse_loss(x, y))
    with jitgrad.autocast("cpu", dtype=jitgrad.bfloat16):
        assert not is_one(F.mse_loss(x, y))


def test_hooks_versions_and_second_passes():
    x, y = tensors([X, Y])
    seen = []
    h = x * 1.0
    h.register_hook(lambda g: seen.append(g.shape))
    loss = F.mse_loss(h, y)
    loss.backward(retain_graph=True)
    loss.backward()
    assert seen == [(ROWS, COLUMNS)] * 2
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    h = x * 1.0
    loss = F.cross_entropy(h, jitgrad.arange(ROWS))
    h.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = F.mse_loss(x, x)  # the same tensor twice
    loss.backward()


@pytest.mark.parametrize("call", [
    lambda x, y: F.layer_norm(x, (7,)), lambda x, y: F.mse_loss(x, y, reduction="all"),
    lambda x, y: F.mse_loss(x, y[:, 1:]), lambda x, y: F.group_norm(x, 7),
    lambda x, y: F.nll_loss(x, jitgrad.full((ROWS,), COLUMNS)),
    lambda x, y: F.binary_cross_entropy(x, y[1:]), lambda x, y: F.mse_loss(x, "y")])
def test_errors_are_those_of_the_operations(call):
    x, y = tensors([X, Y])
    said = []
    for way in (eager_mode, jitgrad.enable_grad):
        with way(), pytest.raises(Exception) as caught:  # noqa: PT011
            call(x, y)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_items_of_a_batch():
    x, y = tensors([X, Y], grad=False)
    found = jitgrad.func.vmap(lambda a, b: F.mse_loss(a, b))(x, y)
    np.testing.assert_allclose(found.numpy(), ((X - Y) ** 2).mean(1), rtol=1e-4)
    found, slope = jitgrad.func.jvp(lambda a: F.mse_loss(a, y), (x,), (jitgrad.ones_like(x),))
    np.testing.assert_allclose(slope.numpy(), 2 * (X - Y).mean(), rtol=1e-3)


def test_in_a_script_and_by_name():
    x, y = tensors([X, Y])
    close(jitgrad.script(F.smooth_l1_loss)(x, y), F.smooth_l1_loss(x, y))
    close(jitgrad.script(lambda a, b: F.smooth_l1_loss(a, b, beta=2.0))(x, y), F.smooth_l1_loss(x, y, beta=2.0))
    import inspect
    import pickle

    assert pickle.loads(pickle.dumps(F.mse_loss)) is F.mse_loss
    assert list(inspect.signature(F.mse_loss).parameters)[:2] == ["input", "target"]


def test_there_are_not_more_programs_than_pay(monkeypatch):
    def scaled(x, mode):
        return x * {"a": 1.0, "b": 2.0, "c": 3.0}[mode]

    monkeypatch.setattr(composites, "MOST", 2)
    x = jitgrad.tensor(X)
    made = [composites.computed(scaled, (x, mode), {}) for mode in "abca"]
    assert made[2] is NotImplemented
    assert all(isinstance(made[k], jitgrad.Tensor) for k in (0, 1, 3))
    del composites._known[scaled]


def test_what_no_program_computes_is_told(capsys):
    x = jitgrad.ones(300, 300)
    with config.override(debug=1), pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (7,))
    assert "`layer_norm` runs operation by operation: " in capsys.readouterr().err


def test_a_flag_chooses_a_program():
    """Each computes what it is for, at once: nothing of what the other would is kept or asked for."""
    x, mean, variance = [jitgrad.tensor(a) for a in (X, V[:COLUMNS], np.abs(V[:COLUMNS]))]
    training = F.batch_norm(x, mean.clone(), variance.clone(), training=True)
    for _ in range(2):
        found = F.batch_norm(x, mean, variance, training=False)
        np.testing.assert_allclose(found.numpy(), (X - V) / np.sqrt(np.abs(V) + 1e-5), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(F.batch_norm(x, mean.clone(), variance.clone(), training=True).numpy(),
                                   training.numpy())
    program = composites._known[F.batch_norm.__wrapped__]
    for specialisation in program.specialisations:
        assert not [node for node in specialisation.function.graph.block.nodes if node.op == "if"]

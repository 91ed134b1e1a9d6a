"""Functions of `nn.functional` by their names in `torch`, and the formats of memory: as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")
_rng = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return _rng.standard_normal(shape)


def sign(*shape: int) -> Any:
    return np.sign(normal(*shape))


X, W = normal(3, 4, 5), [normal(4), normal(4)]
#: name -> arrays, and what else is given
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "layer_norm": ((X, (5,), normal(5), normal(5)), {"eps": 1e-3}), "group_norm": ((X, 2, *W), {}),
    "batch_norm": ((X, *W, None, None, True, 0.1, 1e-5, False), {}), "rms_norm": ((X, (5,)), {}),
    "instance_norm": ((X, *W, None, None, True, 0.1, 1e-5, False), {}),
    "embedding": ((normal(6, 3), np.array([[1, 5], [0, 1]])), {"padding_idx": 1}),
    "bilinear": ((normal(2, 3), normal(2, 4), normal(5, 3, 4), normal(5)), {}),
    "adaptive_max_pool1d": ((X, 2), {}), "rrelu": ((X,), {"lower": 0.2, "upper": 0.4}),
    "cosine_similarity": ((X, normal(3, 4, 5)), {"dim": 2}), "pairwise_distance": ((X, normal(3, 4, 5)), {"p": 3.0}),
    "pdist": ((normal(4, 3),), {}), "binary_cross_entropy_with_logits": ((X, abs(sign(3, 4, 5))), {"reduction": 1}),
    "kl_div": ((X, abs(X)), {"reduction": 2}), "hinge_embedding_loss": ((X, sign(3, 4, 5)), {}),
    "cosine_embedding_loss": ((normal(3, 5), normal(3, 5), sign(3)), {"reduction": 1}),
    "margin_ranking_loss": ((X, normal(3, 4, 5), sign(3, 4, 5)), {"margin": 0.2}),
    "triplet_margin_loss": ((normal(3, 5), normal(3, 5), normal(3, 5)), {"swap": True, "reduction": 1}),
    "poisson_nll_loss": ((X, abs(X)), {"log_input": True, "full": False, "eps": 1e-8, "reduction": 1}),
}


def run(lib: Any, name: str, script: bool = False) -> list[Any]:
    """The values and the gradients of a call."""
    args, options = CALLS[name]
    tensors = [lib.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    leaves = [t.requires_grad_() for t in tensors if hasattr(t, "dtype") and t.dtype.is_floating_point]
    fn = getattr(lib, name)
    result = (lib.script(lambda *a: fn(*a, **options)) if script else fn)(*tensors, **({} if script else options))
    y = result[0] if isinstance(result, tuple) else result
    (y * y).sum().backward()
    return [y.detach().numpy(), *[t.grad.numpy() for t in leaves if t.grad is not None]]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("script", [False, True], ids=["eager", "script"])
def test_values_and_gradients(name: str, script: bool) -> None:
    ours, theirs = run(jitgrad, name, script), run(torch, name)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (2, 6, 6)])
def test_low_rank(shape: tuple[int, ...]) -> None:
    jitgrad.manual_seed(0)
    a = jitgrad.tensor(normal(*shape[:-1], 3) @ normal(*shape[:-2], 3, shape[-1]))
    u, s, v = jitgrad.svd_lowrank(a, q=4)
    assert [x.shape for x in (u, s, v)] == [x.shape for x in torch.svd_lowrank(torch.tensor(a.numpy()), q=4)]
    np.testing.assert_allclose((u * s.unsqueeze(-2)) @ v.mT, a, atol=1e-9)
    np.testing.assert_allclose(s[..., :3], jitgrad.linalg.svdvals(a)[..., :3], rtol=1e-9)
    _, s, v = jitgrad.pca_lowrank(a)
    np.testing.assert_allclose(s[..., :3], torch.pca_lowrank(torch.tensor(a.numpy()))[1][..., :3], rtol=1e-6)
    with pytest.raises(ValueError, match=r"q\(=9\) must be non-negative integer and not greater than min"):
        jitgrad.pca_lowrank(a, q=9)
    with pytest.raises(ValueError, match=r"niter\(=-1\) must be non-negative integer"):
        jitgrad.pca_lowrank(a, niter=-1)


def test_random_slopes_and_dropout() -> None:
    x = -jitgrad.ones(1000)
    one, two = (jitgrad.rrelu(x, 0.2, 0.4, True, jitgrad.Generator().manual_seed(3)) for _ in range(2))
    assert one.equal(two)
    assert -0.4 <= one.min() < -0.39 < -0.21 < one.max() <= -0.2
    assert jitgrad.rrelu_(x.clone()).eq(-(1 / 8 + 1 / 3) / 2).all()
    y = jitgrad.alpha_dropout(jitgrad.randn(10000), 0.4, True)
    assert abs(y.mean()) < 0.05
    assert abs(y.std() - 1) < 0.05
    channels = jitgrad.feature_alpha_dropout(jitgrad.ones(4, 50, 6), 0.5, True)
    assert channels.eq(channels[:, :, :1]).all()
    assert jitgrad.alpha_dropout_(x, 0.5, False) is x


def test_what_is_refused() -> None:
    for call in (lambda t: t.layer_norm(t.ones(3, dtype=t.int64), (3,)), lambda t: t.rrelu(t.ones(3, dtype=t.int64))):
        for lib in (jitgrad, torch):
            with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
                call(lib)
    for lib in (jitgrad, torch):
        with pytest.raises(TypeError, match=r"'reduction'.* must be int, not str"):
            lib.kl_div(lib.ones(2), lib.ones(2), "mean")


def test_memory_formats_are_wishes() -> None:
    for name in ("strided", "channels_last", "channels_last_3d", "contiguous_format", "preserve_format"):
        assert repr(getattr(jitgrad, name)) == repr(getattr(torch, name))
    x = jitgrad.randn(2, 3, 4, 5)
    for y in (x.contiguous(memory_format=jitgrad.channels_last), x.to(memory_format=jitgrad.channels_last),
              x.clone(memory_format=jitgrad.preserve_format)):
        assert y.equal(x)
    last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert [t.is_contiguous(memory_format=jitgrad.channels_last) for t in (x, last, x[0])] == [False, True, False]
    shapes = ((0, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (1, 3, 4, 5))
    assert [jitgrad.ones(s).is_contiguous(memory_format=jitgrad.channels_last) for s in shapes] == [
        False, True, True, False]
    assert (last.is_contiguous(), x.is_contiguous(memory_format=jitgrad.contiguous_format)) == (False, True)
    assert x.layout is jitgrad.strided
    assert isinstance(x.layout, jitgrad.layout)
    layer = jitgrad.nn.Conv2d(3, 2, 1)
    assert layer.to(memory_format=jitgrad.channels_last) is layer
    assert jitgrad.get_device(x) == -1


def test_other_names() -> None:
    assert jitgrad.GradScaler is jitgrad.amp.GradScaler
    assert jitgrad.default_generator is jitgrad.random.default_generator
    doubled = jitgrad.while_loop(lambda k, x: k < 3, lambda k, x: (k + 1, x * 2), (0, jitgrad.ones(2)))
    assert doubled[1].tolist() == [8, 8]

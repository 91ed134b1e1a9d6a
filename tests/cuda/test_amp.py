"""Mixed precision on a GPU: which operands are cast, regions of both devices, whole training steps."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import config, nn
from tests.amp.expressions import SHAPES, parse, scripted, variables
from tests.codegen.cuda import host
from tests.cuda import standin
from tests.cuda.hosted import StandinDriver, gpu

half = jitgrad.float16

#: products: operands are cast to the region's dtype
LOWER = """
M @ M; t.matmul(M, V); t.matmul(V, V); t.mm(M, M); t.bmm(B, B); t.mv(M, V); t.addmm(M, M, M); t.addmv(V, M, V)
t.addr(M, V, V); t.baddbmm(B, B, B); t.addbmm(M, B, B); t.einsum("ij,jk->ik", M, M); t.einsum("ij,ij->ij", M, M)
t.linalg.multi_dot([M, M]); t.linalg.vecdot(M, M); t.linalg.matrix_power(M, 3); t.cov(M)
F.linear(M, M); F.linear(M, M, V); F.prelu(img, img[0, :, 0, 0]); F.conv1d(seq, seq[:, :, :3])
F.conv2d(img, img[:, :, :3, :3], img[0, 0, 0, :2]); F.conv3d(vol, vol[:, :, :3, :3, :3])
F.conv_transpose1d(seq, seq[0][:, None, :3]); F.conv_transpose2d(img, img[0][:, None, :3, :3])
F.conv_transpose3d(vol, vol[0][:, None, :3, :3, :3]); F.scaled_dot_product_attention(B, B, B)
F.scaled_dot_product_attention(B, B, B, B); half(M) @ M; F.linear(half(M), M, V); t.addmm(half(V), M, half(M))
F.conv2d(half(img), img[:, :, :3, :3])
"""

#: sensitive functions: operands are cast to float32
WIDEN = """
t.acos(M); t.asin(M); t.cosh(M); t.erfinv(M); t.exp(M); t.expm1(M); t.log(M); t.log10(M); t.log2(M); t.log1p(M)
t.reciprocal(M); t.rsqrt(M); t.sinh(M); t.tan(M); M ** 2; 2 ** M; M ** M; M.pow(0.5); t.square(M); 1 / M
F.softplus(M); F.layer_norm(M, (3,)); F.layer_norm(M, (3,), V, V); F.group_norm(img, 2); F.rms_norm(M, (3,), V)
F.cosine_similarity(M, M); t.cdist(M, M + 1); t.dist(M, M + 1); F.pdist(M); t.logsumexp(M, 0); t.norm(M); t.norm(M, p=1)
t.linalg.vector_norm(M); t.linalg.matrix_norm(M); t.linalg.norm(M, 1); t.sum(M); M.sum(0); t.prod(M); t.prod(M, 0)
t.cumsum(M, 0); t.cumprod(M, 0); F.softmax(M, -1); F.log_softmax(M, -1); F.softmin(M, -1); F.normalize(M)
F.interpolate(img, scale_factor=2); F.interpolate(img, scale_factor=2, mode="bilinear"); t.trapezoid(M)
F.mse_loss(M, M + 1); F.l1_loss(M, M + 1); F.smooth_l1_loss(M, M + 1); F.huber_loss(M, M + 1); F.nll_loss(M, i)
F.nll_loss(M, i, V); F.cross_entropy(M, i); F.cross_entropy(M, M); F.cross_entropy(M, i, label_smoothing=0.1)
F.binary_cross_entropy_with_logits(M, M); F.kl_div(M, M); F.poisson_nll_loss(M, M); F.hinge_embedding_loss(M, M)
F.margin_ranking_loss(V, V + 1, V); F.soft_margin_loss(M, M); F.cosine_embedding_loss(M, M + 1, V)
F.triplet_margin_loss(M, M + 1, M - 1); F.multi_margin_loss(M, i); F.multilabel_margin_loss(M, i.expand(3, 3))
F.multilabel_soft_margin_loss(M, M); F.pairwise_distance(M, M + 1); F.lp_pool2d(img, 2, 2)
"""

#: on no list, and those that promote: they take what they are given
NEITHER = """
t.outer(V, V); t.dot(V, V); t.vdot(V, V); t.inner(M, M); t.tensordot(M, M, 1); t.cross(M, M); F.bilinear(M, M, B)
t.sqrt(M); t.sin(M); t.tanh(M); t.sigmoid(M); t.exp2(M); t.logit(M); t.hypot(M, M); t.mean(M); t.var(M); t.std(M)
t.var_mean(M)[1]; t.nansum(M); t.nanmean(M); t.trace(M); t.amax(M); M / 3; 3 - M; F.relu(M); F.silu(M); F.gelu(M)
F.elu(M); F.logsigmoid(M); F.instance_norm(img); F.max_pool2d(img, 2); F.max_pool3d(vol, 2); F.avg_pool2d(img, 2)
F.avg_pool3d(vol, 2); F.pad(seq, (1, 1), mode="reflect"); F.interpolate(img, scale_factor=0.5, mode="area")
F.embedding(i, M); t.cat([M, M]); t.stack([M, M]); t.addcmul(M, M, M); t.addcdiv(M, M, M); t.atan2(M, M)
t.index_put(M, (i,), M); t.scatter_add(M, 0, i[None], M); t.kron(M, M); M.sum(dtype=M.dtype); M.clone().exp_()
F.softmax(M, -1, dtype=M.dtype); M.clone().addmm_(M, M); M.clone().pow_(2)
F.batch_norm(img, img[0, :, 0, 0], img[0, :, 0, 1])
"""

#: operands of two dtypes are brought to the widest
WIDEST = """
t.cat([M, half(M)]); t.stack([half(M), M]); t.addcmul(half(M), M, M); t.addcdiv(M, half(M), M); t.atan2(half(M), M)
t.dot(half(V), V); t.cross(half(M), M); t.tensordot(half(M), M, 1); t.scatter_add(half(M), 0, i[None], M)
t.index_put(half(M), (i,), M); t.index_put(M, (i,), half(M)); F.bilinear(half(M), M, B); half(M) + M
F.cosine_similarity(half(M), M)
"""

LISTS = {"lower": LOWER, "widen": WIDEN, "neither": NEITHER, "widest": WIDEST}


def documented(kind: str, given: str) -> str:
    """The dtype that torch's lists promise for operands of a dtype."""
    if given == "float64" and kind != "widest":
        return given
    return {"lower": "float16", "widen": "float32", "neither": given, "widest": "float32"}[kind]


def on_gpu(d: str) -> dict[str, Any]:
    return {k: v.cuda() if isinstance(v, jitgrad.Tensor) else v for k, v in variables(jitgrad, F, d).items()}


CASES = [(kind, e) for kind, text in LISTS.items() for e in parse(text)]


def mixes(kind: str, expression: str) -> bool:
    return kind == "widest" or "half" in expression


@pytest.mark.parametrize("d", ["float32", "float16", "float64"])
def test_documented_dtypes(cuda: Any, d: str) -> None:
    for kind, e in CASES:
        if mixes(kind, e) and d != "float32":
            continue
        names, there = variables(jitgrad, F, d), on_gpu(d)
        with jitgrad.autocast("cuda"):
            found = eval(e, there)
            try:
                untouched = eval(e, names) if not mixes(kind, e) else None  # tensors on the CPU
            except NotImplementedError:
                untouched = None
        assert found.dtype.name == documented(kind, d), e
        if untouched is not None:  # else there is no such kernel on the CPU
            plain = eval(e, names)
            assert untouched.dtype is plain.dtype, e
            np.testing.assert_array_equal(untouched.double().numpy(), plain.double().numpy(), err_msg=e)
            np.testing.assert_allclose(found.cpu().double().numpy(), plain.double().numpy(), 1e-2, 1e-2, err_msg=e)


@pytest.mark.parametrize("d", ["float32", "float16"])
def test_torch_says_the_same(cuda: Any, d: str) -> None:
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    if not torch.cuda.is_available():  # tensors without content say what torch does without a GPU
        checked = 0
        before = torch.get_autocast_dtype("cuda")
        for kind, e in CASES:
            if mixes(kind, e) and d != "float32":
                continue
            with fake.FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = {k: torch.full(s, 0.5, device="cuda", dtype=getattr(torch, d)) for k, s in SHAPES.items()}
                names.update(t=torch, F=torch.nn.functional, i=torch.arange(3, device="cuda"), half=lambda x: x.half())
                torch.set_autocast_dtype("cuda", torch.float16)
                torch.set_autocast_enabled("cuda", True)
                try:
                    found = eval(e, names)
                except (RuntimeError, NotImplementedError):
                    continue  # where even a tensor without content asks for a GPU
                finally:
                    torch.set_autocast_enabled("cuda", False)
                    torch.set_autocast_dtype("cuda", before)
            assert str(found.dtype) == f"torch.{documented(kind, d)}", e
            checked += 1
        assert checked > 100


@contextlib.contextmanager
def driver(interpret: bool) -> Iterator[Any]:
    with gpu() if not interpret else standin.installed() as found, config.override(interpret=interpret):
        yield found


@pytest.mark.parametrize("d", ["float32", "float16"])
def test_scripts_cast_the_same_operands(d: str) -> None:
    with driver(True):
        given = on_gpu(d)
        for kind, e in CASES:
            if mixes(kind, e) and d != "float32":
                continue
            names, f = scripted(e, "'cuda'")
            found = jitgrad.script(f)(*[given[n] for n in names])
            assert found.dtype.name == documented(kind, d), e
            assert found.device.type == "cuda", e


# --- regions -------------------------------------------------------------------------------------------------------

native = pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=host.emulated)])


def nested(x, w, y, v):
    a = x @ w, y @ v
    with jitgrad.autocast("cuda"):
        b = x @ w, y @ v
        with jitgrad.autocast("cpu"):
            c = x @ w, y @ v
            with jitgrad.autocast("cuda", enabled=False):
                d = x @ w, y @ v
            with jitgrad.autocast("cuda", dtype=jitgrad.bfloat16):
                e = x @ w, y @ v
        f = x @ w, y @ v
    return a, b, c, d, e, f, (x @ w, y @ v)


NESTED = [("float32", "float32"), ("float16", "float32"), ("float16", "bfloat16"), ("float32", "bfloat16"),
          ("bfloat16", "bfloat16"), ("float16", "float32"), ("float32", "float32")]


def dtypes_of(pairs: Any) -> list[tuple[str, ...]]:
    return [tuple(x.dtype.name for x in pair) for pair in pairs]


@native
def test_regions_of_two_devices(interpret: bool) -> None:
    with driver(interpret):
        y = jitgrad.rand(3, 3)
        x = y.cuda()
        assert dtypes_of(nested(x, x, y, y)) == NESTED
        # a script has one device: of its own regions, the other's do nothing
        f = jitgrad.script(lambda x, w: nested(x, w, x, w))
        assert [d for d, _ in dtypes_of(f(x, x))] == [d for d, _ in NESTED]
        assert [d for d, _ in dtypes_of(f(y, y))] == [d for _, d in NESTED]


@native
def test_both_dtypes_are_part_of_the_key(interpret: bool) -> None:
    def product(x, w):
        return x @ w, jitgrad.is_autocast_enabled("cuda"), jitgrad.is_autocast_enabled("cpu")

    with driver(interpret):
        x, f = jitgrad.rand(3, 3).cuda(), jitgrad.script(product)
        for _ in range(2):
            assert (f(x, x)[0].dtype, *f(x, x)[1:]) == (jitgrad.float32, False, False)
            for d in (half, jitgrad.bfloat16):
                with jitgrad.autocast("cuda", dtype=d):
                    assert (f(x, x)[0].dtype, *f(x, x)[1:]) == (d, True, False)
            with jitgrad.autocast("cpu"):
                assert (f(x, x)[0].dtype, *f(x, x)[1:]) == (jitgrad.float32, False, True)
            with jitgrad.autocast("cpu"), jitgrad.autocast("cuda"):
                assert (f(x, x)[0].dtype, *f(x, x)[1:]) == (half, True, True)
        assert f.cache_info().compilations == 5
        assert f.recompilations[0] == "autocast was off, is on with float16 (cuda)"
        assert f.recompilations[-1] == ("autocast was on with bfloat16 (cpu), "
                                        "is on with bfloat16 (cpu) and float16 (cuda)")


def test_saved_programs_ask_for_both_dtypes(cuda: Any, tmp_path: Any) -> None:
    f, x = jitgrad.script(lambda x, w: x @ w), jitgrad.rand(3, 3)
    with jitgrad.autocast("cuda"), jitgrad.autocast("cpu"):
        f(x, x)
        f.save(tmp_path / "f.zip")
        loaded = jitgrad.jit.load(tmp_path / "f.zip")
        assert loaded(x, x).dtype is jitgrad.bfloat16
    with jitgrad.autocast("cuda"), pytest.raises(Exception, match=r"and float16 \(cuda\), is on with float16 \(c"):
        loaded(x, x)


@native
def test_ignored_functions_run_in_the_region(interpret: bool) -> None:
    @jitgrad.ignore
    def outside(x: jitgrad.Tensor) -> None:
        seen.append((x @ x).dtype)

    @jitgrad.script
    def f(x):
        outside(x)
        with jitgrad.autocast("cuda", dtype=jitgrad.bfloat16):
            outside(x)
        return x + 1

    seen: list[Any] = []
    with driver(interpret):
        x = jitgrad.ones(2, 2).cuda()
        f(x)
        with jitgrad.autocast("cuda"):
            f(x)
    assert seen == [jitgrad.float32, jitgrad.bfloat16, half, jitgrad.bfloat16]


def test_checkpoints_run_again_in_the_region(cuda: Any) -> None:
    x = jitgrad.ones(2, 2, device="cuda", requires_grad=True)
    seen = []

    def inner(v):
        y = v @ v
        seen.append(y.dtype)
        return y

    with jitgrad.autocast("cuda"):
        y = jitgrad.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)
    y.float().sum().backward()
    assert seen == [half, half]


def test_questions(cuda: Any) -> None:
    assert jitgrad.get_autocast_dtype("cuda") is half
    with jitgrad.autocast("cuda", dtype=jitgrad.bfloat16) as region:
        assert jitgrad.is_autocast_enabled()
        assert jitgrad.is_autocast_enabled("cuda")
        assert not jitgrad.is_autocast_enabled("cpu")
        assert jitgrad.get_autocast_dtype("cuda") is jitgrad.bfloat16
        assert jitgrad.get_autocast_dtype("cpu") is jitgrad.bfloat16
    assert not jitgrad.is_autocast_enabled()
    assert jitgrad.get_autocast_dtype("cuda") is half
    with pickle.loads(pickle.dumps(region)):
        assert jitgrad.get_autocast_dtype("cuda") is jitgrad.bfloat16
    with pytest.warns(UserWarning, match="In CUDA autocast, but the target dtype is not supported"):
        assert not jitgrad.autocast("cuda", dtype=jitgrad.float64)._enabled
    before = jitgrad.ops.autocast.state()
    try:
        jitgrad.set_autocast_dtype("cuda", jitgrad.bfloat16)
        jitgrad.set_autocast_enabled("cuda", True)
        x = jitgrad.ones(2, 2)
        assert ((x.cuda() @ x.cuda()).dtype, (x @ x).dtype) == (jitgrad.bfloat16, jitgrad.float32)
    finally:
        jitgrad.ops.autocast.restore(before)


def test_older_names(cuda: Any) -> None:
    x = jitgrad.ones(2, 2).cuda()
    with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"):
        region = jitgrad.cuda.amp.autocast()
    with region:
        assert (x @ x).dtype is half
    with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"):
        scaler = jitgrad.cuda.amp.GradScaler()
    assert scaler.is_enabled()
    assert scaler.scale(x.sum()).item() == 4 * 65536.0


def test_binary_cross_entropy_is_refused(cuda: Any) -> None:
    x = jitgrad.full((3,), 0.5)
    with jitgrad.autocast("cuda"):
        assert F.binary_cross_entropy(x, x).dtype is jitgrad.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x.cuda(), x.cuda())
    assert F.binary_cross_entropy(x.cuda(), x.cuda()).dtype is jitgrad.float32


class Product(jitgrad.autograd.Function):
    @staticmethod
    @jitgrad.amp.custom_fwd(device_type="cuda")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @jitgrad.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g


class Exact(jitgrad.autograd.Function):
    @staticmethod
    @jitgrad.amp.custom_fwd(device_type="cuda", cast_inputs=jitgrad.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @jitgrad.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g


@native
@pytest.mark.parametrize(("function", "d"), [(Product, "float16"), (Exact, "float32")])
def test_custom_functions(function: Any, d: str, interpret: bool) -> None:
    def f(x, w):
        with jitgrad.autocast("cuda"):
            return function.apply(x, w)

    with driver(interpret):
        found = []
        for g in (f, jitgrad.script(f)):
            x, w = (jitgrad.tensor(np.random.default_rng(k).random((3, 3)), dtype=jitgrad.float32, device="cuda",
                                   requires_grad=True) for k in range(2))
            y = g(x, w)
            assert y.dtype.name == d
            y.float().sum().backward()
            assert x.grad.dtype is jitgrad.float32
            found.append([v.detach().cpu().float().numpy() for v in (y, x.grad, w.grad)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, 3e-3, 3e-3)


@pytest.mark.parametrize("make", [nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_recurrent_states_are_of_the_region(cuda: Any, make: Any) -> None:
    net = make(4, 3).cuda()
    x = jitgrad.rand(2, 4, device="cuda") if "Cell" in make.__name__ else jitgrad.rand(5, 2, 4, device="cuda")
    with jitgrad.autocast("cuda"):
        found: list[Any] = [net(x)]
    while found:
        part = found.pop()
        if isinstance(part, tuple):
            found += part
        else:
            assert part.dtype is half


# --- training ------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A transformer's block and a projection to classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.layer(x).mean(1))


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


MODELS = {"mlp": (mlp, (6, 8)), "block": (Block, (4, 5, 8))}
#: factors of the loss with a scaler: the third makes gradients overflow
FACTORS = [1.0, 1.0, 1e38, 1.0]


def train_step(model, optimizer, scaler, x, y, factor: float, dtype):
    optimizer.zero_grad()
    with jitgrad.autocast("cuda", dtype=dtype, enabled=dtype is not None):
        logits = model(x)
        loss = F.cross_entropy(logits, y)
    scaler.scale(loss * factor).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach(), logits.detach()


def trained(step: Any, name: str, dtype: Any, scaled: bool) -> tuple[list[float], list[float], list[Any]]:
    """Losses, the scaler's factors and the weights, of four steps."""
    make, shape = MODELS[name]
    jitgrad.manual_seed(0)
    model = make().cuda()
    rng = np.random.default_rng(1)
    x = jitgrad.tensor(rng.normal(size=shape), dtype=jitgrad.float32, device="cuda")
    y = jitgrad.tensor(rng.integers(0, 3, shape[0]), device="cuda")
    optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = jitgrad.amp.GradScaler("cuda", init_scale=256.0, growth_interval=2, enabled=scaled)
    losses, scales = [], []
    for factor in FACTORS if scaled else [1.0] * 4:
        loss, logits = step(model, optimizer, scaler, x, y, factor, dtype)
        assert logits.dtype is (dtype or jitgrad.float32)
        assert loss.dtype is jitgrad.float32
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    for p in model.parameters():
        assert p.dtype is p.grad.dtype is jitgrad.float32
    return losses, scales, [p.detach().cpu().numpy() for p in model.parameters()]


@pytest.fixture
def device() -> Iterator[StandinDriver]:
    with gpu() as found:
        yield found


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("dtype", [half, jitgrad.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, dtype: Any, scaled: bool, device: StandinDriver) -> None:
    plain = trained(train_step, name, None, scaled)
    f = jitgrad.script(train_step)
    for step in (train_step, f):
        losses, scales, weights = trained(step, name, dtype, scaled)
        assert scales == plain[1] == ([256.0, 512.0, 256.0, 256.0] if scaled else [1.0] * 4)
        np.testing.assert_allclose(losses, plain[0], 2e-2)
        for a, b in zip(weights, plain[2], strict=True):
            np.testing.assert_allclose(a, b, 2e-2, 2e-2)
    assert f.cache_info().compilations <= 2  # the optimizer's state is made by the first step
    if scaled:
        assert losses[3] == pytest.approx(losses[2], rel=1e-2)  # the step between was skipped


@host.needs_compiler
@pytest.mark.parametrize("dtype", [half, jitgrad.bfloat16], ids=str)
def test_no_copy_is_a_transpose(dtype: Any, device: StandinDriver) -> None:
    """The gradient of a linear layer's weight is a product and a cast; the weight is cast as it lies."""
    layer, x = nn.Linear(8, 16, device="cuda"), (jitgrad.arange(32, device="cuda") % 5 - 2.0).reshape(4, 8)
    with jitgrad.no_grad():
        layer.weight.copy_((jitgrad.arange(128, device="cuda") % 7 - 3.0).reshape(16, 8) / 4)
        layer.bias.fill_(0.5)

    def step(x: Any) -> Any:
        layer.zero_grad()
        with jitgrad.autocast("cuda", dtype):
            loss = layer(x).square().sum()
        loss.backward()
        return loss

    wanted, compiled = step(x).item(), jitgrad.script(step)
    gradients = [p.grad.cpu().numpy() for p in layer.parameters()]
    assert compiled(x).item() == wanted
    for p, gradient in zip(layer.parameters(), gradients, strict=True):
        np.testing.assert_array_equal(p.grad.cpu().numpy(), gradient)
    compiled(x)
    moved = compiled.traffic(x)
    assert moved.launches == 8
    assert "jg_pw_copy" not in str(moved)


def test_a_step_waits_for_what_it_found_alone(cuda: Any) -> None:
    model = mlp().cuda()
    x, y = jitgrad.rand(6, 8, device="cuda"), jitgrad.tensor([0, 1, 2, 0, 1, 2], device="cuda")
    optimizer = jitgrad.optim.Adam(model.parameters(), lr=0.01)
    scaler = jitgrad.amp.GradScaler("cuda", init_scale=256.0)
    train_step(model, optimizer, scaler, x, y, 1.0, half)
    standin.waits.clear()
    train_step(model, optimizer, scaler, x, y, 1.0, half)
    assert standin.waits == {"get": 2}  # one of them: where one waits, whether the targets were in range


def test_a_given_scale_and_state(cuda: Any) -> None:
    p = jitgrad.ones(2, device="cuda", requires_grad=True)
    scaler = jitgrad.amp.GradScaler("cuda", init_scale=8.0)
    assert scaler.scale(p.sum()).item() == 16.0
    scaler.update(jitgrad.tensor(4.0, device="cuda"))
    assert scaler.scale([p.sum()])[0].item() == 8.0
    with pytest.raises(AssertionError, match="new_scale should be"):
        scaler.update(jitgrad.tensor(4.0))
    other = pickle.loads(pickle.dumps(scaler))
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0
    assert other._scale.device.type == "cuda"

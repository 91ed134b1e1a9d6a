"""`autocast` in eager and in scripts: whose operands are cast, and when."""

from __future__ import annotations

import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import config, nn
from jitgrad.errors import NotStatic, UnsupportedCall
from tests.amp.expressions import ALL, scripted, variables

half = jitgrad.float16


def outcome(t: Any, expression: str, names: dict[str, Any]) -> Any:
    with t.autocast("cpu", dtype=t.float16), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, names)


@pytest.mark.parametrize("d", ["float32", "float16", "float64"])
def test_torch_casts_the_same_operands(d):
    torch = pytest.importorskip("torch")
    checked = 0
    for expression in ALL:
        try:
            expected = outcome(torch, expression, variables(torch, torch.nn.functional, d))
        except (RuntimeError, NotImplementedError):
            continue  # half precision is missing there, or the dtypes differ
        found = outcome(jitgrad, expression, variables(jitgrad, F, d))
        assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1], expression
        tolerance = 1e-10 if expected.dtype is torch.float64 else 2e-3
        np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), tolerance, tolerance,
                                   err_msg=expression)
        checked += 1
    assert checked > 100


#: dtypes of operands of functions that promote, in order
MIXED = ["hb", "bh", "hh", "bb", "fh", "hf", "fb", "bf", "dh", "hd", "fd", "ih", "ib", "dfh", "fhb", "dhf", "f", "id"]


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("call", ["t.cat(xs)", "t.stack(xs)", "t.hstack(xs)",
                                  "t.index_copy(xs[0], 0, t.tensor([1, 0]), xs[-1])"])
def test_both_half_types_do_not_mix(low, call):
    """Where torch is installed, as it does; its rule depends on the operands' order."""
    words = {"h": "float16", "b": "bfloat16", "f": "float32", "d": "float64", "i": "int64"}

    def result(t, kinds):
        xs = [t.ones(2, dtype=getattr(t, words[k])) for k in kinds]
        with t.autocast("cpu", dtype=getattr(t, low)):
            try:
                return str(eval(call, {"t": t, "xs": xs}).dtype).split(".")[1]
            except RuntimeError as error:
                return str(error)[:57]

    assert result(jitgrad, "hb" if low == "bfloat16" else "bh").startswith("Unexpected floating ScalarType")
    assert result(jitgrad, "fhb") == "float32"
    torch = pytest.importorskip("torch")
    for kinds in MIXED:
        expected = result(torch, kinds)
        if not expected.startswith("index_copy"):  # which takes one dtype only: our words are checked elsewhere
            assert result(jitgrad, kinds) == expected, kinds


@pytest.mark.parametrize("interpret", [True, False])
def test_scripts_cast_the_same_operands(interpret):
    given = variables(jitgrad, F, "float32")
    # in scripts the native ones are a sample: each is a compilation
    for expression in ALL if interpret else ALL[::7]:
        names, f = scripted(expression, "'cpu', dtype=t.float16")
        expected = outcome(jitgrad, expression, dict(given))
        with config.override(interpret=interpret):
            found = jitgrad.script(f)(*[given[n] for n in names])
        assert found.dtype is expected.dtype, expression
        np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), 2e-3, 2e-3, err_msg=expression)


# --- programs ------------------------------------------------------------------------------------------------------


def nested(x, w):
    a = x @ w
    with jitgrad.autocast("cpu", dtype=half):
        b = x @ w
        with jitgrad.autocast("cpu", enabled=False):
            c = x @ w
            with jitgrad.autocast("cpu", dtype=half):
                d = x @ w
        e = x @ w
    return a, b, c, d, e, x @ w


def in_a_branch(x, w, low: bool):
    if low:
        with jitgrad.autocast("cpu", dtype=half):
            y = (x @ w).float()
    else:
        y = x @ w
    return y @ w


def by_argument(x, w, low: bool):
    with jitgrad.autocast("cpu", dtype=half, enabled=low):
        y = x @ w
    return y.float().sum(), y


def left_early(x, w, n: int):
    for k in range(n):
        with jitgrad.autocast("cpu", dtype=half):
            y = (x @ w).float()
            if y.sum() > 0 and k > 0:
                break
            x = y
    return x @ w, k


def returned(x, w):
    with jitgrad.autocast("cpu", dtype=half):
        if x.sum() > 0:
            return (x @ w).float()
        y = x @ w
    return y.float() + x @ w


def caught(x, w):
    try:
        with jitgrad.autocast("cpu", dtype=half):
            raise ValueError("no")
    except ValueError:
        y = x @ w
    return y


@jitgrad.autocast("cpu", dtype=half)
def decorated(x, w):
    return x @ w


def calls(*args):
    a = decorated(*args)
    with jitgrad.autocast("cpu", dtype=half):
        b = plain(*args)
        inner = jitgrad.autocast("cpu", enabled=False)(plain)
        c = inner(*args)
    return a, b, c, plain(*args)


def plain(x, w):
    return x @ w


region = jitgrad.autocast("cpu", dtype=half)


def by_object(x, w):
    with region as r:
        y = x @ w
    with region:
        return y, x @ w, jitgrad.is_autocast_enabled("cpu"), jitgrad.get_autocast_dtype("cpu"), r.device


def mixed(x, w):
    """The loss is in float32 whatever the product is."""
    with jitgrad.autocast("cpu", dtype=half):
        h = F.linear(x, w.t())
        return F.mse_loss(jitgrad.relu(h), x[:, :1].expand(3, 5)), h


PROGRAMS = [(nested, ()), (in_a_branch, (True,)), (in_a_branch, (False,)), (by_argument, (True,)),
            (by_argument, (False,)), (left_early, (3,)), (returned, ()), (caught, ()), (calls, ()), (by_object, ()),
            (mixed, ())]


def run(f: Any, extra: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(1)
    x = jitgrad.tensor(rng.normal(size=(3, 5)).tolist(), requires_grad=True)
    w = jitgrad.tensor(rng.normal(size=(5, 5)).tolist(), requires_grad=True)
    result = f(x, w, *extra)
    leaves = list(result) if isinstance(result, tuple) else [result]
    total = sum([y.float().sum() * (k + 1) for k, y in enumerate(leaves) if isinstance(y, jitgrad.Tensor)])
    total.backward()
    assert x.grad.dtype is w.grad.dtype is jitgrad.float32
    assert not jitgrad.is_autocast_enabled("cpu")
    return leaves, [x.grad, w.grad]


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize(("f", "extra"), PROGRAMS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_programs_give_what_eager_gives(f, extra, interpret):
    leaves, gradients = run(f, extra)
    with config.override(interpret=interpret):
        found, slopes = run(jitgrad.script(f), extra)
    for a, b in zip([*leaves, *gradients], [*found, *slopes], strict=True):
        if isinstance(a, jitgrad.Tensor):
            assert a.dtype is b.dtype
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), 3e-3, 3e-3)
        else:
            assert a == b


def test_nesting_and_exits_in_eager():
    assert [y.dtype.name for y in nested(jitgrad.ones(2, 2), jitgrad.ones(2, 2))] == [
        "float32", "float16", "float32", "float16", "float16", "float32"]
    with pytest.raises(ValueError, match="left"), jitgrad.autocast("cpu", dtype=half):
        raise ValueError("left")
    assert not jitgrad.is_autocast_enabled("cpu")
    with region, region:
        assert jitgrad.is_autocast_enabled("cpu")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(jitgrad.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        assert seen == [False]
    assert not jitgrad.is_autocast_enabled("cpu")


def test_float64_and_integers_are_left_alone():
    with region:
        x = jitgrad.ones(2, 2, dtype=jitgrad.float64)
        assert (x @ x).dtype is jitgrad.float64
        assert F.mse_loss(x, x).dtype is jitgrad.float64
        i = jitgrad.ones(2, 2, dtype=jitgrad.int64)
        assert (i @ i).dtype is jitgrad.int64
        with pytest.raises(RuntimeError, match="same dtype"):
            x @ x.float()


def test_second_order_through_a_region():
    def f(x):
        with jitgrad.autocast("cpu", dtype=half):
            return (x @ x).float().sum()

    for g in (f, jitgrad.script(f)):
        x = jitgrad.eye(2).requires_grad_()
        (slope,) = jitgrad.autograd.grad(g(x), x, create_graph=True)
        (second,) = jitgrad.autograd.grad((slope * slope).sum(), x)
        assert slope.dtype is second.dtype is jitgrad.float32
        y = jitgrad.eye(2).requires_grad_()
        (exact,) = jitgrad.autograd.grad((y @ y).sum(), y, create_graph=True)
        assert second.tolist() == jitgrad.autograd.grad((exact * exact).sum(), y)[0].tolist()


# --- what is compiled ----------------------------------------------------------------------------------------------


def test_two_specialisations_serve_toggling():
    f = jitgrad.script(plain)
    x = jitgrad.ones(2, 2)
    for n in (2, 3, 2):
        assert f(x[:, :n], x).dtype is jitgrad.float32
        with region:
            assert f(x[:, :n], x).dtype is half
            with jitgrad.autocast("cpu", enabled=False), jitgrad.autocast("cuda", enabled=False):
                assert f(x, x).dtype is jitgrad.float32
    assert f.cache_info().compilations == 2
    assert f.recompilations == ["autocast was off, is on with float16 (cpu)"]
    with region:
        assert "autocast is on with float16" in str(f.explain(x, x))


def test_a_bool_argument_is_assumed():
    f = jitgrad.script(by_argument)
    x = jitgrad.ones(2, 2)
    assert [f(x, x, low)[1].dtype.name for low in (True, False, True, False)] == [
        "float16", "float32", "float16", "float32"]
    assert f.cache_info().compilations == 2


def test_what_only_the_run_knows_is_refused():
    @jitgrad.script
    def f(x):
        with jitgrad.autocast("cpu", dtype=half, enabled=bool(x.sum() > 0)):
            return x @ x

    with pytest.raises(NotStatic, match="an argument of `autocast` must be known"):
        f(jitgrad.ones(2, 2))


@pytest.mark.parametrize("name", ["set_autocast_enabled", "set_autocast_dtype", "get_autocast_dtype"])
def test_the_mode_is_not_set_inside_scripts(name):
    def f(x):
        getattr(jitgrad, name)("cpu", *([] if name.startswith("get") else [half]))
        return x

    with pytest.raises(UnsupportedCall):
        jitgrad.script(f)(jitgrad.ones(1))
    assert not jitgrad.is_autocast_enabled("cpu")


def test_ignored_functions_run_in_the_region():
    @jitgrad.ignore(returns=lambda x: x)
    def outside(x):
        seen.append((jitgrad.is_autocast_enabled("cpu"), (x @ x).dtype.name))
        return x

    @jitgrad.script
    def f(x):
        x = outside(x)
        with jitgrad.autocast("cpu", dtype=jitgrad.float16):
            return outside(x)

    seen: list[Any] = []
    f(jitgrad.ones(2, 2))
    with region:
        f(jitgrad.ones(2, 2))
    assert seen == [(False, "float32"), (True, "float16"), (True, "float16"), (True, "float16")]


def test_saved_programs_ask_for_the_mode(tmp_path):
    f = jitgrad.script(plain)
    x = jitgrad.ones(2, 2)
    with region:
        f(x, x)
        f.save(tmp_path / "f.zip")
        loaded = jitgrad.jit.load(tmp_path / "f.zip")
        assert loaded(x, x).dtype is half
    with pytest.raises(Exception, match=r"autocast was on with float16 \(cpu\), is off"):
        loaded(x, x)


def test_checkpointed_stretches_run_again_in_their_region():
    w = jitgrad.ones(2, 2, requires_grad=True)
    seen = []

    def stretch(x):
        y = x @ w
        seen.append(y.dtype.name)
        return y.float()

    with region:
        y = jitgrad.utils.checkpoint.checkpoint(stretch, jitgrad.ones(2, 2))
    y.sum().backward()
    assert seen == ["float16", "float16"]
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


# --- models --------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(jitgrad.relu(self.bn(self.conv(x))).mean((2, 3)))


def test_a_model_under_autocast():
    torch = pytest.importorskip("torch")
    jitgrad.manual_seed(0)
    model = Net()
    reference = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 3))
    reference.load_state_dict({f"{['conv', 'bn', 'fc'].index(k.split('.')[0])}.{k.split('.')[1]}":
                               torch.tensor(v.numpy()) for k, v in model.state_dict().items()})
    image = np.random.default_rng(0).normal(size=(2, 1, 6, 6)).astype("f4")
    with torch.autocast("cpu", dtype=torch.float16):
        expected = torch.relu(reference[1](reference[0](torch.tensor(image)))).mean((2, 3))
        assert expected.dtype is torch.float16
        expected = reference[2](expected)
        torch_loss = torch.nn.functional.cross_entropy(expected, torch.tensor([0, 2]))
    torch_loss.backward()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for run_model in (model, jitgrad.script(model)):
        model.load_state_dict(state)
        model.zero_grad()
        with jitgrad.autocast("cpu", dtype=half):
            y = run_model(jitgrad.tensor(image))
            loss = F.cross_entropy(y, jitgrad.tensor([0, 2]))
        loss.backward()
        assert (y.dtype, loss.dtype) == (half, jitgrad.float32)
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), 5e-3, 5e-3)
        for a, b in zip(model.parameters(), reference.parameters(), strict=True):
            assert a.grad.dtype is jitgrad.float32
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 2e-2, 5e-3)


@pytest.mark.parametrize("make", [lambda: nn.MultiheadAttention(4, 2), lambda: nn.RNN(4, 4), lambda: nn.GRU(4, 4),
                                  lambda: nn.LSTM(4, 4, proj_size=2),
                                  lambda: nn.LSTM(4, 4), lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0)])
def test_layers_run_and_train_in_scripts(make):
    jitgrad.manual_seed(0)
    layer = make()
    x = jitgrad.randn(3, 2, 4)

    def step(run_layer):
        layer.zero_grad()
        with jitgrad.autocast("cpu", dtype=half):
            y = run_layer(x, x, x)[0] if isinstance(layer, nn.MultiheadAttention) else run_layer(x)
            y = y[0] if isinstance(y, tuple) else y
        (y.float() ** 2).sum().backward()
        return [y.detach(), *[p.grad for p in layer.parameters()]]

    for a, b in zip(step(layer), step(jitgrad.script(layer)), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(b.numpy(), a.numpy(), 2e-2, 1e-2)


# --- autograd.Function ---------------------------------------------------------------------------------------------


class Product(jitgrad.autograd.Function):
    @staticmethod
    @jitgrad.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @jitgrad.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return (g @ b.t()).float(), (a.t() @ g).float()


class Exact(jitgrad.autograd.Function):
    @staticmethod
    @jitgrad.amp.custom_fwd(device_type="cpu", cast_inputs=jitgrad.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @jitgrad.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g


@pytest.mark.parametrize(("function", "d"), [(Product, "float16"), (Exact, "float32")])
def test_custom_functions(function, d):
    def f(x, w):
        with jitgrad.autocast("cpu", dtype=jitgrad.float16):
            return function.apply(x, w)

    results = [run(g, ()) for g in (f, jitgrad.script(f))]
    assert [leaves[0].dtype.name for leaves, _ in results] == [d, d]
    for a, b in zip(*[[*leaves, *slopes] for leaves, slopes in results], strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), 3e-3, 3e-3)


# --- arguments -----------------------------------------------------------------------------------------------------


def test_arguments():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'tpu'"):
        jitgrad.autocast("tpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        jitgrad.autocast(half)
    assert jitgrad.autocast("cpu").fast_dtype is jitgrad.get_autocast_dtype("cpu") is jitgrad.bfloat16
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling"):
        off = jitgrad.autocast("cpu", dtype=jitgrad.float64)
    with off:
        assert not jitgrad.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        off = jitgrad.autocast("cuda")
    with off:
        assert not jitgrad.is_autocast_enabled()
        assert not jitgrad.is_autocast_enabled("cuda")
    assert jitgrad.get_autocast_dtype("cuda") is half
    with pytest.raises(TypeError, match="requires a callable"):
        region(3)


def test_older_names():
    with pytest.warns(FutureWarning, match="torch.cpu.amp.autocast"):
        old = jitgrad.cpu.amp.autocast(dtype=half)
    with old:
        assert jitgrad.is_autocast_enabled("cpu")
    with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"), pytest.warns(UserWarning, match="CUDA"):
        jitgrad.cuda.amp.autocast()
    assert jitgrad.amp.autocast is jitgrad.autocast


def test_setting_the_mode():
    before = jitgrad.ops.autocast.state()
    try:
        jitgrad.set_autocast_dtype("cpu", half)
        jitgrad.set_autocast_enabled("cpu", True)
        assert (jitgrad.ones(2, 2) @ jitgrad.ones(2, 2)).dtype is half
        jitgrad.set_autocast_enabled("cpu", False)
        assert (jitgrad.ones(2, 2) @ jitgrad.ones(2, 2)).dtype is jitgrad.float32
        jitgrad.set_autocast_cache_enabled(False)
        assert not jitgrad.is_autocast_cache_enabled()
        jitgrad.clear_autocast_cache()
    finally:
        jitgrad.ops.autocast.restore(before)


def test_pickled_regions():
    with pickle.loads(pickle.dumps(region)):
        assert jitgrad.get_autocast_dtype("cpu") is half
        assert jitgrad.is_autocast_enabled("cpu")

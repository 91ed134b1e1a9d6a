"""What follows products becomes part of them: where it does and where not, and the values, on the host driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import config, dtypes, nn, optim
from jitgrad.codegen.cuda.driver import blaslt
from jitgrad.codegen.cuda.host import gpu
from jitgrad.codegen.lower import block
from jitgrad.codegen.lower.device.epilogues import Epilogues
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import GemmStep, KernelStep
from jitgrad.ops.opdef import OPS
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import host, hostgraphs
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.lower.test_products import steps_of
from tests.codegen.programs import assert_same, duplicate, graph, sizes, tensor
from tests.cuda import hosted

pytestmark = host.emulated
M, N, K, L, B = sizes("M N K L B")
X, W, BIAS, G, V, U = tensor(M, K), tensor(K, N), tensor(N), tensor(M, L), tensor(L, N), tensor(N, L)
LAYER = (X, W, BIAS, G, V)
SIZES = (1, 7, 8, 64, 127, 128, 129)


def relu(F, x):
    return F.maximum(x, 0.0)


def linear(F, x, w, b):
    return F.add(F.matmul(x, w), b)


def transposed(F, x):
    return F.permute(x, axes=(1, 0))


def total(F, x, axes=(0,)):
    return F.sum(x, axes=axes, keepdim=False)


def slope(F, h, g):
    """The gradient of ReLU."""
    return F.where(F.le(h, 0.0), 0.0, g)


def mlp(F, x, w, b, g, v):
    """A layer, and its gradients from those of the product of its result and v."""
    h = relu(F, linear(F, x, w, b))
    before = slope(F, h, F.matmul(g, v))
    return (h, F.matmul(transposed(F, x), before), total(F, before), F.matmul(transposed(F, g), h),
            total(F, g))


def gelu_mlp(F, x, w, b, g, v):
    """The same with GELU."""
    z = linear(F, x, w, b)
    h = gelu(F, z)
    before = gelu_slope(F, z, F.matmul(g, v))
    return (h, F.matmul(transposed(F, x), before), total(F, before), F.matmul(transposed(F, g), h))


def gelu(F, z):
    half = z.dtype.is_half
    h = OPS["gelu_tanh"].compose(F, F.cast(z, dtype=dtypes.float32) if half else z)
    return F.cast(h, dtype=z.dtype) if half else h


def gelu_slope(F, z, g):
    if not z.dtype.is_half:
        return OPS["gelu_tanh"].vjp(F, g, None, z)[0]
    wide = [F.cast(t, dtype=dtypes.float32) for t in (g, z)]
    return F.cast(OPS["gelu_tanh"].vjp(F, wide[0], None, wide[1])[0], dtype=z.dtype)


def products(g: Any) -> list[str]:
    """What the products of a program compute, and its kernels."""
    steps = steps_of(lower("f", pipeline.run(g), device=True))
    return sorted([s.epilogue or "product" for s in steps if isinstance(s, GemmStep)]
                  + ["kernel" for s in steps if isinstance(s, KernelStep)])


#: body, inputs, what becomes of it
PATTERNS: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "bias": (linear, (X, W, BIAS), ["bias"]),
    "bias first": (lambda F, x, w, b: F.add(b, F.matmul(x, w)), (X, W, BIAS), ["bias"]),
    "bias as a row": (lambda F, x, w, b: linear(F, x, w, F.reshape(b, shape=(1, N))), (X, W, BIAS), ["bias"]),
    "relu": (lambda F, x, w: relu(F, F.matmul(x, w)), (X, W), ["relu"]),
    "relu of a bias": (lambda F, x, w, b: relu(F, linear(F, x, w, b)), (X, W, BIAS), ["relu_bias"]),
    "weights transposed": (lambda F, x, w, b: relu(F, linear(F, x, transposed(F, w), b)), (X, tensor(N, K), BIAS),
                           ["relu_bias"]),
    "images": (lambda F, x, w, b: relu(F, linear(F, x, w, b)), (tensor(B, M, K), W, BIAS), ["relu_bias"]),
    "products of images": (lambda F, x, w, b: relu(F, linear(F, x, w, b)), (tensor(B, M, K), tensor(B, K, N), BIAS),
                           ["relu_bias"]),
    "a layer and its gradients": (mlp, (X, W, BIAS, G, V), ["bgradb", "drelu_bgrad", "product", "relu_aux_bias"]),
    "of two gradients": (
        lambda F, x, w, b, g, v: (lambda h: (slope(F, h, F.matmul(g, v)), slope(F, h, F.matmul(F.neg(g), v))))(
            relu(F, linear(F, x, w, b))), (X, W, BIAS, G, V), ["drelu", "drelu", "kernel", "relu_aux_bias"]),
    "gelu": (lambda F, x, w: gelu(F, F.matmul(x, w)), (X, W), ["gelu"]),
    "gelu of a bias": (lambda F, x, w, b: gelu(F, linear(F, x, w, b)), (X, W, BIAS), ["gelu_bias"]),
    "gelu and its argument": (lambda F, x, w, b: (lambda z: (z, gelu(F, z)))(linear(F, x, w, b)), (X, W, BIAS),
                              ["gelu_aux_bias"]),
    "gelu of images": (lambda F, x, w, b: (lambda z: (z, gelu(F, z)))(linear(F, x, w, b)), (tensor(B, M, K), W, BIAS),
                       ["gelu_aux_bias"]),
    "gelu of products of images": (
        lambda F, x, w, b: (lambda z: (z, gelu(F, z)))(linear(F, x, w, b)), (tensor(B, M, K), tensor(B, K, N), BIAS),
        ["kernel", "product"]),
    "gelu and its gradients": (gelu_mlp, (X, W, BIAS, G, V), ["dgelu_bgrad", "gelu_aux_bias", "product", "product"]),
    "the gradient of gelu": (lambda F, z, g, v: gelu_slope(F, z, F.matmul(g, v)), (tensor(M, N), G, V), ["dgelu"]),
    "another gelu": (lambda F, x, w: OPS["gelu"].compose(F, F.matmul(x, w)), (X, W), ["kernel", "product"]),
    "a gelu that is read": (lambda F, x, w, b: F.exp(gelu(F, linear(F, x, w, b))), (X, W, BIAS), ["kernel", "product"]),
    "the argument of a gelu is read": (lambda F, x, w, b: (lambda z: (F.exp(z), gelu(F, z)))(linear(F, x, w, b)),
                                       (X, W, BIAS), ["kernel", "product"]),
    "the result is read by a kernel": (lambda F, x, w, b: F.exp(relu(F, linear(F, x, w, b))), (X, W, BIAS),
                                       ["kernel", "product"]),
    "the product is read too": (lambda F, x, w, b: (lambda p: (p, relu(F, F.add(p, b))))(F.matmul(x, w)),
                                (X, W, BIAS), ["kernel", "product"]),
    "the sum is read too": (lambda F, x, w, b: (lambda z: (z, relu(F, z)))(linear(F, x, w, b)), (X, W, BIAS),
                            ["kernel", "product"]),
    "a bias of rows": (lambda F, x, w, b: F.add(F.matmul(x, w), b), (X, W, tensor(M, 1)), ["kernel", "product"]),
    "a matrix is added": (lambda F, x, w, b: F.add(F.matmul(x, w), b), (X, W, tensor(M, N)), ["kernel", "product"]),
    "the product twice": (lambda F, x, w: (lambda p: F.add(p, p))(F.matmul(x, w)), (X, W), ["kernel", "product"]),
    "another bound": (lambda F, x, w: F.maximum(F.matmul(x, w), 1.0), (X, W), ["kernel", "product"]),
    "the mask is read": (
        lambda F, x, w, b, u, v: (lambda h: (F.le(h, 0.0), slope(F, h, F.matmul(F.matmul(h, u), v))))(
            relu(F, linear(F, x, w, b))), (X, W, BIAS, U, V), ["kernel", "kernel", "product", "product", "product"]),
    "the gradient is read by a kernel": (
        lambda F, x, w, b, u, v: (lambda h: (h, F.exp(slope(F, h, F.matmul(F.matmul(h, u), v)))))(
            relu(F, linear(F, x, w, b))), (X, W, BIAS, U, V), ["kernel", "product", "product", "relu_bias"]),
    "one kernel reads both products": (
        lambda F, x, w, b, g, v: (lambda h: (h, F.exp(slope(F, h, F.matmul(g, v)))))(relu(F, linear(F, x, w, b))),
        (X, W, BIAS, G, V), ["kernel", "product", "product"]),
    "a sum that comes with what is summed": (
        lambda F, x, g: (lambda e: (F.matmul(transposed(F, e), x), total(F, e)))(F.exp(g)), (X, G),
        ["kernel", "product"]),
    "a sum beside a loss": (
        lambda F, x, g: (lambda e: (F.matmul(transposed(F, e), x), total(F, e), total(F, e, (0, 1))))(
            F.exp(g)), (X, G), ["bgradb", "kernel"]),
    "the sum of the second factor": (lambda F, x, g: (F.matmul(transposed(F, x), g), total(F, g)), (X, G),
                                     ["bgrada"]),
    "integers": (linear, tuple(tensor(*t.dims, dtype=dtypes.int64) for t in (X, W, BIAS)), ["kernel", "kernel"]),
    "float64": (linear, tuple(tensor(*t.dims, dtype=dtypes.float64) for t in (X, W, BIAS)), ["kernel", "product"]),
    "added to what a kernel makes": (
        lambda F, x, w: (lambda y: (y, F.add(y, F.matmul(y, w))))(F.exp(x)), (X, tensor(K, K)), ["kernel", "product"]),
    "added to what a kernel makes, and read by another": (
        lambda F, x, w: (lambda y: (y, F.exp(F.add(F.matmul(y, w), y))))(F.exp(x)), (X, tensor(K, K)),
        ["kernel", "kernel", "product"]),
    "added to a product": (lambda F, x, w, g, v: F.add(F.matmul(x, w), F.matmul(g, v)), (X, W, G, V),
                           ["product", "product"]),
}


def arguments(types: Any, extent: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(7)  # the same whatever ran before: sums that cancel keep few digits of a half
    values = [rng.integers(-8, 9, [extent[str(d)] if not isinstance(d, int) else d for d in t.dims]) / 4 for t in types]
    return [v.astype(t.dtype.np) for v, t in zip(values, types, strict=True)]


def compare(g: Any, inputs: list[Any], tolerance: float) -> None:
    g = pipeline.run(g)
    expected = interpret(g, duplicate(inputs))
    with config.override(debug_arena=True):
        compiled = gpu.compile({"f": g}, driver())
    for _ in range(2):
        for actual, wanted in zip(compiled["f"](duplicate(inputs)), expected, strict=True):
            if isinstance(wanted, np.ndarray) and wanted.dtype.kind in "fV":
                np.testing.assert_allclose(actual.astype(np.float64), wanted.astype(np.float64), rtol=tolerance,
                                           atol=tolerance * max(1, np.abs(wanted.astype(np.float64)).max(initial=0)))
            else:
                assert_same(actual, wanted, tolerance)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name):
    body, types, expected = PATTERNS[name]
    g = graph(body, *types)
    assert products(g) == expected
    compare(g, arguments(types, {"M": 5, "N": 9, "K": 4, "L": 3, "B": 2}), 1e-5)


@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_sizes(n, d):
    types = [tensor(*t.dims, dtype=d) for t in (X, W, BIAS, G, V)]
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[d.name]
    for body, name in ((mlp, "a layer and its gradients"), (gelu_mlp, "gelu and its gradients")):
        g = graph(body, *types)
        assert products(g) == PATTERNS[name][2]
        for m, k in ((n, 7), (8, n), (2, 129)):
            compare(g, arguments(types, {"M": m, "N": n, "K": k, "L": 5}), tolerance)


def test_empty():
    g = graph(mlp, X, W, BIAS, G, V)
    for name in "MNKL":
        compare(g, arguments((X, W, BIAS, G, V), {**dict.fromkeys("MNKL", 3), name: 0}), 1e-6)


def test_nan_and_zero():
    g = graph(mlp, X, W, BIAS, G, V)
    x, w, b, gy, v = arguments((X, W, BIAS, G, V), {"M": 4, "N": 9, "K": 4, "L": 3})
    x[0, 0], w[:, 3], b[3], gy[1], v[0, 5] = np.nan, 0, 0, np.inf, np.nan
    with np.errstate(all="ignore"):
        compare(g, [x, w, b, gy, v], 1e-5)


def test_what_people_read():
    names = [s.name for s in steps_of(lower("f", pipeline.run(graph(mlp, *LAYER)), device=True))
             if isinstance(s, GemmStep)]
    assert names == ["matmul+bias+relu", "matmul+relu'+bias'", "matmul", "matmul+bias'"]


def test_a_bias_that_is_a_column():
    """What is not contiguous is copied first."""
    g = graph(lambda F, x, w, c: relu(F, linear(F, x, w, F.select(c, axis=1, index=1))), X, W, tensor(N, L))
    assert products(g) == ["kernel", "relu_bias"]
    compare(g, arguments((X, W, tensor(N, L)), {"M": 4, "N": 9, "K": 4, "L": 3}), 1e-5)


# --- scripts ---

class Net(nn.Module):
    """Two layers; `tied`: the second has the first one's weight."""

    def __init__(self, n: int, act: Any, tied: bool = False):
        super().__init__()
        self.first, self.second = nn.Linear(6, n), nn.Linear(n, 6 if tied else 3)
        self.act, self.tied = act, tied

    def forward(self, x):
        weight = self.first.weight.t() if self.tied else self.second.weight
        return F.linear(self.act(self.first(x)), weight, self.second.bias)


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def trained(function: Any, act: Any, n: int, shape: tuple[int, ...], tied: bool = False, seed: int = 1) -> list[Any]:
    """Losses, parameters and gradients of some steps on the CPU or, on a GPU, where new tensors are."""
    jitgrad.manual_seed(seed)
    net = Net(n, act, tied)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = jitgrad.randn(*shape, 6), jitgrad.randn(*shape, 6 if tied else 3)
    losses = [function(net, optimizer, x, y) for _ in range(4)]
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    return [t.detach().cpu().numpy() for t in (*losses, *net.parameters(), *gradients)]


ACTIVATIONS = {"relu": (F.relu, {0, blaslt.RELU_AUX_BIAS, blaslt.DRELU_BGRAD, blaslt.BGRADB}),
               "gelu": (lambda x: F.gelu(x, approximate="tanh"), {0, blaslt.GELU_AUX_BIAS, blaslt.DGELU_BGRAD}),
               "erf": (F.gelu, {0, blaslt.BGRADB})}


def same(actual: list[Any], expected: list[Any], tolerance: float = 2e-5) -> None:
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
@pytest.mark.parametrize("n", [1, 8, 129])
@pytest.mark.parametrize("act", ["relu", "gelu", "erf"])
def test_training(act, n, shape, tied):
    function, epilogues = ACTIVATIONS[act]
    expected = trained(step, function, n, shape, tied)
    with hosted.gpu() as device, jitgrad.device("cuda"), config.override(debug_arena=True, cache=""):
        device.products.clear()
        same(trained(jitgrad.script(step), function, n, shape, tied), expected)
        assert {p[17] for p in device.products} >= (epilogues if n > 1 else set())


def launches(function: Any, *args: Any) -> tuple[int, int]:
    """Kernels and products of a call on the GPU."""
    with hosted.gpu() as device, jitgrad.device("cuda"), config.override(cache=""):
        counts = []

        def counted(*given):
            device.forget()
            device.products.clear()
            result = compiled(*given)
            counts.append((len(device.launches()), len(device.products)))
            return result

        compiled = jitgrad.script(function)
        trained(counted, *args)
        return counts[-1]


class Nothing(Epilogues):
    """No epilogues."""

    def run(self) -> Any:
        return self.nodes


def test_a_training_step_has_fewer_launches(monkeypatch):
    with_them = launches(step, F.relu, 8, (5,))
    monkeypatch.setattr(block, "Epilogues", Nothing)
    without = launches(step, F.relu, 8, (5,))
    assert with_them[1] == without[1] == 5
    assert (with_them[0], without[0]) == (3, 6)


def test_weights_used_twice_have_one_gradient():
    """The second product is added to the first, in half types too."""
    for d in (dtypes.float32, dtypes.bfloat16):
        g = graph(lambda F, x, w, g: F.add(F.matmul(transposed(F, x), g), F.matmul(transposed(F, F.neg(x)), w)),
                  *[tensor(*t.dims, dtype=d) for t in (X, tensor(M, N), tensor(M, N))])
        (first, second) = [s for s in steps_of(lower("f", pipeline.run(g), device=True)) if isinstance(s, GemmStep)]
        assert (first.accumulate, second.accumulate) == (False, True)


def test_autocast():
    def halves(net, optimizer, x, y):
        """A step with products in float16."""
        optimizer.zero_grad()
        with jitgrad.autocast("cuda", dtype=jitgrad.float16):
            out = net(x)
        loss = F.mse_loss(out.float(), y)
        loss.backward()
        optimizer.step()
        return loss

    with hosted.gpu() as device, jitgrad.device("cuda"), config.override(debug_arena=True, cache=""):
        for function, epilogues in (ACTIVATIONS["relu"], ACTIVATIONS["gelu"]):
            expected = trained(halves, function, 24, (5,))
            device.products.clear()
            same(trained(jitgrad.script(halves), function, 24, (5,)), expected, 1e-2)
            assert {p[17] for p in device.products} >= epilogues & {134, 152, 164, 208}


def test_second_order():
    def penalty(net, x):
        (slope,) = jitgrad.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = (slope ** 2).sum()
        loss.backward()
        return loss

    results = []
    for where in ("cpu", "cuda"):
        with hosted.gpu(), jitgrad.device(where), config.override(cache=""):
            jitgrad.manual_seed(0)
            net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
            x = jitgrad.randn(5, 4).requires_grad_()
            loss = (penalty if where == "cpu" else jitgrad.script(penalty))(net, x)
            grads = [p.grad for p in net.parameters() if p.grad is not None]
            results.append([t.detach().cpu().numpy() for t in (loss, *grads)])
    same(results[1], results[0])


def test_replayed():
    """Biases, masks and gradients at other addresses, and other sizes, in graphs that are replayed."""
    g = pipeline.run(graph(mlp, X, W, BIAS, G, V))
    replayed = hostgraphs.driver()
    compiled = gpu.compile({"f": g}, replayed)
    for call, (m, n) in enumerate(((5, 9), (5, 9), (5, 9), (6, 130), (6, 130), (5, 9))):
        inputs = arguments((X, W, BIAS, G, V), {"M": m, "N": n, "K": 4, "L": 3})
        expected = interpret(g, duplicate(inputs))
        before = replayed.simulated.launched
        for actual, wanted in zip(compiled["f"](inputs), expected, strict=True):
            assert_same(actual, wanted, 1e-5)
        assert replayed.simulated.launched - before == (call > 0)


def twice(net, optimizer, x, y):
    """Gradients of two losses."""
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    F.mse_loss(net(x * 2), y).backward()
    optimizer.step()
    return loss


def looped(net, optimizer, x, y):
    """Steps in a loop."""
    loss = x.sum()
    for _ in range(int(x.shape[0])):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    return loss


@pytest.mark.parametrize("function", [twice, looped], ids=lambda f: f.__name__)
@pytest.mark.parametrize("act", ["relu", "gelu"])
def test_training_otherwise(function, act):
    activation, epilogues = ACTIVATIONS[act]
    expected = trained(function, activation, 8, (5,))
    with hosted.gpu() as device, jitgrad.device("cuda"), config.override(debug_arena=True, cache=""):
        device.products.clear()
        same(trained(jitgrad.script(function), activation, 8, (5,)), expected, 5e-5)
        assert {p[17] for p in device.products} & epilogues
        assert function is looped or any(p[3] for p in device.products)


@pytest.mark.parametrize("d", [dtypes.float32, dtypes.bfloat16], ids=str)
def test_gradients_in_a_program_of_their_own(d):
    """What GELU's gradient needs is stored by the first product, and read by the second one."""
    results = []
    for where in ("cpu", "cuda"):
        with hosted.gpu() as device, jitgrad.device(where), config.override(debug_arena=True, cache=""):
            jitgrad.manual_seed(0)
            net = Net(16, ACTIVATIONS["gelu"][0]).to(d)
            x = jitgrad.randn(5, 6).to(d)
            device.products.clear()
            (jitgrad.script(net) if where == "cuda" else net)(x).sum().backward()
            results.append([p.grad.float().cpu().numpy() for p in net.parameters()])
            if where == "cuda":
                assert {p[17] for p in device.products} >= {blaslt.GELU_AUX_BIAS, blaslt.DGELU_BGRAD, blaslt.BGRADB}
    same(results[1], results[0], 1e-5 if d is dtypes.float32 else 5e-2)


def test_two_layers_and_their_gradients_are_five_products():
    def both(first, second, x, g):
        y = second(F.relu(first(x)))
        y.backward(g)
        return y

    with hosted.gpu() as device, jitgrad.device("cuda"), config.override(cache=""):
        jitgrad.manual_seed(0)
        layers, compiled = (nn.Linear(6, 8), nn.Linear(8, 4)), jitgrad.script(both)
        x, g = jitgrad.randn(5, 6), jitgrad.randn(5, 4)
        compiled(*layers, x, g)
        parameters = (*layers[0].parameters(), *layers[1].parameters())
        found = [p.grad.cpu().numpy() for p in parameters]
        for p in parameters:
            p.grad = None
        device.forget()
        device.products.clear()
        compiled(*layers, x, g)
        assert (len(device.launches()), len(device.products)) == (0, 5)
        for p in parameters:
            p.grad = None
        both(*layers, x, g)
        same(found, [p.grad.cpu().numpy() for p in parameters])


def test_at_its_kink_relu_is_that_of_what_is_rounded_once():
    """Eager rounds 1 + 2 ** -10 to 1 before it adds the bias of -1; both have the gradient of their own result."""
    def layer(x, w, b):
        return F.relu(F.linear(x, w, b))

    found = []
    for where in ("cpu", "cuda"):
        with hosted.gpu() as device, jitgrad.device(where), config.override(cache=""):
            d = jitgrad.bfloat16
            x, w, b = (jitgrad.tensor(v, dtype=d) for v in ([[1.0, 2 ** -5]], [[1.0, 2 ** -5]] * 2, [-1.0, -2.0]))
            h = (jitgrad.script(layer) if where == "cuda" else layer)(x, w.requires_grad_(), b.requires_grad_())
            h.sum().backward()
            if where == "cuda":
                assert blaslt.RELU_BIAS in {p[17] for p in device.products}
            assert ((b.grad != 0) == (h[0] > 0)).all()
            found.append(h.float().tolist())
    assert found == [[[0, 0]], [[2 ** -10, 0]]]

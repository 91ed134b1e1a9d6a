"""`func.vmap` in eager: arguments, results, randomness, derivatives, against loops; errors in torch's words."""

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.func import (functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp,
                          vmap)

RNG = np.random.default_rng(0)


def t(*shape):
    return jitgrad.from_numpy(RNG.normal(size=shape))


def close(a, b):
    assert a.shape == b.shape
    assert a.dtype is b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


def loop(f, *xs):
    return jitgrad.stack([f(*items) for items in zip(*xs, strict=True)])


def cube(x):
    return (x ** 3).sum() * x


# --- arguments and results -----------------------------------------------------------------------------------------


def test_in_dims():
    x, y = t(3, 4), t(4, 3)
    close(vmap(lambda a, b: a - b, in_dims=(0, 1))(x, y), x - y.T)
    close(vmap(lambda a, b: a * b, in_dims=(-1, None))(x, x[:, 0]), (x * x[:, :1]).T)
    close(vmap(lambda p: p[0] + p[1], in_dims=([0, None],))([x, x[0]]), x + x[0])
    both = vmap(lambda d, n: d["a"] * n + d["b"], in_dims=({"a": 0, "b": None}, None))
    close(both({"a": x, "b": x[0]}, 3), x * 3 + x[0])
    close(vmap(lambda a, k: a + k)(x, k=x), jitgrad.stack([r + x for r in x]))


def test_out_dims():
    x = t(3, 4)
    close(vmap(lambda r: r * 2, out_dims=1)(x), x.T * 2)
    close(vmap(lambda r: r * 2, out_dims=(-1,))(x), x.T * 2)
    a, b = vmap(lambda r: [r, r], out_dims=[0, 1])(x)
    close(a, x)
    close(b, x.T)
    found = vmap(lambda r: {"r": r, "same": jitgrad.zeros(2)}, out_dims={"r": 0, "same": None})(x)
    assert list(found) == ["r", "same"]
    assert tuple(found["same"].shape) == (2,)
    assert tuple(vmap(lambda r: jitgrad.zeros(2))(x).shape) == (3, 2)


def test_what_an_item_is():
    seen = []

    def item(r):
        assert isinstance(r, jitgrad.Tensor)
        seen.append((tuple(r.shape), r.ndim, r.dtype, len(r), r.numel(), r.size(0), r.stride(), r.is_contiguous(),
                     r.requires_grad, r.is_leaf, r.device.type))
        assert "BatchedTensor(lvl=1, bdim=0, value=\n    tensor(" in repr(r)
        return sum(list(r))

    x = t(3, 4)
    close(vmap(item)(x), x.sum(1))
    assert seen == [((4,), 1, jitgrad.float64, 4, 4, 4, (1,), True, False, True, "cpu")]


def test_chunks():
    x = t(5, 3)
    calls = []

    def item(r):
        calls.append(1)
        return r.cumsum(0), r.sum()

    for size, n in ((2, 3), (5, 1), (7, 1)):
        calls.clear()
        a, b = vmap(item, out_dims=(1, 0), chunk_size=size)(x)
        close(a, x.cumsum(1).T)
        close(b, x.sum(1))
        assert len(calls) == n
    assert tuple(vmap(lambda r: r.sum(), chunk_size=2)(t(0, 3)).shape) == (0,)


def test_nested():
    x, y = t(2, 3, 4), t(3)
    close(vmap(vmap(lambda a, b: a * b, in_dims=(0, 0)), in_dims=(0, None))(x, y), x * y[:, None])
    close(vmap(lambda m: vmap(lambda c: m @ c, in_dims=1, out_dims=1)(m.T))(x), jitgrad.stack([m @ m.T for m in x]))
    close(vmap(lambda a: vmap(lambda b: a.sum() + b)(y))(x), jitgrad.stack([m.sum() + y for m in x]))


def test_writes():
    x = t(3, 4)

    def item(r):
        y = jitgrad.zeros_like(r)
        y[0] = r.sum()
        y[1:] += r[1:]
        z = r.new_zeros(2)
        z[1] = 3
        f = jitgrad.full_like(r, 2.0)
        f.mul_(r)
        return jitgrad.cat([y, z, f])

    found = vmap(item)(x)
    close(found, loop(item, x))
    given = x.clone()
    vmap(lambda r: r.add_(1))(given)
    close(given, x + 1)
    vmap(lambda c: c.mul_(2), in_dims=1, out_dims=1)(given)
    close(given, (x + 1) * 2)
    same = jitgrad.zeros(4)
    vmap(lambda r: same.add_(1) + r)(x)  # of no item: once
    assert same.tolist() == [1.0] * 4


def test_indices():
    x, i = t(3, 5), jitgrad.tensor([0, 4, 2])
    close(vmap(lambda r, k: r[k])(x, i), jitgrad.stack([x[0, 0], x[1, 4], x[2, 2]]))
    close(vmap(lambda k: x[0][k])(i), x[0][i])
    close(vmap(lambda r: r[jitgrad.tensor([1, 1, 0])])(x), x[:, [1, 1, 0]])
    close(vmap(lambda r, k: jitgrad.where(r > 0, r, r[k]))(x, i), jitgrad.where(x > 0, x, x.gather(1, i[:, None])))
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        vmap(lambda r, k: r[k])(x, i + 1)


# --- random numbers ------------------------------------------------------------------------------------------------


def test_randomness():
    x = t(3, 4)
    for draw in (lambda r: jitgrad.rand(2), jitgrad.rand_like, lambda r: nn.functional.dropout(r),
                 lambda r: r.clone().normal_(), lambda r: jitgrad.randperm(5), lambda r: jitgrad.randint(0, 9, (6,))):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            vmap(draw)(x)
        jitgrad.manual_seed(1)
        different = vmap(draw, randomness="different")(jitgrad.ones_like(x))
        same = vmap(draw, randomness="same")(jitgrad.ones_like(x))
        assert not bool((different == different[:1]).all())
        assert bool((same == same[:1]).all())
    jitgrad.manual_seed(2)
    whole = vmap(lambda r: r + jitgrad.rand(4), randomness="same")(x)
    jitgrad.manual_seed(2)
    close(vmap(lambda r: r + jitgrad.rand(4), randomness="same", chunk_size=2)(x), whole)
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        vmap(jitgrad.sin, randomness="some")


# --- derivatives ---------------------------------------------------------------------------------------------------


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(jitgrad.tanh(self.a(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.n, self.d = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Linear(36, 3)

    def forward(self, x):
        return self.d(nn.functional.max_pool2d(jitgrad.relu(self.n(self.c(x))), 2).flatten(1))


@pytest.mark.parametrize("items", [0, 1, 5])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(("cls", "shape"), [(MLP, (4,)), (Conv, (1, 6, 6))])
def test_per_sample_gradients(cls, shape, tracked, items):
    jitgrad.manual_seed(0)
    net = cls().double()
    params = {k: v if tracked else v.detach() for k, v in net.named_parameters()}
    x, y = t(items, *shape), jitgrad.from_numpy(RNG.integers(0, 3, items))

    def loss(params, x, y):
        return nn.functional.cross_entropy(functional_call(net, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    assert found.keys() == params.keys()
    for name, g in found.items():
        assert tuple(g.shape) == (items, *params[name].shape)
        for k in range(items):
            close(g[k], grad(loss)(params, x[k], y[k])[name])


def test_gradients_of_items():
    x, w = t(4, 3), t(3)
    g, v = vmap(grad_and_value(lambda w, r: (w * r).sum() ** 3), in_dims=(None, 0))(w, x)
    close(g, jitgrad.stack([3 * (w * r).sum() ** 2 * r for r in x]))
    close(v, (x @ w) ** 3)
    close(vmap(grad(lambda r, w: (w * r).sum() ** 3, argnums=(0, 1)), in_dims=(0, None))(x, w)[1], g)
    close(grad(lambda x: vmap(grad(lambda r: (r ** 3).sum()))(x).sum())(x), 6 * x)
    a, aux = vmap(grad(lambda r: ((r * r).sum(), r + 1), has_aux=True))(x)
    close(a, 2 * x)
    close(aux, x + 1)


def test_gradients_of_gradients_of_items():
    x = t(4, 3)

    def norms(per_item):
        w = jitgrad.from_numpy(np.array([0.3, -1.0, 2.0])).requires_grad_()
        g = per_item(lambda w, r: (w * r).sum() ** 3, w)
        (g ** 2).sum().backward()
        return w.grad

    close(norms(lambda f, w: vmap(grad(f), in_dims=(None, 0))(w, x)),
          norms(lambda f, w: jitgrad.stack([grad(f)(w, r) for r in x])))


def test_jacobians():
    x, units = t(3), jitgrad.eye(3, dtype=jitgrad.float64)
    _, pull = vjp(cube, x)
    full = jacrev(cube)(x)
    close(vmap(pull)(units)[0], full)
    close(vmap(lambda u: jvp(cube, (x,), (u,))[1])(units).T, full)
    close(vmap(vmap(pull))(units.reshape(1, 3, 3))[0][0], full)
    assert tuple(vmap(pull)(units[:0])[0].shape) == (0, 3)
    rows = t(4, 3)
    for transform in (jacrev, jacfwd, lambda f: hessian(lambda r: f(r).sum()), lambda f: jacrev(jacfwd(f))):
        close(vmap(transform(cube))(rows), loop(transform(cube), rows))
    close(vmap(lambda r: jacrev(lambda w: (w * r) ** 2)(x))(rows),
          loop(lambda r: jacrev(lambda w: (w * r) ** 2)(x), rows))


def test_functions_of_several_primals_and_results():
    x, u = t(4, 3), t(4, 3)

    def f(a, b):
        return {"s": a * b.sum(), "t": b ** 2}

    def both(a, b):
        _, pull = vjp(f, a, b)
        return pull({"s": a, "t": b})

    for found, expected in zip(vmap(both)(x, u), zip(*[both(a, b) for a, b in zip(x, u, strict=True)], strict=True),
                               strict=True):
        close(found, jitgrad.stack(list(expected)))
    value, along = vmap(lambda a, b: jvp(f, (a, b), (b, a)))(x, u)
    close(along["t"], 2 * u * x)
    close(value["s"], x * u.sum(1, keepdim=True))


def test_ensembles():
    jitgrad.manual_seed(0)
    models = [MLP().double() for _ in range(3)]
    params, buffers = stack_module_state(models)
    x = t(7, 4)
    out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)
    close(out, jitgrad.stack([m(x) for m in models]))
    out.pow(2).sum().backward()
    models[1](x).pow(2).sum().backward()
    close(params["a.weight"].grad[1], models[1].a.weight.grad)
    for wrong, match in (([], "Expected at least one model"), ([MLP(), nn.Linear(1, 1)], "same class"),
                         ([MLP(), MLP().eval()], "same training/eval mode")):
        with pytest.raises(RuntimeError, match=match):
            stack_module_state(wrong)


def test_functional_call():
    net = MLP().double()
    x, w = t(2, 4), t(8, 4)
    before = net.a.weight
    close(functional_call(net, {"a.weight": w}, x), net.b(jitgrad.tanh(x @ w.T + net.a.bias)))
    assert net.a.weight is before
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    tied[1].weight = tied[0].weight
    once = x[:, :3] @ w[:3, :3].T + tied[0].bias
    close(functional_call(tied, {"0.weight": w[:3, :3]}, x[:, :3]), once @ w[:3, :3].T + tied[1].bias)
    norm = nn.BatchNorm1d(4).double()
    state = {k: v.detach().clone() for k, v in norm.named_buffers()}
    functional_call(norm, state, (x,))
    assert int(state["num_batches_tracked"]) == 1
    assert int(norm.num_batches_tracked) == 0
    with pytest.raises(RuntimeError, match="Missing key"):
        functional_call(net, {"a.weight": w}, x, strict=True)
    with pytest.raises(ValueError, match="appears in multiple dictionaries"):
        functional_call(net, ({"a.weight": w}, {"a.weight": w}), x)
    with pytest.raises(ValueError, match="multiple values for keys"):
        functional_call(tied, {"0.weight": w[:3, :3], "1.weight": w[:3, 1:]}, x[:, :3])


def test_scripted_functions():
    x = t(4, 3)
    f = jitgrad.script(lambda r: (r * r).sum())
    close(vmap(f)(x), (x * x).sum(1))
    close(vmap(grad(f))(x), 2 * x)
    whole = jitgrad.script(lambda x: vmap(grad(lambda r: cube(r).sum()))(x))
    close(whole(x), loop(grad(lambda r: cube(r).sum()), x))
    assert f.cache_info().compilations == 0


# --- custom functions ----------------------------------------------------------------------------------------------


class Loop(jitgrad.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y.sum(), x + 1

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y.sum() + h, (g * x).sum() * jitgrad.ones_like(y)


class Ruled(jitgrad.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == x.shape[in_dims[0]]
        return Ruled.apply(x), in_dims[0]


def test_custom_functions():
    x, y = t(4, 3), t(3)
    a, b = vmap(Loop.apply, in_dims=(0, None))(x, y)
    close(a, x * y.sum())
    close(b, x + 1)
    close(vmap(grad(lambda r: Loop.apply(r, y)[0].sum()))(x), y.sum().expand(4, 3))
    assert tuple(vmap(Loop.apply, in_dims=(0, None))(x[:0], y)[0].shape) == (0, 3)
    close(vmap(Ruled.apply)(x), x * 2)
    close(vmap(vmap(grad(Ruled.apply)))(x), jitgrad.full_like(x, 2.0))

    class Plain(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(RuntimeError, match="You tried to vmap over Plain, but it does not have vmap support"):
        vmap(Plain.apply)(x)


# --- errors --------------------------------------------------------------------------------------------------------

X = jitgrad.ones(3, 2)


def raised(call, *args):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as error:
        call(*args)
    return type(error.value), str(error.value)


# recorded from PyTorch 2.13
@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda: vmap(lambda r: r if r.sum() > 0 else -r)(X), RuntimeError,
     "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow."),
    (lambda: vmap(lambda r: r.sum().item())(X), RuntimeError,
     "vmap: It looks like you're calling .item() on a Tensor."),
    (lambda: vmap(lambda r: float(r.sum()))(X), RuntimeError,
     "vmap: It looks like you're calling .item() on a Tensor."),
    (lambda: vmap(lambda r: f"{r.sum()}")(X), RuntimeError, "vmap: It looks like you're calling .item() on a Tensor."),
    (lambda: vmap(lambda r: r.numpy())(X), RuntimeError,
     "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda: vmap(lambda r: r.data)(X), RuntimeError, "accessing `data` under vmap transform is not allowed"),
    (lambda: vmap(lambda r: r[r > 0])(X), RuntimeError, "vmap: We do not support batching operators that can support "
     "dynamic shape. Attempting to batch over indexing with a boolean mask."),
    (lambda: vmap(lambda r: r.nonzero())(X), RuntimeError, "vmap: We do not support batching operators that can output "
     "dynamic shape. Attempted to vmap over aten::nonzero."),
    (lambda: vmap(lambda r: jitgrad.zeros(2).add_(r))(X), RuntimeError,
     "vmap: inplace arithmetic(self, *extra_args) is "
     "not possible because there exists a Tensor `other`"),
    (lambda: vmap(lambda r: (r * r).sum().backward())(X), RuntimeError,
     "backward() called inside a functorch transform."),
    (lambda: vmap(lambda r: r.clone().requires_grad_())(X), RuntimeError,
     "You are attempting to call Tensor.requires_grad_()"),
    (lambda: vmap(lambda: X)(), ValueError, "vmap(<lambda>)(<inputs>): got no inputs."),
    (lambda: vmap(jitgrad.sin, in_dims=None)(X), ValueError,
     "vmap(sin, in_dims=None, ...)(<inputs>): expected `in_dims` "
     "to be int or a (potentially nested) tuple matching the structure of inputs, got: <class 'NoneType'>."),
    (lambda: vmap(jitgrad.add)(X, X[:2]), ValueError, "vmap: Expected all tensors to have the same size in the mapped "
     "dimension, got sizes [3, 2] for the mapped dimension"),
    (lambda: vmap(jitgrad.sin, in_dims=2)(X), ValueError, "vmap(sin, in_dims=2, ...)(<inputs>): Got in_dim=2 for some "
     "input, but that input is a Tensor of dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2."),
    (lambda: vmap(jitgrad.add)(X, 3), ValueError,
     "vmap(add, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the input is of type <class 'int'>. We cannot "
     "vmap over non-Tensor arguments, please use None as the respective in_dim"),
    (lambda: vmap(jitgrad.add, in_dims=(0,))(X, X), ValueError,
     "vmap(add, in_dims=(0,), ...)(<inputs>): in_dims is not "
     "compatible with the structure of `inputs`. in_dims has structure TreeSpec(tuple, None, [*]) but inputs has "
     "structure TreeSpec(tuple, None, [*, *])."),
    (lambda: vmap(jitgrad.sin, in_dims=(1.5,))(X), ValueError,
     "vmap(sin, in_dims=(1.5,), ...)(<inputs>): Got in_dim=1.5 "
     "for an input but in_dim must be either an integer dimension or None."),
    (lambda: vmap(jitgrad.sin, out_dims=None)(X), ValueError,
     "vmap(sin, ...): `sin` can not return a BatchedTensor when out_dim is None"),
    (lambda: vmap(jitgrad.sin, out_dims=2)(X), IndexError,
     "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
    (lambda: vmap(lambda r: 3)(X), ValueError,
     "vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class "
     "'int'>. Did you mean to set out_dims= to None for output?"),
    (lambda: vmap(lambda r: (r, r), out_dims=(0,))(X), ValueError,
     "vmap(<lambda>, ..., out_dims=(0,))(<inputs>): out_dims "
     "is not compatible with the structure of `outputs`."),
    (lambda: vmap(jitgrad.sin, out_dims="a")(X), ValueError,
     "vmap(sin, ..., out_dims=a): `out_dims` must be an int, None "
     "or a python collection of ints representing where in the outputs the vmapped dimension should appear."),
    (lambda: vmap(jitgrad.sin, chunk_size=0)(X), ValueError,
     "vmap: chunk_size should be None or greater than 0. (got 0)"),
])
def test_errors(call, kind, words):
    found, text = raised(call)
    assert found is kind
    assert text.startswith(words)


def test_escaped_items():
    kept = []
    vmap(lambda r: kept.append(r) or r)(X)
    for use in (lambda r: r + 1, bool, lambda r: r.sum().item(), lambda r: r.numpy(),
                lambda r: vmap(lambda s: s + r)(X)):
        assert raised(use, kept[0])[1].startswith("Your tensor may have escaped from inside a function being")

"""`func.vmap` inside scripts, as docs/language.md lists it: eager, interpreted and native."""

import pytest

import jitgrad as torch
from jitgrad import config, jit, nn
from jitgrad.errors import ScriptError
from jitgrad.func import (functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp,
                          vmap)
from tests.script.frontend.agree import ints, registry, suite, t

PROGRAMS, program = registry()


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.d = nn.Conv2d(1, 2, 3, padding=1), nn.Linear(8, 3)

    def forward(self, x):
        return self.d(nn.functional.max_pool2d(torch.relu(self.c(x)), 2).flatten(1))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)


def made(cls, seed=0):
    torch.manual_seed(seed)
    return cls()


def state_of(model):
    return {k: v.detach().clone() for k, v in model.named_parameters()}


# --- items, axes, nesting ------------------------------------------------------------------------------------------


@program((t(4, 3), t(3)), (t(1, 3), t(3)), (t(0, 3), t(3)), (t(5, 3), t(3)), compilations=2)  # one item: of its own
def items(x, w):
    return vmap(lambda r, w: (r * w).sum(), in_dims=(0, None))(x, w)


@program((t(4, 3), t(3, 4)), (t(5, 3), t(3, 5)))
def axes(x, y):
    return vmap(lambda a, b: (a + b, a * 2), in_dims=(0, 1), out_dims=(1, -1))(x, y)


@program((t(2, 4, 3),), (t(3, 5, 2),))
def nested(x):
    return vmap(vmap(lambda a: torch.softmax(a, 0) + a.sum(), in_dims=1, out_dims=1))(x)


@program((t(4, 3), t(4, 3, seed=1)), (t(2, 3), t(2, 3, seed=1)))
def trees(x, y):
    def item(d, pair):
        return {"sum": d["x"] + d["y"], "list": [pair[0] * 2, pair[1]]}

    return vmap(item, in_dims=({"x": 0, "y": None}, (0, None)), out_dims={"sum": 0, "list": [1, None]})(
        {"x": x, "y": y[0]}, (y, x[0]))


@program((t(5, 3),), (t(5, 3, seed=1),))
def chunks(x):
    return vmap(lambda r: r.sort()[0].cumsum(0), chunk_size=2)(x)


@program((t(4, 5), ints(0, 2, 4, 1)), (t(3, 5), ints(3, 3, 0)))
def indices(x, i):
    return vmap(lambda r, k: (r[k], r.gather(0, k.unsqueeze(0)), x[0][k]))(x, i)


# --- writes and control flow ---------------------------------------------------------------------------------------


@program((t(4, 3),), (t(2, 3),))
def writes(x):
    def item(r):
        y = torch.zeros_like(r)
        y[0] = r.sum()
        y[1:] += r[1:]
        return y

    return vmap(item)(x)


@program((t(4, 3), t(3)), (t(4, 3), -t(3)), grad=False)
def writes_outside(x, w):
    def item(r):
        z = r if w.sum() > 0 else r * 2
        z += 1
        return z + r

    return vmap(item)(x), x


@program((t(4, 3), t(3), 3), (t(4, 3), t(3), 5))
def loops(x, w, n: int):
    def item(r):
        h = torch.zeros(3)
        for i in range(n):
            h = torch.tanh(h * w + r * i)
        return h

    return vmap(item)(x)


@program((t(4, 3), t(3)), (t(4, 3), -t(3)))
def branches(x, w):
    def item(r):
        if w.sum() > 0:
            return r * 2
        return r - w

    return vmap(item)(x)


@program((t(4, 3), t(3)), (t(4, 3), -t(3)))
def sides_of_other_batches(x, w):
    def item(r):
        y = r if w.sum() > 0 else w
        return y + 1

    return vmap(item)(x)


@program((t(4, 3), t(3)), (t(4, 3), -t(3)))
def in_branches_and_loops(x, w):
    total = x.sum() * 0
    k = 0
    while k < 3:
        if w.sum() > k:
            total = total + vmap(lambda r: (r * w).sum() ** 2)(x).sum()
        k += 1
    return total


@program((t(3, 2, 3), t(4, 3)), (t(2, 2, 3), t(4, 3)))
def lists(x, w):
    def item(r):
        parts = []
        for k in range(2):
            parts.append(w @ r[k])
        return torch.stack(parts)

    return vmap(item)(x)


@program((t(4, 3),), (t(2, 3),))
def history_of_items(x):
    return vmap(lambda r: r * 2 if r.requires_grad else r.detach() * r)(x)


@program((t(4, 3), 7), (t(2, 3), 8), grad=False)
def randomness(x, seed: int):
    torch.manual_seed(seed)
    return (vmap(lambda r: r + torch.randn(3), randomness="different")(x),
            vmap(lambda r: nn.functional.dropout(r + torch.rand(3)), randomness="same")(x), torch.rand(2))


# --- derivatives ---------------------------------------------------------------------------------------------------


@program((t(4, 3), t(3)), (t(2, 3), t(3)))
def per_item_gradients(x, w):
    def loss(w, r):
        return (w * r).sum() ** 3

    g, value = vmap(grad_and_value(loss), in_dims=(None, 0))(w, x)
    return g, value, vmap(grad(grad(lambda s: s ** 4)))(x[:, 0])


@program((t(4, 3), t(3), 3), (t(2, 3), t(3), 4))
def gradients_through_loops(x, w, n: int):
    def loss(w, r):
        h = torch.zeros(3)
        for _ in range(n):
            h = torch.tanh(h * w + r)
        return h.sum()

    return vmap(grad(loss), in_dims=(None, 0))(w, x)


def cube(x):
    return (x ** 3).sum() * x


@program((t(3),), (t(4),))
def rows_of_jacobians(x):
    _, pull = vjp(cube, x)
    units = torch.eye(x.shape[0])
    return vmap(pull)(units)[0], vmap(lambda u: jvp(cube, (x,), (u,))[1])(units), vmap(vmap(pull))(
        units.reshape(1, *units.shape))[0]


@program((t(2, 3),), (t(4, 3),))
def jacobians_of_items(x):
    return vmap(jacrev(cube))(x), vmap(jacfwd(cube))(x), vmap(hessian(lambda r: cube(r).sum()))(x)


@program((t(2, 3), t(3)), (t(4, 3), t(3)))
def jacobians_of_the_same(x, w):
    return vmap(lambda r: jacrev(lambda w: (w * r) ** 2)(w))(x)


@program((t(4, 3),), (t(2, 3),))
def gradients_of_items(x):
    return grad(lambda x: vmap(grad(lambda r: cube(r).sum()))(x).pow(2).sum())(x)


MODEL, NET, ENSEMBLE = made(MLP), made(Conv), [made(MLP, seed) for seed in range(3)]


@program((state_of(MODEL), t(4, 3), ints(0, 1, 1, 0)), (state_of(MODEL), t(2, 3), ints(1, 1)), grad=False)
def per_sample_gradients(params, x, y):
    def loss(params, x, y):
        out = functional_call(MODEL, params, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(out, y.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)


@program((state_of(NET), t(4, 1, 4, 4), ints(0, 1, 2, 0)), (state_of(NET), t(4, 1, 4, 4, seed=1), ints(1, 1, 0, 2)),
         grad=False)
def per_sample_gradients_of_convolutions(params, x, y):
    def loss(params, x, y):
        out = functional_call(NET, params, x.unsqueeze(0))
        return nn.functional.cross_entropy(out, y.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)


def stacked(models):
    return {k: v.detach() for k, v in stack_module_state(models)[0].items()}


@program((stacked(ENSEMBLE), t(4, 3)), (stacked(ENSEMBLE[:2]), t(5, 3)), grad=False)
def ensembles(params, x):
    return vmap(lambda p, x: functional_call(MODEL, p, (x,)), in_dims=(0, None))(params, x)


@program((t(4, 3), t(4, 3)), (t(4, 3), t(4, 3, seed=1)))
def other_parameters(w, x):
    out = functional_call(MODEL, {"a.weight": w}, (x,))
    return out, functional_call(MODEL, ({"a.weight": w * 2}, {"b.bias": out[0]}), x), MODEL(x)


NORM = made(Normed)


@program((t(3), t(3).abs(), t(4, 3)), (t(3), t(3).abs(), t(5, 3)), grad=False)
def other_buffers(mean, var, x):
    buffers = {"norm.running_mean": mean, "norm.running_var": var, "norm.num_batches_tracked": torch.tensor(0)}
    out = functional_call(NORM, buffers, (x,))
    return out, buffers, NORM.norm.running_mean


test_programs = suite(PROGRAMS)


# --- errors, the disk, files ---------------------------------------------------------------------------------------


def branching(x):
    return vmap(lambda r: r if r.sum() > 0 else -r)(x)


def asking(x):
    return vmap(lambda r: r.sum().item())(x)


def masking(x):
    return vmap(lambda r: r[r > 0])(x)


def drawing(x):
    return vmap(lambda r: r + torch.rand(3))(x)


def writing(x):
    w = torch.zeros(3)
    vmap(lambda r: w.add_(r))(x)
    return w


def propagating(x):
    return vmap(lambda r: (r * r).sum().backward())(x)


@pytest.mark.parametrize("function", [branching, asking, masking, drawing, writing, propagating])
def test_errors(function):
    x = t(2, 3).requires_grad_()
    with pytest.raises(RuntimeError) as eager:
        function(x)
    with pytest.raises(RuntimeError) as scripted:
        torch.script(function)(x)
    if function is not propagating:
        assert str(eager.value) in str(scripted.value)


def printing(x):
    def item(r):
        print(r)
        return r

    return vmap(item)(x)


def escaping(x):
    kept = []
    vmap(lambda r: kept.append(r) or r)(x)
    return kept[0]


@torch.ignore
def outside(x):
    return x * 2


def calling_back(x):
    return vmap(lambda r: outside(r))(x)


class Double(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def custom(x):
    return vmap(Double.apply)(x)


def joining(x):
    return vmap(lambda r: torch.tensor([r.sum(), r[0]]))(x)


def raising(x):
    def item(r):
        raise ValueError(r)

    return vmap(item)(x)


class Keeper:
    def __init__(self):
        self.w = torch.zeros(2, 3)
        self.kept = None


KEEPER = Keeper()


def keeping(x):
    def item(r):
        KEEPER.kept = r * 2
        return r

    return vmap(item)(x)


def giving_a_gradient(x):
    def item(r):
        KEEPER.w.grad = r * 1
        return r

    return vmap(item)(x)


def giving_data(x):
    def item(r):
        KEEPER.w.data = r * 1
        return r

    return vmap(item)(x)


@pytest.mark.parametrize("function", [printing, escaping, calling_back, custom, joining, raising, keeping,
                                      giving_a_gradient, giving_data])
def test_refused(function):
    with pytest.raises(ScriptError):
        torch.script(function)(t(2, 3))
    with pytest.raises(ScriptError):
        torch.script(function)(t(1, 3))


def test_disk_and_files(tmp_path):
    x, w = t(4, 3), t(3)
    with config.override(cache=str(tmp_path / "cache")):
        first, second = torch.script(per_item_gradients), torch.script(per_item_gradients)
        a, b = first(x, w), second(x, w)
        assert second.cache_info().disk_hits == 1
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
    jit.save(first, str(tmp_path / "f.jg"))
    loaded = jit.load(str(tmp_path / "f.jg"))
    assert all(torch.equal(p, q) for p, q in zip(a, loaded(x, w), strict=True))

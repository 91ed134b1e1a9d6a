"""Modules and parameters that a function makes, and classes that say what assigning an attribute is."""

from __future__ import annotations

from dataclasses import dataclass

import jitgrad as torch
from jitgrad import nn
from tests.programs.nasty.harness import nasty


def m(rows=2, columns=3):
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns) / 7


class Net(nn.Module):
    """Parameters, buffers and modules of every kind."""

    def __init__(self, n, k):
        super().__init__()
        self.inner = nn.Linear(n, k)
        self.scale = nn.Parameter(torch.ones(k))
        self.register_buffer("mean", torch.zeros(k))
        self.layers = nn.ModuleList([nn.Linear(k, k) for _ in range(2)])
        for i in range(2):
            setattr(self, f"norm{i}", nn.LayerNorm(k))
        self.act, self.name = nn.GELU(), "net"

    def forward(self, x):
        y = self.inner(x) * self.scale - self.mean
        for layer in self.layers:
            y = self.norm1(self.act(layer(self.norm0(y))))
        return y


@nasty(lambda: (m(),), lambda: (m(4),))
def a_layer_of_its_own(x):
    """A layer draws its weights where it is made."""
    y = nn.Linear(3, 4)(x)
    return y, nn.Sequential(nn.ReLU(), nn.Dropout(0.5))(y), nn.MSELoss()(y, y * 2)


@nasty(lambda: (m(), 3), lambda: (m(), 0), lambda: (m(4), 1))
def a_net_trained(x, steps: int):
    """A net that is made, trained by hand and let go."""
    net = Net(3, 4)
    losses = []
    for _ in range(steps):
        loss = net(x).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        losses.append(loss.item())
    return losses, net(x), [name for name, _ in net.named_parameters()], len(list(net.modules()))


@nasty(lambda: (m(), True), lambda: (m(), False))
def parts_of_a_net(x, wide: bool):
    """What is registered under a name, and what takes its place."""
    net = nn.Linear(3, 3)
    net.weight, net.more, net.extra = nn.Parameter(torch.eye(3)), nn.Linear(3, 2), 5
    names = [name for name, _ in net.named_parameters()]
    try:
        net.weight = 3
    except TypeError as error:
        print(error)
    del net.bias, net.extra
    for missing in ("bias", "extra"):
        try:
            getattr(net, missing)
        except AttributeError as error:
            print(error)
    net.bias = None
    print(net, net.training, isinstance(net, nn.Module), isinstance(net.weight, nn.Parameter), type(net) is nn.Linear)
    return net(x) if wide else net.more(x), names, "weight" in net.state_dict(), hasattr(net, "extra")


@nasty(lambda: (m(), 2), lambda: (m(), 0), lambda: (m(4), 3))
def layers_that_iterations_make(x, n: int):
    """Every iteration makes a layer, and one of two is chosen."""
    for k in range(n):
        layer = nn.Linear(3, 3) if k % 2 else nn.Linear(3, 3, bias=False)
        x = layer(x).tanh()
    return x


@nasty(lambda: (m(6),), lambda: (m(3),))
def statistics_of_a_net(x):
    """A batch norm counts and keeps moments until it is put to use."""
    norm = nn.BatchNorm1d(3)
    y = norm(norm(x))
    count = norm.num_batches_tracked.item()
    norm.eval()
    return y, norm(x), norm.running_mean * 1, norm.running_var * 1, count, norm.training


@nasty(lambda: (m(5),), lambda: (m(2),))
def larger_layers(x):
    """Layers that are made of layers, by loops over names."""
    y, (h, _) = nn.LSTM(3, 4)(x.unsqueeze(1))
    block = nn.TransformerEncoderLayer(4, 2, 8).eval()
    attended, _ = nn.MultiheadAttention(4, 2)(y, y, y)
    choice = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
    for name, part in choice.items():
        print(name, part)
        attended = part(attended)
    return block(y), attended, h


@nasty(lambda: (m(), 2), lambda: (m(), 0))
def parameters_of_its_own(x, n: int):
    """A parameter is a leaf, shows the memory of what it is made of, and may need no gradient."""
    start = torch.ones(3)
    p, fixed = nn.Parameter(start), nn.Parameter(torch.ones(3), requires_grad=False)
    for _ in range(n):
        (x * p * fixed).pow(2).sum().backward()
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)
    rows = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
    print(p, fixed.requires_grad, p.is_leaf, isinstance(fixed, nn.Parameter), isinstance(start, nn.Parameter),
          type(p) is nn.Parameter, type(p * 1) is torch.Tensor)
    return start * 1, p.grad, (x * fixed).requires_grad, x * rows[0] + rows[1]


class Doubled:
    """Holds twice what it is told."""

    def __init__(self, v):
        self.v = v

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2)

    def __delattr__(self, name):
        print("gone:", name)
        object.__delattr__(self, name)


@dataclass(frozen=True)
class Frozen:
    """Has a field that its others say."""

    a: int

    def __post_init__(self):
        object.__setattr__(self, "b", self.a + 1)


class Plain:
    """Asks what it holds without its own rules."""

    kind = 3

    def got(self):
        return super().__getattribute__("kind")


@nasty(lambda: (m(), 2), lambda: (m(), 5))
def rules_for_attributes(x, n: int):
    """A class says what assigning and deleting an attribute is."""
    d, f = Doubled(n), Frozen(n)
    d.w = x
    d.v += 1
    del d.w
    try:
        f.a = 3
    except AttributeError as error:
        print(type(error).__name__, error)
    return d.v, f.b, hasattr(d, "w"), Plain().got(), hasattr(d, "__qualname__"), hasattr(n, "__module__")


class Options:
    """Takes whatever it is told."""

    def __init__(self, **given):
        self.__dict__.update(given)


@nasty(lambda: (m(), 3), lambda: (m(), 0), lambda: (m(), 7))
def attributes_by_way_of_the_dict(x, n: int):
    """`__dict__` is another name of the attributes, not a copy, in branches and loops too."""
    o, p = Options(v=x, n=1), Options(v=x * 2, n=4, w=0)
    held = vars(o)
    for k in range(n):
        held["n"] += k
        o.v = o.v * 0.5
    if n > 2:
        held["w"] = 5
    else:
        o.w = 6
    chosen = o.__dict__ if n > 5 else p.__dict__
    chosen["n"] = chosen["n"] + 7
    copied = Options(**p.__dict__)
    copied.n += 1
    for name, value in vars(copied).items():
        setattr(copied, name, value * 2)
    print(sorted(held), len(held), "v" in held, held is o.__dict__, {"n": 1} == Options(n=1).__dict__)
    return o.n, o.w, held.pop("n"), hasattr(o, "n"), held["v"], {**vars(p)}["n"], dict(vars(copied)), p.n

"""Random networks for a GPU: products with what follows them, norms, gathers, convolutions, loops that tensors decide.

    source = Nets(7).program()      # def f(x, ids, targets, net, s): a loss and the last activations
"""

from __future__ import annotations

import random
from typing import Any

import jitgrad
from jitgrad import nn, optim

CLASSES, CHANNELS = 6, 3


class Net(nn.Module):
    """What the programs read: square weights, a wide pair, an embedding, two filters, running statistics."""

    def __init__(self, columns: int, seed: int):
        super().__init__()
        jitgrad.manual_seed(seed)
        wide = 2 * columns + 1
        self.w, self.v = (nn.Parameter(jitgrad.randn(columns, columns) * columns ** -0.5) for _ in range(2))
        self.b, self.c = (nn.Parameter(jitgrad.randn(columns) * 0.3) for _ in range(2))
        self.g = nn.Parameter(1 + jitgrad.randn(columns) * 0.2)
        self.up, self.bu = nn.Parameter(jitgrad.randn(wide, columns) * 0.4), nn.Parameter(jitgrad.randn(wide) * 0.3)
        self.down = nn.Parameter(jitgrad.randn(columns, wide) * 0.3)
        self.e = nn.Parameter(jitgrad.randn(CLASSES, columns))
        self.filters = nn.Parameter(jitgrad.randn(CHANNELS, 1, 3) * 0.5)
        self.mixed = nn.Parameter(jitgrad.randn(1, CHANNELS, 3) * 0.5)
        self.register_buffer("mean", jitgrad.zeros(columns))
        self.register_buffer("var", jitgrad.ones(columns))
        self.opt: Any = None

    def with_optimizer(self, name: str) -> Net:
        """The net, with an optimizer of its parameters."""
        made: dict[str, Any] = {"SGD": lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
                                "AdamW": lambda p: optim.AdamW(p, lr=0.01)}
        self.opt = made[name](list(self.parameters()))
        return self


class Nets:
    """Writes `f`: x [N, D], ids and targets int64 [N], a `Net`, a float."""

    def __init__(self, seed: int, decided: bool = True):
        self.random = random.Random(seed)
        self.decided = decided  # whether tensors decide loops, branches and order
        self.lines: list[str] = []
        self.names = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self, low: float, high: float) -> str:
        return f"{self.random.uniform(low, high):.3f}"

    def square(self) -> str:
        return self.pick("net.w", "net.v")

    def bias(self) -> str:
        return self.pick("net.b", "net.c")

    def activation(self, text: str) -> str:
        return self.pick(f"F.relu({text})", f"F.gelu({text}, approximate='tanh')", f"F.gelu({text})",
                         f"({text}).tanh()", f"F.silu({text})", text)

    def linear(self, text: str) -> str:
        w, b = self.square(), self.bias()
        return self.pick(f"F.linear({text}, {w}, {b})", f"F.linear({text}, {w})", f"({text} @ {w} + {b})",
                         f"({text} @ {w}.t() + {b})")

    def layer(self, h: str) -> str:
        """Something of h's shape."""
        kind = self.random.randrange(17)
        if kind <= 3:
            return self.activation(self.linear(h))
        if kind == 4:
            inner = self.activation(f"F.linear({h}, net.up, net.bu)")
            return f"F.linear({inner}, net.down{self.pick('', ', net.b')}){self.pick('', f' + {h}')}"
        if kind <= 6:
            return self.pick(f"F.layer_norm({h}, (x.shape[1],), net.g, net.c)", f"F.layer_norm({h}, (x.shape[1],))",
                             f"F.layer_norm({h} + {self.linear(h)}, (x.shape[1],), net.g, net.b)",
                             f"({h} * ({h}.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * net.g)")
        if kind == 7:
            return self.pick(f"F.softmax({self.linear(h)}, -1)", f"F.softmax({h}, 0)", f"F.log_softmax({h}, -1) * 0.3",
                             f"F.softmax({h} @ {h}.t() * 0.3, -1) @ {h}")
        if kind == 8:
            return self.pick(f"{h} + F.embedding(ids, net.e)", f"{h} * net.e[ids]", f"{h}[ids % x.shape[0]] + {h}",
                             f"{h}.index_add(0, ids % x.shape[0], {h} * 0.5)",
                             f"{h} + {h}.gather(1, (ids % x.shape[1]).unsqueeze(1))")
        if kind == 9:
            rows = f"{h}.unsqueeze(1)"
            inner = self.pick("F.relu", "F.silu", "jitgrad.tanh")
            deep = f"{inner}(F.conv1d({rows}, net.filters, padding=1))"
            return self.pick(f"F.conv1d({deep}, net.mixed, padding=1).squeeze(1)", f"{deep}.mean(1)",
                             f"{deep}.amax(1)")
        if kind == 10:
            return self.pick(f"F.dropout({h}, 0.3)", f"{h} + jitgrad.randn_like({h}) * 0.1")
        if kind == 11:
            return f"F.batch_norm({h}, net.mean, net.var, net.g, net.b, True)"
        if kind == 12:
            smooth = (f"{h} - {h}.mean(0)", f"{h} * {h}.sum(0).tanh()", f"{h} / (1 + {h}.norm())", f"{h} + {h}.flip(0)",
                      f"{h}.cumsum(1) * 0.3", f"{h} * (1 + {h}.std(1, keepdim=True))")
            chosen = (f"{h} - {h}.amax(1, keepdim=True)", f"{h}.sort(1).values")  # by rounding, where values are close
            return self.pick(*smooth, *(chosen if self.decided else ()))
        if kind == 13:
            return f"jitgrad.where({h} > {self.number(-0.5, 0.5)}, {self.linear(h)}, {h} * 0.5)"
        if kind == 14:
            return f"jitgrad.cat([{h}[1:], {h}[:1] * net.g]){self.pick('', ' * s')}"
        return f"({h} * {self.pick('net.g', 'x', 's', '0.7')} + {self.pick('x', 'net.b', h)})"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, h: str) -> None:
        """Change h."""
        kind = self.random.randrange(12)
        if kind >= 5 or depth > 2 or not self.decided:
            self.line(depth, f"{h} = {self.layer(h)}")
            if self.random.random() < 0.1:
                self.line(depth, self.pick(f"{h} = {h}.clone(); {h}[0] *= 0.5", f"{h} = {h} * 1.0; {h} += net.b",
                                           f"{h} = {h} + 0.0; {h}[:, 0] = s"))
            return
        self.names += 1
        k = f"k{self.names}"
        if kind <= 1:
            self.line(depth, f"{k} = 0")
            bound = f"{k} < {self.random.randrange(2, 5)}"
            condition = self.pick(f"{h}.abs().max() > {self.number(0.3, 1.2)}", f"({h} * {h}).mean() > 0.3",
                                  f"{h}.sum() > {self.number(-1, 1)}", f"{h}.norm().item() > 0.8")
            self.line(depth, f"while {self.pick(f'{condition} and {bound}', f'{bound} and {condition}')}:")
            for _ in range(self.random.randrange(1, 3)):
                self.statement(depth + 1, h)
            self.line(depth + 1, f"{h} = {h} * {self.number(0.4, 0.9)}")
            self.line(depth + 1, f"{k} += 1")
            if self.random.random() < 0.4:
                self.line(depth + 1, f"if {h}.mean() > {self.number(-0.3, 0.3)}:")
                self.line(depth + 2, "break")
        elif kind == 2:
            self.line(depth, f"while {h}.abs().max() > {self.number(0.5, 1.5)}:")
            smaller = self.pick(f"{h} * 0.6", f"{h}.tanh() * 0.7", f"{h} * 0.5 + {h}.sin() * 0.1")
            self.line(depth + 1, f"{h} = {smaller}")
        else:
            deep = depth
            if kind == 3:
                self.line(depth, f"for {k} in range({self.random.randrange(2, 5)}):")
                deep += 1
            self.line(deep, f"if {h}.{self.pick('mean', 'sum')}() > {self.number(-0.3, 0.3)}:")
            self.statement(deep + 1, h)
            if self.random.random() < 0.5:
                self.line(deep, "else:")
                self.line(deep + 1, f"{h} = {self.layer(h)}")
            if kind == 3:
                self.line(deep, f"{h} = {h}.tanh()")

    def loss(self, h: str) -> str:
        return self.pick(f"F.cross_entropy({h} @ net.e.t(), targets)", f"F.mse_loss({h}, x)",
                         f"F.cross_entropy(F.linear({h}, net.e), targets, label_smoothing=0.1)",
                         f"F.nll_loss(F.log_softmax({h} @ net.e.t(), -1), targets)", f"({h} * {h}).mean()",
                         f"{h}.tanh().sum() * 0.1")

    def program(self) -> str:
        """The source of `f`."""
        self.line(0, "def f(x, ids, targets, net, s: float):")
        self.line(1, "F = jitgrad.nn.functional")
        if self.random.random() < 0.25:
            self.line(1, f"for step in range({self.random.randrange(1, 3)}):")
            self.line(2, "net.opt.zero_grad()")
            self.line(2, f"z = {self.layer('(x.detach() * net.g)')}")
            self.line(2, f"({self.loss('z')}).backward()")
            if self.random.random() < 0.5:
                self.line(2, "jitgrad.nn.utils.clip_grad_norm_([net.w, net.v, net.b, net.e], 0.5)")
            self.line(2, "net.opt.step()")
            self.line(1, "net.opt.zero_grad()")
        self.line(1, f"h = {self.pick('x', 'x * s', 'x + net.b')}")
        for _ in range(self.random.randrange(2, 7)):
            self.statement(1, "h")
        self.line(1, f"return {self.loss('h')} + {self.pick('(h * h).mean()', 'h[0].sum() * 0.1')}, h")
        return "\n".join(self.lines) + "\n"


__all__ = ["CLASSES", "Net", "Nets"]

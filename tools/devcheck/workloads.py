"""What is measured: programs written once against a torch-like module, for us and for PyTorch, and their floors.

    run = WORKLOADS["layer_norm"].make(torch, "cuda", torch.compile, **WORKLOADS["layer_norm"].sizes)
    run()                       # one step; gives the tensors that say whether it is right

`script` is what compiles: `jitgrad.script`, `torch.compile`, or nothing (eager). Numbers are waves, not draws, so that
every library has the same. A floor is the time that moving the bytes, or computing the products, takes at least; the
formulas are of `floor`, in bytes, or seconds where launches are all that there is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: bytes a second that a copy moves, FLOP a second of a bfloat16 product, seconds of a dependent kernel in a graph
BANDWIDTH, FLOPS, KERNEL = 4.3e12, 788e12, 1.5e-6
Script = Callable[[Any], Any]
Run = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """One row of the table. `tiny`: sizes for trying it without a GPU. `floor`: seconds, from the sizes."""

    make: Callable[..., Run]
    sizes: Mapping[str, int]
    tiny: Mapping[str, int]
    floor: Callable[..., float]
    title: str


WORKLOADS: dict[str, Workload] = {}


def workload(title: str, sizes: Mapping[str, int], tiny: Mapping[str, int], floor: Callable[..., float]
             ) -> Callable[[Callable[..., Run]], Callable[..., Run]]:
    """Register a workload under its function's name."""
    def mark(make: Callable[..., Run]) -> Callable[..., Run]:
        WORKLOADS[make.__name__] = Workload(make, sizes, tiny, floor, title)
        return make

    return mark


def wave(torch: Any, device: str, *shape: int, by: float = 0.37, dtype: Any = None, grad: bool = False) -> Any:
    """Numbers in [-1, 1] that every library computes alike."""
    count = 1
    for n in shape:
        count *= n
    x = (torch.arange(count, device=device) % 8191).to(torch.float32).mul(by).sin().reshape(shape)
    return (x if dtype is None else x.to(dtype)).requires_grad_(grad)


def forget(*tensors: Any) -> None:
    """No gradients."""
    for t in tensors:
        t.grad = None


@workload("train step of the lecture's two-layer net, 64-1000-100-10", {"n": 64, "d": 1000, "h": 100, "o": 10},
          {"n": 4, "d": 6, "h": 5, "o": 3}, lambda n, d, h, o: 8 * KERNEL)
def mlp_step(torch: Any, device: str, script: Script, n: int, d: int, h: int, o: int) -> Run:
    """Forward, loss, backward and SGD of a small net: nothing but launches."""
    x, y = wave(torch, device, n, d), wave(torch, device, n, o, by=0.11)
    step = sgd_step(torch, device, script, d, h, o)
    return lambda: step(x, y)


def sgd_step(torch: Any, device: str, script: Script, d: int, h: int, o: int) -> Callable[[Any, Any], Any]:
    """The lecture's net with its optimizer: the step on a batch."""
    model = torch.nn.Sequential(torch.nn.Linear(d, h), torch.nn.ReLU(), torch.nn.Linear(h, o)).to(device)
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(wave(torch, device, *p.shape, by=0.2 + k) * 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    @script
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return functools.partial(step, model, optimizer)


@workload("the same step, a new batch each time", {"n": 64, "d": 1000, "h": 100, "o": 10, "batches": 64},
          {"n": 4, "d": 6, "h": 5, "o": 3, "batches": 3}, lambda n, d, h, o, batches: 8 * KERNEL)
def mlp_batches(torch: Any, device: str, script: Script, n: int, d: int, h: int, o: int, batches: int) -> Run:
    """As a data loader gives them: the arrays of a step are at other addresses than those of the step before."""
    xs = [wave(torch, device, n, d, by=0.37 + k / 97) for k in range(batches)]
    ys = [wave(torch, device, n, o, by=0.11 + k / 97) for k in range(batches)]
    step, turn = sgd_step(torch, device, script, d, h, o), itertools.count()

    def run() -> Any:
        k = next(turn) % batches
        return step(xs[k], ys[k])

    return run


@workload("LayerNorm forward and backward, 16384 x 4096 bfloat16", {"m": 16384, "n": 4096}, {"m": 4, "n": 24},
          lambda m, n: 5 * m * n * 2 / BANDWIDTH)
def layer_norm(torch: Any, device: str, script: Script, m: int, n: int) -> Run:
    """Two passes forward, three backward."""
    x = wave(torch, device, m, n, dtype=torch.bfloat16, grad=True)
    w, b = (wave(torch, device, n, by=c, dtype=torch.bfloat16, grad=True) for c in (0.5, 0.6))
    g = wave(torch, device, m, n, by=0.9, dtype=torch.bfloat16)

    @script
    def f(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b)

    def run() -> Any:
        forget(x, w, b)
        f(x, w, b).backward(g)
        return x.grad

    return run


@workload("softmax and cross-entropy forward and backward, 8192 x 50304 bfloat16", {"m": 8192, "v": 50304},
          {"m": 4, "v": 37}, lambda m, v: 3 * m * v * 2 / BANDWIDTH)
def cross_entropy(torch: Any, device: str, script: Script, m: int, v: int) -> Run:
    """Logits are read twice and their gradient is written."""
    x = wave(torch, device, m, v, dtype=torch.bfloat16, grad=True)
    y = torch.arange(m, device=device) % v

    @script
    def f(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, y)

    def run() -> Any:
        forget(x)
        f(x, y).backward()
        return x.grad

    return run


@workload("bias, GELU, dropout and residual, forward and backward, 16384 x 4096 bfloat16", {"m": 16384, "n": 4096},
          {"m": 4, "n": 24}, lambda m, n: 6 * m * n * 2 / BANDWIDTH)
def bias_gelu_dropout(torch: Any, device: str, script: Script, m: int, n: int) -> Run:
    """The mask is drawn in the kernels, and again backward."""
    x, r = (wave(torch, device, m, n, by=c, dtype=torch.bfloat16, grad=True) for c in (0.37, 0.21))
    b = wave(torch, device, n, by=0.5, dtype=torch.bfloat16, grad=True)
    g = wave(torch, device, m, n, by=0.9, dtype=torch.bfloat16)

    @script
    def f(x: Any, b: Any, r: Any) -> Any:
        return torch.nn.functional.dropout(torch.nn.functional.gelu(x + b), 0.1) + r

    def run() -> Any:
        forget(x, b, r)
        f(x, b, r).backward(g)
        return r.grad

    return run


@workload("Adam on 100 million float32 parameters in 150 tensors", {"count": 150, "n": 666_667}, {"count": 3, "n": 17},
          lambda count, n: 28 * count * n / BANDWIDTH)
def adam(torch: Any, device: str, script: Script, count: int, n: int) -> Run:
    """One step; parameter, gradient and two moments are read, three of them written."""
    parameters = [torch.nn.Parameter(wave(torch, device, n, by=0.1 + k)) for k in range(count)]
    for p in parameters:
        p.grad = wave(torch, device, n, by=0.77)
    fused = {"fused": True} if torch.__name__ == "torch" and device != "cpu" else {}
    optimizer = torch.optim.Adam(parameters, lr=1e-3, **fused)

    @script
    def step(optimizer: Any) -> None:
        optimizer.step()

    def run() -> Any:
        step(optimizer)
        return parameters[0]

    return run


@workload("LSTM cell over 128 steps, batch 64, 512 to 512, bfloat16 forward", {"t": 128, "b": 64, "h": 512},
          {"t": 5, "b": 2, "h": 8}, lambda t, b, h: 2 * t * b * h * 4 * h / FLOPS + t * 2 * KERNEL)
def lstm(torch: Any, device: str, script: Script, t: int, b: int, h: int) -> Run:
    """A loop over time with two products a step."""
    x = wave(torch, device, t, b, h, dtype=torch.bfloat16)
    wx, wh = (wave(torch, device, h, 4 * h, by=c, dtype=torch.bfloat16) * 0.02 for c in (0.3, 0.4))
    bias = wave(torch, device, 4 * h, by=0.5, dtype=torch.bfloat16)

    @script
    def f(x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        hidden = x.new_zeros(x.shape[1], x.shape[2])
        cell = x.new_zeros(x.shape[1], x.shape[2])
        for k in range(x.shape[0]):
            gates = x[k] @ wx + hidden @ wh + bias
            i, f, g, o = gates.chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return hidden

    return lambda: f(x, wx, wh, bias)


def newton_floor(n: int) -> float:
    """Six iterations that read two arrays and write one."""
    return max(6 * KERNEL * 2, 6 * 12 * n / BANDWIDTH)


@workload("Kepler's equation by Newton until the largest step is small, 1 million", {"n": 1 << 20}, {"n": 33},
          newton_floor)
def newton(torch: Any, device: str, script: Script, n: int) -> Run:
    """A loop whose end the data decide."""
    mean = wave(torch, device, n) * 3

    @script
    def f(mean: Any, e: float, tolerance: float) -> Any:
        x = mean
        step = mean * 0 + 1
        while step.abs().max() > tolerance:
            step = (x - e * x.sin() - mean) / (1 - e * x.cos())
            x = x - step
        return x

    return lambda: f(mean, 0.3, 1e-5)


@workload("transformer block forward and backward, 16 x 1024 x 768, 12 heads, bfloat16",
          {"b": 16, "t": 1024, "c": 768, "heads": 12}, {"b": 1, "t": 6, "c": 16, "heads": 2},
          lambda b, t, c, heads: 3 * 2 * b * t * (12 * c * c + t * c) / FLOPS + 30 * b * t * c * 2 / BANDWIDTH)
def block(torch: Any, device: str, script: Script, b: int, t: int, c: int, heads: int) -> Run:
    """Attention with a causal mask, a perceptron, two LayerNorms."""
    F = torch.nn.functional
    x = wave(torch, device, b, t, c, dtype=torch.bfloat16, grad=True)
    shapes = {"qkv": (c, 3 * c), "out": (c, c), "up": (c, 4 * c), "down": (4 * c, c), "one": (c,), "two": (c,)}
    ws = {name: (wave(torch, device, *shape, by=0.1 + k) * 0.05).to(torch.bfloat16).detach().requires_grad_()
          for k, (name, shape) in enumerate(shapes.items())}
    g = wave(torch, device, b, t, c, by=0.9, dtype=torch.bfloat16)

    @script
    def f(x: Any, qkv: Any, out: Any, up: Any, down: Any, one: Any, two: Any) -> Any:
        n, length, width = x.shape
        y = F.layer_norm(x, (width,), one)
        q, k, v = (p.reshape(n, length, heads, width // heads).transpose(1, 2) for p in (y @ qkv).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(n, length, width) @ out
        return x + F.gelu(F.layer_norm(x, (width,), two) @ up, approximate="tanh") @ down

    def run() -> Any:
        forget(x, *ws.values())
        f(x, *ws.values()).backward(g)
        return x.grad

    return run


@workload("attention forward and backward, 16 x 12 heads x 1024 x 64, causal, bfloat16",
          {"b": 16, "heads": 12, "t": 1024, "d": 64}, {"b": 1, "heads": 2, "t": 5, "d": 8},
          lambda b, heads, t, d: 3.5 * 2 * b * heads * t * t * d / FLOPS)
def attention(torch: Any, device: str, script: Script, b: int, heads: int, t: int, d: int) -> Run:
    """Half of each product is masked; backward there are five of them."""
    q, k, v = (wave(torch, device, b, heads, t, d, by=c, dtype=torch.bfloat16, grad=True) for c in (0.37, 0.21, 0.45))
    g = wave(torch, device, b, heads, t, d, by=0.9, dtype=torch.bfloat16)

    @script
    def f(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def run() -> Any:
        forget(q, k, v)
        f(q, k, v).backward(g)
        return q.grad

    return run


def softmax_of(torch: Any, device: str, script: Script, m: int, n: int) -> Run:
    """Read and written forward; two read and one written backward."""
    x = wave(torch, device, m, n, dtype=torch.bfloat16, grad=True)
    g = wave(torch, device, m, n, by=0.9, dtype=torch.bfloat16)

    @script
    def f(x: Any) -> Any:
        return torch.nn.functional.softmax(x, -1)

    def run() -> Any:
        forget(x)
        f(x).backward(g)
        return x.grad

    return run


@workload("softmax forward and backward, 65536 x 1024 bfloat16", {"m": 65536, "n": 1024}, {"m": 4, "n": 24},
          lambda m, n: 5 * m * n * 2 / BANDWIDTH)
def softmax_1024(torch: Any, device: str, script: Script, m: int, n: int) -> Run:
    """Rows that a warp holds."""
    return softmax_of(torch, device, script, m, n)


@workload("softmax forward and backward, 2048 x 50257 bfloat16", {"m": 2048, "n": 50257}, {"m": 3, "n": 37},
          lambda m, n: 5 * m * n * 2 / BANDWIDTH)
def softmax_50257(torch: Any, device: str, script: Script, m: int, n: int) -> Run:
    """Rows that no block holds in registers, of an odd length."""
    return softmax_of(torch, device, script, m, n)


@workload("batch norm forward and backward, 32 x 64 x 56 x 56 float32", {"n": 32, "c": 64, "h": 56},
          {"n": 2, "c": 3, "h": 5}, lambda n, c, h: 8 * n * c * h * h * 4 / BANDWIDTH)
def batch_norm(torch: Any, device: str, script: Script, n: int, c: int, h: int) -> Run:
    """Few rows, over several axes: x is read twice and y written; g and x are read twice and a gradient is written."""
    x = wave(torch, device, n, c, h, h, grad=True)
    w, b = (wave(torch, device, c, by=a, grad=True) for a in (0.5, 0.6))
    g = wave(torch, device, n, c, h, h, by=0.9)

    @script
    def f(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.batch_norm(x, None, None, w, b, True)

    def run() -> Any:
        forget(x, w, b)
        f(x, w, b).backward(g)
        return x.grad

    return run


@workload("a transposed copy, 8192 x 8192 float32", {"n": 8192}, {"n": 9}, lambda n: 2 * n * n * 4 / BANDWIDTH)
def transposed(torch: Any, device: str, script: Script, n: int) -> Run:
    """Nothing but memory."""
    x = wave(torch, device, n, n)

    @script
    def f(x: Any) -> Any:
        return x.t().contiguous()

    return lambda: f(x)


@workload("a sum of two numbers: what a call costs", {"n": 1}, {"n": 1}, lambda n: KERNEL)
def call(torch: Any, device: str, script: Script, n: int) -> Run:
    """One small kernel."""
    x = wave(torch, device, n) + 1

    @script
    def f(x: Any) -> Any:
        return x + x

    return lambda: f(x)


__all__ = ["WORKLOADS", "Workload", "wave"]

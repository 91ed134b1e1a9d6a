"""How many bytes the forward of a program saves for its backward, besides its inputs."""

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.interpret import interpret

F = nn.functional
N, D, H = 16, 8, 32


def size(value):
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list):
        return sum(size(v) for v in value)
    return 0 if value is None else 8


def saved(f, *args):
    """Bytes of the residuals that are not inputs; those of numbers count as 8."""
    specialisation = jitgrad.script(f).specialise(*args)
    entered = specialisation.enter(jitgrad.script(f)._bind(*args))
    objects, arrays = entered
    graph = specialisation.function.graph
    wrt = [i for i, x in enumerate(objects) if getattr(x, "requires_grad", False)]
    derivative = differentiate(graph, wrt, (0,))
    results = interpret(derivative.forward, list(arrays), lambda target, value: None)
    kept = results[len(graph.outputs):]
    return sum(size(v) for v, r in zip(kept, derivative.residuals, strict=True)
               if r not in derivative.forward.inputs and isinstance(v, (np.ndarray, list)))


def tensor(*shape, grad=True):
    return jitgrad.randn(*shape, requires_grad=grad)


def mlp(x, w1, b1, w2, b2):
    return (F.relu(x @ w1 + b1) @ w2 + b2).sum()


def gelu_mlp(x, w1, w2):
    return (F.gelu(x @ w1) @ w2).sum()


def cross_entropy(x, w, y):
    return F.cross_entropy(x @ w, y)


def layer_norm(x, w, b):
    return (F.layer_norm(x, (D,), w, b) * x).sum()


def dropout(x):
    return (F.dropout(x, 0.5) * 2.0).sum()


def relu_chain(x):
    return F.relu(F.relu(F.relu(x) * 2.0) + 1.0).sum()


def rnn(x, h, wx, wh, b):
    for t in range(x.shape[0]):
        h = jitgrad.tanh(x[t] @ wx + h @ wh + b)
    return h.sum()


def attention(q, k, v):
    return (F.softmax(q @ k.transpose(-2, -1) * 0.5, dim=-1) @ v).sum()


def newton(a):
    x = a
    while bool((x * x - a).abs().max() > 1e-4):
        x = (x + a / x) / 2
    return x.sum()


def branch(x, flag: bool):
    if flag:
        return jitgrad.exp(jitgrad.sin(x)).sum()
    return jitgrad.tanh(x).sum()


def embedding(table, ids):
    return (table[ids] * 3.0).sum()


def batch_norm(x, w, b):
    mean = x.mean(dim=0)
    var = ((x - mean) ** 2).mean(dim=0)
    return ((x - mean) * jitgrad.rsqrt(var + 1e-5) * w + b).pow(2).sum()


def views(x):
    return x.reshape(D, N).transpose(0, 1)[2:5].flip(0).sum()


def join(x, y):
    return jitgrad.cat([x, y], dim=1).sum()


X = tensor(N, D)
F32 = 4
#: name -> function, arguments, bytes
CASES = {
    "mlp": (mlp, (tensor(N, D, grad=False), tensor(D, H), tensor(H), tensor(H, 3), tensor(3)),
            N * H * F32),  # relu's result, which the second layer reads too
    "gelu_mlp": (gelu_mlp, (tensor(N, D, grad=False), tensor(D, H), tensor(H, 3)),
                 2 * N * H * F32),  # gelu's operand and its result
    "cross_entropy": (cross_entropy, (tensor(N, D, grad=False), tensor(D, 5), jitgrad.randint(0, 5, (N,))),
                      N * 5 * F32 + N * 8 + N + F32),  # log_softmax, the targets, which of them count, how many
    "layer_norm": (layer_norm, (X, tensor(D), tensor(D)),
                   2 * N * F32),  # two numbers of each row
    "dropout": (dropout, (X,), 0),  # drawn again
    "relu_chain": (relu_chain, (X,), 0),
    "rnn": (rnn, (tensor(20, 4, D, grad=False), tensor(4, H), tensor(D, H), tensor(H, H), tensor(H)),
            20 * 4 * H * F32 + 4 * H * F32),  # 512 bytes per step, and the last state
    "attention": (attention, (tensor(2, N, D), tensor(2, N, D), tensor(2, N, D)), 2 * N * N * F32),
    "newton": (newton, (jitgrad.full((D,), 2.0, requires_grad=True),), 3 * D * F32),  # x of 3 iterations
    "branch": (branch, (X, True), N * D * F32),
    "branch not taken": (branch, (X, False), N * D * F32),
    "embedding": (embedding, (tensor(50, D), jitgrad.randint(0, 50, (N,))), N),  # which of them are negative
    "batch_norm": (batch_norm, (X, tensor(D), tensor(D)),
                   2 * D * F32),  # two numbers of each column
    "views": (views, (X,), 0),
    "join": (join, (X, tensor(N, 3)), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_saved_bytes(name):
    f, args, expected = CASES[name]
    assert saved(f, *args) == expected

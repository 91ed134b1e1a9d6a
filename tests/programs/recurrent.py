"""Recurrent networks written by hand: cells, stacks, directions, lengths."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn
from tests.programs.harness import data, program, weight


@program(
    (data(5, 2, 3), data(2, 4), weight(3, 4), weight(4, 4), weight(4)),
    (data(1, 3, 3), data(3, 4), weight(3, 4), weight(4, 4), weight(4)),
    (data(0, 2, 3), data(2, 4), weight(3, 4), weight(4, 4), weight(4)),
)
def elman(xs, h, w_in, w_rec, b):
    for x in xs:
        h = torch.tanh(x @ w_in + h @ w_rec + b)
    return h


@program(
    (data(4, 2, 3), weight(3, 16), weight(4, 16), weight(16)),
    (data(7, 3, 3), weight(3, 16), weight(4, 16), weight(16)),
    (data(1, 2, 3), weight(3, 16), weight(4, 16), weight(16)),
)
def lstm_by_hand(xs, w_ih, w_hh, b):
    batch, hidden = xs.size(1), w_hh.size(0)
    h = torch.zeros(batch, hidden)
    c = torch.zeros(batch, hidden)
    outputs = []
    for t in range(xs.size(0)):
        gates = xs[t] @ w_ih + h @ w_hh + b
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs), (h, c)


@program(
    (data(4, 2, 3), data(2, 5), weight(3, 15), weight(5, 15)),
    (data(2, 3, 3), data(3, 5), weight(3, 15), weight(5, 15)),
)
def gru_by_hand(xs, h, w_ih, w_hh):
    n = h.size(1)
    for t in range(len(xs)):
        gi, gh = xs[t] @ w_ih, h @ w_hh
        r = torch.sigmoid(gi[:, :n] + gh[:, :n])
        z = torch.sigmoid(gi[:, n:2 * n] + gh[:, n:2 * n])
        new = torch.tanh(gi[:, 2 * n:] + r * gh[:, 2 * n:])
        h = (1 - z) * new + z * h
    return h


@program(
    (data(5, 3), weight(3, 4), weight(4, 4), weight(4, 4, seed=9)),
    (data(1, 3), weight(3, 4), weight(4, 4), weight(4, 4, seed=9)),
    (data(9, 3), weight(3, 4), weight(4, 4), weight(4, 4, seed=9)),
)
def bidirectional(xs, w_in, w_fw, w_bw):
    def sweep(steps, w):
        h = torch.zeros(w.shape[0])
        states = []
        for t in steps:
            h = torch.tanh(xs[t] @ w_in + h @ w)
            states.append(h)
        return states

    n = xs.shape[0]
    forward = sweep(range(n), w_fw)
    backward = sweep(range(n - 1, -1, -1), w_bw)
    backward.reverse()
    return torch.cat([torch.stack(forward), torch.stack(backward)], dim=1)


@program(
    (data(3, 2, 4), 0.9),
    (data(5, 3, 4), 0.1),
)
class Stacked(nn.Module):
    """Two cells on top of each other, with a skip where the widths allow it; counts its calls."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(4, 6), nn.GRUCell(6, 6)])
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, xs, keep: float):
        self.calls += 1
        hs = [torch.zeros(xs.size(1), 6) for _ in self.cells]
        for x in xs:
            for i, cell in enumerate(self.cells):
                h = cell(x, hs[i])
                hs[i] = keep * h + (1 - keep) * x if x.shape[-1] == h.shape[-1] else h
                x = hs[i]
            self.seen += 1
        return x

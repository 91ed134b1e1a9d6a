"""Recurrent networks written by hand: cells, stacks, directions, lengths."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import data, ints, program, tokens, weight


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


@program(
    (data(6, 3, 2), ints(6, 3, 1), weight(2, 5), weight(5, 5)),
    (data(4, 2, 2), ints(4, 4), weight(2, 5), weight(5, 5)),
    (data(9, 4, 2), ints(1, 0, 9, 3), weight(2, 5), weight(5, 5)),
)
def masked_lengths(xs, lengths, w_in, w_rec):
    h = torch.zeros(xs.shape[1], w_rec.shape[0])
    total = torch.zeros_like(h)
    for t in range(int(lengths.max())):
        alive = (t < lengths).unsqueeze(1)
        h = torch.where(alive, torch.tanh(xs[t] @ w_in + h @ w_rec), h)
        total += h * alive.float()
    return h, total / lengths.clamp(min=1).unsqueeze(1)


@program(
    (data(3, 4), weight(4, 4, scale=0.3), 1e-2, 20),
    (data(5, 4), weight(4, 4, scale=0.3), 1e-4, 50),
    (data(3, 4), weight(4, 4, scale=0.3), 100.0, 10),
)
def stop_per_sequence(h, w, tolerance: float, limit: int):
    """Every row stops when it has settled; the loop stops when all have."""
    done = torch.zeros(h.shape[0], dtype=torch.bool)
    steps = torch.zeros(h.shape[0], dtype=torch.int64)
    for _ in range(limit):
        new = torch.tanh(h @ w)
        change = (new - h).abs().amax(dim=1)
        h = torch.where(done.unsqueeze(1), h, new)
        steps += (~done).long()
        done = done | (change < tolerance)
        if done.all():
            break
    return h, steps


@program(
    (tokens(5, 3, below=7), weight(7, 4), weight(4, 4), weight(4, 7), 0.5),
    (tokens(8, 2, below=7), weight(7, 4), weight(4, 4), weight(4, 7), 0.0),
    (tokens(2, 3, below=7), weight(7, 4), weight(4, 4), weight(4, 7), 1.0),
)
def teacher_forcing(target, embed, w, out, ratio: float):
    h = torch.zeros(target.size(1), w.size(0))
    token = target[0]
    loss, forced = 0.0, 0
    for t in range(1, target.size(0)):
        h = torch.tanh(embed[token] + h @ w)
        logits = h @ out
        loss = loss + F.cross_entropy(logits, target[t])
        if torch.rand(1).item() < ratio:
            token = target[t]
            forced += 1
        else:
            token = logits.argmax(dim=1)
    return loss, forced


@program(
    (data(4, 3, 6), data(3, 6), weight(12, 6), weight(6, 5), ints(1, 2, 0), 6),
    (data(7, 2, 6), data(2, 6), weight(12, 6), weight(6, 5), ints(3, 3), 1),
    (data(2, 4, 6), data(4, 6), weight(12, 6), weight(6, 5), ints(0, 1, 2, 3), 9),
)
def attention_decoder(memory, h, w, out, first, limit: int):
    """Greedy decoding with dot attention until every sequence has said token 0."""
    token = first
    finished = torch.zeros_like(first, dtype=torch.bool)
    said, weights = [], []
    for _ in range(limit):
        scores = (memory * h).sum(dim=-1)
        alpha = scores.softmax(dim=0)
        context = (alpha.unsqueeze(-1) * memory).sum(dim=0)
        h = torch.tanh(torch.cat([h, context], dim=-1) @ w) + 0.1 * token.unsqueeze(-1)
        token = (h @ out).argmax(dim=-1)
        token = token.masked_fill(finished, 0)
        said.append(token)
        weights.append(alpha)
        finished |= token == 0
        if bool(finished.all()):
            break
    return torch.stack(said, dim=1), torch.stack(weights, dim=1), h


@program(
    (data(6, 2, 3), [(weight(3, 4), weight(4, 4)), (weight(4, 4), weight(4, 4, seed=5))], 0.0, True),
    (data(3, 3, 3), [(weight(3, 4), weight(4, 4)), (weight(4, 4), weight(4, 4, seed=5))], 0.4, True),
    (data(4, 3, 3), [(weight(3, 4), weight(4, 4)), (weight(4, 4), weight(4, 4, seed=5))], 0.4, False),
)
def stacked_with_dropout(xs, layers, p: float, training: bool):
    last = []
    for w_in, w_rec in layers:
        h = torch.zeros(xs.shape[1], w_rec.shape[0])
        outs = []
        for x in xs:
            h = torch.tanh(x @ w_in + h @ w_rec)
            outs.append(h)
        xs = F.dropout(torch.stack(outs), p, training)
        last.append(h)
    return xs, torch.stack(last)


@program(
    (data(7, 3), weight(3, 4), weight(4, 4), 3),
    (data(10, 3), weight(3, 4), weight(4, 4), 4),
    (data(2, 3), weight(3, 4), weight(4, 4), 5),
)
def truncated_backpropagation(xs, w_in, w_rec, every: int):
    h = torch.zeros(w_rec.shape[0])
    losses = []
    for t in range(xs.shape[0]):
        if t > 0 and t % every == 0:
            losses.append(h.pow(2).mean())
            h = h.detach()
        h = torch.tanh(xs[t] @ w_in + h @ w_rec)
    losses.append(h.pow(2).mean())
    return sum(losses)


@program(
    (data(5, 2, 3), data(2, 4), weight(3, 4), weight(4, 4), weight(7, 1), weight(7, 1, seed=4)),
    (data(2, 3, 3), data(3, 4), weight(3, 4), weight(4, 4), weight(7, 1), weight(7, 1, seed=4)),
)
def minimal_gated_unit(xs, h, w_in, w_rec, forget, peep):
    gates = []
    for t, x in enumerate(xs):
        f = torch.sigmoid(torch.cat([x, h], -1) @ forget)
        candidate = torch.tanh(x @ w_in + (f * h) @ w_rec)
        h = (1 - f) * h + f * candidate
        if t % 2 == 1:
            h = h * torch.sigmoid(torch.cat([x, h], -1) @ peep)
        gates.append(f.mean())
    return h, torch.stack(gates)


@program(
    (data(4, 5, 3), weight(5, 5), weight(3, 5), weight(5)),
    (data(6, 5, 3), weight(5, 5), weight(3, 5), weight(5)),
)
def echo_state(xs, w, w_in, read):
    """Only the read-out learns: the reservoir runs without a tape, its spectral norm below one."""
    with torch.no_grad():
        w = w * (0.9 / torch.linalg.norm(w))
        h = torch.zeros(xs.size(1), w.size(0))
        collected = []
        for x in xs:
            h = 0.7 * h + 0.3 * torch.tanh(x @ w_in + h @ w)
            collected.append(h.clone())
        states = torch.stack(collected)
    return (states * read).sum(-1)


@program(
    (data(6, 2), [1, 2, 4], weight(2, 3), weight(3, 3)),
    (data(11, 2), [1, 2, 4], weight(2, 3), weight(3, 3)),
    (data(3, 2), [1, 3, 2], weight(2, 3), weight(3, 3)),
)
def clockwork(xs, periods, w_in, w_rec):
    """Parts of the state that tick at their own rates."""
    states = [torch.zeros(3) for _ in periods]
    for t in range(xs.shape[0]):
        mean = sum(states) / len(states)
        for k, period in enumerate(periods):
            if t % period == 0:
                states[k] = torch.tanh(xs[t] @ w_in + mean @ w_rec)
    return torch.cat(states)


@program(
    (data(8, 4), weight(4, 12), weight(4, 12), 0.2),
    (data(3, 4), weight(4, 12), weight(4, 12), -1.0),
    (data(5, 4), weight(4, 12), weight(4, 12), 9.0),
)
def zoneout_lstm(xs, w_x, w_h, threshold: float):
    """A state of which units are kept where the input is weak, and that is reset by strong ones."""
    h = c = torch.zeros(w_h.size(0) - 1)
    resets: int = 0
    for x in xs:
        i, f, g = (x @ w_x + F.pad(h, (0, 1)) @ w_h)[:9].view(3, 3).sigmoid().unbind(0)
        new = f * c + i * (2 * g - 1)
        if x.mean() > 0.8:
            c = torch.zeros_like(c)
            resets += 1
        else:
            c = torch.where(x[:3].abs() < threshold, c, new)
        h = torch.tanh(c)
    return h, c, resets

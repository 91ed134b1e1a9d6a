"""Networks with an external memory, and state that Python objects carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, tokens, weight


class Heads(NamedTuple):
    """What a controller of a neural Turing machine carries from step to step."""

    read: torch.Tensor
    write: torch.Tensor
    memory: torch.Tensor


def address(memory, key, strength, gate, previous):
    content = F.softmax(strength * F.cosine_similarity(memory, key.unsqueeze(0), dim=-1), dim=0)
    mixed = gate * content + (1 - gate) * previous
    shifted = 0.8 * mixed + 0.1 * torch.roll(mixed, 1) + 0.1 * torch.roll(mixed, -1)
    sharp = shifted ** 1.5
    return sharp / sharp.sum()


@program(
    (data(4, 3), data(5, 3, scale=0.1), weight(3, 6), weight(3, 3)),
    (data(7, 3), data(8, 3, scale=0.1), weight(3, 6), weight(3, 3)),
    (data(2, 3), data(3, 3, scale=0.1), weight(3, 6), weight(3, 3)),
)
def neural_turing_machine(xs, memory, w_key, w_erase):
    n = memory.size(0)
    state = Heads(torch.full((n,), 1.0 / n), torch.full((n,), 1.0 / n), memory)
    outs = []
    for x in xs:
        k_read, k_write = (x @ w_key).tanh().chunk(2)
        gate = torch.sigmoid(x.sum())
        w = address(state.memory, k_write, 2.0, gate, state.write)
        erase = torch.sigmoid(x @ w_erase)
        m = state.memory * (1 - torch.outer(w, erase)) + torch.outer(w, x)
        r = address(m, k_read, 3.0, gate, state.read)
        outs.append(r @ m)
        state = Heads(read=r, write=w, memory=m)
    return torch.stack(outs), state


@dataclass
class Stack:
    """A differentiable stack: values with strengths."""

    values: torch.Tensor
    strengths: torch.Tensor
    pushed: int = 0


@program(
    (data(4, 3), floats(0.9, 0.3, 0.8, 0.2), floats(0.0, 0.5, 0.1, 0.9)),
    (data(2, 3), floats(0.9, 0.3), floats(0.0, 2.0)),
)
def continuous_stack(xs, push, pop):
    stack = Stack(torch.zeros(0, 3), torch.zeros(0))
    reads = []
    for t in range(xs.shape[0]):
        left = pop[t]
        kept = []
        for k in range(stack.strengths.shape[0] - 1, -1, -1):
            s = stack.strengths[k]
            kept.insert(0, F.relu(s - left))
            left = F.relu(left - s)
        strengths = torch.cat([torch.stack(kept), push[t:t + 1]]) if len(kept) > 0 else push[t:t + 1]
        stack = Stack(torch.cat([stack.values, xs[t:t + 1]]), strengths, stack.pushed + 1)
        room = torch.ones(())
        read = torch.zeros(3)
        for k in range(stack.pushed - 1, -1, -1):
            share = torch.minimum(stack.strengths[k], room)
            read = read + share * stack.values[k]
            room = F.relu(room - stack.strengths[k])
            if room == 0:
                break
        reads.append(read)
    return torch.stack(reads), stack.pushed


@program(
    (weight(2, 4), data(6, 4), weight(4, 4), 3),
    (weight(3, 4), data(2, 4), weight(4, 4), 1),
    (weight(2, 4), data(5, 4), weight(4, 4), 0),
)
def memory_network(query, facts, w, hops: int):
    u = query
    attention = []
    for hop in range(hops):
        p = F.softmax(u @ facts.t(), dim=-1)
        attention.append(p.max().item())
        u = u @ w + p @ facts
        if hop > 0 and abs(attention[-1] - attention[-2]) < 1e-2:
            break
    return u, attention


@program(
    (data(5, 3), 3),
    (data(9, 3), 3),
    (data(2, 3), 4),
)
class ReplayBuffer(nn.Module):
    """A ring buffer in module state; a batch is drawn from what is filled."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.at = 0
        self.head = nn.Linear(3, 2)

    def forward(self, new, batch: int):
        for row in new:
            self.rows[self.at] = row
            self.at = (self.at + 1) % 4
            self.filled.add_(1)
        n = min(int(self.filled), 4)
        index = torch.randint(0, n, (batch,))
        return self.head(self.rows[index]).pow(2).mean(), n


@program(
    (data(4, 3), data(3, 3), 1.0),
    (data(7, 3), data(2, 3), 10.0),
)
def key_value_store(queries, keys, temperature: float):
    """Slots are allocated when nothing known is near; the oldest is overwritten when all are taken."""
    memory = keys.clone()
    age = torch.arange(memory.size(0))
    allocated = 0
    for q in queries:
        similarity = F.cosine_similarity(memory, q.unsqueeze(0))
        best = int(similarity.argmax())
        if similarity[best] > 0.7:
            memory[best] = F.normalize(memory[best] + temperature * q, dim=0)
        else:
            best = int(age.argmax())
            memory[best] = q
            allocated += 1
        age += 1
        age[best] = 0
    return memory, age, allocated


@program(
    (weight(4, 4, scale=0.3), data(3, 4), 0.9, 5),
    (weight(4, 4, scale=0.3), data(2, 4), 0.5, 0),
    (weight(4, 4, scale=0.3), data(4, 4), 0.99, 9),
)
def hopfield(w, probes, beta: float, limit: int):
    """Modern Hopfield retrieval until the pattern stands still."""
    patterns = F.normalize(w, dim=1)
    energy = []
    for it in range(limit):
        weights = torch.softmax(probes @ patterns.T / (1 - beta), dim=-1)
        new = weights @ patterns
        energy.append((new - probes).square().sum())
        probes = new
        if energy[-1] < 1e-6:
            print("stood still at", it)
            break
    return probes, len(energy), sum(energy) if len(energy) > 0 else torch.zeros(())


@program(
    (tokens(9, below=5), 2),
    (tokens(4, below=5), 1),
    (ints(1, 1, 1), 3),
)
def counting_cache(requests, size: int):
    """Least recently used pages: hits and misses with a list as the order of use."""
    order = []
    hits = 0
    for r in requests:
        page = int(r)
        if page in order:
            order.remove(page)
            hits += 1
        elif len(order) >= size:
            order.pop(0)
        order.append(page)
    print(f"{hits} hits of {len(requests)} ({100 * hits / len(requests):.1f}%)")
    return hits, order


@program(
    (data(3, 2, 4), {"h": data(2, 4), "c": data(2, 4)}, weight(4, 4)),
    (data(5, 3, 4), {"h": data(3, 4), "c": data(3, 4)}, weight(4, 4)),
)
def state_in_a_dict(xs, state, w):
    state = dict(state)
    state["steps"] = 0
    for x in xs:
        gate = torch.sigmoid(state["h"] @ w + x)
        state["c"] = gate * state["c"] + (1 - gate) * x
        state["h"] = torch.tanh(state["c"])
        state["steps"] += 1
    return state


@program(
    (data(6, 3), weight(3, 3), 2),
    (data(3, 3), weight(3, 3), 5),
    (data(1, 3), weight(3, 3), 1),
)
def delay_line(xs, w, delay: int):
    """A queue of past states: the oldest comes out when it is full."""
    queue = []
    h = torch.zeros(3)
    for x in xs:
        past = queue.pop(0) if len(queue) >= delay else torch.zeros(3)
        h = torch.tanh(x + past @ w + 0.5 * h)
        queue.append(h)
    return h, len(queue), torch.stack(queue).mean(0)

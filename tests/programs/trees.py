"""Trees and stacks: shift-reduce, recursion over nested tuples, pointers, stack machines."""

from __future__ import annotations

from typing import NamedTuple

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, tokens, weight


@program(
    (data(4, 3), ints(0, 0, 1, 0, 1, 0, 1), weight(6, 15)),
    (data(2, 3), ints(0, 0, 1), weight(6, 15)),
    (data(1, 3), ints(0), weight(6, 15)),
    (data(5, 3), ints(0, 0, 0, 1, 1, 0, 0, 1, 1), weight(6, 15)),
)
def tree_lstm(leaves, ops, w):
    """Binary tree-LSTM over a sequence of shifts (0) and reductions (1); the stack holds (h, c)."""
    stack = []
    at = 0
    for op in ops:
        if op == 0:
            stack.append((torch.tanh(leaves[at]), leaves[at]))
            at += 1
        else:
            hr, cr = stack.pop()
            hl, cl = stack.pop()
            i, fl, fr, o, u = (torch.cat([hl, hr]) @ w).chunk(5)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * cl + torch.sigmoid(fr) * cr
            stack.append((torch.sigmoid(o) * torch.tanh(c), c))
    h, _ = stack.pop()
    return h, len(stack)


@program(
    (data(3, 2), ints(0, 0, 1, 0, 1), weight(4, 2), weight(2, 3), 2),
    (data(3, 2), ints(0, 1, 0, 1), weight(4, 2), weight(2, 3), 0),
)
def shift_reduce_with_errors(words, ops, compose, classify, label: int):
    """A malformed sequence raises, as the list does."""
    stack, buffer = [], list(words.flip(0))
    loss = torch.zeros(())
    for op in ops:
        if op == 0:
            stack.append(buffer.pop())
        else:
            right = stack.pop()
            left = stack.pop()
            node = torch.relu(torch.cat([left, right]) @ compose)
            loss = loss + F.cross_entropy((node @ classify).unsqueeze(0), torch.tensor([label]))
            stack.append(node)
    if len(stack) != 1:
        raise ValueError(f"{len(stack)} trees are left")
    return stack[0], loss


TREE = ((0, 1), (2, (3, 1)))
FLAT = (0, (1, (2, 3)))


def encode(tree, embed, w):
    if isinstance(tree, int):
        return embed[tree]
    left, right = (encode(child, embed, w) for child in tree)
    return torch.tanh(torch.cat([left, right]) @ w)


@program(
    (weight(4, 3), weight(6, 3), 0.5),
    (weight(4, 3), weight(6, 3), -0.5),
)
def recursive_network(embed, w, balance: float):
    """Recursion over trees that the program knows."""
    a, b = encode(TREE, embed, w), encode(FLAT, embed, w)
    if (a - b).norm() > balance:
        return a * balance + b
    return a - b * balance


class Node(NamedTuple):
    """The innermost part of the stack of `expression`: a value and its depth."""

    value: torch.Tensor
    depth: int


@program(
    (ints(0, 1, 5, 2, 6), weight(3)),
    (ints(2), weight(3)),
    (ints(0, 1, 2, 5, 5, 0, 6, 1, 6), weight(3)),
)
def expression(postfix, variables):
    """Postfix: below 3 a variable, 5 adds, 6 multiplies."""
    stack = []
    for code in postfix:
        c = int(code)
        if c < 3:
            stack.append(Node(variables[c], 1))
            continue
        b = stack.pop()
        a = stack.pop()
        value = a.value + b.value if c == 5 else a.value * b.value
        stack.append(Node(value, max(a.depth, b.depth) + 1))
    return stack[-1].value, stack[-1].depth


@program(
    (data(5, 3), ints(-1, 0, 0, 1, 1), weight(3, 3), weight(3, 3)),
    (data(3, 3), ints(-1, 0, 1), weight(3, 3), weight(3, 3)),
    (data(1, 3), ints(-1), weight(3, 3), weight(3, 3)),
)
def child_sum_by_parents(x, parent, w, u):
    """Nodes are numbered from the root down, so children come after their parents."""
    n = x.size(0)
    sums = [torch.zeros(x.size(1)) for _ in range(n)]
    h = torch.zeros(x.size(1))
    for k in range(n - 1, -1, -1):
        h = torch.tanh(x[k] @ w + sums[k] @ u)
        p = int(parent[k])
        if p >= 0:
            sums[p] = sums[p] + h
    return h


@program(
    (data(4, 3), weight(3, 3), weight(3, 3), weight(3)),
    (data(6, 3), weight(3, 3), weight(3, 3), weight(3)),
    (data(1, 3), weight(3, 3), weight(3, 3), weight(3)),
)
def pointer_network(x, w_key, w_query, v):
    """Visits every input once; those visited are masked."""
    n = x.shape[0]
    visited = torch.zeros(n, dtype=torch.bool)
    query = x.mean(0)
    order, logp = [], torch.zeros(())
    for _ in range(n):
        scores = torch.tanh(x @ w_key + query @ w_query) @ v
        scores = scores.masked_fill(visited, float("-inf"))
        dist = F.log_softmax(scores, dim=0)
        choice = dist.argmax()
        logp = logp + dist[choice]
        visited = visited.clone()
        visited[choice] = True
        query = x[choice]
        order.append(choice.item())
    length = sum((x[order[k]] - x[order[k - 1]]).norm() for k in range(len(order)))
    return logp, order, length


@program(
    (weight(4, 4), 4, 0.0),
    (weight(4, 4), 3, 0.5),
    (weight(4, 4), 1, 2.0),
)
def agglomerate(x, n: int, limit: float):
    """Merges the closest pair until all are farther apart than the limit."""
    groups = [x[k] * 1.0 for k in range(n)]
    merges = 0
    while len(groups) > 1:
        best, bi, bj = float("inf"), 0, 1
        for i in range(len(groups)):
            for j in range(i + 1, len(groups)):
                d = (groups[i] - groups[j]).norm().item()
                if d < best:
                    best, bi, bj = d, i, j
        if best > 1 + limit:
            break
        b = groups.pop(bj)
        a = groups.pop(bi)
        groups.append((a + b) / 2)
        merges += 1
    return torch.stack(groups).sum(0), len(groups), merges


@program(
    (floats(3.0, 1.0, 2.0, 5.0, 4.0), 3),
    (floats(1.0), 1),
    (floats(2.0, 2.0, 1.0, 0.0), 0),
)
def heap_of_the_smallest(values, k: int):
    """A binary heap in a list: sift up, sift down."""
    heap = []
    for v in values:
        heap.append(float(v))
        i = len(heap) - 1
        while i > 0 and heap[(i - 1) // 2] > heap[i]:
            parent = (i - 1) // 2
            heap[i], heap[parent] = heap[parent], heap[i]
            i = parent
    out = []
    while heap and len(out) < k:
        out.append(heap[0])
        last = heap.pop()
        if heap:
            heap[0] = last
            i = 0
            while True:
                child = 2 * i + 1
                if child >= len(heap):
                    break
                if child + 1 < len(heap) and heap[child + 1] < heap[child]:
                    child += 1
                if heap[i] <= heap[child]:
                    break
                heap[i], heap[child] = heap[child], heap[i]
                i = child
    return out


@program(
    (tokens(6, 2, below=6), weight(6, 3), weight(3, 3), 2),
    (ints([0, 1], [1, 2]), weight(3, 3), weight(3, 3), 1),
    (ints([0, 0]), weight(2, 3), weight(3, 3), 0),
)
class MessagePassing(nn.Module):
    """A graph network over a list of edges; the degrees decide who is heard."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 1)

    def forward(self, edges, h, w, rounds: int):
        n = h.size(0)
        degree = torch.zeros(n).scatter_add(0, edges[:, 1], torch.ones(edges.size(0)))
        for r in range(rounds):
            message = torch.relu(h[edges[:, 0]] @ w)
            message = message * torch.sigmoid(self.gate(message))
            gathered = torch.zeros_like(h).index_add(0, edges[:, 1], message)
            h = h + gathered / degree.clamp(min=1).unsqueeze(1)
            if r > 0 and h.abs().max() > 10:
                h = F.normalize(h, dim=1)
        return h


@program(
    (ints([0, 1], [1, 2], [3, 4]), 5),
    (ints([0, 1], [1, 0]), 3),
    (ints([2, 0]), 4),
)
def union_find(edges, n: int):
    parent = torch.arange(n)
    components = n
    for a, b in edges:
        i, j = int(a), int(b)
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = int(parent[i])
        while parent[j] != j:
            j = int(parent[j])
        if i != j:
            parent[i] = j
            components -= 1
    return components, parent

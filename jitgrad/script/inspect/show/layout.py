"""Where boxes and edges of a layered drawing go (after Sugiyama, Tagawa and Toda, 1981).

    place(sizes=[(60, 20), (60, 20)], edges=[(0, 1)])      boxes from top to bottom, every edge pointing down

1. rank: the longest path from a source; sources, and chains from them, move down to just above their first reader;
2. edges over several ranks get a bend in each rank between, so that they pass beside its boxes;
3. order within ranks: barycentres, down and up, the best of several sweeps by the number of crossings;
4. coordinates: each rank as near to its neighbours' mean as the distances allow (isotonic regression).
"""

import itertools
from collections.abc import Sequence
from graphlib import TopologicalSorter

from jitgrad.classes import dataclass

SWEEPS = 12
GAP_X, GAP_Y = 18.0, 30.0

Size = tuple[float, float]
Point = tuple[float, float]


@dataclass(slots=True)
class Placed:
    """Top left corners of the boxes, the points of each edge from reader-side bottom to top, and the whole size."""

    corners: list[Point]
    edges: list[list[Point]]
    width: float
    height: float


def place(sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> Placed:
    """Lay out boxes of `sizes` (width, height) and `edges` (from, to), which have no cycle."""
    ranks = _ranks(len(sizes), edges)
    chains: list[list[int]] = []
    boxes = list(sizes)
    rank_of = list(ranks)
    links: list[tuple[int, int]] = []
    bend: dict[tuple[int, int], int] = {}  # edges of one value share their bends
    for a, b in edges:
        chain = [a]
        for r in range(ranks[a] + 1, ranks[b]):
            found = bend.get((a, r))
            if found is None:
                found = bend[a, r] = len(boxes)
                boxes.append((0.0, 0.0))
                rank_of.append(r)
                links.append((chain[-1], found))
            chain.append(found)
        chain.append(b)
        links.append((chain[-2], b))
        chains.append(chain)
    layers: list[list[int]] = [[] for _ in range(max(rank_of, default=-1) + 1)]
    for v, r in enumerate(rank_of):
        layers[r].append(v)
    _order(layers, links, len(boxes))
    centre = _coordinates(layers, links, boxes)
    left = min((centre[v] - boxes[v][0] / 2 for v in range(len(boxes))), default=0.0)
    right = max((centre[v] + boxes[v][0] / 2 for v in range(len(boxes))), default=0.0)
    tops, y = [], 0.0
    for layer in layers:
        tops.append(y)
        y += max(boxes[v][1] for v in layer) + GAP_Y
    heights = [max(boxes[v][1] for v in layer) for layer in layers]
    corners = [(centre[v] - boxes[v][0] / 2 - left,
                tops[rank_of[v]] + (heights[rank_of[v]] - boxes[v][1]) / 2) for v in range(len(sizes))]
    lines = []
    ports = _ports(chains, centre)
    for number, chain in enumerate(chains):
        a, b = chain[0], chain[-1]
        points = [(centre[a] - left, corners[a][1] + sizes[a][1])]
        if corners[a][1] + sizes[a][1] < tops[rank_of[a]] + heights[rank_of[a]]:
            points.append((centre[a] - left, tops[rank_of[a]] + heights[rank_of[a]]))
        for v in chain[1:-1]:
            x = centre[v] - left
            points += [(x, tops[rank_of[v]]), (x, tops[rank_of[v]] + heights[rank_of[v]])]
        x = corners[b][0] + sizes[b][0] / 2 + ports[number] * min(sizes[b][0] * 0.6, 90.0)
        if corners[b][1] > tops[rank_of[b]]:
            points.append((x, tops[rank_of[b]]))
        lines.append([*points, (x, corners[b][1])])
    return Placed(corners, lines, right - left, max(0.0, y - GAP_Y))


def _ports(chains: Sequence[Sequence[int]], centre: Sequence[float]) -> list[float]:
    """Where each edge enters its box, -0.5 to 0.5: beside each other, in the order in which they come."""
    into: dict[int, list[int]] = {}
    for number, chain in enumerate(chains):
        into.setdefault(chain[-1], []).append(number)
    ports = [0.0] * len(chains)
    for numbers in into.values():
        numbers.sort(key=lambda k: centre[chains[k][-2]])
        for i, number in enumerate(numbers):
            ports[number] = (i + 0.5) / len(numbers) - 0.5
    return ports


def _ranks(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    before: list[list[int]] = [[] for _ in range(n)]
    after: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    order = list(TopologicalSorter(dict(enumerate(before))).static_order())
    ranks = [0] * n
    for v in order:
        ranks[v] = max((ranks[w] + 1 for w in before[v]), default=0)
    for v in reversed(order):  # down, where no edge gets longer by it
        if after[v] and (not before[v] or (len(before[v]) == 1 and len(after[v]) == 1)):
            ranks[v] = min(ranks[w] for w in after[v]) - 1
    return ranks


def _order(layers: list[list[int]], links: Sequence[tuple[int, int]], n: int) -> None:
    above: list[list[int]] = [[] for _ in range(n)]
    below: list[list[int]] = [[] for _ in range(n)]
    for a, b in links:
        below[a].append(b)
        above[b].append(a)
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below, n)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        neighbours, order = (above, layers[1:]) if sweep % 2 == 0 else (below, layers[-2::-1])
        position = _positions(layers, n)
        for layer in order:
            weight = {v: sum(position[w] for w in neighbours[v]) / len(neighbours[v]) if neighbours[v] else position[v]
                      for v in layer}
            layer.sort(key=weight.__getitem__)
            for i, v in enumerate(layer):
                position[v] = (i + 0.5) / len(layer)
        crossings = _crossings(layers, below, n)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    for layer, chosen in zip(layers, best, strict=True):
        layer[:] = chosen


def _positions(layers: Sequence[Sequence[int]], n: int) -> list[float]:
    position = [0.0] * n
    for layer in layers:
        for i, v in enumerate(layer):
            position[v] = (i + 0.5) / len(layer)
    return position


def _crossings(layers: Sequence[Sequence[int]], below: Sequence[Sequence[int]], n: int) -> int:
    position = _positions(layers, n)
    total = 0
    for layer in layers:
        seen: list[float] = []
        for v in layer:
            ends = [position[w] for w in below[v]]
            total += sum(s > e for e in ends for s in seen)
            seen += ends
    return total


def _coordinates(layers: Sequence[Sequence[int]], links: Sequence[tuple[int, int]],
                 boxes: Sequence[Size]) -> list[float]:
    """The centre of every box."""
    near: list[list[tuple[int, float]]] = [[] for _ in boxes]
    for a, b in links:
        weight = (1.0, 3.0, 12.0)[(boxes[a][0] == 0) + (boxes[b][0] == 0)]  # bends want to be straight
        near[a].append((b, weight))
        near[b].append((a, weight))
    centre = [0.0] * len(boxes)
    for layer in layers:
        x = 0.0
        for v in layer:
            centre[v] = x + boxes[v][0] / 2
            x += boxes[v][0] + GAP_X
        for v in layer:
            centre[v] -= (x - GAP_X) / 2
    for sweep in range(2 * SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted, weights = [], []
            for v in layer:
                total = sum(w for _, w in near[v])
                wanted.append(sum(centre[u] * w for u, w in near[v]) / total if total else centre[v])
                weights.append(total or 0.1)
            for v, x in zip(layer, _spread(layer, wanted, weights, boxes), strict=True):
                centre[v] = x
    return centre


def _spread(layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float],
            boxes: Sequence[Size]) -> list[float]:
    """Positions nearest to the wanted ones that keep order and distance: pool adjacent violators."""
    shifts = [0.0]
    for a, b in itertools.pairwise(layer):
        shifts.append(shifts[-1] + (boxes[a][0] + boxes[b][0]) / 2 + GAP_X)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for d, w, shift in zip(wanted, weights, shifts, strict=True):
        mean, weight, count = d - shift, w, 1
        while pools and pools[-1][0] > mean:
            m, u, c = pools.pop()
            mean, weight, count = (m * u + mean * weight) / (u + weight), u + weight, c + count
        pools.append((mean, weight, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [x + shift for x, shift in zip(flat, shifts, strict=True)]

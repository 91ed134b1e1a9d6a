"""Layered layout: edges point down, boxes do not overlap, edges pass beside boxes, small graphs do not cross."""

from __future__ import annotations

import itertools

from hypothesis import given, settings, strategies as st

from jitgrad.script.inspect.show.layout import place


def overlap(a, b):
    (ax, ay, aw, ah), (bx, by, bw, bh) = a, b
    return ax < bx + bw - 1e-6 and bx < ax + aw - 1e-6 and ay < by + bh - 1e-6 and by < ay + ah - 1e-6


def rectangles(placed, sizes):
    return [(x, y, w, h) for (x, y), (w, h) in zip(placed.corners, sizes, strict=True)]


@st.composite
def dags(draw):
    n = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.tuples(st.integers(20, 200), st.integers(15, 90)), min_size=n, max_size=n))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    return sizes, edges


@settings(max_examples=60, deadline=None)
@given(dags())
def test_boxes_do_not_overlap_and_edges_point_down(dag):
    sizes, edges = dag
    placed = place(sizes, edges)
    boxes = rectangles(placed, sizes)
    assert not any(overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    for (a, b), points in zip(edges, placed.edges, strict=True):
        assert points[0][1] == boxes[a][1] + boxes[a][3]
        assert points[-1][1] == boxes[b][1]
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(points))
        assert all(0 <= x <= placed.width + 1e-6 and 0 <= y <= placed.height + 1e-6 for x, y in points)
        for (x, top), (u, bottom) in itertools.pairwise(points):  # where a line is vertical, it is beside the boxes
            if x == u:
                assert not any(overlap((x, top + 0.01, 0.01, bottom - top - 0.02), box) for k, box in enumerate(boxes)
                               if k not in (a, b))


def test_a_chain_is_straight():
    placed = place([(80, 30)] * 4, [(0, 1), (1, 2), (2, 3)])
    assert len({round(x, 3) for x, _ in placed.corners}) == 1
    assert [y for _, y in placed.corners] == sorted(y for _, y in placed.corners)


def test_sources_are_drawn_above_their_reader():
    placed = place([(60, 20)] * 4, [(0, 1), (1, 2), (3, 2)])  # 3 is read late
    assert placed.corners[3][1] == placed.corners[1][1]


def test_a_crossing_that_can_be_avoided_is():
    placed = place([(40, 20)] * 4, [(0, 3), (1, 2)])
    x = [c[0] for c in placed.corners]
    assert (x[0] - x[1]) * (x[3] - x[2]) > 0


def test_nothing_has_no_size():
    placed = place([], [])
    assert (placed.corners, placed.edges, placed.width, placed.height) == ([], [], 0.0, 0.0)

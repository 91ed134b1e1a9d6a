"""Heaps, searches in sorted lists and `itertools` of what only the run knows."""

import bisect
import heapq
import itertools

from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 2, 4))


@program((t(5, 5), 5), (t(2, 2), 2), (t(3, 3), 3))
def shortest_paths(w, n):
    """Dijkstra's algorithm with a heap that has old entries."""
    distances = [1e9] * n
    distances[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > distances[u]:
            continue
        for v in range(n):
            further = d + abs(w[u, v].item())
            if further < distances[v]:
                distances[v] = further
                heapq.heappush(heap, (further, v))
    return distances


@program(*((t(n),) for n in (6, 1, 2, 9)), compilations=None)
def a_heap_lies_where_pythons_does(x):
    heap = x.tolist()
    heapq.heapify(heap)
    before = list(heap)
    taken = []
    while heap:
        taken.append(heapq.heappop(heap))
    return before, taken


@program((t(7), 3), (t(2), 3), (t(4), 1), compilations=None)
def the_largest_of_a_stream(x, k):
    best = []
    for v in x.tolist():
        if len(best) < k:
            heapq.heappush(best, v)
        else:
            heapq.heappushpop(best, v)
    last = heapq.heapreplace(best, 2.0)
    return best, last, heapq.nlargest(k, x.tolist()), heapq.nsmallest(k, x.tolist(), key=lambda v: -v)


@program(*NS)
def an_empty_heap(x, n):
    heap = list(range(n))
    heapq.heappop(heap)
    return heap, heapq.heappop(heap), x


@program((t(5), 3), (t(0), 1), (t(4), 7), compilations=None)
def searches_in_sorted_lists(x, n):
    values, steps = sorted(x.tolist()), [1, 3, 3, 5]
    bisect.insort(values, 0.1)
    bisect.insort_left(steps, n)
    return (values, steps, bisect.bisect_left(steps, 3), bisect.bisect(steps, n), bisect.bisect_left(values, 0.0, 1),
            bisect.bisect_left([5, 3, 1], -n, key=lambda v: -v))


@program((X, -1), (X, 0))
def a_search_from_before_the_list(x, k):
    return bisect.bisect_left([1, 2, 3], 2, k), x


@program(*((t(4), n) for n in (0, 1, 2, 4)))
def products_of_ranges_of_the_run(x, n):
    total = x.sum() * 0
    for i, j in itertools.product(range(n), repeat=2):
        total = total + x[i] * j
    return total, list(itertools.product(range(n), "ab"))


@program(*NS)
def choices_from_ranges_of_the_run(x, n):
    return (list(itertools.combinations(range(n), 2)), list(itertools.permutations(range(n), 2)),
            [sum(row) for row in itertools.combinations_with_replacement(range(n), 2)], x)


@program((t(4, 3),), (t(2, 3),), (t(5, 3),))
def pairs_of_rows(x):
    return sum((a * b).sum() for a, b in itertools.combinations(x, 2))


@program(*NS)
def the_longer_of_two(x, n):
    return [a + b for a, b in itertools.zip_longest(range(n), range(2), fillvalue=0)], x

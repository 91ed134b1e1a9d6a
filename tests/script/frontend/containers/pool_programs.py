"""Programs that change lists, dicts and objects in containers of run-time length, as people write them."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import jitgrad as torch
from tests.script.frontend.agree import ints, registry, t

PROGRAMS, program = registry()


@program((3,), (70,), (1,))
def appended(n: int):
    rows = []
    for i in range(n):
        rows.append([i])
    rows[0].append(5)
    return rows


@program((3,), (70,), (1,))
def shared(n: int):
    a = [1]
    rows = []
    for _ in range(n):
        rows.append(a)
    a.append(2)
    rows[0].append(3)
    return rows, a, rows[0] is a, rows[0] is rows[n - 1]


@program((ints(3, 1, 4, 1, 5),), (ints(2,),), (ints(),), compilations=3)
def group_by(x):
    groups = {}
    for i in range(len(x)):
        groups.setdefault(int(x[i]) % 3, []).append(i)
    return groups


@program((ints(3, 1, 4, 1, 5),), (ints(2,),), (ints(),), compilations=3)
def group_by_default(x):
    groups = defaultdict(list)
    for i in range(len(x)):
        groups[int(x[i]) % 3].append(i)
    return groups, len(groups)


@program((3, 4), (1, 1), (0, 3), (2, 0))
def table(n: int, m: int):
    dp = [[0] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            dp[i][j] = i * j + (dp[i - 1][j] if i > 0 else 1)
    return dp


@program((3, 4), (1, 1), (0, 3), (2, 0))
def one_row_many_times(n: int, m: int):
    dp = [[0] * m] * n
    for i in range(n):
        for j in range(m):
            dp[i][j] += i + j
    return dp, n > 1 and dp[0] is dp[1]


@program((t(4, 3), 4), (t(2, 3), 2), (t(1, 3), 1), compilations=2)
def tensors_in_rows(x, n: int):
    out = []
    for i in range(n):
        out.append([x[i] * i])
    for i in range(n):
        for j in range(i):
            out[i].append(out[j][0] * x[i])
    s = torch.zeros(3)
    for row in out:
        for v in row:
            s = s + v * v
    return s, out


@program((5,), (3,), (1,))
def bfs(n: int):
    adj = [[] for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            if (i * j + i + j) % 3 != 0:
                adj[i].append(j)
                adj[j].append(i)
    dist = [-1] * n
    dist[0] = 0
    queue = deque([0])
    order = []
    while queue:
        u = queue.popleft()
        order.append(u)
        for v in adj[u]:
            if dist[v] < 0:
                dist[v] = dist[u] + 1
                queue.append(v)
    return dist, order, adj




@dataclass
class Point:
    x: int
    y: float
    seen: list = field(default_factory=list)


@program((3,), (5,), (1,))
def points(n: int):
    ps = []
    for i in range(n):
        ps.append(Point(i, i * 0.5))
    for i in range(n):
        p = ps[(i * 2) % n]
        p.x += 10
        p.seen.append(i)
    best = ps[0]
    for p in ps:
        if p.x > best.x:
            best = p
    best.y = -1.0
    return ps, best, best is ps[0], [p.x for p in ps]


class Node:
    def __init__(self, value, left=None, right=None):
        self.value = value
        self.left = left
        self.right = right


@program((ints(4, 2, 6, 1, 3),), (ints(1,),), (ints(3, 2, 1, 5, 9, 4),), compilations=2)
def tree(x):
    root = Node(int(x[0]))
    for i in range(1, len(x)):
        v = int(x[i])
        at = root
        while True:
            if v < at.value:
                if at.left is None:
                    at.left = Node(v)
                    break
                at = at.left
            else:
                if at.right is None:
                    at.right = Node(v)
                    break
                at = at.right
    stack = [root]
    out = []
    while stack:
        at = stack.pop()
        out.append(at.value)
        if at.left is not None:
            stack.append(at.left)
        if at.right is not None:
            stack.append(at.right)
    return out


@program((4,), (1,), (0,))
def dicts_in_list(n: int):
    rows = []
    for i in range(n):
        rows.append({"id": i, "n": 0})
    for i in range(n * 2):
        rows[i % n]["n"] += i
    return rows


@program((4,), (7,), (1,))
def transposed(n: int):
    rows = []
    for i in range(n):
        row = []
        for j in range(3):
            row.append(i * j)
        rows.append(row)
    cols = [[] for _ in range(3)]
    for row in rows:
        for j in range(3):
            cols[j].append(row[j])
    rows[0][1] = 100
    return rows, cols


@program((7,), (2,), (1,))
def kahn(n: int):
    after = [[] for _ in range(n)]
    left = [0] * n
    for i in range(n):
        for j in range(i + 1, n):
            if (i + j) % 2 == 1:
                after[i].append(j)
                left[j] += 1
    ready = []
    for i in range(n):
        if left[i] == 0:
            ready.append(i)
    order = []
    while ready:
        k = ready.pop()
        order.append(k)
        for j in after[k]:
            left[j] -= 1
            if left[j] == 0:
                ready.append(j)
    return order


@program((4,), (1,), (3,))
def queue_of_paths(n: int):
    queue = [([0], 0)]
    found = []
    while queue:
        path, cost = queue.pop(0)
        if len(path) == n:
            found.append((path, cost))
            continue
        for k in range(2):
            queue.append(([*path, k], cost + k))
    found[0][0].append(9)
    return found


@program((4,), (1,), (3,))
def rebound_row(n: int):
    rows = []
    row = []
    for i in range(n * 2):
        row.append(i)
        if i % 2 == 1:
            rows.append(row)
            row = []
    return rows, row


@program((4,), (1,), (0,))
def changed_while_looped(n: int):
    adj = [[] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            adj[i].append(j)
    for i in range(n):
        for j in adj[i]:
            if j != i:
                adj[j].remove(i)
    return adj


class Ring:
    def __init__(self, size):
        self.data = [0] * size
        self.at = 0

    def push(self, v):
        self.data[self.at % len(self.data)] = v
        self.at += 1


@program((3, 5), (1, 4), (2, 0))
def ring_buffers(n: int, m: int):
    rings = []
    for _ in range(n):
        rings.append(Ring(3))
    for i in range(m):
        rings[i * i % n].push(i)
    return [r.data for r in rings], [r.at for r in rings]


@program((t(4, 3), 3), (t(2, 3), 5), (t(3, 3), 0))
def tensors_by_key(x, n: int):
    groups = {}
    for i in range(x.shape[0]):
        groups.setdefault(i % 2, []).append(x[i] * (i + 1))
    for _ in range(n):
        groups[0].append(groups[0][-1] * 0.5)
    s = torch.zeros(3)
    for k, rows in groups.items():
        for r in rows:
            s = s + r * r * (k + 1)
    return s, groups


@program((6,), (1,), (0,))
def union_find(n: int):
    sets = []
    where = []
    for i in range(n):
        s = [i]
        sets.append(s)
        where.append(s)
    for i in range(n - 1):
        if i % 3 != 2:
            a, b = where[i], where[i + 1]
            if a is not b:
                for v in b:
                    a.append(v)
                    where[v] = a
    return where, [len(s) for s in where]


@program((ints(5, 3, 9, 1, 7, 12, 0), 4), (ints(2, 8), 3), compilations=2)
def bucket_sort(x, k: int):
    buckets = [[] for _ in range(k)]
    for v in x.tolist():
        buckets[min(v * k // 13, k - 1)].append(v)
    out = []
    for b in buckets:
        b.sort()
        out.extend(b)
    return out


@program((7,), (1,), (2,))
def memo_of_lists(n: int):
    memo = {0: [0]}
    for i in range(1, n):
        memo[i] = memo[i // 2] + [i]
        memo[i // 2].append(-i)
    return memo


@program((5,), (1,), (0,))
def dicts_in_dict(n: int):
    counts = {}
    for i in range(n):
        for j in range(i):
            row = counts.setdefault(i % 2, {})
            row[j] = row.get(j, 0) + 1
    return counts


@program((5,), (66,), (1,))
def default_of_dicts(n: int):
    counts = defaultdict(dict)
    for i in range(n):
        counts[i % 3][i % 2] = i
    return {k: counts[k] for k in (0,)}, len(counts)


@program((5,), (1,), (0,))
def tuples_with_lists(n: int):
    beams = []
    for i in range(n):
        beams.append(([i], i * 0.5))
    for seq, score in beams:
        seq.append(int(score))
    for i, (seq, _) in enumerate(beams):
        seq[0] = i * 2
    return beams


@dataclass
class Hypothesis:
    tokens: list
    score: float
    done: bool = False


@program((3, 4), (2, 0), (1, 3))
def beams_of_objects(width: int, steps: int):
    beams = [Hypothesis([0], 0.0)]
    for _ in range(steps):
        grown = []
        for h in beams:
            for k in range(3):
                new = Hypothesis(h.tokens.copy(), h.score + k * 0.5)
                new.tokens.append(k)
                grown.append(new)
        beams = sorted(grown, key=lambda h: -h.score)[:width]
    beams[0].done = True
    return beams


@program((4, True), (4, False), (1, True))
def in_a_branch(n: int, c: bool):
    rows = []
    for i in range(n):
        rows.append([i])
    row = rows[0]
    if c:
        row = rows[n - 1]
        rows[0] = [7]
    row.append(3)
    if n > 2:
        rows.append(row)
    return rows, row


@program((4,), (1,))
def matrix_of_tensors(n: int):
    grid = [[torch.zeros(2) for _ in range(n)] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            grid[i][j] = grid[i][j] + i * 10 + j
    return grid


@program((t(3), 4), (t(3), 1))
def reversed_rows(x, n: int):
    rows = []
    for i in range(n):
        rows.append([x * i, x + i])
    for row in rows:
        row.reverse()
    rows[-1][0] = x
    s = torch.zeros(3)
    for a, b in rows:
        s = s + a * b
    return s


@program((5,), (1,), (0,))
def printed(n: int):
    rows = [[] for _ in range(n)]
    for i in range(n):
        rows[i // 2].append(i)
    for r in rows:
        print(len(r), sum(r), r == [0, 1], 3 in r)
    print(rows)
    return [sum(r) for r in rows], [max(r, default=-1) for r in rows]


@program(([1], 3), ([], 2), ([5, 6], 0), compilations=3)
def into_an_argument(out, n: int):
    rows = []
    for i in range(n):
        row = [i]
        rows.append(row)
    for r in rows:
        r.append(9)
        out.append(len(r))
    return rows


@program(([], 3), ([], 1), compilations=2)
def rows_into_an_argument(out, n: int):
    row = [0]
    for i in range(n):
        row.append(i)
        out.append(row)
    row.append(-1)
    return row


@program((3,), (9,), (1,))
def raised_between(n: int):
    rows = []
    for i in range(n):
        rows.append([i])
    rows[0].append(5)
    if len(rows) > 5:
        raise ValueError(f"{len(rows[0])} items")
    return rows


@program((3, 1), (3, 7), (1, 0))
def index_error(n: int, k: int):
    rows = [[0] * 2 for _ in range(n)]
    rows[k % n][k] = 1
    return rows


class Leaf:
    def __init__(self, key, value):
        self.key = key
        self.value = value
        self.next = None


@program((4,), (1,), (0,))
def linked_list(n: int):
    head = None
    for i in range(n):
        node = Leaf(i, i * i)
        node.next = head
        head = node
    out = []
    while head is not None:
        out.append(head.value)
        head = head.next
    return out


@program((t(3), 4), (t(3), 1))
def trees_of_tensors(x, n: int):
    nodes = []
    for i in range(n):
        nodes.append(Leaf(i, x * i))
    for i in range(1, n):
        nodes[i].next = nodes[i // 2]
        nodes[i // 2].value = nodes[i // 2].value + torch.tanh(nodes[i].value)
    s = torch.zeros(3)
    for v in nodes:
        if v.next is not None:
            s = s + v.value * v.next.value
    return s


@program((4,), (1,), (0,))
def sets_in_list(n: int):
    seen = [set() for _ in range(n)]
    for i in range(n * 2):
        seen[i % n].add(i // 3)
    return [len(s) for s in seen], [1 in s for s in seen]


@program((4,), (1,), (7,))
def deques_in_dict(n: int):
    waiting = {}
    for i in range(n):
        waiting.setdefault(i % 2, deque(maxlen=2)).append(i)
    out = []
    for k in range(2):
        if k in waiting:
            out.append(waiting[k].popleft())
    return out, waiting


@program((5,), (2,), (1,))
def paths_by_dfs(n: int):
    after = {}
    for i in range(n):
        after[i] = []
        for j in range(i + 1, min(i + 3, n)):
            after[i].append(j)
    stack = [[0]]
    found = []
    while stack:
        path = stack.pop()
        last = path[-1]
        if last == n - 1:
            found.append(path)
            continue
        for j in after[last]:
            longer = list(path)
            longer.append(j)
            stack.append(longer)
    return found


@program((4,), (2,))
def given_nothing_shared(n: int):
    a = [0] * n
    rows = [a, a[:], list(a)]
    for i in range(n):
        rows.append(rows[i])
    rows[0][0] = 1
    rows[3][1] = 2
    return rows, a


@program((6,), (1,), (0,))
def counted_by_loop_over_itself(n: int):
    xs = list(range(n))
    for v in xs:
        if v > 1:
            xs.append(v // 2)
    return xs


@program((5,), (1,), (0,))
def dict_of_lists_normalised(n: int):
    d = {}
    for i in range(n * 2):
        d.setdefault(i % n, []).append(i)
    for k in d:
        d[k] = d[k] + [k]
    for k, v in d.items():
        d[k] = v[1:]
        v.append(100)
    return d


@program((5,), (1,), (0,))
def dict_grown_by_its_loop(n: int):
    d = {}
    for i in range(n):
        d[i] = i
    for k in d:
        d[k + 1] = k
    return d


@program((5,), (1,), (0,))
def dict_shrunk_by_its_loop(n: int):
    d = {}
    for i in range(n):
        d[i] = i
    s = 0
    for k in d:
        s += k
        if k == n - 1:
            d.pop(k)
    return d, s


@program((5,), (1,), (0,))
def values_changed(n: int):
    d = {}
    for i in range(n):
        d[i] = i * 0.5 + 1.0
    total = sum(d.values())
    for k, v in d.items():
        d[k] = v / total
    for k in d:
        if d[k] > 0.2:
            d[k] *= 2
    return d


@program((t(3), 3), (t(3), 1), (t(3), 0))
def lists_of_an_iteration_chosen_after_it(x, n: int):
    a = [x]
    b = [x + 1]
    for i in range(n):
        b = [x * i]
        b.append(x * i + 1)
        a = b[:]
    c = a if n > 1 else b
    c.append(x)
    return a, b

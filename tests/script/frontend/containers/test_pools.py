from __future__ import annotations
from collections import defaultdict, deque
from dataclasses import dataclass, field
import jitgrad as torch
from tests.script.frontend.agree import agree, registry, suite, t, ints

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
    for i in range(n):
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
    rows = [[] for _ in range(3)]
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
            queue.append((path + [k], cost + k))
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


test_programs = suite(PROGRAMS)

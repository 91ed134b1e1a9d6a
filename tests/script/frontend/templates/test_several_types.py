"""Names that are of several types: tensors of one rank or another, numbers, objects."""

from __future__ import annotations

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
BOTH = (t(2, 3), True), (t(2, 3), False)


@program(*BOTH)
def of_two_ranks(x, c: bool):
    m = x.sum(0) if c else x * 2
    return m.mean() * 2 + (m + 1).sum()


@program(*BOTH)
def returned(x, c: bool):
    if c:
        y = x[0]
    else:
        y = x.sum()
    return y


@program(*BOTH)
def asked_for_its_rank(x, c: bool):
    m = x.sum(0) if c else x * 2
    m = torch.tanh(m + 1)
    if m.dim() == 1:
        return m
    return m[0]


@program(*BOTH)
def tensor_or_number(x, c: bool):
    v = x if c else 2.0
    return x * v, torch.add(x, v), v


@program(*BOTH)
def of_two_dtypes(x, c: bool):
    m = x.int() if c else x
    return m * 2, m.dtype


@program((t(3), True), (t(3), False), grad=False)
def dtype_returned(x, c: bool):
    return x.long() if c else x


@program((t(99, 2), 99), (t(99, 2), 1), grad=False)
def written_and_of_two_dtypes(x, n: int):
    y, w = x.double(), x * 2
    (x if n > 2 else w).add_(1)
    z = x if n > 2 else y
    return z * 2


@program((t(3), 99), (t(3), 0), compilations=2, grad=False)
def dtype_of_a_loop(x, n: int):
    for _i in range(n):
        x = x.long()
    return x


@program((t(2, 3), True), (t(2, 3), False))
def unrolled_ranks(x, c: bool):
    m = x
    for _i in range(2):
        m = m.unsqueeze(0)
    return m if c else x


@program(*BOTH)
def two_of_them(x, c: bool):
    a = x[0] if c else x
    b = x if c else x[0]
    return a * b + a, torch.cat([a.flatten(), b.flatten()])


@program(*BOTH)
def in_containers(x, c: bool):
    d = {"m": x[0] * 2 if c else x}
    p = (d["m"] + 1, 3)
    return d, p, [p[0].sum()]


@program(*BOTH)
def number_or_tuple(x, c: bool):
    v = 1 if c else (1, x)
    if isinstance(v, tuple):
        return v[1] * 2, v
    return x + v, v


@program(*BOTH)
def tuples_of_two_lengths(x, c: bool):
    p = (x, x) if c else (x, x * 2, x * 3)
    return len(p), p[0] * 2, {"p": p}


@program(*BOTH)
def tuples_of_other_items(x, c: bool):
    v = (1, 2.5) if c else (x, 3)
    a, b = v
    return a * 2, b


@program(*BOTH)
def text_or_number(x, c: bool):
    if c:
        y = f"{x.shape[0]} rows"
    else:
        y = 3
    print(y)
    return y


@program(*BOTH)
def list_or_tuple(x, c: bool):
    v = [x] if c else (x,)
    return v[0] * 2, v


@program((t(2, 3), True), (t(2, 3), False))
def one_of_three_kinds(x, c: bool):
    v = (1, 2) if c else 5
    w = v
    if not c:
        w = "text"
    return w, v


@program((t(3), 0), (t(3), 1), (t(3), 4), compilations=None)
def types_of_numbers(x, k: int):
    v = False
    if k > 0:
        v = 0.5
    w = 1 if k > 1 else 2.5
    for i in range(k):
        w = 0.5 if i % 2 else i
    d = {"n": w}
    d["n"] += 1
    return type(v).__name__, w + 1 if isinstance(w, int) else w * x, d


@program((t(3), 3), (t(3), 0))
def called_if_callable(x, k: int):
    g = torch.tanh if k > 1 else None
    h = [x] if k > 1 else (x, x * 2, x)
    out = [] if k > 7 else None
    if isinstance(out, list):
        out.append(x)
    total = x * 0
    for y in (h if isinstance(h, (list, tuple)) else ()):
        total = total + y
    return g(x) if callable(g) else x - 1, total, len(h)


@program((t(4), 5.0, True), (t(4), -5.0, True), (t(4), 5.0, False), compilations=None)
def left_by_a_loop(x, s: float, c: bool):
    v = None
    w = 1
    for i in range(99):
        if s > i:
            v = (i, x * i) if c else i
            w = {"value": x * i}
    return v, w


@program((t(4), 7), (t(4), 0), grad=False)
def dicts_of_a_loop(x, n: int):
    v = 1
    for i in range(99):
        if 3 < i < n + 3:
            v = {"value": i} if i % 2 else {"b": i}
    return v


@program((t(2, 3), True), (t(2, 3), False))
def converted(x, c: bool):
    m = x.sum() if c else 2
    return float(m), int(m)


@program((t(2, 3), True), (t(2, 3), False))
def in_lists_for_the_library(x, c: bool):
    m = x[0] if c else x
    return torch.stack([m, m * 2]), torch.cat((m, m))


@program((t(2, 3), True), (t(2, 3), False))
def written_into_another(x, c: bool):
    m = x[0] if c else x
    y = x * 1
    y += m
    y[0] = m[0]
    return y


@program((t(2, 3), True), (t(2, 3), False))
def of_two_dtypes_and_ranks(x, c: bool):
    m = x[0] if c else x.long()
    y = x * 1
    y *= m
    y[m > 1] = 0.
    return y, m.sum()


@program((t(2, 3), True), (t(2, 3), False))
def shapes_of_either(x, c: bool):
    m = x[0] if c else x
    print(m.shape, (m.dim(), 1))
    return [m, m], m.t() if m.dim() == 2 else m


@program((t(2, 3), True), (t(2, 3), False))
def its_own_memory_written(x, c: bool):
    m = x[0].clone() if c else x.clone()
    m[0] = 7.
    m.mul_(2)
    return m


@program((t(2, 3), True), (t(2, 3), False))
def written_in_place(x, c: bool):
    x = x * 1
    m = x[0] if c else x
    m.add_(1)
    return m.mean(), x


@program((t(2, 3), True), (t(2, 3), False))
def of_two_floating_dtypes(x, c: bool):
    m = x.double() if c else x
    return torch.where(m > 1, m, m * 0), m.max(), (m * x).sum().item()


@program((t(2, 3), True), (t(2, 3), False))
def beside_none(x, c: bool):
    v = x[0] if c else None
    w = x if c else x[0]
    return w.sum() if v is None else v.sum() + w.mean()


@program((t(3), 99), (t(3), 1), compilations=2)
def list_of_what_a_branch_left_out(x, n: int):
    out = []
    for i in range(n):
        out.append(x if i > 1 else None)
    return out


test_programs = suite(PROGRAMS)

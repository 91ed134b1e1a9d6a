"""What no variable can hold after a branch: dicts of other keys, objects of two classes, a list or a dict."""

import math

import jitgrad as torch
from tests.script.frontend.agree import registry

PROGRAMS, program = registry()
CALLS = ((torch.tensor([1.0, 2.0, 3.0]),), (torch.tensor([-1.0, -2.0, 1.0]),), (torch.tensor([-1.0, 2.0, -3.0]),))


@program(*CALLS)
def a_key_of_one_side(x):
    d = {"a": x, "b": x * 2}
    if x.sum() > 0:
        d["c"] = x * 3
    total = x * 0
    for k in d:
        total = total + d[k]
    return total, len(d), "c" in d


@program(*CALLS)
def keys_one_by_one(x):
    d = {}
    if x[0] > 0:
        d["a"] = x
    if x[1] > 0:
        d["b"] = x * 2
    if x[2] > 0:
        d["c"] = x * 3
    print(list(d))
    return sum(list(d.values()), x * 0), len(d)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def apply(self, x):
        return x * self.factor


class Shift:
    def __init__(self, by):
        self.by = by

    def apply(self, x):
        return x + self.by


def made(x):
    if x.sum() > 0:
        return Scale(x * 2)
    return Shift(3.0)


@program(*CALLS)
def an_object_of_one_class_or_another(x):
    layer = made(x)
    print(type(layer).__name__, isinstance(layer, Shift))
    return layer.apply(x).tanh()


@program(*CALLS)
def dicts_of_each_iteration(x):
    total = x * 0
    for k in range(3):
        c = {"a": k} if x[0] > k else {"z": x, "y": 2}
        for key in c:
            total = total + c[key]
    return total


@program(*CALLS)
def a_list_or_a_dict(x):
    g = [1, "a", x] if x.sum() > 0 else {"a": x}
    if isinstance(g, list):
        return g[2] * 2
    return g["a"] * 3


@program(*CALLS)
def printed_before_and_after(x):
    print("before", x.tolist())
    d = {"a": 1} if x[0] > 0 else {"b": x}
    print("after", sorted(d))
    for key, value in d.items():
        print(key, value)
    return x * len(d)


@program(*CALLS)
def nested_branches(x):
    d = {"a": x}
    if x[0] > 0:
        if x[1] > 0:
            d["b"] = x * 2
        d["c"] = x * 3
    y = x * len(d)
    y[0] = 5.0
    for key in d:
        print(key)
    return y, len([k for k in d])


@program((torch.tensor([1.0, 2.0]),), (torch.tensor([math.nan, 2.0]),), (torch.tensor([1.0, math.inf]),))
def whole_numbers_in_a_try(x):
    try:
        k = int(x[0].item() / 1.0) + math.floor(x[1].item())
    except ValueError as error:
        print("value", error)
        k = 1
    except OverflowError as error:
        print("overflow", error)
        k = 2
    return x * k


@program((torch.tensor([1.0, 2.0]), 3), (torch.tensor([0.1, 0.2]), 0))
def a_recursive_function_made_by_each_iteration(x, n):
    m = x.clone()
    c = 0
    while c < 4 and m.abs().mean() < 5:
        c += 1

        def rec(z, j):
            if j == 0:
                return z * c
            return (rec(z, j - 1) + x).tanh()

        m = m + rec(x, 2)
    return m, torch.tanh(m) if n else m * 2


@program((torch.tensor([1.0, 2.0]), 3), (torch.tensor([-1.0, 2.0]), 0))
def functions_see_what_comes_later(x, n):
    k = 1

    def g(z):
        return z * k

    def h(z):
        return g(z) + k

    for i in range(n):
        k = k + i
        if x.sum() > 0:
            k += 1
        x = h(x)
    k = 7
    return h(x), k


class Counts:
    def __init__(self):
        self.scale, self.steps = 0.5, 1


@program((torch.tensor([1.0, 2.0]), 3), (torch.tensor([-1.0, -2.0]), 4))
def attributes_change_their_type_of_number(x, n):
    c = Counts()
    c.scale = n // 2
    if x.sum() > 0:
        c.scale = 2.5
    c.steps = c.steps + 0.5
    return x * c.scale * c.steps, c.scale, c.steps

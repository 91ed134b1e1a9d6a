"""Objects of the library made in a script, and lists of what tensors hold."""

import collections
import math

import numpy as np

import jitgrad as torch
from jitgrad.distributions import Categorical, Independent, Normal, kl_divergence
from tests.script.frontend.agree import ints, registry, t

PROGRAMS, program = registry()
X, Y = t(3), t(3, seed=4)
NS = tuple((X, n) for n in (0, 1, 2, 5))


@program((X, Y), (Y, X), (t(5), t(5, seed=3)))
def draws_of_a_normal_that_the_script_made(mu, s):
    torch.manual_seed(3)
    d = Independent(Normal(mu, s.exp()), 1)
    drawn = d.rsample((2,))
    return drawn, d.log_prob(drawn), d.mean, d.stddev


@program((t(4, 3),), (t(4, 3, seed=3),), (t(6, 3),))
def draws_of_a_categorical(logits):
    torch.manual_seed(3)
    d = Categorical(logits=logits)
    a = d.sample()
    print(d)
    return a, d.log_prob(a), d.entropy()


@program((X, Y), (Y, X))
def divergence_of_two_distributions(mu, s):
    return kl_divergence(Normal(mu, s.exp()), Normal(0.0, 1.0)), kl_divergence(
        Categorical(logits=mu), Categorical(logits=s))


@program((X, Y), (Y, X))
def divergence_without_a_rule(mu, s):
    return kl_divergence(Normal(mu, s.exp()), Categorical(logits=s))


@program((X, X), (X, X.abs()))
def a_scale_that_may_be_negative(mu, s):
    return Normal(mu, s).rsample() * 0


def policy(x, n):
    return (Normal(x, 1.0) if n > 1 else Normal(x * 2, x.exp())), n


@program(*NS, compilations=2)
def a_distribution_that_a_branch_makes_is_returned(x, n):
    d, n = policy(x, n)
    total = d.log_prob(x + n)
    for k in range(n):
        d = Normal(d.mean + k, d.scale)
    return d.mean, total


@program((X,), (Y,), (t(6),), (X * 0,))
def numbers_of_a_tensor_of_run_time_size(x):
    total, at = 0.0, 0
    for v in x[x > 0].tolist():
        total += v * 2
    for row in (x > 0).nonzero().tolist():
        at += row[0]
    return total, at, x[x > 0].tolist(), (x > 0).nonzero().tolist(), x


@program((t(70, 2),), (t(90, 2),))
def numbers_of_many_rows(x):
    rows = x.tolist()
    return len(rows), sum(r[0] for r in rows), rows[-1], x[:, 0].tolist(), x


@program((ints(1, 2, 3), 2), (ints(1, 2, 3), 5), (ints(4, 5), 5))
def values_are_looked_for_in_a_tensor(x, n):
    return n in x, 3 in x, (n + 1) not in x, x[0] in x


@program(*NS)
def a_letter_of_a_string(x, n):
    letter = "abcde"[-n]
    print(letter)
    return letter, "aab"[n], x


@program(*NS)
def numbers_beside_letters_and_tensors(x, n):
    found = []
    for i, c in zip(range(n), "abc"):
        print(i, c)
        found.append(i)
    for i, w in zip(range(n), [x, x * 2, x * 3]):
        x = x + w * i
    return x, found


def halves(x, n):
    k = 0
    while k * k < n:
        print(k)
        yield x / (k + 1)
        k += 1


@program((X, 1), (X, 2), (X, 5))
def items_of_a_generator_of_run_time_length(x, n):
    found = list(halves(x, n))
    return torch.stack(found), len(list(halves(x, n))), found


@program((X, 0), (X, 2), (t(5), 3))
def numpy_on_numbers(x, n):
    return x * np.sqrt(4.0), x / np.sqrt(x.shape[-1]), np.log(2.0) * x, float(np.sqrt(n + 1.0)), x * np.maximum(3, 2)


@program((X, 1.0), (X, 2.5), (X, math.inf))
def numpy_on_a_number_of_the_run(x, v):
    return float(np.sqrt(v)), float(np.exp(-v)), float(np.log(v)), x


@program(*NS)
def a_dict_that_makes_its_items(x, n):
    d = collections.defaultdict(list, a=[x])
    for k, name in enumerate("abcab"):
        d[name].append(x * k + n)
    print(len(d), list(d), "z" in d, d.get("z"), isinstance(d, dict))
    return d, d == dict(d), {**dict(d)}.keys() == d.keys(), d.pop("b")


@program(*NS, compilations=None)
def a_dict_that_counts_in_a_loop(x, n):
    d, c = collections.defaultdict(int), collections.Counter()
    for k in range(n):
        d[k % 3] += k
        c[k % 2] += 1
    return d, d[7], len(d), c, c[9], len(c), x


@program(*NS)
def counters(x, n):
    c = collections.Counter("abca")
    c["a"] += n
    c.update(["b", "b"])
    c.update({"d": n}, e=1)
    del c["none"]
    print(c["zz"], c.total(), sorted(c.items()), type(c) is collections.Counter, c == 3)
    return c, dict(c), collections.Counter("abracadabra").most_common(2), x


@program(*NS)
def a_branch_decides_what_a_dict_makes(x, n):
    d = collections.defaultdict(lambda: x * n)
    if n > 1:
        d["a"] += 1
    else:
        d["a"] = x
    return d["a"], d["b"], len(d)

"""Numbers, text, builtins and tensors inside expressions."""

from __future__ import annotations

import math
import operator
import sys

import jitgrad as torch
from tests.script.frontend.agree import ints, registry, suite, t

PROGRAMS, program = registry()


@program((0.3,), (0.7,))
def math_functions(x: float):
    return (math.sqrt(x), math.exp(x), math.expm1(x), math.log(x), math.log(x, 2), math.log2(x), math.log10(x),
            math.log1p(x), math.sin(x), math.cos(x), math.tan(x), math.asin(x), math.acos(x), math.atan(x),
            math.atan2(x, 2.0), math.sinh(x), math.cosh(x), math.tanh(x), math.asinh(x), math.acosh(x + 1),
            math.atanh(x), math.erf(x), math.erfc(x), math.gamma(x), math.lgamma(x), math.fabs(-x), math.pow(x, 3),
            math.fmod(x, 0.2), math.copysign(x, -1.0), math.hypot(x, 1.0), math.degrees(x), math.radians(x),
            math.exp2(x), math.cbrt(x), math.pi, math.e, math.tau, math.inf, math.isnan(math.nan))


@program((2.6,), (-3.5,), (0.0,))
def math_rounding(x: float):
    return (math.floor(x), math.ceil(x), math.trunc(x), math.isnan(x), math.isinf(x), math.isfinite(x), round(x),
            int(x), abs(x), math.isclose(x, 2.6), math.isclose(x, 0.0, abs_tol=1e-3))


@program((12, 18), (7, 0), (-4, 6))
def math_of_ints(a: int, b: int):
    return math.gcd(12, 18), math.floor(a), math.isqrt(17), math.fsum((1, 0.5)), math.prod((a, b, 2)), math.lcm(4, 6)


@program((2.5,), (-1.25,))
def math_of_constants(x: float):
    m, e = math.frexp(8.0)
    f, i = math.modf(2.5)
    return (m * x, e, f, i, math.ldexp(0.5, 3), math.dist((x, 0.0), (1.0, 2.0)), math.remainder(5.0, 2.0),
            math.factorial(5), math.comb(5, 2), math.perm(5, 2))


@program((t(3, 2), ints(1, 0, 1)), (t(5, 2), ints(0, 0, 1, 1, 0)))
def ranges_as_indices(x, i):
    n = x.shape[0]
    y = x * 2
    y[range(n), i] = 5.0
    y[range(n), 0] += 1
    return (x[range(n), i], x[range(n - 1, -1, -1)], x[range(1, n)], x[range(0, n, 2), 1], y, x[range(1), 0],
            x[(range(n), i - 2)])


@program((2.675, 1), (-1234.5678, -2), (1e300, 3), (0.5, 0), (math.nan, 2))
def round_to_digits(x: float, n: int):
    return round(x, 2), round(x, 0), round(x, -1), round(x, n), round(2.675, n)


@program((1234, 1), (-1250, -2), (15, -1), (25, -1))
def round_ints_to_digits(x: int, n: int):
    return round(x, 2), round(x, -1), round(x, n), round(x > 0, n)


@program((12, 18), (7, 0), (-4, 6), (0, 0))
def divisors(a: int, b: int):
    return math.gcd(a, b), math.lcm(a, b), math.gcd(a, b, 6), math.gcd(a), math.lcm(a, b, 4)


@program((5, 2), (0, 0), (10, 3), (3, 5), (-1, 2), (2, -1))
def combinatorics(a: int, b: int):
    return math.comb(a, b), math.perm(a, b), math.perm(a), math.isqrt(a * a + 1), math.factorial(a)


@program((-1,), (3,))
def factorial_of_negative(a: int):
    return math.factorial(a)


@program((4.0,))
def gcd_of_float(a: float):
    return math.gcd(a, 2)


@program((8.0, 3), (0.3, -2), (0.0, 1), (-5.5, 0), (math.inf, 1), (5e-324, 3), (1e300, 9999))
def parts_of_floats(x: float, n: int):
    m, e = math.frexp(x)
    f, i = math.modf(x)
    return m, e, f, i, math.ulp(x), math.nextafter(x, 0.0), math.ldexp(x, n)


@program((0.1, 0.2, 0.3), (1e16, 1.0, -1e16))
def exact_sums(a: float, b: float, c: float):
    return (math.fsum([a, b, c]), math.fsum((a, 1)), math.dist((a, b, c), (1.0, 2.0, 3.0)), math.dist([a], [b]),
            math.prod([a, b, c]), math.hypot(a, b, c), math.hypot(a), math.remainder(a, 0.3))


@program((3, 5, 7), (10, 0, 3), (-3, 4, -7), (2, 40, 1000000007), (3, -1, 7), (3, 2, 0))
def modular_power(a: int, b: int, m: int):
    return pow(a, b, m), pow(2, b, m), pow(a, b, 5)


@program((t(4), 2.5, 3), (t(4), 0.5, 2))
def exact_numbers_in_tensors(x, a: float, n: int):
    y = x
    for k in range(n):
        y = torch.sin(y * round(a, k)) * math.comb(n, k)
    return y


@program((t(3, 2), 1), (t(4, 3), 2))
def parts_of_a_new_tensor(x, n: int):
    y = x * 2
    y[n:] += 1
    return y, y[0], [y.T, {"flat": y.view(-1)}]


@program((2, 3), (2, -3), (-2, -1), (3, 0))
def int_power(a: int, b: int):
    return a ** b


@program((2, -3), (2, 2))
def int_power_used(a: int, b: int):
    p = a ** b
    return p * 2 + 1, p > 1, float(p), f"{p}", abs(p)


@program((5, 7.5, True), (-9, 2.25, False))
def conversions(n: int, f: float, b: bool):
    return (int(f), float(n), bool(n), int(b), float(b), bool(f), str(3), int("7"), float("2.5"), divmod(n, 4),
            divmod(f, 2.0), pow(n, 2), pow(n, 3, 7), pow(2, n % 5), round(f), round(n), abs(n), n / 4,
            n // 4, n % 4, -n // 4, ~n, +n, -f, n & 6, n | 1, n ^ 3, n << 2, n >> 1, b & True, not b, b + 1, n == f)


@program((5, 7.5, 3), (-9, 2.25, 8))
def extremes(n: int, f: float, k: int):
    return (min(n, f), max(n, f, k), min((n, k)), max([n, k, 2]), min(n, k, key=lambda v: -v),
            max((n, k), key=abs), max((), default=3), min([f], default=0), sum((n, k)), sum([n, f], 10),
            sum((n, k), start=1), any((n > 0, k > 5)), all((n > 0, k > 0)), sorted((n, k, 4)),
            sorted([f, 1.0], reverse=True), sorted((n, k), key=lambda v: -v), max("abc", "abd"), min(3, 2))


@program((t(4),))
def tensor_builtins(x):
    return (max(x[0], x[1]), min(x[0], x[1], x[2]), sum([x, x]), abs(x), pow(x, 2), len(x),
            float(x[0]), bool(x[0] > 0), sorted([3, 1]))


@program((t(4),))
def builtins_of_a_tensor(x):
    return sum(x), max(x), min(x), sum(x, 1.0)


@program((t(4, 3),))
def sum_of_rows(x):
    return sum(x)


@program((ints(3, 1, 2),))
def builtins_of_ints(x):
    return sum(x), max(x), min(x), sorted(x)[0]


@program((3,), (10,), (0,))
def quantifiers_stop(n: int):
    def test(k):
        print("asked", k)
        return 12 // (n - k) > 3

    return any(test(k) for k in range(6)), all(12 // (k + 1) > n for k in range(6))


@program((1, t(4)), (0, t(4)), (2, t(4)))
def run_time_key(k: int, x):
    table = {0: torch.sin, 1: torch.cos}
    return table[k](x), {0: 1.5, 1: 2.5}[k]


@program((1, t(4)), (0, t(4)), (2, t(4)))
def run_time_key_of_get(k: int, x):
    d = {0: x, 1: x * 2}
    return d.get(k, x * 3), d.get(k) is None


@program((3,), (4,), (9,), (-2,))
def in_ranges(n: int):
    return (n in range(3, 8), n in range(9, -3, -2), n in range(0), 4 in range(n), n in range(0, n * 2, 2),
            n in {3: "a", 9: "b"}, n not in {4: 1})


@program((0,), (2,))
def static_empty_max(n: int):
    return max([])


@program((4,), (7,))
def filters(n: int):
    xs = [k % 2 for k in range(n)]
    return list(filter(None, xs)), len(list(filter(lambda k: k > 0, [n, n - 5, 0])))


@program((2.0, t(3)), (-1.0, t(3)))
def sort_of_pairs(a: float, x):
    beams = [(a, x), (a * a, x * 2), (1.0, x * 3)]
    beams = sorted(beams, key=lambda b: b[0], reverse=True)[:2]
    return beams[0][1], beams[1][0], len(beams)


@program((1, 2.5, True), (-3, 1e20, False))
def printing(n: int, f: float, b: bool):
    print("plain", n, f, b)
    print(n, f, sep=", ", end="!\n")
    print(f"{n:>5}|{n:<5}|{n:^5}|{n:05d}|{n:+d}|{n:x}|{n:b}|{n:,}|{f:.3f}|{f:10.2e}|{f:g}|{f!r:>8}|{b}|{b!s:>6}")
    print("%d %5.2f %s %r %%" % (n, f, b, "s"))
    print("{} {:.2f} {name}".format(n, f, name=b), "{0} {1:g} {0!r:>4}".format(n, f), "{:>{}}".format(n, 6))
    print(f"{n=} {f=:.1f}")
    print()
    print("width", f"{n:{3 + 4}}")
    print(n, file=sys.stderr)
    print("flushed", flush=True)
    print(*(n, f), sep="-")
    print([n, f], (n,), {"a": n}, {1: (f, [b])})
    print(str(n) + " and " + str(f) + "!" * 3, repr(f), format(f, ".2f"))
    print(", ".join([str(n), "x", f"{f}"]))
    print("abc".upper(), "a,b".split(","), "abc".ljust(5) + "|")


@program((t(3), 2), (t(4), 5), grad=False)
def formatting_tensors(x, n: int):
    s = x.sum()
    print(f"{s:.3f} {s} {s!r} {x[0]:>8.2f}|{n} {(x > 0).sum():3d} {(x > 0).any()} {x[:1]}")
    print(s, str(s), "%s" % s, "{:.2e} {}".format(s, s), format(s, ".1f"), [s, n])
    for i in range(n):
        print(f"step {i}: loss {(x * i).sum():.4f}")
    if n > 4:
        raise ValueError(f"too large: {s:.2f}")
    return f"{s:.1f}"


@program((t(3),))
def format_of_more_than_one_number(x):
    return f"{x:.2f}"


@program((t(2, 2), 1.0))
def printing_tensors(x, f: float):
    print(x.detach())
    print(f"value {x.sum().item():.4f} shape {tuple(x.shape)} {x.shape}")
    x = x.detach()
    print("loss", x.sum(), x.dtype, f, None)
    print([x[0, 0], f], {"k": x[0]})
    print("%s" % x, "%.2f" % x.sum())
    s = f"{x}"
    x.add_(1)
    print(s)
    return x


@program((3, 1.5), (4, 2.5))
def returns_text(n: int, f: float):
    s = f"n is {n}"
    return s, s + "!", f"{f:.2f}", {"text": str(n)}, "static"


@program((1, 2, 3), (3, 2, 1), (2, 2, 2))
def chained_comparisons(a: int, b: int, c: int):
    return a < b < c, a <= b <= c, a == b == c, a < b > c, 0 < a < 3 != b, (1 if a < b < c else 2)


@program((t(3), None, 3), (t(3), t(3, seed=1), 0), compilations=2)
def short_circuit(x, mask, n: int):
    y = mask if mask is not None else x
    k = n or 5
    j = n and 7
    z = None or x
    w = mask is None and n > 0
    v = x is not None and n == 0 or k == 3
    q = (mask is not None) and (mask.sum() > 0)
    return y, k, j, z, w, v, q, not n, x is x, None is None


@program((t(3), 1.0), (t(3), -1.0))
def ternaries(x, c: float):
    y = x if c > 0 else None
    z = 1 if c > 0 else 2.5
    w = (x, 1) if c > 0 else (x * 2, 2)
    f = "pos" if c > 0 else "neg"
    return (y * 2 if y is not None else x * 3), z, w[0] * 2, w[1], f


@program((t(2, 2), t(2, 2, seed=1)))
def operators(a, b):
    return (a @ b, a % 2, a // 2, a ** 2, 2 ** a, -a, +a, (a > 0) & (b > 0), (a > 0) | (b > 0), (a > 0) ^ (b > 0),
            ~(a > 0), a == b, a != b, 1 - a, 1 / (a * a + 1), 3 // (a * a + 1), operator.add(a, b), operator.neg(a),
            operator.itemgetter(1)((a, b)), operator.mul(2, 3))


@program((ints(1, 2, 3), ints(3, 1, 1)))
def int_operators(a, b):
    return a & b, a | b, a ^ b, ~a, a << 1, a >> 1, a // b, a % b, a / b, a ** 2, -a, a * 2.5


@program((t(4, 5, 6),), (t(3, 4, 5),))
def indexing(x):
    i = torch.tensor([0, 2])
    m = x[0, 0] > 0
    return (x[0], x[-1], x[1:3], x[:, 1], x[..., 0], x[None], x[:, None, 1], x[1, ..., ::2], x[i], x[:, i], x[i, i],
            x[[0, 1]], x[x > 0].sum(), x[0, 0, m].sum(), x[1][2][0], x[-2:], x[:-1, 0], x[:, 1:-1:2], x[True],
            x[torch.tensor(1)], x[i[0]], x[i, :, 1:3], x[None, ..., None].shape, x[0, :2][:, 1])


@program((t(4, 5),), (t(3, 4),))
def index_assignment(x):
    y = x * 1
    i = torch.tensor([0, 2])
    y[0] = 1.0
    y[:, 1] = x[:, 0]
    y[..., 2] = 0
    y[1:3, ::2] = 5
    y[i] = x[i] * 2
    y[y > 1] = 0.5
    y[i, i] = 3
    y[None] = y[None] * 2
    y[-1, -1] = x.sum()
    y[0, i] += 7
    y[:] = y + 1
    y[torch.tensor(1)] = 2
    return y


@program((t(3, 2),), (t(3, 4),))
def unpacking(x):
    a, b, c = x
    (n, m) = x.shape
    r, *rest = x.shape
    d, e, f = x[:, 0]
    return a + b + c, n * m, r, rest, d * e * f, x.size(), x.size(0), x.shape, list(x.shape), tuple(x.size()), x.dim()


@program((t(3), t(3)))
def shapes(x, y):
    return (x.shape == y.shape, x.shape[0] == 3, x.shape == (3,), len(x.shape), x.shape[:1], x.shape + (2,),
            x.numel(), x.shape.numel(), x.ndim, x.dtype, x.device, x.is_contiguous(), x.requires_grad, x.shape[-1])


@program((t(2, 3),))
def values_of_tensors(x):
    return (x.tolist(), x[0, 0].item(), x.sum().tolist(), int(x[0, 0] * 10), float(x[1, 1]), bool(x[0, 0] > 0),
            x.detach().sum().item(), x[0].tolist())


@program((t(3),))
def tensor_data(x):
    y = x.data * 2
    z = x.detach()
    return y, z + 1, x.data is x


@program((t(1),), (t(1) * 0,))
def tensor_truth(x):
    if x:
        return x + 1, True
    y = not x
    while x < 3:
        x = x + 1
    return x, y


@program((t(4), 2), (t(4), -3), (t(4), 9))
def run_time_indices(x, k: int):
    items = (x, x * 2, x * 3)
    return x[k], items[k]


@program((t(4), 3), (t(4), 0))
def loop_variable_from_argument(x, n: int):
    h = x
    for _ in range(n):
        h = h + 1
        h.mul_(2)
    return h


@program((t(4), 3), (t(4), 0), grad=False)
def loop_variable_in_place(x, n: int):
    h = x
    for _ in range(n):
        h += 1
    return h


@program((t(4), t(4, seed=1), 2), (t(4), t(4, seed=1), 1), grad=False)
def write_to_item(x, y, k: int):
    items = [x, y]
    for i in range(k):
        items[i] += 1
    items[-1] *= 2
    return x, y


@program((t(4),))
def shared_views(x):
    base = x * 1
    return base, base[1:], base.reshape(2, 2)


@program((t(6, 4), 1, 3), (t(8, 5), 2, 5), (t(6, 4), -3, -1))
def slices_made(x, a: int, b: int):
    rows, ends = slice(a, b), slice(None, None, 2)
    xs = [x[0], x[1] * 2, x[2]]
    return x[rows], x[rows, ends], x[..., slice(1, None)], xs[slice(1, 3)], rows.start, isinstance(rows, slice)


@program((t(2, 3),), (t(3, 3),), (t(4, 3),), grad=False)
def unpacked_rows(x):
    a, b, c = x
    return a + b * c


@program((2,), (3,), (4,))
def unpacked_list(n: int):
    xs = [k * 2 for k in range(n)]
    a, b, c = xs
    return a + b * c


test_programs = suite(PROGRAMS)

"""Numbers of Python: exact where Python's are, with its signs, its types and its texts."""

import math

from tests.script.frontend.agree import ints, registry, t

PROGRAMS, program = registry()
X = t(3)
PAIRS = tuple((X, a, b) for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5)))
KS = tuple((X, k) for k in (0, 1, 2, 5, -1, -3))


@program(*PAIRS)
def floor_and_remainder_have_pythons_signs(x, a, b):
    return a // b, a % b, divmod(a, b), -a // b, x


@program(*PAIRS)
def the_same_of_floats(x, a, b):
    return (a + 0.5) // b, (a + 0.5) % b, math.fmod(a, b), x


@program((X, 2**53 + 1, float(2**53)), (X, 2**53 - 1, float(2**53)), (X, 3, 3.0))
def ints_and_floats_are_compared_exactly(x, a, b):
    """The float of 2**53 + 1 is 2**53."""
    return a == b, a < b, a > b, a != b, x


@program((X, 5), (X, 2**31), (X, -2**31))
def products_beyond_32_bits(x, n):
    return n * 2**20, n * n // 7, x


@program(*KS)
def powers_of_ints(x, k):
    return (k * k) ** 3, (-2) ** 3, 2 ** abs(k), x * k ** 2


@program(*KS)
def shifts_and_bits(x, k):
    n = abs(k)
    return n << 3, n >> 1, n & 5, n | 8, n ^ 3, ~k, x


@program(*KS)
def bools_are_ints(x, k):
    return True + k, (k > 0) + (k > 1), sum([k > 0, k > 1, True]), x * (k > 0)


@program(*KS)
def and_or_return_operands(x, k):
    return k and "yes", k or "no", not k, (k or 7) + 1, x


@program(*KS)
def chained_comparisons(x, k):
    return -1 < k < 3, 0 <= k != 2 <= 5, x


@program(*KS)
def conditional_expressions_nest(x, k):
    return "neg" if k < 0 else "zero" if k == 0 else "pos", x


@program(*KS)
def rounding_is_to_even(x, k):
    return round(k + 0.5), round(k / 4, 1), int(k - 0.7), math.floor(k - 0.7), math.ceil(k - 0.7), x


@program(*KS)
def minimum_keeps_the_type(x, k):
    """max(1, 1.0) is the first of two that are equal."""
    return max(k, 1.0), min(k, 1.0), max(1, 1.0), max([k, 2], default=0), x


@program(*KS)
def texts_of_numbers(x, k):
    return f"{k:>4}|{k:+d}|{k / 3:.3f}|{k * 1.0!r}|{k / 7:e}|{k:05d}", str(k * 0.1), x


@program(*KS)
def percent_and_format(x, k):
    return "%d %5.2f %s" % (k, k / 3, k), "{} {:>5} {!r}".format(k, k * 2, "a"), x


@program(*KS, compilations=None)
def a_range_with_a_run_time_step(x, k):
    seen = []
    try:
        for i in range(1, 8 * k, k):
            seen.append(i)
    except ValueError as e:
        print(e)
    return seen, x


@program(*KS)
def ranges_are_objects(x, k):
    r = range(k, 8, 2)
    return len(r), 3 in r, list(r), r[0] if len(r) else None, x


@program(*KS)
def slices_with_run_time_ends(x, k):
    xs = [10, 20, 30, 40, 50]
    return xs[k:], xs[:k], xs[k:k + 2], xs[::-1][k:], x[k:]


@program(*KS)
def negative_indices_of_tensors(x, k):
    return x[-1], x[-2:], x[:-1], x[k] if -3 <= k < 3 else x[0]


@program(*KS)
def a_float_that_becomes_a_tensor(x, k):
    best = 1e9
    for v in x:
        if v < best:
            best = v
    return best * k


@program(*KS)
def an_int_that_becomes_a_float(x, k):
    total = 0
    for i in range(3):
        total += i * 0.5 if k > 0 else i
    return total, x


@program(*KS)
def infinity_and_nan(x, k):
    big = float("inf") * (k + 0.5)
    nan = big - big
    return nan == nan, big > 1e308, math.isnan(nan), min(big, 3.0), x


@program(*KS)
def zero_has_a_sign(x, k):
    z = -0.0 * abs(k)
    return math.copysign(1.0, z), z == 0, str(z), x


@program(*KS)
def division_is_true_division(x, k):
    return k / 2, 7 / (k * k + 1), x / 2, (x > 0).sum() / 2


@program(*KS)
def ints_of_tensors(x, k):
    n = int((x > 0).sum())
    return n + k, n == (x > 0).sum().item(), float(x.sum()) > 1e9, bool((x > 100).any())


@program((ints(3, 1, 2), 1), (ints(5, 5, 5), 2))
def int_tensors_and_floats(i, k):
    return i / 2, i // 2, i * 0.5, i ** 2, -i % 4, (i + 0.5).dtype == (i * 1.0).dtype


@program((X.to(t(1).dtype), 300), (X, 5))
def uint8_wraps(x, k):
    u = (x > 0).byte() * 200
    return u + 100, u - 201, u * k if k < 256 else u


@program(*KS)
def gcd_and_factorial(x, k):
    n = abs(k)
    return math.gcd(n, 12), math.sqrt(n), math.hypot(n, 3), x


@program(*KS)
def augmented_assignment_of_everything(x, k):
    n = k
    n += 3
    n *= 2
    n -= 1
    n //= 2
    n %= 5
    n **= 2
    n <<= 1
    n |= 1
    return n, x


@program((t(4, 3), 0), (t(2, 5), 0), (t(2, 5), 1), compilations=2)
def an_axis_that_is_an_argument(x, axis):
    """What must be known while compiling is what it is at the first call, and guarded."""
    return x.sum(axis), x.softmax(axis), x.cumsum(axis - 2)


@program((t(6, 4), 2, True), (t(9, 4), 2, True), (t(6, 4), 3, True), (t(6, 4), 2, False), compilations=3)
def parts_and_flags_that_are_arguments(x, n, keep):
    return [part.sum(1, keepdim=keep) for part in x.chunk(n)], [part * n for part in x.tensor_split(n + 1)]


@program((X, 2), (X, 2), (X, 3), compilations=2)
def a_key_that_is_an_argument(x, k):
    return {k: x, 2 * k + 1: x * k}


@program((t(4, 3), 1), (t(4, 3), 0), compilations=2)
def a_constant_whose_arithmetic_fails(x, n):
    """What comes before it is done."""
    print("asked for an axis")
    return x.sum(1 // n)


@program((t(4, 3), 1))
def a_constant_that_is_computed_from_itself(x, n):
    """Forty times: each number is looked at once."""
    for _ in (0, 1, 2, 3, 4, 5, 6, 7):
        n = n + n
        n = n + n
        n = n + n
        n = n + n
        n = n + n
    return x.sum(n % 2)

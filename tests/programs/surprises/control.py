"""Control flow: early returns, nested loops that are left, flags, recursion, matches, state kept over iterations."""

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 2, 4))
calls = 0


def gcd(a, b):
    return a if b == 0 else gcd(b, a % b)


def power(x, n):
    """Recursion that ends by what is known."""
    if n == 0:
        return torch.ones_like(x)
    half = power(x, n // 2)
    return half * half * (x if n % 2 else 1)


@program(*NS, compilations=None)
def returns_from_nested_loops(x, n):
    for i in range(4):
        for j in range(4):
            if i * j == n:
                return x * i, j
    return x, -1


@program(*NS)
def a_flag_leaves_two_loops(x, n):
    found = False
    for i in range(3):
        for j in range(3):
            if i + j == n:
                found = True
                break
        if found:
            break
    return x * i, j, found


@program(*NS)
def a_loop_that_does_not_run(x, n):
    total = x * 0
    for k in range(n - 1):
        total = total + k
    while n > 100:
        n -= 1
    return total, n


@program(*NS)
def a_while_loop_on_a_tensor(x, n):
    count = 0
    while (x * x).sum() < 50 and count < 20:
        x = x * 1.5 + n
        count += 1
    return x, count


@program(*NS)
def continue_in_a_while_loop(x, n):
    k, out = 0, 0
    while k < 6:
        k += 1
        if k % 2 == n % 2:
            continue
        out += k
    return out, x


@program(*NS)
def elif_chains_and_shared_names(x, n):
    if n == 0:
        y, label = x, "zero"
    elif n == 1:
        y, label = x * 2, "one"
    else:
        y = x.exp()
        label = "many" if n > 3 else "few"
    return y * 1, label


@program(*NS)
def match_statements(x, n):
    match (n, "k"):
        case (0, _):
            return x, "zero"
        case (1 | 2 as m, str(s)):
            return x * m, s
        case (m, _) if m > 3:
            return x * 100, "guard"
    return x, "none"


@program((X, {"kind": "scale", "by": 2}), (X, {"kind": "shift"}), compilations=None)
def match_on_a_dict(x, action):
    match action:
        case {"kind": "scale", "by": k}:
            return x * k
        case {"kind": kind, **rest}:
            return x + 1, kind, len(rest)


@program(*NS)
def recursion_that_ends_by_a_constant(x, n):
    return power(x, 5) + n


@program(*NS)
def fibonacci_in_a_loop(x, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b, x * a


@program(*NS)
def a_state_machine(x, n):
    state = "start"
    steps = 0
    while state != "end" and steps < 10:
        steps += 1
        if state == "start":
            state = "run" if n else "end"
        elif steps > n + 1:
            state = "end"
    return state, steps, x


@program(*NS)
def the_previous_value_of_a_loop(x, n):
    previous, deltas = x, []
    for k in range(1, 4):
        current = x * k + n
        deltas.append((current - previous).sum())
        previous = current
    return deltas, previous


@program(*NS)
def the_best_so_far(x, n):
    best, where = None, -1
    for k in range(4):
        score = (x * (k - n)).sum()
        if best is None or score > best:
            best, where = score, k
    return best, where


@program(*NS)
def early_exit_by_a_tensor(x, n):
    for k in range(5):
        x = x * 2
        if x.abs().max() > 2 ** n:
            break
    else:
        k = -1
    return x, k


@program(*NS)
def both_branches_return(x, n):
    if x.sum() > 100:
        return x, "large"
    else:  # noqa: RET505
        if n:
            return x * n, "n"
        return x, "small"


@program(*NS)
def conditions_with_side_effects(x, n):
    log = []

    def say(v):
        log.append(v)
        return v

    if say(n > 0) and say(n > 1) or say(n == 0):
        x = x * 2
    return x, log


@program(*NS)
def nested_conditional_loops(x, n):
    total = 0
    for i in range(3):
        j = i
        while j < n:
            total += i * j
            j += 1
            if total > 10:
                break
        else:
            total += 100
    return total, x


@program(*NS)
def unrolled_and_rolled(x, n):
    for scale in (0.5, 2.0, -1.0):
        for _ in range(n):
            x = x * scale + 1
    return x


@program(*NS)
def a_name_deleted(x, n):
    y = x * 2
    z = y
    del y
    try:
        y  # noqa: B018
    except NameError:
        z = z + n
    return z


@program(*NS)
def a_global_counter(x, n):
    global calls
    calls = 0
    for _ in range(n):
        calls += 1
    return calls, x


@program(*NS)
def prints_in_order(x, n):
    for k in range(n):
        print(k, end=" ")
        if k == 1:
            print("one", sep="", end="!")
    print("done", n, sep="|")
    return x


@program(*NS)
def assertions_that_hold(x, n):
    assert n >= 0, "never"
    assert isinstance(x, torch.Tensor)
    return x * n


@program(*NS)
def ternaries_with_tensors(x, n):
    y = x if n > 1 else -x if n else x * 0
    return y * 2, (y if n else x).sum()


@program(*NS)
def newton_until_it_converges(x, n):
    guess = torch.ones(()) * (n + 1)
    for k in range(30):
        new = (guess + 2 / guess) / 2
        if (new - guess).abs() < 1e-4:
            break
        guess = new
    return guess, k < 29, x


@program(*NS, compilations=None)
def a_sum_that_begins_with_a_number(x, n):
    s, k = 0, 0
    while k < n:
        s = s + x
        k += 1
    last = 0.5
    for j in range(n):
        last += (x * j).sum()
        if j == 2:
            break
    inner = 0
    for i in range(n):
        for _ in range(int((x * x).sum()) % 3):
            inner = inner + x.sum() * i
    return s, last, inner, k

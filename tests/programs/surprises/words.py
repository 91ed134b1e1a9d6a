"""Strings that only the run knows, in containers, called functions, exceptions, and beside gradients."""

import collections
import enum

import jitgrad as torch
from jitgrad.utils.checkpoint import checkpoint
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (3, 0, 1, 11))


@program(*NS)
def made_by_recursion(x, n):
    def digits(k):
        return "" if k <= 0 else digits(k - 1) + f"{k},"

    return digits(n)


@program(*NS)
def a_length_as_condition(x, n):
    s = "a"
    while len(s) < n:
        s = s + s[-1] + f"{len(s)}"
    return s


@program(*NS)
def kept_by_a_closure(x, n):
    s = ""

    def add(k):
        nonlocal s
        s = s + f"{k}"

    for i in range(n):
        add(i)
    return s, (lambda q, r=f"{n}": q + r)("x")


@program(*NS)
def given_by_generators(x, n):
    def names(m):
        for i in range(m):
            yield f"n{i}"

    return list(names(n)), "".join(names(n)), [w for w in names(n) if w != "n1"]


@program(*NS)
def numbers_of_a_loop_that_may_be_wrong(x, n):
    good, bad = 0, []
    for i in range(n):
        w = f"{i}" if i % 3 else f"{i}?"
        try:
            good += int(w)
        except ValueError as e:
            bad.append(str(e))
        finally:
            x = x + 1
    return good, bad, x


@program(*NS)
def values_and_rows(x, n):
    d, rows = {}, []
    for i in range(n):
        d[i] = f"v{i}"
        rows.append([f"{i}", "c"])
    return d, rows, (f"{n}", 1) < ("3", 2), (f"{n}", 2) == ("3", 2)


@program(*NS)
def tuples_with_strings_as_keys(x, n):
    d = {}
    for i in range(n):
        d[f"{i % 2}", i] = x * i
    return len(d), ("1", 1) in d, d["1", 1] if n > 1 else x


@program(*NS)
def sorted_and_extremes(x, n):
    w = [f"{(i * 7) % 11}" for i in range(n)]
    return (sorted(w), sorted(w, key=lambda s: len(s)), sorted(w, reverse=True), max(w, key=len, default=""),
            min(w, default="z"), sorted(w, key=lambda s: (len(s), s)))


@program(*NS)
def deques_and_counters(x, n):
    q = collections.deque()
    for i in range(n):
        q.append(f"{i}")
    counts = collections.Counter(f"{i % 3}" for i in range(n))
    sums = collections.defaultdict(int)
    for i in range(n):
        sums[f"{i % 2}"] += i
    return q, counts["1"], sums, list(q)


@program(*NS)
def printed(x, n):
    s = f"{n}"
    print(x.shape, s, n, sep=f"<{s}>", end=s + "\n")
    print("a", s[:0], "b", {"k": s}, [s], (s,), s == "3")
    print(f"{[s, n]} {s!r:>8}")


@program(*NS)
def looked_for(x, n):
    s = f"{n}"
    return (s in ["3", "4"], s in ("3", "1"), s in {"3", "0"}, s in {"3": 1}, s not in "0123", s in {"1": 2}.keys(),
            s in ["3", 3])


@program(*NS)
def a_table_of_functions(x, n):
    functions = {"3": torch.sin, "0": torch.cos}
    s = f"{n}"
    return functions[s](x) if s in functions else x


@program(*NS)
def types_of_strings(x, n):
    s = f"{n}"
    return (isinstance(s, str), type(s) is str, s is None, isinstance(s, (int, float)), s == 3, s != 3, callable(s),
            hasattr(s, "upper"))


@program(*NS)
def numbers_in_every_form(x, n):
    return (int(f" {n} "), int(f"{n}_0"), float(f"{n}e1"), float("na" + f"n{n}"[:1]), int(f"0x{n}", 16),
            int(f"{n}", n + 20), float(f"-inf{n}"[:4]))


@program(*NS)
def operators_that_strings_lack(x, n):
    s, out = f"{n}", []
    try:
        s + 1
    except TypeError:
        out.append("add")
    try:
        out.append(s < 1)
    except TypeError as e:
        out.append(str(e))
    try:
        s * 2.0
    except TypeError:
        out.append("mul")
    try:
        s[1.0]
    except TypeError:
        out.append("index")
    return out


@program(*NS)
def beside_other_iterables(x, n):
    s = f"ab{n}"
    return ([a + b for a, b in zip(s, "xyz", strict=False)], list(enumerate(s, 1)),
            list(zip(s, range(2), strict=False)), list(map(str.upper, s)),
            list(map(int, f"{n}{n}")), list(reversed(s)), sum(len(w) for w in s.split("b")))


@program(*NS)
def unpacked(x, n):
    a, b = f"{n},{n + 1}".split(",")
    first, *rest = f"p {n} q r".split()
    *most, last = f"{n}".rjust(3, ".")
    c, d = f"{n:02d}"
    return a, b, first, rest, most, last, c, d


@program(*NS)
def too_many_or_too_few(x, n):
    try:
        a, b = (f"{n}," * n).split(",")
    except ValueError as e:
        return str(e)
    _, *rest = f"{n}"[n:]
    return a, b, rest


@program(*NS)
def lists_changed(x, n):
    w = f"a b {n} c".split()
    w.remove("b")
    w.insert(1, f"<{n}>")
    w.append("z")
    del w[0]
    w[0] = w[0] + "!"
    return w, w.count("z"), w == ["x"], w[1:], w.pop(), w + ["q"], w * 2, len(w)


@program((X, 3, {}), (X, 0, {}), (X, 2, {}))
def keys_stored_for_the_caller(x, n, d):
    for i in range(n):
        d[f"{i}"] = i
    return x


@program((X, 3, {"3": 1.5, "1": 2.0}), (X, 1, {"3": 1.5, "1": 2.0}))
def keys_looked_up_for_the_caller(x, n, d):
    return d[f"{n}"] * x, d.get(f"{n + 1}", 0.0)


@program((X, 3, {}), (X, 1, {}))
def values_stored_for_the_caller(x, n, d):
    d["label"] = f"{n}" * 2
    d["list"] = [f"{i}" for i in range(n)]
    return x


@torch.ignore
def show(s: str, k: int) -> int:
    print("seen", s, k)
    return len(s)


@program(*NS)
def given_to_an_ignored_function(x, n):
    s = ""
    for i in range(n):
        s += f"{i}"
    return show(s, n), show(f"<{n}>", 2), show("known", 1)


@program(*NS)
def lists_with_gaps(x, n):
    w = []
    for i in range(n):
        w.append(f"{i}" if i % 2 else None)
    return w, [s for s in w if s is not None], sum(1 for s in w if s is None)


@program(*NS)
def letters_of_any_kind(x, n):
    s = "é😀" * n + f"{n}ß"
    return len(s), s.upper(), s[:1], ascii(s), repr(s + "'\n"), s.casefold(), s[::-1]


@program(*NS)
def in_nested_loops(x, n):
    out = ""
    for i in range(n):
        row = ""
        for j in range(i):
            if j == 3:
                break
            row += f"{j}"
            if row == "01":
                continue
            row += "."
        if row == "":
            continue
        out = out + row + "\n"
    return out


@program(*NS)
def gradients_inside(x, n):
    w = x.detach().clone().requires_grad_()
    log = ""
    for i in range(n):
        loss = (w * w).sum() * float(f"0.{i}")
        g, = torch.autograd.grad(loss, w)
        w = (w - 0.1 * g).detach().requires_grad_()
        log += f"{i}:{loss.item():.3f};"
    return w, log


@program(*NS)
def recomputed(x, n):
    def f(v):
        s = ""
        for i in range(n):
            s += f"{i}"
            v = v.sin() * (2 if s.endswith("2") else 1) * len(s)
        return v

    return checkpoint(f, x, use_reentrant=False)


@program(*NS)
def gradients_of_branches(x, n):
    s = "a"
    for i in range(n):
        s += f"{i}"
        x = x.cos() * float(len(s)) * 0.1 if "1" in s else x.sin()
    return x, s


@program(*NS)
def a_machine_of_known_words(x, n):
    state = "start"
    for _ in range(n):
        if state == "start":
            state = "run"
        elif state == "run":
            state = "end"
        else:
            state = "start"
            x = x * 2
    return state, x


@program(*NS)
def a_string_or_a_number(x, n):
    return f"{n}" if n > 2 else n


@program(*NS)
def asserted(x, n):
    s = f"n{n}"
    assert n != 1, "bad " + s
    return s


@program(*NS)
def values_of_known_keys(x, n):
    d = {"a": "x", "b": f"{n}"}
    for k in d:
        d[k] = d[k] + k
    d["a"] += "!"
    return d, list(d.values()), " ".join(f"{k}={v}" for k, v in d.items()), {k: f"{k}{n}" for k in ("p", "q")}


@program(*NS)
def keys_that_come_and_go(x, n):
    d = {}
    for i in range(n):
        d.setdefault(f"{i % 2}", i)
        d.pop(f"{i - 3}", None)
    return d


@program(*NS)
def known_words_in_a_list(x, n):
    w = ["a"]
    for i in range(n):
        w.append("b" if i % 2 else "c")
    return ",".join(w), w


@program(*NS)
def raised_in_a_loop(x, n):
    s = ""
    for i in range(n):
        s += f"{i}"
        if len(s) > 5:
            raise RuntimeError(f"at {s!r}")
    return s


@program(*NS)
def left_by_a_return(x, n):
    for w in f"a b {n}".split():
        if w.isdigit():
            return w, int(w) * x
    return None


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@program(*NS)
def text_of_one_of_several(x, n):
    number = n if n > 2 else None
    row = x if n > 2 else None
    mixed = x if n > 2 else 3.5
    word = f"{n}" if n > 2 else None
    pair = (n, f"{n}") if n > 2 else None
    colour = Colour.RED if n > 2 else Colour.BLUE
    return f"{number}", f"<{row}>", f"{mixed}", f"{word}|{word!r:>6}", f"{pair}", f"{colour}", str(word) + str(number)

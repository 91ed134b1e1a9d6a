"""Strings that only the run knows: compared, grown, cut, formatted, chosen, kept in containers, read as numbers."""

from dataclasses import dataclass

from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (3, 0, 1, 12))


@program(*NS)
def comparisons(x, n):
    s = f"{n}"
    return (s == "3", s != "3", "3" == s, s < "2", s <= f"{n + 1}", s > "1", s >= "12", s == n,
            x * (1 if s == "12" else 2))


@program(*NS)
def grows_in_a_loop(x, n):
    s = ""
    for i in range(n):
        s += f"{i} "
        x = x * 1.5
    return s, len(s), x


@program(*NS)
def grows_by_literals(x, n):
    s = t = ""
    for _ in range(n):
        s += "ab"
        t = "(" + t + ")"
    return s, t, len(t), x


@program(*NS)
def grows_in_a_while(x, n):
    s, k = f"{n}", n
    while k > 0:
        s = f"{s}/{k % 3}" if k % 2 else s + "."
        k -= 1
    print(s)
    return s.count("."), s


@program(*NS)
def methods(x, n):
    s = f" aB{n}c "
    return (s.ljust(9) + "|", s.rjust(9, "."), s.center(11, "*"), s.upper(), s.lower(), s.title(), s.swapcase(),
            s.strip(), s.lstrip(), s.rstrip(" c"), f"{n}".zfill(4), s.replace("B", f"<{n}>"), s.replace(" ", "", 1),
            s.capitalize(), s.casefold(), s.removeprefix(" a"), s.removesuffix("c "), f"{n}\t.".expandtabs(4))


@program(*NS)
def questions(x, n):
    s = f"a{n}b"
    return (s.startswith("a1"), s.endswith(("2b", "3b")), s.startswith("1", 1), s.isdigit(), f"{n}".isdigit(),
            s.isalpha(), s.isalnum(), s.isupper(), s.islower(), s.isspace(), s.isidentifier(), s.find("b"),
            s.rfind("x"), s.count("1"),
            f"{n}".isnumeric(), f"{n}".isdecimal(), s.isascii(), s.isprintable(), s.istitle(), len(s))


@program(*NS)
def methods_of_known_strings(x, n):
    s = f"{n}"
    return ("ab".ljust(n) + "|", "a1b12".find(s), "a0b3".replace(s, "-"), "1,12,3".count(s), "12".startswith(s),
            s.join("abc"), s.join(["x", s, "y"]), "-".join((s, s)), "a3b3".split(s), "abc".zfill(n), "abcdef"[n:],
            "abcdef"[:n], s in "0123", "1" in s)


@program(*NS)
def split_and_joined(x, n):
    words = (f"{n} " * 3 + "end").split()
    lines = f"a{n}\nb\n".splitlines()
    head, sep, tail = f"k={n}".partition("=")
    return words, len(words), "+".join(words), lines, head, sep, tail, f"a.{n}.c".rsplit(".", 1), f"{n}".rpartition("/")


@program(*NS)
def split_with_names(x, n):
    return (f"a,{n},b".split(",", maxsplit=1), f"a,{n},b".rsplit(sep=",", maxsplit=1),
            f"a\n{n}".splitlines(keepends=True))


@program(*NS)
def joined_of_any_length(x, n):
    names = []
    for i in range(n):
        names.append(f"n{i}")
    return ", ".join(names), "".join(str(i) for i in range(n)), "-".join([f"{i}" for i in range(n) if i % 2]), names


@program(*NS)
def cut(x, n):
    s = f"abc{n}def"
    return s[0], s[-1], s[1:3], s[n:], s[:-n], s[::-1], s[::2], s[n % 4], s[-1:0:-2]


@program(*NS)
def gone_over(x, n):
    s = f"a{n}b"
    out, digits = [], 0
    for c in s:
        if c.isdigit():
            digits += int(c)
        out.append(c.upper())
    for k, c in enumerate(s):
        out.append(f"{k}{c}")
    return out, digits, list(s), [c + c for c in s], "".join(reversed(s)), sorted(s), "".join(c for c in s if c != "a")


@program(*NS)
def nested_formats(x, n):
    inner = f"<{n}>"
    return (f"{inner:>8}|", f"{inner!r:^9}", f"{inner}{inner!s:<6}{n:03d}", "%s-%5s|%r" % (inner, inner, inner),
            "{:>7}{}{a!r}".format(inner, n, a=inner), str(inner), repr(inner), format(inner, "6"), ascii(f"é{n}"))


@program((X, 3, 1.5), (X, 0, -2.25), (X, 8, 1e10))
def formats_of_the_run(x, n, y):
    return f"{y:.{n}f}", f"{n:{n + 2}d}|", f"{'ab':>{n}}|", format(y, f"+.{n}e"), "{:{w}}".format(y, w=n + 3), (
        f"{x.sum():.{n}f}")


@program(*NS)
def chosen_by_a_branch(x, n):
    if n > 2:
        s = "big"
    elif n == 1:
        s = "one"
    else:
        s = f"small {n}"
    u = "x" if n else f"{n}"
    print(s, u)
    return s, s + "!", len(s), s == "big", f"{s:>9}", "a" in s, u


@program(*NS)
def none_or_a_string(x, n):
    s = f"{n}" if n > 2 else None
    t = None
    for i in range(n):
        t = f"{t}{i}" if t is not None else f"<{i}"
    return s, t, s is None, len(s) if s is not None else -1, s == "3", s or "none"


@program(*NS)
def keys_of_dicts(x, n):
    counts = {}
    for i in range(n):
        key = f"k{i % 3}"
        counts[key] = counts.get(key, 0) + i
    known = {"k0": 1, "k1": 2}
    total = 0
    for k, v in counts.items():
        total += v * len(k) + known.get(k, 10)
    return counts, "k1" in counts, f"k{n}" in known, known.get(f"k{n}", -1), total, len(counts)


@program(*NS)
def key_errors(x, n):
    known = {"1": x * 2, "3": x}
    try:
        return known[f"{n}"]
    except KeyError as e:
        return x * 0, str(e)


@program(*NS)
def a_missing_key(x, n):
    return {"1": 2.0, "3": 1.5}[f"{n}"] * x


@program(*NS)
def displays_with_keys_of_the_run(x, n):
    d = {"a": 1, f"{n}": 2, **{"b": 3}, "3": 4}
    e = {n: 1, 3: 2, n + 1: 5}
    return d, d[f"{n}"], len(d), e


@program(*NS)
def sets_of_strings(x, n):
    seen = set()
    for i in range(n):
        seen.add(f"{i % 4}")
    return len(seen), "1" in seen, sorted(seen)


@program(*NS)
def lists_of_strings(x, n):
    names = [f"{i}!" for i in range(n)] + ["end"]
    names.append(f"{n}")
    names.sort()
    return names, names[0], max(names), "end" in names, names.index("end"), names[::-1], [len(s) for s in names]


@program(*NS)
def tuples_and_objects(x, n):
    pairs = []
    for i in range(n):
        pairs.append((f"{i}", i * x))
    best = ("", x)
    for name, y in pairs:
        if name > best[0]:
            best = name, y
    return best, pairs


@dataclass
class Named:
    name: str
    value: float


@program(*NS)
def fields_of_objects(x, n):
    thing = Named("none", 0.0)
    for i in range(n):
        thing.name = f"{thing.name}{i}"
        thing.value += 1.5
    other = Named(f"{n}", 1.0)
    return thing, other, thing.name == other.name


class Log:
    def __init__(self):
        self.last, self.lines = "", []


@program((X, 3, Log()), (X, 0, Log()), (X, 5, Log()), compilations=2)
def attributes_of_the_caller(x, n, log):
    for i in range(n):
        log.last = log.last + f"{i};"
        log.lines.append(f"line {i}")
    return x * 2


@program((X, 3, []), (X, 0, []), (X, 2, ["a"]), compilations=2)
def appended_for_the_caller(x, n, out):
    for i in range(n):
        out.append(f"{i}".rjust(3))
    return x


@program(*NS)
def read_as_numbers(x, n):
    s = f"{n}"
    return (int(s), float(s + ".5"), int(f"-{n}"), int(f"1{n % 2}", 2), float(f"{n}e2"), ord(s[0]), chr(65 + n),
            bool(s), bool(s[9:]), x * float(s))


@program(*NS)
def bad_numbers(x, n):
    try:
        y = int(f"{n}x" if n % 2 else f"{n}")
    except ValueError as e:
        print(e)
        y = -1
    return y, float(f"{n}" + "z" * (n > 5))


@program(*NS)
def what_methods_raise(x, n):
    s = f"a{n}"
    try:
        k = s.index("3")
    except ValueError as e:
        k = str(e)
    try:
        c = s[2]
    except IndexError as e:
        c = str(e)
    try:
        parts = "a1b".split("" if n == 1 else f"{n}")
    except ValueError as e:
        parts = [str(e)]
    return k, c, parts


@program(*NS)
def an_index_out_of_range(x, n):
    print("before")
    return f"{n}"[1]


@program(*NS)
def raised_with_a_string(x, n):
    s = "-".join([f"{i}" for i in range(n)])
    if len(s) > 3:
        raise ValueError("too long: " + s)
    if s == "":
        raise KeyError(s, n)
    return s


@program(*NS)
def matched(x, n):
    match f"{n % 4}":
        case "0":
            return x, "zero"
        case "1" | "2":
            return x * 2, "few"
        case other:
            return x * 3, other


@program(*NS)
def repeated(x, n):
    s = f"{n}"
    return s * 3, s * n, n * "ab", "-" * n + ">", s * 0, (s + "|") * 2


@program(*NS)
def truths(x, n):
    s = f"{n}"[1:]
    if s:
        y = x * 2
    else:
        y = x
    return y, not s, s or "empty", s and "there", bool(f"{n}"), any(c == "2" for c in f"{n}")


@program(*NS)
def in_nested_functions(x, n):
    def label(k, word="item"):
        return f"{word} {k}".capitalize()

    parts = []
    for k in range(n):
        word = label(k) if k % 2 else label(k, "row")
        if word.endswith("0"):
            continue
        if len(parts) > 5:
            break
        parts.append(word)
    return parts


@program(*NS)
def differentiated_beside_strings(x, n):
    s = ""
    for i in range(n):
        s += f"{i}"
        if s.endswith("1") or len(s) > 6:
            x = x * x.sin()
        else:
            x = x * float(f"1.{i}")
    return x.sum() * len(s), s


@program(*NS)
def text_of_tensors(x, n):
    s = f"{x.sum().item():.3f}"
    u = f"{x * n}"
    x = x + 1
    lines = []
    for i in range(n):
        lines.append(f"{(x * i).tolist()}"[:6])
    return s, u.startswith("tensor"), len(u) > 5, lines, s.split(".")[0]


@program(*NS)
def exits_with_strings(x, n):
    s = "start"
    for i in range(n):
        if i == 2:
            return f"{s} left at {i}", x
        s = s + f" {i}"
    else:
        s += " done"
    return s, x * 2


@program((X, 3000), (X, 0), (X, 500))
def a_long_string(x, n):
    s, u = "", "x" * n
    for i in range(n):
        s += f"{i},"
        u = u + "." if i % 2 else u
    a = s + "a"
    b = s + "b"
    return len(s), s[-9:], s.count("1"), s == s + "", a[-3:], b[-3:], len(u), a == b


@program(*NS)
def caesar(x, n):
    text = f"hello {n} world"
    out = ""
    for c in text:
        if c.isalpha():
            out += chr((ord(c) - 97 + n) % 26 + 97)
        else:
            out += c
    return out


@program(*NS)
def key_value_lines(x, n):
    lines = "\n".join(f"w{i} = {i * 2}" for i in range(n))
    found = {}
    for line in lines.splitlines():
        name, _, value = line.partition(" = ")
        found[name.strip()] = int(value)
    return found, sum(found.values()) if n else 0


@program(*NS)
def a_random_walk_of_words(x, n):
    word, seen = "a", []
    for _ in range(n):
        word = word + "b" if word.endswith("a") else word[1:] + "a" + word[:1]
        if word in seen:
            break
        seen.append(word)
    return word, seen


@program((X, 2, "ab"), (X, 0, "ab"), (X, 3, "c"), compilations=2)
def string_arguments(x, n, s):
    for i in range(n):
        s = s + f"{i}" + s[:1]
    return s, s.upper()

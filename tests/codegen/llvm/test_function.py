"""Long functions printed as several: what passes between the parts, and how large they become."""

import re

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from benchmarks.models import gpt
from jitgrad import nn
from jitgrad.codegen.llvm import engine, printer
from jitgrad.codegen.llvm.function import AWAY, Function, Parts
from tests.codegen.llvm.test_module import texts

DEFINED = re.compile(r"^define[^@\n]*@([\w.]+)\(([^\n]*)\)[^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def functions(text):
    """Of a module's text: symbol -> lines."""
    return {symbol: body.count("\n") for symbol, _, body in DEFINED.findall(text)}


# --- the parts of a text ---


def split(lines, variables=(), cuts=(), types=None):
    """The functions of lines after which cuts are made: (main, {symbol: (parameters, text)})."""
    function = Function()
    function.types.update(types or {})
    found = {}
    done = 0
    for start, end, quick in cuts:
        function.code.lines += lines[done:end]
        done = end
        function.cut(len(function.code.lines) - (end - start), quick)

    def define(symbol, parameters, text, quick):
        found[symbol] = parameters, text
        return symbol

    return Parts(function, [*function.code.lines, *lines[done:]], variables, "f", define).lines, found


def test_a_value_passes_through_the_frame():
    main, parts = split(["  %a = add i64 1, 2", "  %b = add i64 %a, 1", "  ret i64 %b"], cuts=[(0, 1, True)],
                        types={"%a": "i64", "%b": "i64"})
    _, text = parts["f.0"]
    assert "store i64 %a, ptr %a.at" in text
    assert "  %a = load i64, ptr %a.at" in main
    assert main[0] == "  %frame = alloca [1 x i64]"


def test_a_variable_of_one_part_stays_there_and_one_of_several_is_in_the_frame():
    lines = ["  store i64 1, ptr %var0", "  store i64 2, ptr %var1", "  %b = load i64, ptr %var1", "  ret i64 %b"]
    main, parts = split(lines, ["  %var0 = alloca i64", "  %var1 = alloca i64"], [(0, 2, True)], {"%b": "i64"})
    _, text = parts["f.0"]
    assert "%var0 = alloca i64" in text
    assert "  %var1 = getelementptr i64, ptr %frame, i64 0" in main


def test_a_branch_to_a_label_outside_returns_its_number():
    lines = ["  br i1 %c, label %go, label %exit3", "go:", "  ret i64 0", "exit3:", "  ret i64 3"]
    main, parts = split(lines, cuts=[(0, 2, True)], types={"%c": "i1"})
    _, text = parts["f.0"]
    assert f"exit3:\n  ret i64 {AWAY}" in text
    assert f"  %came.0.{AWAY} = icmp eq i64 %came.0, {AWAY}" in main
    assert any("label %exit3, " in line for line in main)


def test_a_loop_keeps_its_variables_in_registers_and_has_names_of_its_own():
    loop = ["  br label %head{0}", "head{0}:", "  %k{0} = load i64, ptr %var0", "  %s{0} = add i64 %k{0}, %n{0}",
            "  store i64 %s{0}, ptr %var0", "  br i1 %c, label %head{0}, label %done{0}", "done{0}:"]
    first, second = ([line.format(k) for line in loop] for k in (1, 2))
    end = ["  %r = load i64, ptr %var0", "  ret i64 %r"]
    types = dict.fromkeys(["%n1", "%n2", "%r"], "i64") | {"%c": "i1"}
    _, parts = split([*first, *second, *end], ["  %var0 = alloca i64"], [(0, 7, False), (7, 14, False)], types)
    assert parts["f.0"] == parts["f.1"]
    parameters, text = parts["f.0"]
    assert parameters.count("ptr ") == 1
    assert "alloca i64" in text


def test_a_loop_copies_back_in_one_place_and_has_variables_that_it_shares_with_nobody_to_itself():
    lines = ["  store i64 1, ptr %var0", "head:", "  %k = load i64, ptr %var0", "  store i64 %k, ptr %var1",
             "  %m = load i64, ptr %var1", "  store i64 %m, ptr %var0", "  br i1 %c, label %more, label %exit1",
             "more:", "  br i1 %c, label %head, label %exit2",
             "exit1:", "  %r = load i64, ptr %var0", "  ret i64 %r", "exit2:", "  ret i64 2"]
    variables = ["  %var0 = alloca i64", "  %var1 = alloca i64"]
    main, parts = split(lines, variables, [(1, 9, False)], dict.fromkeys(["%k", "%m", "%r"], "i64") | {"%c": "i1"})
    ((parameters, text),) = parts.values()
    assert parameters.count("ptr ") == 1
    assert not any("%var1" in line for line in main)
    assert text.count("ret i64") == 1
    assert text.count("load i64, ptr") == 5  # two of the loop's, in and out, and what is returned


# --- whole programs ---


def small(monkeypatch, limit=10, short=3):
    """Tiny parts, so that short programs have many."""
    monkeypatch.setattr(printer, "LIMIT", limit)
    monkeypatch.setattr(printer, "SHORT", short)


def collatz(n: int, x):
    steps, total = 0, 0.0
    while n > 1:
        for k in range(n % 5):
            total = total + 1.0 / (k + n)
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return x * total, steps


def cells(xs, h, w, lengths):
    losses = []
    for t in range(xs.shape[0]):
        h = jitgrad.tanh(xs[t] @ w + h)
        inner = h
        for _ in range(lengths[t]):
            inner = inner * 0.5 + h.mean()
        if inner.sum() > 0:
            losses.append(inner.pow(2).sum())
    return jitgrad.stack(losses).sum() if losses else h.sum()


@pytest.mark.parametrize(("limit", "short"), [(10, 3), (10, 1000), (10**6, 3), (1, 1)])
def test_programs_in_pieces_compute_the_same(monkeypatch, limit, short):
    jitgrad.manual_seed(0)
    xs, h = jitgrad.randn(5, 2, 3), jitgrad.zeros(2, 3)
    w = jitgrad.randn(3, 3, requires_grad=True)
    lengths = [2, 0, 3, 1, 2]
    whole = cells(xs, h, w, lengths)
    whole.backward()
    expected, w.grad = w.grad.numpy().copy(), None
    small(monkeypatch, limit, short)
    result = jitgrad.script(cells)(xs, h, w, lengths)
    result.backward()
    np.testing.assert_allclose(result.detach().numpy(), whole.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-5)
    x = jitgrad.ones(3)
    scripted, steps = jitgrad.script(collatz)(27, x)
    eager, known = collatz(27, x)
    assert steps == known
    np.testing.assert_array_equal(scripted.numpy(), eager.numpy())


class Counter:
    def __init__(self):
        self.count, self.seen = 0, []


counter = Counter()


def counts(numbers, x):
    total = 0
    for k in range(len(numbers)):
        counter.count = counter.count + 1
        total = total + 6 // numbers[k]
        x = x * 2 + total
    return x


@pytest.mark.parametrize("short", [3, 1000])
def test_what_is_stored_before_an_exception_is_stored_from_any_part(monkeypatch, short):
    small(monkeypatch, 10, short)
    step = jitgrad.script(counts)
    counter.count = 0
    assert step([1, 2, 3], jitgrad.ones(2)).tolist() == counts([1, 2, 3], jitgrad.ones(2)).tolist()
    assert counter.count == 6
    with pytest.raises(ZeroDivisionError):
        step([1, 2, 0, 3], jitgrad.ones(2))
    assert counter.count == 9


def test_functions_do_not_grow_with_the_number_of_layers(monkeypatch):
    """A part has at most what lies between two cuts, of the entry and of the code, and its ways through the frame.

    Where cuts fall is chance, so that the bound is a multiple; as one function the program is far above it.
    """
    bound = 10 * 300
    small(monkeypatch, 300, 100)
    step, arguments = gpt(12)(jitgrad)
    _, quick = texts(monkeypatch, step, *arguments)
    found = functions(quick)
    assert max(found.values()) < bound
    small(monkeypatch, 10**6, 100)
    step, arguments = gpt(12)(jitgrad)
    _, quick = texts(monkeypatch, step, *arguments)
    assert max(functions(quick).values()) > 2 * bound


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        for k in range(x.shape[0]):
            h = (h * 0.5 + x[k]).tanh()
        return F.relu(self.bn2(self.conv2(h)) + x)


def residual_step(blocks):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), *[Residual(8) for _ in range(blocks)])
    optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, jitgrad.randn(2, 3, 8, 8)


def test_equal_loops_of_a_long_program_are_one_function(monkeypatch):
    """Only loops get good code: the glue around them does not grow what LLVM spends its time on."""
    found = {}
    for blocks in (6, 12):
        step, x = residual_step(blocks)
        good, _ = texts(monkeypatch, step, x)
        assert "define i64 @jgp_forward(" not in good
        found[blocks] = functions(good)
    assert len(found[12]) <= len(found[6]) + 2  # of twelve more loops
    assert sum(found[12].values()) < 1.1 * sum(found[6].values())
    assert max(n for symbol, n in found[12].items() if symbol.startswith("jgp_forward.")) < 500


def test_malformed_parts_are_refused():
    with pytest.raises(RuntimeError):
        engine.optimise("define i64 @f() {\nentry:\n  ret i64 %nothing\n}")

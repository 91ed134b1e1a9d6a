"""Programs that fuzzing found wrong, reduced: each run eagerly and scripted, with gradients."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad import config
from tests.fuzz import compare as fuzz, session, world

PROGRAMS = {
    "a gradient added to one that is there has no history": """
        (y * box.p).mean().backward()
        (y * box.p).mean().backward()
        return x + y * box.p.grad
    """,
    "a tensor with a history changes its own shape, and is detached in place": """
        m = x * y
        m.t_()
        m.mul_(3)
        k = m * 2
        k.unsqueeze_(0)
        k.detach_()
        return (m * y.t()).sum() + (k * m).sum()
    """,
    "what is overwritten gets a gradient of zeros": """
        m = x * y
        m.zero_()
        return m.tanh().sum() + b.sum()
    """,
    "what is overwritten through views gets a gradient of zeros": """
        m = x * 2
        m.t().unsqueeze(0).copy_(w.sum() * y.t())
        k = y.clone()
        k[:] = 3.0
        r = x.mm(w)
        r.t().fill_(b.sum())
        return (m + k * r).sum()
    """,
    "what is overwritten in one branch of a loop": """
        m = x * y
        for k in range(n):
            if k == 1:
                m.copy_(x.mm(w))
            else:
                m.mul_(0.5)
        return m.sum()
    """,
    "a saved value that only one branch has, of sizes that the other branch's zeros need": """
        if s:
            return b.sum().tanh()
        return y.tanh().sum()
    """,
    "a branch's saved value inside a loop": """
        t = b.sum()
        for k in range(n):
            if k % 2 == 0:
                t = t + y.tanh().sum() * s
            else:
                t = t * x.sin().mean()
        return t
    """,
    "a carry that the body leaves alone, read by a backward for fewer cotangents": """
        m0 = x * 0.5 + b
        for k in range(x.shape[0]):
            if (y.mm(w).tanh() * m0).mean() > -0.107:
                break
            m0 = (m0 * 0.7 + x.abs() * 0.3).tanh()
        if m0.mean() < 0.5:
            return (y * b).mean() + m0.sum()
        for k in range(n):
            if (m0 * x).mean() < -0.14:
                break
            m0 = (m0 * 0.7 + x * 0.3).tanh()
        return x.tanh().sum() + m0.sum()
    """,
    "random draws in a loop": """
        m0 = x
        for row in y:
            m0 = m0 + jitgrad.rand(x.shape, dtype=jitgrad.float64) * row
            m0 = jitgrad.nn.functional.dropout(m0, 0.3, True)
        return m0.sum()
    """,
    "a value that may be None, its sizes merged": """
        m0 = x
        o = None
        for k in range(n):
            if o is not None and x.mean() < 3 and not n > 9:
                m0 = (m0 + o * 0.5).tanh()
            if m0.mean() < 5:
                o = y.mm(w).tanh()
        m0 = m0 if o is None else m0 * 0.5 + o.tanh()
        return m0.sum()
    """,
    "a number of either kind, or None": """
        o = None
        for k in range(n):
            if x.sum() < 1:
                o = k
            if x.sum() > -1:
                o = 0.5 + k
        if o is None:
            o = 7
        print(o, o // 2)
        return x.sum() * o
    """,
    "what only a loop's entry makes valid is not read before it": """
        r = b.unsqueeze(0)
        for row in x:
            r = jitgrad.cat([(row * x[0].tanh()).unsqueeze(0), r])
        return r.sum()
    """,
    "operators, attributes and items of None": """
        o = None
        t = None
        for k in range(n):
            o = x.tanh()
            t = 2.5
        if n == 1:
            return (o * t).sum()
        if n == 2:
            t = None if x.mean() < 5 else 1.0
            return (o * 2).sum() + t * 2.0
        if n == 0:
            return o.sum()
        o = None if x.mean() < 5 else x
        return o[0].sum()
    """,
    "results in row order, so that reshapes of them are views": """
        m = y[:, jitgrad.arange(1, -1, -1)]
        m = m.clone()
        u = m.reshape(-1)
        u *= x.mean()
        z = y.softmax(0).t().cumsum(0)
        v = z.reshape(-1)
        v *= 2.0
        p = jitgrad.cat([y.t(), y.t()])
        o = p.reshape(-1)
        o *= 0.3
        return m.tanh().sum() + z.sin().sum() + p.sum()
    """,
    "a list that grows by an augmented assignment": """
        rows, few = [b], []
        for k in range(n):
            rows += [x[0] * k]
            if x.sum() > k:
                few += [b * k, b]
        return jitgrad.stack(rows + few).sum() + len(few)
    """,
    "an index into a list that stays empty": """
        rows = []
        m = x + (rows[n] if 0 <= n < len(rows) else b)
        if n == 4:
            m = rows[n]
        return m.sum()
    """,
    "tensors of a list that nested loops read stay what they are": """
        for k in range(2):
            for j in range(n):
                box.opt.step()
        t = (box.p * 2).tanh().sum()
        t.backward()
        box.opt.step()
        print(f"{t.item():.4f} {box.p.sum().item():.4f}")
        return x.sum()
    """,
    "steps in nested loops": """
        for k in range(n):
            for j in range(k):
                (x @ box.q * box.p).tanh().sum().backward()
                box.opt.step()
            for j in range(1, n, 2):
                (x @ box.q * box.p).tanh().sum().backward()
                box.opt.zero_grad(set_to_none=False)
        return x.sum()
    """,
    "a write to what may be None": """
        if n > 1:
            (x.detach() * box.p).sum().backward()
        g = box.p.grad
        if g is not None:
            g.mul_(0.5)
        box.opt.zero_grad(set_to_none=n == 2)
        if x.mean() < 5:
            (x.detach() * box.q[0]).sum().backward()
        o = None
        if n < 3:
            o = b.detach() * 2
        if o is not None:
            o += 1
        with jitgrad.no_grad():
            if box.q.grad is not None:
                box.q.grad += 1
        return x.sum() if o is None else (x * o).sum()
    """,
    "a list that grows, under a name that is bound again": """
        rows = [b, b * 2]
        for k in range(n):
            rows.append(b * k)
            if 2 < 1:
                rows = rows[:3]
        return jitgrad.stack(rows).sum()
    """,
    "numbers of a list at an index known at run time": """
        ns = [1, 2, 3, 4]
        for k in range(n):
            ns[k] += 1
            ns[k] = ns[k] * (1, 5, 7, 9)[k] + (0.5, 2)[k % 2]
        print(ns[n % 4], sum(ns))
        return x.sum() * ns[0]
    """,
    "zeros of sequences of sequences": """
        m0 = x * 0.5 + b
        if n != 3:
            c = 0
            while c < 3 and m0.abs().mean() > 0.114:
                c += 1
                for k, row in enumerate(x):
                    with jitgrad.no_grad():
                        m1 = jitgrad.nn.functional.linear(m0, w).tanh()
                    m0 = (m0 * 0.7 + (x + m1 * 0.5) * 0.3).tanh()
                o = None
                if (x.tanh() > 0.1).any():
                    o = jitgrad.where(x > 0.1, m0, x)
                m0 = m0 if o is None else m0 * 0.5 + o.tanh()
        for k in range(n):
            m0 = (m0 * 0.7 + x * 0.3).tanh()
        return m0.tanh().sum() + y.tanh().sum()
    """,
}


@pytest.mark.parametrize("mode", ["interpreted", "native"])
@pytest.mark.parametrize("second_order", [
    pytest.param(False, id="first"), pytest.param(True, id="second", marks=pytest.mark.sampled("second order"))])
@pytest.mark.parametrize("what", PROGRAMS)
def test_agrees_with_eager(what: str, second_order: bool, mode: str) -> None:
    source = f"def f({session.PARAMETERS}):" + PROGRAMS[what].replace("\n    ", "\n").rstrip() + "\n"
    function = fuzz.compile_source(source, what)
    with config.override(interpret=mode == "interpreted", verify=1):
        scripted = jitgrad.script(function)
        eager, compiled = fuzz.Session(function, second_order), fuzz.Session(scripted, second_order)
        for case in world.arguments(7):
            found = fuzz.difference(eager.run(case), compiled.run(case))
            assert not found, f"arguments {case}: {found}"

"""Gradients inside the program: training steps, `autograd.grad`, `.grad`."""

from __future__ import annotations

from tests.fuzz.grammar.expressions import Frame, Scope
from tests.fuzz.grammar.writer import Writer


class Steps(Writer):
    """Training steps, `autograd.grad`, `.grad`."""

    def fresh_scope(self, scope: Scope, *, leaves: bool) -> Scope:
        """What a loss may read that no graph made before leads to."""
        found = Scope(["(c + 0.0)", *(f"{m}.detach()" for m in scope.matrices if m.isidentifier())], [], [],
                      list(scope.ints), [], list(scope.exact), [], [], list(scope.bools))
        found.vectors = [f"{v}.detach()" for v in scope.vectors if v.isidentifier()] or ["b.detach()"]
        if leaves:
            found.matrices += ["x", "y"]
            found.vectors += ["b", "box.p", "box.p"]
            found.functions = ["box"]
        return found

    def loss(self, scope: Scope) -> str:
        """A scalar that depends on the parameters."""
        before, self.frame = self.frame, Frame("x", ("2",), "scalar", self.pick(["box.q", "w"]))
        inner = self.fresh_scope(scope, leaves=True)
        text = self.pick([f"(box({self.matrix(inner, 1)}) - {self.matrix(inner, 1)}).pow(2).mean()",
                          f"({self.matrix(inner, 1)} * box.p).tanh().mean() + (box.p ** 2).sum() * 0.1",
                          f"({self.vector(inner, 1)} @ box.q * box.p).tanh().sum()",
                          f"jitgrad.nn.functional.cross_entropy(box({self.matrix(inner, 1)}), "
                          "jitgrad.arange(x.shape[0]) % x.shape[1])"])
        self.frame = before
        return text

    def inner_gradient(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A gradient as a value, with or without a graph of its own."""
        if not self.frame.main:
            return
        g = self.fresh("m")
        if self.chance(0.5):
            inner = self.fresh_scope(scope, leaves=False)
            z = self.fresh("m")
            inner.matrices += [z, z]
            self.line(depth, f"{z} = {self.pick(inner.matrices)}.clone().requires_grad_()")
            self.line(depth, f"({g},) = jitgrad.autograd.grad(({z} * {self.matrix(inner, 1)}).tanh().sum(), ({z},))")
        else:
            inner = self.fresh_scope(scope, leaves=False)
            inner.matrices += ["x", "x"]
            self.line(depth, f"({g},) = jitgrad.autograd.grad(({self.matrix(inner, 1)} * x).tanh().sum(), (x,), "
                             "create_graph=True)")
        scope.matrices.append(g)

    def training(self, scope: Scope, depth: int, in_loop: bool) -> None:
        """A step, several, or one under a condition."""
        if not self.frame.main or not self.steps:
            return self.inner_gradient(scope, depth, in_loop)
        kind = self.random.randrange(7)
        if kind <= 1:
            self.one_step(scope, depth)
        elif kind == 2:
            self.loops += 1
            index = self.fresh("k")
            inner = scope.copy()
            inner.ints.append(index)
            self.line(depth, f"for {index} in range({self.pick(self.frame.bounds)}):")
            if self.chance(0.3):
                self.branches += 1
                self.line(depth + 1, f"if {self.condition(self.fresh_scope(inner, leaves=True))}:")
                self.line(depth + 2, self.pick(["break", "continue"]))
            self.one_step(inner, depth + 1)
        elif kind == 3:
            self.branches += 1
            self.line(depth, f"if {self.condition(scope)}:")
            self.one_step(scope.copy(), depth + 1)
            if self.chance(0.3):
                self.line(depth, "else:")
                self.one_step(scope.copy(), depth + 1)
        elif kind == 4:
            part = self.fresh("m")
            self.line(depth, f"for {part} in (x, {self.pick(scope.matrices)}.detach() * 0.5):")
            inner = scope.copy()
            inner.matrices += [part] * 4
            self.line(depth + 1, f"({self.loss(inner)} / 2).backward()")
            self.update_parameters(scope, depth)
        elif kind == 5:
            g, t = self.fresh("v"), self.fresh("t")
            self.line(depth, f"{t} = {self.loss(scope)}")
            self.line(depth, f"({g},) = jitgrad.autograd.grad({t}, (box.p,), create_graph=True, allow_unused=True)")
            self.line(depth, f"({t} + ({g} * {g}).sum()).backward()")
            self.update_parameters(scope, depth)
        else:
            self.while_improving(scope, depth)

    def one_step(self, scope: Scope, depth: int) -> None:
        t = self.fresh("t")
        if self.chance(0.3):
            self.line(depth, "box.opt.zero_grad()")
        self.line(depth, f"{t} = {self.loss(scope)}")
        if self.chance(0.2):
            self.branches += 1
            self.line(depth, f"if {t} > {self.random.uniform(0.1, 0.9):.3f}:")
            self.line(depth + 1, f"{t}.backward()")
        else:
            self.line(depth, f"{t}.backward()")
        self.update_parameters(scope, depth)
        if self.chance(0.3):
            self.line(depth, f"print(f'{{{t}.item():.4f}}')")

    def update_parameters(self, scope: Scope, depth: int) -> None:
        """What is done with the gradients."""
        kind = self.random.randrange(7)
        if kind <= 1:
            self.line(depth, "box.opt.step()")
            self.line(depth, self.pick(["box.opt.zero_grad()", "box.opt.zero_grad(set_to_none=False)",
                                        "box.count += 1"]))
        elif kind == 2:
            self.line(depth, "with jitgrad.no_grad():")
            self.line(depth + 1, "if box.p.grad is not None:")
            self.line(depth + 2, self.pick(["box.p -= 0.1 * box.p.grad", "box.p.sub_(box.p.grad, alpha=0.1)",
                                            "box.p.add_(box.p.grad.clamp(-0.1, 0.1))"]))
            self.line(depth + 2, self.pick(["box.p.grad = None", "box.p.grad.zero_()", "box.p.grad *= 0.5", "pass"]))
        elif kind == 3:
            self.line(depth, "for p in (box.p, box.q):")
            self.line(depth + 1, "if p.grad is not None:")
            self.line(depth + 2, "with jitgrad.no_grad():")
            self.line(depth + 3, f"p -= {self.number_near_zero()} * p.grad")
            self.line(depth + 2, "p.grad = None")
        elif kind == 4:
            self.line(depth, f"jitgrad.nn.utils.clip_grad_norm_([box.p, box.q], {self.random.uniform(0.1, 1):.2f})")
            self.line(depth, "box.opt.step()")
        elif kind == 5:
            name = self.fresh("v")
            self.line(depth, f"{name} = b.detach() if box.p.grad is None else box.p.grad.clone()")
            scope.vectors.append(name)
        else:
            self.branches += 1
            self.line(depth, "if box.q.grad is None:")
            self.line(depth + 1, "print('no gradient')")
            self.line(depth, "else:")
            self.line(depth + 1, "print(f'{box.q.grad.sum().item():.4f}')")

    def number_near_zero(self) -> str:
        return self.pick(["0.05", "(0.1 * s)", "(0.1 / (n + 1))"])

    def while_improving(self, scope: Scope, depth: int) -> None:
        """Until the loss is small, or it was tried often enough."""
        self.loops += 1
        self.branches += 1
        count, t = self.fresh("c"), self.fresh("t")
        self.line(depth, f"{count} = 0")
        self.line(depth, "while True:")
        self.line(depth + 1, f"{t} = {self.loss(scope)}")
        enough = f"{count} >= {self.random.randrange(1, 4)}"
        self.line(depth + 1, f"if {t} < {self.random.uniform(0.05, 0.6):.3f} or {enough}:")
        self.line(depth + 2, "break")
        self.line(depth + 1, "box.opt.zero_grad()")
        self.line(depth + 1, f"{t}.backward()")
        self.line(depth + 1, "box.opt.step()")
        self.line(depth + 1, f"{count} += 1")
        scope.ints.append(count)

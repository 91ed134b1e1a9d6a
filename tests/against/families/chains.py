"""Several operations one after another, some in place, on what the ones before gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgrad
from tests.against.answers import make
from tests.against.drafts import Draft, fill
from tests.against.families import indexing

STEPS = """{x} <+|-|*|/|//|%> {y}
{x} <+|-|*|/|**> {n}
t.<sin|exp|tanh|abs|sigmoid|relu|neg|square|floor|sqrt|log1p|sign|cos>({x})
t.<maximum|minimum|atan2|mul|add>({x}, {y})
t.where({m}, {x}, {y})
{x}.<sum|mean|amax|cumsum|softmax|prod|logsumexp>({d})
{x}.<sum|mean|std>({d}, keepdim=True)
{x}[{idx}]
{x}.transpose({d}, {d})
{x}.reshape(-1)
{x}.unsqueeze({d})
{x}.expand_as({y})
{x}.to({dt})
{x} @ {x}.mT
t.cat([{x}, {y}], {d})
t.stack([{x}, {x}])
{x}.clone()
{x}.detach()
{x}.flatten()
{x}.diagonal()
{x}.flip(0)
{x}.max({d})[0]
{x}.view_as({x})
{x}.narrow(0, 0, 1)
{x}.masked_fill({m}, {n})
{x}.gather({d}, t.zeros_like({x}, dtype=t.long))
F.<gelu|softplus|silu|elu>({x})
F.mse_loss({x}, {y})
{x}.sort(stable=True, dim={d})[0]
{x}.clamp({n}, {n})
t.<lt|gt|eq|ge>({x}, {y})
{x}.tril()
{x}.norm()
{x}.repeat(2, 1)
{x}.type_as({y})
t.einsum('...i,...i->...', {x}, {x})
t.cdist({x}, {y})
t.outer({x}, {y})
{x}.var({d})""".splitlines()
WRITES = """{x} <+|-|*|/|//|%|&|**>= <{y}|{n}>
{x}[{idx}] = <{y}|{n}>
{x}[{idx}] <+|*|->= <{y}|{n}>
{x}.<add_|mul_|sub_|copy_|div_|remainder_|fmod_>(<{y}|{n}>)
{x}.<exp_|neg_|abs_|sin_|zero_|sqrt_|floor_|relu_|sigmoid_>()
{x}.fill_({n})
{x}.masked_fill_({m}, {n})
{x}.clamp_({n}, {n})
{x}.index_fill_({d}, t.tensor([0]), {n})
{x}.scatter_({d}, t.zeros_like({x}, dtype=t.long)[:1], <{n}|{x}|{y}>)
{x}.scatter_add_({d}, t.zeros_like({x}, dtype=t.long), <{y}|{x}>)
{x}.index_add_({d}, t.tensor([0]), <{y}|{x}>)
{x}.index_copy_({d}, t.tensor([0]), <{y}|{x}>)
{x}.put_(t.tensor([0]), <t.tensor([2.0])|{y}>)
{x}.masked_scatter_({m}, {y})
{x}.cumsum_({d})
{x}.addcmul_({y}, {y})
{x}.lerp_({y}, 0.5)
{x}.transpose_({d}, {d})
{x}.squeeze_()
{x}.detach_()
{x}.requires_grad_()
{x}.copy_({x}.t())
{x}.tril_()
{x}.fill_diagonal_({n})
{x}.index_put_((t.tensor([0]),), {y})""".splitlines()


def draw(draft: Draft) -> None:
    """Two to six lines. A line that raises here is the last."""
    dtype = draft.dtype()
    shape = draft.shape(0 if draft.chance(0.1) else 1, 3)
    kind = draft.pick(("usual", "usual", "positive", "wild"))
    names = [draft.tensor(shape, dtype, kind), draft.tensor(draft.broadcast(shape), draft.pick((dtype, draft.dtype())),
                                                            plain=0.8)]
    if draft.chance(0.4):
        names.append(draft.fresh(draft.broadcast(shape), draft.dtype()))
    scope: dict[str, Any] = {"t": jitgrad, "F": jitgrad.nn.functional}
    scope |= {n: make(jitgrad, m) for n, m in draft.arguments.items()}
    for line in draft.lines:
        exec(line, scope)
    for _ in range(draft.rng.randint(2, 6)):
        x = names[-1] if draft.chance(0.6) else draft.pick(names)
        size = tuple(scope[x].shape)
        fresh = len(draft.arguments)
        own = _parts(draft, x, size, names)
        template = draft.pick(WRITES if draft.chance(0.4) else STEPS)
        line = fill(draft, template, **own)
        if "=" in template.split("(")[0]:
            draft.lines.append(line)
            name = ""
        else:
            name = draft.let(line)
        for n in list(draft.arguments)[fresh:]:
            scope[n] = make(jitgrad, draft.arguments[n])
        try:
            exec(draft.lines[-1], scope)
        except Exception:  # both raise, or the libraries differ
            return
        if name and not isinstance(scope[name], jitgrad.Tensor):
            return
        if name and scope[name].numel() > 2000:
            return
        names += [name] if name else []


def _parts(draft: Draft, x: str, size: tuple[int, ...], names: list[str]) -> dict[str, Callable[[], str]]:
    """What a template's braces stand for."""
    return {"x": lambda: x, "y": lambda: draft.pick(names), "n": draft.number, "d": lambda: draft.dim(len(size)),
            "idx": lambda: indexing.subscript(draft, size, distinct=True), "dt": lambda: "t." + draft.dtype(),
            "m": lambda: f"({x} > 0)"}

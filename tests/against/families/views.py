"""Chains of views, of views of non-contiguous tensors too, and writes through them."""

from __future__ import annotations

from typing import Any

import jitgrad
from tests.against.answers import make
from tests.against.drafts import Draft, fill

TEMPLATES = """{x}.view({size})
{x}.reshape({size})
{x}.view({size})
{x}.permute({perm})
{x}.transpose({d}, {d})
{x}.swapaxes({d}, {d})
{x}.t()
{x}.<T|mT|H|mH|real>
{x}.expand({bigger})
{x}.expand({bigger})
{x}.unfold({d}, <1|2|3>, <1|2>)
{x}.as_strided({small}, {strides}<|, 1>)
{x}.diagonal(<|0|1|-1>)
{x}.diagonal({k}, {d}, {d})
{x}.movedim({d}, {d})
{x}.movedim((0, 1), (-1, -2))
{x}.narrow({d}, {k}, {k})
{x}.chunk(<1|2|3>, {d})[0]
{x}.split(<1|2|3>, {d})[-1]
{x}.split([{k}, {k}], {d})[0]
{x}.tensor_split(<2|3|1>, {d})[-1]
{x}.tensor_split((1, 2), {d})[0]
{x}.unflatten({d}, {two})
{x}.flatten({d}, {d})
{x}.flatten()
{x}.ravel()
{x}.squeeze()
{x}.squeeze({d})
{x}.squeeze({dims})
{x}.unsqueeze({d})
{x}.unbind({d})[0]
{x}.select({d}, {k})
{x}[<...|0|-1|:|1:|::2|None|..., 0|..., None|:, 0|..., 1:>]
{x}.view_as({x})
{x}.view(-1)
{x}.view({dt})
{x}.contiguous()
{x}.<hsplit|vsplit>(<1|2|[1]>)[0]
{x}.broadcast_to({bigger})
t.atleast_<1|2|3>d({x})
t.movedim({x}, {d}, {d})
t.view_as_real({x})
{x}.detach()
{x}.clone()
{x}.repeat({rep})
{x}.tile({rep})
t.flip({x}, ({d},))
{x}.expand_as({x})
{x}.adjoint()
{x}.swapdims({d}, {d})
t.select({x}, {d}, {k})
{x}.squeeze_()
{x}.unsqueeze_({d})
{x}.transpose_({d}, {d})
{x}.t_()
t.unravel_index(t.tensor(1), {small})
t.column_stack([{x}, {x}])
t.<hstack|vstack|dstack>([{x}, {x}])
t.cat([{x}, {x}], {d})
t.stack([{x}, {x}], {d})
t.kron({x}, {x})
t.block_diag({x}, {x})
t.tril({x})
t.meshgrid({x}, {x}, indexing=<'ij'|'xy'>)[0]
t.cartesian_prod({x}, {x})
t.combinations({x})
t.take_along_dim({x}, t.zeros_like({x}, dtype=t.long), {d})
{x}.is_contiguous()
{x}.stride()
{x}.size({d})
{x}.element_size()
{x}.numel()
{x}.nelement()
{x}.dim()""".splitlines()
WRITES = """{x}.<add_|mul_|sub_|div_|copy_|fill_>({n})
{x}.zero_()
{x}.<add_|copy_|mul_>({y})
{x}.<exp_|neg_|abs_|sin_>()
{x}.copy_({x}.flip(0))
{x}.add_({x})
{x}.add_({x}.mean())
{x}.<add_|copy_>({x}.t())
{x}.masked_fill_({x} > 0, {n})
{x}.<cumsum_|cumprod_>(0)
{x}.clamp_(-1, 1)
{x}.fill_diagonal_({n})
{x}.<tril_|triu_>()
{x}.index_fill_(0, t.tensor([0]), {n})
{x}.scatter_(0, t.zeros_like({x}, dtype=t.long)[:1], {n})
{x}.random_(1)
{x}.set_({x})""".splitlines()


def draw(draft: Draft) -> None:
    """Up to four views, each of what was there before, then perhaps a write."""
    shape, dtype = draft.shape(0 if draft.chance(0.15) else 1, 4), draft.dtype()
    x = draft.tensor(shape, dtype, plain=0.7)
    scope: dict[str, Any] = {"t": jitgrad, **{n: make(jitgrad, m) for n, m in draft.arguments.items()}}
    try:
        for line in draft.lines:
            exec(line, scope)
        if draft.chance(0.35):
            x = draft.let(f"{x}.clone()" if draft.chance(0.5) else f"{x} * 1")
            exec(draft.lines[-1], scope)
        for _ in range(draft.rng.randint(1, 4)):
            x = _view(draft, x, scope[x].shape)
            exec(draft.lines[-1], scope)
            if not isinstance(scope[x], jitgrad.Tensor) or scope[x].numel() > 5000:
                return
    except Exception:  # both raise, or the libraries differ
        return
    if draft.chance(0.6):
        size = tuple(scope[x].shape)
        draft.let(fill(draft, draft.pick(WRITES), x=lambda: x, n=draft.number, y=lambda: draft.fresh(
            draft.broadcast(size), draft.pick((dtype, draft.dtype())))))
    elif draft.chance(0.6):
        draft.let(f"{x}{draft.pick(('.exp()', ' * 2', '.sum()', ' + 1', '.sum(0)', '.abs()'))}")


def _view(draft: Draft, x: str, shape: tuple[int, ...]) -> str:
    rank, total = len(shape), 1
    for n in shape:
        total *= n

    def factors(n: int) -> tuple[int, ...]:
        divisors = [k for k in range(1, n + 1) if n % k == 0] if n else [0, 1, 2]
        k = draft.pick(divisors)
        return (k, n // k) if k else (0, draft.pick((1, 2)))

    def size() -> str:
        if draft.chance(0.06):
            return str(list(draft.shape()))
        found = list(factors(total))
        if draft.chance(0.4):
            found[1:] = factors(found[1])
        if draft.chance(0.3):
            found.insert(draft.rng.randint(0, len(found)), 1)
        if draft.chance(0.3):
            found[draft.rng.randint(0, len(found) - 1)] = -1
        return draft.pick((str(found), ", ".join(map(str, found)), str(tuple(found))))

    def bigger() -> str:
        found = [draft.pick((-1, n)) if n != 1 else draft.pick((2, 1, -1, 3, 0)) for n in shape]
        if draft.chance(0.3):
            found.insert(0, draft.pick((2, 1, 3)))
        if draft.chance(0.05):
            found.append(2)
        return str(found)

    def two() -> str:
        n = draft.pick(shape or (1,))
        return str(factors(n) if draft.chance(0.8) else draft.pick(((-1, 1), (n,), (2, -1), ())))

    def perm() -> str:
        order = [*range(rank)]
        draft.rng.shuffle(order)
        order = [i - rank if draft.chance(0.2) else i for i in order]
        if draft.chance(0.04):
            order = order[1:]
        return str(order)

    width = draft.rng.randint(0, 2)
    return draft.let(fill(
        draft, draft.pick(TEMPLATES), x=lambda: x, d=lambda: draft.dim(rank), dims=lambda: draft.dims(rank), size=size,
        bigger=bigger, two=two, perm=perm, k=lambda: str(draft.pick((0, 1, 1, 2, -1, 3))),
        small=lambda: str(tuple(draft.rng.randint(1, 2) for _ in range(width))),
        strides=lambda: str(tuple(draft.rng.randint(0, 2) for _ in range(width))), dt=lambda: "t." + draft.dtype(),
        rep=lambda: str([draft.rng.randint(0, 2) for _ in range(rank + draft.pick((0, 0, 1, -1)))])))

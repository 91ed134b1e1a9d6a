"""Parts of tensors, read and written: numbers, slices, masks, several tensors of indices, and the functions of them."""

from __future__ import annotations

from tests.against.drafts import Draft, fill

TEMPLATES = """t.index_select({x}, {d}, {i1})
t.index_select({x}, {d}, <{i0}|{i2}|{i32}>)
t.gather({x}, {d}, {ix})
t.take({x}, {iflat})
t.take_along_dim({x}, {ix}, {d})
t.take_along_dim({x}, {iflat})
t.masked_select({x}, {m})
{x}.masked_fill({m}, {n})
{x}.clone().masked_fill_({m}, <{n}|{s}>)
{x}.masked_scatter({m}, {flat})
{x}.index_fill({d}, {i1}, <{n}|{s}>)
{x}.clone().index_fill_({d}, {i1}, {n})
{x}.index_add({d}, {i1}, {src}<|, alpha={n}>)
{x}.index_copy({d}, {u1}, {usrc})
{x}.scatter({d}, {ux}, <{n}|{xsrc}>)
{x}.scatter({d}, {ix}, {xsrc}, reduce=<'add'|'multiply'>)
{x}.scatter({d}, {ix}, {n}, reduce=<'add'|'multiply'|'nonsense'>)
{x}.scatter_add({d}, {ix}, {xsrc})
{x}.clone().scatter_add_({d}, {ix}, {xsrc})
{x}.scatter_reduce({d}, {ix}, {xsrc}, <'sum'|'prod'|'mean'|'amax'|'amin'>, include_self=<True|False>)
{x}.index_reduce({d}, {i1}, {src}, <'prod'|'mean'|'amax'|'amin'>, include_self=<True|False>)
{x}.index_put(({iflat0},), {n})
{x}.clone().index_put_(({i1first},), {s}, accumulate=<True|False>)
{x}.put(({iflat}), {putsrc}, accumulate=<True|True|False>)
{x}.select({d}, {k})
{x}.narrow({d}, {k}, {k})
t.narrow_copy({x}, {d}, {k}, {k})
t.nonzero({x})
t.nonzero({x}, as_tuple=True)
t.argwhere({x})
t.where({x})
t.diagonal_scatter({x}, {s}.expand(1))
t.select_scatter({x}, {s}, {d}, {k})
t.slice_scatter({x}, {x}, {d})
t.roll({x}, {k}, {d})
t.roll({x}, {k})
t.flip({x}, {dims})
t.rot90({x}, {k}, (0, 1))
t.tril({x}, {k})
t.triu({x}, {k})
t.repeat_interleave({x}, <2|0|{i1}>, {d})
t.isin({x}, {x})
t.one_hot({i1})
F.one_hot({i1})
F.embedding({i1}, {x})
F.embedding({ix}, {x}, padding_idx=<0|-1|7>)
t.unique({x})
t.unique({x}, return_inverse=True, return_counts=True)
t.unique_consecutive({x}, return_counts=True)
t.bincount({i1})
t.cat([{x}, {x}], {d})
t.cat([{x}, {e0}], {d})
t.take({x}, {i0})
t.index_select({e0}, 0, {i0})
{x}.tolist()
len({x})
{x}[{k}].item()
list({x})""".splitlines()


def draw(draft: Draft) -> None:
    """A subscript, read or written, or a function of indices."""
    if draft.chance(0.35):
        _function(draft)
        return
    shape, dtype = draft.shape(0 if draft.chance(0.1) else 1, 4), draft.dtype()
    x = draft.tensor(shape, dtype)
    way = draft.rng.randint(0, 9)
    if way <= 4:
        draft.let(f"{x}[{subscript(draft, shape)}]")
        return
    if way <= 6 or (draft.arguments and draft.chance(0.7)):
        x = draft.let(f"{x}.clone()" if draft.chance(0.7) else f"{x} * 1")
    index = subscript(draft, shape, distinct=True)
    other = dtype if draft.chance(0.5) else draft.dtype()
    value = draft.pick((draft.number, draft.number, lambda: draft.fresh((), other),
                        lambda: draft.tensor(draft.shape(0, 1), other),
                        lambda: draft.tensor(shape, other) + f"[{index}]",
                        lambda: draft.tensor(shape, other) + f"[{index}]"))()
    sign = draft.pick(("", "", "", "+", "*", "-", "/")) if draft.chance(0.9) else draft.pick(("//", "&", "|", "**"))
    draft.lines.append(f"{x}[{index}] {sign}= {value}")
    draft.results.append(x)


def subscript(draft: Draft, shape: tuple[int, ...], distinct: bool = False) -> str:
    """The text between brackets; with `distinct` no element is meant twice."""
    items: list[str] = []
    axis, several = 0, draft.pick(((), (draft.pick((2, 3)),), (draft.pick((2, 3)),), (2, 1)))
    if distinct and len(several) == 2:
        several = (2,)
    while axis < len(shape):
        kind = draft.rng.randint(0, 15)
        size = shape[axis]
        if kind <= 3:
            items.append(number(draft, size))
        elif kind <= 7:
            items.append(piece(draft, size))
        elif kind == 8:
            items.append("None")
            continue
        elif kind == 9 and "..." not in items:
            items.append("...")
            axis = max(axis, min(len(shape), axis + draft.rng.randint(0, 2)))
            continue
        elif kind <= 11 and size:
            items.append(indices(draft, size, several, distinct))
        elif kind == 12:
            rank = min(draft.rng.randint(1, 2), len(shape) - axis)
            mask = shape[axis:axis + rank] if draft.chance(0.95) else (size + 1,)
            items.append(draft.fresh(mask, "bool" if draft.chance(0.9) else "uint8", "unit"))
            axis += rank - 1
        elif kind == 13:
            items.append(f"[{', '.join(number(draft, size) for _ in range(draft.rng.randint(0, 3)))}]"
                         if not distinct else piece(draft, size))
        elif kind == 14 and draft.chance(0.3):
            items.append(draft.pick(("True", "False", "t.tensor(True)", "t.tensor(1)", "1.0", "[]", "[True]", "'a'")))
            axis -= draft.chance(0.5)
        else:
            items.append(":")
        axis += 1
        if draft.chance(0.15):
            break
    if draft.chance(0.02):
        items.append("0")
    return ", ".join(items) if items else draft.pick(("...", "()", "None", ":"))


def number(draft: Draft, size: int) -> str:
    return str(draft.rng.randint(-size, size - 1) if size and draft.chance(0.97) else size)


def piece(draft: Draft, size: int) -> str:
    def end() -> str:
        return "" if draft.chance(0.4) else str(draft.rng.randint(-size - 1, size + 1))

    step = draft.pick(("", "", "", ":2", ":3", ":1", ":")) if draft.chance(0.97) else draft.pick((":-1", ":0"))
    return f"{end()}:{end()}{step}"


def indices(draft: Draft, size: int, shape: tuple[int, ...], distinct: bool) -> str:
    if distinct:
        n = min(size, shape[0]) if shape else 1
        chosen = draft.rng.sample(range(size), n)
        text = f"t.tensor({chosen if shape else chosen[0]})"
        return draft.pick((text, str(chosen), text)) if shape else text
    name = draft.fresh(shape, "int64" if draft.chance(0.85) else draft.pick(("int32", "uint8", "int16")),
                       f"below{size if draft.chance(0.97) else size + 3}")
    return f"{name} - {size}" if draft.chance(0.1) and draft.dtypes[name] == "int64" else name


def _function(draft: Draft) -> None:
    shape, dtype = draft.shape(0 if draft.chance(0.15) else 1, 3), draft.dtype()
    rank, flat = len(shape), 1
    for n in shape:
        flat *= n
    axis = draft.rng.randint(0, rank - 1) if rank else 0
    size = shape[axis] if rank else 1
    count = draft.rng.randint(0, 4) if size else 0
    other = dtype if draft.chance(0.85) else draft.dtype()

    def below(n: int, of: tuple[int, ...]) -> str:
        kind = f"below{max(n, 1) + 2 * draft.chance(0.03)}"
        return draft.tensor(of, "int64" if draft.chance(0.95) else "int32", kind)

    def along(n: int) -> tuple[int, ...]:
        return tuple(n if i == axis else m for i, m in enumerate(shape)) if draft.chance(0.96) else draft.shape()

    def unique(of: tuple[int, ...]) -> str:
        chosen = draft.rng.sample(range(size), min(size, count))
        dims = [1] * rank
        if rank:
            dims[axis] = len(chosen)
        return f"t.tensor({chosen}, dtype=t.int64).reshape({dims}).expand({list(of)})"

    some = min(size, count)
    draft.let(fill(
        draft, draft.pick(TEMPLATES), x=lambda: draft.tensor(shape, dtype, draft.pick(("usual", "usual", "wild"))),
        d=lambda: str(axis - rank if draft.chance(0.3) else axis) if draft.chance(0.95) else draft.dim(rank),
        i0=lambda: below(size, ()), i1=lambda: below(size, (count,)), i2=lambda: below(size, (2, 1)),
        i32=lambda: draft.fresh((2,), "int32", f"below{max(size, 1)}"), ix=lambda: below(size, along(count)),
        iflat=lambda: below(flat, draft.shape(0, 2)), iflat0=lambda: below(shape[0] if rank else 1, (count,)),
        i1first=lambda: below(shape[0] if rank else 1, (count,)),
        m=lambda: draft.tensor(draft.broadcast(shape), "bool"), n=draft.number, s=lambda: draft.fresh((), other),
        flat=lambda: draft.fresh((flat + draft.pick((0, 0, 2, -1)) if flat else 0,), other),
        src=lambda: draft.tensor(along(count), other), xsrc=lambda: draft.tensor(along(count), other),
        u1=lambda: f"t.tensor({draft.rng.sample(range(size), some)}, dtype=t.int64)",
        usrc=lambda: draft.tensor(along(some), other), ux=lambda: unique(along(some)),
        putsrc=lambda: draft.fresh(draft.shape(0, 2), other), k=lambda: str(draft.rng.randint(-size - 1, size + 1)),
        dims=lambda: draft.dims(rank), e0=lambda: draft.fresh((0,), other)))

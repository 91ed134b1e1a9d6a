"""Reductions, scans and orders along dims: negative, several, none; keepdim, dtype; empty and size-one axes; NaN."""

from __future__ import annotations

import re

from tests.against.drafts import FLOATS, Draft, fill

#: of numbers of which some may be equal
TEMPLATES = """t.<sum|mean|prod|nansum|nanmean>({x})
t.<sum|mean|nansum|nanmean>({x}, {dims}, <True|False>)
t.<sum|mean|nansum>({x}, {dims}, dtype={dt})
{x}.<sum|mean>({dims}, keepdim=<True|False>, dtype={dt})
t.prod({x}, {d}<|, True|, dtype={dt}>)
{x}.prod(dtype={dt})
t.<amax|amin>({x}, {dims}<|, keepdim=True>)
t.<amax|amin|aminmax>({x})
t.aminmax({x}, dim={d}, keepdim=<True|False>)
t.<max|min|argmax|argmin|all|any|std|var|median|count_nonzero|nanmedian>({x})
t.<all|any>({x}, <{d}|{dims}>, <True|False>)
t.<std|var|std_mean|var_mean>({x}, {dims}, <unbiased=False|unbiased=True|correction=0|correction=2|keepdim=True>)
t.<std|var>({x}, <True|False>)
t.<std|var>({x}, correction=<0|1|3>)
t.logsumexp({x}, {dims}<|, True>)
t.norm({x}<|, 2|, 1|, float('inf')|, 0|, 3.5|, 'fro'|, -1|, float('-inf')>)
t.norm({x}, <2|1|0|float('inf')|-2>, {dims}<|, True>)
t.linalg.vector_norm({x}, <2|1|0|float('inf')|float('-inf')|3>, {dims}<|, True|, dtype={dt}>)
t.linalg.norm({x}<|, 2|, 'fro'|, 1|, float('inf')>)
t.linalg.matrix_norm({x}<|, 1|, 'fro'|, float('inf')|, -1>)
t.count_nonzero({x}, {dims})
t.<cumsum|cumprod>({x}, {d}<||, dtype={dt}>)
t.<cummax|cummin|logcumsumexp>({x}, {d})
{x}.clone().<cumsum_|cumprod_>({d})
t.<softmax|log_softmax>({x}, {d}<||, dtype={dt}>)
F.<softmax|log_softmax|softmin>({x}, {d}<||, dtype={dt}>)
F.normalize({x}<|, 1|, 2.0, {d}>)
t.diff({x}<|, 2|, 1, {d}|, 0>)
t.<trapezoid|cumulative_trapezoid>({x}.double()<|, dx=0.5|, dim={d}>)
t.quantile({x}, <0.5|0.25|1.0|{q}>, <None|{d}>, <True|False>, interpolation=<'linear'|'lower'|'higher'|'midpoint'>)
t.nanquantile({x}, <0.5|{q}>, {d})
t.bincount({i}<|, minlength=7>)
t.histc({x}, 4, -1, 2)
t.renorm({x}, <1|2>, {d}, 1.5)
t.<sum|mean|amax>({x}, axis={dims}, keepdims=True)
t.<sum|std|all>({x}, dim={dims}).<exp|sum|abs>()
{x}.sum({d}).sum()
{x}.sum_to_size({bsize})
t.cov({x})
t.corrcoef({x})
t.trace({x})
t.dot({v}, {v})
t.cross({x}, {x}, {d})
t.linalg.cross({x}, {x}, dim={d})
t.cdist({x}, {x})
t.logsumexp({x}, {d})
t.nansum({x}, {d})
t.<max|min>({x}, {other})
t.sort({x}, {d}, stable=True)
t.sort({x}, stable=True, dim={d}, descending=True)
t.argsort({x}, {d}, stable=True)
t.msort({x})
t.sort({x})[0]
t.topk({x}, <0|1|2|9>, {d})[0]
t.median({x}, {d})[0]
t.mode({x}, {d})[0]
t.kthvalue({x}, <1|2|9>, {d})[0]
t.searchsorted({sorted}, {x}<|, right=True|, side='left'|, out_int32=True>)
t.bucketize({x}, {sorted1}<|, right=True>)
t.unique({x})
t.gradient({x})
t.std({x}, None, correction=0)
t.all({x} > 0)
t.any({x}, {d})""".splitlines()
#: of numbers that all differ: where a value is, is certain then
DISTINCT = """t.<max|min>({x}, {d}<|, True>)
t.<argmax|argmin>({x}, {d}<|, True|, keepdim=True>)
t.<median|nanmedian|mode>({x}, {d}<|, True>)
t.kthvalue({x}, <1|2|5>, {d}<|, True>)
t.topk({x}, <0|1|2|9>, {d}, <True|False>)
t.topk({x}, <1|2|-1>)
t.<sort|argsort>({x}, {d}<|, True|, descending=True>)
t.<sort|argsort>({x})
{x}.max({d})[<0|1>]
{x}.sort(0, True)[0]
t.aminmax({x})
t.<cummax|cummin>({x}, {d})
F.max_pool1d({x}, 1)""".splitlines()


def draw(draft: Draft) -> None:
    """One call."""
    distinct = draft.chance(0.25)
    dtype, shape = draft.dtype(), draft.shape(0 if draft.chance(0.3) else 1, 4)
    kind = "distinct" if distinct else draft.pick(("usual", "usual", "usual", "wild", "positive"))
    if distinct and dtype in ("bool", "complex64", "complex128"):
        dtype = draft.dtype(FLOATS)
    if (distinct and dtype in ("uint8", "int8")) or (dtype == "bfloat16" and distinct):
        dtype = "float32"
    rank = len(shape)
    last = shape[-1:] or (1,)
    template = draft.pick(DISTINCT if distinct else TEMPLATES)
    if "mode" in template and kind == "wild":
        kind = "usual"
    # PyTorch's medians of expanded tensors are not of their elements
    x = draft.tensor(shape, dtype, kind, plain=1 if distinct or re.search("median|mode|kthvalue", template) else 0.6)

    def ordered(of: tuple[int, ...]) -> str:
        return draft.fresh(of, draft.pick((dtype, "float32")), "distinct", False) + ".sort(-1)[0]"

    line = fill(draft, template, x=lambda: x, d=lambda: draft.dim(rank), dims=lambda: draft.dims(rank),
                dt=lambda: "t." + draft.dtype(), q=lambda: "t.tensor([0.25, 0.5], dtype=" + x + ".dtype)",
                i=lambda: draft.fresh(draft.shape(1, 1), "int64", "below5"),
                bsize=lambda: str(list(draft.broadcast(shape))), v=lambda: draft.fresh(last, dtype),
                other=lambda: draft.tensor(draft.broadcast(shape), draft.pick((dtype, draft.dtype()))),
                sorted=lambda: ordered((*shape[:-1], 4) if draft.chance(0.8) else (3,)), sorted1=lambda: ordered((4,)))
    draft.let(line)

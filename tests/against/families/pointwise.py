"""Pointwise functions of tensors and numbers of every dtype: promotion, broadcasting, in place, with `out`."""

from __future__ import annotations

from collections.abc import Callable

from tests.against.drafts import DTYPES, Draft, fill, words

UNARY = words("""
abs absolute neg negative positive sign sgn signbit square sqrt rsqrt reciprocal exp exp2 expm1 log log1p log2 log10
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccosh sigmoid relu ceil floor trunc fix frac
round isnan isinf isfinite isposinf isneginf isreal logical_not bitwise_not deg2rad rad2deg erf erfc erfinv logit sinc
nan_to_num special.entr special.expit special.i0e special.i1 special.ndtr special.erfcx special.log_ndtr special.ndtri
lgamma digamma i0 real angle conj conj_physical resolve_conj
""")
METHODS = words("""
float double half bfloat16 long int short bool clone detach
""")
BINARY = words("""
add sub mul div true_divide multiply subtract divide rsub pow remainder fmod floor_divide atan2 arctan2 hypot maximum
minimum fmax fmin eq ne lt le gt ge greater less not_equal logical_and logical_or logical_xor bitwise_and bitwise_or
bitwise_xor bitwise_left_shift bitwise_right_shift copysign nextafter logaddexp logaddexp2 xlogy special.xlog1py
float_power gcd heaviside ldexp isclose
""")
OPERATORS = words("""
+ - * / // % ** == != < <= > >= & | ^ << >>
""")
ASSIGNED = words("""
+ - * / // % ** & | ^ << >>
""")
IN_PLACE = words("""
add_ sub_ mul_ div_ pow_ remainder_ fmod_ floor_divide_ atan2_ eq_ lt_ logical_and_ bitwise_and_ copysign_ xlogy_
copy_ ge_ hypot_
""")
UNARY_IN_PLACE = words("""
abs_ neg_ exp_ sqrt_ floor_ sin_ sigmoid_ relu_ round_ square_ reciprocal_ logical_not_ trunc_ zero_ bitwise_not_
tanh_ sign_ erf_ log1p_ rsqrt_ nan_to_num_ frac_ deg2rad_
""")
TEMPLATES = """t.clamp({x}, {n}, {n})
t.clamp({x}, min={n})
t.clamp({x}, max={n})
t.clamp({x}, {y}, {y})
t.clamp({x}, None, {y})
t.clamp({x}, max={y}, min=None)
{x}.clip({n}, {n})
t.clamp_min({x}, <{n}|{y}>)
t.clamp_max({x}, <{n}|{y}>)
t.where({m}, {x}, {y})
t.where({m}, {x}, {n})
t.where({m}, {n}, {y})
t.where({x}, {x}, {y})
{x}.where({m}, {y})
t.lerp({x}, {y}, <{n}|{y}>)
t.addcmul({x}, {y}, {y}<|, value={n}>)
t.addcdiv({x}, {y}, {y}<|, value={n}>)
t.add({x}, {y}, alpha={n})
t.sub({x}, {y}, alpha={n})
t.add({x}, {n}, alpha={n})
t.rsub({x}, <{y}|{n}>, alpha={n})
t.div({x}, <{y}|{n}>, rounding_mode=<None|'floor'|'trunc'>)
{x}.div_(<{y}|{n}>, rounding_mode=<'floor'|'trunc'>)
t.round({x}, decimals=<0|1|2|-1>)
t.nan_to_num({x}, {n}, posinf={n})
t.isclose({x}, {y}, rtol=0.1, equal_nan=<True|False>)
t.pow({n}, {x})
t.special.xlogy({x}, <{y}|{n}>)
t.float_power({x}, {n})
t.mvlgamma({x}, 2)
t.polygamma(<0|1|2>, {x})
t.logit({x}, <None|0.1>)
t.masked_fill({x}, {m}, <{n}|{s}>)
t.threshold({x}, {n}, {n})
F.leaky_relu({x}, <0.1|-0.5|0.0>)
F.<elu|celu>({x}, <1.0|0.5>)
F.<gelu|silu|mish|hardswish|hardsigmoid|relu6|selu|softsign|logsigmoid|tanhshrink|relu|hardtanh|softplus>({x})
F.gelu({x}, approximate='tanh')
F.<hardshrink|softshrink>({x}, 0.5)
F.hardtanh({x}, -0.5, <1.0|0.25|-1.0>)
F.softplus({x}, <1|2.0>, <20|1.0>)
F.prelu({x}, {s1})
{x}.to({dt})
{x}.type({dt})
{x}.type_as({y})
{x}.to({y})
t.result_type({x}, <{y}|{n}>)
t.can_cast(({x}).dtype, {dt})
t.promote_types(({x}).dtype, {dt})
t.frexp({x}.float())
t.broadcast_tensors({x}, {y})
t.dist({x}, {y})
t.allclose({x}, {y})
t.equal({x}, {y})
t.<zeros|ones|empty>_like({x}).zero_()
t.full_like({x}, {n})
{x}.new_full((2,), {n})
{x}.fill_({n})
{x}.masked_fill_({m}, {n})
{x}.clamp_({n}, {n})
{x}.lerp_({y}, 0.5)
{x}.addcmul_({y}, {y}, value={n})
{x}.copy_({y})
t.complex({x}, {y})
t.polar({x}, {y})
t.addcmul({x}, {s}, {y})
t.cat([{x}, {x}.<float|long|double|half>()], 0)
t.stack([{x}, {x}])
{x}.<{met}>()
bool({s})
<int|float|bool|complex>({s})
t.heaviside({x}, {y})
t.bitwise_<and|or|xor|left_shift|right_shift>(<{x}|{n}>, <{y}|{x}>)
t.logical_<and|or|xor>({x}, {y})
t.<maximum|fmin|atan2|hypot>({x}, {n})
t.rsqrt({x} + {n})""".splitlines()


def draw(draft: Draft) -> None:
    """One call."""
    dtype, shape = draft.dtype(), draft.shape(0, 3)
    kind = draft.pick(("usual", "usual", "usual", "wild", "unit", "positive"))

    def x() -> str:
        return draft.tensor(shape, dtype, kind)

    def y() -> str:
        other = dtype if draft.chance(0.4) else draft.dtype()
        return draft.tensor(draft.broadcast(shape), other, draft.pick(("usual", "usual", kind, "positive")))

    def n() -> str:
        return draft.number()

    own = {"x": x, "y": y, "n": n, "m": lambda: draft.tensor(draft.broadcast(shape), "bool"),
           "s": lambda: draft.fresh((), dtype if draft.chance(0.5) else draft.dtype()),
           "s1": lambda: draft.fresh((draft.pick((1, shape[1] if len(shape) > 1 else 1)),), dtype),
           "dt": lambda: "t." + draft.dtype(DTYPES), "met": lambda: draft.pick(METHODS)}
    which = draft.rng.randint(0, 9)
    if which <= 1:
        template = f"t.{draft.pick(UNARY)}({{x}})"
    elif which <= 3:
        template = f"t.{draft.pick(BINARY)}({{x}}, <{{y}}|{{y}}|{{n}}>)"
    elif which == 4:
        template = draft.pick(("{x} OP {y}", "{x} OP {n}", "{n} OP {x}")).replace("OP", draft.pick(OPERATORS))
    elif which == 5:
        _in_place(draft, x(), own)
        return
    elif which == 6:
        call = f"t.{draft.pick(UNARY)}({{x}}, " if draft.chance(0.4) else f"t.{draft.pick(BINARY)}({{x}}, {{y}}, "
        out = draft.fresh(draft.pick((shape, shape, (0,), draft.shape())), draft.dtype(), grad=draft.chance(0.05))
        template = f"{call}out={out})"
    else:
        template = draft.pick(TEMPLATES)
    while ".<{met}>" in template:
        template = template.replace(".<{met}>", "." + draft.pick(METHODS))
    draft.let(fill(draft, template, **own))


def _in_place(draft: Draft, target: str, own: dict[str, Callable[[], str]]) -> None:
    """A write to a tensor, or to what is computed from it."""
    if draft.chance(0.5):
        target = draft.let(f"{target}{draft.pick(('.clone()', ' * 1', '.clone().t()', '.view_as(' + target + ')'))}"
                           if draft.chance(0.9) else f"{target}[..., :1]")
    if draft.chance(0.3):
        draft.lines.append(f"{target} {draft.pick(ASSIGNED)}= "
                           + fill(draft, "<{y}|{n}>", y=own["y"], n=own["n"]))
        draft.results.append(target)
        return
    if draft.chance(0.4):
        draft.let(f"{target}.{draft.pick(UNARY_IN_PLACE)}()")
    else:
        draft.let(f"{target}.{draft.pick(IN_PLACE)}("
                  + fill(draft, "<{y}|{n}>", y=own["y"], n=own["n"]) + ")")


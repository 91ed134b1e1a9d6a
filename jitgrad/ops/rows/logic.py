"""Comparisons, logic, bit operations and tests for special values: bools and integers, no gradients."""

import math
from typing import Any

from jitgrad.ops.opdef import EXPRESSION, NONDIFF
from jitgrad.ops.rows._pointwise import pointwise, predicate


def _nonzero(F: Any, x: Any) -> Any:
    return F.logical_or(F.ne(x.re, 0.0), F.ne(x.im, 0.0))


predicate("eq", 2, "a == b.", "equal", infix="==", traits={"barebones", "cheap", "commutative"},
          pair=lambda F, a, b: F.logical_and(F.eq(a.re, b.re), F.eq(a.im, b.im)))
predicate("ne", 2, "a != b.", "not_equal", infix="!=", traits={"barebones", "cheap", "commutative"},
          pair=lambda F, a, b: F.logical_or(F.ne(a.re, b.re), F.ne(a.im, b.im)))
for _name, _function, _infix in (
        ("lt", "less", "<"), ("le", "less_equal", "<="), ("gt", "greater", ">"), ("ge", "greater_equal", ">=")):
    predicate(_name, 2, f"a {_infix} b.", _function, infix=_infix, traits={"cheap"})

for _name, _doc in (("logical_and", "Both are nonzero."), ("logical_or", "One or both are nonzero."),
                    ("logical_xor", "Exactly one is nonzero.")):
    predicate(_name, 2, _doc, _name, traits={"cheap", "commutative"}, pair=lambda F, a, b, _name=_name: (
        getattr(F, _name)(_nonzero(F, a), _nonzero(F, b))))
predicate("logical_not", 1, "x is zero.", "logical_not", traits={"cheap"},
          pair=lambda F, x: F.logical_not(_nonzero(F, x)))

for _name, _doc in (("bitwise_and", "a & b."), ("bitwise_or", "a | b."), ("bitwise_xor", "a ^ b.")):
    pointwise(_name, 2, _doc, _name, vjp=NONDIFF, dtypes="integral", traits={"barebones", "commutative"})
pointwise("bitwise_not", 1, "~x; logical negation of bools.", "invert", vjp=NONDIFF, dtypes="integral",
          traits={"involution"})
pointwise("bitwise_left_shift", 2, "a << b; 0 for shifts by the width or more.", "left_shift", vjp=NONDIFF,
          dtypes="int")
pointwise("bitwise_right_shift", 2, "a >> b, keeping the sign.", "right_shift", vjp=NONDIFF, dtypes="int")

predicate("isnan", 1, "x is NaN.", dtypes="float", compose=lambda F, x: F.ne(x, x), pair=EXPRESSION, ref="numpy.isnan")
predicate("isinf", 1, "x is an infinity.", dtypes="float", compose=lambda F, x: F.eq(F.abs(x), math.inf),
          ref="numpy.isinf")
predicate("isfinite", 1, "x is neither NaN nor an infinity.", dtypes="float",
          compose=lambda F, x: F.lt(F.abs(x), math.inf), ref="numpy.isfinite")

"""The graph's ops on Python numbers, `num.*`, and the functions of `num.math`: one row says everything about one.

An int is Python's of 64 bits, a bool counts as one. A node with the attr `checked` raises what Python raises, and
OverflowError for an int of more bits; without it every op is total (`script/graph/numbers.py` says how).
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jitgrad.classes import dataclass
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, Type

Result = Callable[[tuple[Type, ...], Mapping[str, Any]], Type]
Family = Literal["arithmetic", "comparison", "bitwise", "unary", "moves", ""]


@dataclass(frozen=True, slots=True)
class NumberOp:
    """One `num.<name>`.

    Attributes:
        name: Python's, as in `__add__`, where there is one.
        family: what native code does alike; "moves" computes nothing; "" for ops of their own.
        arity: number of operands; None where attrs say.
        python: what it computes, on Python's numbers, where attrs do not say.
        result: the type of the result.
        infix: Python's operator, or "".
        syntax: Python's node for it, or None.
        raises: what Python raises besides OverflowError.
        neutral: of ints: x <op> neutral is x; None where there is none.
        commutes: whether operands may be swapped.
        swapped: of a comparison: the one that holds of the operands the other way round.
    """

    name: str
    family: Family
    arity: int | None
    python: Callable[..., Any]
    result: Result
    infix: str = ""
    syntax: type[ast.AST] | None = None
    raises: tuple[type[Exception], ...] = ()
    neutral: int | None = None
    commutes: bool = False
    swapped: str = ""


NUMBERS: dict[str, NumberOp] = {}


def _by_attrs(*operands: Any) -> Any:
    raise TypeError("what this op computes is among its attributes")


def _op(name: str, family: Family, arity: int | None, result: Result, infix: str = "",
        syntax: type[ast.AST] | None = None, python: Callable[..., Any] | None = None, **fields: Any) -> None:
    function = getattr(operator, f"__{name}__", _by_attrs) if python is None else python
    NUMBERS[f"num.{name}"] = NumberOp(name, family, arity, function, result, infix, syntax, **fields)


# --- results ---------------------------------------------------------------------------------------------------------


def _promoted(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    if NUMBER in types:
        return NUMBER
    return FLOAT if FLOAT in types else INT


def _bits(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return BOOL if all(t == BOOL for t in types) else INT


def _own(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return INT if types[0] == BOOL else types[0]


def _constant(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    value = attrs["value"]
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def _always(result: Type) -> Result:
    return lambda types, attrs: result


def _function(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return FUNCTIONS[attrs["fn"]].result or types[0]


_NAMED: Mapping[str, Type] = {"bool": BOOL, "int": INT, "float": FLOAT, "number": NUMBER}

# --- operators -------------------------------------------------------------------------------------------------------

_BY_ZERO = (ZeroDivisionError,)
_op("add", "arithmetic", 2, _promoted, "+", ast.Add, neutral=0, commutes=True)
_op("sub", "arithmetic", 2, _promoted, "-", ast.Sub, neutral=0)
_op("mul", "arithmetic", 2, _promoted, "*", ast.Mult, neutral=1, commutes=True)
_op("truediv", "arithmetic", 2, _always(FLOAT), "/", ast.Div, raises=_BY_ZERO)
_op("floordiv", "arithmetic", 2, _promoted, "//", ast.FloorDiv, raises=_BY_ZERO, neutral=1)
_op("mod", "arithmetic", 2, _promoted, "%", ast.Mod, raises=_BY_ZERO)
_op("pow", "arithmetic", 2, _promoted, "**", ast.Pow, raises=_BY_ZERO)
_op("min", "arithmetic", 2, _promoted, python=min)
_op("max", "arithmetic", 2, _promoted, python=max)

_op("eq", "comparison", 2, _always(BOOL), "==", ast.Eq, swapped="eq")
_op("ne", "comparison", 2, _always(BOOL), "!=", ast.NotEq, swapped="ne")
_op("lt", "comparison", 2, _always(BOOL), "<", ast.Lt, swapped="gt")
_op("le", "comparison", 2, _always(BOOL), "<=", ast.LtE, swapped="ge")
_op("gt", "comparison", 2, _always(BOOL), ">", ast.Gt, swapped="lt")
_op("ge", "comparison", 2, _always(BOOL), ">=", ast.GtE, swapped="le")

_op("and", "bitwise", 2, _bits, "&", ast.BitAnd)
_op("or", "bitwise", 2, _bits, "|", ast.BitOr, neutral=0, commutes=True)
_op("xor", "bitwise", 2, _bits, "^", ast.BitXor, neutral=0, commutes=True)
_op("lshift", "bitwise", 2, _always(INT), "<<", ast.LShift, raises=(ValueError,), neutral=0)
_op("rshift", "bitwise", 2, _always(INT), ">>", ast.RShift, raises=(ValueError,), neutral=0)

_op("neg", "unary", 1, _own, "-", ast.USub)
_op("abs", "unary", 1, _own)
_op("invert", "unary", 1, _own, "~", ast.Invert, python=lambda v: ~int(v))
_op("not", "", 1, _always(BOOL), "not ", ast.Not)

_op("const", "moves", 0, _constant)
_op("cast", "", 1, lambda types, attrs: _NAMED[attrs["to"]], raises=(ValueError, OverflowError))
_op("select", "moves", 3, lambda types, attrs: types[1], python=lambda c, a, b: a if c else b)
_op("math", "", None, _function, raises=(ValueError, OverflowError))

# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """One function of `num.math`, by its attr `fn`.

    Attributes:
        name: that in Python's `math`, where it is one of these.
        python: what it computes.
        result: the type of the result; None: the first operand's.
        of: the type of the operands; None: as they are.
        exact: Python computes it in native code too: exact or correctly rounded, with no short native form.
        c: its name in the C library, which native code calls; "" where it does without.
        text: Python's, the operands in place of `{}`; of two `{}` each takes half of them.
        outside: of a function that raises outside its domain: the comparison with 0 that holds there, a point there.
    """

    name: str
    python: Callable[..., Any]
    result: Type | None
    of: Type | None
    exact: bool
    c: str
    text: str
    outside: tuple[str, float] | None = None

    @property
    def numpy(self) -> str:
        """Its name in NumPy, whose answers are IEEE 754's."""
        return "power" if self.name == "pow" else f"arc{self.name[1:]}" if self.name[0] == "a" else self.name


FUNCTIONS: dict[str, Function] = {}


def _functions(names: str, result: Type | None = FLOAT, of: Type | None = FLOAT, *, exact: bool = False,
               in_c: bool = False, python: Callable[..., Any] | None = None, c: str = "", text: str = "",
               outside: tuple[str, float] | None = None) -> None:
    for name in names.split():
        FUNCTIONS[name] = Function(name, python or getattr(math, name), result, of, exact, c or (name if in_c else ""),
                                   text or f"math.{name}({{}})", outside)


_functions("exp exp2 expm1 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh", in_c=True)
_functions("erf erfc lgamma cbrt pow hypot fmod", in_c=True)
_functions("log log2 log10", in_c=True, outside=("le", 0.0))
_functions("gamma", c="tgamma")
_functions("sqrt", outside=("lt", -1.0))
_functions("fabs copysign degrees radians")
_functions("floor ceil trunc", INT)
_functions("round", INT, python=round, text="round({})")
_functions("isnan isinf isfinite", BOOL)
_functions("gcd lcm factorial comb perm isqrt", INT, INT, exact=True)
_functions("remainder nextafter ulp", exact=True)
_functions("ldexp", of=None, exact=True)
_functions("pow_modulo", INT, INT, exact=True, python=pow, text="pow({})")
_functions("round_to", None, None, exact=True, python=lambda x, digits: round(x, digits), text="round({})")
_functions("bit_length", INT, INT, exact=True, python=int.bit_length, text="int.bit_length({})")
_functions("bit_count", INT, INT, exact=True, python=int.bit_count, text="int.bit_count({})")
_functions("norm", exact=True, python=math.hypot, text="math.hypot({})")
_functions("mantissa", exact=True, python=lambda x: math.frexp(x)[0], text="math.frexp({})[0]")
_functions("exponent", INT, exact=True, python=lambda x: math.frexp(x)[1], text="math.frexp({})[1]")
_functions("fraction", exact=True, python=lambda x: math.modf(x)[0], text="math.modf({})[0]")
_functions("whole", exact=True, python=lambda x: math.modf(x)[1], text="math.modf({})[1]")
_functions("fsum", exact=True, python=lambda *xs: math.fsum(xs), text="math.fsum([{}])")
_functions("dist", exact=True, python=lambda *xs: math.dist(xs[:len(xs) // 2], xs[len(xs) // 2:]),
           text="math.dist([{}], [{}])")

# --- questions -------------------------------------------------------------------------------------------------------


def operator_of(name: str) -> Callable[..., Any]:
    """Python's function for the operator `__<name>__`."""
    function: Callable[..., Any] = getattr(operator, f"__{name}__")
    return function


def family(op: str) -> Family:
    """The family of a graph's op; "" for what is not a number op."""
    row = NUMBERS.get(op)
    return row.family if row is not None else ""


def is_exact(op: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a number op is one that Python computes, in native code too."""
    return op == "num.math" and FUNCTIONS[attrs["fn"]].exact


def may_divide_by_zero(op: str) -> bool:
    """Whether a number op raises ZeroDivisionError: the divisions, and powers of zero."""
    row = NUMBERS.get(op)
    return row is not None and ZeroDivisionError in row.raises

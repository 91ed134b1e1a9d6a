"""What a script does with a value of any kind: get an attribute or an item, iterate, compare, call ...

Each of these verbs is a function here and a method of `Kind`. A kind says what the verbs mean for its values; a new
one is one file and one `register`. Static Python objects have kinds as run-time values have: the kind of a value is
that of the first class in the MRO of its type that has one.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from jitgrad.errors import NotStatic, TypeMismatch, UnsupportedCall
from jitgrad.ops.numbers import NUMBERS, operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import Args, check_arguments, handler_of
from jitgrad.script.frontend.state.outside import Leaving, Outside
from jitgrad.script.frontend.values.values import Instance, Iterable, Method

Methods = Mapping[str, Callable[..., Any]]
#: how operators are written
SYMBOLS = {"matmul": "@", "pos": "+", **{row.name: row.infix for row in NUMBERS.values()}}
SEQUENCES = (str, bytes, list, tuple)
#: classes whose objects have an order among themselves alone, if any; that of numbers is one
_ORDERED = (*SEQUENCES, float, dict, type(None))
_ORDERS = {bool: float, int: float}
_CONVERT: dict[str, Callable[[Any], Any]] = {"": lambda v: v, "s": str, "r": repr, "a": ascii}


class Kind:
    """What the verbs mean for values of one kind; what a kind leaves out is refused, or raises what Python raises."""

    #: whether what its values are is known only at run time
    dynamic: ClassVar[bool] = False
    #: which of two operands answers first: the left one, unless the right one's rank is higher
    rank: ClassVar[int] = 0
    #: name -> `method(context, obj, *args, **kwargs)`
    methods: ClassVar[Methods] = {}

    # --- what it is ------------------------------------------------------------------------------------------------

    def class_of(self, obj: Any) -> type:
        """`type(obj)`."""
        return type(obj)

    def type_name(self, obj: Any) -> str:
        """The name of its class, for Python's messages."""
        return self.class_of(obj).__name__

    def type_word(self, obj: Any) -> str:
        """What it is, in the user's words: `tensor f32[N, 3]`, `an int`, `None`."""
        name = self.type_name(obj)
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

    def is_instance(self, context: Context, obj: Any, classes: tuple[type, ...]) -> Any:
        """`isinstance(obj, classes)`: a bool or a run-time one."""
        return issubclass(self.class_of(obj), classes)

    def is_dynamic(self, obj: Any) -> bool:
        """Whether it is or contains a run-time value."""
        return self.dynamic

    def method(self, obj: Any, name: str) -> Any:
        """A dunder that the value's class defines in Python; None for others."""
        cls = self.class_of(obj)
        found = getattr(cls, name, None)
        return found if hasattr(found, "__code__") and not cls.__module__.startswith("jitgrad.script") else None

    def _special(self, context: Context, obj: Any, name: str, complaint: str, *args: Any) -> Any:
        """What a dunder of the value's class gives; where it has none, Python's TypeError about one of that name."""
        method = self.method(obj, name)
        if method is None:
            raise effects.raise_now(context, TypeError, (complaint.format(self.type_name(obj)),))
        return call(context, method, obj, *args)

    def argument(self, context: Context, obj: Any) -> Any:
        """The value as the library takes it: lists as Python lists, unions as what they hold."""
        return obj

    # --- attributes ------------------------------------------------------------------------------------------------

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        """`obj.name`."""
        method = self.methods.get(name)
        if method is None:
            raise self.no_attribute(context, obj, name)
        def asked(cx: Context, args: Args, kwargs: dict[str, Any]) -> Any:
            try:
                return method(cx, obj, *args, **kwargs)
            except TypeError as error:
                here = error.__traceback__
                if here is None or here.tb_next is not None:
                    raise
            found = getattr(self.class_of(obj)(), name, method)  # arguments that it does not take, as Python says it
            return guarded(cx, lambda: found(*[None] * len(args), **dict.fromkeys(kwargs)))

        return Method(name, asked)

    def callee(self, context: Context, obj: Any, name: str) -> Any:
        """What `obj.name(...)` calls: `obj.name`; which of several objects that is the call itself finds out."""
        return self.get_attribute(context, obj, name)

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        """The refusal of an attribute that is not there, or not known."""
        if not hasattr(self.class_of(obj), name):
            return effects.no_attribute(context, self.type_name(obj), name)
        return UnsupportedCall(f"`{name}` of {self.type_word(obj)}", context.span())

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        """`hasattr(obj, name)`."""
        return name in self.methods or any(name in vars(cls) for cls in self.class_of(obj).__mro__)

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        """`obj.name = value`."""
        raise UnsupportedCall(f"assignment to `{name}` of {self.type_word(obj)}", context.span())

    def delete_attribute(self, context: Context, obj: Any, name: str) -> None:
        """`del obj.name`."""
        raise UnsupportedCall(f"`del` of an attribute of {self.type_word(obj)}", context.span(),
                              hint="assign None to it")

    # --- out of the script and into it -------------------------------------------------------------------------------

    def result(self, results: Leaving, obj: Any) -> sig.Result:
        """How the caller's object is made from what the graph gives."""
        if self.is_dynamic(obj) or type(obj).__module__.startswith("jitgrad.script.frontend"):
            raise results.refusal(obj)
        return sig.Static(obj)

    def recipe(self, results: Leaving, cls: type, items: tuple[sig.Result, ...]) -> sig.Result:
        """How one of class `cls` is made of its items, where it is a tuple of values or a list."""
        return sig.Container(cls, None, items)

    def whole(self, results: Leaving, cls: type, items: sig.Result, identity: int) -> sig.Result:
        """The same of the recipe for the list of its items."""
        return items

    def maker(self, obj: Any) -> Callable[[], Any]:
        """Of a container of the script: what makes an empty one of Python's."""
        raise NotImplementedError

    def given(self, inputs: Outside, obj: Any, source: sig.Source, item: Callable[[Any, sig.Source, int], Any]) -> Any:
        """What stands for an object of the caller, of items that `item` reads; None where that object itself does."""
        return None

    # --- items -----------------------------------------------------------------------------------------------------

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        """`obj[index]`."""
        return self._special(context, obj, "__getitem__", "'{}' object is not subscriptable", index)

    def set_item(self, context: Context, obj: Any, index: Any, value: Any) -> None:
        """`obj[index] = value`."""
        self._special(context, obj, "__setitem__", "'{}' object does not support item assignment", index, value)

    def delete_item(self, context: Context, obj: Any, index: Any) -> None:
        """`del obj[index]`."""
        self._special(context, obj, "__delitem__", "'{}' object doesn't support item deletion", index)

    def length(self, context: Context, obj: Any) -> Any:
        """`len(obj)`."""
        return self._special(context, obj, "__len__", "object of type '{}' has no len()")

    def iterate(self, context: Context, obj: Any) -> Iterable:
        """What a `for` over it goes over. Raises TypeMismatch for something that is no iterable."""
        raise self.not_iterable(context, obj)

    def not_iterable(self, context: Context, obj: Any) -> Exception:
        """The refusal of a loop over it."""
        refusal = TypeMismatch(f"`{self.type_name(obj)}` cannot be iterated in a script", context.span(),
                               hint="loop over a range, a tuple, a list, a ModuleList or a tensor")
        if any(hasattr(self.class_of(obj), name) for name in ("__iter__", "__getitem__")):
            return refusal
        return effects.mistake(context, f"'{self.type_name(obj)}' object is not iterable", refusal)

    def items(self, context: Context, obj: Any) -> list[Any] | None:
        """Its items; None where their number is known only at run time, and then none is taken."""
        iterable = self.iterate(context, obj)
        n = iterable.length
        return [iterable.item(context, k) for k in range(n)] if isinstance(n, int) else None

    def is_open(self, context: Context, obj: Any) -> bool:
        """Whether it can be gone over more than once, and how many items it has is known only at run time."""
        return False

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        """`item in obj`: a bool or a run-time one."""
        method = self.method(obj, "__contains__")
        if method is None:
            refusal = UnsupportedCall(f"`in` with {self.type_word(obj)}", context.span())
            if any(hasattr(self.class_of(obj), name) for name in ("__contains__", "__iter__", "__getitem__")):
                raise refusal
            raise effects.mistake(context, f"argument of type '{self.type_name(obj)}' is not iterable", refusal)
        return truth(context, call(context, method, obj, item))

    # --- calls -----------------------------------------------------------------------------------------------------

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        """`obj(*args, **kwargs)`."""
        method = getattr(self.class_of(obj), "__call__", None)  # noqa: B004  (the attribute itself is wanted)
        if isinstance(method, types.FunctionType) or hasattr(method, "eager"):
            return call(context, method, obj, *args, **kwargs)
        raise self.not_callable(context, obj)

    def not_callable(self, context: Context, obj: Any) -> Exception:
        """What to raise for something that is not called in any way that is known here."""
        if not callable(obj) or self.is_dynamic(obj):
            return effects.raise_now(context, TypeError, (f"'{self.type_name(obj)}' object is not callable",))
        name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__
        module = getattr(obj, "__module__", None)
        return UnsupportedCall(f"call of `{module}.{name}`" if module else f"call of `{name}`", context.span(),
                               hint="use a tensor operation, or call it in a function marked `@jitgrad.ignore`")

    # --- text ------------------------------------------------------------------------------------------------------

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        """`format(obj, spec)`, `str`, `repr` or `ascii` of it first: strings, and (value, conversion, format)."""
        if self.is_dynamic(obj):
            self.no_format(context, obj, spec)
            raise UnsupportedCall(f"text of {self.type_word(obj)}", context.span(), hint="print its parts")
        context.look(obj)
        context.ask(obj)
        return [guarded(context, lambda: format(_CONVERT[conversion](obj), spec))]

    def no_format(self, context: Context, obj: Any, spec: str) -> None:
        """Python's complaint about a format of what has none."""
        if spec:
            raise effects.raise_now(context, TypeError, (
                f"unsupported format string passed to {self.type_name(obj)}.__format__",))

    def printer(self, context: Context, obj: Any) -> Callable[[Any], Any] | None:
        """What prints it to a given stream, part by part; None where its text is one."""
        return None

    # --- operators -------------------------------------------------------------------------------------------------

    def truth(self, context: Context, obj: Any) -> Any:
        """`bool(obj)`: a bool or a run-time one."""
        for name in ("__bool__", "__len__"):
            method = self.method(obj, name)
            if method is not None:
                return truth(context, call(context, method, obj))
        return True if self.dynamic else bool(obj)

    def unary(self, context: Context, op: str, obj: Any) -> Any:
        """`op obj`; `op` is neg, pos or invert."""
        complaint = f"bad operand type for unary {SYMBOLS[op]}: '{{}}'"
        return self._special(context, obj, f"__{op}__", complaint)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        """`a op b`, one of which is of this kind; NotImplemented where it has no meaning for the other one."""
        return NotImplemented

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        """What `obj op= value` assigns."""
        return binary(context, op, obj, value, "=")

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        """`a op b`, `op` one of eq, ne, lt, le, gt, ge, as for `binary`."""
        return NotImplemented

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        """`a is b`, as for `binary`."""
        return a is b


_KINDS: dict[type, Kind] = {}
K = TypeVar("K", bound=type[Kind])
P = ParamSpec("P")
R = TypeVar("R")


def register(*classes: type) -> Callable[[K], K]:
    """Make the kind that follows that of objects of `classes`."""
    def add(kind: K) -> K:
        made = kind()
        _KINDS.update((cls, made) for cls in classes)
        return kind
    return add


def kind_of(obj: Any) -> Kind:
    """The kind of a value."""
    return kind_of_class(type(obj))


def kind_of_class(cls: type) -> Kind:
    """The kind of the values of a class."""
    kind = _KINDS.get(cls)
    if kind is None:
        kind = next((_KINDS[base] for base in cls.__mro__ if base in _KINDS), None)
        assert kind is not None, f"no kind of {cls}"
    return kind


def _asked(a: Any, b: Any) -> tuple[Kind, ...]:
    """The kinds of two operands, in the order in which they are asked."""
    left, right = kind_of(a), kind_of(b)
    if left is right:
        return (left,)
    return (right, left) if right.rank > left.rank else (left, right)


# --- the verbs -----------------------------------------------------------------------------------------------------


def _verb(method: Callable[Concatenate[Any, Context, Any, P], R]) -> Callable[Concatenate[Context, Any, P], R]:
    """The function that asks the kind of a value for one of the methods above."""
    name = method.__name__

    def verb(context: Context, obj: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = getattr(kind_of_class(type(obj)), name)(context, obj, *args, **kwargs)
        return found

    verb.__name__, verb.__doc__ = name, method.__doc__
    return verb


def _item_verb(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same of an index, which may be an object that says by `__index__` which number it is."""
    verb = _verb(method)

    def asked(context: Context, obj: Any, index: Any, *value: Any) -> Any:
        if isinstance(index, Instance) and class_of(obj) in SEQUENCES:
            index = as_number(context, index, "__index__")
        return verb(context, obj, index, *value)

    return asked


is_instance = _verb(Kind.is_instance)
argument = _verb(Kind.argument)
get_attribute = _verb(Kind.get_attribute)
has_attribute = _verb(Kind.has_attribute)
set_attribute = _verb(Kind.set_attribute)
delete_attribute = _verb(Kind.delete_attribute)
get_item = _item_verb(Kind.get_item)
set_item = _item_verb(Kind.set_item)
delete_item = _item_verb(Kind.delete_item)
length = _verb(Kind.length)
is_open = _verb(Kind.is_open)
contains = _verb(Kind.contains)
truth = _verb(Kind.truth)
text = _verb(Kind.text)
iterate = _verb(Kind.iterate)


def class_of(obj: Any) -> type:
    """The class of an object, made by the script or not."""
    return kind_of(obj).class_of(obj)


def type_name(obj: Any) -> str:
    """`type(obj).__name__` of what the value stands for."""
    return kind_of(obj).type_name(obj)


def type_word(obj: Any) -> str:
    """What a value is, in the user's words: `tensor f32[N, 3]`, `an int`, `None`."""
    return kind_of(obj).type_word(obj)


def is_dynamic(obj: Any) -> bool:
    """Whether a value is or contains a run-time value."""
    return kind_of(obj).is_dynamic(obj)


def items_of(context: Context, obj: Any) -> list[Any]:
    """The items of an iterable whose length is known. Raises NotStatic."""
    items = kind_of(obj).items(context, obj)
    if items is None:
        raise NotStatic(f"the length of {type_word(obj)} is known only at run time", context.span(),
                        hint="unpack a tuple, or loop with `for`")
    return items


def call(context: Context, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`fn(*args, **kwargs)`."""
    handler = handler_of(fn)
    if handler is None:
        return kind_of(fn).call(context, fn, args, kwargs)
    check_arguments(context, fn, args, kwargs)
    return handler(context, args, kwargs)


def as_number(context: Context, value: Any, *names: str) -> Any:
    """What the first of these dunders gives that the value's class defines in Python; else the value."""
    method = next((m for name in names if (m := kind_of(value).method(value, name)) is not None), None)
    return value if method is None else call(context, method, value)


def unary(context: Context, op: str, obj: Any) -> Any:
    """`-obj`, `+obj`, `~obj`."""
    return kind_of(obj).unary(context, op, obj)


def binary(context: Context, op: str, a: Any, b: Any, sign: str = "") -> Any:
    """`a op b`; `sign`: what follows the operator's where that is told."""
    for kind in _asked(a, b):
        result = kind.binary(context, op, a, b)
        if result is not NotImplemented:
            return result
    sequence = next((class_of(v) for v in (a, b) if class_of(v) in SEQUENCES), None)
    if op == "mul" and sequence is not None:
        times = [as_number(context, v, "__index__") for v in (a, b)]
        if times[0] is not a or times[1] is not b:
            return binary(context, op, *times)
    raise effects.raise_now(context, TypeError, (_unsupported(op, sign, a, b, sequence),))


def _unsupported(op: str, sign: str, a: Any, b: Any, sequence: type | None) -> str:
    """Python's complaint about two operands, of which one may be a sequence."""
    first, second = type_name(a), type_name(b)
    if op == "add" and sequence is not None and sequence is class_of(a):
        return f'can only concatenate {first} (not "{second}") to {first}'
    if op == "mul" and sequence is not None:
        return f"can't multiply sequence by non-int of type '{second if sequence is class_of(a) else first}'"
    return f"unsupported operand type(s) for {SYMBOLS[op]}{sign}: '{first}' and '{second}'"


def in_place(context: Context, op: str, obj: Any, value: Any) -> Any:
    """What `obj op= value` assigns."""
    return kind_of(obj).in_place(context, op, obj, value)


def compare(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b`, `op` one of eq, ne, lt, le, gt, ge."""
    context.look(a, b)
    for kind in _asked(a, b):
        result = kind.compare(context, op, a, b)
        if result is not NotImplemented:
            return result
    if not is_dynamic(a) and not is_dynamic(b):
        if any("__eq__" in vars(cls) for v in (a, b) for cls in type(v).__mro__[:-1]):  # not its identity
            context.ask(a, b)
        return guarded(context, lambda: operator_of(op)(a, b))
    if op in ("eq", "ne"):
        return op == "ne"
    orders = [_ORDERS.get(class_of(v), class_of(v)) for v in (a, b)]
    if all(o in _ORDERED for o in orders) and (orders[0] is not orders[1] or orders[0] in (dict, type(None))):
        raise effects.raise_now(context, TypeError, (
            f"'{SYMBOLS[op]}' not supported between instances of '{type_name(a)}' and '{type_name(b)}'",))
    raise UnsupportedCall(f"comparison of {type_word(a)} with {type_word(b)}", context.span())


def identical(context: Context, a: Any, b: Any) -> Any:
    """`a is b`: a bool or a run-time one."""
    return _asked(a, b)[0].identical(context, a, b)

"""torch's keywords for the functions of the library, from a table of torch's signatures.

A library function is written with the parameters that it uses. `complete` makes of it the one that programs call: it
takes what torch's takes, as `signatures.txt` says (other names of parameters, NumPy's names, sizes by keyword, `out=`,
options without effect here). What the function takes itself goes to it as it stands, so that a line of the table is
parsed, and anything below `Completed` run, only where a call has another keyword, or lacks an argument.
"""

import functools
from collections.abc import Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar

from jitgrad.classes import cached_property
from jitgrad.device import resolve
from jitgrad.dtypes import dtype as dtype_
from jitgrad.ops import OPS, specs
from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.library.calls.forms import ALIASES, Form, forms, table
from jitgrad.ops.library.calls.kinds import letters, refusal
from jitgrad.ops.library.calls.outs import deliver, lying_as, require_dtypes, require_no_gradient, targets_of
from jitgrad.ops.library.core import class_word, inplace, is_tensor, require_castable
from jitgrad.ops.library.sizes import flag
from jitgrad.ops.opdef import NONDIFF, POINTWISE

#: where a library function's forms are looked for
SPACES = ("torch", "Tensor", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional")

C = TypeVar("C")


# --- completing ----------------------------------------------------------------------------------------------------


class _Missing:
    """What stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "<not given>"


MISSING = _Missing()


def complete(namespace: dict[str, Any], *spaces: str) -> None:
    """Give the public functions of a module torch's keywords; `spaces` says where torch has them.

    A function with several names takes the keywords of all. What the module imports is left as it is.
    """
    found: dict[FunctionType, list[str]] = {}
    for name in namespace.keys() & _known(spaces or SPACES):
        fn = namespace[name]
        if type(fn) is FunctionType and "__completed__" not in fn.__dict__ and (
                fn.__globals__ is namespace or fn.__globals__.get(name) is not fn):
            found.setdefault(fn, []).append(name)
    for fn, names in found.items():
        namespace.update(dict.fromkeys(names, completed(fn, names, spaces or SPACES)))


@functools.cache
def _known(spaces: tuple[str, ...]) -> frozenset[str]:
    """The names that torch has in some of its namespaces, those of in-place functions without their `_` too."""
    return frozenset(n for space in spaces for name in table()[space] for n in (name, name.removesuffix("_")))


def complete_methods(cls: type[C]) -> type[C]:
    """Give the methods that a class defines the keywords of torch's methods of tensors."""
    namespace = dict(vars(cls))
    complete(namespace, "Tensor")
    for name, value in namespace.items():
        if value is not vars(cls)[name]:
            setattr(cls, name, value)
    return cls


def with_in_place_forms(cls: type[C]) -> type[C]:
    """Give a class of methods torch's in-place forms of those that it has: `acosh_` from `acosh`.

    An in-place form that the class spells out stays: those whose operands must lie apart, for example.
    """
    for name in table()["Tensor"]:
        fn = vars(cls).get(name.removesuffix("_"))
        if name.endswith("_") and name not in vars(cls) and type(fn) is FunctionType:
            setattr(cls, name, inplace(fn))
    return cls


def in_place_functions(namespace: dict[str, Any], methods: type) -> dict[str, Any]:
    """The in-place functions of torch that are methods here and not in the namespace yet."""
    return {name: vars(methods)[name] for name in table()["torch"]
            if name.endswith("_") and name not in namespace and name in vars(methods)}


def completed(fn: FunctionType, names: Sequence[str], spaces: Sequence[str]) -> FunctionType:
    """The function that takes what torch's functions of these names take, and is otherwise `fn`."""
    first, code = getattr(fn, "__bound__", ((), fn))
    own = Parameters(code, len(first))
    if own.starred_names:
        return fn
    return own.wrapper(fn, code, first, Completed(fn, own, names, spaces))


def plain(fn: Any) -> Any:
    """A function without what `complete` gave it: for calls that give no other keywords."""
    found: Completed | None = getattr(fn, "__completed__", None)
    return fn if found is None else found.fn


def accepted(fn: Any) -> frozenset[str]:
    """The keywords that a completed function takes."""
    found: Completed = fn.__completed__
    return frozenset((*found.own.positional, *found.own.only, *found.plan))


def require_call(first: Any, fn: Any, rest: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """torch's TypeError for arguments that a function does not take, where that is known before anything is asked."""
    found: Completed | None = getattr(fn, "__completed__", None)
    for key in kwargs.keys() - accepted(fn) if found else ():
        raise TypeError(f"{fn.__name__}() got an unexpected keyword argument '{key}'")
    if found:
        found._require_types(dict(zip(found.own.positional, (first, *rest), strict=False)) | kwargs, ())


class Parameters:
    """The parameters of a function behind the first few.

    Attributes:
        positional, only: names.
        star: whether more may be given by position.
        starred_names: whether other names may be given.
        defaults: name -> default.
    """

    def __init__(self, fn: FunctionType, skip: int):
        code, n = fn.__code__, fn.__code__.co_argcount
        self.positional = code.co_varnames[skip:n]
        self.only = code.co_varnames[n:n + code.co_kwonlyargcount]
        self.star, self.starred_names = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
        given = fn.__defaults__ or ()
        self.defaults = {**dict(zip(code.co_varnames[n - len(given):n], given, strict=True)),
                         **(fn.__kwdefaults__ or {})}
        self.required = tuple(p for p in (*self.positional, *self.only) if p not in self.defaults)

    def wrapper(self, fn: FunctionType, called: FunctionType, first: tuple[Any, ...],
                finish: "Completed") -> FunctionType:
        """The function of these parameters that calls `called`, or `finish` where something else is given, or less."""
        n, k = len(self.positional), len(self.only)
        needed = tuple(i for i, p in enumerate((*self.positional, *self.only)) if p in self.required)
        if not self.star:  # names cost: the inner function takes all by position
            called = _by_position(called)
        code = _template(n, k, self.star and self.only, needed, bool(first), self.star)
        names = (*self.positional, *self.only, *(("_rest",) if self.star else ()), "_more")
        code = code.replace(co_varnames=names, co_name=fn.__name__, co_qualname=fn.__qualname__)
        cells = {"_called": called, "_finish": finish, "_missing": MISSING, "_first": first[0] if first else None}
        made = FunctionType(code, fn.__globals__, fn.__name__,
                            tuple([self.defaults.get(p, MISSING) for p in self.positional]),
                            tuple([CellType(cells[c]) for c in code.co_freevars]))
        made.__kwdefaults__ = {p: self.defaults.get(p, MISSING) for p in self.only}
        made.__dict__.update(fn.__dict__)
        made.__doc__, made.__qualname__, made.__module__ = fn.__doc__, fn.__qualname__, fn.__module__
        made.__dict__.update(__wrapped__=fn, __completed__=finish)
        return made


def _by_position(fn: FunctionType) -> FunctionType:
    """`fn` with what is given by name only, by position behind the rest."""
    code = fn.__code__
    only = code.co_kwonlyargcount
    if not only:
        return fn
    every = code.replace(co_argcount=code.co_argcount + only, co_kwonlyargcount=0)
    return FunctionType(every, fn.__globals__, fn.__name__, None, fn.__closure__)


@functools.cache
def _template(n: int, k: int, names: Any, needed: tuple[int, ...], bound: bool, star: bool) -> CodeType:
    """The code of a wrapper of n parameters by position and k by name, those of the numbers `needed` without default.

    Names of parameters are put in their place afterwards, but for those that the call repeats.
    """
    args = [f"p{i}" for i in range(n)]
    only = list(names) if names else [f"k{i}" for i in range(k)]
    every = [*args, *only]
    asks = " or ".join(["_more", *(f"{every[i]} is _missing" for i in needed)])
    if star:
        passed = [*args, "*_rest", *(f"{p}={p}" for p in only)]
    else:
        passed = every
    inner = [*args, "*_rest"] if star else [*args, *(["*"] if only else [])]
    defaults = [p if p.startswith("*") else f"{p}=0" for p in [*inner, *only]]
    source = (f"def make(_called, _finish, _missing, _first):\n"
              f" def call({', '.join([*defaults, '**_more'])}):\n"
              f"  if {asks}:\n"
              f"   return _finish(({''.join(p + ', ' for p in every)}), {'_rest' if star else '()'}, _more)\n"
              f"  try:\n"
              f"   return _called({', '.join([*(['_first'] if bound else []), *passed])})\n"
              f"  except Exception:\n"
              f"   _finish.require_types(({''.join(p + ', ' for p in every)}), {'_rest' if star else '()'})\n"
              f"   raise\n"
              f" return call\n")
    scope: dict[str, Any] = {}
    exec(compile(source, "<keywords>", "exec"), scope)
    made: FunctionType = scope["make"](None, None, None, None)
    return made.__code__


# --- calls that need the table -------------------------------------------------------------------------------------

#: the parameters of torch that have no effect here, or are seen to afterwards
OPTIONS = ("out", "requires_grad", "device", "layout", "memory_format", "pin_memory", "names")


class Completed:
    """Calls of one library function with torch's keywords."""

    def __init__(self, fn: FunctionType, own: Parameters, names: Sequence[str], spaces: Sequence[str]):
        self.fn, self.own, self.name, self.names, self.spaces = fn, own, fn.__name__, names, spaces

    @cached_property
    def _forms(self) -> tuple[tuple[Form, int], ...]:
        """torch's forms, and how many parameters of ours come before theirs: a method has its tensor."""
        return tuple([(form, int(space == "Tensor")) for space in self.spaces for name in self.names
                      for form in forms(space, name) or forms(space, name + "_")])

    @cached_property
    def plan(self) -> dict[str, str]:
        """A keyword of torch -> the parameter of ours that takes it; `*`: those that are taken by position."""
        found: dict[str, str] = {}
        known = {name for form, _ in self._forms for name in form.positional}
        own = (*self.own.positional, *self.own.only)
        for form, shift in self._forms:
            for i, name in enumerate((*form.positional, *form.only)):
                if name in own or name in OPTIONS:
                    target = name
                elif i + shift < len(self.own.positional) and self._same(name, form, i + shift, known):
                    target = self.own.positional[i + shift]
                elif self.own.star and name in form.positional:
                    target = "*"
                else:
                    continue
                found.setdefault(name, target)
                if form.aliases:
                    for alias in ALIASES.get(name, ()):
                        found.setdefault(alias, target)
        return found

    @property
    def _asks(self) -> bool:
        """Whether the function is a comparison or kin: its bools can be written to any `out`."""
        return self.name in OPS and OPS[self.name].spec is specs.predicate

    def _same(self, name: str, form: Form, i: int, known: set[str]) -> bool:
        """Whether our parameter at position i is torch's of another name: both are needed, so that they are one."""
        ours = self.own.positional[i]
        return name in form.required and ours in self.own.required and (
            ours not in form.positional or ours not in known)

    def require_types(self, values: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        """torch's TypeError where an argument of a call, which failed, is none of what torch takes there."""
        own = self.own
        names = (*own.positional, *own.only)
        self._require_types({p: v for p, v in zip(names, values, strict=True)
                             if v is not own.defaults.get(p, MISSING)}, rest)

    def _require_types(self, given: dict[str, Any], rest: tuple[Any, ...]) -> None:
        error = refusal(self.name, self._by_forms(given, rest))
        if error is not None:
            raise error from None

    def _by_forms(self, given: dict[str, Any], rest: tuple[Any, ...]) -> Iterator[tuple[Form, dict[str, Any]]]:
        """A call's arguments by the names of each of torch's forms in which it may be read; a method is a tensor's."""
        own = self.own.positional
        for form, shift in self._forms:
            if not form.types or form.starred or (shift and not is_tensor(given.get(own[0]))):
                continue
            names = dict(zip(own, ("self", *form.positional) if shift else form.positional, strict=False))
            names |= {self.plan.get(p, ""): p for p in (*form.positional, *form.only)}
            further = form.positional[len(own) - shift:]
            if further and "I" in form.types.get(further[0], "") and all(
                    isinstance(n, int) or "i" in (letters(n) or "i") for n in rest):
                rest = (rest,) if rest else ()
            if given.keys() <= names.keys() and len(rest) <= len(further):
                by_name = {names[p]: v for p, v in given.items()} | dict(zip(further, rest, strict=False))
                if form.required <= by_name.keys():
                    yield form, by_name

    def __call__(self, values: tuple[Any, ...], rest: tuple[Any, ...], more: dict[str, Any]) -> Any:
        own, plan = self.own, self.plan
        names = (*own.positional, *own.only)
        given = {p: v for p, v in zip(names, values, strict=True) if v is not own.defaults.get(p, MISSING)}
        explicit, options = dict(given), dict[str, Any]()
        for key, value in more.items():
            target = plan.get(key)
            if target is None:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            into = given if target in names else options
            if target in into or (target == "*" and rest):
                return self._by_form(explicit, rest, more, f"got multiple values for argument '{key}'")
            into[target] = value
        missing = [p for p in own.required if p not in given]
        if missing:
            return self._by_form(explicit, rest, more, f"missing {len(missing)} required positional arguments: "
                                 + ", ".join([f'"{p}"' for p in missing]))
        if "*" in options:
            value = options.pop("*")
            if isinstance(value, int):
                word = next(key for key in more if plan[key] == "*")
                raise TypeError(f"{self.name}(): argument '{word}' must be tuple of ints, not int")
            rest = tuple(value) if isinstance(value, (tuple, list)) and value else (value,)
        return self._run(given, rest, options)

    def _by_form(self, given: dict[str, Any], rest: tuple[Any, ...], more: dict[str, Any], error: str) -> Any:
        """A call whose names are those of one form in which other parameters come first: `arange(end=5)`."""
        for form, _ in self._forms:
            places = dict(zip(self.own.positional, form.positional, strict=False))
            names = {p if p in form.positional else places.get(p, p): v for p, v in given.items()}
            extra = {key if key in form.positional else form.named(key): value for key, value in more.items()}
            if len(extra) < len(more) or extra.keys() & names.keys():
                continue
            names |= extra
            if any(p.startswith("scalar") and is_tensor(v) for p, v in names.items()):
                continue
            needed = [p for p in form.positional if p in names]
            if rest or form.required - names.keys() or needed != list(form.positional[:len(needed)]) or (
                    names.keys() - {*form.positional, *form.only}) or len(needed) > len(self.own.positional):
                continue
            only = {p: names[p] for p in form.only if p in names}
            own = dict(zip(self.own.positional, [names[p] for p in needed], strict=False))
            own |= {p: v for p, v in only.items() if p in self.own.only}
            return self._run(own, (), {p: v for p, v in only.items() if p not in self.own.only})
        raise TypeError(f"{self.name}() {error}")

    def _run(self, given: dict[str, Any], rest: tuple[Any, ...], options: dict[str, Any]) -> Any:
        explicit = {**given, **options}
        try:
            return self._finished(given, rest, options)
        except Exception:
            self._require_types(explicit, rest)
            raise

    def _finished(self, given: dict[str, Any], rest: tuple[Any, ...], options: dict[str, Any]) -> Any:
        out = options.pop("out", None)
        exact = False
        if out is not None:
            self._require_types({**given, "out": out}, rest)
            targets = targets_of(self.name, out)
            fitting = [form for form, _ in self._forms if "out" in form.only and given.keys() <= {
                *self.own.positional, *form.positional, *form.only}]
            alone = sum([isinstance(v, AnyTensor) for v in given.values()]) < 2
            exact = any(form.exact or (form.exact_of_numbers and alone)
                        for form in (fitting[:1] if len(targets) == 1 else fitting))
            x = next(iter(given.values()), None)
            inexact = isinstance(x, AnyTensor) and x.dtype.is_inexact
            if "dtype" in self.own.only and "dtype" not in given and not exact and (
                    inexact or "__inexact__" not in self.fn.__dict__):
                d, kernel = targets[0].dtype, self.fn.__dict__.get("__kernel__")
                given["dtype"] = d
                if kernel and not d.is_floating_point and isinstance(x, AnyTensor) and x.dtype.is_floating_point:
                    require_no_gradient(self.name, (*targets, x))
                    raise NotImplementedError(f'"{kernel}_cpu" not implemented for \'{d.word}\'')
            elif isinstance(given.get("dtype"), dtype_) and given["dtype"] is not targets[0].dtype:
                exact = True  # an error, but first come those of the call
        before = [given.pop(p, self.own.defaults.get(p)) for p in self.own.positional] if rest else []
        try:
            result = self.fn(*before, *rest, **given)
        except NotImplementedError as error:
            if out is not None:
                self._require_out(targets, x, exact and str(error).startswith('"'), (*before, *rest, *given.values()))
            if out is not None and exact and "dtype" in given and not any(
                    isinstance(v, AnyTensor) for v in given.values()) and given["dtype"] is not targets[0].dtype:
                raise RuntimeError(f"dtype {given['dtype'].word} does not match dtype of out parameter "
                                   f"({targets[0].dtype.word})") from None
            if out is not None and str(error).startswith('"') and not (
                    self._asks or not {"dtype", "out_int32"}.isdisjoint(self.own.only)):
                require_castable((*before, *rest, *given.values()), targets)
            raise
        except IndexError:
            if out is not None and not any(form.axes_first for form in fitting):
                require_no_gradient(self.name, (*targets, *before, *rest, *given.values()))
            if out is not None and exact and "dim" in given and any(form.dtype_first for form in fitting):
                require_dtypes(targets, self.fn(*before, *rest, **given | {"dim": 0}))  # of the axis that there is
            raise
        if out is not None and isinstance(result, tuple) and not isinstance(out, (tuple, list)):
            raise TypeError(f"{self.name}(): argument 'out' must be tuple of Tensors, not {class_word(out)}")
        if out is not None and any(r.dtype.is_inexact for r in (result if isinstance(result, tuple) else (result,))):
            require_no_gradient(self.name, (*targets, *before, *rest, *given.values()))
            if "tensors" in self.own.positional and not forms("torch.linalg", self.name):
                require_castable((result,), targets, "torch.cat(): input types", TypeError)
        for option, value in options.items():
            result = _optional(self.name, option, value, result)
        return result if out is None else deliver(out, result, exact, lying_as(self.name, [*given.values()], result))

    def _require_out(self, targets: Sequence[Any], x: Any, exact: bool, operands: Sequence[Any]) -> None:
        """What torch asks of `out` before it looks for a kernel: that nothing has a gradient, of pointwise operations
        that keep a dtype that `out` has it."""
        op = OPS.get(self.name)
        if op is None or op.vjp is not NONDIFF:
            require_no_gradient(self.name, (*targets, *operands))
        if exact and op and op.kind is POINTWISE and targets[0].dtype is not x.dtype:
            raise RuntimeError(f"Found dtype {targets[0].dtype.word} but expected {x.dtype.word}")


def _optional(function: str, option: str, value: Any, result: Any) -> Any:
    """A result with an option that the function itself does not have."""
    if option == "requires_grad":
        return result.requires_grad_() if flag(value, option) else result
    if option == "device" and value is not None:
        return backend().move(result, resolve(value))
    if option == "names" and value is not None:
        raise NotImplementedError(f"{function}() does not have `{option}`")
    return result

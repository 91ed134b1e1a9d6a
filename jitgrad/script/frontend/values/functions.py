"""Functions, called: those of the library emit, those written in Python are inlined, others are refused or computed."""

import contextlib
import functools
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.classes import dataclass, replace
from jitgrad.errors import NotStatic, ScriptError, SourceUnavailable, UnsupportedCall, UnsupportedSyntax
from jitgrad.ops.library.core import COMPOSITE, is_library
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents, list_methods
from jitgrad.script.frontend.containers.generators import WALK, Consumer, Generator, Steps
from jitgrad.script.frontend.source.blocks import NotALoop
from jitgrad.script.frontend.source.liveness import scope_of
from jitgrad.script.frontend.source.recursion import as_loop
from jitgrad.script.frontend.source.resumption import as_steps
from jitgrad.script.frontend.source.source import Source, source_of
from jitgrad.script.frontend.source.syntax import check_source
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.state.handlers import Args, handler_of
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.plain import PLAIN
from jitgrad.script.frontend.values.protocol import Kind, argument, call, class_of, is_dynamic, register
from jitgrad.script.frontend.values.values import UNBOUND, Function, Method, SymList, SymTensor, Union
from jitgrad.script.graph.irops import Effect, effect
from jitgrad.script.graph.marks import mark_of

DEPTH = 64
TO_STOP = "compiled code has no lines to stop at: run it as plain Python, by `f.eager(...)` or JITGRAD_JIT=0"
_PYTHON = os.path.dirname(contextlib.__file__) + os.sep
_OURS = os.path.dirname(sig.__file__).removesuffix("call")
#: what `contextlib.contextmanager` makes of a generator function
_CONTEXT_MANAGER = contextlib.contextmanager(iter).__code__


class _OwnKind(Kind):
    """What the script can call and made itself."""

    def type_word(self, obj: Any) -> str:
        return "a function"

    def method(self, obj: Any, name: str) -> Any:
        return None

    def result(self, results: Leaving, obj: Any) -> sig.Result:
        raise results.refusal(obj)

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return effects.no_attribute(context, "function", name)


@register(Function)
class FunctionKind(_OwnKind):
    """A function or lambda of the script."""

    def class_of(self, obj: Function) -> type:
        return types.FunctionType

    def get_attribute(self, context: Context, obj: Function, name: str) -> Any:
        return obj.name if name == "__name__" else super().get_attribute(context, obj, name)

    def call(self, context: Context, obj: Function, args: Args, kwargs: dict[str, Any]) -> Any:
        return _inline(context, obj.node, obj.source, None, obj.frame, args, kwargs, obj.defaults, obj.kw_defaults)


@register(Method)
class MethodKind(_OwnKind):
    """A method of a value of the script."""

    def class_of(self, obj: Method) -> type:
        return types.MethodType

    def get_attribute(self, context: Context, obj: Method, name: str) -> Any:
        return obj.name if name == "__name__" else super().get_attribute(context, obj, name)

    def call(self, context: Context, obj: Method, args: Args, kwargs: dict[str, Any]) -> Any:
        return obj.call(context, args, kwargs)


@register(types.FunctionType)
class PythonKind(ObjectKind):
    """A function of the library, or one written in Python; one with a mark is treated as that says."""

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        if obj.__code__ is COMPOSITE:
            return call(context, obj.__wrapped__, *args, **kwargs)
        if is_library(obj):
            return library(context, obj, args, kwargs)
        if "__completed__" in obj.__dict__ or obj.__code__ is _CONTEXT_MANAGER:
            return call(context, obj.__wrapped__, *args, **kwargs)
        mark = mark_of(obj)
        if mark is not None and mark.kind != "export":
            return dispatch.call_marked(context, obj, mark, args, kwargs)
        if (obj.__module__ or "").partition(".")[0] == "numpy":
            raise self.not_callable(context, obj)
        try:
            return self._inlined(context, obj, args, kwargs)
        except ScriptError as error:
            raise _blamed(context, obj, error) from error.__cause__

    def _inlined(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        source = source_of(obj)
        context.functions[obj] = None
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            context.inputs.define(obj, part)
        defaults = tuple(_default(context, obj, "__defaults__", i, d) for i, d in enumerate(obj.__defaults__ or ()))
        kw_defaults = {k: _default(context, obj, "__kwdefaults__", k, v)
                       for k, v in (obj.__kwdefaults__ or {}).items()}
        return _inline(context, source.node, source, obj, None, args, kwargs, defaults, kw_defaults)


def _blamed(context: Context, fn: Any, error: ScriptError) -> ScriptError:
    """A refusal in a function that was inlined, as the user is told: of Python's own lines, and of ours that stand for
    what Python does, the call is to blame."""
    library = _library(fn.__code__.co_filename)
    if error.span is not None and (not library or library != _library(error.span.file)):
        return error
    if library in ("", _OURS):
        found = type(error)(error.message, context.span(), hint=error.hint, notes=error.notes)
    elif isinstance(error, (UnsupportedCall, UnsupportedSyntax, NotStatic, SourceUnavailable)):
        found = UnsupportedCall(f"call of `{fn.__qualname__}`, which is Python's own", context.span(), hint=(
            TO_STOP if fn.__module__ in ("bdb", "pdb") else "call it outside the script and pass the result, or in a "
            "function marked `@jitgrad.ignore`"))
    else:
        return error
    found.blocks = error.blocks
    return found


def _library(file: str) -> str:
    """The folder of a file that is none of the user's; "" for others."""
    if file.startswith(_OURS):
        return _OURS
    return _PYTHON if file.startswith(("<frozen", _PYTHON)) and "site-packages" not in file else ""


def _never_changes(value: Any) -> bool:
    return isinstance(value, PLAIN) or (type(value) is tuple and all(map(_never_changes, value)))


def _default(context: Context, function: Any, name: str, key: Any, value: Any) -> Any:
    """What a parameter is if no argument is given; an object is one that all calls share, found by its path."""
    source = context.inputs.source(function)
    if source is None or _never_changes(value):
        return context.inputs.constant(value)
    return context.inputs.read(value, sig.Item(sig.Attr(source, name), key))


@register(types.MethodType)
class BoundKind(ObjectKind):
    """A bound method."""

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        if isinstance(obj.__self__, SymTensor) or is_library(obj):
            return library(context, obj, args, kwargs)
        return call(context, obj.__func__, obj.__self__, *args, **kwargs)


@register(functools.partial)
class PartialKind(ObjectKind):
    """A function with some of its arguments."""

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        return call(context, obj.func, *obj.args, *args, **{**obj.keywords, **kwargs})


@register(types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType)
class BuiltinKind(ObjectKind):
    """A function written in C: Python computes, where all is known and nothing changes."""

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        owner = getattr(obj, "__self__", None)
        handler = None if _pure(obj) else handler_of(getattr(type(owner), obj.__name__, None))
        if handler is not None:
            return handler(context, (owner, *args), kwargs)
        if isinstance(owner, set) and not hasattr(frozenset, obj.__name__):
            contents.set_changes(context)
        if any(is_dynamic(a) for a in (*args, *kwargs.values())):
            name = getattr(obj, "__qualname__", repr(obj))
            raise UnsupportedCall(f"call of the built-in `{name}` with run-time values", context.span(),
                                  hint="call it in a function marked `@jitgrad.ignore`, or use a tensor operation")
        if isinstance(owner, (list, dict)) or not _pure(obj):
            raise UnsupportedCall(f"call of the built-in `{getattr(obj, '__qualname__', obj)}`", context.span(),
                                  hint="call it outside the script and pass the result, or in a function marked "
                                       "`@jitgrad.ignore`")
        context.ask(*args, *kwargs.values())
        made = effects.guarded(context, lambda: obj(*args, **kwargs))
        return contents.new_list(context, made) if type(made) is list else made  # which the script may change


def _pure(fn: Any) -> bool:
    if isinstance(getattr(fn, "__self__", None), (*PLAIN, set, frozenset)):
        return True
    return (getattr(fn, "__module__", None) or "") in ("math", "operator", "_operator", "builtins", "cmath")


def library(context: Context, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of the library, on symbolic tensors and numbers."""
    special = list_methods.FUNCTIONS.get(fn)
    if any(run_lists.run_items(context, a) is not None or (special and run_lists.in_it(context, a))
           for a in (*args, *kwargs.values())):
        if special is None:
            raise run_lists.not_static(context)
        return call(context, special, *args, **kwargs)
    stated = (*args, *kwargs.values())
    for a in [a for a in stated if not unions.undecided(a)]:
        own = getattr(class_of(a), "__functions__", {}).get(fn.__name__)
        if own is not None:
            return call(context, own, *([fn.__self__] if isinstance(fn, types.MethodType) else []), *args, **kwargs)
    names, n = tuple(kwargs), len(args)

    def compute(values: tuple[Any, ...]) -> Any:
        return effects.guarded(context, lambda: fn(*values[:n], **dict(zip(names, values[n:], strict=True))))

    absent = next((k for k, a in enumerate(stated) if unions.undecided(a) and unions.may_be(a, None)), None)
    if absent is not None:  # the function says what it makes of None
        a = stated[absent]

        def again(value: Any) -> Any:
            values = (*stated[:absent], value, *stated[absent + 1:])
            return library(context, fn, values[:n], dict(zip(names, values[n:], strict=True)))

        return dispatch.branch(context, unions.is_static(context, a, None), lambda: again(None),
                               lambda: again(unions.without(context, a, None)))
    given = tuple([argument(context, a) for a in stated])
    copies = {t.storage: heap.stored(context, t.storage) for t in _copies(context, stated, given)}
    if not copies:
        return unions.each(context, given, compute)
    before, done = context.state.copy(), len(context.builder.block.nodes)
    result = unions.each(context, given, compute)
    if not any(t.storage in copies for t in _tensors(result)) and all(
            heap.stored(context, storage) is held for storage, held in copies.items()):
        return result
    if any(effect(node.op, node.attrs) not in (Effect.NONE, Effect.RAISES)
           for node in context.builder.block.nodes[done:]):
        raise UnsupportedCall("a function that writes one of several tensors, decided at run time, and does more",
                              context.span(), hint="write an `if` around the call")
    context.state = before  # what it did was to the copies: now to the tensors themselves
    return unions.each(context, tuple([_referring(context, a) for a in stated]), compute)


def _copies(context: Context, stated: Any, given: Any) -> Iterator[SymTensor]:
    """Of arguments as the library takes them, the copies of what one of several tensors holds."""
    if isinstance(stated, Union):
        yield from [given] if isinstance(given, SymTensor) else []
    elif isinstance(given, (list, tuple)):
        items = contents.context_items(context, stated) if isinstance(stated, SymList) else stated
        for part, value in zip(items, given, strict=True):
            yield from _copies(context, part, value)


def _referring(context: Context, stated: Any) -> Any:
    """An argument as the library takes it, but for tensors of which the run chooses."""
    if isinstance(stated, SymList):
        return [_referring(context, v) for v in contents.context_items(context, stated)]
    if type(stated) is tuple:
        return tuple([_referring(context, v) for v in stated])
    return stated if isinstance(stated, Union) else argument(context, stated)


def _tensors(result: Any) -> Iterator[SymTensor]:
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from _tensors(item)
    elif isinstance(result, SymTensor):
        yield result


# --- inlining ------------------------------------------------------------------------------------------------------


def _inline(context: Context, node: Any, source: Any, fn: Any, outer: Frame | None, args: tuple[Any, ...],
            kwargs: dict[str, Any], defaults: tuple[Any, ...], kw_defaults: dict[str, Any]) -> Any:
    if len(context.calls) > DEPTH:
        raise _too_deep(context, source, fn, outer)
    original = source
    for decision in context.decisions:
        if isinstance(decision, Instead) and decision.node is node:
            source, node = decision.source, decision.source.node
    if source.scope is None:
        check_source(source, inlined=True)
    bound = effects.guarded(context, lambda: bind(context, node, _qualified(source, fn, outer), args, kwargs, defaults,
                                                  kw_defaults))
    frame = Frame(context.new_id(), source, fn, outer, context.span())
    for name, value in bound.items():
        context.state.values[(frame.id, name)] = value

    def run(context: Context, consumer: Consumer | None = None) -> Any:
        frame.consumer = consumer
        before = context.frame, context.node, context.modes
        context.frame = frame
        context.calls.append(frame)
        try:
            result = dispatch.run_function(context, frame, node)
        finally:
            context.frame, context.node, context.modes = before
            context.calls.pop()
        values = context.state.values
        for name in frame.scope.local - frame.scope.captured:
            values.pop((frame.id, name), None)
        for name in frame.scope.captured:  # functions in it may bind it yet
            values.setdefault((frame.id, name), UNBOUND)
        return dispatch.after_call(context, result, consumer is not None) if context.tries else result

    if frame.scope.yields:
        return Generator(context, run, lambda: _asked(context, source))
    found = run(context)
    return call(context, Steps, found) if source is not original and scope_of(original).yields else found


def _qualified(source: Source, fn: Any, outer: Frame | None) -> str:
    """The `__qualname__` of a function."""
    if fn is not None or outer is None:
        return getattr(fn, "__qualname__", source.name)
    return f"{_qualified(outer.source, outer.function, outer.outer)}.<locals>.{source.name}"


@dataclass(frozen=True, eq=False)
class Instead:
    """The decision that a function is another: one which calls itself, perhaps by way of others, is a loop; a generator
    function gives what is asked for item by item."""

    node: Any
    source: Source


def _asked(context: Context, source: Source) -> Exception:
    """The evaluation in which a generator is asked item by item, or the refusal."""
    try:
        steps = Instead(source.node, as_steps(source, WALK))
        return Restart(steps, f"the generator `{source.name}` is asked item by item")
    except NotALoop:
        return UnsupportedCall("a generator that is asked item by item, with a `yield` in a `try` or `with`, or a loop "
                               "over what has no length", context.span(),
                               hint="loop over it with `for`, once, or make a list of it: `list(...)`")


def _too_deep(context: Context, source: Source, fn: Any, outer: Frame | None) -> Exception:
    """The evaluation in which a function that calls itself is a loop, or the refusal of calls so deep."""
    chain = [*((f.source, f.function, f.outer) for f in context.calls), (source, fn, outer)]
    nodes = [s.node for s, _, _ in chain]
    last = next((k for k in reversed(range(len(chain))) if nodes[k] in nodes[:k]), 0)
    begins = max((k for k in range(last) if nodes[k] is nodes[last]), default=last)
    group = {s.node: s for s, _, _ in chain[begins:last]}
    where = {(None if f is None else id(f.__globals__), o) for _, f, o in chain[begins:last]}
    with contextlib.suppress(NotALoop):
        if len(group) == 1 or len(where) == 1:
            found = Instead(nodes[last], as_loop(list(group.values()), WALK.at_places))
            return Restart(found, f"`{found.source.name}` calls itself as often as the run says")
    place = context.span()
    return UnsupportedCall(f"the calls are more than {DEPTH} deep", place and replace(place, caller=None),
                           hint="a function may call itself in statements, branches, loops and lists; where it does so "
                                "in a generator expression, `with` or `try`, or reads a variable afterwards that only "
                                "some ways have bound, write a `while` loop with a list as the stack")


def bind(context: Context, node: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
         defaults: tuple[Any, ...], kw_defaults: dict[str, Any]) -> dict[str, Any]:
    """Parameter -> value, as Python binds a call. Raises TypeError with Python's words."""
    a = node.args
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    bound: dict[str, Any] = dict(zip(positional, args, strict=False))
    if len(args) > len(positional) and a.vararg is None:
        least, n = len(positional) - len(defaults), len(positional)
        raise TypeError(f"{name}() takes {f'from {least} to {n}' if defaults else n} positional argument"
                        f"{'s' * (n != 1)} but {len(args)} {'was' if len(args) == 1 else 'were'} given")
    if a.vararg is not None:
        bound[a.vararg.arg] = tuple(args[len(positional):])
    only = {p.arg for p in a.posonlyargs}
    keyword_only = [p.arg for p in a.kwonlyargs]
    extra: dict[str, Any] = {}
    for k, v in kwargs.items():
        if k in only or (k not in positional and k not in keyword_only):
            if a.kwarg is None:
                raise TypeError(f"{name}() got an unexpected keyword argument '{k}'")
            extra[k] = v
        elif k in bound:
            raise TypeError(f"{name}() got multiple values for argument '{k}'")
        else:
            bound[k] = v
    for p, v in zip(positional[len(positional) - len(defaults):], defaults, strict=True):
        bound.setdefault(p, v)
    for p, v in kw_defaults.items():
        bound.setdefault(p, v)
    for kind, wanted in (("positional", positional), ("keyword-only", keyword_only)):
        missing = [p for p in wanted if p not in bound]
        if missing:
            listed = " and ".join(", ".join(f"'{m}'" for m in missing).rsplit(", ", 1))
            raise TypeError(f"{name}() missing {len(missing)} required {kind} argument{'s' * (len(missing) > 1)}: "
                            f"{listed}")
    if a.kwarg is not None:
        bound[a.kwarg.arg] = contents.new_dict(context, extra)
    return bound

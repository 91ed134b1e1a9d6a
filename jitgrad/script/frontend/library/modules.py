"""What a module consists of: `parameters()`, `named_modules()` and kin, found while compiling; `nn.Parameter(...)`.

In Python these are generators over the modules' dicts; here what the answer goes over is known, under guards on the
names in those dicts, so that a parameter or module that is added later is noticed.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic
from jitgrad.nn import Module, Parameter, hooks
from jitgrad.ops.library.creation import empty
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.containers.iteration import Iterator
from jitgrad.script.frontend.gradients import module_hooks
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args, by_parameters
from jitgrad.script.frontend.templates.unions import may_be
from jitgrad.script.frontend.values import writing
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import call, get_attribute, iterate
from jitgrad.script.frontend.values.tensors import made
from jitgrad.script.frontend.values.values import UNBOUND, Instance, SymTensor

Named = list[tuple[str, Any]]


def _iterator(context: Context, found: Named, named: bool) -> Iterator:
    """What gives each of them once."""
    things = tuple(found) if named else tuple([thing for _, thing in found])
    return Iterator(context, iterate(context, things), everywhere=True)


def _dict(context: Context, module: Any, registry: str) -> dict[str, Any]:
    """One of the module's dicts, its names guarded where the script did not make it."""
    if isinstance(module, Instance):
        parts = contents.dict_of(context, get_attribute(context, module, registry))
        if any(may_be(part, UNBOUND) for part in parts.values()):
            raise NotStatic("which parts this module has is known only at run time", context.span(),
                            hint="make it with all of them")
        return parts
    source = context.inputs.source(module)
    found: dict[str, Any] = getattr(module, registry)
    if source is not None:
        context.inputs.guard(sig.Attr(source, registry), "keys", tuple(found))
    return found


def _children(context: Context, module: Any, prefix: str = "") -> Named:
    found = []
    for name, child in _dict(context, module, "_modules").items():
        if child is not None:
            found.append((f"{prefix}.{name}" if prefix else name, get_attribute(context, module, name)))
    return found


def _modules(context: Context, module: Any, prefix: str = "", remove_duplicate: bool = True) -> Named:
    found: Named = []
    seen: set[int] = set()
    pending = [(prefix, module)]
    while pending:
        path, owner = pending.pop()
        if remove_duplicate and id(owner) in seen:
            continue
        seen.add(id(owner))
        found.append((path, owner))
        pending += reversed(_children(context, owner, path))
    return found


def _tensors(context: Context, module: Any, registry: str, prefix: str, recurse: bool,
             remove_duplicate: bool) -> Named:
    found: Named = []
    seen: set[Any] = set()
    owners = _modules(context, module, prefix, remove_duplicate) if recurse else [(prefix, module)]
    for path, owner in owners:
        for name, value in _dict(context, owner, registry).items():
            which = (value.storage, value.path) if isinstance(value, SymTensor) else id(value)
            if value is None or which in seen:
                continue
            if remove_duplicate:
                seen.add(which)
            found.append((f"{path}.{name}" if path else name, get_attribute(context, owner, name)))
    return found


def _tensors_of(registry: str, named: bool) -> Callable[..., Any]:
    def handler(context: Context, module: Any, prefix: Any = "", recurse: Any = True,
                remove_duplicate: Any = True) -> Any:
        if not named:  # parameters(recurse)
            prefix, recurse = "", prefix if prefix != "" else recurse
        known = [static(context, v, "this argument") for v in (prefix, recurse, remove_duplicate)]
        found = _tensors(context, module, registry, *known)
        return _iterator(context, found, named)
    return handler


def _modules_of(named: bool) -> Callable[..., Any]:
    def handler(context: Context, module: Any, memo: Any = None, prefix: Any = "", remove_duplicate: Any = True) -> Any:
        found = _modules(context, module, static(context, prefix, "the prefix"),
                         static(context, remove_duplicate, "`remove_duplicate`"))
        return _iterator(context, found, named)
    return handler


def _children_of(named: bool) -> Callable[..., Any]:
    def handler(context: Context, module: Any) -> Any:
        found = {id(m): (name, m) for name, m in reversed(_children(context, module))}
        unique = [pair for pair in _children(context, module) if found[id(pair[1])] == pair]
        return _iterator(context, unique, named)
    return handler


METHODS: dict[str, Callable[..., Any]] = {
    "parameters": _tensors_of("_parameters", False), "named_parameters": _tensors_of("_parameters", True),
    "buffers": _tensors_of("_buffers", False), "named_buffers": _tensors_of("_buffers", True),
    "modules": _modules_of(False), "named_modules": _modules_of(True),
    "children": _children_of(False), "named_children": _children_of(True),
}


def _parameter(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    """`nn.Parameter(...)`: a leaf that shows the memory of what it is made of."""
    if cls is not Parameter:
        made(context, cls, args, kwargs)

    def make(context: Context, data: Any = None, requires_grad: Any = True) -> Any:
        values = call(context, empty, 0) if data is None else data
        shown = call(context, get_attribute(context, values, "detach"))
        if not isinstance(shown, SymTensor):
            made(context, cls, args, kwargs)
        leaf = writing.require_grad(context, shown, True)
        leaf.storage.parameter = True
        if not static(context, requires_grad, "`requires_grad`"):
            writing.require_grad(context, leaf, False)
        return leaf

    return by_parameters(make)(context, args, kwargs)


CONSTRUCTORS[Parameter] = _parameter
HANDLERS.update({getattr(Module, name): by_parameters(method) for name, method in METHODS.items()})
HANDLERS.update({hooks.enter: module_hooks.enter, hooks.leave: module_hooks.leave})

"""`import` in a function: of modules that are loaded already, and of those whose loading nobody notices."""

import ast
import importlib.util
import sys
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.evaluate import names
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import get_attribute

_UNNOTICED = sys.stdlib_module_names | {"jitgrad"}


def import_(context: Context, s: ast.Import) -> None:
    """`import a.b`, which binds `a`; `import a.b as c`."""
    for alias in s.names:
        module = _module(context, alias.name)
        first = alias.name.partition(".")[0]
        names.assign(context, alias.asname or first, module if alias.asname else _module(context, first), s)


def import_from(context: Context, s: ast.ImportFrom) -> None:
    """`from a import b`, where `b` may be a module; a relative one is one of the function's package."""
    package = context.frame.real_function.__globals__.get("__package__")
    path = importlib.util.resolve_name("." * s.level + (s.module or ""), package)
    module = _module(context, path)
    for alias in s.names:
        value = get_attribute(context, module, alias.name) if hasattr(module, alias.name) else _module(
            context, f"{path}.{alias.name}")
        names.assign(context, alias.asname or alias.name, value, s)


def _module(context: Context, name: str) -> Any:
    first = name.partition(".")[0]
    if name not in sys.modules and first not in _UNNOTICED:
        if importlib.util.find_spec(first) is None:
            raise effects.raise_now(context, ModuleNotFoundError, (f"No module named {first!r}",))
        raise UnsupportedCall(f"the first import of `{name}`, inside a script", context.span(),
                              hint="import it at the top of the file")
    return context.inputs.unnamed(importlib.import_module(name))

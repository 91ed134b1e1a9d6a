"""`os.environ` and `os.getenv`: what is read of the environment is guarded to be what it was."""

import os
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import HANDLERS
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import Kind, Methods, register
from jitgrad.script.frontend.values.values import UNBOUND


def _read(context: Context, name: Any) -> Any:
    """A variable at the first call; UNBOUND where it is not set."""
    name = static(context, name, "the name of an environment variable")
    inputs = context.inputs
    base = inputs.source(os.environ) or inputs.source(inputs.unnamed(os.environ))
    assert base is not None
    source = sig.Item(base, name)
    if name in os.environ:
        return inputs.read(os.environ[name], source)
    inputs.guard(source, "absent", None)
    return UNBOUND


def _get(context: Context, obj: Any, key: Any, default: Any = None) -> Any:
    found = _read(context, key)
    return default if found is UNBOUND else found


@register(type(os.environ))
class EnvironmentKind(ObjectKind):
    """The variables of the environment, which a script reads."""

    methods: ClassVar[Methods] = {"get": _get}

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        if name in self.methods:
            return Kind.get_attribute(self, context, obj, name)
        raise UnsupportedCall(f"`os.environ.{name}`", context.span(), hint="read the environment outside the script")

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        found = _read(context, index)
        return guarded(context, lambda: os.environ[index]) if found is UNBOUND else found

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        return _read(context, item) is not UNBOUND


HANDLERS[os.getenv] = lambda context, args, kwargs: guarded(
    context, lambda: _get(context, os.environ, *args, **kwargs))

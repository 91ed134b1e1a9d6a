"""Functions: those that the script defines, and methods of the values that it makes."""

from __future__ import annotations

import types
from typing import Any

from jitgrad.errors import UnresolvedAttribute
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.values import Function, Method


@register(Function, Method)
class FunctionKind(Kind):
    """A function or lambda of the script, a method of one of its values."""

    def class_of(self, obj: Any) -> type:
        return types.FunctionType if isinstance(obj, Function) else types.MethodType

    def type_word(self, obj: Any) -> str:
        return "a function"

    def method(self, obj: Any, name: str) -> Any:
        return None

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return UnresolvedAttribute(f"function has no `{name}`", context.span())

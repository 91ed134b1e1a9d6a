"""A value that is one of several: the one place where a verb finds out which, and goes on with that."""

from __future__ import annotations

from typing import Any

from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import protocol
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.values import UNBOUND, Union


def may_be_unbound(value: Any) -> bool:
    """Whether nothing may have been assigned to a variable or attribute that holds this."""
    return isinstance(value, Union) and UNBOUND in value.statics


@register(Union)
class UnionKind(Kind):
    """One of several static objects, or a value of the run.

    Where the value of the run is what a verb is about (`None` has no items), that it is there is a check, with
    Python's complaint of what is there instead; else there is a branch for each alternative.
    """

    def get_attribute(self, context: Context, obj: Union, name: str) -> Any:
        if obj.inner is not None and all(s is None for s in obj.statics):
            return protocol.get_attribute(context, merge.force(
                context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError), name)
        return merge.switch(context, obj, lambda v: protocol.get_attribute(context, v, name))

    def has_attribute(self, context: Context, obj: Union, name: str) -> Any:
        return merge.switch(context, obj, lambda v: protocol.has_attribute(context, v, name))

    def set_attribute(self, context: Context, obj: Union, name: str, value: Any) -> None:
        merge.switch(context, obj, lambda v: protocol.set_attribute(context, v, name, value))

    def delete_attribute(self, context: Context, obj: Union, name: str) -> None:
        merge.switch(context, obj, lambda v: protocol.delete_attribute(context, v, name))

"""Complex tensors as values: what of a tensor they have, what they refuse, and how they leave a script."""

from __future__ import annotations

from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.batches.complex import SymComplex
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.tensors import TensorKind

#: what scripts do not know of complex tensors
_UNKNOWN = frozenset(("grad", "retain_grad", "register_hook", "retains_grad", "backward", "data", "is_leaf", "tolist",
                      "grad_fn", "numpy"))


@register(SymComplex)
class ComplexKind(TensorKind):
    """A complex tensor."""

    def type_word(self, obj: Any) -> str:
        return f"a complex tensor of {obj.ndim} axes"

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        if name in _UNKNOWN:
            raise self._unknown(context, f"`{name}`")
        return super().get_attribute(context, obj, name)

    @staticmethod
    def _unknown(context: Context, what: str) -> UnsupportedCall:
        return UnsupportedCall(f"{what} of a complex tensor", context.span(),
                               hint="do it outside the script, or with `.real`, `.imag` or `torch.view_as_real`")

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        if name not in ("real", "imag"):
            raise self._unknown(context, f"assignment to `{name}`")
        super().get_attribute(context, obj, name).copy_(value)

    def is_instance(self, context: Context, obj: Any, classes: tuple[type, ...]) -> Any:
        return Kind.is_instance(self, context, obj, classes)

    def truth(self, context: Context, obj: Any) -> Any:
        raise self._unknown(context, "the truth")

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        raise self._unknown(context, "the text")

    def result(self, results: Leaving, obj: Any) -> Any:
        made = super().result(results, obj.value)
        if isinstance(made, sig.Same):  # the argument itself
            source = results.context.inputs.sources[made.index]
            if isinstance(source, sig.Parts):
                return sig.Given(source.base)
        return sig.Complex(made)

"""A specialisation as a record: what of it outlives the process that compiled it."""


from jitgrad.classes import dataclass, replace
from jitgrad.dtypes import dtype
from jitgrad.ops.autocast import Low
from jitgrad.script.call import signature as sig
from jitgrad.script.call.specialisation import Specialisation


@dataclass(slots=True)
class Program:
    """One specialisation.

    Attributes:
        name: the function's name.
        script: its graph (after the passes that come before differentiation), inputs, guards and result.
        arguments: what it assumes of the arguments; `script.guards` is what it assumes of all else.
        grad_mode, default_dtype: what they were.
        autocast: what autocast cast to, None where it was off.
        refusal: why it cannot run where it was brought; "" where it can.
    """

    name: str
    script: sig.ScriptGraph
    arguments: list[sig.Guard]
    grad_mode: bool
    default_dtype: dtype
    autocast: Low | None
    refusal: str = ""


def program_of(specialisation: Specialisation) -> Program:
    """The record of a compiled specialisation."""
    function = specialisation.function
    # who loads it compiles it, as is asked for there
    guards = [g for g in specialisation.script.guards if g.source != sig.Machine("deterministic")]
    script = replace(specialisation.script, graph=function.graph, guards=guards)
    if script.differentiable is None:  # one that came from the disk cache, where the function knows
        script.differentiable = function.differentiable
    count = len(specialisation.given)
    return Program(function.name, script, specialisation.assumptions[:count], specialisation.grad_mode,
                   specialisation.default_dtype, specialisation.autocast)

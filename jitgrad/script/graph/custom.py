"""The derivative that a user wrote for a part of a script: `autograd.Function`.

A node `custom(*results, *arguments, *captured)` stands for the results of `forward`, with a history of its own: its
adjoint is a copy of `backward`, which was evaluated when the call was. The code of the derivative is closed: it reads
only its parameters, and its sizes are symbols of its own, whose meaning at the call the node's `sizes` give.

Two such nodes of one block may be the two ends of one computation, with a derivative that needs the gradients at
both: a module's full backward hooks. The one at its end says so (`around`); its gradients are kept until the sweep
meets the other, which has the same `pair`, and there the code runs.
"""

from __future__ import annotations

from jitgrad.classes import dataclass
from jitgrad.dims import Symbol
from jitgrad.script.graph.ir import Block


@dataclass(frozen=True, slots=True, eq=False)
class CustomDerivative:
    """`backward` of one call.

    Attributes:
        name: the class's name.
        block: parameters: a cotangent per differentiable result, then results, arguments and captured values;
            results: a gradient for each argument in `reaches`.
        symbols: the sizes that it mentions.
        results: how many results the call has.
        arguments: how many tensor arguments.
        differentiable: the results that have a gradient.
        reaches: the arguments that get one.
        once: it must not be differentiated itself.
        pair: what the two ends of one computation have in common.
        around: at the second end, the derivative of both ends: results and arguments are those of the first
            end, then the results of this one. `sizes` and `captured` of this end's node are those of the whole.
    """

    name: str
    block: Block
    symbols: tuple[Symbol, ...]
    results: int
    arguments: int
    differentiable: tuple[int, ...]
    reaches: tuple[int, ...]
    once: bool
    pair: object = None
    around: CustomDerivative | None = None

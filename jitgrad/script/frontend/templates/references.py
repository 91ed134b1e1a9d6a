"""What a merged name may go on referring to: tensors and containers that outlive the branch or loop.

Where branches bring two tensors together, or two containers, the merged one is made of what they hold, which is what
kernels read best; a write to it asks for references (`Restart` with `REFERENCES`), and the evaluation begins again with
names that refer to one of several containers. Beside None or another object a container always stays a reference, and a
tensor does once references were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jitgrad.script.frontend.state.context import REFERENCES, Context
from jitgrad.script.frontend.templates.sizes import Sizer
from jitgrad.script.frontend.values.values import HELD, UNBOUND, Number, SymTensor

#: what is merged by what it holds
_NUMBERS = (Number, bool, int, float)


@dataclass(frozen=True, slots=True)
class Outside:
    """What was there before a branch or loop, at the end of it.

    Attributes:
        older: says so of a tensor or container.
        widen: of the merge.
        beside: what the other side has in the same place (UNBOUND: nothing is known of it).
    """

    context: Context
    older: Callable[[Any], bool]
    widen: Sizer
    beside: Any = UNBOUND

    def refers(self, value: Any) -> bool:
        """Whether the merged name may refer to `value` itself."""
        if not isinstance(value, (SymTensor, *HELD)) or not self.older(value):
            return False
        asked = REFERENCES in self.context.decisions
        if isinstance(value, SymTensor):
            return asked and not isinstance(self.beside, (SymTensor, *_NUMBERS))
        return asked or not isinstance(self.beside, HELD)

    def ends(self, value: Any) -> bool:
        """Whether an alternative of a union is a tensor or container that ends here: what it holds goes on."""
        return isinstance(value, (SymTensor, *HELD)) and not self.older(value)

    def item(self, k: int) -> Outside:
        """The same for the item of a tuple."""
        return replace(self, beside=self.beside[k] if isinstance(self.beside, tuple) and k < len(self.beside) else None)

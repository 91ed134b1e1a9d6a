"""What arguments are, in the letters of the table of signatures, and which of a call torch refuses by their types.

torch binds arguments to names and looks at their types before anything else. A library function does not: it would
cost each call. It asks, through `refusal`, when a call has failed: of several faults that of a type is named.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.ops.backend import AnyTensor, SymNumber
from jitgrad.ops.library.calls.forms import Form
from jitgrad.ops.library.core import class_word

#: letter -> torch's word; the first of several that a parameter takes is named
WORDS = {"I": "tuple of ints", "L": "tuple of Tensors", "F": "tuple of floats", "T": "Tensor", "n": "Number",
         "f": "float", "i": "int", "b": "bool", "S": "str", "d": "torch.dtype", "D": "torch.device", "o": "None"}
#: as what Python's values may be given: a bool is an int to all but what takes ints
_LETTERS: dict[type, str] = {bool: "bfn", int: "ifnD", float: "fn", complex: "n", str: "SD", type(None): "o",
                             dtypes.dtype: "d", device: "D"}


def letters(x: Any) -> str | None:
    """As what `x` may be given; None of what nothing is known of."""
    if isinstance(x, AnyTensor):
        if x.ndim or getattr(x, "requires_grad", False):
            return "T"
        return "Tnfi" if x.dtype.category == dtypes.INTEGRAL else "Tnf"
    if isinstance(x, SymNumber):
        return _LETTERS[x.number_type]
    if isinstance(x, (tuple, list)):
        return _of_items([letters(item) for item in x])
    return _LETTERS.get(type(x), "d" if any(x is kind for kind in (bool, int, float, complex)) else None)


def _of_items(items: list[str | None]) -> str | None:
    """As what a tuple or list may be given."""
    if None in items:
        return None
    return "".join(many for many, one in (("I", "i"), ("F", "fn"), ("L", "To"))
                   if all(set(one) & set(item or "") for item in items))


def _fits(types: str, x: Any) -> bool:
    found = letters(x)
    return found is None or not types or not set(found).isdisjoint(types)


def refusal(name: str, calls: Iterable[tuple[Form, Mapping[str, Any]]]) -> TypeError | None:
    """torch's error for a call of which no form takes an argument's type; `calls` has the arguments by each form's
    names."""
    found: list[TypeError] = []
    for form, given in calls:
        wrong = next((p for p in (*form.positional, *form.only)
                      if p in given and not _fits(form.types.get(p, ""), given[p])), None)
        if wrong is None:
            return None
        place = f" (position {form.positional.index(wrong) + 1})" if wrong in form.positional else ""
        word = next(w for letter, w in WORDS.items() if letter in form.types[wrong])
        found.append(TypeError(f"{name}(): argument '{wrong}'{place} must be {word}, not {class_word(given[wrong])}"))
    return found[0] if found else None

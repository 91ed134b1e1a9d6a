"""The table of torch's signatures, `signatures.txt`, and its lines as forms: names, order and types of parameters."""

import functools
from pathlib import Path

TABLE = Path(__file__).parents[1] / "signatures.txt"

#: NumPy's names of parameters, which torch's own functions take too. Source: torch/csrc/utils/python_arg_parser.cpp
ALIASES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """namespace -> function -> its line."""
    found: dict[str, dict[str, str]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("["):
            space = found.setdefault(line[1:-1], {})
        elif not line.startswith("#"):
            space[line.removeprefix("def ").partition("(")[0]] = line
    return found


class Form:
    """One way in which torch's function is called.

    Attributes:
        positional: the parameters that may be given by position, in order; `starred` ones take all that is left.
        only: those that are given by name.
        types: parameter -> the letters of what it takes (`kinds.WORDS`); none of one that takes anything.
        exact: whether `out` must have the result's dtype; else it may have one to which the result can be cast.
        exact_of_numbers: whether it must where no other operand is a tensor.
        axes_first: whether an axis that there is not is named before an operand that requires grad beside `out`.
        dtype_first: whether the dtype of `out` is looked at before the axis.
        required: those of either that have no default.
        aliases: whether NumPy's names are taken.
    """

    def __init__(self, text: str, aliases: bool):
        parts = [p for p in text.strip().split(", ") if p]
        star = next((i for i, p in enumerate(parts) if p.startswith("*")), len(parts))
        stated = [p.rstrip("!?~^=").partition(":") for p in parts]
        names = [name for name, _, _ in stated]
        self.positional = tuple(names[:star])
        self.starred = names[star].strip("*") if star < len(parts) else ""
        self.only = tuple(names[star + 1:])
        self.types = {name: letters for name, _, letters in stated if letters}
        self.required = frozenset(n for i, n in enumerate(names) if i != star and not parts[i].endswith("="))
        marks = next((p for p, (name, _, _) in zip(parts, stated, strict=True) if name == "out"), "")
        self.exact, self.exact_of_numbers, self.axes_first, self.dtype_first = [mark in marks for mark in "!?~^"]
        self.aliases = aliases

    def named(self, keyword: str) -> str:
        """The parameter that a keyword means: itself, or the one that it is NumPy's name of."""
        found = [p for p, others in ALIASES.items() if keyword in others] if self.aliases else []
        return found[0] if found else keyword


def forms(space: str, name: str) -> tuple[Form, ...]:
    """How a function of one of torch's namespaces is called; none for what torch does not have."""
    line = table().get(space, {}).get(name)
    if line is None:
        return ()
    inside = line.partition("(")[2].removesuffix(")")
    return tuple(Form(part, not line.startswith("def ")) for part in inside.split(" | "))

"""`python -m tools.stubs` writes jitgrad/_in_place.pyi: functions made by name, for type checkers."""

from __future__ import annotations

from pathlib import Path

STUB = Path(__file__).parent.parent / "jitgrad" / "_in_place.pyi"
HEAD = """\
# Written by `python -m tools.stubs`: torch's functions that write to their first argument, which are methods here.
from typing import Any

from jitgrad.eager.tensor import Tensor

"""


def text() -> str:
    """The stub."""
    from jitgrad._namespace import _made

    return HEAD + "".join([f"def {name}(input: Tensor, *args: Any, **kwargs: Any) -> Tensor: ...\n"
                           for name in sorted(_made)])


if __name__ == "__main__":
    STUB.write_text(text())

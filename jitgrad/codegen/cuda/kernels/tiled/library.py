"""What kernels of tensor cores share: the texts that they call, by name; their types; the most blocks of a launch."""

from collections.abc import Iterable
from importlib import resources

TYPES = {"float16": "jg_half", "bfloat16": "jg_bfloat", "bool": "bool"}
#: the most blocks along x
MOST_BLOCKS = (1 << 31) - 1


def library(names: Iterable[str]) -> str:
    """The texts of these names, to be printed once before the kernels."""
    folder = resources.files(__package__)
    return "\n".join([folder.joinpath(f"{name}.cuh").read_text() for name in names])

"""Random numbers of Python's, and single ones of NumPy's old generator: both are asked each time, in order."""

import random
from typing import Any

import numpy as np

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.library.outside.callbacks import asked
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler

#: what Python draws, by the type of the answer; all else it makes of these
_DRAWN: dict[Any, tuple[str, ...]] = {
    float: ("random", "uniform", "gauss", "normalvariate", "expovariate", "betavariate", "triangular"),
    int: ("randint", "randrange", "getrandbits"), None: ("seed",)}
#: NumPy's that give a number: the type, and how many arguments say which; more, or a size, make an array
_SINGLE: dict[str, tuple[Any, int]] = {
    "rand": (float, 0), "randn": (float, 0), "random": (float, 0), "random_sample": (float, 0), "uniform": (float, 2),
    "normal": (float, 2), "randint": (int, 2), "seed": (None, 1)}


def _single(function: Any, kind: Any, most: int) -> Handler:
    one = asked(function, kind)

    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if len(args) > most or not kwargs.keys() <= {"low", "high", "loc", "scale", "seed"}:
            raise UnsupportedCall(f"an array of `numpy.random.{function.__name__}`", context.span(),
                                  hint="draw one number, or a tensor: `torch.rand(...)`")
        return one(context, args, kwargs)
    return handler


HANDLERS.update({getattr(random.Random, name): asked(getattr(random.Random, name), kind)
                 for kind, names in _DRAWN.items() for name in names})
HANDLERS.update({getattr(np.random, name): _single(getattr(np.random, name), *what)
                 for name, what in _SINGLE.items()})

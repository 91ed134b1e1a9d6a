"""The state of generators of random numbers: the default one's, those that a script is given, and those that it makes.

A generator's seed, as a signed number, and its offset are numbers of the run, stored in it when the call ends.
"""

from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.library.sizes import require
from jitgrad.random import Generator, default_generator
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import Number
from jitgrad.script.graph.numbers import OVERFLOW

#: of the default generator: where the state has it
_DEFAULT = {"seed": ("rng", "seed"), "offset": ("rng",)}


class _Made(list[Generator]):
    """Those that a script makes, each for one evaluation of the place."""


def made(context: Context, generator: Generator) -> Generator:
    """A generator that is new in the script: at the beginning of its stream."""
    context.part(_Made).append(generator)
    for part in _DEFAULT:
        context.state.values[_slot(generator, part)] = numbers.wrap(
            context, context.constant(getattr(generator, sig.RngState(part).attribute)))
    return generator


def read(context: Context, generator: Generator, part: str) -> Number:
    """A generator's `seed`, as a signed number, or its `offset`."""
    inputs, attribute = context.inputs, sig.RngState(part).attribute
    found: Number | None = context.state.values.get(_slot(generator, part))
    if found is not None:
        return found
    if generator is default_generator:
        found = inputs.random_state(part)
    elif (source := inputs.source(generator)) is not None:
        found = inputs.number(getattr(generator, attribute), sig.Attr(source, attribute), f"generator_{part}")
    else:
        raise UnsupportedCall("a generator that the script cannot reach again", context.span(),
                              hint="use generators that are arguments, globals or attributes of such")
    return found


def write(context: Context, generator: Generator, part: str, value: Any) -> None:
    """Let a generator's `seed` or `offset` be a number."""
    if generator is default_generator:
        context.inputs.write_random_state(part, value)
    elif generator in context.part(_Made):
        context.state.values[_slot(generator, part)] = value
    else:
        context.inputs.write_attribute(generator, sig.RngState(part).attribute, value)


def seeded(context: Context, generator: Generator, seed: Any) -> Generator:
    """`generator.manual_seed(seed)`, of an int or a number of the run."""
    if not isinstance(seed, Number):
        seed = numbers.wrap(context, context.constant(Generator(seed).key))
    write(context, generator, "seed", seed)
    write(context, generator, "offset", numbers.wrap(context, context.constant(0)))
    return generator


def initial_seed(context: Context, generator: Generator) -> Number:
    """`generator.initial_seed()`; OverflowError at run time for one that only unsigned numbers of 64 bits hold."""
    seed = read(context, generator, "seed")
    require(numbers.compare(context, "ge", seed, 0), OverflowError, OVERFLOW)
    return seed


def _slot(generator: Generator, part: str) -> tuple[Any, ...]:
    return _DEFAULT[part] if generator is default_generator else (
        "attr", id(generator), sig.RngState(part).attribute)

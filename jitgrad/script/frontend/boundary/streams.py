"""The state of generators of random numbers: the default one's, those that a script is given, and those that it makes.

A generator's seed, as a signed number, and its offset are numbers of the run, stored in it when the call ends.
"""

from typing import Any

from jitgrad.random import Generator, default_generator
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import Number

#: of the default generator: where the state has it
_DEFAULT = {"key": ("rng", "seed"), "offset": ("rng",)}


class _Made(list[Generator]):
    """Those that a script makes, each for one evaluation of the place."""


def made(context: Context, generator: Generator) -> Generator:
    """A generator that is new in the script: at the beginning of its stream."""
    context.part(_Made).append(generator)
    for part in ("key", "offset"):
        context.state.values["attr", id(generator), part] = numbers.wrap(
            context, context.constant(getattr(generator, part)))
    return generator


def read(context: Context, generator: Generator, part: str) -> Number:
    """A generator's `key` or `offset`."""
    inputs, own = context.inputs, generator is default_generator
    found: Number | None = context.state.values.get(_DEFAULT[part] if own else ("attr", id(generator), part))
    if found is None:
        source = inputs.source(generator)
        found = inputs.random_state("seed" if part == "key" else part) if own or source is None else inputs.number(
            getattr(generator, part), sig.Attr(source, part), f"generator_{part}")
    return found


def write(context: Context, generator: Generator, part: str, value: Any) -> None:
    """Let a generator's `key` or `offset` be a number."""
    if generator is default_generator:
        context.inputs.write_random_state("seed" if part == "key" else part, value)
    elif generator in context.part(_Made):
        context.state.values["attr", id(generator), part] = value
    else:
        context.inputs.write_attribute(generator, part, value)


def seeded(context: Context, generator: Generator, seed: Any) -> Generator:
    """`generator.manual_seed(seed)`, of an int or a number of the run."""
    if not isinstance(seed, Number):
        seed = numbers.wrap(context, context.constant(Generator(seed).key))
    write(context, generator, "key", seed)
    write(context, generator, "offset", numbers.wrap(context, context.constant(0)))
    return generator

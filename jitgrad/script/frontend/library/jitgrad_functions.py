"""Functions of jitgrad that are neither emitted nor inlined: gradients, checkpoints, custom functions,
autocast."""

from typing import Any

from jitgrad import cuda, random
from jitgrad.amp import autocast_mode
from jitgrad.device import fact, has_gpu, require_gpu
from jitgrad.eager import interop
from jitgrad.eager.autograd import engine, grad_mode
from jitgrad.eager.autograd.function import Function as CustomFunction
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import UnsupportedCall
from jitgrad.ops import autocast
from jitgrad.ops.library import creation
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.boundary import streams
from jitgrad.script.frontend.gradients import backward, customs
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import (CONSTRUCTORS, HANDLERS, Args, Handler, by_parameters, handles,
                                                    refused)
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import functions
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.protocol import call, register
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.marks import is_scripting, refuse
from jitgrad.utils.checkpoint import checkpoint


@handles(has_gpu)
def _has_gpu(context: Context, args: Any, kwargs: Any) -> bool:
    return bool(fact("gpu"))


@handles(cuda.device_count)
def _device_count(context: Context, args: Any, kwargs: Any) -> int:
    return int(fact("count"))


@handles(cuda.current_device)
def _current_device(context: Context, args: Any, kwargs: Any) -> int:
    effects.guarded(context, require_gpu)
    return int(fact("current").index)


@handles(grad_mode.is_grad_enabled)
def _is_grad_enabled(context: Context, args: Any, kwargs: Any) -> bool:
    context.gradient_state = True
    return context.grad


@handles(autocast_mode.is_autocast_enabled)
def _is_autocast_enabled(context: Context, args: Any, kwargs: Any) -> bool:
    return bool(effects.guarded(context, lambda: autocast_mode.is_autocast_enabled(*args, **kwargs)))


@handles(autocast_mode.get_autocast_dtype)
def _get_autocast_dtype(context: Context, args: Any, kwargs: Any) -> Any:
    if not _is_autocast_enabled(context, args, kwargs):  # what it is then is not part of what is compiled for
        raise UnsupportedCall("`get_autocast_dtype` where autocast is off", context.span(),
                              hint="ask `is_autocast_enabled` before, or ask outside the script")
    return autocast_mode.get_autocast_dtype(*args, **kwargs)


for _name in ("is_autocast_cache_enabled", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled"):
    HANDLERS[getattr(autocast_mode, _name)] = refused(_name, "write `with autocast(...):`")


def _cast(function: Any) -> Handler:
    """`ops.autocast.lower` and `widen`: nothing where autocast is off, whatever the value is."""
    def handler(context: Context, args: Any, kwargs: Any) -> Any:
        if autocast.mode.low is None or not (isinstance(args[0], SymTensor) or unions.undecided(args[0])):
            return args[0]
        return functions.library(context, function, args, kwargs)

    return handler


@handles(autocast.widest)
def _widest(context: Context, args: Any, kwargs: Any) -> Any:
    if autocast.mode.low is None:
        return args[1:]
    return functions.library(context, autocast.widest, args, kwargs)


HANDLERS[autocast.lower], HANDLERS[autocast.widen] = _cast(autocast.lower), _cast(autocast.widen)


@handles(checkpoint)
def _checkpoint(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`utils.checkpoint.checkpoint`: the call, between the marks of a region (see `autodiff.regions`)."""
    function, *rest = args
    if kwargs.pop("context_fn", None) is not None:
        raise UnsupportedCall("`checkpoint` with `context_fn`", context.span(),
                              hint="enter the context inside the function")
    for option in ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"):
        kwargs.pop(option, None)
    if not context.grad:
        return call(context, function, *rest, **kwargs)
    number = -1 - len(_open)  # by nesting; those of loops in segments count upwards
    _open.append(number)
    try:
        context.builder.emit("region.begin", (), types=(), number=number)
        result = call(context, function, *rest, **kwargs)
        context.builder.emit("region.end", (), types=(), number=number)
    finally:
        _open.pop()
    return result


_open: list[int] = []


def _made_of(make: Any) -> Handler:
    """A call of `torch.FloatTensor` and kin."""
    return lambda context, args, kwargs: functions.library(context, make, args, kwargs)


HANDLERS.update({t: _made_of(t.make) for t in vars(creation).values() if isinstance(t, creation.TensorType)})
HANDLERS[Tensor] = _made_of(creation.made_of)


@handles(interop.manual_seed)
def _manual_seed(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    """`manual_seed(seed)`: the generator's state is the script's own until it leaves."""
    (given,) = (*args, *kwargs.values())
    return streams.seeded(context, random.default_generator, call(context, int, given))


@handles(random.Generator.manual_seed)
def _manual_seed_of(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    generator, given = (*args, *kwargs.values())
    return streams.seeded(context, generator, call(context, int, given))


@handles(random.Generator.initial_seed)
def _initial_seed(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return streams.initial_seed(context, args[0])


HANDLERS.update({getattr(random.Generator, name): refused(f"Generator.{name}", "call it outside the script")
                 for name in ("seed", "get_state", "set_state", "clone_state")})


def _generator(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> random.Generator:
    return streams.made(context, effects.guarded(context, lambda: cls(*args, **kwargs)))


CONSTRUCTORS[random.Generator] = _generator


@register(random.Generator)
class GeneratorKind(ObjectKind):
    """A generator of random numbers."""

    def result(self, results: Leaving, obj: random.Generator) -> sig.Result:
        if results.context.inputs.source(obj) is None and obj is not random.default_generator:
            raise UnsupportedCall("a generator that the script made as its result", results.context.span(),
                                  hint="make it outside and pass it")
        return super().result(results, obj)


@handles(refuse)
def _refuse(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    raise UnsupportedCall(args[0], context.users_span(), hint=args[1])


HANDLERS[engine.backward], HANDLERS[engine.grad] = by_parameters(backward.backward_of), by_parameters(backward.grad)
HANDLERS[CustomFunction.apply.__func__] = customs.apply  # type: ignore[attr-defined]
HANDLERS[is_scripting] = lambda context, args, kwargs: True

"""torch.jit's names: `script`, and helpers for code that runs both ways."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jitgrad.errors import ScriptError
from jitgrad.script.api import ScriptModule
from jitgrad.script.executor import CacheInfo, eager_mode
from jitgrad.script.graph.marks import export, ignore, is_scripting, unused
from jitgrad.script.inspect.face import ScriptFunction

if TYPE_CHECKING:
    from jitgrad.script.typed import script
else:
    from jitgrad.script.api import script

__all__ = ["Attribute", "CacheInfo", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate",
           "eager_mode", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "load",
           "optimize_for_inference", "save", "script", "script_if_tracing", "script_method", "trace", "trace_module",
           "unused", "wait"]

#: what a script that cannot be compiled raises
Error = ScriptError


class Attribute(NamedTuple):
    """A value with its type. Types are inferred, so only the value counts; kept for programs written for torch."""

    value: Any
    type: Any


def is_tracing() -> bool:
    """False: nothing is ever traced."""
    return False


def script_method(fn: Callable[..., Any]) -> Any:
    """`script` on a method."""
    return script(fn)


def script_if_tracing(fn: Callable[..., Any]) -> Any:
    """The function, unchanged: inside a script its branches and loops are compiled like any other."""
    return fn


def interface(cls: type) -> type:
    """The class, unchanged: a script calls the methods of the objects that it meets."""
    return cls


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, *,
          example_kwarg_inputs: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """`script(func)`, compiled for a call with the example.

    Unlike torch's this is no recording of one run: branches, loops and sizes stay as they are in the source, and code
    that scripts do not take is refused.

    Args:
        func: a function or a Module.
        example_inputs: a tensor, or a tuple of arguments.
        example_kwarg_inputs: keyword arguments.
        optimize, check_trace, options: torch's, ignored; for checks there is `script(check=True)`.
    """
    scripted = script(func)
    if example_inputs is not None or example_kwarg_inputs:
        given = () if example_inputs is None else example_inputs
        arguments = given if isinstance(given, (tuple, list)) else (given,)
        scripted.graph_for(*arguments, **(example_kwarg_inputs or {}))
    return scripted


def trace_module(mod: Any, inputs: Mapping[str, Any], **options: Any) -> Any:
    """`trace` of a module's `forward`: `inputs["forward"]` is the example. KeyError where it is missing."""
    return trace(mod, inputs["forward"], **options)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module: what a script reads is looked up at each call, which costs less than it would to forget it.

    Raises:
        RuntimeError: the module is in training mode, as in torch.
    """
    if getattr(mod, "training", False):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on "
                           "your module before freezing.")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module, unchanged: without gradients to compute a script saves nothing for them anyway."""
    return mod


class Future(NamedTuple):
    """What `fork` returns: the result, there already."""

    result: Any

    def wait(self) -> Any:
        """The result."""
        return self.result

    def value(self) -> Any:
        """The result."""
        return self.result

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call the function at once; kept for programs written for torch."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """What `fork` found."""
    return future.result


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, unchanged: types are inferred. Kept for programs written for torch."""
    return the_value


def save(f: Any, path: Any, example_inputs: Any = None) -> None:
    """Write a scripted function or module, with all that it has compiled and its state, to a file.

    Args:
        f: what `script` returned, or what `load` returned.
        path: a path, or a file opened for writing bytes.
        example_inputs: the arguments of a call, as a tuple, or a list of such tuples, to compile for before saving.

    Raises:
        TypeError: something that the program reads or returns cannot be in a file.
        RuntimeError: nothing has been compiled.
    """
    from jitgrad.script.stored.file.save import save

    save(f, path, example_inputs)


def load(f: Any, map_location: Any = None) -> Any:
    """A module that runs what `save` wrote: no Python source is needed, none is executed.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go; None or the CPU.

    Raises:
        LoadError: not such a file, damaged, or of a newer version.
    """
    from jitgrad.script.loaded import load

    return load(f, map_location)

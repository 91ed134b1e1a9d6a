"""`func.vmap` and `func.functional_call` inside a script."""

from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.func import batches, stateless, vectorize
from jitgrad.script.frontend.batches.items import item_of
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.library.functionals.transforms import in_batches
from jitgrad.script.frontend.library.modules import METHODS
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import Args, by_parameters, handles
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import argument, call, get_attribute, items_of, set_item
from jitgrad.script.frontend.values.values import Function, SymDict, SymList, SymTensor, Union

# --- trees ---------------------------------------------------------------------------------------------------------


def _python(context: Context, tree: Any) -> Any:
    """A tree of the script's lists and dicts as one of Python's."""
    if isinstance(tree, tuple):
        items = [_python(context, v) for v in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, SymList):
        return [_python(context, v) for v in items_of(context, tree)]
    if isinstance(tree, SymDict):
        return {k: _python(context, v) for k, v in contents.dict_of(context, tree).items()}
    tree = argument(context, tree)
    if isinstance(tree, Union) and tree.statics and all(isinstance(v, SymTensor) for v in tree.statics):
        return unions.switch(context, tree, lambda v: heap.copy(context, in_batches(v)))  # one has more batches
    return tree


def _scripts(context: Context, tree: Any) -> Any:
    """The inverse: lists and dicts that the script makes."""
    if isinstance(tree, tuple):
        items = [_scripts(context, v) for v in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return run_lists.new(context, tuple([_scripts(context, v) for v in tree]))
    if isinstance(tree, dict):
        return contents.new_dict(context, {k: _scripts(context, v) for k, v in tree.items()})
    return tree


# --- vmap ----------------------------------------------------------------------------------------------------------


@handles(vectorize._mapped)
def _mapped(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    """What `vmap` calls: the function, options, arguments, keyword arguments."""
    function, options, given, named = args
    known = [static(context, _python(context, o), "an option of `vmap`") for o in options]
    in_dims, out_dims, randomness, chunk_size = known
    if randomness == "same" and chunk_size is not None:
        raise UnsupportedCall("`vmap` with `chunk_size` and randomness=\"same\" inside a script", context.span(),
                              hint="leave `chunk_size` out")
    named = contents.dict_of(context, named) if isinstance(named, SymDict) else dict(named)
    name = function.name if isinstance(function, Function) else getattr(function, "__name__", None) or repr(function)

    def run(items: tuple[Any, ...]) -> Any:
        return _python(context, call(context, function, *[_scripts(context, v) for v in items], **named))

    wanted = batches.Options(name, in_dims, out_dims, randomness, chunk_size)
    values = tuple([_python(context, v) for v in given])
    return _scripts(context, guarded(context, lambda: batches.mapped(run, item_of, wanted, values)))


# --- modules as functions of their parameters ------------------------------------------------------------------------


def _functional_call(context: Context, module: Any, parameter_and_buffer_dicts: Any, args: Any = None,
                     kwargs: Any = None, *, tie_weights: Any = True, strict: Any = False) -> Any:
    """The call, while attributes of modules have other values."""
    dicts = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, SymDict) else (
        items_of(context, parameter_and_buffer_dicts))
    plain = [dict(contents.dict_of(context, d)) for d in dicts]
    given = guarded(context, lambda: stateless.merged(plain[0] if len(plain) == 1 else plain))
    own = {name: t for kind in ("named_parameters", "named_buffers")
           for name, t in items_of(context, METHODS[kind](context, module, "", True, False))}
    guarded(context, lambda: stateless.check_names(own, given, bool(static(context, strict, "`strict`"))))
    values = given
    if static(context, tie_weights, "`tie_weights`"):
        values = guarded(context, lambda: stateless.with_tied(own, given))
    state, before, places = context.state.values, {}, {}
    for name, value in values.items():
        if name in own:
            owner, last = stateless.owner_of(module, name, lambda m, part: get_attribute(context, m, part))
            slot = places[name] = "attr", id(owner), last
            before[slot] = state.get(slot)
            state[slot] = value
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    named = {} if kwargs is None else contents.dict_of(context, kwargs)
    result = call(context, module, *positional, **named)
    state = context.state.values
    for name, slot in places.items():
        now = state.get(slot)
        if now is not values[name] and name in given:  # a buffer that the module replaced
            for d in dicts:
                if name in contents.dict_of(context, d):
                    set_item(context, d, name, now)
    for slot, value in before.items():
        if value is None:
            state.pop(slot, None)
        else:
            state[slot] = value
    return result


handles(stateless.functional_call)(by_parameters(_functional_call))

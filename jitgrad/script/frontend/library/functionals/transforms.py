"""`func.grad`, `func.vjp` and kin inside a script: a gradient with respect to stand-ins of the arguments.

A stand-in is the argument's value under a name of its own. While the function is evaluated it carries a gradient; what
leaves the transform does so only if it depends on other tensors that do, or on stand-ins of a transform around it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jitgrad import func
from jitgrad.autograd import functional
from jitgrad.errors import UnsupportedCall
from jitgrad.func import transforms
from jitgrad.ops.backend import using
from jitgrad.ops.batching.backend import BatchBackend, levels, spread
from jitgrad.ops.library.creation import ones_like
from jitgrad.script.autodiff import inner
from jitgrad.script.frontend.batches.items import marked
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.gradients import backward, carried_leaves, record
from jitgrad.script.frontend.library.functionals import funclib, functionallib
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, handles
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import call, items_of, type_name, type_word
from jitgrad.script.frontend.values.values import Method, SymDict, SymList, SymTensor
from jitgrad.script.graph.ir import Value


class Level:
    """One differentiation: the stand-ins, and the tensors that they stand for."""

    def __init__(self, context: Context, name: str):
        self.name, self.recorded, self.batches = name, context.grad, levels()
        self.given: list[SymTensor] = []
        self.values: list[Value] = []

    def stand_in(self, context: Context, tree: Any) -> Any:
        """A tree of tensors with a stand-in for each."""
        if isinstance(tree, SymTensor):
            if tree.dtype.is_complex:
                raise UnsupportedCall(f"`{self.name}` of a complex tensor", context.span(),
                                      hint="let the function take `torch.view_as_real` of it")
            if not tree.dtype.is_floating_point:
                raise effects.raise_now(context, RuntimeError, (
                    f"{self.name}: only Tensors of floating point dtype can require gradients, got {tree.dtype}",))
            tree = spread(tree, self.batches)
            value = heap.read(context, tree)
            op = "reshape" if context.has_history(value) else "leaf"
            made = context.one(op, value, **({"shape": tree.type_.dims} if op == "reshape" else {}))
            context.builder.history.add(made.id)
            self.given.append(tree)
            self.values.append(made)
            return marked(heap.new_tensor(context, made), self.batches)
        return rebuilt(context, tree, lambda item: self.stand_in(context, item), self.name)

    def call(self, context: Context, function: Any, args: Sequence[Any], kwargs: dict[str, Any], has_aux: bool) -> Any:
        """(output, aux) of the function, of stand-ins."""
        record.of(context).levels.extend(self.values)
        try:
            result = call(context, function, *args, **kwargs)
        finally:
            del record.of(context).levels[len(record.of(context).levels) - len(self.values):]
        if not has_aux:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise effects.raise_now(context, RuntimeError, (
                f"{self.name}: output of function f should be a tuple: (output, aux) if has_aux is True",))
        return result

    def pull(self, context: Context, outputs: Sequence[SymTensor], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the stand-ins; zeros where nothing leads to one."""
        batch = next((b for b in reversed(levels()) if b not in self.batches), None)
        if batch is not None:
            return self._pull_items(context, batch, outputs, cotangents)
        if self.batches:  # each item has a cotangent of its own
            outputs = [spread(y, self.batches) for y in outputs]
            cotangents = [ones_like(y) if g is None else spread(g, self.batches)
                          for y, g in zip(outputs, cotangents, strict=True)]
        recorded, context.grad = context.grad, True
        values = [heap.read(context, y) for y in outputs]
        seeds = [backward.seed_of(context, y, g) for y, g in zip(outputs, cotangents, strict=True)]
        context.grad = recorded
        found = backward.differentiate(context, values, seeds, self.values, recorded, True)
        return [marked(backward.result_of(context, t, c, True, True, recorded), self.batches)
                for t, c in zip(self.given, found, strict=True)]

    def _pull_items(self, context: Context, batch: BatchBackend, outputs: Sequence[SymTensor], cotangents: Sequence[Any]
                   ) -> list[Any]:
        """`pull` for cotangents of a vmap that the function itself was not called in: one item after another."""
        own = [batch.has(g) for g in cotangents]

        def pull(cx: Context, given: Args, named: dict[str, Any]) -> Any:
            return tuple(self.pull(cx, outputs, given))

        with using(batch.around):
            given = tuple([g.value if b else g for g, b in zip(cotangents, own, strict=True)])
            likes = tuple([in_batches(marked(t, self.batches)) for t in self.given])
            found = call(context, funclib.item_by_item, Method("pull", pull), given, tuple(own), likes,
                         batch.size)
        return [batch.item_of(y) for y in found]

    def leave(self, context: Context) -> None:
        """From here on the stand-ins carry no gradient, nor what depends on them alone."""
        path = context.path
        others = [v for s in heap.of(context).leaves if (v := backward.root_of(context, s)) is not None]
        others += record.of(context).levels + carried_leaves.carried(context)
        kept = inner.dependents(path, others) if self.recorded else set()
        for v in inner.dependents(path, self.values) - kept:
            context.builder.history.discard(v.id)


def in_batches(x: SymTensor) -> SymTensor:
    """x as an item of all vmaps around it."""
    return marked(spread(x, levels()), levels())


def rebuilt(context: Context, tree: Any, change: Any, name: str) -> Any:
    """A tuple, list or dict with each item changed."""
    if isinstance(tree, tuple):
        items = [change(v) for v in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, SymList):
        return run_lists.new(context, tuple([change(v) for v in items_of(context, tree)]))
    if isinstance(tree, SymDict):
        return contents.new_dict(context, {k: change(v) for k, v in contents.dict_of(context, tree).items()})
    raise UnsupportedCall(f"`{name}` with respect to {type_word(tree)}", context.span(),
                          hint="differentiate with respect to tensors, and tuples, lists and dicts of them")


def _filled(context: Context, tree: Any, found: Iterator[Any], name: str) -> Any:
    return next(found) if isinstance(tree, SymTensor) else rebuilt(
        context, tree, lambda item: _filled(context, item, found, name), name)


@handles(transforms._both)
def _both(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    """What `grad`, `grad_and_value` and `value_and_grad` call: (gradient, value, aux)."""
    function, argnums, has_aux, name, given, named = args
    argnums = static(context, argnums, "`argnums`")
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(-len(given) <= i < len(given) for i in positions):
        raise effects.raise_now(context, RuntimeError, (
            f"{name}: Got argnum={positions[0]}, but only {len(given)} positional inputs",))
    level, moved = Level(context, name), list(given)
    recorded, context.grad = context.grad, True
    for i in positions:
        moved[i] = level.stand_in(context, given[i])
    named = contents.dict_of(context, named) if isinstance(named, SymDict) else dict(named)
    output, aux = level.call(context, function, moved, named, bool(has_aux))
    context.grad = recorded
    if not isinstance(output, SymTensor):
        raise effects.raise_now(context, RuntimeError, (
            f"{name}: Expected f(*args) to return a single tensor, got {type_name(output)}",))
    if output.ndim:
        raise effects.raise_now(context, RuntimeError, (
            f"Expected f(*args) to return a scalar tensor, got tensor with {output.ndim} dims. Did you forget to call "
            ".mean()?",))
    found = iter(level.pull(context, [output], [None]))
    filled = [_filled(context, given[i], found, name) for i in positions]
    level.leave(context)
    return (filled[0] if isinstance(argnums, int) else tuple(filled)), output, aux


@handles(funclib.in_batches)
def _in_batches(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return in_batches(args[0])


@handles(func.vjp)
def _vjp(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    """`vjp(func, *primals)`."""
    function, *primals = args
    has_aux = bool(static(context, kwargs.get("has_aux", False), "`has_aux`"))
    if not primals:
        raise effects.raise_now(context, RuntimeError, ("vjp: Expected at least one primal",))
    level = Level(context, "vjp")
    recorded, context.grad = context.grad, True
    moved = [level.stand_in(context, p) for p in primals]
    output, aux = level.call(context, function, moved, {}, has_aux)
    context.grad = recorded
    outputs = list(contents.leaves(context, output))
    level.leave(context)

    def pull(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        cotangents = list(contents.leaves(cx, given[0]))
        if len(cotangents) != len(outputs):
            raise effects.raise_now(cx, RuntimeError, (
                "vjp_fn: Expected cotangents to have the same structure as the output of f",))
        cx.builder.history.update(v.id for v in inner.dependents(cx.path, level.values))
        found = iter(level.pull(cx, outputs, cotangents))
        filled = tuple([_filled(cx, p, found, "vjp") for p in primals])
        level.leave(cx)
        return filled

    return (output, Method("vjp_fn", pull), *([aux] if has_aux else []))


def _written(name: str, transform: Any, *options: str) -> Any:
    """A transform of `funclib`, for functions that give one tensor."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        numbers = kwargs.get("argnums", args[1] if options and len(args) > 1 else 0)
        given = set(kwargs) - set(options)
        several = numbers if isinstance(numbers, tuple) else (numbers,)
        if given or not all(isinstance(number, int) for number in several) or len(args) > (2 if options else 3):
            what = f"`{min(given)}`" if given else "these arguments"
            raise UnsupportedCall(f"`func.{name}` with {what} inside a script", context.span(),
                                  hint="differentiate with respect to arguments that are tensors, and give no options")
        return call(context, transform, *args, **kwargs)
    return handler


def _functional(name: str) -> Any:
    """A function of `autograd.functional`; how it is computed is not told."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        for option in ("vectorize", "strategy", "outer_jacobian_strategy"):
            kwargs.pop(option, None)
        count = 3 if name in ("jacobian", "hessian") else 4
        if kwargs.pop("strict", False) is not False or len(args) > count:
            raise UnsupportedCall(f"`autograd.functional.{name}` with `strict` inside a script", context.span(),
                                  hint="leave it out, and give options by name")
        return call(context, getattr(functionallib, name), *args, **kwargs)
    return handler


HANDLERS[func.jvp] = _written("jvp", funclib.jvp)
HANDLERS[func.jacrev] = _written("jacrev", funclib.jacobian, "argnums", "has_aux", "chunk_size")
HANDLERS[func.jacfwd] = _written("jacfwd", funclib.jacobian, "argnums", "has_aux")
HANDLERS[func.hessian] = _written("hessian", funclib.hessian, "argnums")
for _name in ("vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"):
    HANDLERS[getattr(functional, _name)] = _functional(_name)

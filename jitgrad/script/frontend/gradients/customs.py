"""`autograd.Function` in a script: `forward` and `backward` are both evaluated at the call (see `graph/custom.py`)."""

from typing import Any

from jitgrad.dims import Dim, Symbol, dim, substitute
from jitgrad.errors import UnsupportedCall
from jitgrad.ops import autocast
from jitgrad.ops.types import TensorType, Type, map_dims
from jitgrad.script.autodiff.flow import is_differentiable
from jitgrad.script.autodiff.inner import free_values
from jitgrad.script.autodiff.prepare import pure
from jitgrad.script.autodiff.regions import Rename
from jitgrad.script.frontend.batches.items import check_none
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.protocol import Kind, call, register
from jitgrad.script.frontend.values.values import Method, SymTensor
from jitgrad.script.graph.custom import CustomDerivative
from jitgrad.script.graph.ir import Block, Value, attr_symbols, map_attr, type_symbols, walk
from jitgrad.script.graph.irops import effect


class SymFunctionCtx:
    """`ctx`: what forward leaves for backward."""

    def __init__(self, context: Context, needs: tuple[bool, ...], name: str):
        self.depth, self.name = context.depth, name
        self.saved: tuple[Any, ...] = ()
        self.flat: tuple[Any, ...] = ()
        self.values: dict[str, Any] = {"needs_input_grad": needs}

    def fixed(self, context: Context, what: str) -> None:
        if context.depth != self.depth:
            raise UnsupportedCall(f"{what} inside a branch or loop of a `Function`", context.span(),
                                  hint="do it after the branch or loop, for all cases")

    def tell(self, context: Context, name: str, args: tuple[Any, ...]) -> None:
        self.fixed(context, f"`ctx.{name}`")
        if name == "save_for_backward":
            self.saved = args
        elif name == "mark_non_differentiable":
            self.flat = args
        elif name == "mark_dirty":
            raise UnsupportedCall("`ctx.mark_dirty` inside a script", context.span(),
                                  hint="return a new tensor from `forward`")
        elif name == "set_materialize_grads" and not args[0]:
            raise UnsupportedCall("`ctx.set_materialize_grads(False)` inside a script", context.span(),
                                  hint="backward gets zeros for what nothing reached")


_METHODS = frozenset({"save_for_backward", "mark_non_differentiable", "mark_dirty", "set_materialize_grads"})


@register(SymFunctionCtx)
class CtxKind(Kind):
    """What `forward` and `backward` do with `ctx`."""

    def get_attribute(self, context: Context, obj: SymFunctionCtx, name: str) -> Any:
        if name == "saved_tensors":
            return obj.saved
        if name in _METHODS:
            return Method(name, lambda cx, args, kwargs: obj.tell(cx, name, args))
        if name not in obj.values:
            raise effects.no_attribute(context, "FunctionCtx", name, what=f"`ctx` has no attribute `{name}`")
        return obj.values[name]

    def has_attribute(self, context: Context, obj: SymFunctionCtx, name: str) -> Any:
        return name == "saved_tensors" or name in _METHODS or name in obj.values

    def set_attribute(self, context: Context, obj: SymFunctionCtx, name: str, value: Any) -> None:
        obj.fixed(context, f"`ctx.{name} = ...`")
        obj.values[name] = value


def apply(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cls.apply(*given)`."""
    from jitgrad.eager.autograd.function import Function

    cls, *given = args
    if any(unions.undecided(a) for a in given):
        raise UnsupportedCall(f"`{cls.__name__}.apply` of a value that may be None", context.span(),
                              hint="check for None before the call")
    context.gradient_state = True
    check_none(context, given, "a custom `autograd.Function`")
    needs = tuple([isinstance(a, SymTensor) and context.grad and a.requires_grad for a in given])
    ctx = SymFunctionCtx(context, needs, cls.__name__)
    recorded, context.grad = context.grad, False
    if cls.setup_context is not Function.setup_context:
        result = call(context, cls.forward, *given)
        call(context, cls.setup_context, ctx, tuple(given), result)
    else:
        result = call(context, cls.forward, ctx, *given)
    context.grad = recorded
    if not any(needs):
        return result
    several = isinstance(result, tuple)
    outputs = list(result) if several else [result]
    tensors = [i for i, y in enumerate(outputs) if isinstance(y, SymTensor)]
    context.grad = False
    before = [heap.read(context, outputs[i]) for i in tensors]
    context.grad = True
    arguments = [heap.read(context, a) for a in given if isinstance(a, SymTensor)]
    moving = tuple([k for k, (i, v) in enumerate(zip(tensors, before, strict=True)) if is_differentiable(v.type)
                    and not any(outputs[i] is f for f in ctx.flat)])
    shadows = [Value(v.type, v.name) for v in before]
    fresh = [heap.new_tensor(context, s) for s in shadows]
    context.builder.history.update(shadows[k].id for k in moving)
    replaced = {id(outputs[i]): fresh[k] for k, i in enumerate(tensors)}
    ctx.saved = tuple([replaced.get(id(t), t) for t in ctx.saved])
    derived, captured, sizes = derivative(context, cls, ctx, given, before, shadows, moving, arguments)
    context.grad = recorded
    found = context.builder.emit("custom", [*before, *arguments, *captured], types=[v.type for v in before],
                                 call=derived, sizes=sizes)
    context.builder.history.update(found[k].id for k in moving)
    for i, v in zip(tensors, found, strict=True):
        outputs[i] = heap.new_tensor(context, v)
        outputs[i].storage.made = "" if hasattr(cls, "what") else cls.__name__ + "Backward"
    return tuple(outputs) if several else outputs[0]


def derivative(context: Context, cls: Any, ctx: SymFunctionCtx, given: list[Any], before: list[Value],
               shadows: list[Value], moving: tuple[int, ...], arguments: list[Value]
               ) -> tuple[CustomDerivative, tuple[Value, ...], tuple[Dim, ...]]:
    """`cls.backward`, evaluated for a call: its code, what that reads besides results and arguments, its sizes.

    Args:
        given: the arguments of `apply`, `arguments` the tensors among them.
        before: the tensor results, `shadows` what stands for them in `ctx`, `moving` those with a gradient.
    """
    backward = cls.backward
    what = getattr(cls, "what", f"`{cls.__name__}.backward`")
    once = bool(getattr(backward, "once", False))
    if once:
        backward = backward.__wrapped__
    cotangents = [Value(before[k].type, "g") for k in moving]
    block, entry = Block(), context.state.copy()
    known, written = dict(entry.values), _written(context)
    with context.block(block):
        gs: list[Any] = []
        for k, v in enumerate(before):
            if k in moving:
                context.builder.history.add(cotangents[moving.index(k)].id)
                gs.append(heap.new_tensor(context, cotangents[moving.index(k)]))
            else:
                assert isinstance(v.type, TensorType)
                zero = context.builder.one("full", value=0, shape=v.type.dims, dtype=v.type.dtype)
                gs.append(heap.new_tensor(context, zero))
        with autocast.suspended():  # torch's `backward` runs in no region, unless it enters one
            result = call(context, backward, ctx, *gs)
        results = list(result) if isinstance(result, tuple) else [result]
        while len(results) > len(given) and results[-1] is None:
            results.pop()
        if len(results) != len(given):
            raise UnsupportedCall(f"{what} returns {len(results)} gradients for {len(given)} "
                                  "arguments", context.users_span(), hint="return one gradient, or None, per argument")
        values: list[Value] = []
        reaches: list[int] = []
        at = -1
        for argument, g in zip(given, results, strict=True):
            at += isinstance(argument, SymTensor)
            if g is None or not isinstance(argument, SymTensor):
                continue
            if not isinstance(g, SymTensor):
                raise UnsupportedCall(f"{what} returns a gradient that may be None",
                                      context.users_span(), hint="return zeros for that case")
            reaches.append(at)
            values.append(heap.read(context, g))
    state, context.state = context.state, entry
    if any(n.op.startswith("random.") for n in walk(block)):
        raise UnsupportedCall(f"{what} draws random numbers", context.users_span(),
                              hint="draw them in `forward`, and save them")
    if written != _written(context) or any(key in known and _changed(known[key], value, cotangents[0])
                                           for key, value in state.values.items()):
        raise UnsupportedCall(f"{what} changes something outside it", context.users_span(),
                              hint="let it compute gradients only")
    nodes = [n for old in block.nodes for n in pure(old)]
    if any(effect(n.op, n.attrs) and n.op not in ("check", "pending") and not n.attrs.get("checked")
           for n in walk(block)):
        raise UnsupportedCall(f"{what} prints or calls Python",
                              context.users_span(), hint="let it compute gradients only")
    own = {*cotangents, *shadows, *arguments}
    captured = tuple([v for v in free_values(nodes, values) if v not in own])
    plain = [*cotangents, *shadows, *arguments, *captured]
    bound = {s for n in walk(Block(nodes=nodes)) for s in (*n.binds, *(s for b in n.blocks for s in b.binds))}
    used: dict[Symbol, None] = {}
    for types in ([v.type for v in plain], [v.type for n in walk(Block(nodes=nodes)) for v in n.outputs]):
        for t in types:
            used.update(dict.fromkeys(sorted(type_symbols(t) - bound, key=lambda s: s.number)))
    for n in walk(Block(nodes=nodes)):
        for a in n.attrs.values():
            used.update(dict.fromkeys(sorted(attr_symbols(a) - bound, key=lambda s: s.number)))
    closed = _Closed(used)
    params = tuple([closed.define(v) for v in plain])
    body = Block(params, [closed.node(n) for n in nodes], tuple([closed.value(v) for v in values]))
    found = CustomDerivative(cls.__name__, body, tuple([closed.fresh[s] for s in used]), len(before), len(arguments),
                             moving, tuple(reaches), once)
    return found, captured, tuple([dim(s) for s in used])


def _written(context: Context) -> tuple[int, ...]:
    """How many memories, attributes and containers outside the script it has written so far."""
    inputs = context.inputs
    return len(inputs.written), len(inputs.stores), len(inputs.changed), len(inputs.rewritten)


def _changed(before: Any, now: Any, first: Value) -> bool:
    """Whether a place in the state has been written since the value `first` was made."""
    return before is not now and (not isinstance(now, Value) or now.id > first.id)


class _Closed(Rename):
    """A copy that mentions symbols of its own."""

    def __init__(self, symbols: dict[Symbol, None]):
        super().__init__({})
        self.fresh = {s: Symbol(s.name, not_one=s.not_one) for s in symbols}
        self.sizes = {s: dim(new) for s, new in self.fresh.items()}

    def type(self, t: Type) -> Type:
        return map_dims(t, lambda d: substitute(d, self.sizes) if isinstance(d, Dim) else d)

    def define(self, v: Value) -> Value:
        new = self.values[v] = Value(self.type(v.type), v.name)
        return new

    def attrs(self, attrs: Any) -> Any:
        return {k: self.type(a) if k == "type" else map_attr(a, lambda d: substitute(d, self.sizes))
                for k, a in attrs.items()}

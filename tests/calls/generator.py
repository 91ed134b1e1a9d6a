"""Calls of every function in every form that its signature has: by position, keyword and NumPy's names, with `out`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ops.library.calls.forms import ALIASES, Form, forms
from tests.calls.arguments import TENSORS, USUAL, VARIANTS, own

#: namespace -> how its functions are written in a call
PREFIX = {"torch": "t", "torch.linalg": "t.linalg", "torch.special": "t.special", "torch.fft": "t.fft",
          "torch.nn.functional": "F"}
#: parameters that are not given: they are about what is not here, or have tests of their own
LEFT_OUT = {"layout", "memory_format", "names", "generator", "size_average", "reduce_", "out_dtype", "out", "implicit",
            "_stacklevel", "cls", "storage", "pin_memory"}
#: what an `out` is like, for a result: its dtype (None: the result's) and whether it is empty
OUTS = {"same": None, "empty": None, "double": "float64", "long": "int64"}


class Call(NamedTuple):
    """An expression; with `out`, a call of which the last argument is `out=...` of that kind."""

    text: str
    out: str = ""


def _texts(name: str, form: Form) -> dict[str, str] | None:
    """parameter -> text for one form; None where a needed one has none."""
    mine = own().get(name, own().get(name.rstrip("_"), {}))
    if mine is None:
        return None
    texts = {p: mine.get(p, USUAL.get(p, "")) for p in (*form.positional, *form.only)}
    if any(not texts[p] or p in LEFT_OUT for p in form.required - {"generator", "reduce"} if p in texts):
        return None
    return {p: text for p, text in texts.items() if text and p not in LEFT_OUT}


def _call(head: str, first: list[str], named: dict[str, str]) -> str:
    return f"{head}({', '.join([*first, *(f'{k}={v}' for k, v in named.items())])})"


def _form_calls(head: str, form: Form, texts: dict[str, str]) -> Iterator[Call]:
    needed = [p for p in form.positional if p in form.required]
    first = [texts[p] for p in needed]
    named = {p: texts[p] for p in form.only if p in form.required and p in texts}
    yield Call(_call(head, first, named))
    if form.starred:
        return
    yield Call(_call(head, [], {p: texts[p] for p in needed} | named))
    for p in (*form.positional, *form.only):
        if p in texts and p not in form.required:
            yield Call(_call(head, first, named | {p: texts[p]}))
    optional = [p for p in form.positional if p not in needed]
    if optional and all(p in texts for p in optional):
        yield Call(_call(head, first + [texts[p] for p in optional], named))
    if form.aliases:
        for p, names in ALIASES.items():
            if p not in texts:
                continue
            rest = {q: texts[q] for q in needed if q != p} | named
            for alias in names:
                yield Call(_call(head, [], rest | {alias: texts[p]}))
            if p == "dim":
                yield Call(_call(head, first, named | {"axis": texts[p], "dim": texts[p]}))
    if "out" in form.only:
        for out in OUTS:
            yield Call(_call(head, first, named), out)
    yield Call(_call(head, first, named | {"nonsense": "1"}))
    if needed:
        yield Call(_call(head, first[:-1], named))


def calls(space: str, name: str, of: Sequence[Form] | None = None) -> list[Call]:
    """The calls of a function of one of torch's namespaces, or of a method of tensors, in all its forms or some."""
    found: dict[Call, None] = {}
    for form in forms(space, name) if of is None else of:
        texts = _texts(name, form)
        if texts is None:
            continue
        if space == "Tensor":
            mine = own().get(name.rstrip("_") if name not in own() else name) or {}
            receiver = mine.get("input", mine.get("x", "x"))
            texts = {p: mine.get(p, text) for p, text in texts.items()}
            head = f"{receiver if receiver.isidentifier() else f'({receiver})'}.{name}"
        else:
            head = f"{PREFIX[space]}.{name}"
        found.update(dict.fromkeys(_form_calls(head, form, texts)))
        if space != "Tensor" and "input" in form.required and form.positional[0] == "input":
            for variant in VARIANTS:
                needed = [texts[p] for p in form.positional[1:] if p in form.required]
                named = {p: texts[p] for p in form.only if p in form.required and p in texts}
                found[Call(_call(head, [variant, *needed], named))] = None
    return list(found)


# --- evaluation, in either library ---------------------------------------------------------------------------------


def evaluate(call: Call, module: Any, tensors: dict[str, Any] | None = None) -> Any:
    """What a call of some tensors, or new ones, gives, or the exception that it raises; with `out`, that and whether it
    is what was given."""
    scope = fresh(module) if tensors is None else dict(tensors)
    scope |= {"t": module, "F": module.nn.functional}
    module.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(call.text, scope)
            if not call.out:
                return result
            out = made(result, call.out, module)
            scope["out"] = out
            given = eval(call.text[:-1] + ", out=out)", scope)
            return (given is out if not isinstance(given, tuple) else all(
                a is b for a, b in zip(given, out, strict=True)), given)
        except Exception as error:
            return error


def fresh(module: Any) -> dict[str, Any]:
    """The tensors that calls are about, new."""
    return {k: module.from_numpy(a.copy()) for k, a in TENSORS.items()}


#: what is said of a tensor with memory of its own
OWN = ("", False, "")


def in_memory(call: Call, module: Any, requires_grad: bool = False) -> list[tuple[str, bool, str]]:
    """Of each tensor that a call gives: which argument it is, whether it is a view, in whose memory it lies."""
    tensors = fresh(module)
    for x in tensors.values() if requires_grad else ():
        if x.ndim and x.dtype.is_floating_point:
            x.requires_grad_()
    ends = {k: (x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()) for k, x in tensors.items()}
    found = []

    def look(value: Any) -> None:
        if isinstance(value, (tuple, list)) and not _is_size(value):
            for item in value:
                look(item)
        elif hasattr(value, "detach"):
            place = value.data_ptr() if value.numel() else 0
            found.append((next((k for k, x in tensors.items() if x is value), ""), value._is_view(),
                          next((k for k, (low, high) in ends.items() if low <= place < high), "")))

    look(evaluate(call, module, tensors))
    return found


def differs(call: Call, module: Any) -> bool:
    """Whether the `out` of a call that gives something has another dtype than the result."""
    result = evaluate(Call(call.text), module)
    results = result if isinstance(result, tuple) else (result,)
    wanted = OUTS[call.out]
    return wanted is not None and all(hasattr(r, "detach") and not str(r.dtype).endswith(wanted) for r in results)


def made(result: Any, kind: str, module: Any) -> Any:
    """An `out` of a kind for a result."""
    if isinstance(result, (tuple, list)):
        return tuple(made(r, kind, module) for r in result)
    dtype = getattr(module, OUTS[kind] or str(result.dtype).rpartition(".")[2])
    return module.zeros((0,) if kind == "empty" else tuple(result.shape), dtype=dtype)


def observed(value: Any, values: bool = True) -> Any:
    """What is recorded of a result: dtype, shape and numbers of tensors, types of exceptions."""
    if isinstance(value, BaseException):
        return next(c.__name__ for c in type(value).__mro__ if c.__module__ == "builtins")
    if isinstance(value, (tuple, list)) and not _is_size(value):
        return ["list" if isinstance(value, list) else "tuple", [observed(v, values) for v in value]]
    if hasattr(value, "detach"):
        x = value.detach()
        numbers = _flat(x.tolist()) if values else []
        facts = [str(x.dtype).rpartition(".")[2], list(x.shape), numbers]
        return [*facts, True] if value.requires_grad else facts
    if isinstance(value, (bool, int, str)) or value is None:
        return [type(value).__name__, value if values or type(value) is not int else None]
    if isinstance(value, float):
        return ["float", _number(value)]
    return ["other", str(value).rpartition(".")[2]]


def _is_size(value: Any) -> bool:
    return type(value).__name__ == "Size"


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [leaf for v in value for leaf in _flat(v)]
    return [_number(value)]


def _number(value: Any) -> Any:
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def same(ours: Any, theirs: Any) -> bool:
    """Whether two observations are equal, numbers but for rounding."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and isinstance(theirs, float):
        return bool(np.isclose(ours, theirs, rtol=2e-3, atol=2e-5))
    return type(ours) is type(theirs) and bool(ours == theirs)

"""Functions by their signatures: any parameter by position or name, NumPy's names, `out`, words that do not exist."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import jitgrad
from jitgrad.ops.library.calls.forms import ALIASES, Form, forms, table
from tests.against.drafts import FLOATS, Draft
from tests.calls.arguments import TENSORS, USUAL, own
from tests.calls.generator import LEFT_OUT, PREFIX
from tests.calls.record import SPACES, UNCERTAIN

#: other arguments of parameters, beside those that `tests.calls` has
OTHERS = {
    "dim": ("0", "1", "-1", "(0, 1)", "None", "5", "0", "-2", "1.5", "'a'"), "keepdim": ("True", "False", "1"),
    "dtype": ("t.float64", "t.float32", "t.int64", "None", "t.float16", "t.bool", "'float32'"),
    "alpha": ("2", "0.5", "-1", "True"), "beta": ("2", "0.5"), "value": ("3", "0.5", "-2", "True"),
    "size": ("(2, 3)", "[3]", "()", "(0, 2)", "2", "-1"), "fill_value": ("2.5", "1", "True"),
    "device": ("'cpu'", "t.device('cpu')", "None"), "requires_grad": ("True", "False"),
    "generator": ("t.Generator()", "None"), "reduction": ("'sum'", "'mean'", "'none'", "'nonsense'"),
    "p": ("1.5", "2", "1", "float('inf')"), "k": ("2", "1", "0", "5"), "n": ("2", "1", "0"),
    "min": ("-0.5", "0", "None"),
    "max": ("0.5", "1", "None"), "rounding_mode": ("'floor'", "'trunc'", "None", "'up'"), "decimals": ("1", "0", "-1"),
    "exponent": ("2", "0.5", "y", "-1", "3"), "correction": ("0", "1", "2"), "unbiased": ("True", "False"),
    "other": ("y", "2", "0.5", "d", "j", "z", "s"), "index": ("i01", "i", "iv"), "offset": ("1", "0", "-1"),
    "diagonal": ("1", "0", "-1", "9"), "descending": ("True", "False"), "stable": ("True", "False"),
    "requires_grad_": ("True",), "interpolation": ("'lower'", "'linear'", "'nearest'", "'bad'"),
    "sizes": ("(3, 1)", "(-1, 1)"), "step": ("2", "1", "-1", "0.5"), "steps": ("4", "1", "0"), "chunks": ("2", "3")}


def _owners(space: str) -> Iterator[Any]:
    """Where a namespace's functions are: here and in PyTorch, where that is installed."""
    for module in (jitgrad, *([importlib.import_module("torch")] if importlib.util.find_spec("torch") else [])):
        owner: Any = module.Tensor if space == "Tensor" else module
        for part in () if space == "Tensor" else space.split(".")[1:]:
            owner = getattr(owner, part)
        yield owner


@functools.cache
def functions() -> tuple[tuple[str, str], ...]:
    """Namespace and name of every function that has arguments here."""
    return tuple((space, name) for space in SPACES for name in table()[space]
                 if own().get(name, own().get(name.rstrip("_"), {})) is not None and name not in UNCERTAIN
                 and not (name.endswith("_") and space != "Tensor")
                 and all(name in dir(of) for of in _owners(space)))


def draw(draft: Draft) -> None:
    """One call of one of them; its tensors are those of `tests.calls`, perhaps of other dtypes."""
    for _ in range(20):
        space, name = draft.pick(functions())
        form = draft.pick(forms(space, name) or (None,))
        if form is not None and (call := _call(draft, space, name, form)):
            break
    else:
        return
    names = [n for n in TENSORS if re.search(rf"\b{n}\b", re.sub(r"'.*?'|\b\w+=", "", call))]
    dtype = draft.dtype()
    for n in names:
        a = TENSORS[n]
        kind = {"b": "bool", "i": "int64", "u": "uint8"}.get(a.dtype.kind, str(a.dtype))
        if a.dtype.kind == "i":
            values, text = a.tolist(), "t.int64"
        else:
            values, text = a.tolist(), f"t.{dtype if draft.chance(0.2) and kind != 'bool' else kind}"
        shown = re.sub(r"\b(nan|inf)\b", r"float('\1')", str(values))
        grad = ", requires_grad=True" if text[2:] in FLOATS and draft.chance(0.5) else ""
        draft.lines.append(f"{n} = t.tensor({shown}, dtype=t.float64).to({text})"
                           + (".reshape(0, 3)" if n == "e" else "") + (".requires_grad_()" if grad else ""))
    draft.let(call)
    draft.results += names


def _call(draft: Draft, space: str, name: str, form: Form) -> str:
    mine = own().get(name, own().get(name.rstrip("_"), {})) or {}

    def text(p: str) -> str:
        usual = mine.get(p, USUAL.get(p, ""))
        if p in OTHERS and usual and draft.chance(0.5) and p not in mine:
            return draft.pick(OTHERS[p])
        return usual

    texts = {p: text(p) for p in (*form.positional, *form.only) if p not in LEFT_OUT}
    if any(not texts.get(p) for p in form.required):
        return ""
    head = f"{PREFIX[space]}.{name}" if space != "Tensor" else f"({mine.get('input', mine.get('x', 'x'))}).{name}"
    by_position = draft.rng.randint(0, len(form.positional))
    first: list[str] = []
    named: dict[str, str] = {}
    for n, p in enumerate(form.positional):
        if not texts.get(p) or (p not in form.required and draft.chance(0.5)):
            by_position = min(by_position, n)
            continue
        if n < by_position:
            first.append(texts[p])
        else:
            named[p] = texts[p]
    for p in form.only:
        if texts.get(p) and (p in form.required or draft.chance(0.4)):
            named[p] = texts[p]
    if "out" in form.only and draft.chance(0.15):
        named["out"] = draft.pick(("t.empty(0)", "t.zeros(2, 3)", "t.zeros(2, dtype=t.int64)",
                                   "t.zeros((), dtype=t.float64)", "None"))
    if form.aliases:
        named = {draft.pick(ALIASES[p]) if p in ALIASES and draft.chance(0.4) else p: v for p, v in named.items()}
    if draft.chance(0.03):
        named["nonsense"] = "1"
    return f"{head}({', '.join([*first, *(f'{k}={v}' for k, v in named.items())])})"

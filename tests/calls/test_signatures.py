"""The parameters of every public function are torch's."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import jitgrad
from jitgrad.ops.library.calls.forms import ALIASES, Form, forms, table
from jitgrad.ops.library.calls.kinds import refusal
from jitgrad.ops.library.keywords import accepted, complete
from tests.calls.record import SPACES, has

#: what torch's functions take and ours do not, and why
LEFT_OUT = {
    "out_dtype": "products of half types that CUDA alone adds up in float32",
    "implicit": "torch's own use of `expand`", "cls": "the older forms of `Tensor.new`", "storage": "likewise",
    "**kwargs": "no name"}
#: functions that are plain Python here, which scripts inline: they take torch's own names only
PLAIN = {"torch.nn.functional": {"cosine_similarity", "linear", "pairwise_distance"},
         "torch": {"spmm"}, "Tensor": {"requires_grad_", "stride", "new"}}
FUNCTIONS = [(space, name) for space in SPACES for name in table()[space] if has(jitgrad, space, name)]


def function(space: str, name: str) -> Any:
    owner: Any = jitgrad.Tensor if space == "Tensor" else jitgrad
    for part in () if space == "Tensor" else space.split(".")[1:]:
        owner = getattr(owner, part)
    return getattr(owner, name)


def keywords(fn: Any) -> tuple[frozenset[str], bool]:
    """The names that a function takes, and whether it takes any."""
    if hasattr(fn, "__completed__"):
        return accepted(fn), False
    parameters = inspect.signature(fn).parameters.values()
    return frozenset(p.name for p in parameters), any(p.kind is p.VAR_KEYWORD for p in parameters)


@pytest.mark.parametrize(("space", "name"), FUNCTIONS, ids=[f"{s}.{n}" for s, n in FUNCTIONS])
def test_every_keyword_is_taken(space: str, name: str) -> None:
    ours, any_ = keywords(function(space, name))
    wanted: set[str] = set()
    for form in forms(space, name):
        own = {*form.positional, *form.only}
        aliases = {a for p in own for a in ALIASES.get(p, ())}
        wanted |= own | (aliases if form.aliases and name not in PLAIN.get(space, ()) else set())
    if name in PLAIN.get(space, ()) or any_:
        return
    assert wanted - ours - LEFT_OUT.keys() == set()


def test_the_table_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the table is PyTorch 2.13's")
    from tools.torch_signatures import signatures

    found = [line for line in signatures() if not line.startswith("#")]
    kept = [re.sub("[!?~^]+=", "=", line) for space in table() for line in (f"[{space}]", *table()[space].values())]
    assert found == kept


def test_forms() -> None:
    form, = [f for f in forms("torch", "sum") if "dim" in f.positional]
    assert form.positional == ("input", "dim", "keepdim")
    assert form.only == ("dtype", "out")
    assert form.required == {"input", "dim"}
    assert form.aliases
    assert not form.exact
    assert [form.named(k) for k in ("axis", "x1", "dim", "dtype")] == ["dim", "input", "dim", "dtype"]
    assert all(f.exact for f in forms("torch", "gather"))
    assert not Form("input, p=", False).aliases
    assert forms("torch", "there_is_no_such_function") == ()


def test_types() -> None:
    form = Form("input:Tn, dim:iIo=, *, keepdim:b=, out:To!=", True)
    assert form.types == {"input": "Tn", "dim": "iIo", "keepdim": "b", "out": "To"}
    assert form.exact
    x, few = jitgrad.ones(2), jitgrad.tensor(1)
    for given in ({"input": x}, {"input": 2.5}, {"input": True, "dim": 1}, {"input": x, "dim": (0, few)}, {"dim": few},
                  {"dim": None}, {"dim": ()}, {"keepdim": False}, {"out": object()}, {"unknown": "a"}):
        assert refusal("f", [(form, given)]) is None
    for given, words in (({"input": "a"}, "'input' (position 1) must be Tensor, not str"),
                         ({"dim": True}, "'dim' (position 2) must be tuple of ints, not bool"),
                         ({"dim": (0, 1.5)}, "'dim' (position 2) must be tuple of ints, not tuple"),
                         ({"dim": x}, "'dim' (position 2) must be tuple of ints, not Tensor"),
                         ({"input": x, "keepdim": 1}, "'keepdim' must be bool, not int")):
        assert str(refusal("f", [(form, given)])) == f"f(): argument {words}"
    assert refusal("f", [(form, {"dim": "a"}), (Form("dim:S", True), {"dim": "a"})]) is None
    assert refusal("f", []) is None


def test_what_a_module_imports_is_not_completed() -> None:
    from jitgrad.ops.library.sizes import maximum

    namespace: dict[str, Any] = {"maximum": maximum, "add": jitgrad.add}
    before = dict(namespace)
    complete(namespace)
    assert namespace == before

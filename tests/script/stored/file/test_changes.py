"""Programs that look at and change what they are given, from files and from the disk cache: gradients of arguments,
containers of the caller, results that the run chooses.
"""

from __future__ import annotations

import io
import json

import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.jit import load, save
from jitgrad.serialization import LoadError
from tests.script.frontend.agree import compare, run, t
from tests.script.stored.file.test_damaged import members, pack


def gradient_of_an_argument(x, k):
    if x.grad is None:
        x.grad = torch.full_like(x, 2.0)
    x.grad.add_(k)
    return x.grad * 2


def gradients_of_items(xs, k):
    loss = sum((x * x).sum() for x in xs) * k
    if k > 1:
        loss.backward()
    found = xs[0].grad
    xs[1].grad = None
    return -1 if found is None else found + 1


def a_chosen_result(x, k):
    ys = [x * 2]
    zs = (x, k) if k > 1 else ys
    return zs, x if k > 2 else None, {"a": x} if k > 2 else [k]


def appended(x, out, k):
    for i in range(k):
        out.append(x * i)
    return len(out)


def rearranged(xs, k):
    if k > 1:
        xs.reverse()
    xs[0] = xs[1] * k
    return xs


def keys_by_the_run(x, d, k):
    counts = {}
    for i in range(k):
        counts[i % 3] = counts.get(i % 3, 0) + i
    if k > 2:
        d["new"] = x
    d["a"] = x * k
    return counts


def changes_before_an_exception(x, out, k):
    out.append(x * 2)
    x.grad = None
    if k > 1:
        raise ValueError(f"{k} is too many")
    return x


KS = (0, 1, 2, 3, 5)
CALLS = [
    (gradient_of_an_argument, lambda k: (torch.ones(3, requires_grad=True), k)),
    (gradients_of_items, lambda k: ([torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)], k)),
    (a_chosen_result, lambda k: (t(3).requires_grad_(), k)),
    (appended, lambda k: (t(3).requires_grad_(), [], k)),
    (rearranged, lambda k: ([t(3), t(3, seed=1)], k)),
    (keys_by_the_run, lambda k: (t(0), {"a": t(2)}, k)),
    (changes_before_an_exception, lambda k: (t(1).requires_grad_(), [], k)),
]
ids = [f.__name__ for f, _ in CALLS]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=ids)
def test_from_files(function, arguments, interpret):
    file = io.BytesIO()
    with config.override(interpret=interpret):
        save(torch.script(function), file, example_inputs=[arguments(k) for k in KS])
        file.seek(0)
        loaded = load(file)
        for k in KS:
            eager = run(function, arguments(k), fresh=False)
            compare(eager, run(loaded, arguments(k), fresh=False), (function.__name__, k), True)
        again = io.BytesIO()
        save(loaded, again)
        again.seek(0)
        compare(run(function, arguments(3), fresh=False), run(load(again), arguments(3), fresh=False), "again", True)


@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=ids)
def test_from_the_disk(function, arguments, tmp_path):
    with config.override(cache=str(tmp_path / "cache")):
        for process in range(2):
            scripted = torch.script(function)
            for k in KS:
                compare(run(function, arguments(k), fresh=False), run(scripted, arguments(k), fresh=False),
                        (function.__name__, k), True)
            info = scripted.cache_info()
            assert (info.disk_hits > 0) is (process == 1)
            assert not process or info.misses == info.disk_hits


def test_a_list_of_the_loaded_module_grows():
    history = [torch.zeros(3)]

    def noted(x):
        history.append(x * 2)
        return x

    file = io.BytesIO()
    save(torch.script(noted), file, example_inputs=(torch.ones(3),))
    file.seek(0)
    loaded = load(file)
    loaded(torch.ones(3))
    assert len(loaded.history) == 2
    assert loaded.history[-1].tolist() == [2.0] * 3
    assert len(history) == 1


def changed(change):
    """A saved `appended`, with another program."""
    file = io.BytesIO()
    save(torch.script(changes_before_an_exception), file, example_inputs=(t(2).requires_grad_(), [], 1))
    parts = members(file.getvalue())
    program = json.loads(parts["program.json"])
    change(program["programs"][0])
    return pack({**parts, "program.json": json.dumps(program).encode()})


def test_damaged_places():
    def other(place):
        def change(program):
            program["stores"][0][0] = place
        return change

    load(changed(lambda program: None))
    for place, match in (({"content": ["arg", "x"]}, "content of what is no container"),
                         ({"tail": ["arg", "k"]}, "content of what is no container"),
                         ({"content": ["root"]}, "content of what is no container"),
                         ({"front": ["arg", "out"]}, "where something is stored"),
                         (["attr", ["arg", "x"], "data"], "a path to an attribute of an argument"),
                         (["attr", ["arg", "out"], "grad"], "a gradient of what is no tensor"),
                         (["attr", ["attr", ["arg", "x"], "grad"], "grad"], "a path to an attribute")):
        with pytest.raises(LoadError, match=match):
            load(changed(other(place)))


def test_damaged_choices():
    def other(result):
        def change(program):
            program["result"] = result
        return change

    for result, match in ((["one of", 0, [["nothing"]]], "which one it is"),
                          (["one of", 99, [["nothing"]]], "is not a number"),
                          (["pairs", ["output", 77], ["output", 0], -1], "is not a number"),
                          (["two of", 0, []], "a result of an unknown kind")):
        with pytest.raises(LoadError, match=match):
            load(changed(other(result)))

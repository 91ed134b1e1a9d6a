"""Forward hooks run inside scripts, come and go without stale code; no backward hook is lost."""

from __future__ import annotations

import jitgrad
from jitgrad import nn


def test_forward_hooks_of_a_scripted_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    scripted = jitgrad.script(model)
    x = jitgrad.ones(2, 3)
    plain = model(x)
    assert jitgrad.allclose(scripted(x), plain)
    handles = [model[0].register_forward_hook(lambda module, args, result: result * 2),
               model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))]
    hooked = model(x)
    assert not jitgrad.allclose(hooked, plain)
    assert jitgrad.allclose(scripted(x), hooked)
    for handle in handles:
        handle.remove()
    assert jitgrad.allclose(scripted(x), plain)


def test_a_hook_that_stores_by_the_name_of_an_operator():
    model, seen, lengths = nn.Linear(3, 4), {}, []
    model.register_forward_hook(lambda module, args, result: seen.__setitem__("mean", result.mean()))

    def f(x):
        y = model(x)
        rows = [y, x]
        rows.__setitem__(0, y * 2)
        rows.__delitem__(1)
        lengths.append(rows.__len__())
        return rows.__getitem__(0), seen.__contains__("mean")

    x = jitgrad.ones(2, 3)
    plain = f(x)
    mean = seen.pop("mean")
    scripted = jitgrad.script(f)(x)
    assert jitgrad.allclose(scripted[0], plain[0])
    assert jitgrad.allclose(seen["mean"], mean)
    assert scripted[1] is plain[1] is True
    assert lengths == [1, 1]

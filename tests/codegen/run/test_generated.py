"""Generated Python: long texts are compiled once for all processes."""

import builtins
import re

import jitgrad
from jitgrad import config, nn
from jitgrad.codegen.run import generated


def test_the_code_of_a_long_text_is_kept_on_disk(tmp_path, monkeypatch):
    text = "".join(f"x = {k}\n" for k in range(generated.LONG))
    with config.override(cache=str(tmp_path)):
        for _ in range(2):
            scope = {}
            exec(generated.code(text, "<long>"), scope)
            assert scope["x"] == generated.LONG - 1
            monkeypatch.setattr(builtins, "compile", None)  # not the second time
    monkeypatch.undo()


def test_generated_texts_are_those_of_another_process(monkeypatch):
    """An address in a text would hide what is kept of it from all others."""
    texts = []
    code = generated.code
    monkeypatch.setattr(generated, "code", lambda text, title: texts.append(text) or code(text, title))
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(20)])
    optimizer = jitgrad.optim.AdamW(model.parameters())

    @jitgrad.script
    def step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step(jitgrad.ones(2, 3))
    assert max(map(len, texts)) > generated.LONG
    assert not [n for text in texts for n in re.findall(r"\b\d{9,}\b", text)]

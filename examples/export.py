"""Train a small recurrent classifier, save the scripted model, load it without its class, and export it to ONNX.

    python examples/export.py [--out DIR]

The loaded model continues the training where it stopped. The ONNX part needs `pip install jitgrad[onnx]` and
onnxruntime; without them it is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F


class Counter(nn.Module):
    """Says which of two symbols is more frequent in a sequence of any length."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.words = nn.Embedding(2, width)
        self.step, self.head = nn.Linear(2 * width, width), nn.Linear(width, 2)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        h = jitgrad.zeros(ids.shape[0], self.head.in_features)
        for t in range(ids.shape[1]):
            h = jitgrad.tanh(self.step(jitgrad.cat([x[:, t], h], dim=1)))
        return self.head(h)


def batch(n: int, length: int) -> tuple[Any, Any]:
    """Random sequences and their answers; `length` is odd, so that there is one."""
    ids = jitgrad.randint(0, 2, (n, length))
    return ids, (ids.sum(dim=1) > length // 2).long()


def train(model: Any, steps: int) -> float:
    """The last loss of `steps` steps of Adam."""
    optimizer = jitgrad.optim.Adam(model.parameters(), lr=1e-2)
    loss = jitgrad.zeros(())
    for step in range(steps):
        ids, wanted = batch(64, (5, 7, 9)[step % 3])
        loss = F.cross_entropy(model(ids), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    """Run the three parts and print what they give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="where the files go")
    out = parser.parse_args().out
    jitgrad.manual_seed(0)

    model = jitgrad.script(Counter())
    print(f"trained:          loss {train(model, 150):.4f}")
    model.save(out / "counter.jg")

    loaded = jitgrad.jit.load(out / "counter.jg")
    print(f"loaded, trained:  loss {train(loaded, 50):.4f}, {sum(p.numel() for p in loaded.parameters())} parameters")

    if not all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        print("onnx or onnxruntime is not installed")
        return
    import onnxruntime

    ids, _ = batch(4, 7)
    loaded.export_onnx(out / "counter.onnx", ids, input_names=["ids"], output_names=["scores"])
    session = onnxruntime.InferenceSession(str(out / "counter.onnx"))
    worst = 0.0
    for n, length in ((4, 7), (9, 15), (2, 3)):
        ids, _ = batch(n, length)
        with jitgrad.no_grad():
            wanted = loaded(ids)
        (scores,) = session.run(None, {"ids": ids.numpy()})
        worst = max(worst, float(np.abs(scores - wanted.numpy()).max()))
    print(f"in onnxruntime:   differs by at most {worst:.1e} from the loaded model")


if __name__ == "__main__":
    main()

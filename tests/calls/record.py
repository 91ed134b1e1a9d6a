"""Records what PyTorch answers to the generated calls, in `recorded.json`, and where the results lie, in `memory.json`.

    python -m tests.calls.record          # where PyTorch is installed
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from jitgrad.ops.library.calls.forms import table
from tests.calls.generator import OWN, Call, calls, evaluate, in_memory, observed

FILE = Path(__file__).with_name("recorded.json")
#: key -> call -> what `in_memory` says, where a result is no tensor with memory of its own
MEMORY = Path(__file__).with_name("memory.json")
SPACES = ("torch", "torch.linalg", "torch.special", "torch.nn.functional", "Tensor")
#: functions whose numbers are drawn, whatever was in memory, or the machine's, or of which LAPACKs choose the signs
UNCERTAIN = {"bernoulli", "bernoulli_", "binomial", "cauchy_", "dropout", "dropout1d", "dropout2d", "dropout3d", "eig",
             "empty", "empty_like", "empty_permuted", "empty_strided", "exponential_", "geometric_", "get_num_threads",
             "gumbel_softmax", "log_normal_", "multinomial", "new_empty", "new_empty_strided", "normal", "normal_",
             "pca_lowrank", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
             "random_", "randperm", "rrelu", "rrelu_", "svd", "svd_lowrank", "uniform_"}


def digest(found: list[Call]) -> str:
    """A text that tells one list of calls from others."""
    return hashlib.sha256(repr([tuple(c) for c in found]).encode()).hexdigest()[:12]


def answers(found: list[Call], module: Any, name: str) -> list[Any]:
    """What a library answers to calls of a function."""
    return [observed(evaluate(c, module), name not in UNCERTAIN) for c in found]


def has(module: Any, space: str, name: str) -> bool:
    """Whether a library has a function."""
    owner = module.Tensor if space == "Tensor" else module
    for part in () if space == "Tensor" else space.split(".")[1:]:
        owner = getattr(owner, part)
    return hasattr(owner, name)


def main() -> None:
    """Write the file."""
    import torch

    import jitgrad

    lines, places = [], []
    for space in SPACES:
        for name in table()[space]:
            found = calls(space, name)
            if not found or not has(torch, space, name) or not has(jitgrad, space, name):
                continue
            given = answers(found, torch, name)
            if all(isinstance(a, str) for a in given):
                print("no call of", space, name, "works:", found[0].text, repr(evaluate(found[0], torch))[:200])
            different = list({json.dumps(a): a for a in given}.values())
            texts = [json.dumps(a) for a in different]
            uses = [texts.index(json.dumps(a)) for a in given]
            lines.append(json.dumps(f"{space}:{name}") + ": " + json.dumps(
                {"calls": digest(found), "answers": different, "uses": uses}, separators=(",", ":")))
            lie = {call.text: in_memory(call, torch) for call in found if not call.out}
            lie = {text: known for text, known in lie.items() if any(tuple(k) != OWN for k in known)}
            if lie:
                places.append(json.dumps(f"{space}:{name}") + ": " + json.dumps(lie, separators=(",", ":")))
    MEMORY.write_text("{\n" + ",\n".join(places) + "\n}\n")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

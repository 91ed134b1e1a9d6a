"""Checkpoints that PyTorch wrote, small enough to be kept: `objects(torch)` says what is in them.

    python -m tests.serialization.record      # with PyTorch: writes the files that are missing
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def net(torch: Any) -> Any:
    """A module whose parameters a formula says."""
    made = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Conv2d(2, 1, 2))
    with torch.no_grad():
        for k, p in enumerate(made.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.25 - k)
    return made


def stepped(torch: Any) -> Any:
    """An optimizer after a step."""
    made = net(torch)
    groups = [{"params": made[0].parameters(), "lr": 0.5}, {"params": made[1].parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.1)
    hidden = made[0](torch.arange(12.0).reshape(4, 3)).square()
    made[1](hidden).exp().sum().backward()
    optimizer.step()
    return optimizer


def tensors(torch: Any) -> dict[str, Any]:
    """Tensors of every dtype, views and shared storages among them."""
    base = torch.arange(24.0)
    six = torch.arange(6).reshape(2, 3)
    all_of = {d: (six % 2 if d == "bool" else six).to(getattr(torch, d)) for d in DTYPES}
    return {**all_of, "number": torch.tensor(3), "empty": torch.zeros(0, 4), "base": base, "again": base,
            "turned": base.view(4, 6).t()[1:, ::2], "part": base[5:7], "expanded": base[:3].expand(2, 3),
            "leaf": torch.ones(2, requires_grad=True), "parameter": torch.nn.Parameter(base[:2]),
            "frozen": torch.nn.Parameter(torch.ones(1), requires_grad=False)}


def containers(torch: Any) -> dict[str, Any]:
    """What checkpoints hold beside tensors."""
    return {"none": None, "int": 3, "large": 1 << 80, "negative": -5, "float": 0.25, "text": "é", "bytes": b"\0\xff",
            "bool": True, "list": [1, [2, (3, 4, 5, 6)], []], "tuple": ((), (1,), (1, 2)), "set": {1, 2},
            "frozen": frozenset({3}), 7: "key", (1, "a"): "key", "ordered": OrderedDict(b=1, a=2),
            "counter": Counter("aab"), "array": bytearray(b"ab"), "complex": 1 + 2j, "dtype": torch.float16,
            "device": torch.device("cpu"), "size": torch.Size([2, 3])}


def objects(torch: Any) -> dict[str, Any]:
    """By the name of the file: `legacy` ones are written in the form of before 1.6."""
    return {"state": net(torch).state_dict(), "tensors": tensors(torch), "containers": containers(torch),
            "optimizer": stepped(torch).state_dict(), "legacy_tensors": tensors(torch),
            "legacy_containers": containers(torch)}


def main() -> None:
    import torch

    FOLDER.mkdir(exist_ok=True)
    for name, obj in objects(torch).items():
        path = FOLDER / f"{name}.pt"
        if not path.exists():
            torch.save(obj, path, _use_new_zipfile_serialization=not name.startswith("legacy"))


if __name__ == "__main__":
    main()

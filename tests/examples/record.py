"""The losses of the programs in `examples/programs/`, as PyTorch computes them.

    python -m tests.examples.record      # with PyTorch: writes recorded.json
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.examples.files import PROGRAMS, losses, program, start

RECORDED = Path(__file__).parent / "recorded.json"


def main() -> None:
    import torch

    torch.set_num_threads(1)
    found = {}
    for name in PROGRAMS:
        source = program(f"programs/{name}", "torch")
        found[name] = losses(source, start(torch, source), source.step)
        print(name, found[name][0], found[name][-1])
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in found.items()]
    RECORDED.write_text("{" + ",\n ".join(lines) + "}\n")


if __name__ == "__main__":
    main()

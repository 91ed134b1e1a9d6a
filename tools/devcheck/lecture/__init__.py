"""The lecture's programs, written for PyTorch, and what PyTorch 2.13 returned for them (`reference.json`)."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np

REFERENCE: dict[str, list[float]] = json.loads(resources.files(__package__).joinpath("reference.json").read_text())
#: programs that need more than a script has yet
LATER = frozenset({"whole_step_scripted"})
#: programs that share memory with NumPy: their arrays stay on the CPU
SHARED = frozenset({"tensor_basics"})


class OnDevice:
    """A torch-like module whose tensors are made on a device, `from_numpy`'s too; `made` has the latter."""

    def __init__(self, torch: Any, device: str):
        self._torch, self._device = torch, device
        self.made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """The array's numbers on the device."""
        self.made.append(self._torch.from_numpy(array).to(self._device))
        return self.made[-1]


def run(program: Any, torch: Any, device: str) -> list[float]:
    """A program's numbers, its tensors on a device."""
    with torch.device(device):
        found: list[float] = program(torch if program.__name__ in SHARED else OnDevice(torch, device))
    return found


__all__ = ["LATER", "REFERENCE", "SHARED", "OnDevice", "run"]

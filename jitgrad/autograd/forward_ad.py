"""Dual numbers: torch.autograd.forward_ad's names.

    with dual_level():
        y = f(make_dual(x, v))
        derivative = unpack_dual(y).tangent

A dual tensor is a differentiable stand-in of its primal; `unpack_dual` asks the tape for the derivative in the
direction of all duals of the level, as `func.jvp` does. What is computed under `no_grad` therefore has no tangent.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from jitgrad.eager.tensor import Tensor
from jitgrad.func.transforms import Level, push_through

_levels: list[_Duals] = []


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent (None where it has none)."""

    primal: Tensor
    tangent: Tensor | None


class _Duals:
    """The duals of a level."""

    def __init__(self) -> None:
        self.level = Level((), "make_dual")
        self.tangents: list[Tensor] = []


def enter_dual_level() -> int:
    """Begin a level; its number. RuntimeError inside another one, as in torch."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append(_Duals())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: tangents are gone."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level but no level is active")
    _levels.pop()


class dual_level:
    """`with dual_level():` around forward-mode computations."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A dual tensor: `tensor`, moving in the direction `tangent` (same shape and dtype)."""
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    if not tensor.dtype.is_floating_point:
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(f"Expected tangent to have the same shape as the primal, got {tuple(tangent.shape)} and "
                           f"{tuple(tensor.shape)}")
    duals = _levels[-1]
    duals.tangents.append(tangent)
    return duals.level.add(tensor, "make_dual")


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of a dual tensor, or of what was computed from duals."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    duals = _levels[-1]
    tangent: Any = push_through(duals.level, [tensor], duals.tangents)[0] if duals.tangents else None
    return UnpackedDualTensor(duals.level.leave(tensor), tangent)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

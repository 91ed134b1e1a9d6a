"""Devices. The CPU is `device("cpu")`."""

from __future__ import annotations

KINDS = ("cpu", "cuda")


class device:
    """Where a tensor's memory is: `device("cpu")`, `device("cuda", 0)`, `device("cuda:0")`.

    Raises:
        RuntimeError: an unknown kind of device, or an index given twice.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: str | device | int, index: int | None = None):
        if not isinstance(type, str):
            if isinstance(type, int):
                self.type, self.index = "cuda", type
            else:
                self.type, self.index = type.type, type.index
            return
        kind, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: "
                                   f"{type}")
            if not number.isdecimal():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        if kind not in KINDS:
            raise RuntimeError(f"Expected one of {', '.join(KINDS)} device type at start of device string: {type}")
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return (device, (self.type, self.index))


CPU = device("cpu")


def resolve(where: device | str | int | None) -> device:
    """The device that an argument `device=` names, the CPU for None. RuntimeError for one that cannot be used."""
    if where is None:
        return CPU
    found = where if isinstance(where, device) else device(where)
    if found.type != "cpu":
        raise RuntimeError(f"device '{found}' is not available: this version computes on the CPU only")
    return found

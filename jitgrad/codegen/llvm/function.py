"""The text of one LLVM function under construction: lines, labels, variables."""

from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V


class Function:
    """Two pieces of code that follow each other: `entry`, which runs once, and `code`, which is printed to."""

    def __init__(self) -> None:
        self.entry, self.code = Native(), Native()
        self.code.count = self.code.labels = 1 << 24  # names of the two never meet
        self.allocas: list[str] = []
        self.labels = 0

    def line(self, text: str) -> None:
        self.code.line(text)

    def label(self, prefix: str) -> str:
        self.labels += 1
        return f"{prefix}.{self.labels}"

    def start(self, label: str) -> None:
        self.code.lines.append(f"{label}:")

    def const(self, value: int) -> V:
        return V(self.code, str(int(value)), "i64", 1)

    def pointer(self, name: str) -> V:
        return V(self.code, name, "ptr", 1)

    def here(self, v: V) -> V:
        """The same value, its next operation printed at the current place."""
        return V(self.code, v.name, v.elem, v.lanes)

    def variable(self, llvm_type: str) -> str:
        name = f"%var{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca {llvm_type}")
        return name

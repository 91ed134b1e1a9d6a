"""What functions of tiles are written with: vectors, and sums in registers (`gemm.py`, `convolution_tiles.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V, iota

ELEMENTS = {"float32": ("float", 4), "float64": ("double", 8)}
#: bytes of a line of the cache, at which memory of a function's own begins
LINE = 64


class Tiles:
    """Functions of one element type, for a machine; each writes itself to `texts`."""

    def __init__(self, name: str, vector_bytes: int, has_fma: bool, has_avx512: bool):
        self.name = name
        self.elem, self.size = ELEMENTS[name]
        self.lanes = vector_bytes // self.size
        self.machine = has_fma, has_avx512
        self.texts: list[str] = []
        self.declares: dict[str, str] = {}

    def _function(self, head: str, parameters: Sequence[str]) -> tuple[Native, list[V]]:
        """A function to be written, and its parameters."""
        f = Native(*self.machine)
        self._head, self._parameters = head, parameters
        return f, [V(f, p.split()[1], p.split()[0], 1) for p in parameters]

    def _finish(self, f: Native, attributes: str = "") -> None:
        f.leave()
        self.texts += f.defined(self._head, self._parameters, attributes)
        self.declares.update(f.declares)

    def _room(self, f: Native, count: int) -> V:
        """Memory of the function's own for so many elements, from the beginning of a line."""
        memory = f.room(count + LINE // self.size, self.elem).cast("ptrtoint", "i64")
        return ((memory + (LINE - 1)) & -LINE).cast("inttoptr", "ptr")

    def _read(self, f: Native, pointer: V, index: V | int) -> V:
        """A vector, however it is aligned."""
        at = f.at(pointer, index, self.elem)
        return f.emit(f"load <{self.lanes} x {self.elem}>, ptr {at.name}, align {self.size}", self.elem, self.lanes)

    def _read_some(self, f: Native, pointer: V, index: V | int, mask: V) -> V:
        """A vector's lanes in the mask; zeros."""
        at, kind = f.at(pointer, index, self.elem), f"<{self.lanes} x {self.elem}>"
        short = {"float": "f32", "double": "f64"}[self.elem]
        name = f"llvm.masked.load.v{self.lanes}{short}.p0"
        f.declares[name] = f"declare {kind} @{name}(ptr, i32, {mask.type}, {kind})"
        return f.emit(f"call {kind} @{name}(ptr {at.name}, i32 {self.size}, {mask.type} {mask.name}, {kind} "
                      f"zeroinitializer)", self.elem, self.lanes)

    def _write(self, f: Native, value: V, pointer: V, index: V | int) -> None:
        at = f.at(pointer, index, self.elem)
        f.line(f"store {value.type} {value.name}, ptr {at.name}, align {self.size}")

    def _write_some(self, f: Native, value: V, pointer: V, index: V | int, mask: V) -> None:
        """A vector's lanes in the mask."""
        at = f.at(pointer, index, self.elem)
        name = f"llvm.masked.store.v{self.lanes}f{8 * self.size}.p0"
        f.declares[name] = f"declare void @{name}({value.type}, ptr, i32, {mask.type})"
        f.line(f"call void @{name}({value.type} {value.name}, ptr {at.name}, i32 {self.size}, {mask.type} {mask.name})")

    def _ahead(self, f: Native, pointer: V, index: V | int) -> None:
        """Ask the caches for what will be written."""
        f.declares["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        f.line(f"call void @llvm.prefetch.p0(ptr {f.at(pointer, index, self.elem).name}, i32 1, i32 3, i32 1)")

    def _first(self, f: Native, count: V) -> V:
        """The mask of so many lanes."""
        return iota(f, "i64", self.lanes) < count.splat(self.lanes)

    def _tiles(self, f: Native, count: V, sizes: Sequence[int]) -> Iterator[tuple[int, V]]:
        """Print a loop for each size of a tile, the larger ones first."""
        done = f.variable(f.number(0))
        for size in sizes:
            with f.loop() as finished:
                first = done.value
                with f.when(first + size > count):
                    finished()
                yield size, first
                done.value = first + size


def parts(whole: V, part: V | int) -> V:
    """How many parts a whole has, the last one perhaps smaller."""
    return (whole + part - 1).op("udiv", part)

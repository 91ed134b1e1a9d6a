"""Matrices transposed in tiles that registers hold: what one by one would touch a line of the cache for each element.

    jg_transpose_32(target, source, rows, columns, to, by)     # elements of 32 bits, or 64
    # target[r * to + c] = source[r + c * by]
"""

from collections.abc import Sequence

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

LIBRARY = Library()
#: rows and columns of a tile
TILE = 8


def _swapped(f: Native, rows: Sequence[V]) -> list[V]:
    """A square of lanes transposed: off the diagonal blocks change places, then those in each block, and so on."""
    result, half = list(rows), len(rows) // 2
    lanes = range(len(rows))

    def picked(a: V, b: V, picks: Sequence[int]) -> V:
        numbers = ", ".join(f"i32 {p}" for p in picks)
        return f.emit(f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{len(rows)} x i32> <{numbers}>", a.elem,
                      a.lanes)

    while half:
        for k in lanes:
            if not k & half:
                a, b = result[k], result[k + half]
                result[k] = picked(a, b, [j if not j & half else j - half + len(rows) for j in lanes])
                result[k + half] = picked(a, b, [j + half if not j & half else j + len(rows) for j in lanes])
        half //= 2
    return result


def _enter(bits: int) -> None:
    elem = f"i{bits}"

    def transpose(f: Native, target: V, source: V, rows: V, columns: V, to: V, by: V) -> None:
        whole_rows, whole_columns = rows & -TILE, columns & -TILE

        def one_by_one(row: V, column: V) -> None:
            f.store(f.load(source, row + column * by, elem), target, row * to + column)

        with f.each(whole_columns.lshr(3)) as k:
            column = k.shl(3)
            with f.each(whole_rows.lshr(3)) as n:
                row = n.shl(3)
                tile = [f.read(elem, f.at(source, row + (column + j) * by, elem).name, TILE, bits // 8)
                        for j in range(TILE)]
                for j, v in enumerate(_swapped(f, tile)):
                    f.write(v, f.at(target, (row + j) * to + column, elem).name, bits // 8)
            with f.each(rows - whole_rows) as n, f.each(TILE) as c:
                one_by_one(whole_rows + n, column + c)
        with f.each(columns - whole_columns) as k, f.each(rows) as row:
            one_by_one(row, whole_columns + k)

    LIBRARY.function("void", f"jg_transpose_{bits}", target="ptr", source="ptr",
                     **dict.fromkeys(("rows", "columns", "to", "by"), "i64"))(transpose)


for _bits in (32, 64):
    _enter(_bits)

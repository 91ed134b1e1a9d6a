"""The lines of a CUDA function: its parameters, the indices that a thread walks, and the addresses of operands at them.

E, `Addresses.width`, is as many elements as fill 16 bytes of the narrowest operand.
Names: `n<axis>` sizes, `i<axis>` indices, `p<k>` operands (`q<k>`: from where a row begins), `s<k>` strides, `c<k>`
number arguments.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from jitgrad import dtypes
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, STORED, literal
from jitgrad.codegen.llvm.scalars import FOLDS
from jitgrad.codegen.program.kernel import SPREAD, Kernel
from jitgrad.codegen.program.plan import make_plan
from jitgrad.dims import Size

LARGEST = (1 << 63) - 1

#: reductions: the operator of `prelude.cuh` that joins two parts, where it is not `jg_<name>`
_JOINS = {"dot": "jg_sum", "max": "jg_maximum", "min": "jg_minimum", "fastmax": "jg_fastmaximum", "any": "jg_or",
          "all": "jg_and"}
#: what a reduction has in hand that is more than its value
_WHOLES = {"argmax": "jg_best", "argmin": "jg_best", SPREAD: "jg_moments"}
#: the most elements of a vector, and the most bytes that a thread reads and writes at once
MOST_LANES, MOST_BYTES = 8, 192


def lane_of(kernel: Kernel) -> int:
    """The axis along which most operands are contiguous, -1 without axes; ties go to the last one."""
    lane = make_plan(kernel, 16).lane
    return lane if lane >= 0 else len(kernel.outer) + len(kernel.inner) - 1


def unit_operands(kernel: Kernel, lane: int) -> set[int]:
    """Operands that are read or written as vectors: stride 1 along `lane`, read before they are written once."""
    found = set()
    for k, operand in enumerate(kernel.operands):
        if lane < 0 or operand.strides[lane] != 1:
            continue
        uses = [s.op for s in kernel.body if s.operand == k]
        if set(uses) <= {"load", "store"} and uses.count("store") <= 1 and "store" not in uses[:-1]:
            found.add(k)
    return found


def vector_width(kernel: Kernel, units: set[int]) -> int:
    """How many neighbours a thread takes: 16 bytes of the narrowest operand, fewer where that is much in all."""
    sizes = [kernel.operands[k].dtype.itemsize for k in units]
    if not sizes:
        return 1
    width = min(16 // min(sizes), MOST_LANES)
    while width * max(sizes) > 16 and width * sum(sizes) > MOST_BYTES:
        width //= 2
    return width


class Lines:
    """Lines of C++, indented."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str | None = None) -> Iterator[None]:
        """`head { ... }`."""
        self.line("{" if head is None else f"{head} {{")
        self.indent += 1
        yield
        self.indent -= 1
        self.line("}")


class Addresses(Lines):
    """The parameters of a kernel's function, and where its operands are at the current indices."""

    def __init__(self, kernel: Kernel, lane: int, vectors: bool = True):
        super().__init__()
        self.kernel, self.lane = kernel, lane
        self.n_outer, self.n = len(kernel.outer), len(kernel.outer) + len(kernel.inner)
        self.units = unit_operands(kernel, lane) if vectors else set()
        self.width = vector_width(kernel, self.units) if vectors else 1
        self.based: frozenset[int] = frozenset()    # axes that the pointers q have taken
        self.bases: dict[int, str] = {}
        self.restrict = " __restrict__"             # how pointers are qualified where operands do not overlap
        self.strides = {key: f"s{number}" for number, key in enumerate(kernel.argument_strides())}

    # --- the function ---

    def function(self, symbol: str, threads: int, scratch: bool = False, fixed: Sequence[str] = (),
                 held: int = 0) -> str:
        """What was printed, as a function with the kernel's parameters, or with those of `fixed`.

        `held`: how many blocks a multiprocessor holds at least, where that is asked for.
        """
        parameters = list(fixed) or [*self.parameters(), *self.numbers(range(len(self.kernel.scalars)))]
        if scratch:
            parameters.append("char* scratch")
        head = f'extern "C" __global__ void __launch_bounds__({threads}{f", {held}" if held else ""})'
        return "\n".join([head, f"{symbol}({', '.join(parameters)}) {{", *self.lines, "}", ""])

    def numbers(self, which: Iterable[int]) -> list[str]:
        """The parameters for number arguments."""
        return [f"{COMPUTED[self.kernel.scalars[k].name]} c{k}" for k in which]

    def parameters(self) -> list[str]:
        kernel = self.kernel
        written = {k for k, o in enumerate(kernel.operands) if o.role != "in"}
        alone = self.restrict if kernel.inner and all(o.role != "inout" for o in kernel.operands) else ""
        return [*[f"i64 n{axis}" for axis in range(self.n)],
                *[f"{'' if k in written else 'const '}{STORED[o.dtype.name]}*{alone} p{k}"
                  for k, o in enumerate(kernel.operands)],
                *[f"i64 {name}" for name in self.strides.values()]]

    def describe(self) -> None:
        """Comments: the space, and where each operand is."""
        spaces = [" x ".join(f"n{a}" for a in axes) for axes in (range(self.n_outer), range(self.n_outer, self.n))]
        self.line(f"// {spaces[0] or 'one'} results" + (f", each of {spaces[1]} elements" if spaces[1] else ""))
        for k, o in enumerate(self.kernel.operands):
            where = " + ".join(t for a, s in enumerate(o.strides) for t in self.term(f"i{a}", s, ("o", k, a)))
            self.line(f"// p{k}: {o.dtype.name}, {o.role}, at {where or '0'}")

    # --- indices and addresses ---

    @property
    def times(self) -> str:
        """What makes the number of a vector that of its first element."""
        return f" * {self.width}" if self.width > 1 else ""

    @property
    def across(self) -> str:
        """How many vectors the lane axis has."""
        return f"jg_parts(n{self.lane}, {self.width})" if self.width > 1 else f"n{self.lane}"

    def decode(self, flat: str, axes: Sequence[int], prefix: str = "i") -> None:
        """The indices along `axes` from their number `flat`, the last axis fastest."""
        for axis in reversed(axes[1:]):
            self.line(f"const i64 d{axis} = jg_over({flat}, n{axis}), {prefix}{axis} = {flat} - d{axis} * n{axis};")
            flat = f"d{axis}"
        if axes:
            self.line(f"const i64 {prefix}{axes[0]} = {flat};")

    def product(self, axes: Iterable[int]) -> str:
        return " * ".join(f"n{a}" for a in axes) or "1"

    def term(self, index: str, stride: Size, key: tuple[str, int, int]) -> list[str]:
        if isinstance(stride, int):
            return [] if stride == 0 else [index if stride == 1 else f"{index} * {stride}"]
        return [f"{index} * {self.strides[key]}"]

    def offset(self, k: int, axes: Iterable[int], extra: Sequence[str] = ()) -> str:
        """The distance of the place at the current indices along `axes`, in elements."""
        terms = list(extra)
        for axis in axes:
            terms += self.term(f"i{axis}", self.kernel.operands[k].strides[axis], ("o", k, axis))
        return " + ".join(terms)

    def base(self, k: int) -> str:
        return self.bases.get(k, f"p{k}")

    def begin_row(self, axes: Sequence[int], operands: Iterable[int] | None = None) -> None:
        """Pointers `q` to where the operands' parts for the current indices along `axes` begin."""
        kernel = self.kernel
        written = {k for k, o in enumerate(kernel.operands) if o.role != "in"}
        alone = self.restrict if all(o.role != "inout" for o in kernel.operands) else ""
        self.based = frozenset(axes)
        for k in range(len(kernel.operands)) if operands is None else operands:
            distance = self.offset(k, axes)
            if distance:
                kind = f"{'' if k in written else 'const '}{STORED[kernel.operands[k].dtype.name]}*{alone}"
                self.line(f"{kind} const q{k} = p{k} + {distance};")
                self.bases[k] = f"q{k}"

    def place(self, k: int, extra: Sequence[str] = ()) -> str:
        """The element of an operand at the current indices."""
        axes = [a for a in range(self.n) if a not in self.based]
        return f"{self.base(k)}[{self.offset(k, axes, extra) or '0'}]"

    def vector_place(self, k: int, extra: Sequence[str] = ()) -> str:
        """The address of an operand's E elements from lane index `e` on."""
        axes = [a for a in range(self.n) if a not in self.based and a != self.lane]
        return f"{self.base(k)} + {self.offset(k, axes, ['e', *extra])}"

    def gathered(self, i: int) -> str:
        return self.place(self.kernel.body[i].operand, self.gathered_terms(i))

    def gathered_terms(self, i: int) -> list[str]:
        """The distance that the indices of a gather or scatter make."""
        stmt = self.kernel.body[i]
        indices = stmt.args[stmt.op != "gather" or stmt.fn == "where":]
        return [t for position, a in enumerate(indices)
                for t in self.term(f"v{a}", stmt.strides[position], ("b", i, position))]

    def alignment(self) -> str:
        """The condition on which vectors that start at a multiple of E along the lane axis are aligned in memory."""
        conditions = []
        for k in sorted(self.units):
            conditions.append(f"jg_aligned<{self.width}>(p{k})")
            for axis, stride in enumerate(self.kernel.operands[k].strides):
                if axis == self.lane or stride == 0:
                    continue
                if isinstance(stride, int):
                    return "false"
                conditions.append(f"{self.strides['o', k, axis]} % {self.width} == 0")
        return " && ".join(dict.fromkeys(conditions)) or "false"


class Folding(Addresses):
    """What the reductions of a kernel are: types and neutral elements of their parts, and what joins two."""

    def source_of(self, i: int) -> dtypes.dtype:
        """The dtype in which a reduction is accumulated."""
        stmt = self.kernel.body[i]
        return dtypes.bool_ if stmt.fn in ("any", "all") else self.kernel.dtype_of(stmt.args[0])

    def accumulator(self, i: int) -> str:
        kind = COMPUTED[self.source_of(i).name]
        whole = _WHOLES.get(self.kernel.body[i].fn)
        return f"{whole}<{kind}>" if whole else kind

    def slot_bytes(self, i: int) -> int:
        """The size of the accumulator in the scratch memory."""
        size = 4 if self.source_of(i).is_half else self.source_of(i).itemsize
        whole = _WHOLES.get(self.kernel.body[i].fn)
        return 16 if whole == "jg_best" else 4 * size if whole else max(4, size)

    def identity(self, i: int) -> str:
        fn = self.kernel.body[i].fn
        if fn == SPREAD:
            return "{}"
        value = literal(FOLDS[fn].identity(self.kernel.dtype_of(self.kernel.body[i].args[0])), self.source_of(i))
        return f"{{{value}, {literal(LARGEST, dtypes.int64)}}}" if fn in ("argmax", "argmin") else value

    def join(self, i: int) -> str:
        """The operator of a reduction; sums of bools are "or", products "and"."""
        fn, d = self.kernel.body[i].fn, self.source_of(i)
        name = _JOINS.get(fn, f"jg_{fn}")
        if d is dtypes.bool_:
            name = {"jg_sum": "jg_or", "jg_prod": "jg_and"}.get(name, name)
        return f"{name}<{COMPUTED[d.name]}>"

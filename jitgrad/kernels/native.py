"""Functions of native code, written in Python: operators compute, `with` branches and repeats, variables change.

    library = Library()

    @library.function("i64", words="ptr", count="i64")
    def jg_sum(f: Native, words: V, count: V) -> V:
        total = f.variable(f.number(0))
        with f.each(count) as k:
            total.value = total.value + f.load(words, k)
        return total.value

    library.text()          # the functions as LLVM, with the declarations that they need

What the Python function returns is the result; `f.leave(result)` returns from the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from jitgrad.kernels.values import Code, V


class Variable:
    """A variable of a function: memory, which the optimiser turns into registers."""

    __slots__ = ("address", "code", "kind")

    def __init__(self, code: Native, address: V, kind: tuple[str, int]):
        self.code, self.address, self.kind = code, address, kind

    @property
    def value(self) -> V:
        elem, lanes = self.kind
        return self.code.read(elem, self.address.name, lanes)

    @value.setter
    def value(self, value: V) -> None:
        self.code.write(value, self.address.name)


class Native(Code):
    """One function under construction. Addresses are `ptr` or `i64`; places are counted in elements from them."""

    __slots__ = ("allocas", "labels")

    def __init__(self, has_fma: bool = True, has_avx512: bool = False) -> None:
        super().__init__(has_fma, has_avx512)
        self.allocas: list[str] = []
        self.labels = 0

    def defined(self, name: str, parameters: Sequence[str], attributes: str = "") -> list[str]:
        """What was printed as a function, given its result and name."""
        head = f"define {name}({', '.join(parameters)}) nounwind{attributes} {{"
        return [head, "entry:", *self.allocas, *self.lines, "}", ""]

    # --- values and memory ---

    def number(self, value: int, elem: str = "i64") -> V:
        return self.const(value, elem, 1)

    @property
    def null(self) -> V:
        return V(self, "null", "ptr", 1)

    def at(self, pointer: V, index: V | int, elem: str = "i64") -> V:
        """The address of an element."""
        if pointer.elem != "ptr":
            pointer = pointer.cast("inttoptr", "ptr")
        return V(self, self.element(pointer.name, index.name if isinstance(index, V) else index, elem), "ptr", 1)

    def load(self, pointer: V, index: V | int = 0, elem: str = "i64") -> V:
        return self.read(elem, self.at(pointer, index, elem).name)

    def field(self, pointer: V, offset: V | int, elem: str = "i64") -> V:
        """What is at a distance in bytes."""
        return self.load(self.at(pointer, offset, "i8"), elem=elem)

    def store(self, value: V, pointer: V, index: V | int = 0) -> None:
        self.write(value, self.at(pointer, index, value.elem).name)

    def variable(self, value: V) -> Variable:
        """A variable that has a value already."""
        found = Variable(self, self.room(1, value.type), (value.elem, value.lanes))
        found.value = value
        return found

    def room(self, count: int, elem: str = "i64") -> V:
        """The address of memory of the function's own."""
        self.allocas.append(f"  %room{len(self.allocas)} = alloca [{count} x {elem}]")
        return V(self, f"%room{len(self.allocas) - 1}", "ptr", 1)

    def through(self, pointer: V, result: str, *arguments: V) -> V:
        """Call the function at an address."""
        given = ", ".join(f"{a.type} {a.name}" for a in arguments)
        return self.emit(f"call {result} {pointer.name}({given})", result, 1)

    def run(self, pointer: V, *arguments: V) -> None:
        """Call the function at an address, which returns nothing."""
        self.line(f"call void {pointer.name}({', '.join(f'{a.type} {a.name}' for a in arguments)})")

    # --- words that several threads use: all see all changes in one order ---

    def atomic_load(self, pointer: V, elem: str = "i64") -> V:
        return self.emit(f"load atomic {elem}, ptr {pointer.name} seq_cst, align 8", elem, 1)

    def atomic_store(self, value: V, pointer: V) -> None:
        self.line(f"store atomic {value.type} {value.name}, ptr {pointer.name} seq_cst, align 8")

    def atomic_add(self, pointer: V, value: V | int) -> V:
        """What was there before."""
        added = value if isinstance(value, int) else value.name
        return self.emit(f"atomicrmw add ptr {pointer.name}, i64 {added} seq_cst, align 8", "i64", 1)

    def exchange(self, pointer: V, old: V | int, new: V | int) -> V:
        """Put `new` where `old` is; whether it was."""
        before, after = (str(v) if isinstance(v, int) else v.name for v in (old, new))
        pair = self.emit(f"cmpxchg ptr {pointer.name}, i64 {before}, i64 {after} seq_cst seq_cst, align 8", "i64", 1)
        return self.emit(f"extractvalue {{ i64, i1 }} {pair.name}, 1", "i1", 1)

    # --- control ---

    def label(self) -> str:
        self.labels += 1
        return f"at{self.labels}"

    @property
    def has_left(self) -> bool:
        """Whether control does not get here."""
        return bool(self.lines) and self.lines[-1].startswith(("  ret ", "  br "))

    def go(self, label: str) -> None:
        if not self.has_left:
            self.line(f"br label %{label}")

    def leave(self, result: V | None = None) -> None:
        """Return."""
        self.line("ret void" if result is None else f"ret {result.type} {result.name}")

    @contextmanager
    def when(self, condition: V, holds: bool = True) -> Iterator[None]:
        """`if condition: ...`, or where it does not hold."""
        inside, after = self.label(), self.label()
        first, second = (inside, after) if holds else (after, inside)
        self.line(f"br i1 {condition.name}, label %{first}, label %{second}")
        self.lines.append(f"{inside}:")
        yield
        self.go(after)
        self.lines.append(f"{after}:")

    def unless(self, condition: V) -> AbstractContextManager[None]:
        """`if not condition: ...`"""
        return self.when(condition, holds=False)

    @contextmanager
    def part(self) -> Iterator[Callable[[], None]]:
        """Gives what leaves the lines inside."""
        after = self.label()
        yield lambda: self.go(after)
        self.go(after)
        self.lines.append(f"{after}:")

    @contextmanager
    def loop(self) -> Iterator[Callable[[], None]]:
        """`while True: ...`; gives what leaves the loop."""
        head = self.label()
        self.go(head)
        self.lines.append(f"{head}:")
        with self.part() as stop:
            yield stop
            self.go(head)

    @contextmanager
    def each(self, count: V | int) -> Iterator[V]:
        """`for k in range(count): ...`"""
        number = self.variable(self.number(0))
        with self.loop() as stop:
            k = number.value
            with self.when(k >= count):
                stop()
            yield k
            number.value = k + 1


class Library:
    """Functions in one text."""

    def __init__(self) -> None:
        self.functions: dict[str, tuple[str, dict[str, str], Callable[..., V | None]]] = {}

    def function(self, result: str, name: str = "",
                 **parameters: str) -> Callable[[Callable[..., V | None]], Callable[..., V | None]]:
        """Enter a function, by default of a Python function's name, by the LLVM types of its result and parameters.

        A function of the result "internal void", say, is for others of the text only.
        """

        def enter(body: Callable[..., V | None]) -> Callable[..., V | None]:
            self.functions[name or body.__name__] = result, parameters, body
            return body

        return enter

    @property
    def exports(self) -> list[str]:
        """The names of the functions that are not internal."""
        return [name for name, (result, _, _) in self.functions.items() if not result.startswith("internal ")]

    @property
    def declarations(self) -> str:
        """What those say that call the functions."""
        return "\n".join(f"declare {result} @{name}({', '.join(parameters.values())})"
                         for name, (result, parameters, _) in self.functions.items())

    def text(self) -> str:
        """The functions."""
        declares: dict[str, str] = {}
        texts: list[str] = []
        for name, (result, parameters, body) in self.functions.items():
            f = Native()
            found: Any = body(f, *[V(f, f"%{p}", kind, 1) for p, kind in parameters.items()])
            if not f.has_left:
                f.leave(found)
            texts += f.defined(f"{result} @{name}", [f"{kind} %{p}" for p, kind in parameters.items()])
            declares.update(f.declares)
        return "\n".join([*[line for name, line in declares.items() if name not in self.functions], *texts])

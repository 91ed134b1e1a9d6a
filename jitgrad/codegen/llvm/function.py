"""The text of one function under construction: lines, labels, variables; and its parts that become functions.

LLVM's work on a function grows faster than its length, so that long ones are printed as several. `cut` takes the newest
lines out, as a piece; `Parts` makes functions of the pieces. Quick pieces share a frame: names that several use, and
variables, are words of it. Good ones, which are loops, get parameters by names that only hang on their text, so that
equal ones are one. A piece returns 0, or what the function around it is to return, or a number of `AWAY` and more: that
of a label there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from jitgrad.classes import dataclass
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V

#: what a piece returns for the first label outside
AWAY = 1000
_MARK = "<"
#: characters of names: LLVM's are ASCII, and `\w` would ask for those of all the world
_WORD = "[A-Za-z0-9_.]+"
_NAMES = re.compile(f"%{_WORD}")
_TARGETS = re.compile(f"label %({_WORD})")
_DEFINED = re.compile(f"\n  (%{_WORD})")
_LABELS = re.compile(f"\n({_WORD}):")
_TOKENS = re.compile(f"(%{_WORD}|\n{_WORD}:)")


@dataclass(slots=True)
class Piece:
    """Lines cut out.

    quick: for the quick code generator. again: they may run more than once. shared: marks in several places call it.
    """

    lines: list[str]
    quick: bool
    again: bool
    shared: bool


class Glue(Native):
    """Lines, with the types of what they define."""

    __slots__ = ("types",)

    def __init__(self, types: dict[str, str]) -> None:
        super().__init__()
        self.types = types

    def emit(self, instruction: str, elem: str, lanes: int) -> V:
        found = super().emit(instruction, elem, lanes)
        self.types[found.name] = found.type
        return found


class Function:
    """Two stretches of code that follow each other: `entry`, which runs once, and `code`, which is printed to."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.entry: Native = Glue(self.types)
        self.code: Native = Glue(self.types)
        self.code.count = self.code.labels = 1 << 24  # names of the two never meet
        self.allocas: list[str] = []
        self.labels = 0
        self.pieces: list[Piece] = []
        self.again = False  # whether what is printed may run more than once

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

    def cut(self, start: int, quick: bool, shared: bool = False) -> str:
        """Make a piece of the lines from `start` on; the mark that calls it, which takes their place."""
        lines = self.code.lines
        mark = self.piece(lines[start:], quick, shared)
        lines[start:] = [mark]
        return mark

    def piece(self, lines: list[str], quick: bool, shared: bool = False) -> str:
        """The mark of a piece."""
        self.pieces.append(Piece(lines, quick, self.again, shared))
        return f"{_MARK}{len(self.pieces) - 1}"

    def _cut_entry(self, limit: int) -> None:
        """Make quick pieces of the entry, which nobody leaves for a label outside."""
        lines: list[str] = []
        waiting: list[str] = []
        ahead: set[str] = set()  # labels that are branched to and still to come
        for line in self.entry.lines:
            waiting.append(line)
            if line.endswith(":"):
                ahead.discard(line[:-1])
            elif "label %" in line:
                ahead.update(_TARGETS.findall(line))
            if len(waiting) > limit and not ahead:
                lines.append(self.piece(waiting, quick=True))
                waiting = []
        self.entry.lines = [*lines, *waiting]


class _Part:
    """A function: of a piece, or what is left of all."""

    def __init__(self, piece: Piece, symbol: str, around: _Part | None):
        self.lines, self.quick, self.again, self.symbol, self.around = (
            piece.lines, piece.quick, piece.again, symbol, around)
        self.given = ""                         # what it is called with
        self.names: dict[str, None] = {}        # what it uses, also to call a good part
        self.own: set[str] = set()              # the same without what it only passes on
        self.targets: dict[str, None] = {}      # labels that it branches to
        self.away: list[str] = []               # labels outside for which it returns numbers
        self.returns = False                    # whether it returns what the function around is to return
        self.head: list[str] = []               # its variables, and what it reads of the frame at first
        self.stored: dict[str, list[str]] = {}  # what is stored after a name is defined
        self.loaded: dict[_Part, list[str]] = {}  # what is read after the call of a part


class Parts:
    """Functions of a function's lines and of the pieces cut from them.

    Attributes:
        lines: what is left of the function.
    """

    def __init__(self, function: Function, lines: list[str], variables: Iterable[str], name: str,
                 define: Callable[[str, str, str, bool], str]):
        """`define` enters a function, given a symbol, its parameters, its text and whether it is made quickly; it
        returns the symbol of that or of an equal one.
        """
        self.types, self.define = function.types, define
        self.kinds = dict([line.strip().split(" = alloca ") for line in variables])
        self.homes: dict[str, _Part] = {}
        self.labels: dict[str, _Part] = {}
        self.codes: dict[str, int] = {}
        self.words = 0  # of the frame
        self.main = main = _Part(Piece(lines, True, False, False), name, None)
        self.parts: dict[str, _Part] = {}  # by mark
        found = [main]
        for part in found:
            for mark in part.lines:
                if mark.startswith(_MARK) and mark not in self.parts:
                    piece = function.pieces[int(mark[1:])]
                    inner = self.parts[mark] = _Part(piece, f"{name}.{mark[1:]}", None if piece.shared else part)
                    found.append(inner)
        order = [*[self.parts[mark] for mark in sorted(self.parts, key=lambda m: int(m[1:]))], main]  # callers last
        users: dict[str, list[_Part]] = {}
        for part in order:
            self._read(part)
        for part in order:
            for n in part.names:
                users.setdefault(n, []).append(part)
        for n, parts in users.items():
            if n in self.kinds:
                self._place(n, parts)
            elif (len(parts) > 1 or self.homes.get(n) is not parts[0]) and n not in ("%block", "%frame"):
                self._pass(n, [p for p in parts if p.quick])
        for part in order:
            self._finish(part)
        self.lines = [f"  %frame = alloca [{self.words} x i64]", *main.head, *self._body(main, _returned)]

    def _read(self, part: _Part) -> None:
        """What a part defines, uses and branches to."""
        text: list[str] = []  # since the last mark
        for line in part.lines:
            if not line.startswith(_MARK):
                text.append(line)
                continue
            self._read_text(part, text)
            text.clear()
            inner = self.parts[line]
            if not inner.quick:
                part.names.update((n, None) for n in inner.names if self.homes.get(n) is not inner)
        self._read_text(part, text)

    def _read_text(self, part: _Part, lines: list[str]) -> None:
        """The same for lines without marks."""
        text = "\n".join(["", *lines])
        targets, names = dict.fromkeys(_TARGETS.findall(text)), dict.fromkeys(_NAMES.findall(text))
        part.targets.update(targets)
        for label in targets:
            del names[f"%{label}"]
        part.names.update(names)
        part.own.update(names)
        self.homes.update(dict.fromkeys(_DEFINED.findall(text), part))
        self.labels.update(dict.fromkeys(_LABELS.findall(text), part))
        part.returns = part.returns or "  ret " in text

    def _place(self, name: str, users: list[_Part]) -> None:
        """Where a variable is: in the only part that uses it, if it runs once, or in the frame."""
        kind = self.kinds[name]
        own = [part for part in users if name in part.own]
        if len(own) == 1 and not own[0].again:
            own[0].head.append(f"  {name} = alloca {kind}")
            return
        place = f"  {name} = getelementptr i64, ptr %frame, i64 {self.words}"
        for part in users:
            if part.quick:
                part.head.append(place)
        self.words += int(kind[1:].split()[0]) if kind.startswith("[") else 1

    def _pass(self, name: str, users: list[_Part]) -> None:
        """Pass what a quick part defines through the frame to the others."""
        home = self.homes.get(name, self.main)
        if all(part is home for part in users):
            return
        kind = self.types.get(name, "ptr")
        place = f"  {name}.at = getelementptr i64, ptr %frame, i64 {self.words}"
        self.words += 1
        stored = [place, f"  store {kind} {name}, ptr {name}.at"]
        if name in self.homes:
            home.stored[name] = stored
        else:  # a parameter
            home.head += stored
        for part in users:
            if part is not home:
                inner: _Part | None = home
                while inner is not None and inner.around is not part:
                    inner = inner.around
                where = part.head if inner is None else part.loaded.setdefault(inner, [])
                where += [place, f"  {name} = load {kind}, ptr {name}.at"]

    def _finish(self, part: _Part) -> None:
        """Make a part a function, once all that it calls are."""
        inner = [self.parts[line] for line in part.lines if line.startswith(_MARK)]
        targets = dict.fromkeys(itertools.chain(part.targets, *[i.away for i in inner]))
        part.away = [label for label in targets if self._home(label) is not part]
        part.returns = part.returns or any(i.returns for i in inner)
        if part is self.main:
            return
        if not part.quick:
            self._good(part)
            return
        body = [*self._body(part, _returned), *_returned("0"), *self._leaving(part, _returned)]
        part.given = "ptr %block, ptr %frame"
        text = "\n".join([*part.head, "  br label %body", "body:", *body])
        part.symbol = self.define(part.symbol, part.given, text, True)

    def _good(self, part: _Part) -> None:
        """Copies of its variables, which LLVM can keep in registers, copied back in one place. Names by the order in
        which they occur.
        """
        takes = [n for n in part.names if self.homes.get(n) is not part and f"  {n} = alloca {self.kinds.get(n)}"
                 not in part.head]
        copied = {n: self.kinds[n] for n in takes if not self.kinds.get(n, "[").startswith("[")}
        head = [*part.head, *[f"  {name} = alloca {kind}" for name, kind in copied.items()], "  %as.left = alloca i64"]
        back = ["left:"]
        for name, kind in copied.items():
            head += [f"  {name}.was = load {kind}, ptr {name}.at", f"  store {kind} {name}.was, ptr {name}"]
            back += [f"  {name}.is = load {kind}, ptr {name}", f"  store {kind} {name}.is, ptr {name}.at"]
        back += ["  %left.as = load i64, ptr %as.left", *_returned("%left.as")]

        def leave(result: str) -> list[str]:
            return [f"  store i64 {result}, ptr %as.left", "  br label %left"]

        body = [*self._body(part, leave), *leave("0"), *self._leaving(part, leave), *back]
        between = _TOKENS.split("\n".join([*head, "  br label %body", "body:", *body]))
        used = between[1::2]
        names: dict[str, str] = {}
        instead = {}
        for token in dict.fromkeys(used):
            name = token.strip("%\n:")
            instead[token] = token.replace(name, names.setdefault(name, f"x{len(names)}"))
        between[1::2] = [instead[token] for token in used]
        text = "".join(between)
        kinds = ["ptr" if n in self.kinds else self.types.get(n, "ptr") for n in takes]
        inside = [names[(n + ".at" if n in copied else n)[1:]] for n in takes]
        given = sorted(zip(kinds, takes, inside, strict=True), key=lambda g: int(g[2][1:]))
        part.given = ", ".join([f"{kind} {name}" for kind, name, _ in given])
        parameters = ", ".join([f"{kind} %{name}" for kind, _, name in given])
        part.symbol = self.define(part.symbol, parameters, text, False)

    def _leaving(self, part: _Part, leave: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """Labels outside, as places that return their numbers."""
        for label in part.targets:
            if label in part.away:
                yield f"{label}:"
                yield from leave(str(self._code(label)))

    def _body(self, part: _Part, leave: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """The lines of a part, with calls of others."""
        stored = part.stored
        for number, line in enumerate(part.lines):
            if line.startswith(_MARK):
                yield from self._call(part, self.parts[line], number, leave)
                continue
            yield line
            if stored and line.startswith("  %"):
                yield from stored.get(line[2:line.index(" ", 2)], ())

    def _call(self, part: _Part, inner: _Part, number: int, leave: Callable[[str], Iterable[str]]) -> Iterator[str]:
        came = f"%came.{number}"
        yield f"  {came} = call i64 @{inner.symbol}({inner.given})"
        if inner.returns or inner.away:
            fine = f"on.{number}"
            yield from _branch(came, 0, fine, f"off.{number}")
            for k, label in enumerate(inner.away):
                if self._home(label) is part:
                    yield from _branch(came, self._code(label), label, f"off.{number}.{k}")
            yield from leave(came)
            yield f"{fine}:"
        yield from part.loaded.get(inner, ())

    def _home(self, label: str) -> _Part:
        return self.labels.get(label, self.main)

    def _code(self, label: str) -> int:
        return self.codes.setdefault(label, AWAY + len(self.codes))


def _branch(value: str, code: int, label: str, other: str) -> Iterator[str]:
    yield f"  {value}.{code} = icmp eq i64 {value}, {code}"
    yield f"  br i1 {value}.{code}, label %{label}, label %{other}"
    yield f"{other}:"


def _returned(result: str) -> Iterable[str]:
    return [f"  ret i64 {result}"]

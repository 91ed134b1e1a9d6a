"""Writes `jitgrad/ops/library/signatures.txt`: how the functions of an installed PyTorch are called.

    python -m tools.torch_signatures          # with PyTorch's Python
    python -m tools.torch_signatures names    # writes `tools/torch_names.txt` instead: what is public there

Only the names of functions and of their parameters are recorded, in PyTorch's order. A function that PyTorch writes in
Python is marked `def`: it takes none of NumPy's names. Forms that PyTorch deprecates are left out.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

TABLE = Path(__file__).parent.parent / "jitgrad" / "ops" / "library" / "signatures.txt"
#: where the public names are; `Tensor` stands for the methods of tensors
SPACES = ("torch", "Tensor", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional")
NAMES = Path(__file__).with_name("torch_names.txt")
#: where names are looked for that are not functions alone
NAMESPACES = (*SPACES, "torch.nn", "torch.func", "torch.optim", "torch.distributions", "torch.utils.data")
NAMES_HEAD = """\
# PyTorch {version}'s public names and what each is. `function grad`: of operands that require gradients it gives
# results that have one, by a call of `tests/calls`.
# Written by `python -m tools.torch_signatures names`; read by `tools/api_coverage.py`.
"""
#: functions of numbers or tensors in one form, of which only those of numbers refuse an `out` of another dtype
BOUNDED = {"clamp", "clamp_max", "clamp_min", "clip"}
#: functions of complex results that are cast to any complex `out`
CAST = {"eig", "eigvals"}
#: methods that take a number too where stub files have a tensor alone
NUMBERS = {"copy_"}
#: what other libraries read the parameters of, not people
PRIVATE = re.compile(r"_|.*(backward|_copy$|_out$|cudnn|miopen|mkldnn|quantize|fbgemm|nested|to_sparse|batch_norm_\w+)"
                     r"|native_")

#: a type in stub files, and of operators -> its letter, see `jitgrad/ops/library/calls/kinds.py`
LETTERS = {"Tensor": "T", "Number": "n", "_complex": "n", "_int": "i", "int": "i", "SymInt": "i", "IntLikeType": "i",
           "_float": "f", "float": "f", "SymFloat": "f", "_bool": "b", "bool": "b", "None": "o", "str": "S",
           "_dtype": "d", "DeviceLikeType": "D", "_device": "D", "_size": "I", "_symsize": "I", "Sequence[_int]": "I",
           "Sequence[_int | SymInt]": "I", "Sequence[int]": "I", "tuple[_int, ...]": "I", "Sequence[float]": "F",
           "Sequence[_float]": "F", "list[Tensor]": "L", "tuple[Tensor, ...]": "L", "tuple[Tensor | None, ...]": "L",
           "list[Tensor | None]": "L"}
TYPES = {"Tensor": "T", "number": "n", "int": "i", "float": "f", "bool": "b", "str": "S", "List[int]": "I",
         "List[Tensor]": "L", "Device": "D", "ScalarType": "d"}

HEAD = """\
# How PyTorch {version}'s functions are called: parameters by name, `=` behind one that may be left out, `*` before
# those that are given by name only, `|` between forms. `def`: in Python there, where it takes none of NumPy's names.
# `out!=`: only of the result's dtype; `out?=`: so where no other operand is a tensor; `^`: which is asked before an
# axis is looked at; `~`: where the axis is named before an operand that requires grad. Behind `:` the types that a
# parameter takes, as letters of `kinds.WORDS`; any where there are none.
# Written by `python -m tools.torch_signatures`; read by `jitgrad/ops/library/calls/forms.py`.
"""


def letters_of(annotation: ast.expr | None) -> str:
    """The letters of the types that an annotation in a stub file has; none where one of them has no letter."""
    if annotation is None:
        return ""
    parts = [annotation]
    while isinstance(parts[0], ast.BinOp):
        parts[:1] = [parts[0].left, parts[0].right]
    found = [LETTERS.get(ast.unparse(p).removeprefix("torch.")) for p in parts]
    letters = "" if None in found else "".join(dict.fromkeys(letter for letter in found if letter))
    return "Lo" if letters == "TLo" else letters  # an `out` of several tensors


def stated(name: str, letters: str, default: bool) -> str:
    """A parameter as the table has it."""
    return name + (":" + letters if letters else "") + ("=" if default else "")


def of_definition(node: ast.FunctionDef) -> str:
    """The parameters of a definition in a stub file."""
    a, parts = node.args, []
    positional = [*a.posonlyargs, *a.args]
    optional = len(positional) - len(a.defaults)
    for i, p in enumerate(positional):
        default = a.defaults[i - optional] if i >= optional else None
        none = "o" if isinstance(default, ast.Tuple) and not default.elts else ""  # no axes, which None stands for
        parts.append(stated(p.arg, "".join(dict.fromkeys(letters_of(p.annotation) + none)), default is not None))
    if a.vararg is not None or a.kwonlyargs:
        parts.append("*" + (a.vararg.arg if a.vararg is not None else ""))
    parts += [stated(p.arg, letters_of(p.annotation), default is not None or p.arg == "generator")  # which has one
              for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return ", ".join(parts)


def of_function(fn: Callable[..., Any]) -> str:
    """The parameters of a function that is written in Python."""
    parts: list[str] = []
    starred = False
    for p in inspect.signature(fn).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            parts.append("**" + p.name)
            continue
        if p.kind is p.VAR_POSITIONAL:
            parts, starred = [*parts, "*" + p.name], True
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts, starred = [*parts, "*"], True
        parts.append(p.name + ("" if p.default is p.empty else "="))
    return ", ".join(parts)


def of_schema(schema: Any) -> str:
    """The parameters of an operator as its function has them; what it writes to is `out`."""
    parts: list[str] = []
    written: list[str] = []
    for p in schema.arguments:
        if p.is_out:
            written.append(p.name)
            continue
        if p.kwarg_only and "*" not in parts:
            parts.append("*")
        name = "input" if p.name == "self" else p.name
        parts.append(stated(name, _of_type(p), p.has_default_value()))
    if written:
        parts += [*(() if "*" in parts else "*"), "out:" + ("To" if len(written) == 1 else "Lo") + "="]
    return ", ".join(parts)


def _of_type(argument: Any) -> str:
    """The letters of the type of an operator's parameter."""
    text = str(argument.real_type)
    inner = text[len("Optional["):-1] if text.startswith("Optional[") else text
    found = TYPES.get(inner, "")
    return ("i" if found == "I" and argument.N is not None else "") + found + ("o" if found and inner != text else "")


def stubs(path: Path, owner: str | None = None) -> dict[str, list[str]]:
    """The forms of the functions of a stub file, or of a class in it."""
    tree: Any = ast.parse(path.read_text())
    if owner is not None:
        tree = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner)
    found = defaultdict(list)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            form = of_definition(node)
            found[node.name].append(_of_method(form) if owner is not None else form)
    return {name: _without_self(of) for name, of in found.items()} if owner is None else found


def _without_self(forms: list[str]) -> list[str]:
    """The forms of a function without those that have a `self`, which are deprecated, or have a number where others
    have a tensor: these take that too."""
    kept = [form for form in forms if not re.search(r"\bself\b", form)]
    for form in forms:
        own = re.sub(r"\bself\b", "input", form)
        for i, other in enumerate(kept if own != form else ()):
            if _within(names_of(own), names_of(other)):
                kept[i] = united(other, own)
    return kept


def _of_method(form: str) -> str:
    """A method's form without its tensor, and without the `out` that stub files give some: no method takes one."""
    parts = [p for p in form.removeprefix("self").lstrip(", ").split(", ") if not p.startswith("out")]
    return ", ".join(parts[:-1] if parts[-1:] == ["*"] else parts)


def names_of(form: str) -> list[str]:
    """The names of a form's parameters."""
    return re.sub(r":\w+|=", "", form).split(", ")


def united(form: str, other: str) -> str:
    """A form whose parameters take also what those of another take."""
    also = dict(zip(names_of(other), other.rstrip("=").split(", "), strict=True))
    parts = []
    for name, part in zip(names_of(form), form.split(", "), strict=True):
        of, more = (p.rstrip("=").partition(":")[2] for p in (part, also.get(name, part)))
        parts.append(stated(name, "".join(dict.fromkeys(of + more)) if of and more else "", part.endswith("=")))
    return ", ".join(parts)


def merged(forms: list[str]) -> list[str]:
    """The forms without those that others contain, and that take what those take."""
    kept: list[str] = []
    for form in forms:
        names = names_of(form)
        for i, other in enumerate(kept):
            if _within(names, names_of(other)):
                kept[i] = united(other, form)
                break
            if _within(names_of(other), names):
                kept[i] = united(form, other)
                break
        else:
            kept.append(form)
    return kept


def _within(small: list[str], large: list[str]) -> bool:
    """Whether the positional names of one begin the other's, and its other names are among the other's others."""
    def split(names: list[str]) -> tuple[list[str], list[str]]:
        i = next((i for i, n in enumerate(names) if n.startswith("*")), len(names))
        return names[:i], names[i:]

    (first, rest), (others, more) = split(small), split(large)
    return others == first and set(rest) <= {*more, "*"}


def signatures() -> Iterator[str]:
    """The lines of the table."""
    torch: Any = importlib.import_module("torch")
    folder = Path(torch.__file__).parent / "_C"
    schemas = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten":
            schemas[name].append(schema)
    functions, methods = stubs(folder / "_VariableFunctions.pyi"), stubs(folder / "__init__.pyi", "TensorBase")
    nn = stubs(folder / "_nn.pyi")
    yield HEAD.format(version=torch.__version__.partition("+")[0]).rstrip()
    for space in SPACES:
        owner = torch.Tensor if space == "Tensor" else importlib.import_module(space)
        yield f"[{space}]"
        for name in sorted(dir(owner)):
            fn = getattr(owner, name)
            if PRIVATE.match(name) or not callable(fn) or isinstance(fn, type):
                continue
            if inspect.isfunction(fn):
                if (getattr(fn, "__module__", None) or "").startswith("torch"):
                    form = of_function(getattr(fn, "__wrapped__", fn))
                    yield f"def {name}({form.removeprefix('self').lstrip(', ') if space == 'Tensor' else form})"
                continue
            if space == "Tensor":
                forms = [form.replace("other:T", "other:Tn") if name in NUMBERS else form
                         for form in methods.get(name, [])]
            elif space in ("torch", "torch.nn.functional"):
                forms = functions.get(name) or nn.get(name) or []
            else:
                called = getattr(fn, "__name__", "")
                forms = [of_schema(s) for s in schemas.get(called, ()) if not _generated(torch, s)]
            if forms:
                yield f"{name}({' | '.join(merged(forms))})"


def _generated(torch: Any, schema: Any) -> bool:
    """Whether an operator is one that PyTorch makes for its own compilers: no function takes its `out`."""
    op = getattr(getattr(torch.ops.aten, schema.name.partition("::")[2]), schema.overload_name or "default")
    return torch.Tag.generated in op.tags


def with_exact_outs(lines: list[str]) -> Iterator[str]:
    """The lines of the table, which is written, with the marks of forms whose `out` is asked for more."""
    generator = importlib.import_module("tests.calls.generator")
    torch = importlib.import_module("torch")
    space = ""
    for line in lines:
        if line.startswith("["):
            space = line[1:-1]
        if not re.search(r"\bout(:\w+)?=", line):
            yield line
            continue
        name, _, inside = line.removeprefix("def ").partition("(")
        parts = inside.removesuffix(")").split(" | ")
        untried = []
        for i, form in enumerate(generator.forms(space, name)):
            tried = [c for c in generator.calls(space, name, [form]) if c.out and generator.differs(c, torch)]
            found = [generator.evaluate(c, torch) for c in tried]
            if not found:
                untried.append(i)
            elif name not in CAST and all(isinstance(x, RuntimeError) for x in found):
                parts[i] = re.sub(r"\bout(:\w+)?=", r"out\1!=", parts[i])
        for i in untried if any(re.search(r"\bout(:\w+)?!=", p) for p in parts) else ():
            parts[i] = re.sub(r"\bout(:\w+)?=", r"out\1!=", parts[i])
        if name in BOUNDED:
            parts = [re.sub(r"\bout(:\w+)?!?=", r"out\1?=", part) for part in parts]
        parts = [re.sub(r"\b(out[^,]*)=", rf"\1{_beside_axes(generator, torch, space, name, form)}=", part)
                 for part, form in zip(parts, generator.forms(space, name), strict=True)]
        yield f"{line.partition('(')[0]}({' | '.join(parts)})"


def _beside_axes(generator: Any, torch: Any, space: str, name: str, form: Any) -> str:
    """The marks that say which fault of an `out` is named before an axis that there is not, and which after it."""
    found = [c.text for c in generator.calls(space, name, [form]) if re.search(r"\bdim=", c.text) and not c.out]
    call = found[0] if found else ""
    good, marks = generator.evaluate(generator.Call(call), torch), set()
    for axis in ("99", "(0, 99)") if call else ():
        bad = re.sub(r"\bdim=(\(.*?\)|[^,)]*)", f"dim={axis}", call)
        for kind in generator.OUTS:
            out = generator.made(torch.ones(()) if isinstance(good, Exception) else good, kind, torch)
            tensors = generator.fresh(torch)
            for x in tensors.values() if kind == "same" else ():
                x.requires_grad_(x.dtype.is_floating_point)
            error = generator.evaluate(generator.Call(f"{bad[:-1]}, out=out)"), torch, tensors | {"out": out})
            if kind == "same" and isinstance(error, IndexError):
                marks.add("~")
            elif kind in ("double", "long") and isinstance(error, RuntimeError):
                marks.add("^")
    return "".join(sorted(marks))


def kind_of(owner: Any, name: str) -> str:
    """What a public name is; "" for what a module merely imports, and for texts of the documentation."""
    value = inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
    if isinstance(value, type):
        mine = value.__module__.startswith("torch") and (value.__module__ != "torch" or owner.__name__ == "torch")
        return "class" if mine else ""
    if isinstance(owner, type) and not callable(getattr(owner, name, None)):
        return "attribute"
    if callable(value) or isinstance(value, (classmethod, staticmethod)):
        module = getattr(value, "__module__", None) or "torch"
        return "" if module.partition(".")[0] != "torch" or "overrides" in module else "function"
    return "" if isinstance(value, (ModuleType, str, dict, bool, tuple)) else "constant"


def has_gradient(space: str, name: str) -> bool:
    """Whether PyTorch's function gives results with a gradient, in one of the calls that are made of its forms."""
    from tools.api_tries import differentiable

    return differentiable(importlib.import_module("torch"), space, name)


def names() -> Iterator[str]:
    """The lines of the table of names."""
    torch: Any = importlib.import_module("torch")
    yield NAMES_HEAD.format(version=torch.__version__.partition("+")[0]).rstrip()
    for space in NAMESPACES:
        owner = torch.Tensor if space == "Tensor" else importlib.import_module(space)
        yield f"[{space}]"
        for name in sorted(dir(owner)):
            kind = "" if name.startswith("_") else kind_of(owner, name)
            if kind:
                grad = " grad" if kind == "function" and has_gradient(space, name) else ""
                yield f"{name} {kind}{grad}"


def main() -> None:
    """Write one of the tables."""
    if sys.argv[1:] == ["names"]:
        NAMES.write_text("\n".join(names()) + "\n")
        return
    lines = list(signatures())
    TABLE.write_text("\n".join(lines) + "\n")
    TABLE.write_text("\n".join(with_exact_outs(lines)) + "\n")


if __name__ == "__main__":
    main()

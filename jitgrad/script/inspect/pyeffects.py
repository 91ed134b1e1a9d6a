"""One effect of a graph as a Python statement: a check, a print, a write to an input."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.inspect.pynames import Operands, wrap


def _check(p: Operands, node: Node) -> str:
    condition = p.take(node.inputs[0])
    error = _error(p, node.attrs["error"])
    template = node.attrs["template"]
    if template is None:
        message = ""
    elif template[:1] == (None,):
        message = ", ".join(_argument(p, a, node.inputs[1:]) for a in template[1:])
    else:
        message = template_text(p, template, node.inputs[1:])
    if condition[0] == "False":
        return f"raise {error}({message})"
    return f"if not {wrap(condition, 5)}: raise {error}({message})"


def _print(p: Operands, node: Node) -> str:
    template = list(node.attrs["template"])
    if template and isinstance(template[-1], str) and template[-1].endswith("\n"):
        template[-1] = template[-1][:-1]
        return f"print({template_text(p, template, node.inputs)})"
    return f"print({template_text(p, template, node.inputs)}, end='')"


def _argument(p: Operands, stated: Any, values: Sequence[Value]) -> str:
    """An argument of an exception; see `effects.exception`."""
    if stated is None or isinstance(stated, int):
        return "None" if stated is None else p.text(values[stated])
    kind, *parts = stated
    if kind == "text":
        return template_text(p, parts, values)
    items = [_argument(p, a, values) for a in parts]
    return f"[{', '.join(items)}]" if kind == "list" else f"({''.join(i + ', ' for i in items)})"


def template_text(p: Operands, template: Sequence[Any], values: Sequence[Value]) -> str:
    """A template as an f-string; texts of which a number chooses are added to it."""
    pieces, parts, plain = [], [""], True

    def end() -> None:
        text = "".join(parts)
        if text:
            pieces.append(repr(text.replace("{{", "{").replace("}}", "}")) if plain else "f" + repr(text))

    for part in template:
        if isinstance(part, str):
            parts.append(part.replace("{", "{{").replace("}", "}}"))
            continue
        index, conversion, spec = part
        if isinstance(conversion, tuple):
            end()
            pieces.append(f"{conversion!r}[{p.text(values[index])}]")
            parts, plain = [], True
            continue
        plain = False
        parts.append("{" + p.text(values[index]) + (f"!{conversion[0]}" if conversion else "")
                     + (f":{spec}" if spec else "") + "}")
    end()
    return " + ".join(pieces) or repr("")


def _error(p: Operands, error: type[Exception]) -> str:
    """The exception's name, imported if need be."""
    name = error.__name__
    if getattr(builtins, name, None) is not error:
        p.imports.add(f"from {error.__module__} import {error.__qualname__.partition('.')[0]}")
        return error.__qualname__
    return name


def _commit(p: Operands, node: Node) -> str:
    target, value = p.graph.inputs[node.attrs["target"]], node.inputs[0]
    if isinstance(target.type, TensorType):
        return f"commit({p.parameters[target]}, {p.strong(value)[0]})"
    return f"stored[{p.parameters[target]!r}] = {p.text(value)}"


EFFECTS: dict[str, Callable[[Operands, Node], str]] = {"check": _check, "print": _print, "commit": _commit}

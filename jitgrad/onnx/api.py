"""`jitgrad.onnx.export`, with torch's signature, and what `f.export_onnx` does."""

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jitgrad
from jitgrad.errors import ScriptError
from jitgrad.script.call import signature as sig
from jitgrad.script.executor import Dispatcher, scripted

DEFAULT_OPSET = 18


def export(model: Any, args: Any, f: Any = None, export_params: bool = True, verbose: bool = False,
           training: Any = None, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
           opset_version: int | None = None, dynamic_axes: Any = None, *, dynamic_shapes: Any = None,
           kwargs: Mapping[str, Any] | None = None) -> Any:
    """Write a module or function as an ONNX model, compiled for a call with these arguments.

    A module is exported in evaluation mode (`training=True` keeps its mode). Control flow stays: branches become If,
    loops become Loop. Every size of an argument but 1 stays free, unless `dynamic_axes` names those that do. Numbers
    among the arguments become 0-dim inputs (int64, double, bool).

    Args:
        model: a module, scripted or not; a function; a scripted function or method.
        args: the arguments, as a tuple, or one argument; torch's form with a dict at the end, for keywords, too.
        f: a path, or a file opened for writing bytes; None: only return the model.
        export_params: must be True: parameters are stored in the model.
        verbose: print the model as text.
        training: keep the module's mode instead of evaluation mode.
        input_names, output_names: in order; by default the parameters' names, and the keys of the result.
        opset_version: of the operator set; 18 by default.
        dynamic_axes, dynamic_shapes: input name -> {axis: name} or a list of axes: the sizes that stay free.
        kwargs: keyword arguments.

    Returns:
        The `onnx.ModelProto`.

    Raises:
        UnsupportedOnnx: an operation has no equivalent; the message names the line.
        ImportError: the package `onnx` is not installed.
    """
    if not export_params:
        raise ValueError("export_params=False is not supported: parameters are stored in the model")
    given = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    if kwargs is None and len(given) > 1 and isinstance(given[-1], dict):
        named, given = given[-1], given[:-1]
    compiled: Any = jitgrad.script(model)
    mode = getattr(compiled, "training", False) and not training and hasattr(compiled, "eval")
    if mode:
        compiled.eval()
    try:
        made = export_function(compiled, f, *given, input_names=input_names, output_names=output_names,
                               dynamic_axes=dynamic_axes if dynamic_axes is not None else dynamic_shapes,
                               opset_version=opset_version, **named)
    finally:
        if mode:
            compiled.train()
    if verbose:
        import onnx

        print(onnx.printer.to_text(made))
    return made


def export_function(function: Any, path: Any, *args: Any, input_names: Sequence[str] | None = None,
                    output_names: Sequence[str] | None = None, dynamic_axes: Any = None, dynamic_shapes: Any = None,
                    opset_version: int | None = None, **kwargs: Any) -> Any:
    """Write what a scripted function, method or module runs for these arguments; see `export`."""
    try:
        from jitgrad.onnx.model import ModelWriter
    except ImportError as error:
        raise ImportError("the package `onnx` is needed: pip install jitgrad[onnx]") from error

    script, root = _compiled(function)
    params = script._bind(*(() if root is None else (root,)), *args, **kwargs)
    values = script.values_of(params)
    with jitgrad.no_grad():
        specialisation = script.specialisation_of(params)
        if specialisation.script.lists:  # a model's list has a length: the one of these arguments
            specialisation = Dispatcher(script.eager).specialisation_of(params)
    dynamic = _dynamic(dynamic_axes if dynamic_axes is not None else dynamic_shapes, input_names)
    writer = ModelWriter(specialisation, values, script.parameters[0] if root is not None else None,
                         _argument_names(script, root, values), dynamic, opset_version or DEFAULT_OPSET)
    try:
        model = writer.model(input_names, output_names)
    except ScriptError as error:
        raise error.with_traceback(None) from None  # the message has the place
    if path is not None:
        import onnx

        onnx.save(model, os.fspath(path) if isinstance(path, (str, os.PathLike)) else path)
    return model


def _compiled(function: Any) -> tuple[Dispatcher, Any]:
    """The compiled function behind an object, and the instance that is its first argument, if there is one."""
    behind = scripted(function)
    if behind is not None:
        return behind.function, behind.instance
    raise TypeError(f"cannot export a `{type(function).__name__}`: script it first, with `jitgrad.script`")


def _dynamic(axes: Any, input_names: Sequence[str] | None) -> dict[str, dict[int, str]] | None:
    """`dynamic_axes` in one form. A tuple goes with `input_names`; a list of axes makes names of its own."""
    if axes is None:
        return None
    if isinstance(axes, (tuple, list)):
        if input_names is None:
            raise ValueError("a tuple of dynamic axes needs `input_names`")
        axes = dict(zip(input_names, axes, strict=False))
    return {name: {int(a): f"{name}_{a}" for a in which} if isinstance(which, (list, tuple)) else
            {int(a): str(getattr(label, "__name__", label)) for a, label in (which or {}).items() if label is not None}
            for name, which in axes.items()}


def _argument_names(script: Dispatcher, root: Any, values: Mapping[str, Any]) -> dict[sig.Source, str]:
    """A module's arguments are `args` and `kwargs` of its call: by the names of `forward`."""
    if root is None or script.parameters[1:] != ("args", "kwargs") or not hasattr(root, "forward"):
        return {}
    names = [p.name for p in inspect.signature(root.forward).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found: dict[sig.Source, str] = {sig.Item(sig.Arg("args"), i): name for i, name in enumerate(names)}
    found |= {sig.Item(sig.Arg("kwargs"), name): name for name in values["kwargs"]}
    return found

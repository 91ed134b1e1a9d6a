"""What `script` returns: the dispatcher of a function, and all that it shows of what it compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad import config
from jitgrad.script.call.signature import ScriptGraph
from jitgrad.script.call.sources import describe, resolve
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.executor import Dispatcher, Remat, Scripted
from jitgrad.script.graph.ir import Graph
from jitgrad.script.inspect import show  # noqa: F401  (graphs are shown by it)
from jitgrad.script.stored import fingerprints
from jitgrad.script.stored.values import NotSavable

if TYPE_CHECKING:
    from jitgrad.script.inspect.explain import Explanation
    from jitgrad.script.inspect.explain.moved import Traffic


class Writable:
    """What can be written to files: a scripted function, method or module."""

    __slots__ = ()

    def save(self, f: Any, example_inputs: Any = None) -> None:
        """Write all that was compiled, and what it reads, to a file; see `jitgrad.jit.save`."""
        from jitgrad.script.stored.file.save import save

        save(self, f, example_inputs)

    def export_onnx(self, path: Any, *args: Any, **options: Any) -> Any:
        """Write what a call with these arguments runs as an ONNX model; options as of `jitgrad.onnx.export`."""
        from jitgrad.onnx.api import export_function

        return export_function(self, path, *args, **options)


class ScriptFunction(Dispatcher, Writable):
    """A function that `@script` compiles at its first call per signature. Call it like the function.

    Attributes:
        eager: the undecorated function.
        remat: whether, and in how many segments, the gradient runs parts of loops again (`autodiff/segments.py`).
        check: whether the first call of each signature also runs eager and is compared (see `script/inspect/check.py`).
        graph: the graph of the last specialisation that ran, after passes; `print` it for its text.
        grad_graph: its backward.
        code, grad_code: the two as Python that runs.
    """

    def __init__(self, function: Callable[..., Any], check: bool = False, remat: Remat = None):
        super().__init__(function, remat)
        self.check = check

    def __reduce__(self) -> str:
        """Pickled by name, as functions are. Raises TypeError where that name is not this object."""
        try:
            found = fingerprints.import_by_name(self.__module__, self.__qualname__)
        except NotSavable:
            found = None
        if found is not self:
            raise TypeError(f"cannot pickle the scripted function `{self.__qualname__}`: `{self.__module__}."
                            f"{self.__qualname__}` is another object; pickle the plain function and script it again")
        name: str = self.__qualname__
        return name

    def __copy__(self) -> ScriptFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptFunction:
        return self

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.__qualname__}: {len(self.specialisations)} specialisations>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundScript(self, instance)

    def _scripted(self) -> Scripted:
        return Scripted(self, None, self.__name__)

    def _run_first(self, specialisation: Specialisation, params: tuple[Any, ...], entered: Any) -> Any:
        """The call that a specialisation was compiled for: compared with plain Python where that is asked for."""
        if not self.check and not config.current().check:
            return specialisation.run(params, entered)
        from jitgrad.script.inspect.check import checked

        return checked(self, specialisation, params, lambda: specialisation.run(
            params, specialisation.enter(params) or entered))

    def explain(self, *args: Any, backward: bool = True, **kwargs: Any) -> Explanation:
        """What a call with these arguments costs, per line of the source, and why it was compiled as it is.

        The call is compiled once more with a timer around every kernel, matrix product and library call, and run a
        few times; so the figures are measured on these very arguments. Nothing that it does is kept: memory that the
        program writes is copied, assignments to attributes and `.grad` are dropped, what it prints is lost. Expect to
        wait for a compilation and some tenths of a second.

        Args:
            *args: as for a call; their sizes and values are those that are measured.
            backward: also run the gradient of every differentiable result, for a cotangent of ones. Where nothing
                requires a gradient there is none to run.
            **kwargs: as for a call.

        Returns:
            An `Explanation`. `print` it for

            - totals: time of a call, kernels, bytes, FLOP of products, workspace, bytes saved for the backward;
            - a table for each function of yours that takes part: per line time and bytes moved (forward, backward),
              FLOP, bytes that the line saves for the backward, and the steps that run for it;
            - the steps: kernel, product or library call with its share of the time and its rate;
            - why neighbouring ops are not one kernel;
            - decisions while compiling (unrolled loops, guarded sizes) and guards: what must stay for this program to
              be used again, and what is read at every entry and may change freely;
            - for each other specialisation, the first guard or part of the key in which this call differs.

            In notebooks it is shown as a table with bars.

        Raises:
            ScriptError: the function cannot be compiled for these arguments.
            RuntimeError: it calls ignored functions back, whose effects a measurement would repeat; or its tensors
                are on a GPU, of which `traffic` tells.

        >>> import jitgrad
        >>> @jitgrad.script
        ... def loss(x, w):
        ...     h = jitgrad.tanh(x @ w)
        ...     return (h * h).sum()
        >>> report = loss.explain(jitgrad.ones(4, 8), jitgrad.ones(8, 2, requires_grad=True))
        >>> [step.label for step in report.steps]
        ['product 1', 'kernel 1', 'kernel 2', 'product 2']
        >>> report.saved_bytes
        32
        """
        from jitgrad.script.inspect.explain import explain

        return explain(self, self._bind(*args, **kwargs), backward)

    def traffic(self, *args: Any, backward: bool = True, **kwargs: Any) -> Traffic:
        """What a call with these arguments launches and moves on a GPU, counted on any machine; nothing is run.

        Tensors on the CPU are taken as if they were on the GPU. `print` the result for launches, bytes read and
        written, lines of the source and where the host waits, step by step, and why neighbours are not one kernel.

        Args:
            *args: as for a call; their sizes are those that are counted.
            backward: also the gradient of every differentiable result.
            **kwargs: as for a call.

        Raises:
            ScriptError: the function cannot be compiled for these arguments.

        >>> import jitgrad
        >>> @jitgrad.script
        ... def scaled(x, y):
        ...     return (x * y).exp() + x
        >>> found = scaled.traffic(jitgrad.ones(1000, 8), jitgrad.ones(1000, 8))
        >>> found.launches, found.bytes
        (1, 96000)
        """
        from jitgrad.script.inspect.explain.moved import count

        return count(self, self._bind(*args, **kwargs), backward)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph, after passes, that a call with these arguments runs."""
        return self.specialise(*args, **kwargs).function.graph

    @property
    def graph(self) -> Graph:
        return self._latest().function.graph

    @property
    def source(self) -> str:
        """The function's Python source as the compiler read it: regenerated from its AST, comments gone.

        Raises:
            SourceUnavailable: the source cannot be read.
        """
        from jitgrad.script.frontend.source.source import source_of
        from jitgrad.script.inspect.unparse import unparse

        return unparse(source_of(self.eager).node)

    @property
    def code(self) -> str:
        """The graph as a Python module of one function, the user's lines as comments.

        It runs: parameters are the graph's inputs (`graph_inputs(*args)` gives them for a call), what it returns are
        the graph's outputs. Comments above it say where a parameter's value comes from.
        """
        from jitgrad.script.inspect.pycode import to_python
        from jitgrad.script.passes.dce import without_outputs

        latest = self._latest()
        graph = latest.function.graph
        shown = without_outputs(graph, _besides(latest.script, len(graph.outputs)))
        return to_python(shown, [describe(s) for s in latest.script.inputs])

    @property
    def grad_code(self) -> str:
        """The gradient as a Python module of two functions: one that returns (results, saved), one that takes saved
        values and a cotangent per differentiable result and returns a gradient, or None, per input that has one.

        Raises:
            RuntimeError: the last specialisation has no gradient (nothing requires one).
        """
        from jitgrad.script.inspect.pycode import gradient_to_python
        from jitgrad.script.passes.dce import without_outputs

        latest = self._latest()
        forward, backward = latest.function.gradient_graphs()
        n = len(latest.function.graph.outputs)
        besides = _besides(latest.script, n)
        forward, shown = without_outputs(forward, besides), n - len(besides)
        return gradient_to_python(forward, backward, shown, [describe(s) for s in latest.script.inputs])

    @property
    def grad_graph(self) -> Graph:
        """The backward as a graph: saved values and cotangents in; for each gradient the value, and whether any came.

        Raises:
            RuntimeError: the last specialisation has no gradient (nothing requires one).
        """
        return self._latest().function.gradient_graphs()[1]

    def graph_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The objects that a call with these arguments gives to the graph: its parameters in `code`, in order."""
        params = self._bind(*args, **kwargs)
        values = self.values_of(params)
        return [resolve(s, values) for s in self.specialisation_of(params).script.inputs]

    def kernels(self, *args: Any, device: str = "cpu", **kwargs: Any) -> list[str]:
        """The generated kernels as text, forward then backward; of the last specialisation where no arguments.

        `device="cuda"`: those that a GPU would run for the arguments, as CUDA C++, on any machine; without arguments
        those of the graph as it was specialised. ValueError for another device.
        """
        if device.partition(":")[0] == "cuda" and (args or kwargs):
            from jitgrad.script.inspect.explain.moved import module_of

            return module_of(self, self._bind(*args, **kwargs)).sources
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.kernels(device)

    def raw_kernels(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The kernels that a call would launch on CuPy's current GPU, by name, each a `cupy.RawKernel`.

        `kernel(grid, block, arguments, shared_mem=0)` launches one; `f.kernels(*args, device="cuda")` says what its
        arguments are. It writes where a call writes; nothing keeps it from writing elsewhere.

        Raises:
            RuntimeError: there is no GPU, or a package for it is missing.
        """
        from jitgrad.codegen.cuda.driver.rawkernels import raw_kernels
        from jitgrad.script.inspect.explain.moved import module_of

        return raw_kernels(module_of(self, self._bind(*args, **kwargs)).source())

    def elementwise_kernel(self, *args: Any, **kwargs: Any) -> Any:
        """All that a call does as one `cupy.ElementwiseKernel` of several results, where it is pointwise.

        It is called with CuPy arrays and numbers in the order of the function's, and broadcasts; half types go in and
        out as their bits, uint16.

        Raises:
            NotImplementedError: something in the function is not pointwise, or a result is smaller than the others.
            RuntimeError: CuPy is not installed.
        """
        from jitgrad.cuda.elementwise import of_graph
        from jitgrad.eager.autograd.grad_mode import no_grad
        from jitgrad.script.inspect.explain.moved import on_gpu

        with no_grad():
            made, _ = on_gpu(self, self._bind(*args, **kwargs))
        return of_graph(made.graphs["forward"])

    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The machine code as text, forward then backward; of the last specialisation where no arguments."""
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.asm()

    def _latest(self) -> Specialisation:
        if not self.specialisations:
            raise RuntimeError(f"`{self.__name__}` has not been called yet: call it, or use "
                               f"`{self.__name__}.graph_for(*args)`")
        return self.specialisations[0]


def _besides(script: ScriptGraph, outputs: int) -> set[int]:
    """Which of a program's outputs are neither results nor stored, but say something of these."""
    return {*range(script.results, outputs), *script.whose}


class BoundScript(Writable):
    """A scripted method bound to an instance; the instance is part of the key."""

    __slots__ = ("__self__", "_script")

    def __init__(self, script: ScriptFunction, instance: Any):
        self._script, self.__self__ = script, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._script(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__", "__wrapped__"):
            raise AttributeError(name)  # protocols, such as copying, are the bound method's own
        attribute = getattr(self._script, name)
        if name in ("eager", "explain", "traffic", "graph_for", "graph_inputs", "specialise"):
            return functools.partial(attribute, self.__self__)
        if name in ("kernels", "asm"):
            return lambda *args, **kwargs: (attribute(self.__self__, *args, **kwargs) if args or kwargs
                                            else attribute())
        return attribute

    def _scripted(self) -> Scripted:
        return Scripted(self._script, self.__self__, self._script.__name__)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundScript, (self._script, self.__self__)

    def __repr__(self) -> str:
        return f"<bound {self._script!r} of {type(self.__self__).__name__}>"

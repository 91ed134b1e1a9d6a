"""Which of PyTorch's public names are here: `python -m tools.api_coverage` writes docs/api_coverage.md.

`tools/torch_names.txt` has PyTorch's names. Of a function or method it is tried, with a call that `tests/calls` makes
of its signature, whether the results have gradients, and whether a script runs it: natively, or by a call back to
NumPy. What is missing and not about dense tensors of numbers is left out by rules, `OUTSIDE`.
"""

from __future__ import annotations

import functools
import importlib.util
import operator
import re
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NAMES = Path(__file__).with_name("torch_names.txt")
PAGE = Path(__file__).parent.parent / "docs" / "api_coverage.md"

#: a reason, and the names that it holds for
OUTSIDE: tuple[tuple[str, str], ...] = (
    ("quantized tensors", r"q_.*|.*quanti[zs].*|q?scheme|qu?int\d.*|fbgemm_.*|int_repr|fake_quant.*|fused_moving.*|"
     r"choose_qparams.*|per_(channel|tensor)_.*|.*_mm|linear_cross_entropy|LinearCrossEntropy.*|ScalingType|SwizzleType"),
    ("sparse and jagged layouts", r".*sparse.*|coalesce|is_coalesced|c?col_indices.*|c?row_indices.*|crow.*|.?smm|"
     r"hspmm|spmm|dsmm|sspaddmm|saddmm|jagged|indices(_copy)?|values(_copy)?|to_padded_tensor|SparseAdam|.*nested.*"),
    ("libraries that PyTorch calls", r".*(cudnn|miopen|mkldnn|mkl|openmp|lapack|spectral).*"),
    ("other devices", r".*(?<!fl)(ipu|xla|xpu|hpu|mtia|vulkan|mps)(?!ud).*|get_device_module|DeviceObjType|"
     r"StreamObjType"),
    ("several machines, or several GPUs at once", r".*[dD]istributed(?!ions).*|DataParallel|SyncBatchNorm|RRefType|"
     r"swap_in_.*"),
    ("tensors with named axes", r"align_.*|refine_names|rename_?|names|has_names|name|index"),
    ("the inside of TorchScript and of its passes", r"(?!Generator|Size|Event|Stream)[A-Z].*(Type|Script.*|Module"
     r"Serializer|Schema|Executor.*|Spec|Stats|Config|Logger|LoggerBase|Dict|Value|Graph|Node|Use|Block|Code|Gradient|"
     r"Argument|State|Reader|Writer|Context|Db|Guard|Key|KeySet|Tag|Check|Report|Stack|Info|Unit|Capsule|Plan|Property|"
     r"Table|Descriptor|Benchmark|Iterator|Subclass|Function|Future|Await|Error|Exception)|Argument|AliasDb|Block|Code|"
     r"Gradient|Graph|Node|Use|Value|Type|Tag|Capsule|Future|ScriptObject.*|Script.*|ThroughputBenchmark|PyTorchFile.*|"
     r"ExecutionPlan|StaticModule|FileCheck|import_ir.*|parse_.*|merge_type.*|unify_type.*|fork|wait|IODescriptor|"
     r"compiled_with.*|AVG|SUM|LockingLogger|NoopLogger|ConcreteModule.*|Disable.*|PRIVATE_OPS|classproperty|"
     r"get_file_path|prepare_multi.*|profiler_allow.*|.*autocast_(in|de)crement.*|DeserializationStorage.*|has_cuda|"
     r"has_mps|LoggerBase|autocast_.*|Serialization.*|init_num_threads|thread_safe_generator"),
    ("sizes that a tracer has not seen", r"sym_.*|Sym.*"),
    ("untyped memory, and classes of it", r".*Storage(Base)?|storage.*|untyped_storage|is_storage|const_data_ptr"),
    ("kernels behind other functions", r"native_.*|.*_copy|.*backward.*|batch_norm_.*|.*_stats.*|norm_except_dim|"
     r"slice_inverse|grid_sampler.*|affine_grid_generator|feature_dropout_?|.*_cell|convolution|embedding_renorm_|"
     r"max_pool1d_with_indices|has_torch_function.*|handle_torch_function|boolean_dispatch|assert_int.*|Broadcasting.*|"
     r"DType|hash_tensor|debug_unwrap|factory_kwargs"),
    ("numbers of other formats", r"float[48]_.*|bits\d.*|bit|u?int[1-7]|complex32|chalf"),
    ("removed from PyTorch", r"eig|lstsq|symeig|solve|matrix_rank|volatile|reinforce|resize|resize_as|Container|"
     r"set_anomaly_enabled"),
    ("pipelines of data, deprecated", r".*DataPipe|functional_datapipe|.*datapipes.*|DataChunk|non_deterministic|"
     r"runtime_validation.*|argument_validation"),
    ("streams and hooks of CUDA's allocator", r"record_stream|.*cudagraph.*"),
)
_OUTSIDE = [(reason, re.compile(rf"(?:{pattern})\Z")) for reason, pattern in OUTSIDE]
#: namespaces of the same names as one that is out of scope elsewhere
_INSIDE = {("torch.linalg", name) for name in ("eig", "lstsq", "solve", "matrix_rank")} | {
    ("torch.nn", name) for name in ("ModuleDict", "ParameterDict")} | {("torch.optim", "Optimizer")}


@dataclass(frozen=True, slots=True)
class Name:
    """A public name of PyTorch: where it is, what it is, and whether its results have gradients there."""

    space: str
    name: str
    kind: str
    grad: bool

    @property
    def outside(self) -> str:
        """Why it is no aim, "" where it is one."""
        if (self.space, self.name) in _INSIDE:
            return ""
        return next((reason for reason, pattern in _OUTSIDE if pattern.match(self.name)), "")


@functools.cache
def names() -> tuple[Name, ...]:
    """PyTorch's names, as they were recorded."""
    found, space = [], ""
    for line in NAMES.read_text().splitlines():
        if line.startswith("["):
            space = line[1:-1]
        elif not line.startswith("#"):
            name, kind, *grad = line.split()
            found.append(Name(space, name, kind, bool(grad)))
    return tuple(found)


def is_there(module: Any, space: str, name: str) -> bool:
    """Whether a library has a name."""
    try:
        owner = module.Tensor if space == "Tensor" else operator.attrgetter(space.partition(".")[2])(
            module) if "." in space else module
    except AttributeError:
        return False
    return hasattr(owner, name)


def aims(module: Any, space: str) -> list[Name]:
    """The names of a namespace that are in scope, or there anyway."""
    return [n for n in names() if n.space == space and (not n.outside or is_there(module, space, n.name))]


# --- trying --------------------------------------------------------------------------------------------------------


def texts(space: str, name: str) -> list[str]:
    """Calls of a function, as expressions."""
    from tests.calls.generator import PREFIX, calls

    if space != "Tensor" and space not in PREFIX:
        return []
    return list(dict.fromkeys(call.text for call in calls(space, name) if not call.out and "nonsense" not in call.text))


def leaves(result: Any) -> list[Any]:
    """The tensors in a result."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result] if hasattr(result, "requires_grad") else []


def tried(module: Any, space: str, name: str, needs: bool) -> tuple[str, Any]:
    """The first call of a function that works, with a gradient if that `needs` one, and its result; "" for none."""
    from tests.calls.arguments import TENSORS

    for text in texts(space, name):
        scope: dict[str, Any] = {"t": module, "F": module.nn.functional}
        for key, array in TENSORS.items():
            x = module.from_numpy(array.copy())
            scope[key] = x.requires_grad_().clone() if needs and x.dtype.is_floating_point else x
        module.manual_seed(0)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                result = eval(text, scope)
        except Exception:
            continue  # the next one may do
        if not needs or any(x.requires_grad for x in leaves(result)):
            return text, result
    return "", None


def differentiable(module: Any, space: str, name: str) -> bool:
    """Whether a function gives a result with a gradient, in some call."""
    return tried(module, space, name, needs=True)[0] != ""


def scripted(space: str, name: str, folder: Path) -> str:
    """How a script runs a function: "native", "call-back", "no"; "" where no call is known, or eager has none."""
    import jitgrad
    from jitgrad import config
    from jitgrad.codegen.lower.block import RULES
    from jitgrad.ops import OPS
    from tests.calls.arguments import TENSORS

    text, _ = tried(jitgrad, space, name, needs=False)
    if not text:
        return ""
    used = [n for n in TENSORS if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"(=])", text)]
    path = folder / f"{space.replace('.', '_')}_{name}.py"
    path.write_text(f"import jitgrad as t\nimport jitgrad.nn.functional as F\ndef f({', '.join(used)}):\n"
                    f"    return {text}\n")
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = jitgrad.script(module.f)
    try:
        with config.override(interpret=True), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*[jitgrad.from_numpy(TENSORS[n].copy()) for n in used])
    except Exception:
        return "no"
    ops = re.findall(r"= ([a-z_0-9.]+)\(", str(function.graph))
    back = any(op == "callback" or (op in OPS and op not in RULES and "in_library" in OPS[op].traits)
               for op in ops)
    return "call-back" if back else "native"


# --- the page ------------------------------------------------------------------------------------------------------

HEAD = """\
# Which of PyTorch's names are here

Of PyTorch 2.13's public names (`tools/torch_names.txt`), those that are about dense tensors. A *gradient* is counted
where PyTorch's results have one, and a *script* where `tests/calls` makes a call of the function that works: it runs it
natively, calls back to NumPy for a part of it, or refuses. Classes, constants and what has no such call count as names
alone. `python -m tools.api_coverage` writes this page.

"""


def share(part: int, whole: int) -> str:
    """`97% (33 of 34)`."""
    return f"{100 * part // whole}% ({part} of {whole})" if whole else ""


def page() -> str:
    """The text of the page."""
    import jitgrad

    lines = [HEAD + "| | names | gradients | scripts | of these natively |\n| --- | --- | --- | --- | --- |"]
    details = []
    spaces = list(dict.fromkeys(n.space for n in names()))
    with tempfile.TemporaryDirectory() as folder:
        for space in spaces:
            own = aims(jitgrad, space)
            there = [n for n in own if is_there(jitgrad, space, n.name)]
            functions = [n for n in there if n.kind == "function"]
            smooth = [n for n in functions if n.grad]
            dull = [n.name for n in smooth if not differentiable(jitgrad, space, n.name)]
            ways = {n.name: scripted(space, n.name, Path(folder)) for n in functions}
            count = Counter(ways.values())
            ran = count["native"] + count["call-back"]
            lines.append(f"| `{space}` | {share(len(there), len(own))} | {share(len(smooth) - len(dull), len(smooth))} "
                         f"| {share(ran, ran + count['no'])} | {share(count['native'], ran)} |")
            details.append(f"\n## {space}\n")
            for title, found in (("missing", [n.name for n in own if n not in there]), ("without gradient", dull),
                                 ("calls back in scripts", [n for n, way in ways.items() if way == "call-back"]),
                                 ("refused in scripts", [n for n, way in ways.items() if way == "no"])):
                if found:
                    details.append(f"- {title} ({len(found)}): {', '.join(f'`{n}`' for n in found)}")
    details.append("\n## Left out\n\n| why | names |\n| --- | --- |")
    aimed = {(n.space, n.name) for space in spaces for n in aims(jitgrad, space)}
    left_out = [n for n in names() if (n.space, n.name) not in aimed]
    for reason in dict.fromkeys(n.outside for n in left_out):
        left = dict.fromkeys(n.name for n in left_out if n.outside == reason)
        details.append(f"| {reason} | {', '.join(f'`{n}`' for n in left)} |")
    return "\n".join([*lines, *details]) + "\n"


def main() -> None:
    """Write the page, and print its table."""
    text = page()
    PAGE.write_text(text)
    sys.stdout.write(text.partition("\n## ")[0] + "\n")


if __name__ == "__main__":
    main()

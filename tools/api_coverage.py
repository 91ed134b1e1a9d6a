"""Which of PyTorch's public names are here: `python -m tools.api_coverage` writes docs/api_coverage.md.

`tools/torch_names.txt` has PyTorch's names. Of a function or method it is tried, with a call that `tests/calls` makes
of its signature, whether the results have gradients, whether a script runs it (natively, or by a call back to NumPy),
and whether both do the same with tensors of a GPU (`tools/api_tries.py`). What is missing and not about dense tensors
of numbers is left out by rules, `OUTSIDE`.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.api_tries import differentiable, on_cuda, scripted

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


# --- the page ------------------------------------------------------------------------------------------------------

HEAD = """\
# Which of PyTorch's names are here

Of PyTorch 2.13's public names (`tools/torch_names.txt`), those that are about dense tensors. A *gradient* is counted
where PyTorch's results have one, and a *script* where `tests/calls` makes a call of the function that works: it runs it
natively, calls back to NumPy for a part of it, or refuses. *CUDA* is the same call, with its gradients, on tensors of a
GPU: everything is as on the CPU, and on the GPU; in *CUDA scripts* it is compiled to CUDA C++ and run there too, by the
graph's interpreter. The GPU is the tests' stand-in for CuPy on NumPy. What differs there by its meaning counts as
different: what comes from the host's memory or goes there, and what tells the device. Classes, constants and what has
no such call count as names alone. `python -m tools.api_coverage` writes this page.

"""


def share(part: int, whole: int) -> str:
    """`97% (33 of 34)`."""
    return f"{100 * part // whole}% ({part} of {whole})" if whole else ""


COLUMNS = ("", "names", "gradients", "scripts", "of these natively", "CUDA", "CUDA scripts")


def section(space: str, folder: Path) -> tuple[list[str], dict[str, list[str]]]:
    """A namespace's row of the table, and the names that are not in all columns, by what they lack."""
    import jitgrad

    own = aims(jitgrad, space)
    there = [n for n in own if is_there(jitgrad, space, n.name)]
    functions = [n.name for n in there if n.kind == "function"]
    smooth = [n.name for n in there if n.kind == "function" and n.grad]
    ways = {name: scripted(space, name, folder) for name in functions}
    called = [name for name, (way, _) in ways.items() if way]
    ran = [name for name in called if ways[name][0] != "no"]
    lacks = {"missing": [n.name for n in own if n not in there],
             "without gradient": [name for name in smooth if not differentiable(jitgrad, space, name)],
             "refused in scripts": [name for name in called if name not in ran],
             "calls back in scripts": [name for name in ran if ways[name][0] == "call-back"],
             "different on CUDA": [name for name in called if on_cuda(space, name)],
             "different in CUDA scripts": [name for name in ran if ways[name][1]]}
    of: tuple[list[Any], ...] = (own, smooth, called, ran, called, ran)
    shares = [share(len(whole) - len(lack), len(whole)) for whole, lack in zip(of, lacks.values(), strict=True)]
    return [f"`{space}`", *shares], lacks


def page() -> str:
    """The text of the page."""
    import jitgrad

    lines = [HEAD + f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    details = []
    spaces = list(dict.fromkeys(n.space for n in names()))
    with tempfile.TemporaryDirectory() as folder:
        for space in spaces:
            row, lacks = section(space, Path(folder))
            lines.append(f"| {' | '.join(row)} |")
            details.append(f"\n## {space}\n")
            details += [f"- {title} ({len(found)}): {', '.join(f'`{n}`' for n in found)}"
                        for title, found in lacks.items() if found]
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

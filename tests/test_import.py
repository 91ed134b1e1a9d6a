"""`import jitgrad` is light, and everything that the namespace promises is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import jitgrad

#: names that public programs use (the design's list); `distributions`, sparse and device names apart
TORCH = [
    "rand", "Tensor", "tensor", "randn", "cat", "sigmoid", "ones", "int32", "matmul", "tanh", "sum", "clamp",
    "manual_seed", "flatten", "mean", "randint", "zeros", "no_grad", "arange", "stack", "tril", "cumsum", "logsumexp",
    "min", "relu", "einsum", "int64", "int", "device", "softmax", "exp", "save", "uint8", "zeros_like", "max",
    "cumprod", "long", "abs", "multinomial", "pow", "eye", "log", "bool", "float32", "load", "linspace", "from_numpy",
    "topk", "where", "sign", "LongTensor", "mm", "randperm", "maximum", "meshgrid", "copysign", "full_like",
    "std_mean", "log2", "diag", "empty", "ones_like", "roll", "FloatTensor", "cos", "float", "full", "inf", "norm",
    "sin", "sqrt", "minimum", "double", "erf", "logaddexp", "exp2", "int8", "log10", "triu", "logical_not", "argmax",
    "argmin", "argsort", "bmm", "div", "float64", "inference_mode", "isfinite", "isinf", "isnan", "log1p",
    "log_softmax", "multiply", "randn_like", "selu", "enable_grad", "set_grad_enabled", "is_tensor", "typename",
    "get_default_dtype", "set_default_dtype", "finfo", "iinfo", "nan", "pi", "e", "float16", "half", "Size",
    "as_tensor", "bernoulli", "normal", "var", "std", "prod", "all", "any", "outer", "dot", "mv", "addmm", "lerp",
    "allclose", "isclose", "equal", "sort", "set_printoptions",
]

METHODS = [
    "view", "size", "sum", "item", "type", "transpose", "matmul", "backward", "int", "unsqueeze", "device", "to",
    "mean", "shape", "contiguous", "relu", "masked_fill", "reshape", "detach", "float", "split", "permute", "std",
    "argmax", "max", "T", "squeeze", "var", "clip", "grad", "data", "all", "flatten", "numel", "clone", "flip",
    "isclose", "scatter", "any", "repeat", "softmax", "mul", "pow", "scatter_reduce", "eq", "half", "tolist", "bool",
    "exp", "numpy", "t", "expand", "prod", "unfold", "min", "round", "add", "copy_", "double", "new_zeros",
    "requires_grad", "dim", "sigmoid", "tanh", "add_", "narrow", "view_as", "roll", "div", "tril", "triu", "gather",
    "argmin", "diagonal", "sort", "cos", "repeat_interleave", "tan", "topk", "chunk", "nonzero", "sin", "acos",
    "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cosh", "floor", "fmod", "log_softmax", "rsqrt", "sinh",
    "sqrt", "trunc", "unflatten", "bitwise_not", "cpu", "fill_", "is_cuda", "lerp", "masked_select", "neg",
    "bitwise_left_shift", "bitwise_right_shift", "diag", "dtype", "exp2", "log2", "mT", "mm", "norm", "select",
    "zero_", "requires_grad_", "normal_", "uniform_", "sub_", "mul_", "div_", "clamp_", "data_ptr", "stride",
    "is_contiguous", "new_ones", "index_select", "index_add_", "masked_fill_", "type_as",
]

FUNCTIONAL = [
    "gelu", "pad", "relu", "softmax", "log_softmax", "cross_entropy", "mish", "nll_loss",
    "scaled_dot_product_attention", "leaky_relu", "hardswish", "normalize", "hardtanh", "softplus", "elu",
    "hardsigmoid", "binary_cross_entropy", "binary_cross_entropy_with_logits", "smooth_l1_loss", "silu", "softsign",
    "tanh", "celu", "dropout", "logsigmoid", "one_hot", "relu6", "selu", "sigmoid", "kl_div", "layer_norm", "linear",
    "embedding", "mse_loss", "l1_loss", "huber_loss", "cosine_similarity", "pairwise_distance", "group_norm",
    "batch_norm",
]


def run(code: str) -> str:
    """The output of `code` in a fresh interpreter."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_import_loads_no_compiler() -> None:
    loaded = run("import sys, jitgrad; print(' '.join(sys.modules))").split()
    for name in ("llvmlite", "cupy", "astunparse", "scipy", "torch", "jitgrad.script.executor", "jitgrad.nn",
                 "jitgrad.codegen.llvm.engine", "jitgrad.optim"):
        assert name not in loaded, name


def test_a_first_script_loads_nothing_that_few_need() -> None:
    assert run("""
import sys, jitgrad
jitgrad.script(lambda x: x * 2)(jitgrad.ones(2))
print([name for name in ("logging", "numpy.random") if name in sys.modules])
""") == "[]\n"


def test_random_numbers_are_our_own() -> None:
    """NumPy's take a tenth of the time in which all of eager is imported."""
    assert "numpy.random" not in run("import sys, jitgrad; jitgrad.randn(2); print(' '.join(sys.modules))").split()


def test_script_is_the_decorator_and_the_package() -> None:
    assert run("import jitgrad; from jitgrad.script.graph import ir; from jitgrad.script.graph.ir import Graph;"
               "import jitgrad.script.graph.text; print(callable(jitgrad.script), ir.Graph is Graph)") == "True True\n"


def test_submodules_come_on_first_use() -> None:
    assert run("import jitgrad as torch; print(torch.nn.functional.relu(torch.tensor([-1.0, 2.0])).tolist(),"
               "torch.cuda.is_available(), torch.accelerator.current_accelerator())").split("\n")[0] == (
                   "[0.0, 2.0] False None")


def test_every_public_name_resolves() -> None:
    for name in jitgrad.__all__:
        assert getattr(jitgrad, name, jitgrad) is not jitgrad, name
    assert set(jitgrad.__all__) <= set(dir(jitgrad))


@pytest.mark.parametrize("name", TORCH)
def test_torch_names(name: str) -> None:
    assert hasattr(jitgrad, name)


@pytest.mark.parametrize("name", METHODS)
def test_tensor_names(name: str) -> None:
    assert hasattr(jitgrad.Tensor, name)


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_names(name: str) -> None:
    assert hasattr(jitgrad.nn.functional, name)


def test_layers_are_in_nn_and_in_nn_modules() -> None:
    modules = jitgrad.nn.modules
    assert {"Linear", "LSTMCell", "Module", "Sequential", "CrossEntropyLoss"} <= set(modules.__all__)
    assert all(isinstance(getattr(modules, name), type) and getattr(jitgrad.nn, name) is getattr(modules, name)
               for name in modules.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'jitgrad' has no attribute 'nothing'"):
        _ = jitgrad.nothing
    with pytest.raises(ImportError):
        from jitgrad import nothing_at_all  # type: ignore[attr-defined]  # noqa: F401

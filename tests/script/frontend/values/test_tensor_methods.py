"""Every public name of an eager tensor is one of a script's; what is left out is listed, and refused by name."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import UnsupportedCall
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
NS = tuple((t(3), n) for n in (0, 1, 2, 5))
#: what is about the tensor's memory or its tape; sparse tensors are made by `sparse.to_sparse` in scripts
LEFT_OUT = {"grad_dtype", "is_pinned", "is_shared", "numpy", "output_nr", "resize_", "resize_as_", "set_",
            "share_memory_", "to_sparse", "to_sparse_coo", "to_sparse_csr"}
#: what holds anything, or needs a GPU
UNCERTAIN = {"new_empty", "cuda", "pin_memory"}
#: what has tests of its own
TESTED = {"backward", "data_ptr", "stride", "storage_offset", "squeeze_", "swapaxes_", "swapdims_", "t_",
          "transpose_", "unsqueeze_", "register_post_accumulate_grad_hook", "apply_", "as_strided", "as_strided_",
          "as_strided_scatter", "as_subclass", "dim_order", "float_power_", "geometric_", "imag", "index_reduce",
          "index_reduce_", "is_set_to", "istft", "map2_", "map_", "new_empty_strided", "nonzero_static", "renorm",
          "renorm_", "split_with_sizes", "stft", "unsafe_split_with_sizes"}
#: what ARGUMENTS do not fit
TEXTS = {
    "baddbmm": "x.unsqueeze(0).baddbmm(x.unsqueeze(0), x.unsqueeze(0))", "cholesky": "torch.eye(2).cholesky()",
    "baddbmm_": "(x.unsqueeze(0) * 1).baddbmm_(x.unsqueeze(0), x.unsqueeze(0))", "item": "x.sum().item()",
    "cross": "torch.ones(3).cross(torch.arange(3.0))", "is_nonzero": "x.sum().is_nonzero()",
    "masked_scatter": "x.masked_scatter(x > 1, x)", "masked_scatter_": "(x * 1).masked_scatter_(x > 1, x)",
    "masked_select": "x.masked_select(x > 1)", "put": "x.put(i, x[0])", "put_": "(x * 1).put_(i, x[0])",
    "lu_solve": "x.lu_solve(*torch.linalg.lu_factor(x))", "select_scatter": "x.select_scatter(x[0], 0, 1)",
    "scatter_add": "x.scatter_add(0, i.expand(2, 2), x)", "scatter_add_": "(x * 1).scatter_add_(0, i.expand(2, 2), x)",
    "addbmm": "x.addbmm(x.unsqueeze(0), x.unsqueeze(0))", "addbmm_": "(x * 1).addbmm_(x.unsqueeze(0), x.unsqueeze(0))",
    "gcd": "i.gcd(i)", "gcd_": "i.clone().gcd_(i)", "lcm": "i.lcm(i)", "lcm_": "i.clone().lcm_(i)",
    "take": "x.take(i)", "take_along_dim": "x.take_along_dim(i.unsqueeze(0), 1)",
    "scatter_reduce": "x.scatter_reduce(0, i.expand(2, 2), x, 'amax')",
    "scatter_reduce_": "(x * 1).scatter_reduce_(0, i.expand(2, 2), x, 'amax')"}
NAMES = [name for name in dir(Tensor) if not name.startswith("_") and name not in UNCERTAIN | TESTED]
ARGUMENTS = ("", "x", "0", "2", "0, 1", "0, 0", "x, x", "0, i, x", "0, i", "x[0]", "x > 1, 0", "(2, 2)",
             "(i, i), x[0]", "x.unsqueeze(0)", "x, x.unsqueeze(0), x.unsqueeze(0)", "x[0], x[0]", "0, i, x, 'sum'",
             "0, i, 1", "x[0], 0", "x, x[0]", "0, 0, 1", "0, 2, 1", "0, (1, 2)", "lambda g: g")


def _expression(folder, text):
    """The function of one expression in x and i, in a file of its own."""
    path = folder / "expression.py"
    path.write_text(f"def f(x, i):\n    return {text}\n")
    scope = {"torch": torch}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["f"]


def _first(name, folder):
    """A function that eager can run, what it is given and what it gives."""
    calls = [f"({arguments})" for arguments in ARGUMENTS] if callable(getattr(Tensor, name)) else [""]
    texts = [f"{x}.{name}{call}" for call in calls for x in ("(x * 1)", "(x[0] * 1)", "i.clone()", "x.unsqueeze(0)")]
    for text in [TEXTS[name]] if name in TEXTS else texts:
        function = _expression(folder, text)
        given = (torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=name in ("register_hook", "retain_grad")),
                 torch.tensor([0, 1]))
        torch.manual_seed(0)
        try:
            return function, given, function(*given)
        except Exception:  # these are no arguments of it
            continue
    raise AssertionError(f"nothing to try `{name}` with")


@pytest.mark.parametrize("name", NAMES)
def test_names(name, tmp_path):
    function, given, expected = _first(name, tmp_path)
    torch.manual_seed(0)
    if name in LEFT_OUT:
        with pytest.raises(UnsupportedCall):
            torch.script(function)(*given)
        return
    found = torch.script(function)(*given)
    if isinstance(expected, Tensor):
        assert found.dtype is expected.dtype
        wide = torch.complex128 if expected.is_complex() else torch.float64
        assert torch.allclose(found.to(wide), expected.to(wide), equal_nan=True)


@program(*NS)
def history_cut_in_some_iterations(x, n):
    h, total = x * 2, x.sum()
    for k in range(n):
        h = h * x + h
        total = total + h.sum()
        if k % 2 == 1:
            h.detach_()
    return total, h, h.requires_grad


@program(*NS)
def names_and_views(x, n):
    y = x * 2
    v, z, before = y[0:1], y, y * x
    y.detach_()
    return y * 3, v * n, z, z is y, z.requires_grad == v.requires_grad, before


@program(*NS)
def written_after_it(x, n):
    y = x * 2
    y.detach_()
    y.mul_(x + n)
    return y, y.detach_().requires_grad


@program(*NS)
def a_leaf_that_the_script_made(x, n):
    y = x.detach().clone().requires_grad_()
    loss = (y * y * n).sum()
    y.detach_()
    loss.backward()
    return y.grad, y.requires_grad, y * x


@program(*NS)
def an_item_of_a_list(x, n):
    ys = [x * k for k in range(3)]
    z = ys[1] * 2
    ys[n % 3].detach_()
    return ys[0], ys[1], ys[2], z


@program(*NS)
def one_that_a_branch_chose(x, n):
    y = x * 3
    z = y if n > 1 else x * 2
    z.detach_()
    return z, y


@program(*NS)
def a_view_has_none(x, n):
    y = x * n
    try:
        y[0:1].detach_()
    except RuntimeError as error:
        print(error)
    print("and now")
    y.view(-1).detach_()
    return y


@program(*NS)
def what_has_no_history(x, n):
    y = x.detach() * n
    y.detach_()
    return x.detach().detach_() * 2 + y + x, hasattr(x, "stride"), hasattr(x, "data_ptr"), hasattr(x, "foo")


test_programs = suite(PROGRAMS)

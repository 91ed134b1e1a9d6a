"""Padding modes, interpolation and pixel shuffles against torch, in all three ways of running."""

# ruff: noqa: E501  (tables)

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F

torch = pytest.importorskip("torch")

CASES = [
    ("pad", (2, 3, 5), ((1, 2), "reflect"), {}), ("pad", (2, 3, 5, 4), ((1, 2, 3, 0), "reflect"), {}), ("pad", (3, 5), ((4, 4), "reflect"), {}),
    ("pad", (2, 3, 5, 4), ((1, 2, 3, 9), "replicate"), {}), ("pad", (1, 2, 3, 4, 3), ((1, 2, 0, 1, 2, 1), "replicate"), {}), ("pad", (2, 3, 4), ((1, 2, 2, 1), "replicate"), {}),
    ("pad", (2, 3, 5, 4), ((4, 2, 5, 0), "circular"), {}), ("pad", (2, 3, 5), ((1, 1), "circular"), {}), ("pad", (1, 2, 3, 4, 3), ((1, 2, 0, 1, 2, 1), "reflect"), {}),
    ("pad", (2, 3, 5, 4), ((1, -1, -2, 2),), {"value": 1.5}),
    ("interpolate", (2, 3, 5), (), {"size": 8}), ("interpolate", (2, 3, 5, 4), (), {"scale_factor": 2}), ("interpolate", (2, 3, 5, 4), (), {"scale_factor": (1.5, 0.7)}),
    ("interpolate", (2, 3, 5, 4), (3,), {"mode": "nearest-exact"}), ("interpolate", (1, 2, 3, 4, 2), ((4, 2, 5),), {}), ("interpolate", (2, 3, 5), (9,), {"mode": "linear"}),
    ("interpolate", (2, 3, 5, 4), ((3, 9),), {"mode": "bilinear"}), ("interpolate", (2, 3, 5, 4), ((3, 9),), {"mode": "bilinear", "align_corners": True}),
    ("interpolate", (2, 3, 5, 4), (), {"scale_factor": 2.3, "mode": "bilinear"}), ("interpolate", (2, 3, 5, 4), (), {"scale_factor": 2.3, "mode": "bilinear", "recompute_scale_factor": True}),
    ("interpolate", (2, 3, 5, 4), (1,), {"mode": "bilinear", "align_corners": True}), ("interpolate", (1, 2, 3, 4, 2), ((4, 2, 5),), {"mode": "trilinear"}),
    ("interpolate", (2, 3, 5, 4), ((7, 3),), {"mode": "bicubic"}), ("interpolate", (2, 3, 5, 4), (), {"scale_factor": 1.7, "mode": "bicubic", "align_corners": True}),
    ("interpolate", (2, 3, 6, 5), (3,), {"mode": "area"}), ("interpolate", (2, 3, 6, 5), (), {"scale_factor": 0.5, "mode": "area"}),
    ("pixel_shuffle", (2, 8, 3, 4), (2,), {}), ("pixel_shuffle", (9, 2, 2), (3,), {}), ("pixel_unshuffle", (2, 2, 4, 6), (2,), {}), ("channel_shuffle", (2, 6, 3, 2), (3,), {}),
    ("local_response_norm", (2, 5, 3, 4), (3,), {"alpha": 0.5}), ("local_response_norm", (2, 5, 4), (2,), {"beta": 1.5, "k": 2.0, "alpha": 0.3}),
    ("instance_norm", (2, 3, 4, 5), (), {}), ("instance_norm", (2, 3, 7), (), {"eps": 0.1}),
]


def gradients(library, fn, array):
    x = library.tensor(array, requires_grad=True)
    y = fn(x)
    (first,) = library.autograd.grad((y * y * y).sum(), [x], create_graph=True)
    (second,) = library.autograd.grad((first * first).sum(), [x])
    return [t.detach().numpy() for t in (y, first, second)]


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_values_and_gradients(case):
    name, shape, args, kwargs = case
    array = np.random.default_rng(0).standard_normal(shape)
    expected = gradients(torch, lambda x: getattr(torch.nn.functional, name)(x, *args, **kwargs), array)

    def fn(x):
        return getattr(F, name)(x, *args, **kwargs)

    for mode, run in (("eager", fn), ("native", jitgrad.script(fn)), ("interpreted", jitgrad.script(fn))):
        with config.override(interpret=mode == "interpreted"):
            ours = gradients(jitgrad, run, array)
        for k, (a, b) in enumerate(zip(ours, expected, strict=True)):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8, err_msg=f"{mode} {k}")


@pytest.mark.parametrize("kwargs", [{"size": (7, 3)}, {"scale_factor": 2.5, "mode": "bilinear"}])
def test_one_compilation_for_all_sizes(kwargs):
    fn = jitgrad.script(lambda x: F.interpolate(F.pad(x, (1, 2, 2, 1), "reflect"), **kwargs))
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 6, 5), (4, 2, 9, 8), (3, 3, 4, 12)):
        array = rng.standard_normal(shape).astype(np.float32)
        t = torch.nn.functional.pad(torch.tensor(array), (1, 2, 2, 1), "reflect")
        np.testing.assert_allclose(fn(jitgrad.tensor(array)).numpy(), torch.nn.functional.interpolate(t, **kwargs).numpy(),
                                   atol=1e-5)
    assert fn.cache_info().compilations == 1


ERRORS = [
    ("pad", (2, 3, 5, 5), ((5, 5, 5, 5),), {"mode": "reflect"}), ("pad", (2, 3, 5, 5), ((1, 1, 5, 5),), {"mode": "reflect"}), ("pad", (2, 3, 5, 5), ((6, 5, 5, 5),), {"mode": "circular"}),
    ("pad", (2, 3, 5, 5), ((1, 1),), {"mode": "reflect"}), ("pad", (2, 3, 5, 5), ((1, 1, 1),), {"mode": "reflect"}), ("pad", (2, 3, 5, 5), ((1, 1),), {"mode": "foo"}),
    ("pad", (2, 3, 0), ((1, 1),), {"mode": "replicate"}),
    ("pixel_shuffle", (2, 3, 5, 5), (2,), {}), ("pixel_unshuffle", (2, 3, 5, 5), (2,), {}), ("interpolate", (2, 3, 5, 5), (), {}), ("interpolate", (2, 3, 5, 5), (), {"size": 2, "scale_factor": 2}),
    ("interpolate", (2, 3, 5, 5), (2,), {"mode": "linear"}), ("interpolate", (2, 3, 5, 5), (2,), {"align_corners": True}), ("interpolate", (2, 3, 5, 5), ((2, 2, 2),), {}),
    ("instance_norm", (2, 3, 1), (), {}), ("group_norm", (2, 3, 1), (2,), {}), ("local_response_norm", (2, 3), (2,), {}),
]


@pytest.mark.parametrize("case", ERRORS, ids=[f"{c[0]}-{i}" for i, c in enumerate(ERRORS)])
def test_messages(case):
    name, shape, args, kwargs = case
    errors = []
    for library in (torch, jitgrad):
        with pytest.raises((RuntimeError, ValueError, NotImplementedError)) as error:
            getattr(library.nn.functional, name)(library.zeros(*shape), *args, **kwargs)
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]


def test_moments_of_one_element():
    for shape in ((1, 3), (1, 3, 1, 1)):
        errors = []
        for library in (torch, jitgrad):
            with pytest.raises(ValueError, match="Expected more than 1 value per channel") as error:
                library.nn.functional.batch_norm(library.zeros(*shape), library.zeros(3), library.ones(3), training=True)
            errors.append(str(error.value))
        assert errors[0] == errors[1]
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements not 4"):
        F.batch_norm(jitgrad.zeros(2, 3), jitgrad.zeros(4), jitgrad.ones(4))

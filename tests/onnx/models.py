"""Runs exported models in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(model):
    """A session, the model checked with its shapes."""
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def leaves(value):
    """The tensors and numbers in a result, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def array(value):
    return value.detach().numpy() if isinstance(value, jitgrad.Tensor) else np.asarray(value)


def compare(f, calls, tolerance=1e-5, **options):
    """Export `f` for the first call; the model gives what eager gives for every call."""
    model = jitgrad.onnx.export(f, calls[0], **options)
    ran = session(model)
    names = [i.name for i in ran.get_inputs()]
    for args in calls:
        given = [array(a) for a in leaves(args)]
        found = ran.run(None, dict(zip(names, given, strict=True)))
        with jitgrad.no_grad():
            wanted = leaves(f.eager(*args) if hasattr(f, "eager") else f(*args))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == array(b).shape
            assert a.dtype == array(b).dtype
            np.testing.assert_allclose(a, array(b), rtol=tolerance, atol=tolerance)
    return model

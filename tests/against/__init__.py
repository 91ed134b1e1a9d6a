"""Random calls, answered by PyTorch and here: numbers, gradients, dtypes, shapes, strides of views, types of errors.

    python -m tests.against --count 20000        # where PyTorch is installed; --family, --first, --verbose
"""

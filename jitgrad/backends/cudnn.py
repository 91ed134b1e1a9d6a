"""torch.backends.cudnn: switches that programs set. There is no cuDNN here, and they change nothing.

Convolutions on CUDA devices are products of matrices and generated kernels, one way for each: there is nothing for
`benchmark` to choose from, and results are the same from run to run whatever `deterministic` says.
"""

enabled: bool = True
benchmark: bool = False
deterministic: bool = False


def is_available() -> bool:
    """Whether cuDNN is used: False."""
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


__all__ = ["is_available", "version"]

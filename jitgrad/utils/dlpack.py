"""torch.utils.dlpack: tensors handed over to and from other libraries without a copy."""

from jitgrad.eager.interop import from_dlpack as from_dlpack, to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

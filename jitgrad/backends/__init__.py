"""torch.backends: what may be asked of the libraries behind the devices."""

from jitgrad.backends import cuda as cuda, cudnn as cudnn

__all__ = ["cuda", "cudnn"]

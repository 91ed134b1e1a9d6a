"""What eager ops have from native code: functions on NumPy's arrays (`jitgrad.device.cpu_kernels`)."""

from jitgrad.codegen.run.convolutions import made as convolved
from jitgrad.codegen.run.elementwise import computed
from jitgrad.kernels.blas import set_threads

__all__ = ["computed", "convolved", "set_threads"]

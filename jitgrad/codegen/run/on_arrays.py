"""What eager ops have from native code: functions on NumPy's arrays (`jitgrad.device.cpu_kernels`)."""

from jitgrad.codegen.run.convolutions import made as convolved
from jitgrad.codegen.run.elementwise import computed
from jitgrad.codegen.run.runtime import symbols as load

__all__ = ["computed", "convolved", "load"]

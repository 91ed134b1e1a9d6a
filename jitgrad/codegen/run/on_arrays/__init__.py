"""What eager ops have from native code: functions on NumPy's arrays (`jitgrad.device.cpu_kernels`)."""

from jitgrad.codegen.run.on_arrays.elementwise import computed
from jitgrad.codegen.run.on_arrays.gathers import gathered, scattered, within
from jitgrad.codegen.run.on_arrays.orders import ordered
from jitgrad.codegen.run.on_arrays.rows import computed as row, cotangents as row_cotangents, drawn
from jitgrad.codegen.run.on_arrays.scans import scanned
from jitgrad.codegen.run.tiled import convolved

__all__ = ["computed", "convolved", "drawn", "gathered", "ordered", "row", "row_cotangents", "scanned", "scattered",
           "within"]

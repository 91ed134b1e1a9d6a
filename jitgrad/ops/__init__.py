"""The op table. Importing this registers every row: `from jitgrad.ops import OPS`."""

from jitgrad.ops import rows as rows
from jitgrad.ops.opdef import NONDIFF as NONDIFF, OPS as OPS, Kind as Kind, OpDef as OpDef

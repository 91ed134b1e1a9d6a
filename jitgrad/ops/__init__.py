"""The op table. Importing this registers every row: `from jitgrad.ops import OPS`."""

from jitgrad.ops import rows as rows
from jitgrad.ops.opdef import NONDIFF as NONDIFF
from jitgrad.ops.opdef import OPS as OPS
from jitgrad.ops.opdef import Kind as Kind
from jitgrad.ops.opdef import OpDef as OpDef

"""The rows of the op table, one module per family."""

from jitgrad.ops.rows import activations as activations
from jitgrad.ops.rows import arithmetic as arithmetic
from jitgrad.ops.rows import contract as contract
from jitgrad.ops.rows import create as create
from jitgrad.ops.rows import elementary as elementary
from jitgrad.ops.rows import gather as gather
from jitgrad.ops.rows import logic as logic
from jitgrad.ops.rows import reductions as reductions
from jitgrad.ops.rows import scans as scans
from jitgrad.ops.rows import views as views

"""The rows of the op table, one module per family."""

from . import (activations, arithmetic, contract, convolutions, create, elementary, gather, logic, matrices, reductions,
               scans, views, windows)

__all__ = ["activations", "arithmetic", "contract", "convolutions", "create", "elementary", "gather", "logic",
           "matrices", "reductions", "scans", "views", "windows"]

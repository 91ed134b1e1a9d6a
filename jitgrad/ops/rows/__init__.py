"""The rows of the op table, one module per family."""

from . import (activations, arithmetic, attention, complex, contract, convolutions, create, elementary, gather, logic,
               matrices, reductions, scans, special, views, windows)

__all__ = ["activations", "arithmetic", "attention", "complex", "contract", "convolutions", "create", "elementary",
           "gather", "logic", "matrices", "reductions", "scans", "special", "views", "windows"]

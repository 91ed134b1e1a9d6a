"""The rows of the op table, one module per family."""

from . import activations, arithmetic, contract, create, elementary, gather, logic, reductions, scans, views

__all__ = ["activations", "arithmetic", "contract", "create", "elementary", "gather", "logic", "reductions", "scans",
           "views"]

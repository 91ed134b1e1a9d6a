"""Written by hand: scalar math, the run-time library, the check of arrays at entry, the binding to the BLAS."""

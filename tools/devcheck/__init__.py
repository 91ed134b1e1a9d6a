"""`python -m tools.devcheck`: everything about CUDA that only a GPU can prove, in one command.

`checks.py` says what a check is, `runner.py` runs them in processes of their own, `table.py` prints what they found.
A stage is a module of checks: `environment.py`, `smoke.py` (every assumption on which the CUDA backend rests),
`suite.py` (the tests marked `gpu`), `ceilings.py` (what the machine can do at most), `convolutions.py` (both ways).
"""

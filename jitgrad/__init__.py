"""jitgrad: PyTorch-style Python, eager to debug, `@script` to compile."""

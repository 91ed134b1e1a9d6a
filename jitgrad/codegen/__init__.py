"""From graphs to machine code: `lower` makes a `program`, `llvm` and `cuda` print it, `run` compiles and calls it."""

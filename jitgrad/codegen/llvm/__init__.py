"""Programs as LLVM IR: a printer and its parts, kernels, scalar primitives; the engine compiles the text."""

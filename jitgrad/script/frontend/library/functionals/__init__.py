"""Functions of functions: derivatives, `vmap`, modules as functions of their parameters."""

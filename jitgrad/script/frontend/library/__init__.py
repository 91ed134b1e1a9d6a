"""Functions that a script calls and that are not inlined: builtins, the standard library, modules, call-backs."""

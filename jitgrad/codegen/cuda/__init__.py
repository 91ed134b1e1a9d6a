"""Kernels as CUDA C++: the same loop nests that the CPU backend prints as LLVM. Making the text needs no CUDA."""

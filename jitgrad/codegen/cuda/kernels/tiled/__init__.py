"""Kernels of tensor cores, written by hand: attention, convolutions."""

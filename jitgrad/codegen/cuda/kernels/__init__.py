"""Kernels' text, by kind."""

"""Fourier transforms and what is made with them."""

"""The second and last level: buffers, steps, kernels, and what each of them says of itself."""

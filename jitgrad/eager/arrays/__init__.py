"""Arrays under tensors: NumPy, CuPy, half types, moves between devices."""

"""Functions of floats as operations on vectors of them."""

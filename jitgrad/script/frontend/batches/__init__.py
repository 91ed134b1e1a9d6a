"""What is one item of a batch, inside `func.vmap`."""

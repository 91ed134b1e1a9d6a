"""Further functions of the elements of tensors."""

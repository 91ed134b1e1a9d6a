"""Batches: the ops of one item, applied to all items at once. What `func.vmap` is made of."""

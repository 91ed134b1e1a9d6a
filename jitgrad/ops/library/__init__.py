"""torch's functions over the op table, written once for eager and script tensors (docs/internals/ops.md, "Library")."""

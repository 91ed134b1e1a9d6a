"""CUDA graphs: building, comparing, changing and replaying them."""

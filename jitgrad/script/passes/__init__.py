"""Graph to graph, one pass a file; `pipeline.py` has them in order."""

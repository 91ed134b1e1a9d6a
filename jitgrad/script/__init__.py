"""From a Python function to a graph and back: frontend, graph, gradient, specialisation, cache, execution."""

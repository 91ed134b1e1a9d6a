"""From Python to a graph, by evaluating the AST on values of the run."""

"""Python, construct by construct: expressions, statements, branches, loops, calls, exceptions."""

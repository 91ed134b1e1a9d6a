"""The graph: nodes and types, text and parser, verifier, interpreter, builders."""

"""Nodes that become steps of their own, one family a file."""

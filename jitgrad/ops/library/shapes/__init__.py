"""Shapes and positions: views, joins, indexing, gathers."""

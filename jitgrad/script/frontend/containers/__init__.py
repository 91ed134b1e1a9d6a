"""Kinds of containers: lists, tuples, dicts, ranges, generators; what is in them."""

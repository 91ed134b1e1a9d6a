"""Kinds of values, one a file, each with what Python can do with it (`protocol.py`)."""

"""Classes in Python that stand for some of Python's, of which scripts make objects."""

"""What `f.graph`, `f.code`, `f.explain` and `check=True` show."""

"""Programs of the kind people write, by theme: eager, interpreted and native must agree (see harness.py)."""

"""Source: text, syntax that no script may contain, liveness, annotations."""

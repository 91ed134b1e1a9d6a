"""`backward()` and `.grad` inside a script."""

"""What loops carry from one iteration to the next."""

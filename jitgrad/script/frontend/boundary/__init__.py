"""Inputs and results: the world around the script."""

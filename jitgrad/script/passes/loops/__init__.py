"""Passes about loops: what is written out, what moves before them, and behind."""

"""Counts, places of medians and modes, draws, differences."""

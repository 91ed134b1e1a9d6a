"""How torch's functions are called: the table of their parameters, and what these are given."""

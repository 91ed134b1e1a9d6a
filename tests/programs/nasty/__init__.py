"""Short programs that compilers of Python get wrong, by theme: each must be equal to eager (see harness.py)."""

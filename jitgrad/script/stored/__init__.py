"""Specialisations on disk and in files: one codec, the disk cache, `jit.save`."""

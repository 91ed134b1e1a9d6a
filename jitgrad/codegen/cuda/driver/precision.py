"""Whether matrix products of float32 may be rounded to TF32 on the device: one switch of the process, off at first.

`jitgrad.backends.cuda.matmul.allow_tf32` and `set_float32_matmul_precision` set it. TF32 keeps 10 bits of the 23 of a
factor's fraction, and runs on the tensor cores. `changes` counts how often the switch was turned: a captured graph
holds products as they were chosen.
"""

allow_tf32 = False
changes = 0


def set_allow_tf32(allow: bool) -> None:
    """Allow or forbid TF32 for products from now on."""
    global allow_tf32, changes
    if allow != allow_tf32:
        allow_tf32, changes = allow, changes + 1

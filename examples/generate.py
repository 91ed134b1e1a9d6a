"""Text from a small GPT, one token at a time, with a cache of keys and values: the whole loop is one compiled program.

    python examples/generate.py [--steps N] [--peer]      # --peer: beside PyTorch, where it is installed

Without a cache every token would read the whole text again; here a step reads one token and writes its keys and values
into tensors that were made once. How long the prompt is and how many tokens follow are run-time values: no step, no
other prompt and no other length compiles anything again. The weights are random, made by a formula, so that PyTorch has
the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import time
import types
from pathlib import Path
from typing import Any

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x, keys, values, at):
        """x (n, width): the token at place `at`; keys and values (n, heads, places, size) are filled there."""
        n, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(n, 3, self.heads, width // self.heads).unbind(1)
        keys[:, :, at] = k
        values[:, :, at] = v
        scores = (keys[:, :, :at + 1] @ q[:, :, :, None])[..., 0] * (width // self.heads) ** -0.5
        mixed = (scores.softmax(-1)[:, :, None] @ values[:, :, :at + 1])[:, :, 0]
        x = x + self.out(mixed.reshape(n, width))
        return x + self.narrow(F.gelu(self.wide(self.after(x))))


class GPT(nn.Module):
    """A language model that reads a token at a time."""

    def __init__(self, words: int = 96, width: int = 128, heads: int = 4, layers: int = 4, places: int = 512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.shape = (heads, places, width // heads)

    def step(self, tokens, caches, at):
        """The scores of the token that follows `tokens` (n,), which stand at place `at`."""
        x = self.words(tokens) + self.places.weight[at]
        for layer, block in enumerate(self.blocks):
            x = block(x, caches[2 * layer], caches[2 * layer + 1], at)
        return self.norm(x) @ self.words.weight.T

    def generate(self, prompt, steps: int, temperature: float = 0.0):
        """`prompt` (n, t) and the `steps` tokens that follow it, (n, t + steps); temperature 0: the likeliest ones."""
        n, t = prompt.shape
        caches = [torch.zeros(n, *self.shape) for _ in range(2 * len(self.blocks))]
        text = torch.zeros(n, t + steps, dtype=torch.int64)
        text[:, :t] = prompt
        for at in range(t + steps - 1):
            scores = self.step(text[:, at], caches, at)
            if at + 1 >= t:
                if temperature > 0:
                    text[:, at + 1] = torch.multinomial((scores / temperature).softmax(-1), 1)[:, 0]
                else:
                    text[:, at + 1] = scores.argmax(-1)
        return text

    def whole(self, tokens):
        """Scores at every place of a text, (n, t, words), without a cache."""
        n, t = tokens.shape
        x = self.words(tokens) + self.places.weight[:t]
        for block in self.blocks:
            q, k, v = (p.view(n, t, block.heads, -1).transpose(1, 2) for p in block.qkv(block.before(x)).chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block.out(mixed.transpose(1, 2).reshape(x.shape))
            x = x + block.narrow(F.gelu(block.wide(block.after(x))))
        return self.norm(x) @ self.words.weight.T


def made() -> GPT:
    """The model with weights that a formula says, for jitgrad and PyTorch alike."""
    model = GPT()
    with torch.no_grad():
        for number, (name, p) in enumerate(model.named_parameters()):
            if "before" not in name and "after" not in name and "norm" not in name:
                place = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape)
                p.copy_((torch.sin(place * 12.9898 + number) * 43758.5453).frac() * 3 * p.shape[-1] ** -0.5)
    return model.eval()


def prompt(n: int = 2, t: int = 16) -> Any:
    return (torch.arange(n * t) * 37 % 96).reshape(n, t)


def timed(generate: Any, steps: int) -> tuple[Any, float]:
    """What a second call gives, and its seconds."""
    with torch.no_grad():
        generate(prompt(), 4)
        started = time.perf_counter()
        text = generate(prompt(), steps)
    return text, time.perf_counter() - started


def of_pytorch() -> Any:
    """This very file with PyTorch in jitgrad's place."""
    text = re.sub(r"^(import|from) jitgrad", r"\1 torch", Path(__file__).read_text(), flags=re.MULTILINE)
    module = types.ModuleType("generate_of_pytorch")
    exec(compile(text, "generate_of_pytorch.py", "exec"), module.__dict__)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peer", action="store_true", help="measure PyTorch, too")
    args = parser.parse_args()
    model = made()
    scripted = torch.script(model.generate)
    runs = {"jitgrad, eager": model.generate, "jitgrad, scripted": scripted}
    if args.peer and importlib.util.find_spec("torch"):
        runs["PyTorch, eager"] = of_pytorch().made().generate
    texts = []
    for name, generate in runs.items():
        peer = name.startswith("PyTorch")
        text, seconds = of_pytorch().timed(generate, args.steps) if peer else timed(generate, args.steps)
        texts.append(text.tolist())
        print(f"{name:18} {1e6 * seconds / args.steps:7.0f} us a token   {text[0, 16:28].tolist()}")
    print(f"same text: {all(text == texts[0] for text in texts)}, compilations: {scripted.cache_info().compilations}")


if __name__ == "__main__":
    main()

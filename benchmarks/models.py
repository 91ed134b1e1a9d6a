"""Whole training steps, written for any torch-like module: forward, loss, backward, optimizer in one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Training = tuple[Callable[..., Any], tuple[Any, ...]]

VOCABULARY, CONTEXT, CHANNELS, HEADS, BATCH = 65, 64, 128, 4, 4


def gpt(layers: int) -> Callable[[Any], Training]:
    """A GPT of C=128, T=64, B=4 under AdamW: the step, and the tokens and targets that it takes."""

    def training(torch: Any) -> Training:
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.ln1, self.ln2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
                self.qkv, self.proj = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
                self.fc, self.out = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

            def forward(self, x):
                batch, time, channels = x.shape
                heads = [part.view(batch, time, HEADS, channels // HEADS).transpose(1, 2)
                         for part in self.qkv(self.ln1(x)).split(channels, dim=2)]
                y = functional.scaled_dot_product_attention(*heads, is_causal=True)
                x = x + self.proj(y.transpose(1, 2).reshape(batch, time, channels))
                return x + self.out(functional.gelu(self.fc(self.ln2(x))))

        class GPT(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.places = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
                self.blocks = nn.ModuleList([Block() for _ in range(layers)])
                self.ln, self.head = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, VOCABULARY, bias=False)

            def forward(self, tokens):
                x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
                for block in self.blocks:
                    x = block(x)
                return self.head(self.ln(x))

        torch.manual_seed(0)
        model = GPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(tokens, targets):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(tokens).reshape(-1, VOCABULARY), targets.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        return step, tuple(torch.randint(0, VOCABULARY, (BATCH, CONTEXT)) for _ in range(2))

    return training

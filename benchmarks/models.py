"""Whole training steps, written for any torch-like module: forward, loss, backward, optimizer in one function.

`by_name("gpt-12")`: also "loop-12", that step in a loop of a run-time number of trips; "resnet-50"; "small-1".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Training = tuple[Callable[..., Any], tuple[Any, ...]]

VOCABULARY, CONTEXT, CHANNELS, HEADS, BATCH = 65, 64, 128, 4, 4


def gpt(layers: int, loop: bool = False) -> Callable[[Any], Training]:
    """A GPT of C=128, T=64, B=4 under AdamW: the step, and the tokens and targets that it takes.

    `loop`: the function takes a number of steps, too.
    """

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

        def steps(tokens, targets, count: int):
            for _ in range(count):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(tokens).reshape(-1, VOCABULARY), targets.reshape(-1))
                loss.backward()
                optimizer.step()
            return loss

        data = tuple(torch.randint(0, VOCABULARY, (BATCH, CONTEXT)) for _ in range(2))
        return (steps, (*data, 2)) if loop else (step, data)

    return training


#: depth -> whether its blocks have a bottleneck, and how many there are in each stage
DEPTHS = {18: (False, (2, 2, 2, 2)), 34: (False, (3, 4, 6, 3)), 50: (True, (3, 4, 6, 3)), 101: (True, (3, 4, 23, 3))}


def resnet(depth: int) -> Callable[[Any], Training]:
    """A ResNet of 16 to 128 channels for 4 images of 3x32x32 and 10 classes, under AdamW."""
    narrow, stages = DEPTHS[depth]
    width = 4 if narrow else 1

    def training(torch: Any) -> Training:
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self, channels, inner, stride):
                super().__init__()
                sizes = [(channels, inner, 3, stride), (inner, inner, 3, 1)]
                if narrow:
                    sizes = [(channels, inner, 1, 1), (inner, inner, 3, stride), (inner, width * inner, 1, 1)]
                self.convs = nn.ModuleList([nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in sizes])
                self.norms = nn.ModuleList([nn.BatchNorm2d(b) for _, b, _, _ in sizes])
                self.down = None
                if stride != 1 or channels != width * inner:
                    self.down = nn.Sequential(nn.Conv2d(channels, width * inner, 1, stride, bias=False),
                                              nn.BatchNorm2d(width * inner))

            def forward(self, x):
                y = x if self.down is None else self.down(x)
                for k, (conv, norm) in enumerate(zip(self.convs, self.norms)):  # noqa: B905  (torch has it without)
                    x = norm(conv(x))
                    x = functional.relu(x + y if k == len(self.convs) - 1 else x)
                return x

        torch.manual_seed(0)
        channels, blocks = 16, []
        for stage, count in enumerate(stages):
            for k in range(count):
                blocks.append(Block(channels, 16 << stage, 2 if k == 0 and stage > 0 else 1))
                channels = width * (16 << stage)
        stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        head = [nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(channels, 10)]
        model = nn.Sequential(*stem, *blocks, *head)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(images, targets):
            loss = functional.cross_entropy(model(images), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step, (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))

    return training


def small(_: int) -> Callable[[Any], Training]:
    """A few operations and no gradient: what a first call costs at least."""

    def training(torch: Any) -> Training:
        def f(x, w):
            return ((x @ w).tanh() * 2 + 1).sum()

        return f, (torch.randn(8, 16), torch.randn(16, 4))

    return training


#: kind of program -> what makes it, given a size
KINDS: dict[str, Callable[[int], Callable[[Any], Training]]] = {
    "gpt": gpt, "loop": lambda layers: gpt(layers, loop=True), "resnet": resnet, "small": small}


def by_name(name: str) -> Callable[[Any], Training]:
    """The program of a name such as "gpt-12"."""
    kind, size = name.split("-")
    return KINDS[kind](int(size))

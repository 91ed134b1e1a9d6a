"""An MLP-Mixer put together by functions. Tolstikhin et al., 2021."""

from functools import partial

import numpy as np

import jitgrad as torch
from jitgrad import nn


class PreNormResidual(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.fn(self.norm(x)) + x


class Patches(nn.Module):
    """(b, c, h, w) -> (b, patches, numbers of a patch)."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        b, c, h, w = x.shape
        s = self.size
        x = x.reshape(b, c, h // s, s, w // s, s)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(b, (h // s) * (w // s), s * s * c)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def FeedForward(dim, expansion_factor=2, dense=nn.Linear):
    inner_dim = int(dim * expansion_factor)
    return nn.Sequential(dense(dim, inner_dim), nn.GELU(), nn.Dropout(0.0), dense(inner_dim, dim), nn.Dropout(0.0))


def MLPMixer(*, image_size, channels, patch_size, dim, depth, num_classes):
    num_patches = (image_size // patch_size) ** 2
    chan_first, chan_last = partial(nn.Conv1d, kernel_size=1), nn.Linear
    return nn.Sequential(
        Patches(patch_size), nn.Linear((patch_size ** 2) * channels, dim),
        *[nn.Sequential(PreNormResidual(dim, FeedForward(num_patches, 4, chan_first)),
                        PreNormResidual(dim, FeedForward(dim, 0.5, chan_last))) for _ in range(depth)],
        nn.LayerNorm(dim), Mean(), nn.Linear(dim, num_classes))


def make():
    model = MLPMixer(image_size=12, channels=2, patch_size=4, dim=16, depth=2, num_classes=3)
    return model, torch.optim.RAdam(model.parameters(), lr=1e-2), nn.MultiMarginLoss()


def batch(number, size=6):
    rng = np.random.default_rng(number)
    kinds = rng.integers(0, 3, size)
    images = rng.normal(0, 0.5, (size, 2, 12, 12))
    for image, kind in zip(images, kinds, strict=True):
        image[:, 4 * kind:4 * kind + 4] += 1
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(kinds)


def step(model, optimizer, criterion, x, y):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

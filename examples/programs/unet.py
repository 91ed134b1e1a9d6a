"""A U-Net that finds discs in noise, trained for their overlap (dice) and each pixel. Ronneberger et al., 2015."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths=(4, 8, 16)):
        super().__init__()
        self.downs = nn.ModuleList()
        self.ups = nn.ModuleList()
        inputs = 1
        for width in widths:
            self.downs.append(double_conv(inputs, width))
            inputs = width
        for width in reversed(widths[:-1]):
            self.ups.append(nn.ConvTranspose2d(inputs, width, 2, stride=2))
            self.ups.append(double_conv(2 * width, width))
            inputs = width
        self.final = nn.Conv2d(inputs, 1, 1)

    def forward(self, x):
        skips = []
        for down in self.downs[:-1]:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.downs[-1](x)
        for i in range(0, len(self.ups), 2):
            x = self.ups[i](x)
            skip = skips.pop()
            if x.shape[2:] != skip.shape[2:]:
                x = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
            x = self.ups[i + 1](torch.cat([skip, x], dim=1))
        return self.final(x)


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)).mean()


def make():
    model = UNet()
    return model, torch.optim.Adam(model.parameters(), lr=3e-3)


def batch(number, size=4, side=18):
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:side, :side]
    centre = rng.uniform(4, side - 4, (2, size, 1, 1))
    disc = ((y - centre[0]) ** 2 + (x - centre[1]) ** 2 < 16).astype(np.float32)[:, None]
    noisy = (disc + rng.normal(0, 0.5, disc.shape)).astype(np.float32)
    return torch.from_numpy(noisy), torch.from_numpy(disc)


def step(model, optimizer, x, target):
    logits = model(x)
    loss = F.binary_cross_entropy_with_logits(logits, target) + dice_loss(logits, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

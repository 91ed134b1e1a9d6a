"""An image optimised for the features of one picture and the Gram matrices of another. Gatys et al., 2016."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        G = gram_matrix(input)
        self.loss = F.mse_loss(G, self.target)
        return input


def picture(seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:12, :12]
    waves = [np.sin(x * rng.uniform(0.2, 1) + y * rng.uniform(0.2, 1)) for _ in range(3)]
    return torch.from_numpy(np.stack(waves)[None].astype(np.float32) / 2 + 0.5)


def make():
    """The image, its losses along a network of fixed weights, and the optimizer."""
    rng = np.random.default_rng(7)
    content_img, style_img = picture(1), picture(2)
    model, content_losses, style_losses = nn.Sequential(), [], []
    inputs = 3
    for i, width in enumerate((6, 8)):
        conv = nn.Conv2d(inputs, width, 3, padding=1)
        with torch.no_grad():
            conv.weight.copy_(torch.from_numpy(rng.normal(0, 0.3, tuple(conv.weight.shape))))
            conv.bias.zero_()
        model.add_module(f"conv_{i}", conv)
        model.add_module(f"relu_{i}", nn.ReLU(inplace=False))
        content_losses.append(ContentLoss(model(content_img)))
        style_losses.append(StyleLoss(model(style_img)))
        model.add_module(f"content_loss_{i}", content_losses[-1])
        model.add_module(f"style_loss_{i}", style_losses[-1])
        inputs = width
    model.eval()
    model.requires_grad_(False)
    input_img = content_img.clone().requires_grad_(True)
    return model, content_losses, style_losses, input_img, torch.optim.Adam([input_img], lr=0.05)


def batch(number):
    return ()


def step(model, content_losses, style_losses, input_img, optimizer):
    with torch.no_grad():
        input_img.clamp_(0, 1)
    optimizer.zero_grad()
    model(input_img)
    style_score = 0
    content_score = 0
    for sl in style_losses:
        style_score += sl.loss
    for cl in content_losses:
        content_score += cl.loss
    loss = 1000 * style_score + content_score
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

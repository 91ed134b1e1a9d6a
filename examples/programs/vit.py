"""A Vision Transformer from nn.TransformerEncoder, with a class token and a learnt place. Dosovitskiy et al., 2021."""

import numpy as np

import jitgrad as torch
from jitgrad import nn


class ViT(nn.Module):
    def __init__(self, image_size=16, patch_size=4, num_classes=3, dim=16, depth=2, heads=2, mlp_dim=32):
        super().__init__()
        num_patches = (image_size // patch_size) ** 2
        self.patch = nn.Conv2d(1, dim, kernel_size=patch_size, stride=patch_size)
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, mlp_dim, dropout=0.0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        b, n, _ = x.shape
        cls_tokens = self.cls_token.expand(b, -1, -1)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding[:, :(n + 1)]
        x = self.transformer(x)
        return self.mlp_head(x[:, 0])


def make():
    model = ViT()
    return model, torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05), nn.CrossEntropyLoss()


def batch(number, size=6):
    rng = np.random.default_rng(number)
    kinds = rng.integers(0, 3, size)
    y, x = np.mgrid[:16, :16] / 4
    waves = np.stack([np.sin(x), np.sin(y), np.sin(x + y)])[kinds][:, None]
    images = waves + rng.normal(0, 0.3, (size, 1, 16, 16))
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(kinds)


def step(model, optimizer, criterion, x, y):
    optimizer.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    optimizer.step()
    accuracy = (output.argmax(dim=1) == y).float().mean()
    return loss.item(), accuracy.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, *step(*state, *batch(number)))

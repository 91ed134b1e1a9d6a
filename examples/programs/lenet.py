"""LeNet on images of bars, horizontal or vertical. LeCun et al., 1998."""

import numpy as np

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F


class LeNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), (2, 2))
        x = x.view(x.size(0), -1)
        x = F.relu(self.fc1(x))
        return self.fc3(F.relu(self.fc2(x)))


def make():
    model = LeNet(classes=2)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batch(number, size=8):
    rng = np.random.default_rng(number)
    kinds = rng.integers(0, 2, size)
    images = rng.normal(0, 0.3, (size, 1, 28, 28))
    for image, kind in zip(images, kinds, strict=True):
        place = rng.integers(4, 24)
        image[0, place] += 1 if kind else 0
        image[0, :, place] += 0 if kind else 1
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(kinds)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)).item())

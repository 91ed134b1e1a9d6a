"""A small ResNet-18: two stages of two blocks, label smoothing, Nesterov momentum. He et al., 2016."""

import numpy as np

import jitgrad as torch
from jitgrad import nn


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, classes=10, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.MaxPool2d(3, stride=2, padding=1))
        self.layer1 = nn.Sequential(BasicBlock(width, width), BasicBlock(width, width))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, stride=2), BasicBlock(2 * width, 2 * width))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(self.pool(x), 1))


def make():
    model = ResNet(classes=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    return model, optimizer, nn.CrossEntropyLoss(label_smoothing=0.1)


def batch(number, size=8):
    rng = np.random.default_rng(number)
    kinds = rng.integers(0, 4, size)
    images = rng.normal(0, 0.5, (size, 3, 16, 16))
    for image, kind in zip(images, kinds, strict=True):
        image[:, 8 * (kind // 2):, 8 * (kind % 2):] += 0.5
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(kinds)


def step(model, optimizer, criterion, x, y):
    model.train()
    loss = criterion(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(state[1], T_max=30)
    for number in range(30):
        print(number, step(*state, *batch(number)))
        schedule.step()

"""Images made three times larger by sub-pixel convolution. Shi et al., 2016; PyTorch's example."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.init as init


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 8, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(8, 4, (3, 3), (1, 1), (1, 1), padding_mode="replicate")
        self.conv4 = nn.Conv2d(4, upscale_factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return self.pixel_shuffle(self.conv4(x))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv3.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv4.weight)


def make():
    model = Net(upscale_factor=3)
    return model, torch.optim.Adam(model.parameters(), lr=0.005), nn.MSELoss()


def batch(number, size=4):
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:24, :24] / 3
    fine = np.sin(x * rng.uniform(0.5, 2, (size, 1, 1, 1)) + y * rng.uniform(0.5, 2, (size, 1, 1, 1)))
    fine = torch.from_numpy(fine.astype(np.float32))
    return nn.functional.interpolate(fine, scale_factor=1 / 3, mode="bicubic", align_corners=False), fine


def step(model, optimizer, criterion, input, target):
    optimizer.zero_grad()
    output = model(input)
    loss = criterion(output, target)
    loss.backward()
    optimizer.step()
    return loss.item(), (10 * torch.log10(1 / loss)).item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, *step(*state, *batch(number)))

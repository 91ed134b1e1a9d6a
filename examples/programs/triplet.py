"""A siamese network: like things near each other, the hardest triplets of a batch. Schroff et al., 2015."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convnet = nn.Sequential(nn.Conv1d(1, 8, 5), nn.PReLU(), nn.MaxPool1d(2, stride=2), nn.Conv1d(8, 8, 5),
                                     nn.PReLU(), nn.MaxPool1d(2, stride=2))
        self.fc = nn.Sequential(nn.Linear(8 * 5, 16), nn.PReLU(), nn.Linear(16, 4))

    def forward(self, x):
        output = self.convnet(x)
        output = output.view(output.size()[0], -1)
        return F.normalize(self.fc(output), p=2, dim=1)


class BatchHardTripletLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings, labels):
        distances = torch.cdist(embeddings, embeddings)
        same = labels[:, None] == labels[None, :]
        positive = (distances * same).max(dim=1).values
        negative = distances.masked_fill(same, float("inf")).amin(dim=1)
        return F.relu(positive - negative + self.margin).mean()


def make():
    model = EmbeddingNet()
    return model, torch.optim.RMSprop(model.parameters(), lr=1e-3), BatchHardTripletLoss(1.0), nn.TripletMarginLoss(1.5)


def batch(number, size=9):
    rng = np.random.default_rng(number)
    labels = np.arange(size) % 3
    t = np.linspace(0, 6, 32)
    signals = np.sin((1 + labels[:, None]) * t + rng.uniform(0, 1, (size, 1))) + rng.normal(0, 0.1, (size, 32))
    return torch.from_numpy(signals[:, None].astype(np.float32)), torch.from_numpy(labels)


def step(model, optimizer, hardest, triplet, x, labels):
    optimizer.zero_grad()
    e = model(x)
    loss = hardest(e, labels) + triplet(e[0::3], e.roll(-3, 0)[0::3], e[1::3])
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

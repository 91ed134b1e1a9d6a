"""A variational autoencoder of binary images, its noise given with the batch. Kingma and Welling, 2014."""

import numpy as np

import jitgrad as torch
from jitgrad import nn, optim
from jitgrad.nn import functional as F


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=32, latent=4):
        super().__init__()
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, pixels)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def make():
    model = VAE()
    return model, optim.Adam(model.parameters(), lr=1e-2)


def batch(number, size=8):
    rng = np.random.default_rng(number)
    images = np.zeros((size, 1, 8, 8), np.float32)
    for image in images:
        image[0, :rng.integers(1, 8), :rng.integers(1, 8)] = 1
    return torch.from_numpy(images), torch.from_numpy(rng.normal(size=(size, 4)).astype(np.float32))


def step(model, optimizer, data, eps):
    model.train()
    optimizer.zero_grad()
    recon_batch, mu, logvar = model(data, eps)
    loss = loss_function(recon_batch, data, mu, logvar)
    loss.backward()
    optimizer.step()
    return loss.item() / len(data)


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

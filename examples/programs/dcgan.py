"""A DCGAN: two networks, each trained against the other in one step. Radford et al., 2016."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.optim as optim

nz, ngf, ndf, nc = 8, 8, 8, 1


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False), nn.Sigmoid())

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


def make():
    netG, netD = Generator(), Discriminator()
    return (netG, netD, optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999)),
            optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999)), nn.BCELoss())


def batch(number, size=6):
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:16, :16]
    waves = np.sin(x * rng.uniform(0.3, 0.6, (size, 1, 1, 1)) + y * 0.2).astype(np.float32)
    return torch.from_numpy(waves), torch.from_numpy(rng.normal(size=(size, nz, 1, 1)).astype(np.float32))


def step(netG, netD, optimizerG, optimizerD, criterion, real, noise):
    # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    b_size = real.size(0)
    label = torch.full((b_size,), 1.0, dtype=torch.float)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()
    # (2) Update G network: maximize log(D(G(z)))
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    return errD.item(), errG.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

"""Training loops in one call: epochs, minibatches, schedules, averages, two players, early stops."""

from __future__ import annotations

import copy
import math

import jitgrad as torch
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from tests.programs.harness import data, program, tokens


def network(inputs=3, outputs=2):
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


class Trained(nn.Module):
    """A network and the optimizer of its parameters."""

    def __init__(self):
        super().__init__()
        self.net = network()
        self.optimizer = self.optimizer_of(self.net.parameters())

    def optimizer_of(self, parameters):
        return optim.SGD(parameters, lr=0.1)


@program((data(6, 3), tokens(6, below=2), 2, 0.1), (data(4, 3), tokens(4, below=2), 3, 0.02))
class Epochs(Trained):
    """Epochs over shuffled minibatches, the last one partial."""

    def forward(self, x, y, epochs: int, rate: float):
        losses = []
        for epoch in range(epochs):
            order = torch.randperm(x.shape[0])
            total = 0.0
            for start in range(0, x.shape[0], 4):
                index = order[start:start + 4]
                loss = F.cross_entropy(self.net(x[index]), y[index])
                self.optimizer.zero_grad()
                loss.backward()
                for group in self.optimizer.param_groups:
                    group["lr"] = rate / (1 + epoch)
                self.optimizer.step()
                total += loss.item() * len(index)
            losses.append(total / x.shape[0])
            print(f"epoch {epoch}: {losses[-1]:.3f}")
        return losses


@program((data(8, 3), tokens(8, below=2), 2), (data(6, 3), tokens(6, below=2), 3))
class Accumulated(Trained):
    """Gradients of several small batches before each step, clipped."""

    def optimizer_of(self, parameters):
        return optim.SGD(parameters, lr=0.1, momentum=0.9)

    def forward(self, x, y, pieces: int):
        size = x.shape[0] // pieces
        total = torch.zeros(())
        for i in range(pieces):
            low, high = i * size, (i + 1) * size
            loss = F.cross_entropy(self.net(x[low:high]), y[low:high]) / pieces
            loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total, norm


@program((data(5, 3), data(5, 2, seed=3), 6, 4), (data(3, 3), data(3, 2, seed=3), 3, 9))
class WarmUp(Trained):
    """A linear warm-up and a cosine after it, the rate written into the group at every step."""

    def forward(self, x, y, warm: int, steps: int):
        rates = []
        for step in range(steps):
            if step < warm:
                rate = 0.1 * (step + 1) / warm
            else:
                rate = 0.05 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
            self.optimizer.param_groups[0]["lr"] = rate
            rates.append(rate)
            F.mse_loss(self.net(x), y).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return rates


@program((data(5, 3), data(5, 2, seed=3), 0.01, 3), (data(3, 3), data(3, 2, seed=3), 0.5, 2))
class EarlyStop(Trained):
    """Stops on a plateau; the best weights are put back."""

    def forward(self, x, y, least: float, patience: int):
        best, waited = math.inf, 0
        kept = [p.detach().clone() for p in self.net.parameters()]
        for step in range(40):
            loss = F.mse_loss(self.net(x), y)
            if loss.item() < best - least:
                best, waited = loss.item(), 0
                kept = [p.detach().clone() for p in self.net.parameters()]
            else:
                waited += 1
                if waited >= patience:
                    break
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        with torch.no_grad():
            for p, value in zip(self.net.parameters(), kept):
                p.copy_(value)
        return best, step


@program((data(5, 3), data(5, 2, seed=3), 0.9, 3), (data(3, 3), data(3, 2, seed=3), 0.5, 5))
class Averaged(Trained):
    """An exponential moving average of the weights, evaluated at the end."""

    def __init__(self):
        super().__init__()
        self.shadow = copy.deepcopy(self.net)

    def forward(self, x, y, decay: float, steps: int):
        for _ in range(steps):
            loss = F.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(self.shadow.parameters(), self.net.parameters()):
                    slow.mul_(decay).add_(fast, alpha=1 - decay)
        with torch.no_grad():
            return F.mse_loss(self.shadow(x), y), loss.detach()


@program((data(4, 3), tokens(4, below=2), data(4, 2, seed=8), 0.3),
         (data(2, 3), tokens(2, below=2), data(2, 2, seed=8), 0.9))
class MixedLosses(Trained):
    """Two losses weighed by learned uncertainties, one of them left out where it is small."""

    def __init__(self):
        super().__init__()
        self.logs = nn.Parameter(torch.zeros(2))
        self.optimizer = optim.Adam(self.parameters(), lr=0.05)

    def forward(self, x, labels, targets, least: float):
        out = self.net(x)
        first = F.cross_entropy(out, labels)
        second = F.smooth_l1_loss(out, targets)
        loss = first * torch.exp(-self.logs[0]) + self.logs[0]
        if second.item() > least:
            loss = loss + second * torch.exp(-self.logs[1]) + self.logs[1]
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return first.detach(), second.detach()


@program((data(6, 3), tokens(6, below=2), 2.0), (data(3, 3), tokens(3, below=2), 5.0))
class Distilled(Trained):
    """A student follows a teacher that is not trained."""

    def __init__(self):
        super().__init__()
        self.teacher = network()

    def forward(self, x, y, temperature: float):
        with torch.no_grad():
            wanted = F.softmax(self.teacher(x) / temperature, dim=-1)
        out = self.net(x)
        soft = F.kl_div(F.log_softmax(out / temperature, dim=-1), wanted, reduction="batchmean") * temperature ** 2
        loss = 0.5 * soft + 0.5 * F.cross_entropy(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@program((data(6, 3), tokens(6, below=2), 0.5), (data(4, 3), tokens(4, below=2), 0.05))
class HardExamples(Trained):
    """Only the examples whose loss is above a threshold are learned from; none, no step."""

    def forward(self, x, y, threshold: float):
        each = F.cross_entropy(self.net(x), y, reduction="none")
        chosen = each[each > threshold]
        if chosen.numel() == 0:
            print("nothing to learn")
            return 0
        chosen.mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return chosen.shape[0]


@program((data(4, 3), data(4, 2, seed=3), 0.3), (data(3, 3), data(3, 2, seed=3), 0.05))
class Adversarial(Trained):
    """Inputs are first moved against the loss, by projected steps of the gradient's sign."""

    def forward(self, x, y, radius: float):
        moved = x.clone()
        for _ in range(3):
            z = moved.detach().clone().requires_grad_()
            (g,) = torch.autograd.grad(F.mse_loss(self.net(z), y), (z,))
            moved = torch.clamp(moved + 0.5 * radius * g.sign(), x - radius, x + radius)
        loss = F.mse_loss(self.net(moved), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return moved, loss.detach()


@program((data(5, 3), 0.1), (data(3, 3), 0.02))
class TwoPlayers(nn.Module):
    """A GAN's step: the critic sees real and made samples, then the generator is judged by it."""

    def __init__(self):
        super().__init__()
        self.generator, self.critic = network(2, 3), network(3, 1)
        self.of_generator = optim.Adam(self.generator.parameters(), lr=0.01, betas=(0.5, 0.9))
        self.of_critic = optim.Adam(self.critic.parameters(), lr=0.02)

    def forward(self, real, smooth: float):
        n = real.shape[0]
        self.of_critic.zero_grad()
        made = self.generator(torch.randn(n, 2))
        critic_loss = (F.binary_cross_entropy_with_logits(self.critic(real), torch.full((n, 1), 1 - smooth))
                       + F.binary_cross_entropy_with_logits(self.critic(made.detach()), torch.zeros(n, 1)))
        critic_loss.backward()
        self.of_critic.step()
        self.of_generator.zero_grad()
        loss = F.binary_cross_entropy_with_logits(self.critic(made), torch.ones(n, 1))
        loss.backward()
        self.of_generator.step()
        return critic_loss.detach(), loss.detach()


@program((data(5, 3), 10.0, 2), (data(3, 3), 1.0, 3))
class GradientPenalty(nn.Module):
    """WGAN-GP: several critic steps, each with the norm of a gradient in its loss, to one of the generator."""

    def __init__(self):
        super().__init__()
        self.generator, self.critic = network(2, 3), network(3, 1)
        self.of_generator = optim.RMSprop(self.generator.parameters(), lr=0.01)
        self.of_critic = optim.RMSprop(self.critic.parameters(), lr=0.01)

    def forward(self, real, penalty: float, critic_steps: int):
        n = real.shape[0]
        total = 0.0
        for _ in range(critic_steps):
            with torch.no_grad():
                made = self.generator(torch.randn(n, 2))
            e = torch.rand(n, 1)
            between = (e * real + (1 - e) * made).clone().requires_grad_()
            (g,) = torch.autograd.grad(self.critic(between).sum(), (between,), create_graph=True)
            loss = (self.critic(made).mean() - self.critic(real).mean()
                    + penalty * ((g.norm(dim=1) - 1) ** 2).mean())
            self.of_critic.zero_grad()
            loss.backward()
            self.of_critic.step()
            total += loss.item()
        self.of_generator.zero_grad()
        (-self.critic(self.generator(torch.randn(n, 2))).mean()).backward()
        self.of_generator.step()
        return total


@program((data(4, 3), data(4, 2, seed=3), 4), (data(6, 3), data(6, 2, seed=3), 7))
class Scheduled(Trained):
    """A scheduler of the library, asked inside."""

    def __init__(self):
        super().__init__()
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.5)

    def optimizer_of(self, parameters):
        return optim.AdamW(parameters, lr=0.02)

    def forward(self, x, y, steps: int):
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
        return loss.detach(), self.optimizer.param_groups[0]["lr"]


@program((data(6, 3), tokens(6, below=2), 0.2), (data(4, 3), tokens(4, below=2), 2.0))
class SharpnessAware(Trained):
    """Climb to the sharpest point nearby, take the gradient there, step from where one was."""

    def forward(self, x, y, radius: float):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        parameters = list(self.net.parameters())
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        moves = []
        with torch.no_grad():
            for p in parameters:
                e = p.grad * (radius / (norm + 1e-12))
                p.add_(e)
                moves.append(e)
        self.optimizer.zero_grad()
        F.cross_entropy(self.net(x), y).backward()
        with torch.no_grad():
            for p, e in zip(parameters, moves):
                p.sub_(e)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


@program((data(6, 4), 0.5), (data(4, 4), 0.1))
class Contrastive(nn.Module):
    """Two noisy views of every sample, each to be told from all others; a momentum encoder makes one of them."""

    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(4, 3), nn.Linear(4, 3)
        self.optimizer = optim.SGD(self.online.parameters(), lr=0.1)

    def forward(self, x, temperature: float):
        a = F.normalize(self.online(x + 0.1 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            b = F.normalize(self.target(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = F.cross_entropy(a @ b.t() / temperature, torch.arange(x.shape[0]))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for p, q in zip(self.target.parameters(), self.online.parameters()):
                p.lerp_(q, 0.1)
        return loss.detach()

"""Ways to train: diffusion, contrast, low ranks, averages, mixtures, scaled sums, second loops, policies, by hooks."""

from __future__ import annotations

import numpy as np

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn
from tests.programs.beside.sequences import normal


class Denoiser(nn.Module):
    """Ho et al., 2020."""

    def __init__(self, width=4, times=10):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(times, 8), nn.GroupNorm(2, 8)
        self.first, self.second = nn.Linear(width, 8), nn.Linear(8, width)
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.2, times), 0)
        self.register_buffer("signal", kept.sqrt())
        self.register_buffer("noise", (1 - kept).sqrt())

    def forward(self, x, t):
        return self.second(F.gelu(self.norm(self.first(x)) + self.embedding(t)))


class Diffusion:
    def __init__(self):
        self.model = Denoiser()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 4)

    def batch(self, rng):
        return normal(rng, 6, 4), rng.integers(0, 10, (6,)), normal(rng, 6, 4)

    def step(self, x, t, noise):
        seen = self.model.signal[t, None] * x + self.model.noise[t, None] * noise
        loss = F.mse_loss(self.model(seen, t), noise)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss, self.optimizer.param_groups[0]["lr"]


class Contrast:
    """SimCLR. Chen et al., 2020."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(inplace=True),
                                   nn.Linear(8, 4))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2, amsgrad=True)

    def batch(self, rng):
        return normal(rng, 5, 6), normal(rng, 5, 6)

    def step(self, a, b):
        z = F.normalize(self.model(torch.cat([a, b])), dim=1)
        alike = z @ z.T / 0.5
        alike.fill_diagonal_(float("-inf"))
        loss = F.cross_entropy(alike, torch.arange(2 * a.size(0)).roll(a.size(0)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Update(nn.Module):
    """Hu et al., "LoRA", 2021."""

    def __init__(self, rows, columns, rank=2):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(rank, columns)), nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight):
        return weight + 2.0 * self.b @ self.a


class LowRank:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)).requires_grad_(False)
        for layer in (self.model[0], self.model[2]):
            nn.utils.parametrize.register_parametrization(layer, "weight", Update(*layer.weight.shape))
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], 1e-1)

    def batch(self, rng):
        return normal(rng, 4, 5), normal(rng, 4, 2)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.huber_loss(self.model(x), y, delta=0.7)
        loss.backward()
        self.optimizer.step()
        return loss


class Averages:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
        utils = torch.optim.swa_utils
        self.moving = utils.AveragedModel(self.model, multi_avg_fn=utils.get_ema_multi_avg_fn(0.8))
        self.mean = utils.AveragedModel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.schedule = utils.SWALR(self.optimizer, swa_lr=0.05, anneal_epochs=3)

    def batch(self, rng):
        return normal(rng, 8, 4), normal(rng, 8, 1)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.moving.update_parameters(self.model)
        self.mean.update_parameters(self.model)
        self.schedule.step()
        with torch.no_grad():
            return loss, self.optimizer.param_groups[0]["lr"], self.moving(x).sum(), self.mean(x).mean()


class Mixup:
    """Zhang et al., 2018; with smoothed labels and weighted classes."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(6, 16), nn.PReLU(), nn.LayerNorm(16), nn.Linear(16, 4))
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 0.5, 1.0]))
        self.optimizer = torch.optim.Adamax(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 8, 6), rng.integers(0, 4, (8,)), rng.permutation(8), np.float32(rng.random())

    def step(self, x, y, order, share):
        out = self.model(share * x + (1 - share) * x[order])
        hard = share * self.criterion(out, y) + (1 - share) * self.criterion(out, y[order])
        soft = F.one_hot(y, 4).float() * share + F.one_hot(y[order], 4).float() * (1 - share)
        apart = F.kl_div(F.log_softmax(out, 1), soft.softmax(1), reduction="batchmean")
        loss = hard + F.cross_entropy(out, soft) + apart
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Accumulation:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

    def batch(self, rng):
        return normal(rng, 9, 4), normal(rng, 9, 1)

    def step(self, x, y):
        total = 0.0
        self.optimizer.zero_grad()
        for a, b in zip(x.split(3), y.split(3), strict=True):
            loss = F.mse_loss(self.model(a), b) / 3
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total, norm, self.scaler.get_scale()


class LookaheadOptimizer(torch.optim.Optimizer):
    """Zhang et al., 2019, as a user writes it: around another optimizer, with slow weights in its own state."""

    def __init__(self, base, every=2, share=0.5):
        self.base, self.every, self.steps = base, every, 0
        super().__init__([p for g in base.param_groups for p in g["params"]], {"share": share})

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.base.step(closure)
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "slow" not in state:
                    state["slow"] = p.clone().detach()
                if self.steps % self.every == 0:
                    state["slow"].add_(p - state["slow"], alpha=group["share"])
                    p.copy_(state["slow"])
        return loss


class Lookahead:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1))
        self.optimizer = LookaheadOptimizer(torch.optim.Adam(self.model.parameters(), 0.05))

    def batch(self, rng):
        return normal(rng, 6, 3), normal(rng, 6, 1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss


class Hooked:
    def __init__(self):
        self.model, self.seen = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), {}
        self.model[0].register_forward_pre_hook(lambda m, given: (given[0] * 0.5,))
        self.model[1].register_forward_hook(
            lambda m, given, out: self.seen.__setitem__("mean", out.detach().mean()) or out * 1.5)
        self.model[2].register_full_backward_hook(lambda m, inside, outside: (inside[0] * 2,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def batch(self, rng):
        return normal(rng, 3, 4), normal(rng, 3, 2)

    def step(self, x, y):
        out = self.model(x)
        out.register_hook(lambda g: g.clamp(-0.1, 0.1))
        loss = F.mse_loss(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss, self.seen["mean"]


class Jacobians:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05)

    def batch(self, rng):
        return (normal(rng, 3),)

    def step(self, x):
        functional = torch.autograd.functional
        slopes = functional.jacobian(self.model, x, create_graph=True)
        bends = functional.hessian(lambda v: self.model(v).pow(2).sum(), x, create_graph=True)
        _, back = functional.vjp(self.model, x, torch.ones(3), create_graph=True)
        _, along = functional.hvp(lambda v: self.model(v).sum(), x, torch.ones(3), create_graph=True)
        loss = slopes.square().sum() + 0.1 * torch.diagonal(bends).sum() + back.sum() + along.sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Maml:
    """Finn et al., 2017."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return tuple([normal(rng, 2, 5, 1) for _ in range(4)])

    def step(self, xs, ys, xq, yq):
        total = 0.0
        for i in range(xs.shape[0]):
            fast = dict(self.model.named_parameters())
            for _ in range(2):
                loss = F.mse_loss(torch.func.functional_call(self.model, fast, (xs[i],)), ys[i])
                slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {k: p - 0.1 * g for (k, p), g in zip(fast.items(), slopes, strict=True)}
            total = total + F.mse_loss(torch.func.functional_call(self.model, fast, (xq[i],)), yq[i])
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return total


PROGRAMS = (Diffusion, Contrast, LowRank, Averages, Mixup, Accumulation, Lookahead, Hooked, Jacobians, Maml)

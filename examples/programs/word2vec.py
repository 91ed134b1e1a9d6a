"""Skip-grams with negative samples, embeddings with rare rows touched by SGD and Adagrad. Mikolov et al., 2013."""

import numpy as np

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F


class SkipGramModel(nn.Module):
    def __init__(self, emb_size, emb_dimension):
        super().__init__()
        self.u_embeddings = nn.Embedding(emb_size, emb_dimension)
        self.v_embeddings = nn.Embedding(emb_size, emb_dimension)
        initrange = 1.0 / emb_dimension
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u = self.u_embeddings(pos_u)
        emb_v = self.v_embeddings(pos_v)
        emb_neg_v = self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = torch.clamp(score, max=10, min=-10)
        score = -F.logsigmoid(score)
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = torch.clamp(neg_score, max=10, min=-10)
        neg_score = -torch.sum(F.logsigmoid(-neg_score), dim=1)
        return torch.mean(score + neg_score)


def make():
    model = SkipGramModel(40, 12)
    return model, [torch.optim.SGD([model.u_embeddings.weight], lr=0.5),
                   torch.optim.Adagrad([model.v_embeddings.weight], lr=0.3)]


def batch(number, size=16):
    rng = np.random.default_rng(number)
    u = rng.integers(0, 40, size)
    v = (u + rng.integers(1, 4, size)) % 40
    return torch.from_numpy(u), torch.from_numpy(v), torch.from_numpy(rng.integers(0, 40, (size, 5)))


def step(model, optimizers, pos_u, pos_v, neg_v):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = model(pos_u, pos_v, neg_v)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

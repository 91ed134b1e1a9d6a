"""A word-level LSTM with tied weights whose state goes on from batch to batch. Zaremba et al., 2014."""

import math

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F

ntoken, ninp, nlayers, bptt, bsz = 20, 16, 2, 7, 4


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, ninp, nlayers)
        self.decoder = nn.Linear(ninp, ntoken)
        self.decoder.weight = self.encoder.weight
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.encoder(input)
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(output).view(-1, ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, size):
        weight = next(self.parameters())
        return weight.new_zeros(nlayers, size, ninp), weight.new_zeros(nlayers, size, ninp)


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def make():
    model = RNNModel()
    return model, nn.NLLLoss(), {"hidden": model.init_hidden(bsz), "lr": 2.0}


def batch(number):
    words = np.cumsum(np.random.default_rng(0).integers(1, 4, (200, bsz)), axis=0) % ntoken
    source = torch.from_numpy(words)
    i = (number * bptt) % (len(source) - 1)
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def step(model, criterion, carried, data, targets):
    model.train()
    hidden = repackage_hidden(carried["hidden"])
    model.zero_grad()
    output, hidden = model(data, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-carried["lr"])
    carried["hidden"] = repackage_hidden(hidden)
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(28):
        loss = step(*state, *batch(number))
        print(number, loss, "perplexity", math.exp(loss))

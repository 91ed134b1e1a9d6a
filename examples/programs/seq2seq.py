"""Sequences turned round by an encoder and a decoder with attention, teacher forcing. Bahdanau et al., 2015."""

import numpy as np

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F

WORDS, WIDTH, PAD, START = 12, 16, 0, 1


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.join = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(source), lengths, batch_first=True,
                                                   enforce_sorted=False)
        output, hidden = self.gru(packed)
        output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return output, torch.tanh(self.join(torch.cat([hidden[0], hidden[1]], dim=1)))


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa = nn.Linear(WIDTH, WIDTH)
        self.Ua = nn.Linear(2 * WIDTH, WIDTH)
        self.Va = nn.Linear(WIDTH, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys))).squeeze(2)
        weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.attention = BahdanauAttention()
        self.cell = nn.GRUCell(3 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, memory, hidden, mask, target, forced: float):
        token = torch.full((target.size(0),), START, dtype=torch.long)
        outputs = []
        for t in range(target.size(1)):
            context, _ = self.attention(hidden, memory, mask)
            hidden = self.cell(torch.cat((self.embedding(token), context), dim=1), hidden)
            logits = self.out(hidden)
            outputs.append(logits)
            if t < forced * target.size(1):
                token = target[:, t]
            else:
                token = logits.argmax(dim=-1).detach()
        return torch.stack(outputs, dim=1)


def make():
    encoder, decoder = Encoder(), Decoder()
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    return encoder, decoder, optimizer, nn.CrossEntropyLoss(ignore_index=PAD)


def batch(number, size=6):
    rng = np.random.default_rng(number)
    lengths = rng.integers(3, 8, size)
    source = np.zeros((size, lengths.max()), np.int64)
    target = source.copy()
    for row, length in enumerate(lengths):
        source[row, :length] = rng.integers(2, WORDS, length)
        target[row, :length] = source[row, :length][::-1]
    return torch.from_numpy(source), torch.from_numpy(lengths), torch.from_numpy(target)


def step(encoder, decoder, optimizer, criterion, source, lengths, target):
    optimizer.zero_grad()
    memory, hidden = encoder(source, lengths)
    mask = torch.arange(memory.size(1))[None, :] < lengths[:, None]
    logits = decoder(memory, hidden, mask, target, 0.8)
    loss = criterion(logits.view(-1, logits.size(-1)), target.view(-1))
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

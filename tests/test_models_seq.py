"""Whole models over sequences, eager against scripted: values, gradients and steps, at sizes of one compilation."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F
from jitgrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers with dropout, and the loss of the next token; states go from batch to batch."""

    def __init__(self, vocabulary=20, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, dropout=0.3, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.embed.weight

    def forward(self, tokens, targets, h, c):
        out, (h, c) = self.rnn(self.drop(self.embed(tokens)), (h, c))
        logits = self.head(self.drop(out))
        return h.detach(), c.detach(), F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Attention(nn.Module):
    """Additive attention of a state over the encoder's outputs, those beyond the lengths left out."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, state, memory, valid):
        scores = self.score(jitgrad.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        weights = F.softmax(scores.masked_fill(~valid, float("-inf")), dim=-1)
        return (weights.unsqueeze(1) @ memory).squeeze(1)


class Translator(nn.Module):
    """A bidirectional GRU encoder and a GRU cell with attention that reads its own or the given last token."""

    def __init__(self, source=15, target=12, width=6):
        super().__init__()
        self.read, self.write = nn.Embedding(source, width, padding_idx=0), nn.Embedding(target, width)
        self.encoder = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
        self.attention = Attention(width)
        self.cell = nn.GRUCell(2 * width, width)
        self.head = nn.Linear(2 * width, target)

    def forward(self, source, lengths, target, teacher: float):
        packed = pack_padded_sequence(self.read(source), lengths, batch_first=True, enforce_sorted=False)
        out, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True)
        valid = jitgrad.arange(memory.shape[1]) < lengths.unsqueeze(1)
        h = jitgrad.cat([last[0], last[1]], dim=1)
        token = target[:, 0]
        loss = jitgrad.zeros(())
        right = 0
        for t in range(1, target.shape[1]):
            context = self.attention(h, memory, valid)
            h = self.cell(jitgrad.cat([self.write(token), context], dim=1), h)
            logits = self.head(jitgrad.cat([h, context], dim=1))
            loss = loss + F.cross_entropy(logits, target[:, t])
            guess = logits.argmax(1)
            right += int((guess == target[:, t]).sum())
            token = target[:, t] if bool(jitgrad.rand(()) < teacher) else guess
        return right, loss / (target.shape[1] - 1)


class Classifier(nn.Module):
    """A GRU over sequences of different lengths; the class comes from each one's last state."""

    def __init__(self, inputs=5, width=7, classes=3):
        super().__init__()
        self.rnn = nn.GRU(inputs, width, num_layers=2)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, lengths, target):
        _, last = self.rnn(pack_padded_sequence(x, lengths, enforce_sorted=False))
        logits = self.head(self.norm(last[-1]))
        return logits, F.cross_entropy(logits, target)


def run(call, model, seed):
    """Results and gradients of one call from a fixed random state."""
    jitgrad.manual_seed(seed)
    model.zero_grad()
    result = call()
    result[-1].backward()
    return result, [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]


def compare(model, calls):
    scripted = jitgrad.script(model)
    for seed, arguments in enumerate(calls):
        expected, gradients = run(lambda a=arguments: model(*a), model, seed)
        found, scripted_gradients = run(lambda a=arguments: scripted(*a), model, seed)
        for a, b in zip(expected, found, strict=True):
            if isinstance(a, jitgrad.Tensor):
                np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-5, atol=2e-6)
            else:
                assert a == b
        for a, b in zip(gradients, scripted_gradients, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-6)
    assert scripted.cache_info().compilations == 1


def whole(rng, high, *shape):
    return jitgrad.from_numpy(rng.integers(0, high, shape))


@pytest.mark.parametrize("training", [True, False])
def test_language_model(training):
    jitgrad.manual_seed(0)
    rng = np.random.default_rng(0)
    calls = [(whole(rng, 20, n, t), whole(rng, 20, n, t), jitgrad.randn(2, n, 8), jitgrad.randn(2, n, 8))
             for n, t in ((3, 7), (2, 12), (4, 3))]
    compare(LanguageModel().train(training), calls)


def test_translator_with_teacher_forcing():
    jitgrad.manual_seed(0)
    rng = np.random.default_rng(0)
    calls = []
    for lengths, t, teacher in (([4, 6, 2], 5, 1.0), ([3, 5], 8, 0.5), ([2, 2, 7, 1], 4, 0.0)):
        n = len(lengths)
        calls.append((whole(rng, 15, n, 7), jitgrad.tensor(lengths), whole(rng, 12, n, t), teacher))
    compare(Translator(), calls)


def test_classifier_over_variable_lengths():
    jitgrad.manual_seed(0)
    rng = np.random.default_rng(0)
    calls = []
    for lengths in ([4, 6, 2], [3, 5], [2, 2, 7, 1]):
        x = jitgrad.from_numpy(rng.standard_normal((7, len(lengths), 5)).astype(np.float32))
        calls.append((x, jitgrad.tensor(lengths), whole(rng, 3, len(lengths))))
    compare(Classifier(), calls)


def test_language_model_learns_as_eager():
    """Ten steps of Adam with clipping over batches that carry the state."""
    rng = np.random.default_rng(0)
    tokens = whole(rng, 20, 4, 61)
    losses = []
    for scripted in (False, True):
        jitgrad.manual_seed(1)
        model = LanguageModel()
        call = jitgrad.script(model) if scripted else model
        optimizer = jitgrad.optim.Adam(model.parameters(), lr=0.05)
        h = c = jitgrad.zeros(2, 4, 8)
        losses.append([])
        for i in range(10):
            piece = tokens[:, 6 * i:6 * i + 7]
            h, c, loss = call(piece[:, :-1], piece[:, 1:], h, c)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)

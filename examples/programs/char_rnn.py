"""A character RNN written out by hand, its weights updated without an optimizer. Karpathy, 2015."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the other quick brown foxes of the town. "
LETTERS = sorted(set(TEXT))


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.o2o = nn.Linear(hidden_size + output_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        input_combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(input_combined))
        output = self.i2o(input_combined)
        output = self.o2o(torch.cat((hidden, output), 1))
        return self.softmax(output), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


def make():
    return RNN(len(LETTERS), 32, len(LETTERS)), nn.NLLLoss()


def batch(number, length=20):
    start = np.random.default_rng(number).integers(0, len(TEXT) - length - 1)
    line = torch.tensor([LETTERS.index(c) for c in TEXT[start:start + length + 1]])
    one_hot = torch.zeros(length, 1, len(LETTERS))
    one_hot[torch.arange(length), 0, line[:-1]] = 1
    return one_hot, line[1:]


def step(rnn, criterion, input_line_tensor, target_line_tensor):
    learning_rate = 0.005
    target_line_tensor = target_line_tensor.unsqueeze(-1)
    hidden = rnn.initHidden()
    rnn.zero_grad()
    loss = torch.tensor([0.0])
    for i in range(input_line_tensor.size(0)):
        output, hidden = rnn(input_line_tensor[i], hidden)
        loss += criterion(output, target_line_tensor[i])
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return loss.item() / input_line_tensor.size(0)


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))

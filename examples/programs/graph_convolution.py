"""A graph convolution over an edge list, its sums by scatter, on half of the labels. Kipf and Welling, 2017."""

import numpy as np

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0), dtype=x.dtype).scatter_add_(0, col, torch.ones_like(col, dtype=x.dtype))
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        x = self.lin(x)
        messages = norm.view(-1, 1) * x[row]
        out = torch.zeros_like(x).index_add_(0, col, messages)
        return out + self.bias


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.conv1 = GCNConv(features, hidden)
        self.conv2 = GCNConv(hidden, classes)

    def forward(self, x, edge_index):
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.0, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=1)


def make():
    model = GCN(5, 8, 2)
    optimizer = torch.optim.Adam([dict(params=model.conv1.parameters(), weight_decay=5e-4),
                                  dict(params=model.conv2.parameters(), weight_decay=0)], lr=0.02)
    return model, optimizer


def batch(number, nodes=30, edges=80):
    rng = np.random.default_rng(0)  # one graph, all the time
    y = rng.integers(0, 2, nodes)
    x = rng.normal(0, 1, (nodes, 5)) + y[:, None]
    row, col = rng.integers(0, nodes, (2, edges))
    kept = (y[row] == y[col]) | (rng.random(edges) < 0.2)
    loops = np.arange(nodes)
    row, col = np.concatenate([row[kept], col[kept], loops]), np.concatenate([col[kept], row[kept], loops])
    edge_index = np.stack([row, col])
    return (torch.from_numpy(x.astype(np.float32)), torch.from_numpy(edge_index), torch.from_numpy(y),
            torch.from_numpy(rng.random(nodes) < 0.5))


def step(model, optimizer, x, edge_index, y, train_mask):
    model.train()
    optimizer.zero_grad()
    out = model(x, edge_index)
    loss = F.nll_loss(out[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        right = (out.argmax(dim=-1)[~train_mask] == y[~train_mask]).sum() / (~train_mask).sum()
    return loss.item(), right.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, *step(*state, *batch(number)))

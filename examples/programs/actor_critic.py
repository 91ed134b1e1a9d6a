"""Actor and critic on a walk along a line; the dice are given with the batch. Mnih et al., 2016."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
from jitgrad.distributions import Categorical

gamma, eps = 0.99, np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 16)
        self.action_head = nn.Linear(16, 3)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        action_prob = F.softmax(self.action_head(x), dim=-1)
        state_values = self.value_head(x)
        return action_prob, state_values


def make():
    model = Policy()
    return model, torch.optim.Adam(model.parameters(), lr=3e-2)


def batch(number, limit=12):
    rng = np.random.default_rng(number)
    return (torch.from_numpy(rng.normal(0, 0.5, 2).astype(np.float32)),
            torch.from_numpy(rng.random(limit).astype(np.float32)))


def step(model, optimizer, state, dice):
    saved_log_probs, saved_values, entropies, rewards = [], [], [], []
    for t in range(dice.size(0)):
        probs, state_value = model(state)
        m = Categorical(probs)
        action = (dice[t] > probs.detach().cumsum(0)[:-1]).sum()
        saved_log_probs.append(m.log_prob(action))
        saved_values.append(state_value)
        entropies.append(m.entropy())
        speed = 0.9 * state[1] + 0.3 * (action - 1) - 0.1 * state[0]
        state = torch.stack([state[0] + 0.2 * speed, speed])
        rewards.append(1.0 - state[0].abs().item())
        if state[0].abs().item() > 1.5:
            break
    R = 0.0
    returns = []
    for r in rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses = []
    value_losses = []
    for log_prob, value, R in zip(saved_log_probs, saved_values, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.stack([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * torch.stack(entropies).sum()
    loss.backward()
    optimizer.step()
    return loss.item(), sum(rewards)


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, *step(*state, *batch(number)))

"""Reinforcement learning: environments in the loop, returns, policies, values."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, weight


def cart(state, force):
    """One step of a small pole on a cart: position, speed, angle, spin."""
    x, v, angle, spin = state
    spin = spin + 0.1 * (torch.sin(angle) + 0.5 * force * torch.cos(angle))
    v = v + 0.1 * (force - 0.1 * spin * torch.sin(angle))
    return torch.stack([x + 0.1 * v, v, angle + 0.1 * spin, spin])


@program((data(4, scale=0.1), weight(4, 2), 25), (data(4, scale=0.5, seed=4), weight(4, 2), 10))
def rollout_while_not_done(state, w, limit: int):
    """Log-probabilities of what was done until the pole falls."""
    done = False
    total, logs, steps = 0.0, [], 0
    while not done:
        p = torch.softmax(state @ w, 0)
        action = 1 if bool(torch.rand(()) < p[1]) else 0
        logs.append(torch.log(p[action]))
        state = cart(state, 2.0 * action - 1.0)
        steps += 1
        total += 1.0
        done = abs(state[2].item()) > 0.3 or steps >= limit
    return torch.stack(logs).sum() * total, steps


@program((data(4, scale=0.1), weight(4), 6), (data(4, scale=0.2), weight(4), 12))
def analytic_policy_gradient(state, w, steps: int):
    """The gradient goes through the simulator."""
    cost = torch.zeros(())
    for _ in range(steps):
        force = torch.tanh(state @ w)
        state = cart(state, force)
        cost = cost + state[2] ** 2 + 0.01 * force ** 2
        if state[2].abs() > 1.0:
            cost = cost + 10 * state[2].abs()
            break
    return cost


@program((floats(1.0, 0.0, 2.0, 0.5), 0.9), (floats(1.0, 1.0), 0.5))
def discounted_returns(rewards, gamma: float):
    out = torch.zeros_like(rewards)
    running = torch.zeros(())
    for t in reversed(range(rewards.shape[0])):
        running = rewards[t] + gamma * running
        out[t] = running
    return (out - out.mean()) / (out.std() + 1e-6)


@program((data(5), weight(5), ints(0, 0, 1, 0, 0), 0.9, 0.8), (data(3), weight(3), ints(0, 1, 0), 0.99, 0.5))
def generalised_advantages(rewards, values, dones, gamma: float, decay: float):
    advantages = []
    running = torch.zeros(())
    following = torch.zeros(())
    for t in range(len(rewards) - 1, -1, -1):
        alive = 1.0 - dones[t].float()
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * decay * alive * running
        advantages.insert(0, running)
        following = values[t]
    return torch.stack(advantages)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.actor, self.critic = nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return F.log_softmax(self.actor(h), dim=-1), self.critic(h).squeeze(-1)


@program((data(4, scale=0.1), 0.9), (data(4, scale=0.2, seed=5), 0.5))
class Reinforce(nn.Module):
    """An episode and its update in one call."""

    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.optimizer = optim.SGD(self.policy.parameters(), lr=0.05)

    def forward(self, state, gamma: float):
        logs, rewards = [], []
        for _ in range(15):
            logits, _ = self.policy(state)
            action = int(torch.multinomial(logits.exp(), 1))
            logs.append(logits[action])
            state = cart(state, 2.0 * action - 1.0).detach()
            rewards.append(1.0 - abs(state[2].item()))
            if abs(state[2].item()) > 0.25:
                break
        loss, value = torch.zeros(()), 0.0
        for i in range(len(rewards) - 1, -1, -1):
            value = rewards[i] + gamma * value
            loss = loss - logs[i] * value
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), len(rewards)


@program((data(4, scale=0.1), 0.9, 6), (data(4, scale=0.2, seed=5), 0.5, 9))
class ActorCritic(nn.Module):
    """One step of both after every step of the environment."""

    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.optimizer = optim.Adam(self.policy.parameters(), lr=0.01)

    def forward(self, state, gamma: float, limit: int):
        for t in range(limit):
            logs, value = self.policy(state)
            action = 1 if bool(torch.rand(()) < logs[1].exp()) else 0
            following = cart(state, 2.0 * action - 1.0)
            fell = following[2].abs() > 0.3
            target = torch.full((), 1.0)
            if not fell:
                with torch.no_grad():
                    target = target + gamma * self.policy(following)[1]
            advantage = target - value
            loss = -logs[action] * advantage.detach() + 0.5 * advantage ** 2 - 0.01 * -(logs.exp() * logs).sum()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
            state = following
            if fell:
                break
        return state, t


@program((data(6, 4), ints(0, 1, 1, 0, 1, 0), data(6, seed=7), 0.2, 3),
         (data(4, 4), ints(1, 1, 0, 0), data(4, seed=7), 0.05, 5))
class Proximal(nn.Module):
    """PPO: several epochs on one batch, stopped when the policy has moved too far."""

    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.optimizer = optim.SGD(self.policy.parameters(), lr=0.3)

    def forward(self, states, actions, advantages, clip: float, epochs: int):
        with torch.no_grad():
            old = self.policy(states)[0].gather(1, actions[:, None]).squeeze(1)
        done = 0
        for _ in range(epochs):
            logs, values = self.policy(states)
            chosen = logs.gather(1, actions[:, None]).squeeze(1)
            ratio = (chosen - old).exp()
            surrogate = torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()
            loss = -surrogate + 0.5 * F.mse_loss(values, advantages)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            done += 1
            if (old - chosen.detach()).mean() > 1.5 * clip:
                break
        return loss.detach(), done


@program((data(4, scale=0.3), 0.2, 12), (data(4, scale=0.1), 0.9, 7))
class DeepQ(nn.Module):
    """A replay memory in a buffer that wraps round, epsilon-greedy actions, a target network."""

    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(4, 2), nn.Linear(4, 2)
        self.register_buffer("states", torch.zeros(8, 4))
        self.register_buffer("following", torch.zeros(8, 4))
        self.register_buffer("rewards", torch.zeros(8))
        self.register_buffer("actions", torch.zeros(8, dtype=torch.int64))
        self.optimizer = optim.SGD(self.online.parameters(), lr=0.05, momentum=0.5)
        self.seen = 0

    def forward(self, state, epsilon: float, steps: int):
        total = 0.0
        for k in range(steps):
            if bool(torch.rand(()) < epsilon):
                action = int(torch.randint(0, 2, ()))
            else:
                action = int(self.online(state).detach().argmax())
            new = cart(state, 2.0 * action - 1.0).detach()
            slot = self.seen % 8
            with torch.no_grad():
                self.states[slot] = state
                self.following[slot] = new
                self.rewards[slot] = 1.0 - new[2].abs()
                self.actions[slot] = action
            self.seen += 1
            filled = min(self.seen, 8)
            index = torch.randint(0, filled, (3,))
            with torch.no_grad():
                wanted = self.rewards[index] + 0.9 * self.target(self.following[index]).amax(1)
            q = self.online(self.states[index]).gather(1, self.actions[index].unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(q, wanted)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.seen % 5 == 0:
                with torch.no_grad():
                    for p, r in zip(self.target.parameters(), self.online.parameters()):
                        p.copy_(r)
            total += loss.item()
            state = new
        return total / steps


@program((data(5, 5), 0.9, 1e-3), (data(4, 6, seed=2), 0.5, 1e-2))
def value_iteration(rewards, gamma: float, tol: float):
    """A grid, four moves, walls that keep one where one is."""
    h, w = rewards.shape
    v = torch.zeros(h, w)
    sweeps = 0
    while True:
        sweeps += 1
        change = 0.0
        for i in range(h):
            for j in range(w):
                best = -1e9
                for move in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                    y, x = i + move[0], j + move[1]
                    if y < 0 or x < 0 or y >= h or x >= w:
                        y, x = i, j
                    best = max(best, gamma * v[y, x].item())
                new = rewards[i, j].item() + best
                change = max(change, abs(new - v[i, j].item()))
                v[i, j] = new
        if change < tol or sweeps >= 30:
            return v, sweeps


@program((data(6, 2), weight(2), 0.5), (data(9, 2), weight(2), 0.9))
def temporal_difference(features, w, decay: float):
    """TD(lambda) with traces; the weights' path keeps its gradient."""
    trace = torch.zeros(2)
    for t in range(features.shape[0] - 1):
        delta = features[t].sum() + 0.9 * (features[t + 1] @ w) - features[t] @ w
        trace = 0.9 * decay * trace + features[t]
        w = w + 0.05 * delta * trace
    return w


@program((data(3, 3), 2, 3, 6), (data(4, 4, seed=3), 0, 1, 4))
def q_learning_table(rewards, start: int, goal: int, episodes: int):
    n = rewards.shape[0]
    q = torch.zeros(n, n)
    moves = 0
    for episode in range(episodes):
        s = start % n
        for _ in range(10):
            a = int(torch.randint(0, n, ())) if bool(torch.rand(()) < 0.3) else int(q[s].argmax())
            r = rewards[s, a] + (1.0 if a == goal % n else 0.0)
            q[s, a] += 0.5 * (r + 0.9 * q[a].max() - q[s, a])
            s = a
            moves += 1
            if s == goal % n:
                break
    return q, moves

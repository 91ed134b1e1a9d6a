"""State machines, simulations and bookkeeping in Python, with tensors in between."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

import jitgrad as torch
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, weight


@program(
    (floats(0.1, 0.9, 0.8, 0.2, 0.1, 0.95), 0.5, 2),
    (floats(0.9, 0.9, 0.9), 0.5, 1),
    (floats(0.1, 0.1), 0.0, 0),
)
def hysteresis(signal, threshold: float, hold: int):
    """A state by name; the output says where it was on."""
    state, timer = "off", 0
    on = []
    for k, s in enumerate(signal):
        if state == "off":
            if s > threshold:
                state, timer = "rising", hold
        elif state == "rising":
            timer -= 1
            if s < threshold:
                state = "off"
            elif timer <= 0:
                state = "on"
        elif state == "on" and s < threshold / 2:
            state = "off"
        if state == "on":
            on.append(k)
    print("ended", state)
    return on, state == "off"


class Mode(enum.Enum):
    EXPLORE = 0
    EXPLOIT = 1
    STOP = 2


@program(
    (weight(4), floats(0.3, 0.5, 0.1, 0.9), 6, 0.9),
    (weight(3), floats(0.1, 0.1, 0.1), 3, 0.0),
    (weight(2), floats(1.0, 0.0), 20, 0.5),
)
def bandit(prior, reward, rounds: int, epsilon: float):
    estimate, pulls = prior.clone(), torch.zeros_like(prior)
    mode = Mode.EXPLORE
    history = []
    for r in range(rounds):
        if mode is Mode.STOP:
            break
        arm = torch.randint(len(prior), ()).item() if mode is Mode.EXPLORE else int(estimate.argmax())
        pulls = pulls + F.one_hot(torch.tensor(arm), len(prior))
        estimate = estimate + F.one_hot(torch.tensor(arm), len(prior)) * (reward[arm] - estimate[arm]) / pulls[arm]
        history.append(arm)
        if torch.rand(()).item() > epsilon:
            mode = Mode.EXPLOIT
        if pulls.max() >= 5:
            mode = Mode.STOP
    return estimate, history


@dataclass
class Particle:
    position: torch.Tensor
    velocity: torch.Tensor
    bounces: int = 0
    alive: bool = True


@program(
    (floats(0.5, 0.8), weight(2), 0.1, 12),
    (floats(0.0, 0.0), weight(2), 0.5, 3),
    (floats(0.9, 0.9, 0.9), weight(3), 0.3, 40),
)
def bouncing(start, velocity, dt: float, limit: int):
    p = Particle(start, velocity)
    t = 0
    while p.alive and t < limit:
        new = p.position + dt * p.velocity
        outside = (new < 0) | (new > 1)
        if outside.any():
            p = replace(p, velocity=torch.where(outside, -0.9 * p.velocity, p.velocity), bounces=p.bounces + 1)
            new = new.clamp(0, 1)
        p = replace(p, position=new, alive=p.bounces <= 3)
        t += 1
    return p, t


class Account:
    """Plain Python with tensors as amounts."""

    def __init__(self, balance, rate):
        self.balance = balance
        self.rate = rate
        self.log = []

    def deposit(self, amount):
        self.balance = self.balance + amount
        self.log.append(self.balance)
        return self

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError(f"insufficient: {float(amount):.2f} > {float(self.balance):.2f}")
        self.balance = self.balance - amount
        return self

    def grow(self, years: int):
        for _ in range(years):
            self.balance = self.balance * (1 + self.rate)


@program(
    (weight(3), floats(1.0, 2.0, 0.5), 0.05, 3),
    (weight(2), floats(0.0, 1.0), 0.1, 0),
    (weight(2), floats(90.0, 1.0), 0.1, 1),
)
def ledger(deposits, withdrawals, rate: float, years: int):
    account = Account(torch.tensor(5.0), rate)
    for d, w in zip(deposits, withdrawals):
        account.deposit(d.abs()).withdraw(w)
        account.grow(years)
    return account.balance, torch.stack(account.log)


@program(
    (weight(6, 2), ints(3, 1, 2), 0.0),
    (weight(4, 2), ints(4), 1.0),
    (weight(5, 2), ints(0, 5, 0), -1.0),
)
def ragged_batches(flat, lengths, fill: float):
    """Splits a flat tensor by lengths, pads to the longest; an assert guards the sum."""
    assert int(lengths.sum()) == flat.size(0), f"{int(lengths.sum())} rows for {flat.size(0)}"
    longest = int(lengths.max())
    rows, at = [], 0
    for n in lengths:
        k = int(n)
        rows.append(F.pad(flat[at:at + k], (0, 0, 0, longest - k), value=fill))
        at += k
    return torch.stack(rows)


@program(
    (data(5, 6), ints(1, 2), 3),
    (data(4, 4), ints(0, 0), 2),
    (data(3, 3), ints(2, 2), 5),
)
def crop_or_pad(image, corner, size: int):
    top, left = corner.tolist()
    h, w = image.shape
    part = image[top:min(top + size, h), left:min(left + size, w)]
    missing_h, missing_w = size - part.shape[0], size - part.shape[1]
    if missing_h > 0 or missing_w > 0:
        part = F.pad(part, (0, missing_w, 0, missing_h))
    if part.mean() < 0:
        part = part.flip(0)
    return part


@program(
    (ints(3, 1, 4, 1, 5), 2),
    (ints(9), 1),
    (ints(2, 2, 2, 2), 3),
)
def run_length(values, repeats: int):
    codes, counts = [], []
    for v in values:
        if codes and codes[-1] == v.item():
            counts[-1] += 1
        else:
            codes.append(v.item())
            counts.append(1)
    back = torch.repeat_interleave(torch.tensor(codes), torch.tensor(counts) * repeats)
    return codes, counts, back


@program(
    (27, 200), (1, 5), (97, 30), (6, 0),
)
def collatz(n: int, limit: int):
    steps, peak = 0, n
    while n != 1:
        if steps >= limit:
            return -1, peak
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        peak = max(peak, n)
        steps += 1
    return steps, peak


@program(
    (weight(3, 3), floats(1.0, 2.0, 3.0), None),
    (weight(2, 2), floats(1.0, 2.0), None),
)
def optional_bias(w, x, bias: Optional[torch.Tensor] = None):
    y = w @ x
    for k in range(3):
        if bias is not None:
            y = y + bias
        elif y.sum() > 0:
            bias = y.mean()
        else:
            y = y + 1
    return y, bias is None


@program(
    (data(4, 4), 5, "same"),
    (data(6, 6), 2, "same"),
)
def game_of_life(board, generations: int, edges: str):
    alive = board > 0
    for g in range(generations):
        padded = F.pad(alive.float(), (1, 1, 1, 1)) if edges == "same" else alive.float()
        n = sum(padded[i:i + alive.shape[0], j:j + alive.shape[1]]
                for i in range(3) for j in range(3) if (i, j) != (1, 1))
        new = (n == 3) | (alive & (n == 2))
        if torch.equal(new, alive):
            print(f"still after {g}")
            return alive, g
        alive = new
        if not alive.any():
            print("died out")
            break
    return alive, generations


@program(
    (weight(3), ints(0, 1, 2, 0, 2), 1e3),
    (weight(3), ints(2), 0.1),
    (weight(3), ints(1, 1, 1, 1, 1, 1, 1, 1), 2.0),
)
def dispatch_table(x, codes, limit: float):
    """A table of functions chosen by run-time codes; overflow raises."""
    table = (lambda v: v * 2, lambda v: v.pow(2) + 1, torch.tanh)
    for step, code in enumerate(codes):
        x = table[int(code)](x)
        if x.abs().max() > limit:
            raise OverflowError(f"step {step}: {x.abs().max().item():.3f} is too large")
    return x


@program(
    (data(4), 3),
    (data(6), 0),
    (data(2), 8),
)
def in_place_on_the_caller(buffer, rounds: int):
    """The caller's memory is written: shifts, fills, a view that is scaled."""
    tail = buffer[1:]
    for r in range(rounds):
        tail *= 0.5
        buffer[0] += tail.sum()
        if buffer[0] > 1:
            buffer.clamp_(max=1.0)
            continue
        buffer[-1] = r
    return buffer.sum()


@program(
    (floats(4.0, 2.0, 7.0, 1.0), ints(2, 0, 3, 1)),
    (floats(1.0), ints(0)),
)
def permutation_cycles(values, permutation):
    seen = torch.zeros(len(permutation), dtype=torch.bool)
    cycles, product = 0, torch.ones(())
    for start in range(len(permutation)):
        if seen[start]:
            continue
        cycles += 1
        k, total = start, torch.zeros(())
        while not seen[k]:
            seen[k] = True
            total = total + values[k]
            k = permutation[k].item()
        product = product * total
    sign = -1 if (len(permutation) - cycles) % 2 else 1
    return product * sign, cycles


class Carry(NamedTuple):
    h: torch.Tensor
    best: torch.Tensor
    when: int = -1


@program(
    (data(5, 3), weight(3, 3)),
    (data(2, 3), weight(3, 3)),
)
def best_so_far(xs, w):
    carry = Carry(torch.zeros(3), torch.tensor(-float("inf")))
    for t, x in enumerate(xs):
        h = torch.tanh(x + carry.h @ w)
        score = h.sum()
        if score > carry.best:
            carry = Carry(h, score, t)
        else:
            carry = carry._replace(h=h)
    return carry


@program(
    (weight(4), 10, 0.5),
    (weight(3), 1, 2.0),
    (weight(5), 4, -1.0),
)
def closure_counter(x, n: int, step: float):
    calls = 0

    def objective(v):
        nonlocal calls
        calls += 1
        return (v - 1).pow(2).sum()

    value = objective(x)
    for _ in range(n):
        candidate = x + step * torch.randn_like(x)
        new = objective(candidate)
        if new < value:
            x, value = candidate, new
        else:
            step *= 0.7
        if step < 0.05 and step > 0:
            break
    return x, value, calls


def windows(x, size: int):
    start = 0
    while start < x.size(0):
        yield start, x[start:start + size]
        start += size


@program(
    (weight(7, 2), 3),
    (weight(4, 2), 4),
    (weight(5, 2), 2),
)
def chunked_by_a_generator(x, size: int):
    total, n = torch.zeros(2), 0
    for start, part in windows(x, size):
        if part.size(0) < size:
            print(f"last part of {part.size(0)} at {start}")
        total = total + part.mean(0)
        n += 1
    return total / n


@program(
    (floats(1.0, -1.0, 2.0), 2.0),
    (floats(0.0, 0.0), 2.0),
    (floats(1.0, float("nan")), 1.0),
    (floats(1.0), -3.0),
)
def validated(x, scale: float):
    """Checks with their own messages, in the order in which a user would meet them."""
    if scale <= 0:
        raise ValueError(f"scale must be positive, got {scale}")
    if torch.isnan(x).any():
        raise FloatingPointError("NaN in the input at %d" % int(torch.isnan(x).nonzero()[0]))
    norm = x.norm()
    assert norm > 0, "the input is zero"
    return x / norm * scale

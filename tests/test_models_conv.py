"""Whole convolutional models: scripted forward, gradients, running statistics and training steps equal eager's.

One compilation serves every batch size, the last, partial batch included; train and eval modes do not disturb each
other.
"""

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.nn import functional as F
from tests.examples.files import program

LeNet, ResNet = program("programs/lenet").LeNet, program("programs/resnet").ResNet


class Autoencoder(nn.Module):
    """Strided convolutions down, transposed ones and upsampling up; group and instance norms, channel dropout."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.GELU(),
                                  nn.Conv2d(8, 8, 3, 2, 1, groups=2), nn.InstanceNorm2d(8, affine=True), nn.SiLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Dropout2d(0.3), nn.LeakyReLU(0.1),
                                nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReflectionPad2d(1), nn.Conv2d(4, 2, 3))

    def forward(self, x):
        return self.up(self.down(x))


def models(make, seed=0):
    """Two models with equal weights."""
    jitgrad.manual_seed(seed)
    a, b = make(), make()
    b.load_state_dict(a.state_dict())
    return a, b


def assert_same(a, b, tolerance=1e-5):
    a, b = (v.detach().numpy().astype(np.float64) for v in (a, b))
    scale = max(1.0, np.abs(b).max(initial=0.0))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


def assert_equal_state(a, b, gradients=True):
    for (name, p), (_, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
        assert_same(p, q)
        if gradients:
            assert (p.grad is None) == (q.grad is None), name
            if p.grad is not None:
                assert_same(p.grad, q.grad, 2e-5)
    for (_, p), (_, q) in zip(a.named_buffers(), b.named_buffers(), strict=True):
        assert_same(p, q)


def batches(shape, sizes, seed=0):
    rng = np.random.default_rng(seed)
    for n in sizes:
        yield (jitgrad.tensor(rng.standard_normal((n, *shape)).astype(np.float32)),
               jitgrad.tensor(rng.integers(0, 10, n)))


CLASSIFIERS = {"lenet": (LeNet, (1, 28, 28)), "resnet": (ResNet, (3, 16, 16))}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("interpret", [False, True], ids=["native", "interpreted"])
def test_forward_and_backward(name, interpret):
    make, shape = CLASSIFIERS[name]
    plain, model = models(make)
    with config.override(interpret=interpret):
        scripted = jitgrad.script(model)
        for x, y in batches(shape, (8, 5) if interpret else (8, 8, 5, 3)):
            for m in (plain, scripted):
                m.zero_grad()
            logits = plain(x)
            F.cross_entropy(logits, y).backward()
            found = scripted(x)
            F.cross_entropy(found, y).backward()
            assert_same(found, logits)
            assert_equal_state(model, plain)
    assert scripted.cache_info().compilations == 1


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_second_order(name):
    make, shape = CLASSIFIERS[name]
    plain, model = models(make)
    scripted = jitgrad.script(model)
    ((x, y),) = batches(shape, (3,))
    results = []
    for m in (plain, scripted):
        loss = F.cross_entropy(m(x), y)
        first = jitgrad.autograd.grad(loss, list(m.parameters()), create_graph=True)
        penalty = sum([(g * g).sum() for g in first])
        results.append(jitgrad.autograd.grad(penalty, list(m.parameters())))
    for a, b in zip(*results, strict=True):
        assert_same(a, b, 1e-3 if name == "resnet" else 1e-4)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_training_step_as_one_program(name):
    make, shape = CLASSIFIERS[name]
    plain, model = models(make)
    optimizers = [jitgrad.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4) for m in (plain, model)]

    def step(m, optimizer, x, y):
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fast = jitgrad.script(step)
    for x, y in batches(shape, (8, 8, 8, 3)):
        a, b = step(plain, optimizers[0], x, y), fast(model, optimizers[1], x, y)
        assert_same(b, a, 1e-4)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert_same(p, q, 1e-4)
    for p, q in zip(model.buffers(), plain.buffers(), strict=True):
        assert_same(p, q, 1e-4)
    assert fast.cache_info().compilations <= 2  # the first step makes the momenta


def test_train_and_eval_do_not_disturb_each_other():
    plain, model = models(ResNet)
    scripted = jitgrad.script(model)
    for training, (x, _) in zip((True, False, True, False, False, True), batches((3, 16, 16), (4, 4, 6, 3, 5, 2)),
                                strict=True):
        plain.train(training)
        scripted.train(training)
        with jitgrad.no_grad():
            assert_same(scripted(x), plain(x))
        assert_equal_state(model, plain, gradients=False)
        assert model.stem[1].num_batches_tracked.item() == plain.stem[1].num_batches_tracked.item()
    assert model.stem[1].num_batches_tracked.item() == 3
    assert scripted.cache_info().compilations == 2


@pytest.mark.parametrize("momentum", [0.3, None])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_running_statistics(rank, momentum):
    def make():
        return getattr(nn, f"BatchNorm{rank}d")(3, momentum=momentum)

    plain, model = models(make)
    scripted = jitgrad.script(model)
    rng = np.random.default_rng(0)
    for n in (4, 2, 7):
        x = jitgrad.tensor(rng.standard_normal((n, 3, *(2, 3, 4)[:rank])).astype(np.float32) * n)
        assert_same(scripted(x), plain(x))
        assert_equal_state(model, plain, gradients=False)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training, got input size"):
        scripted(jitgrad.zeros(1, 3, *(1, 1, 1)[:rank]))


def test_autoencoder():
    plain, model = models(Autoencoder)
    scripted = jitgrad.script(model)
    for (x, _) in batches((2, 12, 16), (4, 3)):
        results = []
        for m in (plain, scripted):
            m.zero_grad()
            jitgrad.manual_seed(5)
            y = m(x)
            F.mse_loss(y, x).backward()
            results.append(y)
        assert_same(results[1], results[0])
        assert_equal_state(model, plain)
    assert scripted.cache_info().compilations == 1


def test_models_agree_with_torch():
    torch = pytest.importorskip("torch")
    jitgrad.manual_seed(0)
    ours = LeNet()
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
        torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10))
    with torch.no_grad():
        for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
            p.copy_(torch.tensor(q.detach().numpy()))
    scripted = jitgrad.script(ours)
    ((x, y),) = batches((1, 28, 28), (6,))
    F.cross_entropy(scripted(x), y).backward()
    torch.nn.functional.cross_entropy(theirs(torch.tensor(x.numpy())), torch.tensor(y.numpy())).backward()
    for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)

"""Distributions of angles."""

import math
from typing import Any

import jitgrad
from jitgrad import special
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, Parameter, broadcast, regions, same_as
from jitgrad.eager.tensor import Tensor


class VonMises(Distribution):
    """The distribution of angles around loc whose density is as exp(concentration cos(x - loc)), concentration > 0."""

    shown = ("loc", "concentration")
    arg_constraints = regions(loc=constraints.real, concentration=constraints.positive)
    support = constraints.real
    mean = mode = same_as("loc")

    def __init__(self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def variance(self) -> Tensor:
        """The circular one: 1 - I1(concentration) / I0(concentration)."""
        ratio: Tensor = special.i1e(self.concentration) / special.i0e(self.concentration)
        return 1 - ratio

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Angles in [-pi, pi), by rejection in float64.

        Source: Best and Fisher, "Efficient simulation of the von Mises distribution", 1979.
        """
        with jitgrad.no_grad():
            k = self.concentration.detach().double().expand(self._extended(sample_shape))
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = jitgrad.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
            angle = jitgrad.zeros_like(k)
            done = angle > 0
            while not bool(done.all()):
                z = jitgrad.cos(math.pi * jitgrad.rand_like(k))
                u = 1 - jitgrad.rand_like(k)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                side = (jitgrad.rand_like(k) - 0.5).sign()
                taken = ((c * (2 - c) > u) | ((c / u).log() + 1 - c >= 0)) & ~done
                angle = jitgrad.where(taken, side * jitgrad.acos(f.clamp(-1, 1)), angle)
                done = done | taken
            angle = (angle + math.pi + self.loc.detach().double()) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        """concentration (cos(x - loc) - 1) - log(2 pi), less the logarithm of exp(-concentration) I0(concentration)."""
        k = self.concentration
        return k * (jitgrad.cos(value - self.loc) - 1) - math.log(2 * math.pi) - special.i0e(k).log()

"""What all distributions share: shapes, samples without history, text."""

from typing import Any, TypeAlias

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.eager.tensor import Tensor

Parameter: TypeAlias = Tensor | float


def broadcast(*values: Parameter) -> list[Tensor]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype of the tensors, or the default one."""
    like = None
    for v in values:
        if isinstance(v, Tensor):
            like = v
    if like is None:
        return [jitgrad.tensor(float(v)) for v in values]
    tensors = [v if isinstance(v, Tensor) else jitgrad.full((), v, dtype=like.dtype, device=like.device)
               for v in values]
    return list(jitgrad.broadcast_tensors(*tensors))


def _text(value: Tensor) -> str:
    """A parameter in `repr`: a number, or the size."""
    return str((value if value.dim() else value.item()) if value.numel() == 1 else value.size())


def same_as(name: str, doc: str = "", of: str = "") -> Any:
    """A property that is another attribute, or one of the attribute `of`."""
    if of:
        return property(lambda self: getattr(getattr(self, of), name), doc=doc)
    return property(lambda self: getattr(self, name), doc=doc or f"{name}.")


def regions(**of: Any) -> Any:
    """Of which region each parameter is, by name."""
    return of


class Distribution:
    """A distribution over tensors.

    Attributes:
        batch_shape: the shape of the parameters: as many independent distributions.
        event_shape: the shape of one draw.
        has_rsample: whether `rsample` is there: draws that carry gradients to the parameters.
        arg_constraints: of which region each parameter is, ValueError of others.
        support: the region of draws; `log_prob` and `cdf` of other values are ValueErrors.

    With `validate_args=False` nothing is asked. A subclass has `_log_prob` and `_cdf`, which need not ask.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    #: the parameters that `repr` shows
    shown: tuple[str, ...] = ()

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = jitgrad.Size(batch_shape), jitgrad.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name in self.shown or self.arg_constraints:
                if name in self.arg_constraints and not constraints.is_dependent(self.arg_constraints[name]):
                    self._require(name, getattr(self, name), self.arg_constraints[name])

    batch_shape = same_as("_batch_shape", "The shape of the parameters.")
    event_shape = same_as("_event_shape", "The shape of one draw.")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are asked where `validate_args` does not say it."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Of which region each parameter is."""
        return {}

    @property
    def support(self) -> Any:
        """The region of draws, a `constraints.Constraint`."""
        raise NotImplementedError

    def _require(self, name: str, value: Tensor, constraint: Any) -> None:
        """ValueError unless all values of a parameter are allowed."""
        if not bool(constraint.check(value).all()):
            raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                             f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                             f"values:\n{value}")

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError for a value that is no tensor, not of the shape of draws, or outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event, whole = tuple(self._event_shape), self._extended(())
        shape = tuple(value.shape)
        if len(shape) < len(event) or shape[len(shape) - len(event):] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs "
                             f"Size({list(event)}).")
        for k in range(1, min(len(shape), len(whole)) + 1):
            if shape[-k] != 1 and whole[-k] != 1 and shape[-k] != whole[-k]:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs "
                                 f"Size({list(whole)}).")
        if not bool(self.support.check(value).all()):
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {shape}) to be within the "
                             f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n"
                             f"{value}")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with parameters expanded to another batch shape, as views of these."""
        if not self._arguments:
            raise NotImplementedError(f"{type(self).__name__} has no expand")
        given = {name: self._widened(getattr(self, name), tuple(batch_shape)) for name in self._arguments}
        return self._made_again(given, tuple(batch_shape))

    def _made_again(self, given: dict[str, Any], batch_shape: Any) -> Any:
        """One of the class with these arguments."""
        made = type(self)(**given, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _widened(self, x: Any, batch_shape: Any) -> Any:
        """A parameter of other batches."""
        return x.expand(*batch_shape, *tuple(x.shape)[len(tuple(self._batch_shape)):])

    @property
    def _arguments(self) -> tuple[str, ...]:
        """The names of the arguments of which an equal one is made."""
        return self.shown or tuple(self.arg_constraints)

    def _extended(self, sample_shape: Any) -> tuple[Any, ...]:
        """The shape of `sample_shape` draws."""
        return (*tuple(sample_shape), *tuple(self._batch_shape), *tuple(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first axis; NotImplementedError where there are not finitely many."""
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape, with gradients to the parameters."""
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape."""
        with jitgrad.no_grad():
            return self.rsample(sample_shape).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at a value. ValueError for one outside the support."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def _log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expectation of -log_prob."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return jitgrad.exp(self.entropy())

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most the value. ValueError for one outside the support."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        parts = [f"{name}: {_text(getattr(self, name))}" for name in self.shown]
        return type(self).__name__ + "(" + ", ".join(parts) + ")"


class ExponentialFamily(Distribution):
    """A distribution whose density is h(x) exp(t(x) . n - A(n)): a subclass has n and A, and what it wants besides.

    Attributes:
        _natural_params: n, a tuple of tensors.
        _mean_carrier_measure: the expectation of log h(x).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        """A."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _expected(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """n, A(n), and the expectation of t(x), which is A's derivative."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        expected: Any = jitgrad.autograd.grad(normalizer.sum(), natural, create_graph=True)
        return natural, normalizer, expected

    def _over_event(self, x: Tensor, like: Tensor) -> Tensor:
        """The sum over the axes that a natural parameter has besides those of the batch."""
        for _ in range(like.dim() - len(tuple(self._batch_shape))):
            x = x.sum(-1)
        return x

    def entropy(self) -> Tensor:
        """A(n) - n . A'(n) - E log h(x), the parameters taken as values, as in torch."""
        natural, normalizer, expected = self._expected()
        result = normalizer - self._mean_carrier_measure
        for n, t in zip(natural, expected, strict=True):
            result = result - self._over_event(n * t, n)
        return result

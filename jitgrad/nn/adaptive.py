"""A softmax over many classes whose rare ones share smaller layers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.containers import ModuleList, Sequential
from jitgrad.nn.module import Module
from jitgrad.nn.modules.linear import Linear


class _ASMoutput(NamedTuple):
    """The logarithms of the targets' probabilities, and minus their mean."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probabilities of classes that are sorted by their frequency, and the mean loss.

    Args:
        in_features: D.
        n_classes: K.
        cutoffs: where a cluster of rarer classes begins, rising.
        div_value: each cluster projects to that many times fewer features than the one before.
        head_bias: whether the layer of the frequent classes and the clusters has a bias.

    Raises ValueError for cutoffs that do not rise between 1 and K - 1.

    Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Any = None, dtype: dtype | None = None):
        super().__init__()
        limits = list(cutoffs)
        if len(limits) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (limits != sorted(set(limits)) or limits[0] <= 0 or limits[-1] > n_classes - 1
                or any(int(c) != c for c in limits)):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             "where each value is between 1 and n_classes-1")
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*limits, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = limits[0], len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden, classes = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                                        Linear(hidden, classes, bias=False, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster:
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(N, D) and int64 (N,), or (D,) and (): named (output, loss), (N,) and ().

        RuntimeError for shapes that do not fit, and targets that are no classes.
        """
        if target_.dim() == 1:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with size "
                                   f"{input_.shape}")
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with size "
                                   f"{input_.shape}")
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        input = input_ if target_.dim() == 1 else input_.unsqueeze(0)
        target = target_ if target_.dim() == 1 else target_.unsqueeze(0)
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{target.min().item()}, {target.max().item()}] were found. ")
        place, output = target, jitgrad.zeros_like(input[:, 0])
        for i in range(self.n_clusters):
            inside = (target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])
            rows = inside.nonzero().squeeze(1)
            own = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            chosen = (target.index_select(0, rows) - self.cutoffs[i]).unsqueeze(1)
            output = output.index_copy(0, rows, own.gather(1, chosen).squeeze(1))
            place = jitgrad.where(inside, self.shortlist_size + i, place)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if target_.dim() == 1 else output.squeeze(0), (-output).mean())

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        head = F.log_softmax(head, dim=1)
        parts: list[Any] = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        joined: Tensor = jitgrad.cat(parts, 1)
        return joined

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, D) -> (N, K): the log-probabilities of all classes."""
        return self._all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """(N, D) -> int64 (N,): the most likely class of each; those of a cluster only where the head prefers it."""
        head = self.head(input)
        best = head.argmax(1)
        found: Tensor = jitgrad.where(best < self.shortlist_size, best, self._all(input, head).argmax(1))
        return found


__all__ = ["AdaptiveLogSoftmaxWithLoss"]

"""Recurrent cells: one step each, for the layers of `rnn.py` too."""

import math
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter, unset
from jitgrad.ops.autocast import lower

# --- one step: gates_x is what the input gives, with its bias --------------------------------------------------------


def simple_step(gates_x: Tensor, h: Tensor, w_hh: Tensor, b_hh: Tensor | None, relu: bool) -> Tensor:
    total = gates_x + F.linear(h, w_hh, b_hh)
    return jitgrad.relu(total) if relu else jitgrad.tanh(total)


def lstm_step(gates_x: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, b_hh: Tensor | None,
               w_hr: Tensor | None) -> tuple[Tensor, Tensor]:
    i, f, g, o = (gates_x + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = jitgrad.sigmoid(f) * c + jitgrad.sigmoid(i) * jitgrad.tanh(g)
    h = jitgrad.sigmoid(o) * jitgrad.tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


def gru_step(gates_x: Tensor, h: Tensor, w_hh: Tensor, b_hh: Tensor | None) -> Tensor:
    rx, zx, nx = gates_x.chunk(3, -1)
    rh, zh, nh = F.linear(h, w_hh, b_hh).chunk(3, -1)
    z = jitgrad.sigmoid(zx + zh)
    n = jitgrad.tanh(nx + jitgrad.sigmoid(rx + rh) * nh)
    return (h - n) * z + n


# --- cells -----------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share.

    Attributes:
        weight_ih, weight_hh, bias_ih, bias_hh: (gates H, I), (gates H, H), (gates H,) twice; uniform in +-1 / sqrt(H).
    """

    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(jitgrad.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(jitgrad.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, unset(bias, rows, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}{self._unusual(bias=True)}"
        return text + self._unusual(nonlinearity="tanh") if hasattr(self, "nonlinearity") else text

    def _gates(self, input: Tensor, *states: Tensor | None) -> Tensor:
        """The input's part of the gates, all arguments checked."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        for k, state in enumerate(states):
            label = str(k)
            if state is not None:
                if state.dim() not in (1, 2):
                    what = f"hx[{label}]" if name == "LSTMCell" else "hidden"
                    raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
                if state.dim() == 2 and input.dim() == 2 and state.shape[0] != input.shape[0]:
                    raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden{label} batch size "
                                       f"{state.shape[0]}")
                if state.shape[-1] != self.hidden_size:
                    raise RuntimeError(f"hidden{label} has inconsistent hidden_size: got {state.shape[-1]}, expected "
                                       f"{self.hidden_size}")
        return F.linear(input, self.weight_ih, self.bias_ih)

    def _start(self, input: Tensor) -> Tensor:
        return input.new_zeros(*input.shape[:-1], self.hidden_size)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: dtype | None = None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(B, I) or (I,), and the state (B, H) or (H,), 0 by default -> the next state."""
        gates_x = self._gates(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        h = self._start(input) if hx is None else hx
        return simple_step(gates_x, h, self.weight_hh, self.bias_hh, self.nonlinearity == "relu")


class LSTMCell(RNNCellBase):
    """c' = f c + i tanh(g), h' = o tanh(c') with gates i, f, g, o."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(B, I) or (I,), and the states (h, c), 0 by default -> the next states."""
        if hx is None:
            gates_x = self._gates(input)
            h, c = self._start(input), self._start(input)
        else:
            h, c = hx
            gates_x = self._gates(input, h, c)
        return lstm_step(gates_x, h, lower(c, "cuda"), self.weight_hh, self.bias_hh, None)


class GRUCell(RNNCellBase):
    """h' = (1 - z) n + z h with gates r, z and n = tanh(W_in x + b_in + r (W_hn h + b_hn))."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(B, I) or (I,), and the state (B, H) or (H,), 0 by default -> the next state."""
        gates_x = self._gates(input, hx)
        h = lower(self._start(input) if hx is None else hx, "cuda")
        return gru_step(gates_x, h, self.weight_hh, self.bias_hh)


__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

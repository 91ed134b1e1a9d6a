"""Recurrent layers over whole sequences, which scripts compile to loops; `rnn_cells.py` has their steps.

What a step needs of the input is one matrix product over all times before the loop. Packed batches run as padded ones
whose ended sequences keep their state.

Source: Elman, "Finding Structure in Time", 1990; Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; Cho et
al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014; the projection: Sak et al., 2014.
"""

import math
import warnings
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Module
from jitgrad.nn.modules.rnn_cells import gru_step, lstm_step, simple_step
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.utils.rnn import PackedSequence, packed, padded, present
from jitgrad.ops.autocast import lower
from jitgrad.ops.library import classes as _classes

# --- one direction of one layer: (T, B, I) -> (T, B, H) and the last state -------------------------------------------


def _simple_layer(x: Tensor, h: Tensor, weights: tuple[Tensor, ...], bias: bool, relu: bool,
                  mask: Tensor | None) -> tuple[Tensor, Tensor]:
    gates_x = F.linear(x, weights[0], weights[2] if bias else None)
    h = h.to(gates_x.dtype)  # autocast may have changed it
    out = gates_x.new_zeros(x.shape[0], x.shape[1], h.shape[1])
    for t in range(x.shape[0]):
        new = simple_step(gates_x[t], h, weights[1], weights[3] if bias else None, relu)
        h = new if mask is None else jitgrad.where(mask[t], new, h)
        out[t] = h
    return out, h


def _gru_layer(x: Tensor, h: Tensor, weights: tuple[Tensor, ...], bias: bool,
               mask: Tensor | None) -> tuple[Tensor, Tensor]:
    gates_x = F.linear(x, weights[0], weights[2] if bias else None)
    out = x.new_zeros(x.shape[0], x.shape[1], h.shape[1])
    for t in range(x.shape[0]):
        new = gru_step(gates_x[t], h, weights[1], weights[3] if bias else None)
        h = new if mask is None else jitgrad.where(mask[t], new, h)
        out[t] = h
    return out, h


def _lstm_layer(x: Tensor, h: Tensor, c: Tensor, weights: tuple[Tensor, ...], bias: bool, projected: bool,
                mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    gates_x = F.linear(x, weights[0], weights[2] if bias else None)
    if projected:
        h = h.to(gates_x.dtype)
    out = x.new_zeros(x.shape[0], x.shape[1], h.shape[1])
    for t in range(x.shape[0]):
        new_h, new_c = lstm_step(gates_x[t], h, c, weights[1], weights[3] if bias else None,
                                  weights[-1] if projected else None)
        h = new_h if mask is None else jitgrad.where(mask[t], new_h, h)
        c = new_c if mask is None else jitgrad.where(mask[t], new_c, c)
        out[t] = h
    return out, h, c


def _layers(mode: str, x: Tensor, h: Tensor, c: Any, sets: list[tuple[Tensor, ...]], bias: bool,
            directions: int, dropout: float, mask: Tensor | None) -> Any:
    """(T, B, I), states (D L, B, H), and the weights of each direction of each layer -> (T, B, D H), states."""
    x, h, c = lower(x, "cuda"), lower(h, "cuda"), lower(c, "cuda")
    last_h, last_c = [], []
    for place, weights in enumerate(sets):
        if place % directions == 0:
            below = x
            if place and dropout != 0.0:
                below = F.dropout(x, dropout, True)
            outs = []
        backward = place % directions == 1
        steps = below.flip(0) if backward else below
        valid = mask.flip(0) if backward and mask is not None else mask
        if mode == "LSTM":
            out, h_n, c_n = _lstm_layer(steps, h[place], c[place], weights, bias,
                                        len(weights) == (5 if bias else 3), valid)
            last_c.append(c_n)
        elif mode == "GRU":
            out, h_n = _gru_layer(steps, h[place], weights, bias, valid)
        else:
            out, h_n = _simple_layer(steps, h[place], weights, bias, mode == "RNN_RELU", valid)
        last_h.append(h_n)
        outs.append(out.flip(0) if backward else out)
        if place % directions == directions - 1:
            x = jitgrad.cat(outs, 2) if directions == 2 else outs[0]
    return x, jitgrad.stack(last_h), jitgrad.stack(last_c) if c is not None else None


def _sorted(state: Tensor, order: Tensor | None) -> Tensor:
    """A state (layers, B, H) with its sequences in another order."""
    return state if order is None else state.index_select(1, order)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters, layers, directions, packed and unbatched inputs.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: I, the features of the input.
        hidden_size: H, the features of the state.
        num_layers: L; each layer reads the one below.
        bias: whether there are biases.
        batch_first: (B, T, I) instead of (T, B, I), for input and output, not for states.
        dropout: the probability of dropout after each layer but the last.
        bidirectional: a second set of layers (D = 2) reads backwards; the outputs are joined.
        proj_size: the size of the LSTM's state after a projection; 0: none.

    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0: (gates H, I), (gates H, H), (gates H,) twice,
            (proj_size, H); further layers _l1, ...; the second direction _l0_reverse. Uniform in +-1 / sqrt(H).

    Raises:
        ValueError, TypeError: as torch's, for arguments out of range or of another type.
    """

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: dtype | None = None):
        super().__init__()
        _check_arguments(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
        if mode not in gates:
            raise ValueError("Unrecognized RNN mode: " + mode)
        rows, state = gates[mode] * hidden_size, proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else state * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, state)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{suffix}")
                    setattr(self, names[-1], Parameter(jitgrad.empty(*shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters, a list per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: the layout is for cuDNN."""

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + self._unusual(
            proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False)

    def _checked(self, x: Tensor, states: tuple[tuple[Tensor, str, int], ...]) -> None:
        """RuntimeError unless input (T, B, I) and states (D L, B, H) go with the layer and each other."""
        weight = getattr(self, self._all_weights[0][0])
        if x.dtype != weight.dtype:
            raise ValueError(f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). Convert "
                             f"input: input.to({weight.dtype}), or convert model: model.to({x.dtype})")
        if x.shape[2] != self.input_size:
            raise RuntimeError("input.size(-1) must be equal to input_size. "
                               f"Expected {self.input_size}, got {x.shape[2]}")
        for state, what, size in states:
            _classes.require_state(state, (len(self._all_weights), x.shape[1], size), what)

    def _run(self, input: Any, h: Tensor | None, c: Tensor | None) -> Any:
        """Output (padded as the input is, or packed) and states."""
        lstm = self.mode == "LSTM"
        name = "RNN" if self.mode[:3] == "RNN" else self.mode
        is_packed = isinstance(input, PackedSequence)
        mask = None
        if is_packed:
            data, batch_sizes, sorted_indices, unsorted_indices = input
            if data.dim() != 2:
                raise RuntimeError(f"input must have 2 dimensions, got {data.dim()}")
            valid = present(batch_sizes)
            x, mask = padded(data, valid), valid.unsqueeze(-1)
            if h is not None:
                h = _sorted(h, sorted_indices)
            if c is not None:
                c = _sorted(c, sorted_indices)
            unbatched = False
        else:
            x = input
            if x.dim() not in (2, 3):
                raise ValueError(f"{name}: Expected input to be 2D or 3D, got {x.dim()}D "
                                 + ("tensor instead" if name == "RNN" else "instead"))
            unbatched = x.dim() == 2
            if h is not None:
                _check_rank(x, h, c)
            if unbatched:
                x = x.unsqueeze(1)
                h = None if h is None else h.unsqueeze(1)
                c = None if c is None else c.unsqueeze(1)
            elif self.batch_first:
                x = x.transpose(0, 1)
        size = self.proj_size or self.hidden_size
        if h is None:
            h = x.new_zeros(len(self._all_weights), x.shape[1], size)
        if lstm and c is None:
            c = x.new_zeros(len(self._all_weights), x.shape[1], self.hidden_size)
        self._checked(x, ((h, "hidden[0]", size), (c, "hidden[1]", self.hidden_size)) if lstm else  # type: ignore[arg-type]
                      ((h, "hidden", size),))
        sets = [tuple([getattr(self, name) for name in names]) for names in self._all_weights]
        out, h, c = _layers(self.mode, x, h, c, sets, self.bias, 2 if self.bidirectional else 1,
                            self.dropout if self.training else 0.0, mask)
        if is_packed:
            result: Any = PackedSequence(packed(out, valid), batch_sizes, sorted_indices, unsorted_indices)
            return result, _sorted(h, unsorted_indices), _sorted(c, unsorted_indices) if lstm else None
        if unbatched:
            return out.squeeze(1), h.squeeze(1), c.squeeze(1) if lstm else None
        return (out.transpose(0, 1) if self.batch_first else out), h, c

    def forward(self, input: Any, hx: Tensor | None = None) -> Any:
        """(T, B, I), (B, T, I) with batch_first, (T, I) or packed; hx (D L, B, H) -> output (T, B, D H), h_n as hx."""
        out, h, _ = self._run(input, hx, None)
        return out, h


def _check_rank(x: Tensor, h: Tensor, c: Tensor | None) -> None:
    rank = x.dim()
    batched = "batched 3-D" if rank == 3 else "unbatched 2-D"
    if c is not None:
        if h.dim() != rank or c.dim() != rank:
            raise RuntimeError(f"For {batched} input, hx and cx should also be {rank}-D but got ({h.dim()}-D, "
                               f"{c.dim()}-D) tensors")
    elif h.dim() != rank:
        raise RuntimeError(f"For {batched} input, hx should also be {rank}-D but got {h.dim()}-D tensor")


def _check_arguments(input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any, dropout: Any,
                     proj_size: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being "
                         "zeroed")
    if dropout > 0 and num_layers == 1:
        warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                      f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=4)
    for name, value, kind in (("bias", bias, bool), ("batch_first", batch_first, bool), ("input_size", input_size, int),
                              ("hidden_size", hidden_size, int)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu; see `RNNBase` for the arguments."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """h' = (1 - z) n + z h with gates r, z and n = tanh(W_in x + b_in + r (W_hn h + b_hn)); see `RNNBase`."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         **kwargs)


class LSTM(RNNBase):
    """c' = f c + i tanh(g), h' = o tanh(c') with gates i, f, g, o; see `RNNBase` for the arguments."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: dtype | None = None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         proj_size, device, dtype)

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> Any:  # type: ignore[override]
        """As `RNNBase.forward`, with hx = (h, c) and -> output, (h_n, c_n)."""
        if hx is None:
            out, h, c = self._run(input, None, None)
        else:
            out, h, c = self._run(input, hx[0], hx[1])
        return out, (h, c)


# --- the layers as functions of their weights ------------------------------------------------------------------------

_OPTIONS = ("params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED, _PACKED = ("input", "hx", *_OPTIONS, "batch_first"), ("data", "batch_sizes", "hx", *_OPTIONS)


def _bound(fn: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments in the order of `names`. TypeError unless there is one for each."""
    if len(args) + len(kwargs) != len(names) or any(name not in names[len(args):] for name in kwargs):
        raise TypeError(f"{fn}() received an invalid combination of arguments: it takes ({', '.join(_PADDED)}) or "
                        f"({', '.join(_PACKED)})")
    return (*args, *[kwargs[name] for name in names[len(args):]])


def _of_weights(fn: str, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Output and states of one of the functions below."""
    lstm = mode == "LSTM"
    is_packed = "data" in kwargs or "batch_sizes" in kwargs or (  # else hx is the second, params the third
        isinstance(args[3], (list, tuple)) if len(args) > 3 else
        "hx" in kwargs if len(args) == 2 else "params" in kwargs and len(args) == 3)
    bound = _bound(fn, _PACKED if is_packed else _PADDED, args, kwargs)
    c: Any
    hx, params, bias, num_layers, dropout, train, bidirectional = bound[2:] if is_packed else bound[1:-1]
    if not isinstance(bound[0], Tensor) or isinstance(hx, Tensor) == lstm:
        raise TypeError(f"{fn}() received an invalid combination of arguments: the input must be a Tensor, hx "
                        + ("two of them" if lstm else "another"))
    if lstm and len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    h, c = hx if lstm else (hx, None)
    n = num_layers * (2 if bidirectional else 1)
    k = len(params) // n if n > 0 else 0
    least = 4 if bias else 2
    if k * n != len(params) or k not in ((least, least + 1) if lstm else (least,)):
        raise RuntimeError("got an incorrect number of RNN parameters")
    sets = [tuple(params[i * k:i * k + k]) for i in range(n)]
    if is_packed:
        valid = present(bound[1])
        x, mask = padded(bound[0], valid), valid.unsqueeze(-1)
    else:
        x, mask = bound[0], None
        if x.dim() != 3:
            raise IndexError(f"{fn}(): the input must have 3 axes, but it has {x.dim()}")
        if bound[8]:
            x = x.transpose(0, 1)
    _classes.require_state(h, (n, x.shape[1], sets[0][1].shape[1]), "hidden")
    if lstm:
        _classes.require_state(c, (n, x.shape[1], sets[0][1].shape[0] // 4), "cell")
    out, h, c = _layers(mode, x, h, c, sets, bias, 2 if bidirectional else 1, dropout if train else 0.0, mask)
    if is_packed:
        out = packed(out, valid)
    elif bound[8]:
        out = out.transpose(0, 1)
    return (out, h, c) if lstm else (out, h)


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`LSTM` of given weights: (T, B, I), or (B, T, I) with batch_first, hx = (h, c) -> output, h_n, c_n.

    Called as lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or with a
    packed batch as lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional).

    Args:
        hx: states (D L, B, H).
        params: weight_ih, weight_hh, bias_ih, bias_hh (with `has_biases`) and weight_hr (with a projection) for each
            direction of each layer, one after another.

    RuntimeError for states of other shapes and another number of weights.
    """
    return _of_weights("lstm", "LSTM", args, kwargs)


def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`GRU` of given weights -> output, h_n; the arguments are those of `lstm`, with one state."""
    return _of_weights("gru", "GRU", args, kwargs)


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`RNN` of given weights -> output, h_n; the arguments are those of `lstm`, with one state."""
    return _of_weights("rnn_tanh", "RNN_TANH", args, kwargs)


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`RNN` of given weights, with relu -> output, h_n; the arguments are those of `lstm`, with one state."""
    return _of_weights("rnn_relu", "RNN_RELU", args, kwargs)


__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

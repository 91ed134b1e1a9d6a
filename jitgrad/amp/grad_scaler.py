"""`GradScaler`: losses multiplied by a factor, so that gradients in half precision do not vanish.

Plain Python in the subset that `@script` compiles: a whole step, `scale`, `backward`, `step` and `update`, can be one
program. Source: Micikevicius et al., "Mixed Precision Training", 2018; the schedule of the factor is torch's.
"""

import warnings
from collections.abc import Iterable
from typing import Any

import jitgrad
from jitgrad.device import has_gpu
from jitgrad.eager.tensor import Tensor

_FIX = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class GradScaler:
    """Scales losses, unscales gradients, skips steps whose gradients are not finite, and adapts the factor.

    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    Args:
        device: "cpu" or "cuda": where the factor is. "cuda" warns and disables the scaler where there is no GPU.
        init_scale: the first factor.
        growth_factor: by which the factor grows after `growth_interval` steps in a row with finite gradients.
        backoff_factor: by which it shrinks after a step without.
        growth_interval: see growth_factor.
        enabled: False: losses and gradients are left alone, and `step` is the optimizer's.
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0 ** 16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True):
        self._device, self._enabled = device, bool(enabled)
        if device == "cuda" and enabled and not has_gpu():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        where = device if self._enabled else "cpu"
        self._scale = jitgrad.tensor(float(init_scale), dtype=jitgrad.float32, device=where)
        self._growth_tracker = jitgrad.tensor(0, dtype=jitgrad.int32, device=where)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._used = False  # whether `scale` was ever called
        #: optimizer -> (stage since the last update, whether a gradient is not finite as 0.0 or 1.0, were there any)
        self._states: dict[Any, tuple[str, Tensor, bool]] = {}

    def _require_used(self, name: str) -> None:
        if not self._used:
            raise AssertionError(f"Attempted {name} but _scale is None.  {_FIX}")

    def scale(self, outputs: Any) -> Any:
        """A tensor, or those of a list, tuple or other iterable, times the factor."""
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, tuple):
            return tuple([self.scale(y) for y in outputs])
        if isinstance(outputs, list):
            return [self.scale(y) for y in outputs]
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the factor, for example before clipping them.

        Raises RuntimeError for a second call since the last `update`, ValueError for a gradient in half precision.
        """
        if not self._enabled:
            return
        self._require_used("unscale_")
        if optimizer in self._states:
            if self._states[optimizer][0] == "unscaled":
                raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
            raise RuntimeError("unscale_() is being called after step().")
        seen = False
        with jitgrad.no_grad():
            inverse = self._scale.double().reciprocal().float()
            found = jitgrad.zeros((), dtype=jitgrad.float32, device=self._scale.device)
            for group in optimizer.param_groups:
                for p in group["params"]:
                    g = p.grad
                    if g is not None:
                        if g.dtype == jitgrad.float16:
                            raise ValueError("Attempting to unscale FP16 gradients.")
                        finite = jitgrad.isfinite(g).all()
                        found = jitgrad.where(finite, found, 1.0)
                        g.mul_(inverse)
                        seen = True
        self._states[optimizer] = ("unscaled", found, seen)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`unscale_` where it was not called, then the optimizer's step if all gradients are finite; its result."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_used("step")
        if optimizer not in self._states:
            self.unscale_(optimizer)
        stage, found, seen = self._states[optimizer]
        if stage == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if not seen:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if found.item() == 0.0:
            result = optimizer.step(*args, **kwargs)
        self._states[optimizer] = ("stepped", found, seen)
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the factor to what the steps since the last update found; or set it."""
        if not self._enabled:
            return
        self._require_used("update")
        with jitgrad.no_grad():
            if new_scale is None:
                self._adapt()
            elif isinstance(new_scale, float):
                self._scale.fill_(new_scale)
            else:
                if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError("new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                                         "torch.FloatTensor with requires_grad=False.")
                self._scale.copy_(new_scale)
        self._states.clear()

    def _adapt(self) -> None:
        bad = None
        for _, found, seen in self._states.values():
            if seen:
                bad = found > 0 if bad is None else bad | (found > 0)
        if bad is None:
            raise AssertionError("No inf checks were recorded prior to update.")
        steps = self._growth_tracker + 1
        full = steps == self._growth_interval
        grown = self._scale * self._growth_factor
        kept = jitgrad.where(full & jitgrad.isfinite(grown), grown, self._scale)
        self._scale.copy_(jitgrad.where(bad, self._scale * self._backoff_factor, kept))
        self._growth_tracker.copy_(jitgrad.where(bad | full, 0, steps))

    # --- what it holds ---------------------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The factor; 1.0 for a scaler that is not enabled."""
        return float(self._scale.item()) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """By which the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Let the factor grow by this from now on."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By which the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Let the factor shrink by this from now on."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row with finite gradients the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Let the factor grow after so many steps from now on."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        return int(self._growth_tracker.item()) if self._enabled else 0

    def state_dict(self) -> dict[str, Any]:
        """The factor and its schedule, in torch's format; {} for a scaler that is not enabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue as the scaler that `state_dict` came from. RuntimeError for the state of a disabled one."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance "
                               "of GradScaler.")
        self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        if self._states:
            raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                                 "the end after scaler.update().")
        return self.__dict__.copy()

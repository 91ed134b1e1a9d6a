"""torch.cpu.amp: older names of `jitgrad.amp` for the CPU."""

from jitgrad.amp import older


class autocast(older.autocast):
    """`jitgrad.autocast("cpu", ...)`. Deprecated."""

    of = "cpu"


class GradScaler(older.GradScaler):
    """`jitgrad.amp.GradScaler("cpu", ...)`. Deprecated."""

    of = "cpu"


__all__ = ["GradScaler", "autocast"]

"""torch.backends.cuda: how cuBLAS multiplies float32 matrices. Off at first, as in torch.

    jitgrad.backends.cuda.matmul.allow_tf32 = True       # or jitgrad.set_float32_matmul_precision("high")

TF32 keeps 10 bits of the 23 of each factor's fraction; sums are float32. It concerns compiled programs on CUDA devices;
eager products are CuPy's, which has an environment variable of its own (CUPY_TF32).
"""

from jitgrad.codegen.cuda.driver import precision as products

LEVELS = ("highest", "high", "medium")


class _Matmul:
    """Switches of matrix products."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be computed in TF32."""
        return products.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        set_float32_matmul_precision("high" if allow else "highest")

    def __setattr__(self, name: str, value: object) -> None:
        if name != "allow_tf32":
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


matmul = _Matmul()
_level = LEVELS[0]


def set_float32_matmul_precision(precision: str) -> None:
    """`"highest"`: float32 as it is; `"high"` and `"medium"`: TF32 on CUDA devices. RuntimeError for another word."""
    global _level
    if precision not in LEVELS:
        raise RuntimeError(f"float32 matmul precision is one of {', '.join(LEVELS)}, not {precision!r}")
    _level = precision
    products.set_allow_tf32(precision != "highest")


def get_float32_matmul_precision() -> str:
    """What was set last, `"highest"` at first."""
    return _level


__all__ = ["get_float32_matmul_precision", "matmul", "set_float32_matmul_precision"]

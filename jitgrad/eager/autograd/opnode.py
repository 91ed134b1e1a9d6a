"""A row of the op table on the tape, and how its derivative rule is run: on arrays, or recorded itself.

Half types are computed in float32 (`ops/halves.py`). Of complex operands a rule, which is a real function's, is run
between two conjugations (`ops.rules.conjugates`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import cpu_kernels
from jitgrad.dtypes import COMPLEX_CHARS, HALF_CHARS, INEXACT_KINDS
from jitgrad.eager.arrays import arrays as libraries
from jitgrad.eager.arrays.arrays import MANY, library
from jitgrad.eager.arrays.library import HOST
from jitgrad.eager.autograd.node import SECOND_BACKWARD, Array, Meta, Node, Storage, changed
from jitgrad.eager.autograd.tape import tape_of
from jitgrad.eager.construct import wrap
from jitgrad.ops.halves import widened
from jitgrad.ops.opdef import OpDef
from jitgrad.ops.rules import partial_vjp
from jitgrad.ops.types import TensorType

ARRAYS = HOST.F


def _widened(x: Any) -> Any:
    """A saved array, cotangent or `Meta` of a half type in float32; None and all else as it is."""
    if type(x) is Meta:
        return Meta(x.shape, np.dtype(np.float32)) if x.dtype.char in HALF_CHARS else x
    return widened(x)


def _conj(x: Any) -> Any:
    """The conjugate of a complex array, of each in a tuple; all else as it is."""
    if type(x) is tuple:
        return tuple(map(_conj, x))
    return x.conj() if x is not None and x.dtype.char in COMPLEX_CHARS else x


class OpNode(Node):
    """A row of the table on the tape. A subclass per row carries `op`, so that `grad_fn` shows its name.

    `metas` holds one entry per operand: the array where the derivative reads it, else its `Meta`. `ys` holds the
    results likewise; it is empty where the op has one result that is not read. `checks` has (storage, version when
    saved, operand number or -1 - result number) for every array in them.
    """

    __slots__ = ("attrs", "checks", "ys")
    op: OpDef
    parts: tuple[Any, ...] | None
    wide: bool
    conjugates: bool
    attrs: dict[str, Any]
    checks: list[tuple[Storage, int, int]]
    ys: list[Any]

    def name(self) -> str:
        return type(self).__name__

    def _open(self) -> list[Any]:
        xs = self.metas
        if xs is None:
            raise RuntimeError(SECOND_BACKWARD)
        for storage, version, index in self.checks:
            if storage.version != version:
                if index < 0:
                    raise changed(self.ys[-1 - index], self, -1 - index, version, storage.version)
                edge = self.edges[index]
                origin, slot = edge if edge is not None else (None, 0)
                raise changed(xs[index], origin if isinstance(origin, Node) else None, slot, version, storage.version)
        return xs

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        xs = self._open()
        g: Any = cotangents[0]
        y: Any
        if self.n_outputs > 1:
            g, y = tuple(cotangents), tuple(self.ys)
        else:
            y = self.ys[0] if self.ys else g  # an unread result is known by its type, which is g's
        if self.conjugates:
            for x in xs:
                if x.dtype.char in COMPLEX_CHARS:
                    return [_conj(c) for c in self._cotangents(_conj(g), y, xs, needs)]
                if x.dtype.char in HALF_CHARS and self.wide:
                    return self._in_float32(g, y, xs, needs)
        return self._cotangents(g, y, xs, needs)

    def _in_float32(self, g: Any, y: Any, xs: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        """The cotangents of operands of a half type, which are rounded once."""
        g, y = ([tuple(map(_widened, v)) if type(v) is tuple else _widened(v) for v in (g, y)])
        found = self._cotangents(g, y, list(map(_widened, xs)), needs)
        return [c if c is None or c.dtype == x.dtype else c.astype(x.dtype) for c, x in zip(found, xs, strict=False)]

    def _cotangents(self, g: Any, y: Any, xs: list[Any], needs: tuple[bool, ...], F: Any = ARRAYS) -> Sequence[Any]:
        if libraries.MET and F is ARRAYS:
            home = library(next(c for c in g if c is not None) if type(g) is tuple else g)
            if home is not HOST:
                with home.near(g if type(g) is tuple else (g,)):
                    return self._cotangents(g, y, xs, needs, home.F)
        if F is ARRAYS and type(g) is np.ndarray and g.size >= MANY:
            found = cpu_kernels().row_cotangents(self.op, needs, g, y, xs, self.attrs)
            if found is not None:
                return found  # type: ignore[no-any-return]
        parts = self.parts
        if parts is None:
            return self.op.vjp(F, g, y, *xs, **self.attrs)  # type: ignore[operator,misc,no-any-return]
        return [parts[i](F, g, y, *xs, **self.attrs) if needed and parts[i] is not None else None
                for i, needed in enumerate(needs)]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        xs = [self._operand(i, x) for i, x in enumerate(self._open())]
        g: Any = cotangents[0]
        y: Any
        if self.n_outputs > 1:
            g, y = tuple(cotangents), tuple([self._result(i, a) for i, a in enumerate(self.ys)])
        else:
            y = self._result(0, self.ys[0]) if self.ys else g
        like = next(c for c in cotangents if c is not None)
        return partial_vjp(self.op, needs, tape_of(like), g, y, xs, self.attrs)

    def _operand(self, index: int, x: Any) -> Any:
        """Operand `index` as a Tensor with its history, or its type."""
        if type(x) is Meta:
            return TensorType(dtypes.from_numpy(x.dtype), x.shape)
        edge = self.edges[index]
        if edge is None:
            return wrap(x)
        target, slot = edge
        return target.attach(wrap(x), slot) if isinstance(target, Node) else target

    def _result(self, slot: int, y: Any) -> Any:
        if type(y) is Meta:
            return TensorType(dtypes.from_numpy(y.dtype), y.shape)
        return self.attach(wrap(y), slot) if y.dtype.kind in INEXACT_KINDS else wrap(y)

    def keep_copies(self, storage: Storage, array: Array) -> None:
        """Replace `array`, whose memory is about to be overwritten, by a copy where it is a saved operand."""
        for k, (_, version, index) in enumerate(self.checks):
            if index >= 0 and self.metas is not None and self.metas[index] is array and version == storage.version:
                self.metas[index] = libraries.copy(array)
                self.checks[k] = (Storage(), 0, index)

    def release(self) -> None:
        if self.checks:  # something was saved; a node that needs only shapes can be used again, as in torch
            self.metas = None
            self.checks = []
            self.ys = []

"""Wrong calls: the exceptions are of torch's types."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import jitgrad
import jitgrad.nn.functional
from tests.ops.library.test_values import evaluate, torch

#: expressions that raise in both libraries
WRONG = """
b - c; 1 - b; -b; x @ x; x.mm(v); t.bmm(x, x); t.dot(x, v); v @ m[:3]; i.mean(); b.mean(); x.view(5); x.view(-1, 5)
x.view(-1, -1); x.reshape(5, -1); i ** -1; x.sum(2); x.sum((0, 0)); x.squeeze(3); x.transpose(0, 2); x.flatten(1, 0)
a3.t(); v.mT; x.expand(4, 4); x.split(0); x.split([1, 1]); x.chunk(0); x.narrow(0, 2, 2); x.select(0, 3)
t.stack([x, v]); t.cat([x, s]); t.cat([]); t.topk(x, 5); t.zeros(-1); t.arange(0, 3, -1); t.clamp(x); x.item()
bool(x); bool(x[:0]); len(s); x.fill_(v); x.masked_fill(i, 1.0); x[:0].max(); x[:0].max(0); x[:0].argmax()
x.gather(1, v.long()); x.gather(1, g + 9); x.scatter(1, g + 9, 1.0); t.index_select(x, 0, g); i.std(); b.argmax()
x.add_(a3); v.add_(x); i.add_(x); i.div_(2); i.mul_(1.5); t.isclose(x, i); t.linspace(0, 1, -1); t.addmm(v, x, i)
t.softmax(x, 5); x.diagonal(0, 1, 1); t.flip(x, [0, 0]); t.sigmoid(3); t.zeros(2).requires_grad_().add_(1)
t.einsum('ij,jk', x); t.einsum('ij,jk->il', x, m); x + 'a'; x.permute(0); x.permute(0, 0)
F.cross_entropy(x, t.tensor([0, 1, 9])); F.gelu(x, approximate='no'); F.dropout(x, 1.5); t.tensor([[1], [1, 2]])
v.unflatten(0, (3, 2)); x == v[:3]; t.where(x, x, y); i & x; F.pad(x, (1,)); F.layer_norm(x, (3,)); i.diff(dim=5)
x.sum(7); x.roll((1, 2), 0); t.logsumexp(x, None); t.nansum(x, 0, 1); t.sum(x, 0, 1, dtype=t.bool)
t.nuclear_norm(x, 5); t.nuclear_norm(x, 1); t.norm(i, p=1, dtype='float32'); t.narrow_copy(x, 0, -4, -2)
t.narrow_copy(x, 0, 1, -1); t.narrow(x, 0, -4, -2); t.signbit(x + 0j, out=t.zeros(3, 4)); (x + 0j)[:0].max(0)
t.atan2(x + 0j, v[:3]); t.atan2(x + 0j, v); t.cat([v, a3], -2); t.cat([v, a3]); t.cdist(x.bfloat16(), h)
t.cdist(x, d); t.zeros(2, 4).scatter_add_(-2, t.zeros_like(g[:2].repeat(1, 2)), v[:2]); b @ b; b @ x[0].bool()[:3]
t.zeros(2).scatter_(0, t.zeros(2, dtype=t.long), t.zeros(2, 2)); x.scatter(0, g[:1], i); b[0] @ b[0]; b[0] @ b[1, :2]
b.index_reduce(-1, k.long(), b[0], 'amax'); t.bmm(b[None], b[None]); F.linear(b, b[:, :2]); F.linear(b, b)
F.conv2d(b[None], t.zeros(1, 2, 1, 1), None, 1, 0, 1, 2); F.nll_loss(i, k[:3]); F.nll_loss(x, k[:3])
F.cross_entropy(x, m.t()[:3, :3]); F.cross_entropy(i, m.t()[:3, :3].long(), label_smoothing=0.1)
F.cross_entropy(x, i[:, :3]); F.ctc_loss(x[:, None][:0], i, (3,), (2,)); (b & c).addcmul_(b[:2], c[:2])
b[0].addcmul_(b, c); t.einsum('ij,ij->i', b, b); t.einsum('ij,kj->ik', b, c); t.einsum('ij,ij->i', i, u)
F.mse_loss(x, b, weight=p); F.l1_loss(x, b); x[:1].clone().index_copy_(-1, t.tensor([0]), s); (x + 0j).clamp_(1.5, 2)
x.as_strided((2, 2), (0, 1), 1).add_(1); x.view(t.float64)[:, :1].view(5)
x.as_strided((1, 2), (1, 0), 1).view(-1).copy_(v[:2]); t.zeros(3)[:1].__setitem__(0, 1e300)
t.bucketize(x + 0j, v, out=t.zeros(3, 4, dtype=t.long)); F.mse_loss(i, j); F.mse_loss(i, j, weight=p).view(7)
t.addmv(v[:3].bfloat16(), x, v); t.addmm(v, b, b.t()); t.baddbmm(h[None, :, :3], b[None], h.t()[None]); t.zeros(size=2)
t.linalg.eigvalsh(i[:, :3]); t.linalg.eigvalsh(i); t.nuclear_norm(x, 'a'); F.bilinear(x, t.zeros(3, 5), q, s)
F.nll_loss(x, g[:, 0], k); F.conv2d(i[None], m[None, None], dilation=2); x.clone().requires_grad_().resize_()
F.binary_cross_entropy(i, i, k[:3]); t.zeros(4, 2).scatter_add_(1, t.zeros(4, 2, dtype=t.long), s)
t.nansum(x, out=t.zeros((), dtype=t.long)); t.nanmean(x, 1, out=t.zeros(3, dtype=t.int32)); F.softmax(x + 0j, 5)
(x + 0j)[0, 0].max(-1); (x + 0j)[0, 0].max(1); F.cross_entropy(x, i[:2]); F.cross_entropy(x, m.t()[:2]); t.flip(x, None)
t.logcumsumexp(i, 5); x.index_add(0, g[:, 0], s); x.index_reduce(0, g[:, 0], s, 'amax'); u.masked_fill(b[0], s * 1000)
u.index_fill(0, k[:1].long(), s * 9999); i.masked_fill(b, t.tensor(1 + 1j)); x.gather(1, b); t.take_along_dim(x, u)
"""
CASES = [e.strip() for line in WRONG.strip().splitlines() for e in line.split(";") if e.strip()]


def caught(expression: str, module: Any) -> Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as info:  # noqa: PT011  (the type is what the test compares)
            evaluate(expression, module, False)
    return info.value


@pytest.mark.parametrize("expression", CASES)
def test_same_type(expression: str) -> None:
    theirs, ours = caught(expression, torch), caught(expression, jitgrad)
    assert isinstance(ours, type(theirs)), (type(ours), ours, type(theirs), theirs)

"""What torch lists for autocast on the CPU, and what it does not: expressions that run in torch and in jitgrad.

`t` is the library, `F` its functional namespace; M (3, 3), V (3,), B (2, 3, 3), seq (2, 4, 8), img (2, 4, 8, 8),
vol (2, 4, 8, 8, 8) are floats, i (3,) int64, `half` casts to float16.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np

import jitgrad

#: products: operands are cast to the region's dtype
LOWER = """
t.matmul(M, M); M @ M; t.matmul(M, V); t.matmul(V, M); t.matmul(V, V); t.mm(M, M); t.bmm(B, B); t.addmm(M, M, M)
t.addmm(V, M, M, beta=0.5, alpha=2.0); t.baddbmm(B, B, B); t.addbmm(M, B, B); t.tensordot(M, M, 1); t.inner(M, M)
t.einsum("ij,jk->ik", M, M); t.einsum("ij,jk,kl->il", M, M, M); t.linalg.multi_dot([M, M]); t.linalg.vecdot(M, M)
t.linalg.matrix_power(M, 3); F.linear(M, M); F.linear(M, M, V); t.cov(M)
F.conv1d(seq, seq[:, :, :3]); F.conv2d(img, img[:, :, :3, :3], img[0, 0, 0, :2]); F.conv3d(vol, vol[:, :, :3, :3, :3])
F.conv_transpose1d(seq, seq[0][:, None, :3]); F.conv_transpose2d(img, img[0][:, None, :3, :3])
F.conv_transpose3d(vol, vol[0][:, None, :3, :3, :3]); F.prelu(img, img[0, :, 0, 0])
F.scaled_dot_product_attention(B, B, B); F.scaled_dot_product_attention(B, B, B, B)
F.scaled_dot_product_attention(B, B, B, is_causal=True)
"""

#: sensitive functions: operands are cast to float32
WIDEN = """
t.prod(M); t.prod(M, 0); t.trace(M); t.quantile(M, 0.5); t.cdist(M, M + 1); t.linalg.inv(M + eye)
t.linalg.cholesky(M @ M.T + 3 * eye); t.linalg.solve(M + eye, M)
F.mse_loss(M, M + 1); F.l1_loss(M, M + 1); F.smooth_l1_loss(M, M + 1); F.huber_loss(M, M + 1); F.nll_loss(M, i)
F.nll_loss(M, i, V); F.cross_entropy(M, i); F.cross_entropy(M, M); F.cross_entropy(M, i, label_smoothing=0.1)
F.binary_cross_entropy(M, M); F.binary_cross_entropy_with_logits(M, M); F.kl_div(M, M); F.poisson_nll_loss(M, M)
F.hinge_embedding_loss(M, M); F.margin_ranking_loss(V, V + 1, V); F.soft_margin_loss(M, M)
F.cosine_embedding_loss(M, M + 1, V); F.triplet_margin_loss(M, M + 1, M - 1); F.multi_margin_loss(M, i)
F.multilabel_margin_loss(M, i.expand(3, 3)); F.max_pool3d(vol, 2); F.avg_pool3d(vol, 2); F.adaptive_avg_pool3d(vol, 2)
F.adaptive_max_pool3d(vol, 2); F.pad(seq, (1, 1), mode="reflect"); F.pad(img, (1, 1, 1, 1), mode="reflect")
F.pad(seq, (1, 1), mode="replicate"); F.pad(vol, (1, 1, 1, 1, 1, 1), mode="replicate")
F.local_response_norm(img, 2)
"""

#: on no list: they take what they are given
NEITHER = """
t.mv(M, V); t.dot(V, V); t.outer(V, V); t.addmv(V, M, V); t.addr(M, V, V); t.einsum("ij,ij->ij", M, M)
t.einsum("i,j->ij", V, V); F.softmax(M, -1); F.log_softmax(M, -1); t.exp(M); t.log(M); M ** 2.5; t.sum(M)
t.cumsum(M, 0); t.cumprod(M, 0); t.norm(M); t.mean(M); t.var(M); t.std(M); t.logsumexp(M, 0); F.layer_norm(M, (3,))
F.layer_norm(M, (3,), V, V); F.group_norm(img, 2); F.instance_norm(img); F.rms_norm(M, (3,)); F.normalize(M)
F.cosine_similarity(M, M); F.pairwise_distance(M, M + 1); t.dist(M, M + 1); F.gaussian_nll_loss(M, M, M)
F.multilabel_soft_margin_loss(M, M); F.max_pool2d(img, 2); F.avg_pool2d(img, 2); F.adaptive_avg_pool2d(img, 2)
F.pad(seq, (1, 1)); F.pad(seq, (1, 1), mode="circular"); F.interpolate(img, scale_factor=2, mode="bilinear")
F.gelu(M); t.kron(M, M); F.unfold(img, 2); F.embedding(i, M); F.bilinear(M, M, B); M.clone().addmm_(M, M)
B.clone().baddbmm_(B, B); t.matmul(i.expand(3, 3), i.expand(3, 3)); t.cat([M, i.expand(3, 3)])
F.batch_norm(img, img[0, :, 0, 0], img[0, :, 0, 1])
"""

#: operands of two dtypes
MIXED = """
M @ half(M); half(M) @ M; F.linear(half(M), M, V); t.bmm(B, half(B)); t.addmm(half(V), M, half(M))
F.conv2d(half(img), img[:, :, :3, :3]); F.mse_loss(M, half(M)); F.mse_loss(half(M), M); t.cat([M, half(M)])
t.stack([half(M), M]); t.index_copy(M, 0, i, half(M)); t.index_copy(half(M), 0, i, M); M + half(M)
F.scaled_dot_product_attention(half(B), B, half(B)); t.einsum("ij,jk->ik", M, half(M))
F.layer_norm(half(M), (3,), V, V); F.batch_norm(half(img), img[0, :, 0, 0], img[0, :, 0, 1])
F.batch_norm(half(img), img[0, :, 0, 0], img[0, :, 0, 1], img[0, :, 0, 2], img[0, :, 0, 3])
F.group_norm(half(img), 2, img[0, :, 0, 0], img[0, :, 0, 1]); F.instance_norm(half(img), weight=img[0, :, 0, 0])
F.rms_norm(half(M), (3,), V)
"""


def parse(text: str) -> list[str]:
    return [e.strip() for line in text.strip().splitlines() for e in line.split("; ")]


ALL = [e for text in (LOWER, WIDEN, NEITHER, MIXED) for e in parse(text)]


#: the operands of expressions
SHAPES = {"M": (3, 3), "V": (3,), "B": (2, 3, 3), "seq": (2, 4, 8), "img": (2, 4, 8, 8), "vol": (2, 4, 8, 8, 8)}


def variables(t: Any, functional: Any, d: str) -> dict[str, Any]:
    """What an expression of tensors of a dtype is evaluated with; `t` is jitgrad or torch."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {k: t.tensor((rng.random(s) * 0.5 + 0.25).tolist(), dtype=getattr(t, d))
                             for k, s in SHAPES.items()}
    return {**found, "t": t, "F": functional, "i": t.tensor([0, 1, 2]), "eye": t.eye(3, dtype=getattr(t, d)),
            "half": lambda x: x.to(t.float16)}


def scripted(expression: str, region: str) -> tuple[list[str], Any]:
    """The variables of an expression, and it as a function of them, inside `with autocast(region):`."""
    names = [n for n in (*SHAPES, "i", "eye") if n in compile(expression, "", "eval").co_names]
    text = f"def f({', '.join(names)}):\n    with t.autocast({region}):\n        return {expression}\n"
    file = f"<autocast {region} {expression}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"t": jitgrad, "F": jitgrad.nn.functional, "half": lambda x: x.to(jitgrad.float16)}
    exec(compile(text, file, "exec"), scope)
    return names, scope["f"]

"""Expressions that torch and jitgrad must evaluate alike: `t` is the module, the other names are tensors.

x, y: float32 (3, 4); p: positive (3, 4); v, w: (4,); s: 0-dim; h: float16 (3, 4); d: float64 (3, 4); i, j: int64
(3, 4); k: int32 (4,); u: uint8 (4,); b, c: bool (3, 4); a3: float32 (2, 3, 4); m: (4, 5); q: (2, 4, 5); n: with NaN and
infinities (3, 4); g: int64 (3, 2) in [0, 4).
"""

ARITHMETIC = """
x + y; x - y; x * y; x / y; x // y; x % y; x ** 2; p ** y; p ** 0.5; p ** -0.5; x ** -1; x ** 3; x ** 2.5; 2 ** x
x ** 0; x + 1; 1 + x; x - 1.5; 1.5 - x; x * 2; 2 * x; x / 3; 3 / p; x // 2; 5 // p; x % 2; 7 % p; -x; +x; abs(x)
x @ m; i + j; i + 1; i + 1.5; i - 2; i * j; i / 2; i / p; i // 3; i % 3; i ** 2; 2 ** p; -i; abs(-i); i + x; i + True
i * 2.0; b + c; b * c; b + 1; b + 1.5; b * x; b | c; b & c; b ^ c; ~b; ~i; i & 3; i | j; i ^ 5; i << 2; i >> 1; 1 << k
u + 1; u + k; u + i; u * 1.5; k / 2; k + 1.0; h + 1; h + x; h * d; d + 1; d * x; s + i; s * k; s + h; x + s; i + s
v + x; x + v; d + s; t.add(x, y, alpha=2); t.add(x, 2, alpha=3); t.sub(x, y, alpha=0.5); t.rsub(x, 3); t.mul(x, 2)
t.div(x, y); t.true_divide(i, 2); t.div(x, p, rounding_mode='floor'); t.div(x, p, rounding_mode='trunc')
t.div(i, 3, rounding_mode='floor'); t.div(-i, 3, rounding_mode='trunc'); t.div(i, j + 11, rounding_mode='trunc')
t.floor_divide(x, p); t.remainder(x, p); t.fmod(x, p); t.fmod(-i, 3); t.remainder(-i, 3); t.pow(x, 3); t.pow(2, p)
t.pow(p, y); t.addcmul(x, y, p, value=2); t.addcdiv(x, y, p, value=0.5); t.addcdiv(x, y, p); t.lerp(x, y, 0.3)
t.lerp(x, y, p / 10); t.neg(x); t.positive(x); t.square(x); t.abs(i); t.sign(x); t.sgn(x); t.sign(i); t.atan2(x, y)
t.atan2(i, 2 * j + 1); t.hypot(x, y); t.copysign(x, y); t.copysign(x, -1.0); t.logaddexp(x, y); t.xlogy(p, p)
t.xlogy(x * 0, p); t.maximum(x, y); t.minimum(x, y); t.maximum(i, x); t.fmax(n, x); t.fmin(n, x); t.maximum(n, x)
t.clamp(x, -0.5, 0.5); t.clamp(x, min=0); t.clamp(x, max=0.25); t.clamp(i, 1, 3); t.clamp(i, min=0.5)
t.clamp(x, y, p); t.clip(x, -1, 1); t.clamp(n, -1, 1); t.clamp(x, 1.0, -1.0); t.clamp(x, min=y); t.clamp_min(x, 0.1)
t.clamp_max(x, 0.1); x.clip(0, 1); x.clamp(min=0); t.nan_to_num(n); t.nan_to_num(n, 1.0, 2.0, -2.0)
t.logit(t.sigmoid(x)); t.logit(p, 0.1); t.deg2rad(x); t.rad2deg(x); t.frac(x)
"""

FUNCTIONS = """
t.exp(x); t.exp2(x); t.expm1(x); t.log(p); t.log1p(p); t.log2(p); t.log10(p); t.sqrt(p); t.rsqrt(p); t.sin(x)
t.cos(x); t.tan(x / 3); t.asin(t.tanh(x)); t.acos(t.tanh(x)); t.atan(x); t.sinh(x); t.cosh(x); t.tanh(x); t.asinh(x)
t.acosh(p + 1); t.atanh(t.tanh(x) * 0.9); t.erf(x); t.erfc(x); t.erfinv(t.tanh(x) * 0.9); t.lgamma(p); t.digamma(p)
t.polygamma(1, p); t.reciprocal(p); t.sigmoid(x); t.floor(x); t.ceil(x); t.trunc(x); t.round(x)
t.round(x, decimals=1); t.floor(i); t.round(i); t.exp(i); t.sqrt(i * i); t.sigmoid(i); t.sin(b); t.exp(h); t.sinc(x)
t.relu(x); x.relu(); t.selu(x); t.celu(x); t.relu(i - 2); x.sigmoid(); x.tanh(); x.exp(); p.log(); x.erf(); t.isnan(n)
t.isinf(n); t.isfinite(n); t.isposinf(n); t.isneginf(n); t.isnan(i); t.isfinite(i); t.signbit(n); t.signbit(i)
t.nn.functional.leaky_relu(x); t.nn.functional.leaky_relu(x, 0.3); t.nn.functional.elu(x); t.nn.functional.elu(x, 0.5)
t.nn.functional.gelu(x); t.nn.functional.gelu(x, approximate='tanh'); t.nn.functional.silu(x); t.nn.functional.mish(x)
t.nn.functional.softplus(x); t.nn.functional.softplus(x, 2.0, 1.0); t.nn.functional.hardtanh(x)
t.nn.functional.relu6(x * 5); t.nn.functional.hardswish(x * 3); t.nn.functional.hardsigmoid(x * 3)
t.nn.functional.logsigmoid(x); t.nn.functional.softsign(x); t.nn.functional.tanhshrink(x)
t.nn.functional.threshold(x, 0.1, 20); t.nn.functional.hardshrink(x); t.nn.functional.softshrink(x)
t.nn.functional.glu(x); t.nn.functional.prelu(a3, v[:3] / 4); t.nn.functional.celu(x, 1.5)
t.nn.functional.softmin(x, 1)
"""

COMPARISONS = """
x == y; x != y; x < y; x <= y; x > 0; x >= 0.5; i == 1; i > 0.5; b == c; b == True; i == x; 1 < x; 0.5 >= x; x == s
x < v; t.eq(x, x); t.ne(x, 0); t.lt(i, j); t.logical_and(b, c); t.logical_or(b, i); t.logical_xor(b, c)
t.logical_not(x); t.logical_not(b); t.where(b, x, y); t.where(b, x, 0); t.where(b, 1, 0); t.where(b, 1.0, x)
t.where(b, i, x); t.where(b[0], x, s); t.where(b); x.where(b, y); x.masked_fill(b, 7); x.masked_fill(b[0], -1.5)
i.masked_fill(b, 3); t.masked_fill(x, b, s); t.isclose(x, x + 1e-9); t.isclose(n, n); t.isclose(n, n, equal_nan=True)
t.isclose(i, j); t.allclose(x, x); t.allclose(x, y); t.equal(x, x); t.equal(x, v); t.equal(i, i); t.bitwise_and(i, 3)
t.bitwise_not(b); t.bitwise_left_shift(i, 1); t.bitwise_right_shift(i, k)
"""

REDUCTIONS = """
t.linalg.vector_norm(h * 200, 3, 1); t.linalg.vector_norm(h * 300); t.norm(h * 200, 2.5); t.norm(h * 200, 0.5, 0)
t.nansum(i, 0, dtype=t.complex64); t.nansum(b, 1); t.nansum(i, (0, -1)); t.nansum(n, dtype=t.float64)
x.sum(); x.sum(0); x.sum(-1); x.sum((0, 1)); x.sum(dim=1, keepdim=True); i.sum(); i.sum(0); b.sum(); b.sum(1); k.sum()
u.sum(); x.sum(dtype=t.float64); i.sum(dtype=t.float32); s.sum(); s.sum(0); t.sum(a3, (0, 2))
t.sum(a3, [0, -1], True); t.sum(x, ()); x.mean(); x.mean(1); x.mean((0, 1), keepdim=True); i.mean(dtype=t.float32)
h.mean(); d.mean(0); t.mean(a3, (-1, -2)); x.prod(); x.prod(0); x.prod(1, keepdim=True); i.prod(); b.prod(); x.var()
x.var(0); x.var(1, keepdim=True); x.var(unbiased=False); x.var(1, False); t.var(x, dim=(0, 1))
t.var(x, 1, correction=0); x.std(); x.std(0); x.std(1, unbiased=False); t.std(a3, (0, 2)); t.var_mean(x, 1)
t.std_mean(x); t.var_mean(x, dim=0, keepdim=True); x.max(); x.min(); x.max(0); x.max(1); x.min(-1, keepdim=True)
x.max(dim=0).values; x.min(dim=1).indices; t.max(x, y); t.min(x, y); t.max(i, 1); i.max(); b.max(); t.max(x, dim=1)[1]
s.max(0); x.argmax(); x.argmin(); x.argmax(0); x.argmax(1, keepdim=True); x.argmin(dim=-1); i.argmax(1); x.amax(1)
x.amin((0, 1)); x.amax(); t.amax(a3, (0, 2), True); t.aminmax(x); b.any(); b.all(); b.any(0); b.all(1); x.any()
i.all(1, keepdim=True); t.any(b, -1); t.logsumexp(x, 1); t.logsumexp(x, (0, 1)); t.logsumexp(x, 0, keepdim=True)
x.softmax(1); t.softmax(x, 0); t.softmax(x, -1); t.log_softmax(x, 1); x.log_softmax(0)
t.softmax(i, 1, dtype=t.float32); t.softmax(s, 0); x.norm(); x.norm(p=1); x.norm(dim=1); t.norm(x, 3, 0)
t.norm(x, float('inf')); t.norm(x, 0.5, 1, True); t.norm(x, 'fro'); t.linalg.norm(x); t.linalg.vector_norm(x, 3, 1)
t.linalg.matrix_norm(x); t.linalg.matrix_norm(x, 1); t.linalg.norm(x, float('inf')); t.dist(x, y); x.cumsum(0)
x.cumsum(1); i.cumsum(1); x.cumprod(1); b.cumsum(0); t.cumsum(x, -1, dtype=t.float64); t.diff(x)
t.diff(x, n=2, dim=1); t.diff(i, dim=0); t.count_nonzero(i); t.count_nonzero(i, 0); t.nansum(n[0]); t.nansum(n, 1)
x.sort(); x.sort(0); x.sort(1, True); x.argsort(); x.argsort(0, descending=True); t.topk(x, 2); x.topk(2, 0)
x.topk(3, 1, False); t.sort(i, dim=1, stable=True); x.median(); x.median(1); x.median(0, keepdim=True); n.max()
s.sort(); t.linalg.norm(x, 2, 1); t.linalg.norm(a3, 2, 1, True); t.norm(x, 2, (0, 1)); h.sum(); h.var()
t.linalg.vecdot(x, y)
"""

SHAPES = """
x.view(4, 3); x.view(-1); x.view((2, -1)); x.view(2, 3, 2); x.reshape(12); x.reshape(-1, 6); t.reshape(x, (6, 2))
x.flatten(); a3.flatten(1); a3.flatten(0, 1); s.flatten(); t.ravel(x); a3.unflatten(2, (2, 2))
a3.unflatten(-1, (-1, 2)); x.t(); v.t(); x.T; a3.mT; a3.permute(2, 0, 1); a3.permute((1, 2, 0))
t.permute(a3, (-1, 0, 1)); a3.transpose(0, 2); a3.transpose(-1, -2); x.unsqueeze(0); x.unsqueeze(-1); x.unsqueeze(1)
x.unsqueeze(0).squeeze(); x.unsqueeze(0).squeeze(0); x.squeeze(0); x.unsqueeze(1).unsqueeze(0).squeeze((0, 2))
v.expand(3, 4); x.unsqueeze(0).expand(2, -1, -1); x[:, :1].expand(3, 4); s.expand(2, 2); v.expand_as(x)
t.broadcast_to(v, (2, 4)); x.view_as(i); v.repeat(2); v.repeat(3, 2); x.repeat(1, 1); x.repeat(2, 1, 2); v.tile(2)
x.tile((2, 2)); x.repeat_interleave(2); x.repeat_interleave(2, 0); t.repeat_interleave(x, 3, dim=1)
t.repeat_interleave(x, k.abs(), dim=1); t.repeat_interleave(v, k.abs()); x.split(2); x.split(1, 1); x.split([1, 2])
x.split((3, 1), -1); t.split(x, 3, dim=1); x.chunk(2); x.chunk(2, 1); x.chunk(5, 1); x.chunk(3, dim=1); x.unbind()
x.unbind(1); t.tensor_split(x, 3, 1); t.tensor_split(x, (1, 3), 1); x.narrow(0, 1, 2); x.narrow(1, -3, 2)
x.select(0, 1); x.select(-1, -1); x.flip(0); x.flip(0, 1); t.flip(x, [1]); t.fliplr(x); t.flipud(x); t.roll(x, 1)
t.roll(x, 1, 0); t.roll(x, (1, -2), (0, 1)); t.roll(x, 5, 1); t.rot90(x); t.rot90(x, 2); t.rot90(x, -1); t.diagonal(x)
t.diagonal(x, 1); a3.diagonal(0, 1, 2); a3.diagonal(-1, 2, 0); t.diag(v); t.diag(x); t.diag(v, 1); t.diag(v, -2)
t.diag(x, -1); t.diag_embed(x); t.diag_embed(x, 1); t.diag_embed(x, -1, 0, 2); x.tril(); x.triu(); x.tril(-1)
t.triu(x, 2); t.tril(a3, 1); t.movedim(a3, 0, 2); t.movedim(a3, (0, 1), (2, 0)); a3.swapaxes(0, 1)
t.moveaxis(a3, -1, 0); t.cat([x, y]); t.cat((x, y), 1); t.cat([x, i], dim=-1); t.cat([b, c]); t.stack([x, y])
t.stack([v, w], 1); t.stack((x, y), -1); t.stack([i, k.expand(3, 4)]); t.hstack([v, w]); t.hstack([x, y])
t.vstack([v, w]); t.vstack([x, y]); t.dstack([x, y]); t.column_stack([v, w]); t.column_stack([x, y])
t.meshgrid(v, w, indexing='ij'); t.meshgrid(v, w, indexing='xy'); t.broadcast_tensors(x, v); t.atleast_1d(s)
t.atleast_2d(v); t.cartesian_prod(v, w); x.unfold(1, 2, 1); x.unfold(0, 2, 1); v.unfold(0, 3, 1); x.clone()
x.contiguous(); x.size(); x.size(0); x.shape; x.dim(); x.numel(); x.nelement(); len(x); a3.ndim; x.dtype == t.float32
x.is_floating_point(); t.nn.functional.pad(x, (1, 2)); t.nn.functional.pad(x, (1, 0, 0, 2), value=3.0)
t.nn.functional.pad(x, (-1, 1)); t.nn.functional.pad(i, (0, 1), 'constant', 9); t.nn.functional.pad(x, (0, -1, -1, 0))
t.nn.functional.pad(b, (1, 1), value=True)
"""

INDEXING = """
x[0]; x[-1]; x[1, 2]; x[:, 1]; x[..., -1]; x[1:]; x[:-1]; x[::2]; x[1:3, ::2]; x[None]; x[:, None]; x[..., None]
x[0:0]; x[10:]; x[-10:2]; x[b]; x[b[:, 0]]; x[:, b[0]]; x[g[:, 0] % 3]; x[:, g[0]]; x[[0, 2]]; x[[0, 1], [1, 2]]
x[g % 3, g]; a3[:, [0, 1], [1, 2]]; a3[0, :, g[0]]; a3[[0, 1], :, [1, 2]]; x[True]; x[False]; x[x > 0]; x[i[0, 0] % 3]
x[s > 5]; x[-2:, [0, -1]]; x[t.tensor([-1, 0])]; v[t.tensor(2)]; a3[..., 0, :]; t.index_select(x, 1, k.abs() % 4)
t.gather(x, 1, g); t.gather(x, 0, i % 3); t.take_along_dim(x, g, 1); t.take(x, g); t.masked_select(x, b)
t.masked_select(x, b[0]); t.nonzero(b); t.nonzero(i, as_tuple=True); t.argwhere(b); x.scatter(1, g, 5.0)
x.scatter(1, g, y); x.scatter_add(1, g, y); x.scatter(1, g, y[:, :2]); x.scatter_add(1, g, y[:, 1:3])
x.scatter_reduce(1, g, y[:, :2], 'mean'); x.scatter(0, i[:2] % 3, y); x.scatter_reduce(1, g, y, 'sum')
x.scatter_reduce(1, g, y, 'mean'); x.scatter_reduce(1, g, y, 'mean', include_self=False)
x.scatter_reduce(1, g, y, 'sum', include_self=False); x.index_add(0, t.tensor([0, 2, 0]), y)
x.index_add(1, t.tensor([1, 1]), y[:, :2], alpha=2); x.index_copy(0, t.tensor([2, 0]), y[:2])
x.index_fill(1, t.tensor([0, 3]), -1); x.index_put((t.tensor([0, 2]), t.tensor([1, 1])), v[:2])
t.bincount(g.flatten()); t.bincount(g.flatten(), minlength=9)
x.index_put((t.tensor([0, 0]),), y[:2], accumulate=True); x.index_put((b,), s); t.nn.functional.embedding(g, m)
t.nn.functional.embedding(g, m, padding_idx=1); t.nn.functional.one_hot(g); t.nn.functional.one_hot(g, 6)
"""

PRODUCTS = """
t.einsum('ij->i', b); t.einsum('ij->', u[None]); t.einsum('ij->i', k[None]); t.einsum('ij,k->i', u[None], u)
t.einsum('ij,ij->ij', k[None], x); t.einsum('ij,ij->ij', b, i)
t.einsum('ij,ij->ij', u[None], x); t.einsum('ij,ij->i', i, j)
t.cdist(h[:, :0], h[:, :0]); t.cdist(h[:0], h); t.cdist(h[:0], d)
x.mm(m); x.matmul(m); x @ m; t.matmul(x, v); t.matmul(v, m); t.matmul(v, w); a3 @ m; t.matmul(a3, q); t.bmm(a3, q)
v @ q; a3 @ v; t.mv(x, v); t.dot(v, w); t.outer(v, w); t.addmm(x, x, m[:, :4])
t.addmm(v, x, m[:, :4], beta=0.5, alpha=2); t.baddbmm(a3, a3, q[:, :, :4]); t.addmv(v[:3], x, v)
t.addr(x[:, :3], v[:3], w[:3]); t.inner(x, y); t.inner(v, w); t.tensordot(a3, q, ([2], [1])); t.tensordot(x, m, 1)
t.trace(x); t.linalg.multi_dot([x, m, m.t()]); t.linalg.matrix_power(m[:4, :4], 3); t.einsum('ij,jk->ik', x, m)
t.einsum('ij->ji', x); t.einsum('ij->', x); t.einsum('ii->i', m[:4, :4]); t.einsum('ii', m[:4, :4])
t.einsum('i,j->ij', v, w); t.einsum('bij,bjk->bik', a3, q); t.einsum('bij,bjk', a3, q)
t.einsum('...ij,...jk->...ik', a3, q); t.einsum('bhd,bhd->bh', a3, a3); t.einsum('ij,ij->ij', x, y)
t.einsum('ij,j->i', x, v); t.einsum('b...d->...bd', a3); t.einsum('ij,jk,kl->il', x, m, m.t())
t.einsum('bid,bjd->bij', a3, a3); t.einsum('i,i', v, w); t.einsum('ijk,k->ji', a3, v)
t.cross(x[:, :3], y[:, :3], dim=1); t.cdist(x, y); t.einsum('ab,cb->ca', x, y); i @ i.t(); t.einsum('...,...', x, y)
t.einsum('i j, j', x, v)
"""

CREATION = """
t.zeros(2, 3); t.ones((2, 3)); t.zeros([2]); t.empty(2, 0).shape; t.full((2, 2), 7); t.full((2,), 1.5)
t.full((2,), True); t.zeros(2, dtype=t.int32); t.ones(()); t.zeros_like(x); t.ones_like(i); t.full_like(x, 3)
t.zeros_like(x, dtype=t.int64); x.new_zeros(2, 2); i.new_ones((3,)); x.new_full((2,), 4); x.new_tensor([1, 2])
t.arange(5); t.arange(2, 7); t.arange(1, 10, 3); t.arange(5, 1, -2); t.arange(0.5, 3); t.arange(0, 1, 0.25)
t.arange(5.0); t.arange(3, dtype=t.float32); t.arange(0); t.arange(-3, 3, 2); t.linspace(0, 1, 5)
t.linspace(-2, 2, 1); t.linspace(3, 1, 4); t.linspace(0, 1, 0); t.logspace(0, 2, 3); t.eye(3); t.eye(2, 3)
t.eye(2, dtype=t.int64); t.tensor([1, 2]); t.tensor([1.0, 2]); t.tensor([[True, False]]); t.tensor(3); t.tensor(2.5)
t.tensor([]); t.tensor([1, 2], dtype=t.float64); t.tensor([1.7], dtype=t.int64); t.tril_indices(3, 3)
t.triu_indices(2, 4, 1); t.FloatTensor([1, 2]); t.LongTensor([1, 2]); t.as_tensor([1, 2]); t.as_tensor(x)
t.tensor([t.tensor(1), 2]); x.to(t.float64); x.to(t.int64); x.to('cpu'); x.to(d); x.to(dtype=t.float16); i.float()
x.long(); x.int(); x.double(); x.half(); x.bool(); i.bool(); x.short(); p.byte(); x.char(); x.type(t.int64)
x.type('torch.LongTensor'); i.type_as(x); x.cpu(); x[0, 0].item(); i[0, 0].item(); x.tolist(); s.tolist(); b.tolist()
x.type(); t.can_cast(t.float32, t.int64); t.result_type(i, x) == t.float32
t.promote_types(t.uint8, t.int8) == t.int16; t.is_tensor(x); t.is_tensor(3); t.numel(x); bool(s > -100); float(s)
int(i[0, 0]); x.element_size(); x.nbytes; x.is_contiguous(); x.t().is_contiguous(); x.stride()
a3.permute(2, 0, 1).stride(); x.t().contiguous().stride(); x.stride(0); x[:, 1].contiguous().stride()
x.contiguous() is x; x.T.contiguous() is x
"""

LOSSES = """
F.normalize(x, p=None); F.normalize(x, None, 0); F.normalize(x, p='fro')
F.smooth_l1_loss(i, j, beta=0.0, reduction='sum')
F.hinge_embedding_loss(u, t.sign(v), reduction='none'); F.hinge_embedding_loss(i, t.sign(y), 0.5, reduction='none')
F.mse_loss(s, h); F.mse_loss(h, s); F.l1_loss(s, h); F.l1_loss(h, s); F.smooth_l1_loss(s, h); F.huber_loss(s, h)
F.mse_loss(s, d); F.l1_loss(x, d); F.mse_loss(x, h, weight=p); F.l1_loss(i, x)
F.mse_loss(x, y); F.mse_loss(x, y, reduction='sum'); F.mse_loss(x, y, reduction='none'); F.l1_loss(x, y)
F.smooth_l1_loss(x, y); F.smooth_l1_loss(x, y, beta=0.3); F.smooth_l1_loss(x, y, beta=0.0); F.huber_loss(x, y)
F.huber_loss(x, y, delta=0.3); F.cross_entropy(x, g[:, 0]); F.cross_entropy(x, g[:, 0], reduction='none')
F.cross_entropy(x, g[:, 0], reduction='sum'); F.cross_entropy(x, g[:, 0], weight=v.abs())
F.cross_entropy(x, g[:, 0], weight=v.abs(), reduction='sum'); F.cross_entropy(x, t.tensor([1, -100, 2]))
F.cross_entropy(x, g[:, 0], ignore_index=0); F.cross_entropy(x, g[:, 0], label_smoothing=0.1)
F.cross_entropy(x, g[:, 0], label_smoothing=0.1, weight=v.abs())
F.cross_entropy(x, t.tensor([1, -100, 2]), v.abs(), label_smoothing=0.2, reduction='sum')
F.cross_entropy(x, t.tensor([1, -100, 2]), label_smoothing=0.2, reduction='none'); F.cross_entropy(x, t.softmax(y, 1))
F.cross_entropy(x, t.softmax(y, 1), weight=v.abs(), label_smoothing=0.1)
F.cross_entropy(x, t.softmax(y, 1), reduction='sum'); F.cross_entropy(v, t.tensor(2))
F.cross_entropy(v, t.softmax(w, 0)); F.cross_entropy(a3, t.tensor([[0, 1, 2, 0], [2, 1, 0, 0]]))
F.cross_entropy(a3, t.softmax(a3, 1)); F.nll_loss(t.log_softmax(x, 1), g[:, 0])
F.nll_loss(t.log_softmax(x, 1), g[:, 0], weight=v.abs())
F.nll_loss(t.log_softmax(a3, 1), g.new_zeros(2, 4) + 1, reduction='none')
F.binary_cross_entropy(t.sigmoid(x), t.sigmoid(y)); F.binary_cross_entropy(t.sigmoid(x), b.float(), weight=p)
F.binary_cross_entropy(b.float(), c.float()); F.binary_cross_entropy_with_logits(x, b.float())
F.binary_cross_entropy_with_logits(x * 50, b.float(), pos_weight=v.abs(), weight=p)
F.kl_div(t.log_softmax(x, 1), t.softmax(y, 1), reduction='batchmean')
F.kl_div(t.log_softmax(x, 1), t.log_softmax(y, 1), reduction='sum', log_target=True); F.gaussian_nll_loss(x, y, p)
F.gaussian_nll_loss(x, y, p, full=True); F.poisson_nll_loss(x, p)
F.poisson_nll_loss(p, p, log_input=False, full=True); F.hinge_embedding_loss(x, b.float() * 2 - 1)
F.margin_ranking_loss(x, y, b.float() * 2 - 1, margin=0.1); F.soft_margin_loss(x, b.float() * 2 - 1)
F.cosine_embedding_loss(x, y, t.tensor([1.0, -1.0, 1.0]), margin=0.1); F.triplet_margin_loss(x, y, p)
F.triplet_margin_loss(x, y, p, swap=True, p=1); F.linear(x, m.t()); F.linear(x, m.t(), m[0])
F.linear(a3, m.t(), m[0]); F.linear(v, m.t())
F.bilinear(x, y, a3.expand(2, 3, 4)[:, :, :].repeat(1, 2, 1)[:, :4, :4]); F.layer_norm(x, (4,))
F.layer_norm(x, (4,), v, w, 1e-3); F.layer_norm(a3, (3, 4), x, y); F.rms_norm(x, (4,), v)
F.rms_norm(x, (4,), None, 1e-3); F.group_norm(a3.reshape(2, 6, 2), 3)
F.group_norm(a3.reshape(2, 4, 3), 2, v, w, 1e-3); F.batch_norm(x, v, p[0], w, v, False)
F.batch_norm(a3, None, None, None, None, True); F.normalize(x); F.normalize(x, p=1.0, dim=0)
F.cosine_similarity(x, y); F.cosine_similarity(x, y, dim=0); F.pairwise_distance(x, y)
F.pairwise_distance(x, y, p=1.0, keepdim=True); F.dropout(x, 0.5, False)
F.scaled_dot_product_attention(a3, a3 * 2, a3 + 1); F.scaled_dot_product_attention(a3, a3, a3, is_causal=True)
F.scaled_dot_product_attention(a3, a3, a3, t.tensor([[True, False, True]] * 3))
F.scaled_dot_product_attention(a3, a3, a3, attn_mask=m[:3, :3], scale=0.3)
"""

ORDER = """
t.cummax(x, 0); t.cummax(x, 1)[1]; t.cummin(x, -1); t.cummax(i, 0); t.cummin(i, 1)[1]; x.cummax(1)[0]; t.cummax(s, 0)
t.logcumsumexp(x, 0); t.logcumsumexp(x * 30, 1); t.kthvalue(x, 2); t.kthvalue(x, 3, 0); t.kthvalue(x, 1, 1, True)
t.msort(x); t.quantile(x, 0.3); t.quantile(x, 0.6, 1); t.quantile(x, 0.5, 0, True); t.quantile(x, v.sigmoid(), 1)
t.quantile(x, 0.4, interpolation='lower'); t.quantile(x, 0.4, 0, interpolation='higher'); t.quantile(n, 0.5, 1)
t.quantile(x, 0.4, interpolation='midpoint'); t.quantile(x, 0.4, 1, interpolation='nearest'); x.quantile(0.1, 1)
t.searchsorted(t.sort(v)[0], x); t.searchsorted(t.sort(v)[0], v, right=True); t.searchsorted(t.sort(x)[0], y)
t.bucketize(x, t.sort(v)[0]); t.bucketize(i, t.sort(k)[0], right=True); t.isin(i, k); t.isin(i, k, invert=True)
t.unique(i); t.unique(i, return_inverse=True); t.unique(i, return_counts=True); t.unique(x); i.unique()
t.unique_consecutive(i, return_inverse=True, return_counts=True); t.unique(i, True, True, True)
"""

COMBINE = """
x[:0].index_add(0, g[:, 0], x); s.index_fill(0, t.tensor([0, 0]), x[0, 0]); t.take_along_dim(x, k % 3)
t.view_as_real(t.corrcoef(x + 1j * y)); t.view_as_real(t.corrcoef(x[0] + 1j * y[0]))
t.gather(s.long(), 0, t.tensor(0)).detach_()
t.zeros(()).scatter_add_(0, t.tensor(0), v); t.zeros(3).scatter_(0, t.tensor(0), t.ones(3))
t.kron(x, m); t.kron(v, w); t.kron(x, v); t.block_diag(x, v, s); t.diagflat(x, 1); t.heaviside(x, y)
t.heaviside(x * 0, v); t.masked_scatter(x, b, y); t.masked_scatter(x, v > 0, y); t.put(x, g, t.ones(3, 2))
t.put(x, g, t.ones(3, 2), accumulate=True); t.select_scatter(x, v, 0, 1); t.select_scatter(x, x[:, 0], 1, -1)
t.diagonal_scatter(x, x[0, :3]); t.addbmm(x @ m, a3, q, beta=0.5, alpha=2); t.trapezoid(x); t.trapezoid(x, v)
t.trapezoid(x, dx=0.5, dim=0); t.trapezoid(x, y, dim=0); t.cov(x); t.cov(x, correction=0); t.corrcoef(x); t.cov(v)
t.vander(v); t.vander(v, 3); t.vander(v, 3, True); t.scatter_reduce(x, 1, i % 4, y, 'amax')
t.scatter_reduce(x, 1, i % 4, y, 'amin', include_self=False); t.scatter_reduce(x, 0, i % 3, y, 'prod')
t.scatter_reduce(i, 1, j % 4, i, 'amax', include_self=False); x.scatter_reduce(1, j % 4, y, 'prod', include_self=False)
"""

ELEMENTS = """
t.special.i0(x); t.special.i0e(x * 9); t.special.i1(x); t.special.i1e(d); t.special.erfcx(x); t.special.log_ndtr(x * 9)
t.special.ndtr(x); t.special.ndtri(t.sigmoid(x)); t.special.entr(p); t.special.xlog1py(x, p); t.special.xlogy(2, p)
t.special.zeta(2.5, p); t.special.gammainc(p.detach(), p); t.special.gammaincc(s.detach(), p)
t.igamma(t.tensor(1.5), p)
t.special.multigammaln(p + 1, 2); x.mvlgamma(1); t.special.logit(t.sigmoid(x)); t.special.expit(x); t.special.psi(p)
t.special.gammaln(p); t.special.log_softmax(x, 1); t.special.softmax(x, 0); t.special.logsumexp(x, 1); t.special.sinc(x)
t.special.airy_ai(x.detach()); t.special.legendre_polynomial_p(x.detach(), 3)
t.special.chebyshev_polynomial_t(x.detach(), i.float()); t.special.hermite_polynomial_h(x.detach(), 2); t.i0(i)
t.logaddexp2(x, y); t.logaddexp2(n.detach(), 1.0 + n.detach()); t.angle(x); t.angle(n.detach()); t.angle(i); t.real(x)
t.conj(x); x.conj_physical(); x.resolve_conj(); x.isreal(); x.is_conj(); x.is_neg(); a3.adjoint(); a3.mH; x.real
t.frexp(x); t.ldexp(x, k); t.ldexp(x, y); x.ldexp(t.tensor(2)); t.nextafter(x, y); t.nextafter(d, d + 1); t.gcd(i, j)
t.lcm(i, j); t.gcd(i, k); t.lcm(k, 2 * k + 1); t.float_power(x, 2); t.float_power(2, x); x.float_power(i)
t.float_power(p, y); x.histc(4); x.histc(5, -1, 1); t.histc(n[0, :1], 3); d.histc(bins=3, min=-0.5, max=2)
t.histogram(x.detach(), 4); t.histogram(x.detach(), 3, range=(-1.0, 1.0), density=True)
t.histogram(x.detach(), t.tensor([-1.0, 0.0, 0.5, 2.0]), weight=p.detach())
t.histogramdd(x[:, :2].detach(), [2, 3]); n.nanmedian(); n.nanmedian(1); t.nanmedian(n, 0, True); i.nanmedian(1)
t.nanquantile(n, 0.5); t.nanquantile(n[:, 2:], t.tensor([0.25, 0.75]), 1); t.nanquantile(x, 0.3, 0, keepdim=True)
t.nanquantile(x, 0.3, 1, interpolation='higher'); i.mode(); i.mode(0); x.mode(1, True); t.mode(i % 2, 1)
x.renorm(2, 0, 1.0); a3.renorm(1, 1, 2.5); x.renorm(3, 1, 0.5); t.frobenius_norm(x, 1); t.chain_matmul(x, m, m.t())
x.index_reduce(0, t.tensor([0, 2, 0]), y, 'mean'); x.index_reduce(1, t.tensor([1, 1]), y[:, :2], 'amax')
x.index_reduce(0, t.tensor([2, 0]), y[:2], 'prod', include_self=False)
i.index_reduce(0, t.tensor([2, 0]), j[:2], 'amin'); x.hsplit(2); x.hsplit([1, 3]); x.vsplit(3); a3.dsplit(2)
v.hsplit(2); x.split_with_sizes([1, 3], 1); x.unsafe_chunk(2, 1); x.unsafe_split(2); x.narrow_copy(1, 1, 2)
x.slice_scatter(y[:, :2], 1, 1, 3); x.slice_scatter(y[:2], 0, 0, None, 2); x.slice_scatter(y[:, 2:], 1, -2)
x.sum_to_size(1, 4); x.sum_to_size(4); x.sum_to_size(3, 4); x.is_same_size(y); x.is_signed(); u.is_signed()
t.broadcast_shapes((2, 1), (3,)); t.unravel_index(i, (3, 4)); t.unravel_index(-i, (3, 4)); t.atleast_3d(v)
t.atleast_3d(x); t.cumulative_trapezoid(x); t.cumulative_trapezoid(x, dx=0.5, dim=0); t.cumulative_trapezoid(x, v)
t.trapz(x); t.gradient(x); t.gradient(x, spacing=0.5, dim=1); t.gradient(a3, dim=(1, 2), edge_order=2)
t.gradient(x, spacing=(t.tensor([0.0, 1.0, 3.0]), t.tensor([0.0, 1.0, 1.5, 4.0])), edge_order=2)
t.combinations(v)
t.combinations(v, 3); t.combinations(v, 2, with_replacement=True); t.combinations(v[:1]); t.bartlett_window(7)
t.blackman_window(6, periodic=False); t.hann_window(5, dtype=t.float64); t.hamming_window(5, True, 0.6, 0.4)
t.kaiser_window(6, False, 9.0); t.hann_window(1); t.range(1, 4); t.range(0, 1, 0.25); t.scalar_tensor(2)
t.fill(x, 2.5); t.detach(x)
"""

GROUPS = {"elements": ELEMENTS, "arithmetic": ARITHMETIC, "functions": FUNCTIONS, "comparisons": COMPARISONS,
          "reductions": REDUCTIONS, "shapes": SHAPES, "indexing": INDEXING, "products": PRODUCTS, "creation": CREATION,
          "losses": LOSSES, "order": ORDER, "combine": COMBINE}


def expressions(group: str) -> list[str]:
    """The expressions of a group."""
    return [e.strip() for line in GROUPS[group].strip().splitlines() for e in line.split(";") if e.strip()]

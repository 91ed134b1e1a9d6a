# ruff: noqa: E501 (a template is a line)
"""Layers and losses of `nn.functional`, with all their options."""

from __future__ import annotations

from tests.against.drafts import COMPLEX, FLOATS, INTS, Draft, fill

R = "reduction=<'mean'|'sum'|'none'>"
TEMPLATES = f"""F.conv1d({{f:2,4,7}}, {{f:6,4,3}}<|, {{f:6}}>, <stride=1|stride=2|padding=1|padding='same'|dilation=2>)
F.conv1d({{f:2,4,7}}, {{f:6,2,3}}, {{f:6}}, <1|2>, <0|1|'valid'>, 1, 2)
F.conv2d({{f:2,4,6,5}}, {{f:4,4,3,2}}<|, {{f:4}}>, <stride=(2, 1)|padding=(1, 0)|padding='same'|dilation=(1, 2)>)
F.conv2d({{f:4,6,5}}, {{f:4,2,3,2}}, None, <1|2>, <0|1>, <1|2>, 2)
F.conv3d({{f:1,2,4,4,4}}, {{f:2,2,2,2,2}}<|, {{f:2}}>, <stride=2|padding=1|dilation=2>)
F.conv_transpose1d({{f:2,4,5}}, {{f:4,3,3}}<|, {{f:3}}>, <stride=2|stride=2, output_padding=1|padding=1|dilation=2>)
F.conv_transpose2d({{f:2,4,4,3}}, {{f:4,2,3,2}}, None, <1|2>, <0|1>, <0|1>, <1|2>)
F.linear({{f:2,3,4}}, {{f:5,4}}<|, {{f:5}}>)
F.linear({{f:4}}, <{{f:5,4}}|{{f:4}}>)
F.bilinear({{f:3,4}}, {{f:3,5}}, {{f:2,4,5}}<|, {{f:2}}>)
F.<avg|max>_pool1d({{f:2,3,7}}, <2|3>, <1|2|None>, <0|1|2>)
F.max_pool1d({{c:2,3,7}}, 2, ceil_mode=<True|False>, return_indices=<True|False>)
F.avg_pool2d({{f:2,3,6,5}}, <2|(3, 2)>, <1|2|None>, <0|1>, <True|False>, <True|False><|, 3>)
F.max_pool2d({{c:2,3,6,5}}, <2|(3, 2)>, <1|2|None>, <0|1>, <1|2>, <True|False>, <True|False>)
F.max_pool3d({{c:1,2,4,4,4}}, 2<|, 1|, return_indices=True>)
F.avg_pool3d({{f:1,2,4,4,4}}, 2<|, 1|, padding=1, count_include_pad=False>)
F.adaptive_avg_pool<1d({{f:2,3,7}}, 3|2d({{f:2,3,6,5}}, (3, None)|2d({{f:2,3,6,5}}, 2|3d({{f:1,2,4,4,4}}, (1, 2, 3)>)
F.adaptive_max_pool<1d({{c:2,3,7}}, 3|2d({{c:2,3,6,5}}, (3, None)|2d({{c:2,3,6,5}}, 2>, return_indices=<True|False>)
F.lp_pool1d({{p:2,3,6}}, 2, 2<|, 1>)
F.lp_pool2d({{p:2,3,6,6}}, <2|3>, 2)
F.batch_norm({{f:3,4<|,5|,5,2>}}, {{p:4}}, {{p:4}}, {{f:4}}, {{f:4}}, <True|False>, 0.2)
F.batch_norm({{f:3,4}}, None, None, training=<True|False>)
F.instance_norm({{f:2,4,5}}<|, weight={{f:4}}, bias={{f:4}}>)
F.layer_norm({{f:2,3,4}}, <(4,)|(3, 4)|(2, 3, 4)|(5,)>)
F.layer_norm({{f:2,3,4}}, (4,), {{f:4}}<|, {{f:4}}>)
F.rms_norm({{f:2,3,4}}, <(4,)|(3, 4)><||, eps=0.1>)
F.group_norm({{f:2,4,5}}, <1|2|4|3><|, {{f:4}}, {{f:4}}>)
F.local_response_norm({{f:2,4,5<|,3>}}, <2|3>)
F.normalize({{f:2,3,4}}, <1|2|3.0>, <0|1|-1|(1, 2)>)
F.pad({{f:2,3,4}}, {{pad:3}}<|, value={{n}}>)
F.pad({{f:2,3,4,5}}, {{pad:2}}, mode=<'constant'|'reflect'|'replicate'|'circular'>)
F.pad({{f:2,3,4}}, {{pad:1}}, mode=<'reflect'|'replicate'|'circular'|'nonsense'>)
F.interpolate({{f:1,2,4,5}}, <scale_factor=2|scale_factor=(1.5, 2.0)|size=(3, 7)|size=6>, mode=<'nearest'|'nearest-exact'|'area'>)
F.interpolate({{f:1,2,4,5}}, <scale_factor=2|size=(3, 7)|size=6>, mode=<'bilinear'|'bicubic'>, align_corners=<True|False>)
F.interpolate({{f:1,2,5}}, <scale_factor=2|size=3>, mode=<'linear'|'nearest'|'bilinear'>)
F.pixel_shuffle({{f:2,4,3,2}}, <2|1|3>)
F.pixel_unshuffle({{f:2,1,4,6}}, <2|1|3>)
F.channel_shuffle({{f:2,4,3}}, <2|4|3>)
F.unfold({{f:2,3,5,4}}, <2|(2, 3)>, <1|2>, <0|1>, <1|2>)
F.fold({{f:1,8,4}}, (3, 3), 2)
F.grid_sample({{f:1,2,4,4}}, {{u:1,3,3,2}}, mode=<'bilinear'|'nearest'>, padding_mode=<'zeros'|'border'|'reflection'>, align_corners=<True|False>)
F.affine_grid({{f:2,2,3}}, [2, 3, 4, 5], align_corners=<True|False>)
F.glu({{f:3,4}}, <0|1|-1>)
F.embedding({{i:5:2,3}}, {{f:5,4}}<|, padding_idx=1|, max_norm=1.0>)
F.embedding_bag({{i:5:2,3}}, {{f:5,4}}, mode=<'sum'|'mean'|'max'>)
F.embedding_bag({{i:5:6}}, {{f:5,4}}, <t.tensor([0, 2, 4])|t.tensor([0, 2, 4]), mode='sum'|t.tensor([0, 2, 6]), include_last_offset=True>)
F.one_hot({{i:4:2,3}}<|, 4|, 5|, 2>)
F.scaled_dot_product_attention({{f:2,3,4}}, {{f:2,5,4}}, {{f:2,5,3}}<|, {{b:3,5}}|, {{f:3,5}}|, is_causal=True|, scale=0.5>)
F.mse_loss({{f:3,4}}, {{f:3,4}}, {R})
F.mse_loss({{f:3,4}}, {{f:<3,1|4|3,4>}}, {R})
F.<l1_loss|smooth_l1_loss|huber_loss>({{f:3,4}}, {{f:3,4}}, {R})
F.smooth_l1_loss({{f:3,4}}, {{f:3,4}}, {R}, beta=<0.5|0.0|-1.0>)
F.huber_loss({{f:3,4}}, {{f:3,4}}, {R}, delta=<0.5|0.0>)
F.cross_entropy({{f:3,5}}, {{i:5:3}}<|, {{p:5}}|, ignore_index=1|, label_smoothing=0.1|, {{p:5}}, label_smoothing=0.2>, {R})
F.cross_entropy({{f:3,5,2}}, {{i:<5|6>:3,2}}, {R})
F.cross_entropy({{f:3,5}}, {{u:3,5}}<|, label_smoothing=0.1|, weight={{p:5}}>, {R})
F.cross_entropy({{f:5}}, {{i:5:}}, {R})
F.nll_loss({{f:3,5}}, {{i:5:3}}<|, {{p:5}}|, ignore_index=2>, {R})
F.nll_loss({{f:3,5,2,2}}, {{i:5:3,2,2}}, {R})
F.binary_cross_entropy({{u:3,4}}, {{u:3,4}}<|, {{p:4}}>, {R})
F.binary_cross_entropy({{f:3,4}}, {{u:3,4}})
F.binary_cross_entropy_with_logits({{f:3,4}}, {{u:3,4}}<|, {{p:4}}|, pos_weight={{p:4}}>, {R})
F.kl_div({{f:3,4}}, {{u:3,4}}, reduction=<'batchmean'|'sum'|'mean'|'none'>, log_target=<True|False>)
F.poisson_nll_loss({{f:3,4}}, {{p:3,4}}, <True|False>, <True|False>, {R})
F.gaussian_nll_loss({{f:3,4}}, {{f:3,4}}, {{p:<3,4|3,1|3>}}, <True|False>, {R})
F.<soft_margin_loss|hinge_embedding_loss>({{f:3,4}}, {{s:3,4}}, {R})
F.margin_ranking_loss({{f:4}}, {{f:4}}, {{s:4}}, <0.0|0.5>, {R})
F.cosine_embedding_loss({{f:3,4}}, {{f:3,4}}, {{s:3}}, <0.0|0.5>, {R})
F.triplet_margin_loss({{f:3,4}}, {{f:3,4}}, {{f:3,4}}, <1.0|0.5>, <2|1>, swap=<True|False>, {R})
F.multi_margin_loss({{f:3,5}}, {{i:5:3}}, <1|2>, <1.0|0.5>, {R})
F.multilabel_margin_loss({{f:3,4}}, {{i:4:3,4}}, {R})
F.multilabel_soft_margin_loss({{f:3,4}}, {{u:3,4}}, {R})
F.cosine_similarity({{f:3,4}}, {{f:<3,4|4|1,4>}}, <0|1|-1>)
F.pairwise_distance({{f:3,4}}, {{f:3,4}}, <1|2|3.0>, keepdim=<True|False>)
F.pdist({{f:4,3}}, <1|2|3.0|float('inf')>)
t.cdist({{f:2,3,4}}, {{f:2,5,4}}, <0|1|2|3.0|float('inf')>)
F.dropout({{f:3,4}}, <0.0|1.0>, <True|False>)
F.<dropout1d|dropout2d|alpha_dropout|feature_alpha_dropout>({{f:2,3,4}}, <0.0|1.5>)
F.ctc_loss({{f:6,2,4}}.log_softmax(-1), t.tensor([[1, 2], [3, 1]]), (6, 5), (2, 1), {R})
F.rrelu({{f:3,4}}, 0.1, 0.3, False)
F.prelu({{f:3,4}}, <{{f:4}}|{{f:1}}|{{f:3}}>)
F.gumbel_softmax({{f:3,4}}, hard=True).sum()
F.<relu|elu|selu|leaky_relu|hardswish|silu|mish>({{f:3,4}}.clone(), inplace=True)
F.threshold({{f:3,4}}, 0.5, <2.0|-1>, <True|False>)
F.softplus({{f:3,4}}, <1|3>, <20|0.5>)
t.matmul({{f:<4|3,4|2,3,4>}}, {{f:<4|4,2|2,4,2|1,4,5>}})
t.<bmm|baddbmm>({{f:2,3,4}}, {{f:2,4,2}}<|, {{f:2,4,2}}>)
t.addmm({{f:<3,2|2|1>}}, {{f:3,4}}, {{f:4,2}}, beta=<1|0|0.5>, alpha=<1|2>)
t.<addmv|addbmm|addr>({{f:3}}, {{f:3,4}}, {{f:4}})
t.baddbmm({{f:<2,3,2|2>}}, {{f:2,3,4}}, {{f:2,4,2}}, beta=<1|0|0.5>)
t.einsum('<ij,jk->ik|ij,jk|ij,ij->|...j,jk->...k|ij,kl->ijkl>', {{f:3,4}}, {{f:<4,2|3,4>}})
t.tensordot({{f:3,4,2}}, {{f:4,2,5}}, <2|([1, 2], [0, 1])>)
t.<mm|mv|dot|inner|outer|vdot>({{f:<3,4|4>}}, {{f:<4,2|4>}})
{{f:3,4}} @ {{f:<4|4,2|3,4>}}
t.nn.Linear(4, 2, bias=False).weight.shape
t.linalg.<multi_dot([{{f:3,4}}, {{f:4,2}}])|vecdot({{f:3,4}}, {{f:3,4}})|matrix_power({{f:3,3}}, 2)|det({{f:3,3}})>
t.linalg.<inv|cholesky|slogdet|eigvalsh>({{f:3,3}} @ {{f:3,3}}.T * 0 + t.eye(3) * 2)
t.linalg.solve({{f:3,3}} * 0 + t.eye(3) * 2, {{f:<3|3,2>}})
t.nn.functional.hardtanh({{f:3,4}}, 0, 1)
t.bernoulli({{u:3,4}} * 0 + 1)
t.multinomial({{p:3}}, 3).sort()[0] * 0
t.<trapz|cumulative_trapezoid>({{f:3,4}})
t.logaddexp({{f:3,4}}, {{f:4}})
t.block_diag({{f:2,2}}, {{f:3}})
t.nn.utils.clip_grad_norm_([{{f:3}}], 1.0)
t.fft.<fft|ifft|rfft|hfft|fftshift>({{f:3,4}})
t.conv2d({{f:1,2,4,4}}, {{f:2,2,2,2}})""".splitlines()


def draw(draft: Draft) -> None:
    """One call; rarely of integers, or of two dtypes, or of an odd shape."""
    dtype = draft.dtype(FLOATS[:2]) if draft.chance(0.7) else draft.dtype((*FLOATS, *INTS, "bool", *COMPLEX))
    mixed = draft.chance(0.06)
    template = draft.pick(TEMPLATES)
    empty = draft.chance(0.06) and "pdist" not in template  # of which PyTorch's backward reads memory of others

    def tensor(kind: str, *sizes: str) -> str:
        shape = [int(n) for n in sizes if n]
        if draft.chance(0.03) and shape:
            shape[draft.rng.randint(0, len(shape) - 1)] += 1
        if draft.chance(0.02):
            shape = shape[1:]
        if empty and shape:
            shape[0] = 0
        d = draft.dtype() if mixed and draft.chance(0.5) else dtype
        return draft.tensor(tuple(shape), d, kind, plain=0.75)

    def index(first: str, *sizes: str) -> str:
        below, _, size = first.partition(":")
        shape = tuple(int(n) for n in (size, *sizes) if n)
        d = "int64" if draft.chance(0.93) else draft.dtype(("int32", "float32", "uint8"))
        return draft.fresh(shape, d, f"below{below}", False)

    def signs(*sizes: str) -> str:
        return f"({tensor('usual', *sizes)}.sign() + 0.5).sign()"

    def pad(dims: str) -> str:
        return str(tuple(draft.pick((0, 1, 1, 2, -1, 3, 6)) if draft.chance(0.15) else draft.pick((0, 1, 2))
                         for _ in range(2 * int(dims))))

    draft.let(fill(
        draft, template, f=lambda *s: tensor("usual", *s), p=lambda *s: tensor("positive", *s),
        u=lambda *s: tensor("unit", *s), c=lambda *s: tensor("distinct", *s), i=index, s=signs, pad=pad, n=draft.number,
        b=lambda *s: draft.fresh(tuple(int(n) for n in s), "bool")))

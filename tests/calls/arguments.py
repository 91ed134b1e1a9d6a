"""What the functions of torch's namespaces are called with, by the names of their parameters, as texts.

In the texts `t` is the module, `F` its functional; tensors are those of `TENSORS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(11)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _rng.standard_normal(shape).round(2).astype(np.float32)


TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "x": _normal(2, 3), "y": _normal(2, 3), "p": (np.abs(_normal(2, 3)) + 0.25).round(2).astype(np.float32),
    "r": np.array([[0.1, 0.5, 0.9], [0.25, 0.75, 0.4]], np.float32), "v": _normal(3), "w": _normal(3), "z": _normal(2),
    "s": np.array(0.5, np.float32), "m": _normal(3, 2), "n": _normal(3, 3), "q": _normal(2, 2, 3),
    "k": _normal(2, 3, 2), "spd": np.array([[2, 0.5], [0.5, 1]], np.float32), "c4": _normal(1, 4, 4, 4),
    "c5": _normal(1, 2, 3, 4, 4),
    "c3": _normal(1, 2, 6), "k1": _normal(2, 2, 3), "k2": _normal(2, 4, 2, 2), "k3": _normal(2, 2, 2, 2, 2),
    "kt1": _normal(2, 2, 3), "kt2": _normal(4, 2, 2, 2), "kt3": _normal(2, 2, 2, 2, 2),
    "i": np.array([[0, 2, 1], [1, 0, 2]]), "j": np.array([[1, 2, 3], [4, 5, 6]]), "iv": np.array([1, 0]),
    "i01": np.array([[0, 1, 1], [1, 0, 1]]), "b": np.array([[True, False, True], [False, True, True]]),
    "b2": np.array([[True, True, False], [False, False, True]]), "h": _normal(2, 3).astype(np.float16),
    "d": _normal(2, 3).astype(np.float64), "u": np.array([[1, 200, 3], [0, 255, 7]], np.uint8),
    "e": np.zeros((0, 3), np.float32), "o": np.array([1.0, 2.0, 4.0], np.float32), "cl": np.array([2, 0]),
    "pm": np.array([[1, -1, 1], [-1, 1, -1]], np.float32), "pv": np.array([1, -1], np.float32),
    "hot": np.array([[1, 0, 1], [0, 1, 1]], np.float32), "em": _normal(4, 3), "nan": np.array(
        [[np.nan, 1.0, -np.inf], [np.inf, -0.0, 2.5]], np.float32), "one": np.array([3.0], np.float32)}

#: what stands for `input` where a call is tried with other dtypes and shapes
VARIANTS = ("i", "b", "h", "d", "u", "e", "s", "nan", "x.t().contiguous().t()")

#: parameter -> text, where a function has none of its own
USUAL = {
    "input": "x", "other": "y", "dim": "1", "keepdim": "True", "dtype": "t.float64", "alpha": "2", "beta": "2",
    "device": "'cpu'", "requires_grad": "True", "pin_memory": "False", "size": "(2, 3)", "value": "3", "p": "1.5",
    "dim0": "0", "dim1": "1", "dim2": "2", "axis0": "0", "axis1": "1", "index": "i01", "src": "y", "reduce": "'sum'",
    "unbiased": "False", "correction": "0", "offset": "1", "dims": "(1, 0)", "tensors": "[x, y]", "min": "-0.5",
    "max": "0.5", "mask": "b", "descending": "True", "stable": "True", "k": "2", "tensor1": "y", "tensor2": "p",
    "diagonal": "1", "accumulate": "True", "rounding_mode": "'floor'", "vec": "v", "mat": "x", "mat1": "x", "mat2": "m",
    "batch1": "q", "batch2": "k", "vec1": "z", "vec2": "v", "rtol": "0.1", "atol": "0.1", "equal_nan": "True",
    "fill_value": "2.5", "n": "2", "source": "y", "values": "v", "eps": "0.1", "decimals": "1", "condition": "b",
    "end": "5", "start": "1", "step": "2", "steps": "4", "base": "2.0", "repeats": "2", "destination": "1",
    "low": "1", "high": "5", "out_int32": "True", "right": "True", "exponent": "2", "include_self": "False",
    "sorted": "True", "largest": "False", "ord": "1", "sections": "2", "indices": "[1, 2]", "chunks": "2",
    "fweights": "t.tensor([1, 2, 1])", "aweights": "t.tensor([0.5, 1.0, 2.0])", "minlength": "6", "row": "2",
    "col": "3",
    "prepend": "y[:, :1]", "append": "y[:, :1]", "start_dim": "0", "end_dim": "-1", "sparse_grad": "False",
    "elements": "i", "test_elements": "iv", "element": "1", "test_element": "1", "assume_unique": "False",
    "invert": "True", "nan": "1.0", "posinf": "2.0", "neginf": "-2.0", "mean": "x", "std": "p", "num_samples": "2",
    "replacement": "True", "length": "2", "as_tuple": "True", "q": "0.5", "interpolation": "'lower'", "shape": "(3, 2)",
    "shifts": "1", "sorted_sequence": "o", "side": "'right'", "sorter": "t.tensor([0, 1, 2])", "boundaries": "o",
    "tensor_indices_or_sections": "iv.sort()[0]", "sizes": "(3, 1)", "return_inverse": "True", "return_counts": "True",
    "UPLO": "'U'", "upper": "True", "A": "spd", "B": "z", "left": "True", "lambd": "0.3", "threshold": "0.1",
    "weight": "None", "bias": "None", "stride": "1", "padding": "0", "dilation": "1", "groups": "1", "kernel_size": "2",
    "output_padding": "0", "ceil_mode": "True", "count_include_pad": "False", "output_size": "2", "training": "False",
    "inplace": "False", "reduction": "'sum'", "target": "y", "margin": "0.5", "negative_slope": "0.2",
    "min_val": "-0.3",
    "max_val": "0.3", "normalized_shape": "(3,)", "num_groups": "2", "num_classes": "4", "approximate": "'tanh'",
    "upscale_factor": "2", "downscale_factor": "2", "x": "v", "y": "w", "dx": "0.5", "N": "2", "increasing": "True",
    "x1": "x", "x2": "y", "data": "[1, 2]", "tensor": "v", "type1": "t.int32", "type2": "t.float16", "from_": "t.int32",
    "to": "t.float32", "non_blocking": "False", "copy": "True", "dimension": "1", "generator": "None", "pad": "(1, 2)",
    "mode": "'constant'", "delta": "0.5", "full": "True", "var": "p", "log_input": "False", "log_target": "True",
    "label_smoothing": "0.1", "ignore_index": "2", "pos_weight": "v", "running_mean": "None", "running_var": "None",
    "momentum": "0.2", "use_input_stats": "True", "scale_factor": "2", "align_corners": "None", "query": "q",
    "key": "q", "attn_mask": "None", "dropout_p": "0.0", "is_causal": "True", "scale": "0.5", "anchor": "x",
    "positive": "y", "negative": "p", "swap": "True", "input1": "x", "input2": "y", "weights": "v", "norm_type": "2.0",
    "padding_idx": "1", "max_norm": "1.0", "scale_grad_by_freq": "False", "sparse": "False", "logits": "x",
    "tau": "0.5",
    "window_length": "5", "periodic": "False", "maxnorm": "0.5", "split_size": "2", "split_sizes": "(1, 2)", "r": "2",
    "spacing": "0.5", "edge_order": "1", "bins": "4", "density": "True", "range": "(-1.0, 1.0)", "wrap": "True",
    "median": "0.5", "sigma": "2.0", "s": "1.5",
    "hard": "True", "lower": "0.1", "self": "1.5", "scalar": "1", "scalar1": "1", "scalar2": "2.5", "obj": "[1.0, 2.0]",
    "ndarray": "x.numpy()", "driver": "None", "indexing": "'ij'", "rcond": "0.1", "out_dtype": "None", "tol": "0.1"}

#: function (of a namespace) -> its own texts
OWN = """
acos input=r; acosh input=p+1; asin input=r; atanh input=r; arccos input=r; arccosh input=p+1; arcsin input=r
arctanh input=r; erfinv input=r; logit input=r; digamma input=p; lgamma input=p; log input=p; log10 input=p
log1p input=p; log2 input=p; sqrt input=p; rsqrt input=p; polygamma n=1 input=p; xlogy input=p other=p
adaptive_avg_pool1d input=c3; avg_pool1d input=c3; max_pool1d input=c3; max_pool2d input=c4; max_pool3d input=c5
addbmm input=t.ones(2,2) batch1=q batch2=k; addmm input=t.ones(2,2); addmv input=z; addr input=x
baddbmm input=t.ones(2,2,2) batch1=q batch2=k; bmm input=q mat2=k; mm mat2=m; mv vec=v; dot input=v tensor=w
ger input=z vec2=v; inner input=v other=w; vdot input=v other=w; matmul other=m; outer input=z vec2=v
allclose other=x; arange end=5; argwhere input=hot; bernoulli input=r p=0.5; bincount input=cl
bitwise_and input=i other=j; bitwise_not input=i; bitwise_or input=i other=j; bitwise_xor input=i other=j
bitwise_left_shift input=i other=1; bitwise_right_shift input=j other=1; broadcast_to input=v size=(2,3)
bucketize input=x boundaries=o; cat tensors=[x,y] dim=1; concat tensors=[x,y] dim=1; concatenate tensors=[x,y] dim=1
channel_shuffle input=c4 groups=2; cholesky input=spd A=spd; clone; conv1d input=c3 weight=k1
conv2d input=c4 weight=k2; conv3d input=c5 weight=k3; conv_transpose1d input=c3 weight=kt1
conv_transpose2d input=c4 weight=kt2; conv_transpose3d input=c5 weight=kt3; cross input=x other=y; det input=spd A=spd
diag input=v; diagflat input=v; diag_embed offset=1 dim1=0 dim2=1; diagonal input=n A=n dim1=0 dim2=1
diagonal_scatter input=n src=z offset=1 dim1=0 dim2=1; dist p=1; einsum *; embedding input=i weight=em
full size=(2,3); full_like fill_value=2; gather index=i01; heaviside values=v; index_add index=iv dim=0 source=y
index_copy index=iv dim=0 source=y; index_fill index=iv dim=1 value=3; index_put indices=(iv,iv) values=z
index_select index=iv; inverse input=spd; is_nonzero input=one; isin elements=i; kthvalue k=2; lerp end=y weight=0.3
linspace start=1 end=5 steps=4; logspace start=0 end=2 steps=3; logdet input=spd; logical_and input=b other=b2
logical_or input=b other=b2; logical_xor input=b other=b2; logical_not input=b; masked_scatter source=y
max other=y dim=1; min other=y dim=1; multinomial input=p; narrow dim=1 start=1 length=2; nan_to_num input=nan
new_full size=(2,3); new_tensor data=[1.0,2.0]; norm p=1; normal mean=x std=p size=(2,); permute dims=(1,0)
pixel_shuffle input=c4; pixel_unshuffle input=c4; prelu weight=v[:1]; put index=iv source=z; put_ index=iv source=z
quantile input=v q=0.5 dim=0; randint low=1 high=5 size=(2,3); randint_like low=1 high=5
repeat_interleave repeats=2 dim=1 output_size=6; rot90 k=1 dims=(0,1); scatter index=i01 src=y value=3 reduce='add'
scatter_add index=i01; scatter_reduce index=i01 src=y reduce='sum'
searchsorted sorted_sequence=o input=x side='right'; select dim=1 index=0; select_scatter src=z dim=1 index=0
slogdet input=spd A=spd; solve A=spd B=z; inv A=spd; split split_size_or_sections=2 split_size=2 dim=1 tensor=x
squeeze input=c3 dim=0; stack tensors=[x,y]; t input=x; take index=iv; take_along_dim indices=i01 dim=1
tensor data=[1,2]; tensor_split indices=[1,2] sections=2 dim=1 indices_or_sections=2; tensordot a=x b=m dims=1
threshold threshold=0.1 value=2.0; tile dims=(2,1); topk k=2; trace input=n; trapezoid y=x x=v dim=1
transpose dim0=0 dim1=1; tril_indices row=2 col=3 offset=1; triu_indices row=2 col=3 offset=1
unflatten dim=1 sizes=(3,1); unsqueeze dim=1; vander x=v N=2; where condition=b input=x other=y; eye n=3 m=2
as_tensor data=[1,2]; from_numpy ndarray=x.numpy(); vecdot x=x y=y; eigh A=spd input=spd; eigvalsh A=spd input=spd
matrix_norm A=x input=x ord=1 dim=(0,1); matrix_power A=spd input=spd n=2; multi_dot tensors=[x,m]
vector_norm x=x ord=1; adaptive_avg_pool2d input=c4; adaptive_avg_pool3d input=c5; adaptive_max_pool1d *
adaptive_max_pool2d *; adaptive_max_pool3d *; conv_tbc *; max_unpool1d *; max_unpool2d *; max_unpool3d *
fractional_max_pool2d_with_indices *; fractional_max_pool3d_with_indices *; avg_pool2d input=c4 divisor_override=3
avg_pool3d input=c5 divisor_override=3; batch_norm input=x running_mean=v running_var=p[0] weight=v bias=w
bilinear weight=n.reshape(1,3,3) input1=x input2=y; binary_cross_entropy input=r target=hot
binary_cross_entropy_with_logits target=hot; cosine_embedding_loss target=pv; cross_entropy target=cl weight=v
ctc_loss *; embedding_bag input=i weight=em; fold *; gaussian_nll_loss target=y; glu input=t.ones(2,4) dim=1
group_norm input=c4 weight=t.ones(4) bias=t.ones(4); gumbel_softmax dim=1; hinge_embedding_loss target=pm
instance_norm input=c4; interpolate *; kl_div target=p; layer_norm weight=v bias=w; linear weight=n bias=v
local_response_norm input=c4 size=2; lp_pool1d input=c3 norm_type=2; lp_pool2d input=c4 norm_type=2
margin_ranking_loss target=pm; multi_head_attention_forward *; multi_margin_loss target=cl weight=v p=1
multilabel_margin_loss target=i; multilabel_soft_margin_loss target=hot weight=v; nll_loss target=cl weight=v
one_hot tensor=i; pad pad=(1,2) value=0.5; poisson_nll_loss target=p; rms_norm weight=v
scaled_dot_product_attention value=q; soft_margin_loss target=pm; triplet_margin_with_distance_loss *
unfold input=c4 dimension=1 size=2 step=1; upsample *; broadcast_tensors *; cartesian_prod *; block_diag *; meshgrid *
atleast_1d *; atleast_2d *; set_printoptions *; save *; load *; vmap *; manual_seed *; set_rng_state *
use_deterministic_algorithms *; set_default_device *; set_default_dtype *; set_deterministic_debug_mode *
set_float32_matmul_precision *; from_dlpack *; typename *; is_tensor *; seed *; initial_seed *; get_rng_state *
get_default_device *; data_ptr *; cuda *; pin_memory *; is_pinned *; register_hook *
register_post_accumulate_grad_hook *; retain_grad *; numpy *; new *; backward *; unique input=i
unique_consecutive input=i; cdist x1=x x2=y p=1.0; expand size=(2,2,3); repeat repeats=(2,1)
view size=(3,2) dtype=t.int32; copy_ src=y other=y; uniform_ from_=0.0 to=1.0; random_ from_=0 to=5
normal_ mean=0.0 std=1.0; bernoulli_ p=0.5; exponential_ lambd=1.0; to dtype=t.float64 other=d device='cpu'
type dtype=t.float64; element_size; hardtanh; addcmul value=2; addcdiv value=2; item input=one; softmax dim=1
log_softmax dim=1; softmin dim=1; requires_grad_; masked_select; lp_pool3d *; dropout p=0.0; alpha_dropout p=0.0
feature_alpha_dropout *; dropout1d input=c3 p=0.0; dropout2d input=c4 p=0.0; dropout3d input=c5 p=0.0; clip_grad *
expand_as input=v other=x; view_as other=m; reshape_as other=m; type_as other=d; huber_loss weight=p
mse_loss weight=p; l1_loss weight=p; swapaxes axis0=0 axis1=1; unbind dim=1; movedim source=0; moveaxis source=0
roll dims=1; flip dims=(1,); sum dim=1; logsumexp dim=1; atan2 other=p; arctan2 other=p; hypot other=p
isclose other=x; equal other=x; rsub other=y; pow exponent=2 self=2.0; float_power exponent=2
remainder other=p self=7; fmod other=p; floor_divide other=p; div other=p; divide other=p; true_divide other=p
result_type tensor=x other=d tensor1=x tensor2=d; diff n=1; cov; corrcoef; fmax; fmin
cholesky_inverse input=spd; matrix_exp input=spd A=spd; orgqr *; tensorsolve *
conv_tbc input=c3 weight=t.ones(1,6,2) bias=z pad=1
adaptive_max_pool1d_with_indices *; adaptive_max_pool2d_with_indices *; adaptive_max_pool3d_with_indices *
fractional_max_pool2d_with_indices *; fractional_max_pool3d_with_indices *; max_pool1d_with_indices input=c3
max_pool2d_with_indices input=c4; max_pool3d_with_indices input=c5; max_unpool1d *; max_unpool2d *; max_unpool3d *
upsample_nearest *; upsample_bilinear *; compile *
gcd input=i other=j; lcm input=i other=j; chain_matmul *; combinations input=v r=2 with_replacement=True
dsplit input=q; index_reduce index=iv dim=0 source=y reduce='mean'; mvlgamma input=p+1 p=2; multigammaln input=p+1 p=2
unravel_index indices=i shape=(3,2); float_power_ input=d exponent=2; geometric_ p=0.5; histogramdd bins=[2,2,2]
split_with_sizes dim=1; renorm p=1 dim=0; kaiser_window beta=6.0; hamming_window alpha=0.6 beta=0.4; sum_to_size *
broadcast_shapes *; as_strided size=(2,) stride=(2,) storage_offset=1; nonzero_static size=2 fill_value=7
as_strided_scatter src=z size=(2,) stride=(2,) storage_offset=1; empty_strided size=(2,3) stride=(1,2)
new_empty_strided size=(2,3) stride=(1,2); resize_ size=(3,2); resize_as_ the_template=z
empty_permuted size=(2,3) physical_layout=(1,0)
is_set_to tensor=x; set_ source=y storage_offset=1 size=(2,) stride=(1,); constant_pad_nd pad=(1,0)
log_normal_ mean=0.5 std=0.5; i0 input=x; igamma input=p; igammac input=p; gammainc input=p
gammaincc input=p; zeta input=p+1 other=p; entr input=p; ndtri input=r; logaddexp2 other=p; atleast_3d *
sparse_coo_tensor *; sparse_csr_tensor *; spmm *
binomial count=p+2 prob=r; poisson input=p; eig input=n; eigvals input=n; ldl_factor input=spd hermitian=True
ldl_solve LD=spd pivots=t.tensor([1,2],dtype=t.int32) B=m[:2] hermitian=True
ldl_factor_ex input=spd hermitian=True check_errors=True
"""


def own() -> dict[str, dict[str, str] | None]:
    """function -> its texts; None for one that no generated call fits."""
    found: dict[str, dict[str, str] | None] = {}
    for entry in filter(None, map(str.strip, OWN.replace("\n", ";").split(";"))):
        name, *parts = entry.split()
        if parts == ["*"]:
            found[name] = None
        else:
            found[name] = dict(p.split("=", 1) for p in parts)
    return found

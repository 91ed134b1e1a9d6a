"""Tensors in place and on the tape: versions, leaves, detached views, dtypes, empty and scalar ones."""

import jitgrad as torch
from tests.script.frontend.agree import ints, registry, t

PROGRAMS, program = registry()
X, M = t(3), t(3, 3)
KS = tuple((X, k) for k in (0, 1, 2))


@program(*KS)
def a_detached_view_is_written(x, k):
    y = x * 2
    y.detach()[k] = 5.0
    return y, y * 2


@program(*KS)
def no_grad_in_the_middle(x, k):
    y = x * 2
    with torch.no_grad():
        z = y * 3
        y[k] += 1
    return y, z, z.requires_grad


@program(*KS)
def a_copy_before_the_write_keeps_its_gradient(x, k):
    y = x * 2
    old = y.clone()
    y[k:] = 0
    return (old * y).sum(), y


@program(*KS)
def a_chain_of_in_place_operations(x, k):
    y = x.clone()
    y.mul_(2).add_(k).relu_()
    y[y > 1] = y[y > 1] * 0.5
    return y


@program((M, 0), (M, 2))
def rows_and_columns(m, k):
    y = m.clone()
    y[k] = y[:, k]
    y[:, 0] += y[0]
    return y, y[..., -1], y[None, k]


@program((M,))
def the_diagonal_is_a_view(m):
    y = m.clone()
    y.diagonal().mul_(10)
    return y, y.diagonal(), y.trace()


@program((M,))
def a_transposed_write(m):
    y = m * 1
    y.t()[0] = torch.arange(3.0)
    y.T.add_(1)
    return y


@program((M, 1), (M, 2))
def assignment_by_a_mask_and_by_indices(m, k):
    y = m.clone()
    y[y < 0] = k
    y[[0, k], [1, 0]] = -7.0
    y[torch.tensor([0, 2])] *= 2
    return y


@program((M,))
def expanded_memory_is_not_written(m):
    y = m[0].expand(3, 3)
    try:
        y.add_(1)
    except RuntimeError:
        y = y.clone().add_(1)
    return y


@program(*KS)
def where_and_masked_fill(x, k):
    y = torch.where(x > 0, x * k, x.new_zeros(()))
    return y.masked_fill(y == 0, -1.0), y.masked_fill_(x < 0, 9.0), y


@program(*KS)
def scalars_and_vectors_mix(x, k):
    s = x.sum()
    return s + k, s.reshape(1) + x, s.item() > 1e9, s.ndim, (s * x).shape


@program((t(0), 1), (t(2), 1))
def empty_tensors(x, k):
    return x.sum(), x.numel(), (x * k).shape, torch.cat([x, x]), x.prod()


@program((ints(1, 2, 3), X), (ints(0, 0, 0), X))
def promotion_of_types(i, x):
    return i + x, (i * 2.5).dtype == x.dtype, (i > 1) + i, i / 2, (i > 1).float() * x


@program((ints(2, 0, 1), X))
def gather_and_scatter(i, x):
    y = x[i]
    z = torch.zeros(3).scatter_add(0, i, x)
    return y, z, torch.gather(x, 0, i), x.index_select(0, i)


@program(*KS)
def what_was_saved_stays(x, k):
    y = x * 1
    kept = y * y
    if k == 2:
        y = y.add(1)
    return kept.sum(), y


@program(*KS)
def stack_unbind_and_cat(x, k):
    parts = [x * i for i in range(k + 1)]
    m = torch.stack(parts)
    a = m.t().unbind(0)
    return m, a[0], torch.cat(parts), torch.stack(list(a), 1).shape


@program((M, 1), (M, 2))
def a_shape_that_the_run_decides(m, k):
    rows = m[m[:, 0] > -10][:k]
    return rows, rows.shape[0], rows.new_ones(rows.shape).sum()


@program((X, 1), (X, 3))
def nonzero_positions(x, k):
    where = (x * k > 0).nonzero()
    return where.shape[1], where, x[x > 0]


@program(*KS)
def nan_spreads_and_is_found(x, k):
    y = x / (x - x) if k else x
    return torch.isnan(y).any().item(), torch.nan_to_num(y), (y == y).all().item()


@program(*KS)
def max_with_positions(x, k):
    values, where = x.max(0)
    return values + k, where, x.argmin(), torch.maximum(x, x.flip(0)), x.topk(2).values


@program(*KS)
def a_running_mean(x, k):
    mean, n = torch.zeros(3), 0
    for v in (x, x * 2, x * k):
        n += 1
        mean += (v - mean) / n
    return mean, n


@program(*KS)
def a_tensor_as_a_condition(x, k):
    if (x > 0).any() and not (x > k).all():
        return x.abs()
    while x.sum() > -5:
        x = x - 1
    return x


@program((M, X))
def broadcasting_in_place(m, x):
    y = m.clone()
    y += x
    y -= x.unsqueeze(1)
    try:
        x.clone().add_(m)
    except RuntimeError:
        y = y * 2
    return y


@program(*KS)
def backward_inside(x, k):
    w = x.detach().clone().requires_grad_()
    loss = (w * w).sum() * (k + 1)
    loss.backward()
    return w.grad, w.is_leaf, loss.detach()


@program(*KS)
def gradients_are_added(x, k):
    w = x.detach().clone().requires_grad_()
    for _ in range(2):
        (w * 2).sum().backward()
    before = w.grad.clone()
    w.grad = None
    (w.exp() * k).sum().backward()
    return before, w.grad


@program(*KS)
def gradients_by_grad(x, k):
    w = x.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
    (h,) = torch.autograd.grad((g * (k + 1)).sum(), w)
    return g.detach(), h


@program(*KS)
def in_a_chosen_order_of_memory(x, k):
    m = torch.stack([x, x + 1]).t()
    return m.contiguous().view(-1), m.reshape(-1), m.is_contiguous(), m.t().is_contiguous()


@program((X.half(), 2), (X.half(), 3))
def halves_are_rounded(x, k):
    y = x * k + 0.1
    return y, y.float().sum(), (y + torch.ones(3)).dtype == torch.float32


@program(*KS)
def zero_dimensional_results_of_indices(x, k):
    v = x[k]
    v = v + 1
    x = x * 2
    return v, x[k], v.item() == float(v)


@program(*KS)
def in_place_on_a_slice_of_a_slice(x, k):
    y = torch.arange(10.0)
    a = y[2:8]
    a[1:4] = k
    a[::2] += 0.5
    return y, x


@program(*KS)
def swap_rows_by_indices(x, k):
    m = torch.stack([x, x * 2, x * 3])
    m[[0, 1]] = m[[1, 0]]
    m[0], m[2] = m[2].clone(), m[0].clone()
    return m


@program(*KS)
def a_list_of_tensors_is_summed(x, k):
    return sum([x, x * 2, x * k]), sum(v.sum() for v in (x, x)), max(x.sum(), x.prod())


@program((t(5),), (t(8),), (t(2),))
def halves_from_stacks(x):
    """Two tensors that may be missing, of other sizes, through one loop."""
    ks, xs, done, way, block, running = [], [], [], [], 0, True
    while running:
        returned = True
        if block == 0:
            if x.shape[0] < 2:
                result = x
            else:
                k = x.shape[0] // 2
                ks.append(k)
                xs.append(x)
                way.append(1)
                x = x[:k]
                returned = False
        elif block == 1:
            first = result
            k, x = ks.pop(), xs.pop()
            done.append(first)
            way.append(2)
            x, block, returned = x[k:], 0, False
        else:
            first = done.pop()
            result = torch.cat([first + result.sum(), result * 0.5])
        if returned:
            if len(way) == 0:
                running = False
            else:
                block = way.pop()
    return result


@program((t(4, 3), 3), (-t(4, 3).abs(), 3), (t(4, 3), 0))
def sums_of_what_a_condition_kept(x, n):
    """Of no tensor it is the number 0."""
    kept = []
    for i in range(n):
        if x[i].sum() > 0:
            kept.append(x[i] * 2)
    return sum(kept) * 2 + x.sum(), sum(kept)


@program((t(4, 3), 3), (-t(4, 3).abs(), 3), (t(4, 3), 0))
def sums_of_a_filtered_generator(x, n):
    return sum(r * 2 for r in x[:n] if r.sum() > 0), sum((r.sum() for r in x[:n] if r.sum() > 0), 1.5)


@program((t(4, 3), 3), (t(4, 3), 1), (t(4, 3), 0))
def sums_of_rows(x, n):
    return sum(x[i].sum() for i in range(n)), sum([x[i] for i in range(n)], start=x[0])


@program((X, 3), (X, 0), (X, -1))
def indices_of_a_triangle(x, n):
    """Of fewer than no rows they are an error."""
    return torch.tril_indices(n, n), torch.triu_indices(n, 2), x

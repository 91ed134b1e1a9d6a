// softmax(q k^T * scale) v without its matrix of scores in memory, and the gradient, by tensor cores: see attention.py.
//
// Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
//
// Four warps have a block of rows. Products and tiles: tiles.cuh.

// --- heads -----------------------------------------------------------------------------------------------------------

// the matrix of one head: `count` rows of D elements, `stride` apart
template <class T> struct jg_head { T* p; i64 stride; int count; };

template <class T> JG_DEVICE jg_head<T> jg_head_of(T* p, i64 batch, i64 head, i64 s0, i64 s1, i64 s2, i64 count) {
    return {p + batch * s0 + head * s1, s2, (int)count};
}

template <class T> JG_DEVICE bool jg_by_pieces(const jg_head<T>& x) {
    return jg_aligned<8>(x.p) && x.stride % 8 == 0;
}

// rows `first`... of a matrix as a tile of R rows, zeros behind its end; there after `jg_arrived` and a barrier
template <int R, int D, class T> JG_DEVICE void jg_tile(u32 at, const jg_head<T>& x, int first) {
    constexpr int C = D / 8, STEP = 128 / C;  // the rows that the threads bring at once
    const int row = (int)threadIdx.x / C, c = (int)threadIdx.x % C, left = x.count - first - row;
    const T* from = x.p + (first + row) * x.stride + c * 8;
    if (jg_by_pieces(x)) {
        #pragma unroll
        for (int i = 0; i < R / STEP; i++, from += STEP * x.stride)
            jg_copy_async(at + jg_piece<D>(row + i * STEP, c), from, i * STEP < left);
        return;
    }
    #pragma unroll 1
    for (int i = 0; i < R / STEP; i++, from += STEP * x.stride) {
        u32 w[4];
        #pragma unroll
        for (int k = 0; k < 4; k++)
            w[k] = i * STEP < left ? from[2 * k].bits | (u32)from[2 * k + 1].bits << 16 : 0u;
        uint4 all = {w[0], w[1], w[2], w[3]};
        jg_shared[(at + jg_piece<D>(row + i * STEP, c)) / 16] = all;
    }
}

// c += p x, where p are results, rounded to T, and x is a tile of N * 8 rows
template <int D, int M, int N, class T>
JG_DEVICE void jg_by_columns(float (&c)[M][D / 8][4], const float (&p)[M][N][4], u32 x, T zero) {
    #pragma unroll
    for (int k = 0; k < N / 2; k++) {
        u32 a[M][4];
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = jg_pair(p[m][2 * k + i / 2][i % 2 * 2], p[m][2 * k + i / 2][i % 2 * 2 + 1], zero);
        #pragma unroll
        for (int n = 0; n < D / 16; n++) {
            u32 b[4];
            jg_right_t<D>(b, x, n, k);
            #pragma unroll
            for (int m = 0; m < M; m++) {
                jg_multiply(c[m][2 * n], a[m], b[0], b[1], zero);
                jg_multiply(c[m][2 * n + 1], a[m], b[2], b[3], zero);
            }
        }
    }
}

// 16 rows from `row` on of results, rows g times `above`, rows g + 8 times `below`
template <int D, class T> JG_DEVICE void jg_put_rows(const jg_head<T>& y, int row, const float (&c)[D / 8][4],
                                                     float above, float below) {
    const int lane = threadIdx.x & 31;
    const bool whole = jg_aligned<2>(y.p) && y.stride % 2 == 0;
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = row + lane / 4 + h * 8;
        float by = h ? below : above;
        if (i >= y.count) continue;
        T* p = y.p + i * y.stride + lane % 4 * 2;
        #pragma unroll
        for (int n = 0; n < D / 8; n++) {
            u32 both = jg_pair(c[n][2 * h] * by, c[n][2 * h + 1] * by, T());
            if (whole) {
                *(u32*)(p + n * 8) = both;
            } else {
                p[n * 8].bits = (unsigned short)both;
                p[n * 8 + 1].bits = (unsigned short)(both >> 16);
            }
        }
    }
}

// over the four lanes that share rows
JG_DEVICE float jg_quad_sum(float x) {
    const int lane = threadIdx.x & 31;
    x += __shfl_sync(0xffffffffu, x, lane ^ 1);
    return x + __shfl_sync(0xffffffffu, x, lane ^ 2);
}
JG_DEVICE float jg_quad_max(float x) {
    const int lane = threadIdx.x & 31;
    x = fmaxf(x, __shfl_sync(0xffffffffu, x, lane ^ 1));
    return fmaxf(x, __shfl_sync(0xffffffffu, x, lane ^ 2));
}

// what queries from `row` on do not see of keys from `key` on is `instead`; there are `count` keys
template <bool CAUSAL, int M, int N>
JG_DEVICE void jg_unseen(float (&s)[M][N][4], int row, int key, int count, float instead) {
    const int lane = threadIdx.x & 31;
    #pragma unroll
    for (int m = 0; m < M; m++)
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            // the first key that is not seen, from this lane's first one on
            const int own = row + m * 16 + lane / 4 + i / 2 * 8 + 1;
            const int end = (CAUSAL && own < count ? own : count) - key - lane % 4 * 2 - (i & 1);
            #pragma unroll
            for (int n = 0; n < N; n++) if (n * 8 >= end) s[m][n][i] = instead;
        }
}

#define JG_LOG2E 1.4426950408889634f
#define JG_LN2 0.6931471805599453f

// what is added to the scores of one head, or (bool) whether a key is seen; rows of queries
template <class B> struct jg_mask {
    static constexpr bool MASKS = true;
    const B* p; i64 row, column; int rows, columns;
};
struct jg_no_mask { static constexpr bool MASKS = false; };
// rows of keys
template <class B> JG_DEVICE jg_mask<B> jg_across(const jg_mask<B>& m) {
    return {m.p, m.column, m.row, m.columns, m.rows};
}
JG_DEVICE jg_no_mask jg_across(const jg_no_mask&) { return {}; }

template <class B> JG_DEVICE jg_mask<B> jg_mask_of(const B* p, i64 batch, i64 head, i64 s0, i64 s1, i64 row, i64 column,
                                                   i64 n_q, i64 n_k) {
    return {p + batch * s0 + head * s1, row, column, (int)n_q, (int)n_k};
}
JG_DEVICE float jg_score(float s, float factor, bool seen) { return seen ? s * factor : -JG_INF; }
template <class T> JG_DEVICE float jg_score(float s, float factor, T more) {
    return fmaf(s, factor, jg_widen(more) * JG_LOG2E);
}
// products become scores, in units of their powers of two: of M times 16 rows from `row` on, columns from `column` on
template <int M, int N, class B>
JG_DEVICE void jg_masked(float (&s)[M][N][4], const jg_mask<B>& mask, int row, int column, float factor) {
    const int lane = threadIdx.x & 31, left = mask.columns - column - lane % 4 * 2;
    #pragma unroll
    for (int m = 0; m < M; m++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const int own = row + m * 16 + lane / 4 + h * 8;
            const int end = own < mask.rows ? left : 0;
            const B* p = mask.p + own * mask.row + (column + lane % 4 * 2) * mask.column;
            #pragma unroll
            for (int n = 0; n < N; n++, p += 8 * mask.column) {
                jg_here(p);
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    float& x = s[m][n][2 * h + e];
                    x = n * 8 + e < end ? jg_score(x, factor, p[e * mask.column]) : x * factor;
                }
            }
        }
}
template <int M, int N>
JG_DEVICE void jg_masked(float (&)[M][N][4], const jg_no_mask&, int, int, float) {}

// --- forward --------------------------------------------------------------------------------------------------------

// 64 * M rows of y, and of the logarithms of the sums of exp(scores): a warp has 16 * M, N keys come at a time
template <class T, int D, int M, int N, bool CAUSAL, class B>
JG_DEVICE void jg_attention_rows(const jg_head<const T>& q, const jg_head<const T>& k, const jg_head<const T>& v,
                                 const jg_head<T>& y, float* lse, const B& mask, float scale, int first) {
    constexpr u32 TILE = N * D * 2, K = 64 * M * D * 2, V = K + 2 * TILE;
    const int lane = threadIdx.x & 31, row = first + (int)(threadIdx.x >> 5) * 16 * M;  // the warp's first
    const T zero = T();
    const int keys = CAUSAL && first + 64 * M < k.count ? first + 64 * M : k.count, blocks = (keys + N - 1) / N;
    const float factor = fmaxf(fabsf(scale * JG_LOG2E), 1e-37f);  // not zero: -infinity stays what it is
    const float unit = B::MASKS ? 1.0f : factor;
    float sums[M][D / 8][4], most[M][2], total[M][2];
    u32 left[M][D / 16][4];

    jg_tile<64 * M, D>(0, q, first);
    if (blocks) {
        jg_tile<N, D>(K, k, 0);
        jg_tile<N, D>(V, v, 0);
    }
    jg_commit();
    jg_arrived<0>();
    __syncthreads();
    #pragma unroll
    for (int m = 0; m < M; m++) {
        #pragma unroll
        for (int c = 0; c < D / 16; c++) {
            jg_left<D>(left[m][c], 0, row - first + m * 16, c);
            #pragma unroll
            for (int i = 0; i < 4; i++) left[m][c][i] ^= scale < 0.0f ? 0x80008000u : 0u;
        }
        most[m][0] = most[m][1] = -JG_INF;
        total[m][0] = total[m][1] = 0.0f;
    }
    jg_clear(sums);
    for (int j = 0; j < blocks; j++) {
        const u32 here = (j & 1) * TILE, there = TILE - here;
        float s[M][N / 8][4];
        if (j) {
            jg_arrived<0>();
            __syncthreads();
        }
        if (j + 1 < blocks) {
            jg_tile<N, D>(K + there, k, (j + 1) * N);
            jg_tile<N, D>(V + there, v, (j + 1) * N);
        }
        jg_commit();
        if (CAUSAL && j * N >= row + 16 * M) continue;  // no row of the warp sees a key
        jg_clear(s);
        jg_by_rows<D, M, N / 8>(s, left, K + here, zero);
        jg_masked(s, mask, row, j * N, factor);
        if ((j + 1) * N > k.count || (CAUSAL && (j + 1) * N > row + 1))
            jg_unseen<CAUSAL>(s, row, j * N, k.count, -JG_INF);
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                float before = most[m][h], now = before, part = 0.0f;
                #pragma unroll
                for (int n = 0; n < N / 8; n++) now = fmaxf(now, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
                most[m][h] = now = jg_quad_max(now);
                const float shift = now == -JG_INF ? 0.0f : now * unit;
                const float kept = before == -JG_INF ? 0.0f : jg_exp2(fmaf(before, unit, -shift));
                #pragma unroll
                for (int n = 0; n < N / 8; n++)
                    #pragma unroll
                    for (int i = 2 * h; i < 2 * h + 2; i++) {
                        s[m][n][i] = jg_exp2(fmaf(s[m][n][i], unit, -shift));
                        part += s[m][n][i];
                    }
                total[m][h] = fmaf(total[m][h], kept, part);
                #pragma unroll
                for (int n = 0; n < D / 8; n++) {
                    sums[m][n][2 * h] *= kept;
                    sums[m][n][2 * h + 1] *= kept;
                }
            }
        jg_by_columns<D, M, N / 8>(sums, s, V + here, zero);
    }
    #pragma unroll
    for (int m = 0; m < M; m++) {
        float by[2];
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const float all = jg_quad_sum(total[m][h]);
            const int own = row + m * 16 + lane / 4 + h * 8;
            // a row whose scores are all -infinity is NaN, as in softmax, but for masks: they may leave nothing
            const bool nothing = B::MASKS && all == 0.0f;
            by[h] = k.count && !nothing ? 1.0f / all : 0.0f;
            if (lane % 4 == 0 && own < y.count)
                lse[own] = nothing ? JG_INF : fmaf(most[m][h], unit * JG_LN2, logf(all));
        }
        jg_put_rows<D>(y, row + m * 16, sums[m], by[0], by[1]);
    }
}

// --- gradient --------------------------------------------------------------------------------------------------------

// 64 * M rows of the gradient of q, and of delta, the sums of g * y along rows: N keys come at a time
template <class T, int D, int M, int N, bool CAUSAL, class B>
JG_DEVICE void jg_attention_dq(const jg_head<const T>& q, const jg_head<const T>& k, const jg_head<const T>& v,
                               const jg_head<const T>& y, const jg_head<const T>& g, const float* lse, float* delta,
                               const jg_head<T>& dq, const B& mask, float scale, int first) {
    constexpr u32 TILE = N * D * 2, ROWS = 64 * M * D * 2, K = 3 * ROWS, V = K + 2 * TILE;
    const int lane = threadIdx.x & 31, inside = (int)(threadIdx.x >> 5) * 16 * M, row = first + inside;
    const T zero = T();
    const int keys = CAUSAL && first + 64 * M < k.count ? first + 64 * M : k.count, blocks = (keys + N - 1) / N;
    const float factor = scale * JG_LOG2E, unit = B::MASKS ? 1.0f : factor;
    float sums[M][D / 8][4], base[M][2], mean[M][2];
    u32 left[M][D / 16][4], cotangent[M][D / 16][4];

    jg_tile<64 * M, D>(0, g, first);
    jg_tile<64 * M, D>(ROWS, y, first);
    jg_tile<64 * M, D>(2 * ROWS, q, first);
    jg_commit();
    if (blocks) {
        jg_tile<N, D>(K, k, 0);
        jg_tile<N, D>(V, v, 0);
    }
    jg_commit();
    jg_arrived<1>();
    __syncthreads();
    #pragma unroll
    for (int m = 0; m < M; m++) {
        mean[m][0] = mean[m][1] = 0.0f;
        #pragma unroll
        for (int c = 0; c < D / 16; c++) {
            u32 of_y[4];
            jg_left<D>(cotangent[m][c], 0, inside + m * 16, c);
            jg_left<D>(left[m][c], 2 * ROWS, inside + m * 16, c);
            jg_left<D>(of_y, ROWS, inside + m * 16, c);
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int e = 0; e < 2; e++) {
                    T a, b;
                    a.bits = (unsigned short)(cotangent[m][c][i] >> 16 * e);
                    b.bits = (unsigned short)(of_y[i] >> 16 * e);
                    mean[m][i & 1] = fmaf(jg_widen(a), jg_widen(b), mean[m][i & 1]);
                }
        }
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            const int own = row + m * 16 + lane / 4 + h * 8;
            mean[m][h] = jg_quad_sum(mean[m][h]);
            base[m][h] = own < q.count ? lse[own] * JG_LOG2E : 0.0f;
            if (lane % 4 == 0 && own < q.count) delta[own] = mean[m][h];
        }
    }
    jg_clear(sums);
    for (int j = 0; j < blocks; j++) {
        const u32 here = (j & 1) * TILE, there = TILE - here;
        float s[M][N / 8][4], d[M][N / 8][4];
        jg_arrived<0>();
        __syncthreads();
        if (j + 1 < blocks) {
            jg_tile<N, D>(K + there, k, (j + 1) * N);
            jg_tile<N, D>(V + there, v, (j + 1) * N);
        }
        jg_commit();
        if (CAUSAL && j * N >= row + 16 * M) continue;
        jg_clear(s);
        jg_clear(d);
        jg_by_rows<D, M, N / 8>(s, left, K + here, zero);
        jg_by_rows<D, M, N / 8>(d, cotangent, V + here, zero);
        jg_masked(s, mask, row, j * N, factor);
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int n = 0; n < N / 8; n++)
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    s[m][n][i] = jg_exp2(fmaf(s[m][n][i], unit, -base[m][i / 2])) * (d[m][n][i] - mean[m][i / 2]);
        if ((j + 1) * N > k.count || (CAUSAL && (j + 1) * N > row + 1)) jg_unseen<CAUSAL>(s, row, j * N, k.count, 0.0f);
        jg_by_columns<D, M, N / 8>(sums, s, K + here, zero);
    }
    #pragma unroll
    for (int m = 0; m < M; m++) jg_put_rows<D>(dq, row + m * 16, sums[m], scale, scale);
}

// 64 * M rows of the gradients of k and v: N queries come at a time
template <class T, int D, int M, int N, bool CAUSAL, class B>
JG_DEVICE void jg_attention_dkv(const jg_head<const T>& q, const jg_head<const T>& k, const jg_head<const T>& v,
                                const jg_head<const T>& g, const float* lse, const float* delta,
                                const jg_head<T>& dk, const jg_head<T>& dv, const B& mask, float scale,
                                int first) {
    constexpr bool HELD = M * D <= 64;  // whether there are registers for the rows of k and v
    constexpr u32 TILE = N * D * 2, ROWS = 64 * M * D * 2, Q = 2 * ROWS, G = Q + 2 * TILE, NUMBERS = G + 2 * TILE;
    const int lane = threadIdx.x & 31, inside = (int)(threadIdx.x >> 5) * 16 * M, row = first + inside;
    const T zero = T();
    const int start = CAUSAL ? first / N : 0, blocks = (q.count + N - 1) / N;
    const float factor = scale * JG_LOG2E, unit = B::MASKS ? 1.0f : factor;
    float of_k[M][D / 8][4], of_v[M][D / 8][4];
    u32 left_k[M][HELD ? D / 16 : 1][4], left_v[M][HELD ? D / 16 : 1][4];

    auto fetch = [&](int j, int place) {
        jg_tile<N, D>(Q + place * TILE, q, j * N);
        jg_tile<N, D>(G + place * TILE, g, j * N);
        float* numbers = (float*)((char*)jg_shared + NUMBERS) + place * 2 * N;
        const int t = (int)threadIdx.x & (N - 1), query = j * N + t;
        if ((int)threadIdx.x < 2 * N)
            numbers[threadIdx.x] = query >= q.count ? 0.0f : (int)threadIdx.x < N ? lse[query] * JG_LOG2E : delta[query];
    };
    jg_tile<64 * M, D>(0, k, first);
    jg_tile<64 * M, D>(ROWS, v, first);
    if (start < blocks) fetch(start, 0);
    jg_commit();
    jg_arrived<0>();
    __syncthreads();
    if constexpr (HELD) {
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int c = 0; c < D / 16; c++) {
                jg_left<D>(left_k[m][c], 0, inside + m * 16, c);
                jg_left<D>(left_v[m][c], ROWS, inside + m * 16, c);
            }
    }
    jg_clear(of_k);
    jg_clear(of_v);
    for (int j = start; j < blocks; j++) {
        const int place = (j - start) & 1;
        const u32 tile_q = Q + place * TILE, tile_g = G + place * TILE;
        const float2* numbers = (const float2*)((const char*)jg_shared + NUMBERS) + place * N + lane % 4;
        float s[M][N / 8][4], d[M][N / 8][4];
        if (j > start) {
            jg_arrived<0>();
            __syncthreads();
        }
        if (j + 1 < blocks) fetch(j + 1, 1 - place);
        jg_commit();
        if (CAUSAL && (j + 1) * N <= row) continue;  // no query sees a key of the warp
        jg_clear(s);
        if constexpr (HELD) jg_by_rows<D, M, N / 8>(s, left_k, tile_q, zero);
        else jg_by_rows<D, M, N / 8>(s, 0u, inside, tile_q, zero);
        jg_masked(s, jg_across(mask), row, j * N, factor);
        #pragma unroll
        for (int n = 0; n < N / 8; n++) {
            const float2 base = numbers[n * 4];
            #pragma unroll
            for (int m = 0; m < M; m++)
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    s[m][n][i] = jg_exp2(fmaf(s[m][n][i], unit, i & 1 ? -base.y : -base.x));
        }
        if (CAUSAL && j * N < row + 16 * M - 1) {  // some queries do not see all keys
            #pragma unroll
            for (int m = 0; m < M; m++)
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int before = row + m * 16 + lane / 4 + i / 2 * 8 - j * N - lane % 4 * 2 - (i & 1);
                    #pragma unroll
                    for (int n = 0; n < N / 8; n++) if (n * 8 < before) s[m][n][i] = 0.0f;
                }
        }
        jg_by_columns<D, M, N / 8>(of_v, s, tile_g, zero);
        jg_clear(d);
        if constexpr (HELD) jg_by_rows<D, M, N / 8>(d, left_v, tile_g, zero);
        else jg_by_rows<D, M, N / 8>(d, ROWS, inside, tile_g, zero);
        #pragma unroll
        for (int n = 0; n < N / 8; n++) {
            const float2 mean = numbers[N / 2 + n * 4];
            #pragma unroll
            for (int m = 0; m < M; m++)
                #pragma unroll
                for (int i = 0; i < 4; i++) s[m][n][i] *= d[m][n][i] - (i & 1 ? mean.y : mean.x);
        }
        jg_by_columns<D, M, N / 8>(of_k, s, tile_q, zero);
    }
    #pragma unroll
    for (int m = 0; m < M; m++) {
        jg_put_rows<D>(dk, row + m * 16, of_k[m], scale, scale);
        jg_put_rows<D>(dv, row + m * 16, of_v[m], 1.0f, 1.0f);
    }
}

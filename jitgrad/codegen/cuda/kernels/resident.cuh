// What kernels with loops and branches use, whose blocks are all resident: a barrier of the grid, blocks divided among
// the rows of a reduction, products of matrices, what sizes are computed with.

#ifndef JG_HOST
#define JG_PAUSE()
#endif

#ifndef JG_HOST
JG_DEVICE u32 jg_arrive(u32* word, u32 by) {  // what was written before is seen by who sees the sum
    u32 before;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(by) : "memory");
    return before;
}
JG_DEVICE u32 jg_look(const u32* word) {
    u32 now;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    return now;
}
#else
JG_DEVICE u32 jg_arrive(u32* word, u32 by) { return atomicAdd(word, by); }
JG_DEVICE u32 jg_look(const u32* word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
#endif

// All threads of all blocks meet, but for a barrier of the block; what they wrote before is seen after. `arrived`: a word
// that nobody else writes. The first block completes the lower bits to a carry into the top one, which the others wait
// to see changed: nothing has to be reset. The scheme is that of CUDA's cooperative groups, but for the two lowest bits,
// in which the first block says `stop`. They are used in turn, for who is late may read after it is here again. What
// the first thread of a block gets: the bit, if it is set.
JG_DEVICE u32 jg_met(u32* arrived, bool stop = false) {
    u32 found = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 by = 4, before, now;
        if (blockIdx.x == 0) by = 0x80000000u - 4 * (gridDim.x - 1) + (stop ? 1u << (jg_look(arrived) >> 31) : 0);
        before = jg_arrive(arrived, by);
        while ((((now = jg_look(arrived)) ^ before) & 0x80000000u) == 0) JG_PAUSE();
        found = now & 1u << (before >> 31);
    }
    return found;
}

// The same in a loop that may never end. `stop`: a word that the host sets when nobody wants the result any more, or null;
// `seen`: what the first block read of it after it met the others the last time, for reading it takes a while. True: all
// blocks leave, and they have all seen the bit before it is cleared.
JG_DEVICE bool jg_meet_or_stop(u32* arrived, const u32* stop, bool& seen) {
    const u32 found = jg_met(arrived, seen);
    if (__syncthreads_or(found != 0)) {
        jg_met(arrived);
        if (blockIdx.x == 0 && threadIdx.x == 0) jg_arrive(arrived, 0u - found);
        return true;
    }
    if (stop && blockIdx.x == 0 && threadIdx.x == 0) seen = *(const volatile u32*)stop != 0;
    return false;
}
JG_DEVICE void jg_meet(u32* arrived) {
    jg_met(arrived);
    __syncthreads();
}

// an element that another block may have written
template <class T> JG_DEVICE T jg_seen(const T* p) { return *(const volatile T*)p; }
JG_DEVICE jg_half jg_seen(const jg_half* p) { return {*(const volatile unsigned short*)p}; }
JG_DEVICE jg_bfloat jg_seen(const jg_bfloat* p) { return {*(const volatile unsigned short*)p}; }

// values as words
template <class T> JG_DEVICE i64 jg_bits(T v) { return (i64)v; }
JG_DEVICE i64 jg_bits(float v) { return (i64)__float_as_int(v); }
JG_DEVICE i64 jg_bits(double v) { return __double_as_longlong(v); }

// --- sizes ----------------------------------------------------------------------------------------------------------

JG_DEVICE i64 jg_size_min(i64 a, i64 b) { return b < a ? b : a; }
JG_DEVICE i64 jg_size_max(i64 a, i64 b) { return b > a ? b : a; }
JG_DEVICE i64 jg_size_bcast(i64 a, i64 b) { return a != 1 ? a : b; }
JG_DEVICE i64 jg_size_not_one(i64 a) { return a != 1; }
JG_DEVICE i64 jg_size_floordiv(i64 a, i64 b) {
    const i64 by = b == 0 ? 1 : b;
    return a / by - (a % by != 0 && ((a % by) ^ by) < 0);
}
JG_DEVICE i64 jg_size_mod(i64 a, i64 b) {
    const i64 by = b == 0 ? 1 : b, rest = a % by;
    return rest != 0 && (rest ^ by) < 0 ? rest + by : rest;
}

// --- blocks ---------------------------------------------------------------------------------------------------------

struct jg_place { u32 x, y; };
struct jg_share { jg_place at, of; bool mine; };

// The blocks as a grid for `outer` rows, `each` to a block; where `split` is not 0, several blocks along y share rows of
// `inner` elements, of which each takes `split` at least. `mine`: whether this block is in that grid.
JG_DEVICE jg_share jg_shared_by(i64 outer, i64 inner, int each, int split) {
    const i64 all = gridDim.x, wanted = jg_parts(outer, each);
    const u32 x = (u32)(wanted < all ? wanted : all);
    u32 y = 1;
    if (split && x) {
        const i64 parts = jg_parts(inner, split), room = all / x;
        y = (u32)(parts < room ? parts : room);
        if (y == 0) y = 1;
    }
    const u32 own = x ? blockIdx.x / x : 0;
    return {{x ? blockIdx.x % x : 0, own}, {x, y}, x != 0 && own < y};
}

// --- products -------------------------------------------------------------------------------------------------------

JG_DEVICE float jg_fma(float a, float b, float c) { return fmaf(a, b, c); }  // rounded once: nobody asks for two
JG_DEVICE double jg_fma(double a, double b, double c) { return fma(a, b, c); }
template <class T> JG_DEVICE float jg_wide(T v) { return (float)jg_widen(v); }
JG_DEVICE float jg_wide(float v) { return v; }
JG_DEVICE double jg_wide(double v) { return v; }
JG_DEVICE void jg_put(float* p, float v) { *p = v; }
JG_DEVICE void jg_put(double* p, double v) { *p = v; }
JG_DEVICE void jg_put(jg_half* p, float v) { *p = jg_narrow(v); }
JG_DEVICE void jg_put(jg_bfloat* p, float v) { *p = jg_narrow_bfloat(v); }

// what is computed of a product's element besides: 1: ReLU, 2: GELU by tanh
template <int WHAT, class A> JG_DEVICE A jg_after(A x) {
    if (WHAT == 1) return jg_max(x, (A)0);
    if (WHAT == 2) return (A)0.5 * x * ((A)1 + (A)tanh((A)0.7978845608028654 * (x + (A)0.044715 * x * x * x)));
    return x;
}

// two tiles of 32 by 33 that all products of a kernel share
template <class A> JG_DEVICE A* jg_tiles() {
    __shared__ A tiles[2 * 32 * 33];
    return tiles;
}

// c[m, n] = op(a)[m, k] @ op(b)[k, n] (+ c, or + bias[n]), row after row `ld*` elements apart, by all blocks. Products that are few
// are done by a block or a warp each, along k; others by tiles of 32 by 32.
template <class T, class A, bool TA, bool TB, bool ADD, int WHAT, int THREADS>
JG_DEVICE void jg_product(const T* a, const T* b, T* c, const T* bias, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldc) {
    constexpr int warps = THREADS / 32;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const i64 results = m * n;
    auto put = [=](i64 i, i64 j, A sum) {
        const A before = ADD ? (A)jg_wide(c[i * ldc + j]) : bias ? (A)jg_wide(bias[j]) : (A)0;
        jg_put(c + i * ldc + j, jg_after<WHAT>(before + sum));
    };
    if (results <= gridDim.x) {
        for (i64 r = blockIdx.x; r < results; r += gridDim.x) {
            const i64 i = r / n, j = r - i * n;
            A sum = 0;
            for (i64 e = threadIdx.x; e < k; e += blockDim.x)
                sum = jg_fma((A)jg_wide(a[TA ? e * lda + i : i * lda + e]),
                             (A)jg_wide(b[TB ? j * ldb + e : e * ldb + j]), sum);
            sum = jg_block<jg_sum<A>>(sum);
            if (threadIdx.x == 0) put(i, j, sum);
        }
        return;
    }
    if ((n == 1 && !TA) || (m == 1 && TB)) {  // k is contiguous where it is long
        for (i64 r = (i64)blockIdx.x * warps + warp; r < results; r += (i64)gridDim.x * warps) {
            const i64 i = r / n, j = r - i * n;
            A sum = 0;
            for (i64 e = lane; e < k; e += 32)
                sum = jg_fma((A)jg_wide(a[TA ? e * lda + i : i * lda + e]),
                             (A)jg_wide(b[TB ? j * ldb + e : e * ldb + j]), sum);
            sum = jg_warp<jg_sum<A>>(sum, 32);
            if (lane == 0) put(i, j, sum);
        }
        return;
    }
    A* const as = jg_tiles<A>();  // [32][33]
    A* const bs = as + 32 * 33;
    const i64 across = (n + 31) / 32, tiles = (m + 31) / 32 * across;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const i64 row = tile / across * 32, column = tile % across * 32;
        A sums[32 / warps];
        #pragma unroll
        for (int s = 0; s < 32 / warps; s++) sums[s] = 0;
        for (i64 first = 0; first < k; first += 32) {
            __syncthreads();
            for (int r = warp; r < 32; r += warps) {
                // as[i][e], bs[e][j]: lanes along the axis that is contiguous in memory
                const i64 ai = TA ? row + lane : row + r, ae = TA ? first + r : first + lane;
                const A x = ai < m && ae < k ? (A)jg_wide(a[TA ? ae * lda + ai : ai * lda + ae]) : (A)0;
                as[TA ? lane * 33 + r : r * 33 + lane] = x;
                const i64 be = TB ? first + lane : first + r, bj = TB ? column + r : column + lane;
                const A y = be < k && bj < n ? (A)jg_wide(b[TB ? bj * ldb + be : be * ldb + bj]) : (A)0;
                bs[TB ? lane * 33 + r : r * 33 + lane] = y;
            }
            __syncthreads();
            #pragma unroll
            for (int s = 0; s < 32 / warps; s++) {
                const int r = warp + s * warps;
                for (int e = 0; e < 32; e++) sums[s] = jg_fma(as[r * 33 + e], bs[e * 33 + lane], sums[s]);
            }
        }
        #pragma unroll
        for (int s = 0; s < 32 / warps; s++) {
            const int r = warp + s * warps;
            const i64 i = row + r, j = column + lane;
            if (i < m && j < n) put(i, j, sums[s]);
        }
    }
}

// Tensor cores: products of 16 x 8 results, and the tiles of shared memory that they read.
//
// Products are `mma.m16n8k16` of T with sums in float: lane 4 * g + t of a warp has of a 16 x 8 result the columns 2 t
// and 2 t + 1 of rows g and g + 8, and two such results side by side are the left operand of the next product. Tiles
// lie in shared memory in pieces of 16 bytes, a row's pieces in an order that its number decides, so that eight rows'
// pieces of equal number are in different banks.

// --- tensor cores and their memory ----------------------------------------------------------------------------------

#if !defined(JG_HOST) && __CUDA_ARCH__ >= 800
JG_DEVICE u32 jg_shared_place(u32 at) { return (u32)__cvta_generic_to_shared((const char*)jg_shared + at); }
// 16 bytes to shared memory, later; zeros unless `inside`
JG_DEVICE void jg_copy_async(u32 at, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(jg_shared_place(at)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0) : "memory");
}
JG_DEVICE void jg_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> JG_DEVICE void jg_arrived() { asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory"); }
// four 8 x 8 matrices, whose rows the lanes' places are; lane 4 * g + t gets columns 2 t, 2 t + 1 of their rows g
JG_DEVICE void jg_matrices(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(jg_shared_place(at)) : "memory");
}
JG_DEVICE void jg_matrices_t(u32 (&r)[4], u32 at) {  // ... rows 2 t, 2 t + 1 of their columns g
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(jg_shared_place(at)) : "memory");
}
JG_DEVICE void jg_multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, jg_half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
JG_DEVICE void jg_multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, jg_bfloat) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
JG_DEVICE float jg_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// two numbers as T, the first one in the lower half
JG_DEVICE u32 jg_pair(float x, float y, jg_half) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}
JG_DEVICE u32 jg_pair(float x, float y, jg_bfloat) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}
#else  // the same by shuffles: on the host, and for GPUs before Ampere
#ifdef JG_HOST
#define JG_CALLED JG_DEVICE
#else
#define JG_CALLED static __device__ __noinline__
#endif
JG_DEVICE void jg_copy_async(u32 at, const void* from, bool inside) {
    uint4 nothing = {0, 0, 0, 0};
    jg_shared[at / 16] = inside ? *(const uint4*)from : nothing;
}
JG_DEVICE void jg_commit() {}
template <int LEFT> JG_DEVICE void jg_arrived() {}
JG_DEVICE u32 jg_bits_at(u32 at) { return ((const unsigned short*)jg_shared)[at / 2]; }
JG_CALLED void jg_matrices(u32 (&r)[4], u32 at) {
    int lane = threadIdx.x & 31;
    for (int i = 0; i < 4; i++) {
        u32 row = __shfl_sync(0xffffffffu, at, i * 8 + lane / 4) + lane % 4 * 4;
        r[i] = jg_bits_at(row) | jg_bits_at(row + 2) << 16;
    }
}
JG_CALLED void jg_matrices_t(u32 (&r)[4], u32 at) {
    int lane = threadIdx.x & 31;
    for (int i = 0; i < 4; i++) {
        u32 low = __shfl_sync(0xffffffffu, at, i * 8 + lane % 4 * 2) + lane / 4 * 2;
        u32 high = __shfl_sync(0xffffffffu, at, i * 8 + lane % 4 * 2 + 1) + lane / 4 * 2;
        r[i] = jg_bits_at(low) | jg_bits_at(high) << 16;
    }
}
template <class T> JG_DEVICE float jg_of_pair(u32 pair, int k) {
    T x;
    x.bits = (unsigned short)(pair >> 16 * k);
    return jg_widen(x);
}
template <class T> JG_CALLED void jg_multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, T) {
    int lane = threadIdx.x & 31, row = lane / 4 * 4, column = lane % 4 * 8;
    #pragma unroll 1
    for (int k = 0; k < 8; k++) {  // pairs along the inner axis
        int half = k / 4;
        u32 above = __shfl_sync(0xffffffffu, a[half * 2], row + k % 4);
        u32 below = __shfl_sync(0xffffffffu, a[half * 2 + 1], row + k % 4);
        u32 left = __shfl_sync(0xffffffffu, half ? b1 : b0, column + k % 4);
        u32 right = __shfl_sync(0xffffffffu, half ? b1 : b0, column + 4 + k % 4);
        for (int i = 0; i < 2; i++) {
            c[0] += jg_of_pair<T>(above, i) * jg_of_pair<T>(left, i);
            c[1] += jg_of_pair<T>(above, i) * jg_of_pair<T>(right, i);
            c[2] += jg_of_pair<T>(below, i) * jg_of_pair<T>(left, i);
            c[3] += jg_of_pair<T>(below, i) * jg_of_pair<T>(right, i);
        }
    }
}
JG_DEVICE float jg_exp2(float x) { return exp2f(x); }
JG_DEVICE u32 jg_pair(float x, float y, jg_half) { return jg_narrow(x).bits | (u32)jg_narrow(y).bits << 16; }
JG_DEVICE u32 jg_pair(float x, float y, jg_bfloat) {
    return jg_narrow_bfloat(x).bits | (u32)jg_narrow_bfloat(y).bits << 16;
}
#endif

// an address is computed here: many of them at once would take the registers of the products
template <class T> JG_DEVICE void jg_here(const T*& p) {
#ifndef JG_HOST
    asm volatile("" : "+l"(p));
#endif
}
// an element of what no one writes meanwhile; zero, and not read, unless `inside`. Without a branch: many are under way
template <class T> JG_DEVICE u32 jg_bits_if(const T* p, bool inside) {
#ifdef JG_HOST
    return inside ? p->bits : 0;
#else
    unsigned short bits;
    asm("{ .reg .pred inside; setp.ne.u32 inside, %2, 0; mov.u16 %0, 0; @inside ld.global.nc.u16 %0, [%1]; }"
        : "=h"(bits) : "l"(__cvta_generic_to_global(p)), "r"((u32)inside));
    return bits;
#endif
}

// --- tiles ----------------------------------------------------------------------------------------------------------

// the byte of shared memory at which piece `c` of a row of a tile is
template <int D> JG_DEVICE u32 jg_piece(int row, int c) {
    return (u32)(row * D * 2 + ((D >= 64 ? c ^ (row & 7) : c ^ (row >> 1 & 3)) << 4));
}

// 16 rows from `row` on as left operands, for each 16 columns
template <int D> JG_DEVICE void jg_left(u32 (&a)[4], u32 at, int row, int k) {
    int lane = threadIdx.x & 31;
    jg_matrices(a, at + jg_piece<D>(row + (lane & 15), k * 2 + (lane >> 4)));
}
// rows n * 16... as right operand: columns k * 16... of them are the inner axis
template <int D> JG_DEVICE void jg_right(u32 (&b)[4], u32 at, int n, int k) {
    int lane = threadIdx.x & 31;
    jg_matrices(b, at + jg_piece<D>(n * 16 + (lane & 7) + (lane >> 4) * 8, k * 2 + (lane >> 3 & 1)));
}
// columns n * 16... as right operand: rows k * 16... of them are the inner axis
template <int D> JG_DEVICE void jg_right_t(u32 (&b)[4], u32 at, int n, int k) {
    int lane = threadIdx.x & 31;
    jg_matrices_t(b, at + jg_piece<D>(k * 16 + (lane & 15), n * 2 + (lane >> 4)));
}

// c += a x^T for M times 16 rows of a, where x is a tile of N * 8 rows
template <int D, int M, int N, class T>
JG_DEVICE void jg_by_rows(float (&c)[M][N][4], const u32 (&a)[M][D / 16][4], u32 x, T zero) {
    #pragma unroll
    for (int k = 0; k < D / 16; k++)
        #pragma unroll
        for (int n = 0; n < N / 2; n++) {
            u32 b[4];
            jg_right<D>(b, x, n, k);
            #pragma unroll
            for (int m = 0; m < M; m++) {
                jg_multiply(c[m][2 * n], a[m][k], b[0], b[1], zero);
                jg_multiply(c[m][2 * n + 1], a[m][k], b[2], b[3], zero);
            }
        }
}
// the same with the rows of a tile, from `row` on, for a
template <int D, int M, int N, class T>
JG_DEVICE void jg_by_rows(float (&c)[M][N][4], u32 left, int row, u32 x, T zero) {
    #pragma unroll
    for (int k = 0; k < D / 16; k++) {
        u32 a[M][4];
        #pragma unroll
        for (int m = 0; m < M; m++) jg_left<D>(a[m], left, row + m * 16, k);
        #pragma unroll
        for (int n = 0; n < N / 2; n++) {
            u32 b[4];
            jg_right<D>(b, x, n, k);
            #pragma unroll
            for (int m = 0; m < M; m++) {
                jg_multiply(c[m][2 * n], a[m], b[0], b[1], zero);
                jg_multiply(c[m][2 * n + 1], a[m], b[2], b[3], zero);
            }
        }
    }
}
template <int M, int N> JG_DEVICE void jg_clear(float (&c)[M][N][4]) {
    #pragma unroll
    for (int m = 0; m < M; m++)
        #pragma unroll
        for (int n = 0; n < N; n++)
            #pragma unroll
            for (int i = 0; i < 4; i++) c[m][n][i] = 0.0f;
}

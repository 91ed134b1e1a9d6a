// def row_sum(x):
//     return (x * x).sum(1)

extern "C" __global__ void __launch_bounds__(256)
jg_row_mul_sum_0_warp(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const int bits = jg_bits(jg_lanes((int)jg_parts(columns, 4))), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0;
        float r2 = 0.0f;
        for (int e = lane * 4; e < length; e += lanes * 4) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0;
            if (full) {
                x0 = jg_read<4>(q0 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v1 = (v0 * v0);
                r2 = k < m ? jg_sum<float>::of(r2, v1) : r2;
            }
        }
        r2 = jg_warp<jg_sum<float>>(r2, lanes);
        const float v2 = r2;
        if (lane == 0 && live) {
            q1[0] = v2;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_mul_sum_0_split(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0;
        float r2 = 0.0f;
        for (i64 e = ((i64)blockIdx.y * 256 + threadIdx.x) * 4; e < length; e += (i64)gridDim.y * 1024) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0;
            if (full) {
                x0 = jg_read<4>(q0 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v1 = (v0 * v0);
                r2 = k < m ? jg_sum<float>::of(r2, v1) : r2;
            }
        }
        r2 = jg_block<jg_sum<float>>(r2);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts2 = (jg_slot<float>*)(scratch + 4128);
            if (threadIdx.x == 0) {
                parts2[(i64)blockIdx.x * gridDim.y + blockIdx.y].value = r2;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r2 = 0.0f;
                for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                    r2 = jg_sum<float>::of(r2, jg_fresh(parts2 + ((i64)blockIdx.x * gridDim.y + b)));
                }
                r2 = jg_block<jg_sum<float>>(r2);
            }
        }
        if (mine) {
            const float v2 = r2;
            if (threadIdx.x == 0) {
                q1[0] = v2;
            }
        }
    }
}

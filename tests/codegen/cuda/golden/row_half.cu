// def row_half(x):
//     return x.exp().sum(1)

extern "C" __global__ void __launch_bounds__(256)
jg_row_exp_sum_0_warp(i64 n0, i64 n1, const jg_half* __restrict__ p0, jg_half* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float16, in, at i0 * s0 + i1
    // p1: float16, out, at i0
    const bool aligned = jg_aligned<8>(p0) && s0 % 8 == 0;
    const i64 rows = n0, columns = n1;
    const int bits = jg_bits(jg_lanes((int)jg_parts(columns, 8))), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const jg_half* __restrict__ const q0 = p0 + i0 * s0;
        jg_half* __restrict__ const q1 = p1 + i0;
        float r3 = 0.0f;
        for (int e = lane * 8; e < length; e += lanes * 8) {
            const bool full = aligned && e + 8 <= length;
            const int m = jg_rest<8>(length - e);
            jg_pack<jg_half, 8> x0;
            if (full) {
                x0 = jg_read<8>(q0 + e);
            }
            else {
                x0 = jg_read_some<8>(q0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                const float v0 = jg_widen(x0.at[k]);
                const float v1 = expf(v0);
                const float v2 = jg_widen(jg_narrow((float)(v1)));
                r3 = k < m ? jg_sum<float>::of(r3, v2) : r3;
            }
        }
        r3 = jg_warp<jg_sum<float>>(r3, lanes);
        const float v3 = (float)(r3);
        const float v4 = jg_widen(jg_narrow((float)(v3)));
        if (lane == 0 && live) {
            q1[0] = jg_narrow(v3);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_exp_sum_0_split(i64 n0, i64 n1, const jg_half* __restrict__ p0, jg_half* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float16, in, at i0 * s0 + i1
    // p1: float16, out, at i0
    const bool aligned = jg_aligned<8>(p0) && s0 % 8 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const i64 i0 = row;
        const jg_half* __restrict__ const q0 = p0 + i0 * s0;
        jg_half* __restrict__ const q1 = p1 + i0;
        float r3 = 0.0f;
        for (i64 e = ((i64)blockIdx.y * 256 + threadIdx.x) * 8; e < length; e += (i64)gridDim.y * 2048) {
            const bool full = aligned && e + 8 <= length;
            const int m = jg_rest<8>(length - e);
            jg_pack<jg_half, 8> x0;
            if (full) {
                x0 = jg_read<8>(q0 + e);
            }
            else {
                x0 = jg_read_some<8>(q0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                const float v0 = jg_widen(x0.at[k]);
                const float v1 = expf(v0);
                const float v2 = jg_widen(jg_narrow((float)(v1)));
                r3 = k < m ? jg_sum<float>::of(r3, v2) : r3;
            }
        }
        r3 = jg_block<jg_sum<float>>(r3);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts3 = (jg_slot<float>*)(scratch + 4128);
            if (threadIdx.x == 0) {
                parts3[(i64)blockIdx.x * gridDim.y + blockIdx.y].value = r3;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r3 = 0.0f;
                for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                    r3 = jg_sum<float>::of(r3, jg_fresh(parts3 + ((i64)blockIdx.x * gridDim.y + b)));
                }
                r3 = jg_block<jg_sum<float>>(r3);
            }
        }
        if (mine) {
            const float v3 = (float)(r3);
            if (threadIdx.x == 0) {
                q1[0] = jg_narrow(v3);
            }
        }
    }
}

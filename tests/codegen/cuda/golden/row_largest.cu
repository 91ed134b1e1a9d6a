// def row_largest(x):
//     return x.argmax(1)

extern "C" __global__ void __launch_bounds__(256)
jg_row_argmax_0_warp(i64 n0, i64 n1, const float* __restrict__ p0, i64* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: int64, out, at i0
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
        i64* __restrict__ const q1 = p1 + i0;
        jg_best<float> r1 = {(-(float)JG_INF), 9223372036854775807LL};
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
                r1 = k < m ? jg_argmax<float>::of(r1, jg_best<float>{v0, (i64)(e + k)}) : r1;
            }
        }
        r1 = jg_warp<jg_argmax<float>>(r1, lanes);
        const i64 v1 = r1.at;
        if (lane == 0 && live) {
            q1[0] = v1;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_argmax_0_split(i64 n0, i64 n1, const float* __restrict__ p0, i64* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: int64, out, at i0
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        i64* __restrict__ const q1 = p1 + i0;
        jg_best<float> r1 = {(-(float)JG_INF), 9223372036854775807LL};
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
                r1 = k < m ? jg_argmax<float>::of(r1, jg_best<float>{v0, (i64)(e + k)}) : r1;
            }
        }
        r1 = jg_block<jg_argmax<float>>(r1);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<jg_best<float>>* const parts1 = (jg_slot<jg_best<float>>*)(scratch + 4128);
            if (threadIdx.x == 0) {
                parts1[(i64)blockIdx.x * gridDim.y + blockIdx.y].value = r1;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r1 = {(-(float)JG_INF), 9223372036854775807LL};
                for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                    r1 = jg_argmax<float>::of(r1, jg_fresh(parts1 + ((i64)blockIdx.x * gridDim.y + b)));
                }
                r1 = jg_block<jg_argmax<float>>(r1);
            }
        }
        if (mine) {
            const i64 v1 = r1.at;
            if (threadIdx.x == 0) {
                q1[0] = v1;
            }
        }
    }
}

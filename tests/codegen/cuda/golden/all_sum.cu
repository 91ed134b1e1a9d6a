// def all_sum(x):
//     return x.abs().sum()

extern "C" __global__ void __launch_bounds__(256)
jg_all_abs_sum_0(i64 n0, const float* __restrict__ p0, float* __restrict__ p1, char* scratch) {
    // one results, each of n0 elements
    // p0: float32, in, at i0
    // p1: float32, out, at 0
    const bool aligned = jg_aligned<4>(p0);
    const i64 rows = 1, columns = n0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        float r2 = 0.0f;
        for (i64 e = ((i64)blockIdx.y * 256 + threadIdx.x) * 4; e < length; e += (i64)gridDim.y * 1024) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0;
            if (full) {
                x0 = jg_read<4>(p0 + e);
            }
            else {
                x0 = jg_read_some<4>(p0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v1 = fabsf(v0);
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
                p1[0] = v2;
            }
        }
    }
}

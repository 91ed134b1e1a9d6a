// def col_sum(x):
//     return x.sum(0) * 0.5

extern "C" __global__ void __launch_bounds__(256)
jg_col_sum_mul_0(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 + i1 * s0
    // p1: float32, out, at i0
    const i64 results = n0, elements = n1;
    for (i64 tile = (i64)blockIdx.x * 32; tile < results; tile += (i64)gridDim.x * 32) {
        const bool live = tile + threadIdx.x % 32 < results;
        const i64 number = live ? tile + threadIdx.x % 32 : results - 1;
        const i64 length = live ? elements : 0;
        const i64 i0 = number;
        const float* __restrict__ const q0 = p0 + i0;
        float* __restrict__ const q1 = p1 + i0;
        const float v2 = 0.5f;
        float r1 = 0.0f;
        #pragma unroll 4
        for (i64 e = (i64)blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32; e < length; e += (i64)gridDim.y * (blockDim.x / 32)) {
            const i64 i1 = e;
            const float v0 = q0[i1 * s0];
            r1 = jg_sum<float>::of(r1, v0);
        }
        r1 = jg_columns<jg_sum<float>>(r1);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts1 = (jg_slot<float>*)(scratch + 4112);
            if (threadIdx.x < 32 && live) {
                parts1[((i64)blockIdx.x * gridDim.y + blockIdx.y) * 32 + threadIdx.x % 32].value = r1;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r1 = 0.0f;
                for (u32 b = threadIdx.x / 32; b < gridDim.y; b += blockDim.x / 32) {
                    r1 = jg_sum<float>::of(r1, jg_fresh(parts1 + ((i64)blockIdx.x * gridDim.y + b) * 32 + threadIdx.x % 32));
                }
                r1 = jg_columns<jg_sum<float>>(r1);
            }
        }
        if (mine) {
            const float v1 = r1;
            const float v3 = (v1 * v2);
            if (threadIdx.x < 32 && live) {
                q1[0] = v3;
            }
        }
    }
}

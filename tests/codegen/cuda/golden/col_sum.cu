// def col_sum(x):
//     return x.sum(0) * 0.5

extern "C" __global__ void __launch_bounds__(256)
jg_col_sum_mul_0(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 + i1 * s0
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1);
    const i64 results = jg_parts(n0, 4);
    const i64 elements = n1;
    const int lanes = jg_lanes(results), lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x / lanes, groups = 256 / lanes;
    for (i64 tile = (i64)blockIdx.x * lanes; tile < results; tile += (i64)gridDim.x * lanes) {
        const bool live = tile + lane < results;
        const i64 number = live ? tile + lane : results - 1;
        const i64 length = live ? elements : 0;
        const i64 e = number * 4;
        const bool full = aligned && e + 4 <= n0;
        const int m = jg_rest<4>(n0 - e);
        float r1[4];
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            r1[k] = 0.0f;
        }
        if (full) {
            #pragma unroll 2
            for (i64 j = (i64)blockIdx.y * groups + group; j < length; j += (i64)gridDim.y * groups) {
                const i64 i1 = j;
                jg_pack<float, 4> x0;
                x0 = jg_read<4>(p0 + e + i1 * s0);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    r1[k] = jg_sum<float>::of(r1[k], v0);
                }
            }
        }
        else {
            #pragma unroll 1
            for (i64 j = (i64)blockIdx.y * groups + group; j < length; j += (i64)gridDim.y * groups) {
                const i64 i1 = j;
                jg_pack<float, 4> x0;
                if (full) {
                    x0 = jg_read<4>(p0 + e + i1 * s0);
                }
                else {
                    x0 = jg_read_some<4>(p0 + e + i1 * s0, m);
                }
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    r1[k] = jg_sum<float>::of(r1[k], v0);
                }
            }
        }
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            r1[k] = jg_columns<jg_sum<float>>(r1[k], lanes);
        }
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts1 = (jg_slot<float>*)(scratch + 4128);
            if (group == 0 && live) {
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    parts1[((i64)blockIdx.x * gridDim.y + blockIdx.y) * 128 + lane * 4 + k].value = r1[k];
                }
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    r1[k] = 0.0f;
                }
                for (u32 b = group; b < gridDim.y; b += groups) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        r1[k] = jg_sum<float>::of(r1[k], jg_fresh(parts1 + ((i64)blockIdx.x * gridDim.y + b) * 128 + lane * 4 + k));
                    }
                }
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    r1[k] = jg_columns<jg_sum<float>>(r1[k], lanes);
                }
            }
        }
        if (mine) {
            float g1[4];
            float g3[4];
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v2 = 0.5f;
                const float v1 = r1[k];
                g1[k] = v1;
                const float v3 = (v1 * v2);
                g3[k] = v3;
            }
            if (group == 0 && live) {
                jg_pack<float, 4> y4;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v3 = g3[k];
                    y4.at[k] = v3;
                }
                if (full) {
                    jg_write<4>(p1 + e, y4);
                }
                else {
                    jg_write_some<4>(p1 + e, y4, m);
                }
            }
        }
    }
}

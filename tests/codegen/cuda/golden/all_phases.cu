// def all_phases(x):
//     return x / (x * x).sum()

extern "C" __global__ void __launch_bounds__(256)
jg_all_mul_sum_div_0_block(i64 n0, const float* __restrict__ p0, float* __restrict__ p1, char* scratch) {
    // one results, each of n0 elements
    // p0: float32, in, at i0
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && jg_aligned<4>(p1);
    const i64 rows = 1, columns = n0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        jg_pack<float, 4> x0[8];
        float r2 = 0.0f;
        if (aligned && columns % 4 == 0) {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * 256 + (int)threadIdx.x) * 4;
                if (e < length) {
                    x0[c] = jg_read<4>(p0 + e);
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * 256 + (int)threadIdx.x) * 4;
                if (e < length) {
                    x0[c] = jg_read_some<4>(p0 + e, length - e);
                }
            }
        }
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * 256 + (int)threadIdx.x) * 4;
            if (e < length) {
                const int m = jg_rest<4>(length - e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0[c].at[k];
                    const float v1 = (v0 * v0);
                    r2 = k < m ? jg_sum<float>::of(r2, v1) : r2;
                }
            }
        }
        r2 = jg_block<jg_sum<float>>(r2);
        const float v2 = r2;
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * 256 + (int)threadIdx.x) * 4;
            if (e < length) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> y4;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0[c].at[k];
                    const float v3 = (v0 / v2);
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

extern "C" __global__ void __launch_bounds__(256)
jg_all_mul_sum_div_0_phase0(i64 n0, const float* __restrict__ p0, float* __restrict__ p1, char* scratch) {
    // one results, each of n0 elements
    // p0: float32, in, at i0
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && jg_aligned<4>(p1);
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
                const float v1 = (v0 * v0);
                r2 = k < m ? jg_sum<float>::of(r2, v1) : r2;
            }
        }
        r2 = jg_block<jg_sum<float>>(r2);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts2 = (jg_slot<float>*)(scratch + 4112);
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
                ((jg_slot<float>*)(scratch + 4096))->value = r2;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_all_mul_sum_div_0_phase1(i64 n0, const float* __restrict__ p0, float* __restrict__ p1, char* scratch) {
    // one results, each of n0 elements
    // p0: float32, in, at i0
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && jg_aligned<4>(p1);
    const i64 rows = 1, columns = n0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const float r2 = jg_fresh(((jg_slot<float>*)(scratch + 4096)));
        const float v2 = r2;
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
            jg_pack<float, 4> y4;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v3 = (v0 / v2);
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

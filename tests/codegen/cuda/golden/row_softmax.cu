// def row_softmax(x):
//     return x.softmax(1)

extern "C" __global__ void __launch_bounds__(256)
jg_row_amax_sub_exp_sum_div_0_warp(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const int lanes = jg_lanes(jg_parts(columns, 4)), lane = threadIdx.x & (lanes - 1);
    const int together = 256 / lanes;  // rows of this block
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += (i64)gridDim.x * together) {
        const bool live = first + threadIdx.x / lanes < rows;
        const i64 row = live ? first + threadIdx.x / lanes : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        jg_pack<float, 4> x0[8];
        float h3[32];
        float r1 = (-(float)JG_INF);
        if (aligned && columns % 4 == 0) {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    x0[c] = jg_read<4>(q0 + e);
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    x0[c] = jg_read_some<4>(q0 + e, length - e);
                }
            }
        }
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * lanes + lane) * 4;
            if (e < length) {
                const int m = jg_rest<4>(length - e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0[c].at[k];
                    r1 = k < m ? jg_fastmaximum<float>::of(r1, v0) : r1;
                }
            }
        }
        r1 = jg_warp<jg_fastmaximum<float>>(r1, lanes);
        const float v1 = r1;
        float r4 = 0.0f;
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * lanes + lane) * 4;
            if (e < length) {
                const int m = jg_rest<4>(length - e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0[c].at[k];
                    const float v2 = (v0 - v1);
                    const float v3 = expf(v2);
                    h3[c * 4 + k] = v3;
                    r4 = k < m ? jg_sum<float>::of(r4, v3) : r4;
                }
            }
        }
        r4 = jg_warp<jg_sum<float>>(r4, lanes);
        const float v4 = r4;
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * lanes + lane) * 4;
            if (e < length) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> y6;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v3 = h3[c * 4 + k];
                    const float v5 = (v3 / v4);
                    y6.at[k] = v5;
                }
                if (full) {
                    jg_write<4>(q1 + e, y6);
                }
                else {
                    jg_write_some<4>(q1 + e, y6, m);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_amax_sub_exp_sum_div_0_block(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        jg_pack<float, 4> x0[8];
        float h3[32];
        float r1 = (-(float)JG_INF);
        if (aligned && columns % 4 == 0) {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * 256 + (int)threadIdx.x) * 4;
                if (e < length) {
                    x0[c] = jg_read<4>(q0 + e);
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 8; c++) {
                const int e = (c * 256 + (int)threadIdx.x) * 4;
                if (e < length) {
                    x0[c] = jg_read_some<4>(q0 + e, length - e);
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
                    r1 = k < m ? jg_fastmaximum<float>::of(r1, v0) : r1;
                }
            }
        }
        r1 = jg_block<jg_fastmaximum<float>>(r1);
        const float v1 = r1;
        float r4 = 0.0f;
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * 256 + (int)threadIdx.x) * 4;
            if (e < length) {
                const int m = jg_rest<4>(length - e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0[c].at[k];
                    const float v2 = (v0 - v1);
                    const float v3 = expf(v2);
                    h3[c * 4 + k] = v3;
                    r4 = k < m ? jg_sum<float>::of(r4, v3) : r4;
                }
            }
        }
        r4 = jg_block<jg_sum<float>>(r4);
        const float v4 = r4;
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int e = (c * 256 + (int)threadIdx.x) * 4;
            if (e < length) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> y6;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v3 = h3[c * 4 + k];
                    const float v5 = (v3 / v4);
                    y6.at[k] = v5;
                }
                if (full) {
                    jg_write<4>(q1 + e, y6);
                }
                else {
                    jg_write_some<4>(q1 + e, y6, m);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024)
jg_row_amax_sub_exp_sum_div_0_shared(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        const i64 capacity = jg_parts(length, 4096) * 4096;
        float* const h0 = (float*)((char*)jg_shared + capacity * 0);
        float* const h3 = (float*)((char*)jg_shared + capacity * 0);
        float r1 = (-(float)JG_INF);
        for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 4096) {
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
                h0[(c * 4 + k) * 1024 + threadIdx.x] = v0;
                r1 = k < m ? jg_fastmaximum<float>::of(r1, v0) : r1;
            }
        }
        r1 = jg_block<jg_fastmaximum<float>>(r1);
        const float v1 = r1;
        float r4 = 0.0f;
        for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 4096) {
            const int m = jg_rest<4>(length - e);
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = h0[(c * 4 + k) * 1024 + threadIdx.x];
                const float v2 = (v0 - v1);
                const float v3 = expf(v2);
                h3[(c * 4 + k) * 1024 + threadIdx.x] = v3;
                r4 = k < m ? jg_sum<float>::of(r4, v3) : r4;
            }
        }
        r4 = jg_block<jg_sum<float>>(r4);
        const float v4 = r4;
        for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 4096) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> y6;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v3 = h3[(c * 4 + k) * 1024 + threadIdx.x];
                const float v5 = (v3 / v4);
                y6.at[k] = v5;
            }
            if (full) {
                jg_write<4>(q1 + e, y6);
            }
            else {
                jg_write_some<4>(q1 + e, y6, m);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024)
jg_row_amax_sub_exp_sum_div_0_sweeps(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        float r1 = (-(float)JG_INF);
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 4096) {
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
                r1 = k < m ? jg_fastmaximum<float>::of(r1, v0) : r1;
            }
        }
        r1 = jg_block<jg_fastmaximum<float>>(r1);
        const float v1 = r1;
        float r4 = 0.0f;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 4096) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0;
            if (full) {
                x0 = jg_read<4>(q0 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
            }
            jg_pack<float, 4> y3;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v2 = (v0 - v1);
                const float v3 = expf(v2);
                y3.at[k] = v3;
                r4 = k < m ? jg_sum<float>::of(r4, v3) : r4;
            }
            if (full) {
                jg_write<4>(q1 + e, y3);
            }
            else {
                jg_write_some<4>(q1 + e, y3, m);
            }
        }
        r4 = jg_block<jg_sum<float>>(r4);
        const float v4 = r4;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 4096) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x3;
            if (full) {
                x3 = jg_read<4>(q1 + e);
            }
            else {
                x3 = jg_read_some<4>(q1 + e, m);
            }
            jg_pack<float, 4> y6;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v3 = x3.at[k];
                const float v5 = (v3 / v4);
                y6.at[k] = v5;
            }
            if (full) {
                jg_write<4>(q1 + e, y6);
            }
            else {
                jg_write_some<4>(q1 + e, y6, m);
            }
        }
    }
}

// def row_softmax(x):
//     return x.softmax(1)

extern "C" __global__ void __launch_bounds__(256, 3)
jg_row_amax_sub_exp_sum_div_0_group(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const bool whole = aligned && columns % 4 == 0;
    const int bits = jg_sharing<4>((int)jg_parts(columns, 4)), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        if (whole) {
            jg_held<float, 4> x0[4];
            float h3[16];
            float r1 = (-(float)JG_INF);
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_hold(x0[c], jg_read<4>(q0 + e));
                }
            }
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        r1 = jg_fastmaximum<float>::of(r1, v0);
                    }
                }
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, lanes);
            const float v1 = r1;
            float r4 = 0.0f;
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v3 = expf(v2);
                        h3[c * 4 + k] = v3;
                        r4 = jg_sum<float>::of(r4, v3);
                    }
                }
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, lanes);
            const float v4 = r4;
            const jg_divisor d5 = jg_divided_by(v4);
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_pack<float, 4> y6;
                    bool usual = true;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v3 = h3[c * 4 + k];
                        const float v5 = jg_quotient(v3, d5, usual);
                        y6.at[k] = v5;
                    }
                    if (!usual) {
                        #pragma unroll
                        for (int k = 0; k < 4; k++) {
                            const float v3 = h3[c * 4 + k];
                            const float v5 = (v3 / v4);
                            y6.at[k] = v5;
                        }
                    }
                    jg_write<4>(q1 + e, y6);
                }
            }
        }
        else {
            float r1 = (-(float)JG_INF);
            #pragma unroll 4
            for (int e = lane; e < length; e += lanes) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                r1 = jg_fastmaximum<float>::of(r1, v0);
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, lanes);
            const float v1 = r1;
            float r4 = 0.0f;
            #pragma unroll 4
            for (int e = lane; e < length; e += lanes) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                const float v2 = (v0 - v1);
                const float v3 = expf(v2);
                q1[i1] = v3;
                r4 = jg_sum<float>::of(r4, v3);
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, lanes);
            const float v4 = r4;
            #pragma unroll 4
            for (int e = lane; e < length; e += lanes) {
                const i64 i1 = e;
                const float v3 = q1[i1];
                const float v5 = (v3 / v4);
                q1[i1] = v5;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 3)
jg_row_amax_sub_exp_sum_div_0_block(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const bool whole = aligned && columns % 4 == 0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        if (whole) {
            const int capacity = (length + 1023) / 1024 * 1024;
            char* const h0 = (char*)((char*)jg_shared + capacity * 0);
            char* const h3 = (char*)((char*)jg_shared + capacity * 0);
            float r1 = (-(float)JG_INF);
            for (int c = 0, e = (0 * 256 + (int)threadIdx.x) * 4; e < length; c++, e += 256 * 4) {
                jg_pack<float, 4> x0;
                x0 = jg_read<4>(q0 + e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    r1 = jg_fastmaximum<float>::of(r1, v0);
                }
                jg_keep<256>(h0, c, x0);
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, 256);
            const float v1 = r1;
            float r4 = 0.0f;
            for (int c = 0, e = (0 * 256 + (int)threadIdx.x) * 4; e < length; c++, e += 256 * 4) {
                const jg_pack<float, 4> x0 = jg_kept<256, float, 4>(h0, c);
                jg_pack<float, 4> y3;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v3 = expf(v2);
                    y3.at[k] = v3;
                    r4 = jg_sum<float>::of(r4, v3);
                }
                jg_keep<256>(h3, c, y3);
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, 256);
            const float v4 = r4;
            const jg_divisor d5 = jg_divided_by(v4);
            for (int c = 0, e = (0 * 256 + (int)threadIdx.x) * 4; e < length; c++, e += 256 * 4) {
                const jg_pack<float, 4> x3 = jg_kept<256, float, 4>(h3, c);
                jg_pack<float, 4> y6;
                bool usual = true;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v3 = x3.at[k];
                    const float v5 = jg_quotient(v3, d5, usual);
                    y6.at[k] = v5;
                }
                if (!usual) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v3 = x3.at[k];
                        const float v5 = (v3 / v4);
                        y6.at[k] = v5;
                    }
                }
                jg_write<4>(q1 + e, y6);
            }
        }
        else {
            float r1 = (-(float)JG_INF);
            for (int e = (int)threadIdx.x; e < length; e += 256) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                r1 = jg_fastmaximum<float>::of(r1, v0);
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, 256);
            const float v1 = r1;
            float r4 = 0.0f;
            for (int e = (int)threadIdx.x; e < length; e += 256) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                const float v2 = (v0 - v1);
                const float v3 = expf(v2);
                q1[i1] = v3;
                r4 = jg_sum<float>::of(r4, v3);
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, 256);
            const float v4 = r4;
            for (int e = (int)threadIdx.x; e < length; e += 256) {
                const i64 i1 = e;
                const float v3 = q1[i1];
                const float v5 = (v3 / v4);
                q1[i1] = v5;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024)
jg_row_amax_sub_exp_sum_div_0_shared(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const bool whole = aligned && columns % 4 == 0;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0 * s1;
        if (whole) {
            const int capacity = (length + 4095) / 4096 * 4096;
            char* const h0 = (char*)((char*)jg_shared + capacity * 0);
            char* const h3 = (char*)((char*)jg_shared + capacity * 0);
            float r1 = (-(float)JG_INF);
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                jg_pack<float, 4> x0;
                x0 = jg_read<4>(q0 + e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    r1 = jg_fastmaximum<float>::of(r1, v0);
                }
                jg_keep<1024>(h0, c, x0);
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, 1024);
            const float v1 = r1;
            float r4 = 0.0f;
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                const jg_pack<float, 4> x0 = jg_kept<1024, float, 4>(h0, c);
                jg_pack<float, 4> y3;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v3 = expf(v2);
                    y3.at[k] = v3;
                    r4 = jg_sum<float>::of(r4, v3);
                }
                jg_keep<1024>(h3, c, y3);
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, 1024);
            const float v4 = r4;
            const jg_divisor d5 = jg_divided_by(v4);
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                const jg_pack<float, 4> x3 = jg_kept<1024, float, 4>(h3, c);
                jg_pack<float, 4> y6;
                bool usual = true;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v3 = x3.at[k];
                    const float v5 = jg_quotient(v3, d5, usual);
                    y6.at[k] = v5;
                }
                if (!usual) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v3 = x3.at[k];
                        const float v5 = (v3 / v4);
                        y6.at[k] = v5;
                    }
                }
                jg_write<4>(q1 + e, y6);
            }
        }
        else {
            float r1 = (-(float)JG_INF);
            for (int e = (int)threadIdx.x; e < length; e += 1024) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                r1 = jg_fastmaximum<float>::of(r1, v0);
            }
            r1 = jg_group<jg_fastmaximum<float>, 0>(r1, 1024);
            const float v1 = r1;
            float r4 = 0.0f;
            for (int e = (int)threadIdx.x; e < length; e += 1024) {
                const i64 i1 = e;
                const float v0 = q0[i1];
                const float v2 = (v0 - v1);
                const float v3 = expf(v2);
                q1[i1] = v3;
                r4 = jg_sum<float>::of(r4, v3);
            }
            r4 = jg_group<jg_sum<float>, 1>(r4, 1024);
            const float v4 = r4;
            for (int e = (int)threadIdx.x; e < length; e += 1024) {
                const i64 i1 = e;
                const float v3 = q1[i1];
                const float v5 = (v3 / v4);
                q1[i1] = v5;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_amax_sub_exp_sum_div_0_phase0(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
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
                r1 = k < m ? jg_fastmaximum<float>::of(r1, v0) : r1;
            }
        }
        r1 = jg_block<jg_fastmaximum<float>>(r1);
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts1 = (jg_slot<float>*)(scratch + 20928);
            if (threadIdx.x == 0) {
                parts1[(i64)blockIdx.x * gridDim.y + blockIdx.y].value = r1;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r1 = (-(float)JG_INF);
                for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                    r1 = jg_fastmaximum<float>::of(r1, jg_fresh(parts1 + ((i64)blockIdx.x * gridDim.y + b)));
                }
                r1 = jg_block<jg_fastmaximum<float>>(r1);
            }
        }
        if (mine) {
            const float v1 = r1;
            if (threadIdx.x == 0) {
                ((jg_slot<float>*)(scratch + 4096 + 32 * row))->value = r1;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_amax_sub_exp_sum_div_0_phase1(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
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
        r1 = jg_fresh(((jg_slot<float>*)(scratch + 4096 + 32 * row)));
        const float v1 = r1;
        float r4 = 0.0f;
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
        bool mine = true;  // whether this block has all of the row's parts
        if (gridDim.y > 1) {
            jg_slot<float>* const parts4 = (jg_slot<float>*)(scratch + 25152);
            if (threadIdx.x == 0) {
                parts4[(i64)blockIdx.x * gridDim.y + blockIdx.y].value = r4;
            }
            mine = jg_last((u32*)scratch + blockIdx.x, gridDim.y);
            if (mine) {
                r4 = 0.0f;
                for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                    r4 = jg_sum<float>::of(r4, jg_fresh(parts4 + ((i64)blockIdx.x * gridDim.y + b)));
                }
                r4 = jg_block<jg_sum<float>>(r4);
            }
        }
        if (mine) {
            const float v4 = r4;
            if (threadIdx.x == 0) {
                ((jg_slot<float>*)(scratch + 12512 + 32 * row))->value = r4;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
jg_row_amax_sub_exp_sum_div_0_phase2(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
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
        r1 = jg_fresh(((jg_slot<float>*)(scratch + 4096 + 32 * row)));
        const float v1 = r1;
        float r4 = 0.0f;
        r4 = jg_fresh(((jg_slot<float>*)(scratch + 12512 + 32 * row)));
        const float v4 = r4;
        for (i64 e = ((i64)blockIdx.y * 256 + threadIdx.x) * 4; e < length; e += (i64)gridDim.y * 1024) {
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

extern "C" __global__ void __launch_bounds__(512)
jg_row_amax_sub_exp_sum_div_0_sweeps(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, i64 s1, char* scratch) {
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
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
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
        r1 = jg_group<jg_fastmaximum<float>, 0>(r1, 512);
        const float v1 = r1;
        float r4 = 0.0f;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
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
        r4 = jg_group<jg_sum<float>, 1>(r4, 512);
        const float v4 = r4;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
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

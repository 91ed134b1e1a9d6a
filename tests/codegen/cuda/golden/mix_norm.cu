// def mix_norm(x, weight):
//     return jitgrad.nn.functional.layer_norm(x, (6,), weight)

extern "C" __global__ void __launch_bounds__(1024, 1)
jg_mix_sub_mul_mul_mul_sum_mul_more_0_group(i64 n0, i64 n1, const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, const float* __restrict__ p3, const float* __restrict__ p4, float* __restrict__ p5, float* __restrict__ p6, i64 s0, i64 s1, i64 s2) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, in, at i0
    // p2: float32, in, at i0
    // p3: float32, in, at i0 * s1 + i1
    // p4: float32, in, at i1
    // p5: float32, out, at i1
    // p6: float32, out, at i0 * s2 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p3) && s1 % 4 == 0 && jg_aligned<4>(p4) && jg_aligned<4>(p6) && s2 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const bool whole = aligned && columns % 4 == 0;
    const int bits = jg_sharing<2>((int)jg_parts(columns, 4)), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    float a9[8] = {};
    jg_held<float, 4> x0[2];
    jg_held<float, 4> x5[2];
    float x1;
    float x3;
    {
        const bool live = (i64)blockIdx.x * together + group < rows;
        const i64 row = live ? (i64)blockIdx.x * together + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        const float* __restrict__ const q1 = p1 + i0;
        const float* __restrict__ const q2 = p2 + i0;
        const float* __restrict__ const q3 = p3 + i0 * s1;
        x1 = q1[0];
        x3 = q2[0];
        if (whole) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_hold(x0[c], jg_read<4>(q0 + e));
                    jg_hold(x5[c], jg_read<4>(q3 + e));
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_hold(x0[c], jg_read_some<4>(q0 + e, length - e));
                    jg_hold(x5[c], jg_read_some<4>(q3 + e, length - e));
                }
            }
        }
    }
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        const float* __restrict__ const q1 = p1 + i0;
        const float* __restrict__ const q2 = p2 + i0;
        const float* __restrict__ const q3 = p3 + i0 * s1;
        float* __restrict__ const q6 = p6 + i0 * s2;
        const float v1 = x1;
        const float v3 = x3;
        const float v13 = (-0.5f);
        const float v15 = (v3 * v3);
        const float v16 = (v15 * v3);
        const float v18 = 6.0f;
        float r12 = 0.0f;
        if (whole) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_pack<float, 4> x6;
                    x6 = jg_read<4>(p4 + e);
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const i64 i1 = e + k;
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v4 = (v2 * v3);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v8 = (v5 * v4);
                        a9[c * 4 + k] += v8;
                        const float v11 = (v7 * v2);
                        r12 = jg_sum<float>::of(r12, v11);
                    }
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    const bool full = aligned && e + 4 <= length;
                    const int m = jg_rest<4>(length - e);
                    jg_pack<float, 4> x6;
                    if (full) {
                        x6 = jg_read<4>(p4 + e);
                    }
                    else {
                        x6 = jg_read_some<4>(p4 + e, m);
                    }
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const i64 i1 = e + k;
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v4 = (v2 * v3);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v8 = (v5 * v4);
                        a9[c * 4 + k] += v8;
                        const float v11 = (v7 * v2);
                        r12 = k < m ? jg_sum<float>::of(r12, v11) : r12;
                    }
                }
            }
        }
        {
            const bool live = first + step + group < rows;
            const i64 row = live ? first + step + group : rows - 1;
            const int length = live ? (int)columns : 0;
            const i64 i0 = row;
            const float* __restrict__ const q1 = p1 + i0;
            const float* __restrict__ const q2 = p2 + i0;
            x1 = q1[0];
            x3 = q2[0];
        }
        r12 = jg_group<jg_sum<float>, 0>(r12, lanes);
        const float v12 = r12;
        const float v14 = (v12 * v13);
        const float v17 = (v14 * v16);
        const float v19 = (v17 / v18);
        float r24 = 0.0f;
        if (whole) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_pack<float, 4> x6;
                    x6 = jg_read<4>(p4 + e);
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v10 = (v7 * v3);
                        const float v20 = (v19 * v2);
                        const float v21 = (v10 + v20);
                        const float v22 = (v21 + v20);
                        const float v23 = (float)(-v22);
                        r24 = jg_sum<float>::of(r24, v23);
                    }
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    const bool full = aligned && e + 4 <= length;
                    const int m = jg_rest<4>(length - e);
                    jg_pack<float, 4> x6;
                    if (full) {
                        x6 = jg_read<4>(p4 + e);
                    }
                    else {
                        x6 = jg_read_some<4>(p4 + e, m);
                    }
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v10 = (v7 * v3);
                        const float v20 = (v19 * v2);
                        const float v21 = (v10 + v20);
                        const float v22 = (v21 + v20);
                        const float v23 = (float)(-v22);
                        r24 = k < m ? jg_sum<float>::of(r24, v23) : r24;
                    }
                }
            }
        }
        r24 = jg_group<jg_sum<float>, 1>(r24, lanes);
        const float v24 = r24;
        const float v25 = (v24 / v18);
        if (whole) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_pack<float, 4> x6;
                    x6 = jg_read<4>(p4 + e);
                    jg_pack<float, 4> y27;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v10 = (v7 * v3);
                        const float v20 = (v19 * v2);
                        const float v21 = (v10 + v20);
                        const float v22 = (v21 + v20);
                        const float v26 = (v22 + v25);
                        y27.at[k] = v26;
                    }
                    jg_write<4>(q6 + e, y27);
                }
            }
        }
        else {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    const bool full = aligned && e + 4 <= length;
                    const int m = jg_rest<4>(length - e);
                    jg_pack<float, 4> x6;
                    if (full) {
                        x6 = jg_read<4>(p4 + e);
                    }
                    else {
                        x6 = jg_read_some<4>(p4 + e, m);
                    }
                    jg_pack<float, 4> y27;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v2 = (v0 - v1);
                        const float v5 = jg_of(x5[c], k);
                        const float v6 = x6.at[k];
                        const float v7 = (v5 * v6);
                        const float v10 = (v7 * v3);
                        const float v20 = (v19 * v2);
                        const float v21 = (v10 + v20);
                        const float v22 = (v21 + v20);
                        const float v26 = (v22 + v25);
                        y27.at[k] = v26;
                    }
                    if (full) {
                        jg_write<4>(q6 + e, y27);
                    }
                    else {
                        jg_write_some<4>(q6 + e, y27, m);
                    }
                }
            }
        }
        {
            const bool live = first + step + group < rows;
            const i64 row = live ? first + step + group : rows - 1;
            const int length = live ? (int)columns : 0;
            const i64 i0 = row;
            const float* __restrict__ const q0 = p0 + i0 * s0;
            const float* __restrict__ const q3 = p3 + i0 * s1;
            if (whole) {
                #pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int e = (c * lanes + lane) * 4;
                    if (e < length) {
                        jg_hold(x0[c], jg_read<4>(q0 + e));
                        jg_hold(x5[c], jg_read<4>(q3 + e));
                    }
                }
            }
            else {
                #pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int e = (c * lanes + lane) * 4;
                    if (e < length) {
                        jg_hold(x0[c], jg_read_some<4>(q0 + e, length - e));
                        jg_hold(x5[c], jg_read_some<4>(q3 + e, length - e));
                    }
                }
            }
        }
    }
    __shared__ u64 jg_sums[2048];
    float* const g9 = (float*)jg_sums;
    for (int half = together >> 1; half; half >>= 1) {
        if (group >= half && group < 2 * half) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    if (e + k < columns) g9[(group - half) * columns + e + k] = a9[c * 4 + k];
                }
            }
        }
        __syncthreads();
        if (group < half) {
            #pragma unroll
            for (int c = 0; c < 2; c++) {
                const int e = (c * lanes + lane) * 4;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    if (e + k < columns) a9[c * 4 + k] += g9[group * columns + e + k];
                }
            }
        }
        __syncthreads();
    }
    if (group == 0) {
        #pragma unroll
        for (int c = 0; c < 2; c++) {
            const int e = (c * lanes + lane) * 4;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                if (e + k < columns) p5[blockIdx.x * columns + e + k] = a9[c * 4 + k];
            }
        }
    }
    for (i64 part = blockIdx.x + gridDim.x; part < 264; part += gridDim.x) {
        for (i64 j = threadIdx.x; j < columns; j += blockDim.x) p5[part * columns + j] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1)
jg_mix_sub_mul_mul_mul_sum_mul_more_0_shared(i64 n0, i64 n1, const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, const float* __restrict__ p3, const float* __restrict__ p4, float* __restrict__ p5, float* __restrict__ p6, i64 s0, i64 s1, i64 s2) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, in, at i0
    // p2: float32, in, at i0
    // p3: float32, in, at i0 * s1 + i1
    // p4: float32, in, at i1
    // p5: float32, out, at i1
    // p6: float32, out, at i0 * s2 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p3) && s1 % 4 == 0 && jg_aligned<4>(p4) && jg_aligned<4>(p6) && s2 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const bool whole = aligned && columns % 4 == 0;
    const int room = jg_parts(columns, 4096) * 4096;
    float* const a9 = (float*)((char*)jg_shared + room * 8);
    for (i64 j = threadIdx.x; j < room; j += blockDim.x) a9[j] = 0;
    __syncthreads();
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const int length = (int)columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        const float* __restrict__ const q1 = p1 + i0;
        const float* __restrict__ const q2 = p2 + i0;
        const float* __restrict__ const q3 = p3 + i0 * s1;
        float* __restrict__ const q6 = p6 + i0 * s2;
        const int capacity = (length + 4095) / 4096 * 4096;
        char* const h0 = (char*)((char*)jg_shared + capacity * 0);
        char* const h5 = (char*)((char*)jg_shared + capacity * 4);
        const float v1 = q1[0];
        const float v3 = q2[0];
        const float v13 = (-0.5f);
        const float v15 = (v3 * v3);
        const float v16 = (v15 * v3);
        const float v18 = 6.0f;
        float r12 = 0.0f;
        if (whole) {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                jg_pack<float, 4> x0, x5, x6;
                x0 = jg_read<4>(q0 + e);
                x5 = jg_read<4>(q3 + e);
                x6 = jg_read<4>(p4 + e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const i64 i1 = e + k;
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v4 = (v2 * v3);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v8 = (v5 * v4);
                    a9[(c * 4 + k) * 1024 + threadIdx.x] += v8;
                    const float v11 = (v7 * v2);
                    r12 = jg_sum<float>::of(r12, v11);
                }
                jg_keep<1024>(h0, c, x0);
                jg_keep<1024>(h5, c, x5);
            }
        }
        else {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> x0, x5, x6;
                if (full) {
                    x0 = jg_read<4>(q0 + e);
                    x5 = jg_read<4>(q3 + e);
                    x6 = jg_read<4>(p4 + e);
                }
                else {
                    x0 = jg_read_some<4>(q0 + e, m);
                    x5 = jg_read_some<4>(q3 + e, m);
                    x6 = jg_read_some<4>(p4 + e, m);
                }
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const i64 i1 = e + k;
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v4 = (v2 * v3);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v8 = (v5 * v4);
                    a9[(c * 4 + k) * 1024 + threadIdx.x] += v8;
                    const float v11 = (v7 * v2);
                    r12 = k < m ? jg_sum<float>::of(r12, v11) : r12;
                }
                jg_keep<1024>(h0, c, x0);
                jg_keep<1024>(h5, c, x5);
            }
        }
        r12 = jg_group<jg_sum<float>, 0>(r12, 1024);
        const float v12 = r12;
        const float v14 = (v12 * v13);
        const float v17 = (v14 * v16);
        const float v19 = (v17 / v18);
        float r24 = 0.0f;
        if (whole) {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                jg_pack<float, 4> x6;
                x6 = jg_read<4>(p4 + e);
                const jg_pack<float, 4> x0 = jg_kept<1024, float, 4>(h0, c);
                const jg_pack<float, 4> x5 = jg_kept<1024, float, 4>(h5, c);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v10 = (v7 * v3);
                    const float v20 = (v19 * v2);
                    const float v21 = (v10 + v20);
                    const float v22 = (v21 + v20);
                    const float v23 = (float)(-v22);
                    r24 = jg_sum<float>::of(r24, v23);
                }
            }
        }
        else {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> x6;
                if (full) {
                    x6 = jg_read<4>(p4 + e);
                }
                else {
                    x6 = jg_read_some<4>(p4 + e, m);
                }
                const jg_pack<float, 4> x0 = jg_kept<1024, float, 4>(h0, c);
                const jg_pack<float, 4> x5 = jg_kept<1024, float, 4>(h5, c);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v10 = (v7 * v3);
                    const float v20 = (v19 * v2);
                    const float v21 = (v10 + v20);
                    const float v22 = (v21 + v20);
                    const float v23 = (float)(-v22);
                    r24 = k < m ? jg_sum<float>::of(r24, v23) : r24;
                }
            }
        }
        r24 = jg_group<jg_sum<float>, 1>(r24, 1024);
        const float v24 = r24;
        const float v25 = (v24 / v18);
        if (whole) {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                jg_pack<float, 4> x6;
                x6 = jg_read<4>(p4 + e);
                const jg_pack<float, 4> x0 = jg_kept<1024, float, 4>(h0, c);
                const jg_pack<float, 4> x5 = jg_kept<1024, float, 4>(h5, c);
                jg_pack<float, 4> y27;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v10 = (v7 * v3);
                    const float v20 = (v19 * v2);
                    const float v21 = (v10 + v20);
                    const float v22 = (v21 + v20);
                    const float v26 = (v22 + v25);
                    y27.at[k] = v26;
                }
                jg_write<4>(q6 + e, y27);
            }
        }
        else {
            for (int c = 0, e = (0 * 1024 + (int)threadIdx.x) * 4; e < length; c++, e += 1024 * 4) {
                const bool full = aligned && e + 4 <= length;
                const int m = jg_rest<4>(length - e);
                jg_pack<float, 4> x6;
                if (full) {
                    x6 = jg_read<4>(p4 + e);
                }
                else {
                    x6 = jg_read_some<4>(p4 + e, m);
                }
                const jg_pack<float, 4> x0 = jg_kept<1024, float, 4>(h0, c);
                const jg_pack<float, 4> x5 = jg_kept<1024, float, 4>(h5, c);
                jg_pack<float, 4> y27;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v2 = (v0 - v1);
                    const float v5 = x5.at[k];
                    const float v6 = x6.at[k];
                    const float v7 = (v5 * v6);
                    const float v10 = (v7 * v3);
                    const float v20 = (v19 * v2);
                    const float v21 = (v10 + v20);
                    const float v22 = (v21 + v20);
                    const float v26 = (v22 + v25);
                    y27.at[k] = v26;
                }
                if (full) {
                    jg_write<4>(q6 + e, y27);
                }
                else {
                    jg_write_some<4>(q6 + e, y27, m);
                }
            }
        }
    }
    {
        #pragma unroll 1
        for (int c = 0; (c * 1024 + (int)threadIdx.x) * 4 < columns; c++) {
            const int e = (c * 1024 + (int)threadIdx.x) * 4;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                if (e + k < columns) p5[blockIdx.x * columns + e + k] = a9[(c * 4 + k) * 1024 + threadIdx.x];
            }
        }
    }
    for (i64 part = blockIdx.x + gridDim.x; part < 264; part += gridDim.x) {
        for (i64 j = threadIdx.x; j < columns; j += blockDim.x) p5[part * columns + j] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(512, 2)
jg_mix_sub_mul_mul_mul_sum_mul_more_0_sweeps(i64 n0, i64 n1, const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, const float* __restrict__ p3, const float* __restrict__ p4, float* __restrict__ p5, float* __restrict__ p6, i64 s0, i64 s1, i64 s2) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, in, at i0
    // p2: float32, in, at i0
    // p3: float32, in, at i0 * s1 + i1
    // p4: float32, in, at i1
    // p5: float32, out, at i1
    // p6: float32, out, at i0 * s2 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p3) && s1 % 4 == 0 && jg_aligned<4>(p4) && jg_aligned<4>(p6) && s2 % 4 == 0;
    const i64 rows = n0, columns = n1;
    float* const a9 = p5 + blockIdx.x * columns;
    for (i64 j = threadIdx.x; j < columns; j += 512) a9[j] = 0;
    __syncthreads();
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const i64 length = columns;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        const float* __restrict__ const q1 = p1 + i0;
        const float* __restrict__ const q2 = p2 + i0;
        const float* __restrict__ const q3 = p3 + i0 * s1;
        float* __restrict__ const q6 = p6 + i0 * s2;
        const float v1 = q1[0];
        const float v3 = q2[0];
        const float v13 = (-0.5f);
        const float v15 = (v3 * v3);
        const float v16 = (v15 * v3);
        const float v18 = 6.0f;
        float r12 = 0.0f;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0, x5, x6;
            if (full) {
                x0 = jg_read<4>(q0 + e);
                x5 = jg_read<4>(q3 + e);
                x6 = jg_read<4>(p4 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
                x5 = jg_read_some<4>(q3 + e, m);
                x6 = jg_read_some<4>(p4 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const i64 i1 = e + k;
                const float v0 = x0.at[k];
                const float v2 = (v0 - v1);
                const float v4 = (v2 * v3);
                const float v5 = x5.at[k];
                const float v6 = x6.at[k];
                const float v7 = (v5 * v6);
                const float v8 = (v5 * v4);
                if (k < m) a9[i1] += v8;
                const float v11 = (v7 * v2);
                r12 = k < m ? jg_sum<float>::of(r12, v11) : r12;
            }
        }
        r12 = jg_group<jg_sum<float>, 0>(r12, 512);
        const float v12 = r12;
        const float v14 = (v12 * v13);
        const float v17 = (v14 * v16);
        const float v19 = (v17 / v18);
        float r24 = 0.0f;
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0, x5, x6;
            if (full) {
                x0 = jg_read<4>(q0 + e);
                x5 = jg_read<4>(q3 + e);
                x6 = jg_read<4>(p4 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
                x5 = jg_read_some<4>(q3 + e, m);
                x6 = jg_read_some<4>(p4 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v2 = (v0 - v1);
                const float v5 = x5.at[k];
                const float v6 = x6.at[k];
                const float v7 = (v5 * v6);
                const float v10 = (v7 * v3);
                const float v20 = (v19 * v2);
                const float v21 = (v10 + v20);
                const float v22 = (v21 + v20);
                const float v23 = (float)(-v22);
                r24 = k < m ? jg_sum<float>::of(r24, v23) : r24;
            }
        }
        r24 = jg_group<jg_sum<float>, 1>(r24, 512);
        const float v24 = r24;
        const float v25 = (v24 / v18);
        for (i64 e = (i64)threadIdx.x * 4; e < length; e += 512 * 4) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0, x5, x6;
            if (full) {
                x0 = jg_read<4>(q0 + e);
                x5 = jg_read<4>(q3 + e);
                x6 = jg_read<4>(p4 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
                x5 = jg_read_some<4>(q3 + e, m);
                x6 = jg_read_some<4>(p4 + e, m);
            }
            jg_pack<float, 4> y27;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v2 = (v0 - v1);
                const float v5 = x5.at[k];
                const float v6 = x6.at[k];
                const float v7 = (v5 * v6);
                const float v10 = (v7 * v3);
                const float v20 = (v19 * v2);
                const float v21 = (v10 + v20);
                const float v22 = (v21 + v20);
                const float v26 = (v22 + v25);
                y27.at[k] = v26;
            }
            if (full) {
                jg_write<4>(q6 + e, y27);
            }
            else {
                jg_write_some<4>(q6 + e, y27, m);
            }
        }
    }
    for (i64 part = blockIdx.x + gridDim.x; part < 264; part += gridDim.x) {
        for (i64 j = threadIdx.x; j < columns; j += blockDim.x) p5[part * columns + j] = 0;
    }
}

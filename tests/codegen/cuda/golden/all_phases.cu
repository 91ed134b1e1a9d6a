// def all_phases(x):
//     return x / (x * x).sum()

extern "C" __global__ void __launch_bounds__(256, 3)
jg_all_mul_sum_div_0_group(i64 n0, const float* __restrict__ p0, float* __restrict__ p1, char* scratch) {
    // one results, each of n0 elements
    // p0: float32, in, at i0
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && jg_aligned<4>(p1);
    const i64 rows = 1, columns = n0;
    const bool whole = aligned && columns % 4 == 0;
    const int bits = jg_sharing<4>((int)jg_parts(columns, 4)), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        if (whole) {
            jg_held<float, 4> x0[4];
            float r2 = 0.0f;
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_hold(x0[c], jg_read<4>(p0 + e));
                }
            }
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v1 = (v0 * v0);
                        r2 = jg_sum<float>::of(r2, v1);
                    }
                }
            }
            r2 = jg_group<jg_sum<float>, -1>(r2, lanes);
            const float v2 = r2;
            const jg_divisor d3 = jg_divided_by(v2);
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const int e = (c * lanes + lane) * 4;
                if (e < length) {
                    jg_pack<float, 4> y4;
                    bool usual = true;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float v0 = jg_of(x0[c], k);
                        const float v3 = jg_quotient(v0, d3, usual);
                        y4.at[k] = v3;
                    }
                    if (!usual) {
                        #pragma unroll
                        for (int k = 0; k < 4; k++) {
                            const float v0 = jg_of(x0[c], k);
                            const float v3 = (v0 / v2);
                            y4.at[k] = v3;
                        }
                    }
                    jg_write<4>(p1 + e, y4);
                }
            }
        }
        else {
            float r2 = 0.0f;
            #pragma unroll 4
            for (int e = lane; e < length; e += lanes) {
                const i64 i0 = e;
                const float v0 = p0[i0];
                const float v1 = (v0 * v0);
                r2 = jg_sum<float>::of(r2, v1);
            }
            r2 = jg_group<jg_sum<float>, -1>(r2, lanes);
            const float v2 = r2;
            #pragma unroll 4
            for (int e = lane; e < length; e += lanes) {
                const i64 i0 = e;
                const float v0 = p0[i0];
                const float v3 = (v0 / v2);
                p1[i0] = v3;
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
        float r2 = 0.0f;
        r2 = jg_fresh(((jg_slot<float>*)(scratch + 4096)));
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

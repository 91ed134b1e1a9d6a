// def pw_strided(x, y):
//     return x.t() - y

extern "C" __global__ void __launch_bounds__(256)
jg_pw_sub_0(i64 n0, i64 n1, const float* p0, const float* p1, float* p2, i64 s0, i64 s1, i64 s2) {
    // n0 x n1 results
    // p0: float32, in, at i0 + i1 * s0
    // p1: float32, in, at i0 * s1 + i1
    // p2: float32, out, at i0 * s2 + i1
    if (n1 >= 16 && n0 >= 16) {
        __shared__ float tile0[64 * 65];
        const bool aligned = jg_aligned<4>(p1) && s1 % 4 == 0 && jg_aligned<4>(p2) && s2 % 4 == 0;
        const i64 wide = jg_parts(n1, 64), high = jg_parts(n0, 64);
        const i64 total = 1 * wide * high;
        for (i64 t = blockIdx.x; t < total; t += gridDim.x) {
            const i64 line = jg_over(t, wide), from_lane = (t - line * wide) * 64;
            const i64 row = jg_over(line, high), from_other = (line - row * high) * 64;
            __syncthreads();
            const int lanes = jg_rest<64>(n1 - from_lane);
            const int others = jg_rest<64>(n0 - from_other);
            {
                float got[16] = {};
                const int beside = threadIdx.x % 64, first = threadIdx.x / 64;
                const i64 i0 = from_other + beside, i1 = from_lane + first;
                const float* at = &p0[i0 + i1 * s0];
                #pragma unroll
                for (int j = 0; j < 16; j++, at += 4 * s0) {
                    if (beside < others && first + j * 4 < lanes) got[j] = *at;
                }
                #pragma unroll
                for (int j = 0; j < 16; j++) tile0[(first + j * 4) * 65 + beside] = got[j];
            }
            __syncthreads();
            #pragma unroll 2
            for (int v = threadIdx.x; v < 1024; v += 256) {
                const int beside = v / 16, along = v % 16 * 4;
                const i64 i0 = from_other + beside, e = from_lane + along;
                if (beside < others && along < lanes) {
                    const bool full = aligned && e + 4 <= n1;
                    const int m = jg_rest<4>(n1 - e);
                    jg_pack<float, 4> x1;
                    if (full) {
                        x1 = jg_read<4>(p1 + e + i0 * s1);
                    }
                    else {
                        x1 = jg_read_some<4>(p1 + e + i0 * s1, m);
                    }
                    jg_pack<float, 4> y3;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const i64 i1 = e + k;
                        const float v0 = tile0[(along + k) * 65 + beside];
                        const float v1 = x1.at[k];
                        const float v2 = (v0 - v1);
                        y3.at[k] = v2;
                    }
                    if (full) {
                        jg_write<4>(p2 + e + i0 * s2, y3);
                    }
                    else {
                        jg_write_some<4>(p2 + e + i0 * s2, y3, m);
                    }
                }
            }
        }
    }
    else {
        if (jg_aligned<4>(p1) && s1 % 4 == 0 && jg_aligned<4>(p2) && s2 % 4 == 0) {
            const i64 across = jg_parts(n1, 4);
            i64 rest = jg_thread(), pace = jg_threads(), above;
            above = jg_over(rest, across);
            i64 column = rest - above * across, by_column = 0;
            rest = above;
            i64 i0 = rest;
            if (pace < across * n0) {
                above = jg_over(pace, across);
                by_column = pace - above * across;
                pace = above;
            }
            else {
                pace = n0;
            }
            while (i0 < n0) {
                const i64 e = column * 4;
                const int m = jg_rest<4>(n1 - e);
                if (m == 4) {
                    jg_pack<float, 4> x1;
                    x1 = jg_read<4>(p1 + e + i0 * s1);
                    jg_pack<float, 4> y3;
                    #pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const i64 i1 = e + k;
                        const float v0 = p0[i0 + i1 * s0];
                        const float v1 = x1.at[k];
                        const float v2 = (v0 - v1);
                        y3.at[k] = v2;
                    }
                    jg_write<4>(p2 + e + i0 * s2, y3);
                }
                else {
                    const i64 first = e;
                    #pragma unroll 1
                    for (int k = 0; k < m; k++) {
                        const i64 e = first + k;
                        const i64 i1 = e;
                        const float v0 = p0[i0 + i1 * s0];
                        const float v1 = p1[i0 * s1 + i1];
                        const float v2 = (v0 - v1);
                        p2[i0 * s2 + i1] = v2;
                    }
                }
                column += by_column;
                const bool past_column = column >= across;
                if (past_column) column -= across;
                i0 += pace + past_column;
            }
        }
        else {
            const i64 across = n1;
            i64 rest = jg_thread(), pace = jg_threads(), above;
            above = jg_over(rest, across);
            i64 column = rest - above * across, by_column = 0;
            rest = above;
            i64 i0 = rest;
            if (pace < across * n0) {
                above = jg_over(pace, across);
                by_column = pace - above * across;
                pace = above;
            }
            else {
                pace = n0;
            }
            while (i0 < n0) {
                const i64 e = column;
                const i64 i1 = e;
                const float v0 = p0[i0 + i1 * s0];
                const float v1 = p1[i0 * s1 + i1];
                const float v2 = (v0 - v1);
                p2[i0 * s2 + i1] = v2;
                column += by_column;
                const bool past_column = column >= across;
                if (past_column) column -= across;
                i0 += pace + past_column;
            }
        }
    }
}

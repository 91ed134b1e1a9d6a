// def pw_vector(x, b, c):
//     return x * b + c

extern "C" __global__ void __launch_bounds__(256)
jg_pw_mul_add_0(i64 n0, i64 n1, const float* p0, const float* p1, const float* p2, float* p3, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, in, at i1
    // p2: float32, in, at i0
    // p3: float32, out, at i0 * s1 + i1
    if (jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && jg_aligned<4>(p3) && s1 % 4 == 0) {
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
                const float v3 = p2[i0];
                jg_pack<float, 4> x0, x1;
                x0 = jg_read<4>(p0 + e + i0 * s0);
                x1 = jg_read<4>(p1 + e);
                jg_pack<float, 4> y5;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v1 = x1.at[k];
                    const float v2 = (v0 * v1);
                    const float v4 = (v2 + v3);
                    y5.at[k] = v4;
                }
                jg_write<4>(p3 + e + i0 * s1, y5);
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i1 = e;
                    const float v0 = p0[i0 * s0 + i1];
                    const float v1 = p1[i1];
                    const float v2 = (v0 * v1);
                    const float v3 = p2[i0];
                    const float v4 = (v2 + v3);
                    p3[i0 * s1 + i1] = v4;
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
            const float v0 = p0[i0 * s0 + i1];
            const float v1 = p1[i1];
            const float v2 = (v0 * v1);
            const float v3 = p2[i0];
            const float v4 = (v2 + v3);
            p3[i0 * s1 + i1] = v4;
            column += by_column;
            const bool past_column = column >= across;
            if (past_column) column -= across;
            i0 += pace + past_column;
        }
    }
}

// def pw_gather(table, i):
//     return table[i] * 2

extern "C" __global__ void __launch_bounds__(256)
jg_pw_index_mul_0(i64 n0, i64 n1, const float* p0, const i64* p1, float* p2, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: float32, in, at i1
    // p1: int64, in, at i0
    // p2: float32, out, at i0 * s0 + i1
    if (jg_aligned<4>(p2) && s0 % 4 == 0) {
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
                const i64 v0 = p1[i0];
                const float v2 = 2.0f;
                const jg_pack<float, 4> x1 = jg_read_row<4>(p0 + e + v0 * s1, 4);
                jg_pack<float, 4> y4;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v1 = x1.at[k];
                    const float v3 = (v1 * v2);
                    y4.at[k] = v3;
                }
                jg_write<4>(p2 + e + i0 * s0, y4);
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i1 = e;
                    const i64 v0 = p1[i0];
                    const float v1 = p0[v0 * s1 + i1];
                    const float v2 = 2.0f;
                    const float v3 = (v1 * v2);
                    p2[i0 * s0 + i1] = v3;
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
            const i64 v0 = p1[i0];
            const float v1 = p0[v0 * s1 + i1];
            const float v2 = 2.0f;
            const float v3 = (v1 * v2);
            p2[i0 * s0 + i1] = v3;
            column += by_column;
            const bool past_column = column >= across;
            if (past_column) column -= across;
            i0 += pace + past_column;
        }
    }
}

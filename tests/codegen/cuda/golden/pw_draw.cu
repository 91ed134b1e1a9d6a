// def pw_draw(x):
//     return jitgrad.nn.functional.dropout(x, 0.1)

extern "C" __global__ void __launch_bounds__(256)
jg_pw_random_uniform_ge_where_mul_0(i64 n0, i64 n1, const float* p0, float* p1, i64 s0, i64 s1, i64 c0, i64 c1, i64 c2) {
    // n0 x n1 results
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    if (jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0) {
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
                jg_pack<float, 4> x13;
                x13 = jg_read<4>(p0 + e + i0 * s0);
                jg_pack<float, 4> y15;
                jg_run<4> w7;
                {
                    const i64 i1 = e;
                    const i64 v0 = i0;
                    const i64 v1 = c0;
                    const i64 v2 = (v0 * v1);
                    const i64 v3 = i1;
                    const i64 v4 = (v2 + v3);
                    const i64 v5 = c1;
                    const i64 v6 = c2;
                    w7 = jg_philox_run<4>(v4, v5, v6);
                }
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const i64 i1 = e + k;
                    const i64 v0 = i0;
                    const i64 v1 = c0;
                    const i64 v2 = (v0 * v1);
                    const i64 v3 = i1;
                    const i64 v4 = (v2 + v3);
                    const i64 v5 = c1;
                    const i64 v6 = c2;
                    const i64 v7 = (i64)w7.at[k];
                    const i64 v8 = 429496832LL;
                    const bool v9 = (v7 >= v8);
                    const float v10 = 1.1111112f;
                    const float v11 = 0.0f;
                    const float v12 = (v9 ? v10 : v11);
                    const float v13 = x13.at[k];
                    const float v14 = (v13 * v12);
                    y15.at[k] = v14;
                }
                jg_write<4>(p1 + e + i0 * s1, y15);
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i1 = e;
                    const i64 v0 = i0;
                    const i64 v1 = c0;
                    const i64 v2 = (v0 * v1);
                    const i64 v3 = i1;
                    const i64 v4 = (v2 + v3);
                    const i64 v5 = c1;
                    const i64 v6 = c2;
                    const i64 v7 = jg_philox(v4, v5, v6);
                    const i64 v8 = 429496832LL;
                    const bool v9 = (v7 >= v8);
                    const float v10 = 1.1111112f;
                    const float v11 = 0.0f;
                    const float v12 = (v9 ? v10 : v11);
                    const float v13 = p0[i0 * s0 + i1];
                    const float v14 = (v13 * v12);
                    p1[i0 * s1 + i1] = v14;
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
            const i64 v0 = i0;
            const i64 v1 = c0;
            const i64 v2 = (v0 * v1);
            const i64 v3 = i1;
            const i64 v4 = (v2 + v3);
            const i64 v5 = c1;
            const i64 v6 = c2;
            const i64 v7 = jg_philox(v4, v5, v6);
            const i64 v8 = 429496832LL;
            const bool v9 = (v7 >= v8);
            const float v10 = 1.1111112f;
            const float v11 = 0.0f;
            const float v12 = (v9 ? v10 : v11);
            const float v13 = p0[i0 * s0 + i1];
            const float v14 = (v13 * v12);
            p1[i0 * s1 + i1] = v14;
            column += by_column;
            const bool past_column = column >= across;
            if (past_column) column -= across;
            i0 += pace + past_column;
        }
    }
}

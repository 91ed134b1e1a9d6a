// def pw_half(x, b):
//     return (x + b).sigmoid()

extern "C" __global__ void __launch_bounds__(256)
jg_pw_add_cast_neg_exp_add_div_more_0(i64 n0, i64 n1, const jg_bfloat* p0, const jg_bfloat* p1, jg_bfloat* p2, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: bfloat16, in, at i0 * s0 + i1
    // p1: bfloat16, in, at i1
    // p2: bfloat16, out, at i0 * s1 + i1
    if (jg_aligned<8>(p0) && s0 % 8 == 0 && jg_aligned<8>(p1) && jg_aligned<8>(p2) && s1 % 8 == 0) {
        const i64 across = jg_parts(n1, 8);
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
            const i64 e = column * 8;
            const int m = jg_rest<8>(n1 - e);
            if (m == 8) {
                jg_pack<jg_bfloat, 8> x0, x1;
                x0 = jg_read<8>(p0 + e + i0 * s0);
                x1 = jg_read<8>(p1 + e);
                const jg_pack<float, 8> f0 = jg_widened(x0);
                const jg_pack<float, 8> f1 = jg_widened(x1);
                jg_pack<float, 8> y11;
                #pragma unroll
                for (int k = 0; k < 8; k++) {
                    const float v0 = f0.at[k];
                    const float v1 = f1.at[k];
                    const float v2 = (float)(v0 + v1);
                    const float v3 = jg_round_bfloat((float)(v2));
                    const float v4 = (float)(v3);
                    const float v5 = (float)(-v4);
                    const float v6 = expf(v5);
                    const float v7 = 1.0f;
                    const float v8 = (v7 + v6);
                    const float v9 = (v7 / v8);
                    const float v10 = jg_round_bfloat((float)(v9));
                    y11.at[k] = v9;
                }
                jg_write<8>(p2 + e + i0 * s1, jg_narrowed<jg_bfloat>(y11));
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i1 = e;
                    const float v0 = jg_widen(p0[i0 * s0 + i1]);
                    const float v1 = jg_widen(p1[i1]);
                    const float v2 = (float)(v0 + v1);
                    const float v3 = jg_round_bfloat((float)(v2));
                    const float v4 = (float)(v3);
                    const float v5 = (float)(-v4);
                    const float v6 = expf(v5);
                    const float v7 = 1.0f;
                    const float v8 = (v7 + v6);
                    const float v9 = (v7 / v8);
                    const float v10 = jg_round_bfloat((float)(v9));
                    p2[i0 * s1 + i1] = jg_narrow_bfloat(v9);
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
            const float v0 = jg_widen(p0[i0 * s0 + i1]);
            const float v1 = jg_widen(p1[i1]);
            const float v2 = (float)(v0 + v1);
            const float v3 = jg_round_bfloat((float)(v2));
            const float v4 = (float)(v3);
            const float v5 = (float)(-v4);
            const float v6 = expf(v5);
            const float v7 = 1.0f;
            const float v8 = (v7 + v6);
            const float v9 = (v7 / v8);
            const float v10 = jg_round_bfloat((float)(v9));
            p2[i0 * s1 + i1] = jg_narrow_bfloat(v9);
            column += by_column;
            const bool past_column = column >= across;
            if (past_column) column -= across;
            i0 += pace + past_column;
        }
    }
}

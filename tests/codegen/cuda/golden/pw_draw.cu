// def pw_draw(x):
//     return jitgrad.nn.functional.dropout(x, 0.1)

extern "C" __global__ void __launch_bounds__(256)
jg_pw_random_uniform_ge_where_mul_0(i64 n0, i64 n1, const float* p0, float* p1, i64 s0, i64 s1, i64 c0, i64 c1, i64 c2) {
    // n0 x n1 results
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && s1 % 4 == 0;
    const i64 across = jg_parts(n1, 4), total = n0 * across;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 row = jg_over(t, across), e = (t - row * across) * 4;
        const i64 i0 = row;
        const bool full = aligned && e + 4 <= n1;
        const int m = jg_rest<4>(n1 - e);
        jg_pack<float, 4> x19;
        if (full) {
            x19 = jg_read<4>(p0 + e + i0 * s0);
        }
        else {
            x19 = jg_read_some<4>(p0 + e + i0 * s0, m);
        }
        jg_pack<float, 4> y21;
        jg_words w7;
        w7.known = false;
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
            const i64 v7 = jg_philox(w7, v4, v5, v6);
            const i64 v8 = 8LL;
            const i64 v9 = jg_shr(v7, v8);
            const int v10 = (int)(v9);
            const float v11 = (float)(v10);
            const float v12 = 5.9604645e-08f;
            const float v13 = (v11 * v12);
            const float v14 = 0.1f;
            const bool v15 = (v13 >= v14);
            const float v16 = 1.1111112f;
            const float v17 = 0.0f;
            const float v18 = (v15 ? v16 : v17);
            const float v19 = x19.at[k];
            const float v20 = (v19 * v18);
            y21.at[k] = v20;
        }
        if (full) {
            jg_write<4>(p1 + e + i0 * s1, y21);
        }
        else {
            jg_write_some<4>(p1 + e + i0 * s1, y21, m);
        }
    }
}

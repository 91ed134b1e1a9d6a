// def pw_half(x, b):
//     return (x + b).sigmoid()

extern "C" __global__ void __launch_bounds__(256)
jg_pw_add_cast_neg_exp_add_div_more_0(i64 n0, i64 n1, const jg_bfloat* p0, const jg_bfloat* p1, jg_bfloat* p2, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: bfloat16, in, at i0 * s0 + i1
    // p1: bfloat16, in, at i1
    // p2: bfloat16, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<8>(p0) && s0 % 8 == 0 && jg_aligned<8>(p1) && jg_aligned<8>(p2) && s1 % 8 == 0;
    const i64 across = jg_parts(n1, 8), total = n0 * across;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 row = jg_over(t, across), e = (t - row * across) * 8;
        const i64 i0 = row;
        const bool full = aligned && e + 8 <= n1;
        const int m = jg_rest<8>(n1 - e);
        jg_pack<jg_bfloat, 8> x0, x1;
        if (full) {
            x0 = jg_read<8>(p0 + e + i0 * s0);
            x1 = jg_read<8>(p1 + e);
        }
        else {
            x0 = jg_read_some<8>(p0 + e + i0 * s0, m);
            x1 = jg_read_some<8>(p1 + e, m);
        }
        jg_pack<float, 8> y11;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const float v0 = jg_widen(x0.at[k]);
            const float v1 = jg_widen(x1.at[k]);
            const float v2 = (float)(v0 + v1);
            const float v3 = jg_widen(jg_narrow_bfloat((float)(v2)));
            const float v4 = (float)(v3);
            const float v5 = (float)(-v4);
            const float v6 = expf(v5);
            const float v7 = 1.0f;
            const float v8 = (v7 + v6);
            const float v9 = (v7 / v8);
            const float v10 = jg_widen(jg_narrow_bfloat((float)(v9)));
            y11.at[k] = v9;
        }
        if (full) {
            jg_write<8>(p2 + e + i0 * s1, jg_narrowed<jg_bfloat>(y11));
        }
        else {
            jg_write_some<8>(p2 + e + i0 * s1, jg_narrowed<jg_bfloat>(y11), m);
        }
    }
}

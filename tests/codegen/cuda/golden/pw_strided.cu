// def pw_strided(x, y):
//     return x.t() - y

extern "C" __global__ void __launch_bounds__(256)
jg_pw_sub_0(i64 n0, i64 n1, const float* p0, const float* p1, float* p2, i64 s0, i64 s1, i64 s2) {
    // n0 x n1 results
    // p0: float32, in, at i0 + i1 * s0
    // p1: float32, in, at i0 * s1 + i1
    // p2: float32, out, at i0 * s2 + i1
    const bool aligned = jg_aligned<4>(p1) && s1 % 4 == 0 && jg_aligned<4>(p2) && s2 % 4 == 0;
    const i64 across = jg_parts(n1, 4), total = n0 * across;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 row = jg_over(t, across), e = (t - row * across) * 4;
        const i64 i0 = row;
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
            const float v0 = k < m ? p0[i0 + i1 * s0] : 0.0f;
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

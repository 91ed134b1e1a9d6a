// def pw_vector(x, b, c):
//     return x * b + c

extern "C" __global__ void __launch_bounds__(256)
jg_pw_mul_add_0(i64 n0, i64 n1, const float* p0, const float* p1, const float* p2, float* p3, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, in, at i1
    // p2: float32, in, at i0
    // p3: float32, out, at i0 * s1 + i1
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0 && jg_aligned<4>(p1) && jg_aligned<4>(p3) && s1 % 4 == 0;
    const i64 across = jg_parts(n1, 4), total = n0 * across;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 row = jg_over(t, across), e = (t - row * across) * 4;
        const i64 i0 = row;
        const float v3 = p2[i0];
        const bool full = aligned && e + 4 <= n1;
        const int m = jg_rest<4>(n1 - e);
        jg_pack<float, 4> x0, x1;
        if (full) {
            x0 = jg_read<4>(p0 + e + i0 * s0);
            x1 = jg_read<4>(p1 + e);
        }
        else {
            x0 = jg_read_some<4>(p0 + e + i0 * s0, m);
            x1 = jg_read_some<4>(p1 + e, m);
        }
        jg_pack<float, 4> y5;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const float v0 = x0.at[k];
            const float v1 = x1.at[k];
            const float v2 = (v0 * v1);
            const float v4 = (v2 + v3);
            y5.at[k] = v4;
        }
        if (full) {
            jg_write<4>(p3 + e + i0 * s1, y5);
        }
        else {
            jg_write_some<4>(p3 + e + i0 * s1, y5, m);
        }
    }
}

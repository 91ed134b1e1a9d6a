// def pw_gather(table, i):
//     return table[i] * 2

extern "C" __global__ void __launch_bounds__(256)
jg_pw_index_mul_0(i64 n0, i64 n1, const float* p0, const i64* p1, float* p2, i64 s0, i64 s1) {
    // n0 x n1 results
    // p0: float32, in, at i1
    // p1: int64, in, at i0
    // p2: float32, out, at i0 * s0 + i1
    const bool aligned = jg_aligned<4>(p2) && s0 % 4 == 0;
    const i64 across = jg_parts(n1, 4), total = n0 * across;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 row = jg_over(t, across), e = (t - row * across) * 4;
        const i64 i0 = row;
        const i64 v0 = p1[i0];
        const float v2 = 2.0f;
        const bool full = aligned && e + 4 <= n1;
        const int m = jg_rest<4>(n1 - e);
        const jg_pack<float, 4> x1 = jg_read_row<4>(p0 + e + v0 * s1, m);
        jg_pack<float, 4> y4;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const float v1 = x1.at[k];
            const float v3 = (v1 * v2);
            y4.at[k] = v3;
        }
        if (full) {
            jg_write<4>(p2 + e + i0 * s0, y4);
        }
        else {
            jg_write_some<4>(p2 + e + i0 * s0, y4, m);
        }
    }
}

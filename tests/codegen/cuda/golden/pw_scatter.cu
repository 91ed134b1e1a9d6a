// def pw_scatter(x, i, y):
//     return x.index_add(0, i, y)

extern "C" __global__ void __launch_bounds__(256)
jg_pw_index_put_0(i64 n0, const float* p0, const i64* p1, float* p2) {
    // n0 results
    // p0: float32, in, at i0
    // p1: int64, in, at i0
    // p2: float32, inout, at 0
    if (jg_aligned<4>(p0) && jg_aligned<4>(p1)) {
        const i64 total = jg_parts(n0, 4);
        for (i64 t = jg_thread(); t < total; t += jg_threads()) {
            const i64 e = t * 4;
            const int m = jg_rest<4>(n0 - e);
            if (m == 4) {
                jg_pack<float, 4> x0;
                jg_pack<i64, 4> x1;
                x0 = jg_read<4>(p0 + e);
                x1 = jg_read<4>(p1 + e);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const i64 v1 = x1.at[k];
                    jg_add(&p2[v1], v0);
                }
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i0 = e;
                    const float v0 = p0[i0];
                    const i64 v1 = p1[i0];
                    jg_add(&p2[v1], v0);
                }
            }
        }
    }
    else {
        const i64 total = n0;
        for (i64 t = jg_thread(); t < total; t += jg_threads()) {
            const i64 e = t;
            const i64 i0 = e;
            const float v0 = p0[i0];
            const i64 v1 = p1[i0];
            jg_add(&p2[v1], v0);
        }
    }
}

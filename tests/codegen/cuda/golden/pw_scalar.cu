// def pw_scalar(x, y):
//     y[:, 1] = x[:, 2]

extern "C" __global__ void __launch_bounds__(256)
jg_pw_copy_0(i64 n0, const float* p0, float* p1, i64 s0, i64 s1) {
    // n0 results
    // p0: float32, in, at i0 * s0
    // p1: float32, out, at i0 * s1
    const i64 total = n0;
    for (i64 t = jg_thread(); t < total; t += jg_threads()) {
        const i64 e = t;
        const i64 i0 = e;
        const float v0 = p0[i0 * s0];
        p1[i0 * s1] = v0;
    }
}

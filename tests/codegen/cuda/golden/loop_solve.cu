// def loop_solve(x, a):
//     while (a @ x).abs().max() > 1.0:
//         x = x * 0.5
//     return x

extern "C" __global__ void __launch_bounds__(256, 1)
jg_loop_abs_amax_gt_0(const __grid_constant__ jg_table<13> table, char* scratch) {
    u32* const arrived = (u32*)scratch + 1023;
    bool T0 = 0, V21 = 0;
    i64 B15 = 0, B16 = 0, B17 = 0, V18 = 0, V19 = 0, V20 = 0;
    const i64 V0 = table.w[0];
    const i64 V1 = table.w[1];
    const i64 N2 = table.w[2];
    const i64 N3 = table.w[3];
    const i64 B4 = table.w[4];
    const i64 B5 = table.w[5];
    const i64 B6 = table.w[6];
    const i64 B7 = table.w[7];
    const i64 B8 = table.w[8];
    const i64 B9 = table.w[9];
    const i64 B10 = table.w[10];
    const u32* const stop = jg_global<const u32>(table.w[12]);
    bool seen = false;
    u32 turn = 0;
    const bool V11 = jg_seen(jg_global<bool>(B4));
    const bool V12 = V11;
    const i64 V13 = 5LL;
    const i64 V14 = 0LL;
    {
        const i64 to0 = B5;
        const i64 to1 = B6;
        B15 = to0;
        B16 = to1;
    }
    B17 = B7;
    {
        const i64 to0 = V14;
        const i64 to1 = V13;
        const i64 to2 = V0;
        const bool to3 = V12;
        V18 = to0;
        V19 = to1;
        V20 = to2;
        V21 = to3;
    }
    while (V21) {
        {
            // mul
            const i64 n0 = N2;
            const float* const p0 = jg_global<const float>(B17);
            float* const p1 = jg_global<float>(B15);
            // n0 results
            // p0: float32, in, at i0
            // p1: float32, out, at i0
            if (jg_aligned<4>(p0) && jg_aligned<4>(p1)) {
                const i64 total = jg_parts(n0, 4);
                for (i64 t = jg_thread(); t < total; t += jg_threads()) {
                    const i64 e = t * 4;
                    const int m = jg_rest<4>(n0 - e);
                    if (m == 4) {
                        jg_pack<float, 4> x0;
                        x0 = jg_read<4>(p0 + e);
                        jg_pack<float, 4> y3;
                        #pragma unroll
                        for (int k = 0; k < 4; k++) {
                            const float v0 = x0.at[k];
                            const float v1 = 0.5f;
                            const float v2 = (v0 * v1);
                            y3.at[k] = v2;
                        }
                        jg_write<4>(p1 + e, y3);
                    }
                    else {
                        const i64 first = e;
                        #pragma unroll 1
                        for (int k = 0; k < m; k++) {
                            const i64 e = first + k;
                            const i64 i0 = e;
                            const float v0 = p0[i0];
                            const float v1 = 0.5f;
                            const float v2 = (v0 * v1);
                            p1[i0] = v2;
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
                    const float v1 = 0.5f;
                    const float v2 = (v0 * v1);
                    p1[i0] = v2;
                }
            }
        }
        const i64 V22 = (V19 + V1);
        if (jg_meet_or_stop(arrived, stop, seen)) return;
        {
            jg_product<float, float, false, false, false, 0, 256>(jg_global<float>(B8), jg_global<float>(B15), jg_global<float>(B9), nullptr, N3, 1, N2, N2, 1, 1);
        }
        const i64 V23 = (V22 + V1);
        const i64 V24 = (V23 + V1);
        const i64 V25 = (V24 + V1);
        const i64 V26 = (V25 + V1);
        if (jg_meet_or_stop(arrived, stop, seen)) return;
        {
            // abs_amax_gt
            const i64 outer = 1, inner = (i64)(N3);
            const jg_place at = {0, blockIdx.x}, of = {1, gridDim.x};
            {
                const jg_place blockIdx = at, gridDim = of;
                const i64 n0 = N3;
                const float* const p0 = jg_global<const float>(B9);
                bool* const p1 = jg_global<bool>(B10);
                // one results, each of n0 elements
                // p0: float32, in, at i0
                // p1: bool, out, at 0
                const bool aligned = jg_aligned<4>(p0);
                const i64 rows = 1, columns = n0;
                for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
                    const i64 length = columns;
                    const float v3 = 1.0f;
                    float r2 = (-(float)JG_INF);
                    for (i64 e = ((i64)blockIdx.y * 256 + threadIdx.x) * 4; e < length; e += (i64)gridDim.y * 1024) {
                        const bool full = aligned && e + 4 <= length;
                        const int m = jg_rest<4>(length - e);
                        jg_pack<float, 4> x0;
                        if (full) {
                            x0 = jg_read<4>(p0 + e);
                        }
                        else {
                            x0 = jg_read_some<4>(p0 + e, m);
                        }
                        #pragma unroll
                        for (int k = 0; k < 4; k++) {
                            const float v0 = x0.at[k];
                            const float v1 = fabsf(v0);
                            r2 = k < m ? jg_maximum<float>::of(r2, v1) : r2;
                        }
                    }
                    r2 = jg_block<jg_maximum<float>>(r2);
                    jg_slot<float>* const parts2 = (jg_slot<float>*)(scratch + 8352 + turn * 4224);
                    turn ^= 1;
                    if (threadIdx.x == 0) {
                        parts2[blockIdx.y].value = r2;
                    }
                    if (jg_meet_or_stop(arrived, stop, seen)) return;
                    r2 = (-(float)JG_INF);
                    for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x) {
                        r2 = jg_maximum<float>::of(r2, jg_fresh(parts2 + b));
                    }
                    r2 = jg_block<jg_maximum<float>>(r2);
                    const float v2 = r2;
                    const bool v4 = (v2 > v3);
                    if (threadIdx.x == 0 && blockIdx.y == 0) {
                        p1[0] = v4;
                    }
                    T0 = v4;
                }
            }
        }
        const i64 V27 = (V26 + V1);
        const bool V28 = T0;
        const bool V29 = V28;
        const i64 V30 = (-2LL);
        const i64 V31 = (V30 - V19);
        const i64 V32 = 1LL;
        const i64 V33 = (V18 + V32);
        {
            const i64 to0 = B15;
            const i64 to1 = B16;
            const i64 to2 = B15;
            B17 = to0;
            B15 = to1;
            B16 = to2;
        }
        {
            const i64 to0 = V27;
            const i64 to1 = V31;
            const i64 to2 = V33;
            const bool to3 = V29;
            V19 = to0;
            V20 = to1;
            V18 = to2;
            V21 = to3;
        }
    }
    if (jg_thread() == 0) {
        i64* const told = jg_global<i64>(table.w[11]);
        told[0] = jg_bits(B17);
        told[1] = jg_bits(V18);
        told[2] = jg_bits(V19);
        told[3] = jg_bits(V20);
    }
}

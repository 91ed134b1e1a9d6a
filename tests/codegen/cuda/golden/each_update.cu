// p -= rate * g, for as many tensors as the table has

extern "C" __global__ void __launch_bounds__(256)
jg_each_update(const __grid_constant__ jg_table<64> table, i64 tensors, i64 chunks, float c0) {
    // an entry: first chunk, size, p0, p1
    for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const i64* const entry = jg_entry(table.w, tensors, 4, chunk);
        const i64 n0 = entry[1], begin = (chunk - entry[0]) * 4096;
        const i64 end = n0 - begin < 4096 ? n0 : begin + 4096;
        float* const p0 = jg_global<float>(entry[2]);
        const float* const p1 = jg_global<const float>(entry[3]);
        const bool aligned = jg_aligned<4>(p0) && jg_aligned<4>(p1);
        for (i64 e = begin + (i64)threadIdx.x * 4; e < end; e += 1024) {
            const bool full = aligned && e + 4 <= end;
            const int m = jg_rest<4>(end - e);
            jg_pack<float, 4> x0, x1;
            if (full) {
                x0 = jg_read<4>(p0 + e);
                x1 = jg_read<4>(p1 + e);
            }
            else {
                x0 = jg_read_some<4>(p0 + e, m);
                x1 = jg_read_some<4>(p1 + e, m);
            }
            jg_pack<float, 4> y5;
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                const float v1 = x1.at[k];
                const float v2 = c0;
                const float v3 = (v1 * v2);
                const float v4 = (v0 - v3);
                y5.at[k] = v4;
            }
            if (full) {
                jg_write<4>(p0 + e, y5);
            }
            else {
                jg_write_some<4>(p0 + e, y5, m);
            }
        }
    }
}

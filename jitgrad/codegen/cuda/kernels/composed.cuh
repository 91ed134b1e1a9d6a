// What follows a product, as kernels of its own: see composed.py. T is what memory holds; all is computed in float.
// `what` is the number of cuBLASLt's epilogue: 2 ReLU, 4 bias, 8 ReLU's slope, 32 GELU, 64 its slope, 128 with memory.

JG_DEVICE float jg_get(const float* p) { return *p; }
JG_DEVICE float jg_get(const jg_half* p) { return jg_widen(*p); }
JG_DEVICE float jg_get(const jg_bfloat* p) { return jg_widen(*p); }
JG_DEVICE void jg_set(float* p, float x) { *p = x; }
JG_DEVICE void jg_set(jg_half* p, float x) { *p = jg_narrow(x); }
JG_DEVICE void jg_set(jg_bfloat* p, float x) { *p = jg_narrow_bfloat(x); }
template <class T> JG_DEVICE float jg_rounded(float x) {
    T kept;
    jg_set(&kept, x);
    return jg_get(&kept);
}

JG_DEVICE float jg_gelu_tanh(float x) {
    return x * 0.5f * (tanhf((x + x * x * x * 0.044715f) * 0.7978845608028654f) + 1.0f);
}
JG_DEVICE float jg_gelu_slope(float x) {
    float t = tanhf((x + x * x * x * 0.044715f) * 0.7978845608028654f);
    float slope = (x * x * 0.134145f + 1.0f) * 0.7978845608028654f;
    return (t + 1.0f) * 0.5f + x * 0.5f * (1.0f - t * t) * slope;
}

// a thread has the eight elements of a byte of the mask
template <class T> JG_DEVICE void jg_finish(T* c, i64 m, i64 n, i64 stride, i64 batch, i64 batch_stride, const T* bias,
                                            unsigned char* aux, i64 aux_stride, int what) {
    i64 parts = jg_parts(n, 8), all = batch * m * parts;
    for (i64 t = jg_thread(); t < all; t += jg_threads()) {
        i64 line = jg_over(t, parts), part = t - line * parts, image = jg_over(line, m), row = line - image * m;
        T* p = c + image * batch_stride + row * stride + part * 8;
        unsigned char* mask = aux + row * (aux_stride / 8) + part;
        T* before = (T*)aux + row * aux_stride + part * 8;
        int bits = what & 8 ? *mask : 0, count = jg_rest<8>(n - part * 8);
        for (int k = 0; k < count; k++) {
            float x = jg_get(p + k);
            if (what & 4) x = jg_rounded<T>(x + jg_get(bias + part * 8 + k));
            if (what & 2) {
                bits |= (int)!(x <= 0.0f) << k;
                x = jg_max(x, 0.0f);
            } else if (what & 8) {
                x = bits >> k & 1 ? x : 0.0f;
            } else if (what & 32) {
                if (what & 128) jg_set(before + k, x);
                x = jg_gelu_tanh(x);
            } else if (what & 64) {
                x *= jg_gelu_slope(jg_get(before + k));
            }
            jg_set(p + k, x);
        }
        if ((what & 130) == 130) *mask = (unsigned char)bits;
    }
}

// out[j] = the sum over i of x[i, j], for `count` j: a lane has a column
template <class T> JG_DEVICE void jg_across(const T* x, i64 rows, i64 count, i64 stride, T* out) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (i64 first = (i64)blockIdx.x * 32; first < count; first += (i64)gridDim.x * 32) {
        float total = 0.0f;
        if (first + lane < count)
            for (i64 i = warp; i < rows; i += warps) total += jg_get(x + i * stride + first + lane);
        total = jg_columns<jg_sum<float>>(total);
        if (warp == 0 && first + lane < count) jg_set(out + first + lane, total);
    }
}

// out[i] = the sum over j of x[i, j], for `count` i: a warp has a row
template <class T> JG_DEVICE void jg_along(const T* x, i64 columns, i64 count, i64 stride, T* out) {
    int lane = threadIdx.x & 31;
    for (i64 i = jg_thread() >> 5; i < count; i += jg_threads() >> 5) {
        float total = 0.0f;
        for (i64 j = lane; j < columns; j += 32) total += jg_get(x + i * stride + j);
        total = jg_warp<jg_sum<float>>(total, 32);
        if (lane == 0) jg_set(out + i, total);
    }
}

// What every generated kernel may use: integers, half precision, block reductions, integer and float helpers, Philox.
// Compiles as CUDA C++ and, with a header that stands in for the CUDA built-ins, as host C++ (tests).
#pragma once

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#define JG_INF (__int_as_float(0x7f800000))
#define JG_NAN (__int_as_float(0x7fc00000))
#define JG_DEVICE static __device__ __forceinline__
#ifndef JG_HOST
#define JG_EXPECT(condition)  // checked where tests run kernels on the host
#endif

// --- float16, bfloat16: kept as bits in memory, computed in float ---------------------------------------------------

struct jg_half { unsigned short bits; };
struct jg_bfloat { unsigned short bits; };

JG_DEVICE float jg_widen(jg_bfloat h) { return __int_as_float((int)((u32)h.bits << 16)); }
JG_DEVICE jg_bfloat jg_narrow_bfloat(float f) {  // to nearest even; a NaN is a quiet one
    jg_bfloat h;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
#else
    u32 bits = (u32)__float_as_int(f);
    h.bits = f != f ? (unsigned short)0x7fc0 : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
    return h;
}
// rounded, as a float again: one packed conversion leaves the 16 bits where they are wanted, and is fast; the one of a
// single number is not
JG_DEVICE float jg_round_bfloat(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(f), "f"(0.0f));
    return __int_as_float((int)bits);
#else
    return jg_widen(jg_narrow_bfloat(f));
#endif
}

#ifndef JG_HOST
JG_DEVICE float jg_widen(jg_half h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits)); return f; }
JG_DEVICE jg_half jg_narrow(float f) { jg_half h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f)); return h; }
#endif

JG_DEVICE void jg_narrow_to(jg_half& h, float f) { h = jg_narrow(f); }
JG_DEVICE void jg_narrow_to(jg_bfloat& h, float f) { h = jg_narrow_bfloat(f); }

// float64 as float32 such that rounding it further, to float16, gives what one rounding would
JG_DEVICE float jg_to_odd(double x) {
    float r = (float)x;
    if ((double)r == x || x != x) return r;
    int bits = __float_as_int(r);
    if (fabs((double)r) > fabs(x)) bits -= 1;
    return __int_as_float(bits | 1);
}

// --- where a thread is ----------------------------------------------------------------------------------------------

JG_DEVICE i64 jg_thread() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
JG_DEVICE i64 jg_threads() { return (i64)gridDim.x * blockDim.x; }

// t / n for sizes: in 32 bits where both fit
JG_DEVICE i64 jg_over(i64 t, i64 n) { return (((u64)t | (u64)n) >> 32) == 0 ? (i64)((u32)t / (u32)n) : t / n; }
JG_DEVICE i64 jg_parts(i64 n, int of) { return (n + of - 1) / of; }  // n / of, rounded up
template <int E> JG_DEVICE int jg_rest(i64 left) { return left < E ? (int)left : E; }
template <int E> JG_DEVICE int jg_rest(int left) { return left < E ? left : E; }
// as good as x where it is compared with a number from 0 to (1 << 30) - 1
JG_DEVICE int jg_short(i64 x) { return (int)(x > 1 << 30 ? 1 << 30 : x < -(1 << 30) ? -(1 << 30) : x); }

// lanes that share a row of `parts` vectors: a power of two, at most a warp
JG_DEVICE int jg_lanes(i64 parts) {
    int lanes = 1;
    while (lanes < 32 && lanes < parts) lanes *= 2;
    return lanes;
}
// the logarithm of how many threads share a row of `parts` vectors, of which each takes up to CHUNKS: a warp at least
// where there are that many vectors
JG_DEVICE int jg_bits(int n) { return n > 1 ? 32 - __clz(n - 1) : 0; }
template <int CHUNKS> JG_DEVICE int jg_sharing(int parts) {
    int few = jg_bits(parts), many = jg_bits((parts + CHUNKS - 1) / CHUNKS);
    return many > 5 ? many : few < 5 ? few : 5;
}

// --- E elements at once: accesses of up to 16 bytes -------------------------------------------------------------------

template <int BYTES> struct jg_word { typedef uint4 type; };  // what moves in one access
template <> struct jg_word<8> { typedef uint2 type; };
template <> struct jg_word<4> { typedef u32 type; };
template <> struct jg_word<2> { typedef unsigned short type; };
template <> struct jg_word<1> { typedef unsigned char type; };
template <class T, int E> struct alignas(sizeof(T) * E < 16 ? sizeof(T) * E : 16) jg_pack { T at[E]; };

template <int E, class T> JG_DEVICE bool jg_aligned(const T* p) { return (u64)p % alignof(jg_pack<T, E>) == 0; }
template <int E, class T> JG_DEVICE jg_pack<T, E> jg_read(const T* p) {
    typedef typename jg_word<(int)alignof(jg_pack<T, E>)>::type W;
    union { W words[sizeof(T) * E / sizeof(W)]; jg_pack<T, E> x; } u;
    JG_EXPECT(jg_aligned<E>(p));
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(T) * E / sizeof(W)); i++) u.words[i] = ((const W*)p)[i];
    return u.x;
}
#ifndef JG_HOST
// in assembler, so that the compiler does not join a part of it with what happens to the last elements of a row
JG_DEVICE void jg_put(uint4* p, uint4 w) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(p), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w) : "memory");
}
JG_DEVICE void jg_put(uint2* p, uint2 w) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" :: "l"(p), "r"(w.x), "r"(w.y) : "memory");
}
#endif
template <class W> JG_DEVICE void jg_put(W* p, W w) { *p = w; }
template <int E, class T> JG_DEVICE void jg_write(T* p, const jg_pack<T, E>& y) {
    typedef typename jg_word<(int)alignof(jg_pack<T, E>)>::type W;
    union { W words[sizeof(T) * E / sizeof(W)]; jg_pack<T, E> y; } u;
    u.y = y;
    JG_EXPECT(jg_aligned<E>(p));
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(T) * E / sizeof(W)); i++) jg_put((W*)p + i, u.words[i]);
}
// the same, but as words: the compiler would give each narrow element a register
template <class T, int E> JG_DEVICE jg_pack<T, E> jg_together(const jg_pack<T, E>& x) {
#ifndef JG_HOST
    if (sizeof(T) < 4 && sizeof(T) * E % 4 == 0) {
        union { u32 words[(sizeof(T) * E + 3) / 4]; jg_pack<T, E> x; } u;
        u.x = x;
        #pragma unroll
        for (int i = 0; i < (int)(sizeof(T) * E / 4); i++) asm("" : "+r"(u.words[i]));
        return u.x;
    }
#endif
    return x;
}
template <int E, class T> JG_DEVICE jg_pack<T, E> jg_read_some(const T* p, i64 count) {  // the others: zero
    jg_pack<T, E> x;
    #pragma unroll
    for (int k = 0; k < E; k++) x.at[k] = k < count ? p[k] : T();
    return jg_together(x);
}
template <int E, class T> JG_DEVICE void jg_write_some(T* p, const jg_pack<T, E>& y, i64 count) {
    #pragma unroll
    for (int k = 0; k < E; k++) if (k < count) p[k] = y.at[k];
}

// a vector that waits in registers: as words, because the compiler would give each of narrow elements a register
template <class T, int E> struct jg_held { u32 words[(sizeof(T) * E + 3) / 4]; };
template <class T, int E> JG_DEVICE void jg_hold(jg_held<T, E>& h, const jg_pack<T, E>& x) {
    union { jg_held<T, E> h; jg_pack<T, E> x; } u;
    u.x = x;
    h = u.h;
}
template <class T, int E> JG_DEVICE T jg_of(const jg_held<T, E>& h, int k) {
    const int N = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // elements of a word, or words of an element
    union { u32 words[sizeof(T) < 4 ? 1 : sizeof(T) / 4]; T at[N]; } u;
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(u) / 4); i++) u.words[i] = h.words[k / N * (sizeof(u) / 4) + i];
    return u.at[k % N];
}

// floats rounded to a half type, two in one instruction
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
JG_DEVICE u32 jg_narrow_two(jg_bfloat, float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
JG_DEVICE u32 jg_narrow_two(jg_half, float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#else
template <class T> JG_DEVICE u32 jg_narrow_two(T, float low, float high) {
    T a, b;
    jg_narrow_to(a, low);
    jg_narrow_to(b, high);
    return (u32)a.bits | (u32)b.bits << 16;
}
#endif
template <class T, int E> JG_DEVICE jg_pack<T, E> jg_narrowed(const jg_pack<float, E>& x) {
    union { u32 words[E / 2]; jg_pack<T, E> y; } u;
    #pragma unroll
    for (int k = 0; k < E; k += 2) u.words[k / 2] = jg_narrow_two(T(), x.at[k], x.at[k + 1]);
    return u.y;
}

// as floats. Of whole words: the compiler would take what was read apart into registers of 16 bits
template <int E> JG_DEVICE jg_pack<float, E> jg_widened(const jg_pack<jg_bfloat, E>& x) {
    union { u32 words[(E + 1) / 2]; jg_pack<jg_bfloat, E> x; } u;
    jg_pack<float, E> y;
    u.x = x;
    #pragma unroll
    for (int k = 0; k < E; k++) y.at[k] = __int_as_float((int)(k % 2 ? u.words[k / 2] & 0xffff0000u : u.words[k / 2] << 16));
    return y;
}
template <int E> JG_DEVICE jg_pack<float, E> jg_widened(const jg_pack<jg_half, E>& x) {
    jg_pack<float, E> y;
    #pragma unroll
    for (int k = 0; k < E; k++) y.at[k] = jg_widen(x.at[k]);
    return y;
}
// a thread's vector number `c` of what waits in shared memory: threads side by side have neighbouring words
template <int THREADS, class T, int E> JG_DEVICE void jg_keep(char* h, int c, const jg_pack<T, E>& x) {
    typedef typename jg_word<(int)alignof(jg_pack<T, E>)>::type W;
    const int N = sizeof(T) * E / sizeof(W);
    union { W words[N]; jg_pack<T, E> x; } u;
    u.x = x;
    #pragma unroll
    for (int i = 0; i < N; i++) ((W*)h)[(c * N + i) * THREADS + threadIdx.x] = u.words[i];
}
template <int THREADS, class T, int E> JG_DEVICE jg_pack<T, E> jg_kept(const char* h, int c) {
    typedef typename jg_word<(int)alignof(jg_pack<T, E>)>::type W;
    const int N = sizeof(T) * E / sizeof(W);
    union { W words[N]; jg_pack<T, E> x; } u;
    #pragma unroll
    for (int i = 0; i < N; i++) u.words[i] = ((const W*)h)[(c * N + i) * THREADS + threadIdx.x];
    return u.x;
}

// E elements, of which `count` are wanted, from anywhere: in one access where they are aligned
template <int E, class T> JG_DEVICE jg_pack<T, E> jg_read_row(const T* p, i64 count) {
    return count == E && jg_aligned<E>(p) ? jg_read<E>(p) : jg_read_some<E>(p, count);
}

template <int E, class T> JG_DEVICE void jg_write_row(T* p, const jg_pack<T, E>& y, i64 count) {
    if (count == E && jg_aligned<E>(p)) jg_write<E>(p, y);
    else jg_write_some<E>(p, y, count);
}

#ifndef JG_HOST
extern __shared__ uint4 jg_shared[];  // dynamic
#endif

// An address as a number, out of a table, as a pointer to device memory. The compiler must not look through it: pointers
// that change places in a loop, and copies by way of a table, keep nvcc 13.0 busy for ever.
#ifndef JG_HOST
template <class T> JG_DEVICE T* jg_global(i64 address) {
    size_t hidden;
    asm("mov.u64 %0, %1;" : "=l"(hidden) : "l"(address));
    return (T*)__cvta_global_to_generic(hidden);
}
#else
template <class T> JG_DEVICE T* jg_global(i64 address) { return (T*)address; }
#endif
// words by value, the parameter of a kernel; words as numbers
template <int N> struct jg_table { i64 w[N]; };
template <class T> struct jg_number { JG_DEVICE T of(i64 w) { return (T)w; } };
template <> struct jg_number<bool> { JG_DEVICE bool of(i64 w) { return w != 0; } };
template <> struct jg_number<float> { JG_DEVICE float of(i64 w) { return __int_as_float((int)w); } };
template <> struct jg_number<double> { JG_DEVICE double of(i64 w) { return __longlong_as_double(w); } };
// the entry of a table, of `words` words each, that has a chunk: the last one whose first chunk is not behind it
JG_DEVICE const i64* jg_entry(const i64* table, i64 entries, int words, i64 chunk) {
    i64 low = 0, high = entries;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (table[middle * words] <= chunk) low = middle;
        else high = middle;
    }
    return table + low * words;
}
// where blocks share chunks: the first one of a block, and which block has one
JG_DEVICE i64 jg_first(i64 chunks, i64 block) { return chunks * block / gridDim.x; }
JG_DEVICE i64 jg_block_of(i64 chunks, i64 chunk) { return ((chunk + 1) * gridDim.x - 1) / chunks; }
JG_DEVICE i64 jg_most(i64 a, i64 b) { return a > b ? a : b; }

// --- arithmetic with the meaning of the op table --------------------------------------------------------------------

template <class T> JG_DEVICE bool jg_isnan(T x) { return x != x; }
template <class T> JG_DEVICE T jg_max(T a, T b) { return a > b || jg_isnan(a) ? a : b; }  // NaN if either is
template <class T> JG_DEVICE T jg_min(T a, T b) { return a < b || jg_isnan(a) ? a : b; }
template <class T> JG_DEVICE T jg_fastmax(T a, T b) { return a > b ? a : b; }
template <class T> JG_DEVICE T jg_sign(T x) { return (T)((x > T(0)) - (x < T(0))); }
JG_DEVICE float jg_fsign(float x) { return x == 0 || x != x ? copysignf(0.0f, x) : copysignf(1.0f, x); }
JG_DEVICE double jg_fsign(double x) { return x == 0 || x != x ? copysign(0.0, x) : copysign(1.0, x); }
JG_DEVICE float jg_fmod(float a, float b) { return fmodf(a, b); }
JG_DEVICE double jg_fmod(double a, double b) { return fmod(a, b); }
JG_DEVICE float jg_floor(float x) { return floorf(x); }
JG_DEVICE double jg_floor(double x) { return floor(x); }
JG_DEVICE float jg_copysign(float a, float b) { return copysignf(a, b); }
JG_DEVICE double jg_copysign(double a, double b) { return copysign(a, b); }

template <class T> JG_DEVICE T jg_fremainder(T a, T b) {  // the sign of the divisor, as Python's %
    T r = jg_fmod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T> JG_DEVICE T jg_ffloor_divide(T a, T b) {
    if (b == T(0)) return a / b;
    T r = jg_fmod(a, b), q = (a - r) / b;
    if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
    if (q == T(0)) return jg_copysign(T(0), a / b);
    T low = jg_floor(q);
    return q - low > T(0.5) ? low + T(1) : low;
}
// integers: nothing traps; a division by zero gives 0, the lowest number by -1 wraps
template <class T> JG_DEVICE bool jg_minus_one(T b) { return T(-1) < T(0) && b == T(-1); }
template <class T> JG_DEVICE T jg_ifmod(T a, T b) { return b == T(0) || jg_minus_one(b) ? T(0) : T(a % b); }
template <class T> JG_DEVICE T jg_iremainder(T a, T b) {
    T r = jg_ifmod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
template <class T> JG_DEVICE T jg_ifloor_divide(T a, T b) {
    if (b == T(0)) return T(0);
    if (jg_minus_one(b)) return T(T(0) - a);
    T q = T(a / b);
    return T(a % b) != T(0) && ((a < T(0)) != (b < T(0))) ? T(q - T(1)) : q;
}
JG_DEVICE i64 jg_ipow(i64 base, i64 exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    u64 result = 1, square = (u64)base;
    for (i64 rest = exponent; rest; rest >>= 1) {
        if (rest & 1) result *= square;
        square *= square;
    }
    return (i64)result;
}
template <class T, class S> JG_DEVICE T jg_bits_as(S x) {
    static_assert(sizeof(T) == sizeof(S), "as large");
    T y;
    memcpy(&y, &x, sizeof(T));
    return y;
}
template <class T> JG_DEVICE T jg_shl(T a, T b) {
    return b < T(0) || (u64)b >= 8 * sizeof(T) ? T(0) : T((u64)a << (u64)b);
}
template <class T> JG_DEVICE T jg_shr(T a, T b) {
    bool inside = !(b < T(0)) && (u64)b < 8 * sizeof(T);
    return inside ? T(a >> b) : (a < T(0) ? T(-1) : T(0));
}

// towards zero; what does not fit, NaN too, is the lowest integer
JG_DEVICE i64 jg_to_i64(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (i64)x : (i64)0x8000000000000000ULL;
}
JG_DEVICE int jg_to_i32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int)x : (int)0x80000000u; }

// a / b for many a: IEEE's quotient but for results below 2^-126, which may be the neighbour. The steps of a division
// are Markstein's: a quotient q within one unit, the rest a - q * b, which is exact, and a correction; 2^32 keeps the rest
// above what is not normal. Where b or a is out of range, `usual` is set to false, and the result is not to be used.
struct jg_divisor { float high, low, reciprocal, scaled, limit; };
JG_DEVICE jg_divisor jg_divided_by(float b) {
    jg_divisor d;
    float r = 1.0f / b;
    d.high = fmaf(-b, r, 1.0f) < 0.0f ? __int_as_float(__float_as_int(r) - 1) : r;  // 1 / b rounded down, and the rest of it
    d.low = fmaf(-b, d.high, 1.0f) * r;
    d.reciprocal = r * 2.3283064365386963e-10f;
    d.scaled = b * 4294967296.0f;
    d.limit = b >= 1.0f && b <= 1.8446744073709552e19f ? 7.922816251426434e28f : 0.0f;
    return d;
}
JG_DEVICE float jg_quotient(float a, const jg_divisor& d, bool& usual) {
    usual &= fabsf(a) < d.limit;
    float q = fmaf(a, d.high, a * d.low);
    return fmaf(-fmaf(q, d.scaled, a * -4294967296.0f), d.reciprocal, q);
}
// CUDA's erff, bit for bit, but with both of its polynomials computed: to choose between their coefficients takes an
// instruction for each, of a kind of which a multiprocessor does half as many as of these
#ifndef JG_HOST
#define JG_POLYNOMIAL(x, c6, c5, c4, c3, c2, c1, c0) \
    fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(JG_BITS(c6), x, JG_BITS(c5)), x, JG_BITS(c4)), x, JG_BITS(c3)), x, JG_BITS(c2)), x, \
              JG_BITS(c1)), x, JG_BITS(c0))
#define JG_BITS(bits) (__int_as_float((int)bits))
JG_DEVICE float jg_erf(float x) {
    float t = fabsf(x), s = x * x, power, y;
    float inner = JG_POLYNOMIAL(s, 0x38b1e96a, 0xba574d20, 0x3baad5ea, 0xbcdc1be7, 0x3de718af, 0xbec093ac, 0x3e0375d3);
    float outer = JG_POLYNOMIAL(t, 0x38eb4c3a, 0xbaae005b, 0x3c09919f, 0xbd24d99a, 0x3e235519, 0x3f69b4f9, 0x3f210a14);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(outer, -t, -t)));
    // in assembler: no branch around either
    asm("{.reg .pred far; setp.ge.f32 far, %1, 0f3f8060fe; selp.f32 %0, %2, %3, far;}"
        : "=f"(y) : "f"(t), "f"(copysignf(1.0f - power, x)), "f"(fmaf(inner, x, x)));
    return y;
}
#else
JG_DEVICE float jg_erf(float x) { return erff(x); }
#endif
JG_DEVICE double jg_erf(double x) { return erf(x); }

// --- special functions ----------------------------------------------------------------------------------------------

// Source: Cephes psi.c: reflection below zero, recurrence up to 10, then the asymptotic series
JG_DEVICE double jg_digamma(double x) {
    if (x == 0.0) return copysign((double)JG_INF, -x);
    double reflected = 0.0;
    if (x < 0.0) {
        double whole = floor(x);
        if (whole == x) return (double)JG_NAN;
        reflected = 3.14159265358979323846 / tan(3.14159265358979323846 * (x - whole));
        x = 1.0 - x;
    }
    double y = 0.0;
    while (x < 10.0) { y -= 1.0 / x; x += 1.0; }
    double z = 1.0 / (x * x);
    double series = z * (8.33333333333333333333e-2 - z * (8.33333333333333333333e-3 - z * (3.96825396825396825397e-3
        - z * (4.16666666666666666667e-3 - z * (7.57575757575757575758e-3 - z * (2.10927960927960927961e-2
        - z * 8.33333333333333333333e-2))))));
    return y + log(x) - 0.5 / x - series - reflected;
}
// Hurwitz zeta(s, q) by Euler and Maclaurin, for s > 1 and q > 0; source: Cephes zeta.c
JG_DEVICE double jg_zeta(double s, double q) {
    const double A[12] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9,
        7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
        1.8152105401943546773e17, -7.1661652561756670113e18};
    double sum = pow(q, -s), a = q, b = 0.0;
    int i = 0;
    do { i += 1; a += 1.0; b = pow(a, -s); sum += b; if (fabs(b / sum) < 1e-17) return sum; } while (i < 9 || a <= 9.0);
    double w = a;
    sum += b * w / (s - 1.0);
    sum -= 0.5 * b;
    a = 1.0;
    double k = 0.0;
    for (i = 0; i < 12; i++) {
        a *= s + k;
        b /= w;
        double t = a * b / A[i];
        sum += t;
        if (fabs(t / sum) < 1e-17) return sum;
        k += 1.0;
        a *= s + k;
        b /= w;
        k += 1.0;
    }
    return sum;
}
JG_DEVICE double jg_polygamma(int n, double x) {
    if (n == 0) return jg_digamma(x);
    double factorial = 1.0;
    for (int i = 2; i <= n; i++) factorial *= i;
    return (n % 2 ? factorial : -factorial) * jg_zeta(n + 1.0, x);
}

// --- random words: Philox 4x32-10, key = seed, counter = offset + block ----------------------------------------------

struct jg_words { u32 at[4]; u64 block; bool known; };

// N blocks from one on: all of a round share its key
template <int N> JG_DEVICE void jg_philox_blocks(u32* words, u64 block, i64 seed) {
    u32 k0 = (u32)seed, k1 = (u32)((u64)seed >> 32);
    #pragma unroll
    for (int b = 0; b < N; b++) {
        words[4 * b] = (u32)(block + b);
        words[4 * b + 1] = (u32)((block + b) >> 32);
        words[4 * b + 2] = words[4 * b + 3] = 0;
    }
    #pragma unroll
    for (int round = 0; round < 10; round++) {
        #pragma unroll
        for (int b = 0; b < N; b++) {
            u32* const c = words + 4 * b;
            u64 p0 = (u64)c[0] * 0xD2511F53u, p1 = (u64)c[2] * 0xCD9E8D57u;
            u32 n0 = (u32)(p1 >> 32) ^ c[1] ^ k0, n2 = (u32)(p0 >> 32) ^ c[3] ^ k1;
            c[1] = (u32)p1; c[3] = (u32)p0; c[0] = n0; c[2] = n2;
        }
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
}
JG_DEVICE jg_words jg_philox_block(u64 block, i64 seed) {
    jg_words words;
    jg_philox_blocks<1>(words.at, block, seed);
    words.block = block;
    words.known = true;
    return words;
}
// `words` keeps the last block: neighbours share one
JG_DEVICE i64 jg_philox(jg_words& words, i64 index, i64 seed, i64 offset) {
    u64 block = (u64)(index >> 2) + (u64)offset;
    if (!words.known || words.block != block) words = jg_philox_block(block, seed);
    int lane = (int)(index & 3);
    return (i64)(lane == 0 ? words.at[0] : lane == 1 ? words.at[1] : lane == 2 ? words.at[2] : words.at[3]);
}
JG_DEVICE i64 jg_philox(i64 index, i64 seed, i64 offset) {
    jg_words words;
    words.known = false;
    return jg_philox(words, index, seed, offset);
}

// the words of E neighbours
template <int E> struct jg_run { u32 at[E]; };
template <int E> JG_DEVICE jg_run<E> jg_philox_run(i64 index, i64 seed, i64 offset) {
    const int BLOCKS = (E + 3) / 4;
    const u64 block = (u64)(index >> 2) + (u64)offset;
    const int ahead = (int)(index & 3);
    u32 words[4 * BLOCKS + 4];
    jg_philox_blocks<BLOCKS>(words, block, seed);
    if (ahead) {  // rows whose lengths are no multiples of four
        jg_philox_blocks<1>(words + 4 * BLOCKS, block + BLOCKS, seed);
        #pragma unroll
        for (int k = 0; k < 4 * BLOCKS + 3; k++) words[k] = ahead & 1 ? words[k + 1] : words[k];
        #pragma unroll
        for (int k = 0; k < 4 * BLOCKS + 2; k++) words[k] = ahead & 2 ? words[k + 2] : words[k];
    }
    jg_run<E> run;
    #pragma unroll
    for (int k = 0; k < E; k++) run.at[k] = words[k];
    return run;
}

// --- adding to memory -----------------------------------------------------------------------------------------------

#ifndef JG_HOST
JG_DEVICE void jg_add(float* p, float v) { atomicAdd(p, v); }
JG_DEVICE void jg_add(double* p, double v) { atomicAdd(p, v); }
JG_DEVICE void jg_add(int* p, int v) { atomicAdd(p, v); }
JG_DEVICE void jg_add(i64* p, i64 v) { atomicAdd((u64*)p, (u64)v); }
// 8 and 16 bits: exchange the word around them until nobody else has changed it
template <class T, class F> JG_DEVICE void jg_exchange(T* p, F next) {
    u64 address = (u64)p;
    u32* word = (u32*)(address & ~3ULL);
    u32 shift = (u32)(address & 3) * 8, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
    u32 seen = *word, expected;
    do {
        expected = seen;
        u32 bits = next((expected & mask) >> shift);
        seen = atomicCAS(word, expected, (expected & ~mask) | ((bits << shift) & mask));
    } while (seen != expected);
}
JG_DEVICE void jg_add(short* p, short v) { jg_exchange(p, [=](u32 b) { return (u32)(unsigned short)((short)b + v); }); }
JG_DEVICE void jg_add(signed char* p, signed char v) { jg_exchange(p, [=](u32 b) { return (u32)(unsigned char)(b + v); }); }
JG_DEVICE void jg_add(unsigned char* p, unsigned char v) { jg_exchange(p, [=](u32 b) { return (u32)(unsigned char)(b + v); }); }
JG_DEVICE void jg_add(bool* p, bool v) { if (v) *p = true; }
JG_DEVICE void jg_add(jg_half* p, float v) {
    asm volatile("red.add.noftz.f16 [%0], %1;" :: "l"(p), "h"(jg_narrow(v).bits) : "memory");
}
JG_DEVICE void jg_add(jg_bfloat* p, float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("red.add.noftz.bf16 [%0], %1;" :: "l"(p), "h"(jg_narrow_bfloat(v).bits) : "memory");
#else
    jg_exchange(p, [=](u32 b) {
        jg_bfloat h;
        h.bits = (unsigned short)b;
        return (u32)jg_narrow_bfloat(jg_widen(h) + v).bits;
    });
#endif
}
#else
template <class T, class V> JG_DEVICE void jg_add(T* p, V v) { *p = (T)(*p + v); }
JG_DEVICE void jg_add(bool* p, bool v) { *p = *p || v; }
JG_DEVICE void jg_add(jg_half* p, float v) { *p = jg_narrow(jg_widen(*p) + v); }
JG_DEVICE void jg_add(jg_bfloat* p, float v) { *p = jg_narrow_bfloat(jg_widen(*p) + v); }
#endif

template <class T> JG_DEVICE T jg_added(T v) { return v; }
JG_DEVICE float jg_added(jg_half h) { return jg_widen(h); }
JG_DEVICE float jg_added(jg_bfloat h) { return jg_widen(h); }
// E neighbours at once where they are aligned and the machine can
template <int E, class T> JG_DEVICE bool jg_add_together(T* p, const jg_pack<T, E>& y) { return false; }
#if !defined(JG_HOST) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define JG_WORDS(T, E) union { u32 w[4]; jg_pack<T, E> y; } u; u.y = y
#define JG_ADD_TOGETHER(OP) \
    asm volatile(OP " [%0], {%1, %2, %3, %4};" :: "l"(__cvta_generic_to_global(p)), "r"(u.w[0]), "r"(u.w[1]), "r"(u.w[2]), \
                 "r"(u.w[3]) : "memory")
JG_DEVICE bool jg_add_together(float* p, const jg_pack<float, 4>& y) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(__cvta_generic_to_global(p)), "f"(y.at[0]),
                 "f"(y.at[1]), "f"(y.at[2]), "f"(y.at[3]) : "memory");
    return true;
}
JG_DEVICE bool jg_add_together(jg_half* p, const jg_pack<jg_half, 8>& y) {
    JG_WORDS(jg_half, 8);
    JG_ADD_TOGETHER("red.global.add.noftz.v4.f16x2");
    return true;
}
JG_DEVICE bool jg_add_together(jg_bfloat* p, const jg_pack<jg_bfloat, 8>& y) {
    JG_WORDS(jg_bfloat, 8);
    JG_ADD_TOGETHER("red.global.add.noftz.v4.bf16x2");
    return true;
}
#endif
template <int E, class T> JG_DEVICE void jg_add_row(T* p, const jg_pack<T, E>& y, int count) {
    if (count == E && jg_aligned<E>(p) && jg_add_together(p, y)) return;
    #pragma unroll
    for (int k = 0; k < E; k++) if (k < count) jg_add(p + k, jg_added(y.at[k]));
}

// --- reductions over a block: every thread gets the result; the order of the parts is fixed ---------------------------

template <class T> struct jg_sum { JG_DEVICE T of(T a, T b) { return a + b; } };
template <class T> struct jg_prod { JG_DEVICE T of(T a, T b) { return a * b; } };
template <class T> struct jg_maximum { JG_DEVICE T of(T a, T b) { return jg_max(a, b); } };
template <class T> struct jg_minimum { JG_DEVICE T of(T a, T b) { return jg_min(a, b); } };
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction
template <> struct jg_maximum<float> {
    JG_DEVICE float of(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
};
template <> struct jg_minimum<float> {
    JG_DEVICE float of(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
};
#endif
template <class T> struct jg_fastmaximum { JG_DEVICE T of(T a, T b) { return jg_fastmax(a, b); } };
template <class T> struct jg_or { JG_DEVICE T of(T a, T b) { return a | b; } };
template <class T> struct jg_and { JG_DEVICE T of(T a, T b) { return a & b; } };

template <class T> struct jg_best { T value; i64 at; };  // of argmax and argmin; NaN is the extremum, ties: the first
template <class T, bool MAX> JG_DEVICE jg_best<T> jg_better(jg_best<T> a, jg_best<T> b) {
    bool nan = jg_isnan(b.value), other = jg_isnan(a.value), first = b.at < a.at;
    bool strict = MAX ? b.value > a.value : b.value < a.value;
    return strict || (nan && !other) || ((b.value == a.value || (nan && other)) && first) ? b : a;
}
template <class T> struct jg_argmax { JG_DEVICE jg_best<T> of(jg_best<T> a, jg_best<T> b) { return jg_better<T, true>(a, b); } };
template <class T> struct jg_argmin { JG_DEVICE jg_best<T> of(jg_best<T> a, jg_best<T> b) { return jg_better<T, false>(a, b); } };

// Of a sum of squared distances from a number that is known later: how many values, the first of them, how far their
// mean is from that, and the sum of squared distances from their mean. Far from zero no digit is lost: all but `first`
// is as large as the values are apart. Source: Chan, Golub and LeVeque, "Updating formulae", 1979; for one value Welford.
template <class T> struct jg_moments { T count, first, mean, squares; };
JG_DEVICE float jg_part(float x, float n) { return __fdividef(x, n); }  // what it rounds off is the next value's to mend
JG_DEVICE double jg_part(double x, double n) { return x / n; }
template <class T> struct jg_spread {
    JG_DEVICE jg_moments<T> of(jg_moments<T> a, T x) {
        if (a.count == T(0)) a.first = x;
        x -= a.first;
        T away = x - a.mean;
        a.count += T(1);
        a.mean += jg_part(away, a.count);
        a.squares += away * (x - a.mean);
        return a;
    }
    JG_DEVICE jg_moments<T> of(jg_moments<T> a, const jg_moments<T>& b) {
        if (b.count == T(0)) return a;
        if (a.count == T(0)) return b;
        T away = b.first - a.first + (b.mean - a.mean), count = a.count + b.count, part = b.count / count;
        a.mean += away * part;
        a.squares += b.squares + away * (away * (a.count * part));
        a.count = count;
        return a;
    }
    JG_DEVICE T from(const jg_moments<T>& a, T number) {
        T away = a.first - number + a.mean;
        return a.count == T(0) ? T(0) : a.squares + away * (away * a.count);
    }
};

template <class T> JG_DEVICE T jg_down(T v, int by, int lanes) { return __shfl_down_sync(0xffffffffu, v, by, lanes); }
template <class T> JG_DEVICE T jg_first(T v, int lanes) { return __shfl_sync(0xffffffffu, v, 0, lanes); }
#define JG_SHUFFLE_AS_INT(T) \
    JG_DEVICE T jg_down(T v, int by, int lanes) { return (T)__shfl_down_sync(0xffffffffu, (int)v, by, lanes); } \
    JG_DEVICE T jg_first(T v, int lanes) { return (T)__shfl_sync(0xffffffffu, (int)v, 0, lanes); }
JG_SHUFFLE_AS_INT(bool)
JG_SHUFFLE_AS_INT(signed char)
JG_SHUFFLE_AS_INT(unsigned char)
JG_SHUFFLE_AS_INT(short)
template <class T> JG_DEVICE jg_best<T> jg_down(jg_best<T> v, int by, int lanes) {
    return {jg_down(v.value, by, lanes), jg_down(v.at, by, lanes)};
}
template <class T> JG_DEVICE jg_best<T> jg_first(jg_best<T> v, int lanes) {
    return {jg_first(v.value, lanes), jg_first(v.at, lanes)};
}
template <class T> JG_DEVICE jg_moments<T> jg_down(jg_moments<T> v, int by, int lanes) {
    return {jg_down(v.count, by, lanes), jg_down(v.first, by, lanes), jg_down(v.mean, by, lanes),
            jg_down(v.squares, by, lanes)};
}
template <class T> JG_DEVICE jg_moments<T> jg_first(jg_moments<T> v, int lanes) {
    return {jg_first(v.count, lanes), jg_first(v.first, lanes), jg_first(v.mean, lanes), jg_first(v.squares, lanes)};
}

// over groups of `lanes` neighbours; whole warps come here
template <class Op, class T> JG_DEVICE T jg_warp(T v, int lanes) {
    for (int by = lanes >> 1; by; by >>= 1) v = Op::of(v, jg_down(v, by, lanes));
    return jg_first(v, lanes);
}
// over the block: blockDim.x is a multiple of 32, at most 1024
template <class Op, class T> JG_DEVICE T jg_block(T v) {
    __shared__ T parts[32];
    #pragma unroll
    for (int by = 16; by; by >>= 1) v = Op::of(v, jg_down(v, by, 32));
    int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    __syncthreads();  // the parts of the reduction before have been read
    if ((threadIdx.x & 31) == 0) parts[warp] = v;
    __syncthreads();
    T total = parts[0];
    for (int w = 1; w < warps; w++) total = Op::of(total, parts[w]);
    return total;
}
// over groups of `lanes` threads, a power of two; whole blocks come here. NUMBER: which of the row's reductions it is, -1
// for the only one. While slow threads read the parts of one, others are behind the barrier of the next at most.
template <class Op, int NUMBER, class T> JG_DEVICE T jg_group(T v, int lanes) {
    __shared__ T parts[32];
    if (lanes < 32) return jg_warp<Op>(v, lanes);
    #pragma unroll
    for (int by = 16; by; by >>= 1) v = Op::of(v, jg_down(v, by, 32));
    if (lanes == 32) return jg_first(v, 32);
    int warp = threadIdx.x >> 5, warps = lanes >> 5;
    if (NUMBER < 0) __syncthreads();
    if ((threadIdx.x & 31) == 0) parts[warp] = v;
    __syncthreads();
    v = parts[(warp & -warps) + (threadIdx.x & (warps - 1))];
    for (int by = warps >> 1; by; by >>= 1) v = Op::of(v, jg_down(v, by, warps));
    return jg_first(v, warps);
}
// over the threads of a block, a power of two, that have the same place among `lanes` neighbours
template <class Op, class T> JG_DEVICE T jg_columns(T v, int lanes = 32) {
    __shared__ T parts[1024];
    int lane = threadIdx.x & (lanes - 1);
    __syncthreads();
    parts[threadIdx.x] = v;
    __syncthreads();
    for (int half = blockDim.x >> 1; half >= lanes; half >>= 1) {
        if (threadIdx.x < half) parts[threadIdx.x] = Op::of(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    return parts[lane];
}

// --- reductions over several blocks: parts in memory, and the block that comes last joins them in a fixed order ---------

template <class T> struct alignas(sizeof(T) < 4 ? 4 : alignof(T)) jg_slot { T value; };

template <class T> JG_DEVICE T jg_fresh(const jg_slot<T>* p) {  // past the L1 cache, which other blocks do not write
    union { u32 words[sizeof(jg_slot<T>) / 4]; jg_slot<T> slot; } r;
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(r.words) / 4); i++) r.words[i] = __ldcg((const u32*)p + i);
    return r.slot.value;
}
// Whether this block is the last of `blocks` to come here: it sees what the others wrote before. Leaves the ticket zero.
JG_DEVICE bool jg_last(u32* ticket, u32 blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == blocks - 1;
        if (last) *ticket = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

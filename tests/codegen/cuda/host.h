// Runs CUDA C++ kernels on the host: a fiber per CUDA thread, one block after another. For tests.
//
// Threads of a block take turns at barriers, in ascending or (jg_set_reversed) descending order: a result that depends
// on the order shows a race. A barrier that not all threads reach spins until run() gives up and returns 1.
// Blocks that wait for each other (run_together) have a thread of the host each, with fibers and shared memory of its own.
// What runs the fibers is in host.cpp: compiled once, optimised, and shared by the libraries of kernels, which are many.
#pragma once
#define JG_HOST 1
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __fdividef(a, b) ((a) / (b))
#define __shared__ static thread_local
#define __restrict__

namespace jg_host {  // one of each in the process

extern int broken;  // an expectation of the kernel was not met
#define JG_EXPECT(condition) if (!(condition)) broken = 2

struct Place { unsigned x, y, z; };
extern __thread Place gridDim, blockDim, blockIdx;

// a fiber lives on from block to block: making one costs a system call
struct Fiber { ucontext_t context; jmp_buf back; Place place; bool done, started; };
struct Barrier { int waiting = 0; unsigned generation = 0; };
struct Runner {  // of one block at a time
    Fiber fibers[1024];
    int count, current, alive;
    bool patient;  // waits for other blocks
    jmp_buf scheduler;
    ucontext_t ending;
    void (*kernel)(void**);
    void** arguments;
    Barrier block, warps[32];
    bool either;
    unsigned long long exchanged[1024];
};
extern __thread Runner* runner;
extern int reversed_order;
#define threadIdx (runner->fibers[runner->current].place)

void pause_();
#define JG_PAUSE() pause_()

void __syncthreads();
bool __syncthreads_or(int);
void __syncwarp(unsigned = 0xffffffffu);
// the value of another thread of the warp; its own where there is none
template <class T> static inline T exchange(T v, int source, bool inside) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    memcpy(&runner->exchanged[runner->current], &v, sizeof(T));
    __syncwarp();
    T result = v;
    if (inside && source < runner->count) memcpy(&result, &runner->exchanged[source], sizeof(T));
    __syncwarp();
    return result;
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int by, int width = 32) {
    int me = runner->current;
    return exchange(v, me + by, (me & (width - 1)) + by < width);
}
template <class T> static inline T __shfl_sync(unsigned, T v, int lane, int width = 32) {
    return exchange(v, (runner->current & ~(width - 1)) + lane, true);
}
static inline int __clz(int n) { return n ? __builtin_clz(n) : 32; }
static inline void __threadfence() { __sync_synchronize(); }
static inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static inline unsigned __ldcg(const unsigned* p) { return *p; }

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
extern uint4 jg_shared[14 << 10];  // 224 KiB; what the launch did not ask for must stay as it is

}  // namespace jg_host
using namespace jg_host;

static inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline double __longlong_as_double(long long i) { double d; memcpy(&d, &i, 8); return d; }
static inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
static inline long long __double_as_longlong(double d) { long long i; memcpy(&i, &d, 8); return i; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }

struct jg_half;
static inline float widen_bits(unsigned short b) { _Float16 h; memcpy(&h, &b, 2); return (float)h; }
static inline unsigned short narrow_bits(float f) { _Float16 h = (_Float16)f; unsigned short b; memcpy(&b, &h, 2); return b; }
#define JG_HALF_ON_HOST \
    static inline float jg_widen(jg_half h) { return widen_bits(h.bits); } \
    static inline jg_half jg_narrow(float f) { jg_half h; h.bits = narrow_bits(f); return h; }

// by Newton's method on erf
static inline double erfinv(double y) {
    if (y <= -1 || y >= 1) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
    double w = log(1 - y * y), t = 2 / (M_PI * 0.147) + w / 2;
    double x = copysign(sqrt(sqrt(t * t - w / 0.147) - t), y);
    for (int i = 0; i < 4; i++) x -= (erf(x) - y) / (2 / sqrt(M_PI) * exp(-x * x));
    return x;
}
static inline float erfinvf(float y) { return (float)erfinv((double)y); }

namespace jg_host {

int run(void (*body)(void**), void** args, unsigned gx, unsigned gy, unsigned threads, unsigned shared);
int run_together(void (*body)(void**), void** args, unsigned blocks, unsigned threads);

}  // namespace jg_host

extern "C" void jg_set_reversed(int reversed) { reversed_order = reversed; }

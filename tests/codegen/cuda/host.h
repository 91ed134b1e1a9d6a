// Runs CUDA C++ kernels on the host: a fiber per CUDA thread, one block after another. For tests.
//
// Threads of a block take turns at barriers, in ascending or (jg_set_reversed) descending order: a result that depends
// on the order shows a race. A barrier that not all threads reach spins until run() gives up and returns 1.
#pragma once
#define JG_HOST 1
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define __restrict__

namespace jg_host {  // one of each in the process: inline variables are shared between libraries

inline int broken;  // an expectation of the kernel was not met
#define JG_EXPECT(condition) if (!(condition)) broken = 2

struct Place { unsigned x = 1, y = 1, z = 1; };
inline Place gridDim, blockDim, blockIdx;

// a fiber lives on from block to block: making one costs a system call
struct Fiber { ucontext_t context; jmp_buf back; Place place; bool done, started; };
inline Fiber fibers[1024];
inline int count, current, alive, reversed_order;
inline jmp_buf scheduler;
inline ucontext_t ending;
inline void (*kernel)(void**);
inline void** arguments;
#define threadIdx (fibers[current].place)

inline void yield_() {
    int me = current;
    if (!_setjmp(fibers[me].back)) _longjmp(scheduler, 1);
}

struct Barrier { int waiting = 0; unsigned generation = 0; };
inline Barrier block_barrier;
inline std::vector<Barrier> warp_barriers;
inline std::vector<unsigned long long> exchanged;

inline void wait_(Barrier& barrier, int all) {
    unsigned generation = barrier.generation;
    if (++barrier.waiting == all) { barrier.waiting = 0; barrier.generation++; }
    else while (barrier.generation == generation) yield_();
}
static inline void __syncthreads() { wait_(block_barrier, count); }
static inline void __syncwarp(unsigned = 0xffffffffu) {
    int warp = current >> 5;
    wait_(warp_barriers[warp], std::min(32, count - warp * 32));
}
// the value of another thread of the warp; its own where there is none
template <class T> static inline T exchange(T v, int source, bool inside) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    memcpy(&exchanged[current], &v, sizeof(T));
    __syncwarp();
    T result = v;
    if (inside && source < count) memcpy(&result, &exchanged[source], sizeof(T));
    __syncwarp();
    return result;
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int by, int width = 32) {
    return exchange(v, current + by, (current & (width - 1)) + by < width);
}
template <class T> static inline T __shfl_sync(unsigned, T v, int lane, int width = 32) {
    return exchange(v, (current & ~(width - 1)) + lane, true);
}
static inline void __threadfence() {}
static inline unsigned atomicAdd(unsigned* p, unsigned v) { unsigned old = *p; *p = old + v; return old; }
static inline unsigned __ldcg(const unsigned* p) { return *p; }

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint4 jg_shared[14 << 10];  // 224 KiB; what the launch did not ask for must stay as it is

}  // namespace jg_host
using namespace jg_host;

static inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline double __longlong_as_double(long long i) { double d; memcpy(&d, &i, 8); return d; }
static inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }

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

inline void fiber_main() {
    for (;;) {
        kernel(arguments);
        fibers[current].done = true;
        alive--;
        yield_();
    }
}

inline int run_block(unsigned x, unsigned y) {
    const size_t size = 256 << 10;
    blockIdx = {x, y, 0};
    block_barrier = {};
    for (auto& barrier : warp_barriers) barrier = {};
    alive = count;
    for (int t = 0; t < count; t++) {
        fibers[t].done = false;
        fibers[t].place = {(unsigned)t, 0, 0};
    }
    volatile long spins = 0;
    while (alive > 0) {
        volatile int before = alive;
        for (volatile int q = 0; q < count; q = q + 1) {
            int t = reversed_order ? count - 1 - q : q;
            Fiber& fiber = fibers[t];
            if (fiber.done) continue;
            current = t;
            if (!_setjmp(scheduler)) {
                if (fiber.started) _longjmp(fiber.back, 1);
                fiber.started = true;
                getcontext(&fiber.context);
                char* stack = (char*)mmap(0, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                mprotect(stack, 4096, PROT_NONE);  // what overflows the stack dies here
                fiber.context.uc_stack.ss_sp = stack + 4096;
                fiber.context.uc_stack.ss_size = size;
                fiber.context.uc_link = &ending;
                makecontext(&fiber.context, fiber_main, 0);
                setcontext(&fiber.context);
            }
        }
        if (alive == before && (spins = spins + 1) > 100000) return 1;
    }
    return 0;
}

// blocks, too, in descending order where reversed
static int run(void (*body)(void**), void** args, unsigned gx, unsigned gy, unsigned threads, unsigned shared) {
    gridDim = {gx, gy, 1};
    blockDim = {threads, 1, 1};
    kernel = body;
    arguments = args;
    broken = 0;
    count = (int)threads;
    warp_barriers.assign((threads + 31) / 32, {});
    exchanged.assign(threads, 0);
    if (shared) memset(jg_shared, 0x5a, sizeof jg_shared);
    for (unsigned b = 0; b < gx * gy; b++) {
        unsigned at = reversed_order ? gx * gy - 1 - b : b;
        if (run_block(at % gx, at / gx)) return 1;
    }
    for (size_t i = shared; shared && i < sizeof jg_shared; i++) if (((unsigned char*)jg_shared)[i] != 0x5a) return 3;
    return broken;
}

}  // namespace jg_host

extern "C" void jg_set_reversed(int reversed) { reversed_order = reversed; }

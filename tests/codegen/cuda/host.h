// Runs CUDA C++ kernels on the host: a fiber per CUDA thread, one block after another. For tests.
//
// Threads of a block take turns at barriers, in ascending or (jg_set_reversed) descending order: a result that depends
// on the order shows a race. A barrier that not all threads reach spins until run() gives up and returns 1.
// Blocks that wait for each other (run_together) have a thread of the host each, with fibers and shared memory of its own.
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
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local
#define __restrict__

namespace jg_host {  // one of each in the process: inline variables are shared between libraries

inline int broken;  // an expectation of the kernel was not met
#define JG_EXPECT(condition) if (!(condition)) broken = 2

struct Place { unsigned x, y, z; };
inline thread_local Place gridDim, blockDim, blockIdx;

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
    Barrier block;
    std::vector<Barrier> warps;
    std::vector<unsigned long long> exchanged;
};
inline Runner first;
inline std::vector<Runner*> others;
inline thread_local Runner* runner = &first;
inline int reversed_order;
#define threadIdx (runner->fibers[runner->current].place)

inline void yield_() {
    int me = runner->current;
    if (!_setjmp(runner->fibers[me].back)) _longjmp(runner->scheduler, 1);
}
inline void pause_() {
    runner->patient = true;
    std::this_thread::yield();
    yield_();
}
#define JG_PAUSE() pause_()

inline void wait_(Barrier& barrier, int all) {
    unsigned generation = barrier.generation;
    if (++barrier.waiting == all) { barrier.waiting = 0; barrier.generation++; }
    else while (barrier.generation == generation) yield_();
}
static inline void __syncthreads() { wait_(runner->block, runner->count); }
static inline void __syncwarp(unsigned = 0xffffffffu) {
    int warp = runner->current >> 5;
    wait_(runner->warps[warp], std::min(32, runner->count - warp * 32));
}
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
static inline void __threadfence() { __sync_synchronize(); }
static inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static inline unsigned __ldcg(const unsigned* p) { return *p; }

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint4 jg_shared[14 << 10];  // 224 KiB; what the launch did not ask for must stay as it is

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

inline void fiber_main() {
    for (;;) {
        runner->kernel(runner->arguments);
        runner->fibers[runner->current].done = true;
        runner->alive--;
        yield_();
    }
}

inline int run_block(unsigned x, unsigned y) {
    const size_t size = 256 << 10;
    Runner& own = *runner;
    blockIdx = {x, y, 0};
    own.block = {};
    for (auto& barrier : own.warps) barrier = {};
    own.alive = own.count;
    for (int t = 0; t < own.count; t++) {
        own.fibers[t].done = false;
        own.fibers[t].place = {(unsigned)t, 0, 0};
    }
    volatile long spins = 0;
    while (own.alive > 0) {
        volatile int before = own.alive;
        own.patient = false;
        for (volatile int q = 0; q < own.count; q = q + 1) {
            int t = reversed_order ? own.count - 1 - q : q;
            Fiber& fiber = own.fibers[t];
            if (fiber.done) continue;
            own.current = t;
            if (!_setjmp(own.scheduler)) {
                if (fiber.started) _longjmp(fiber.back, 1);
                fiber.started = true;
                getcontext(&fiber.context);
                char* stack = (char*)mmap(0, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                mprotect(stack, 4096, PROT_NONE);  // what overflows the stack dies here
                fiber.context.uc_stack.ss_sp = stack + 4096;
                fiber.context.uc_stack.ss_size = size;
                fiber.context.uc_link = &own.ending;
                makecontext(&fiber.context, fiber_main, 0);
                setcontext(&fiber.context);
            }
        }
        if (own.alive == before && (spins = spins + 1) > (own.patient ? 100000000 : 100000)) return 1;
    }
    return 0;
}

inline void prepare(Runner& own, void (*body)(void**), void** args, unsigned threads) {
    own.kernel = body;
    own.arguments = args;
    own.count = (int)threads;
    own.warps.assign((threads + 31) / 32, {});
    own.exchanged.assign(threads, 0);
}

// blocks, too, in descending order where reversed
static int run(void (*body)(void**), void** args, unsigned gx, unsigned gy, unsigned threads, unsigned shared) {
    gridDim = {gx, gy, 1};
    blockDim = {threads, 1, 1};
    broken = 0;
    prepare(first, body, args, threads);
    if (shared) memset(jg_shared, 0x5a, sizeof jg_shared);
    for (unsigned b = 0; b < gx * gy; b++) {
        unsigned at = reversed_order ? gx * gy - 1 - b : b;
        if (run_block(at % gx, at / gx)) return 1;
    }
    for (size_t i = shared; shared && i < sizeof jg_shared; i++) if (((unsigned char*)jg_shared)[i] != 0x5a) return 3;
    return broken;
}

// all blocks at once, each in a thread of the host
static int run_together(void (*body)(void**), void** args, unsigned blocks, unsigned threads) {
    broken = 0;
    while (others.size() < blocks) others.push_back(new Runner());
    std::vector<int> statuses(blocks, 0);
    std::vector<std::thread> together;
    for (unsigned b = 0; b < blocks; b++) {
        together.emplace_back([=, &statuses] {
            runner = others[b];
            gridDim = {blocks, 1, 1};
            blockDim = {threads, 1, 1};
            prepare(*runner, body, args, threads);
            statuses[b] = run_block(b, 0);
        });
    }
    for (auto& one : together) one.join();
    for (int status : statuses) if (status) return status;
    return broken;
}

}  // namespace jg_host

extern "C" void jg_set_reversed(int reversed) { reversed_order = reversed; }

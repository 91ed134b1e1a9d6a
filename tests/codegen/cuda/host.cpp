// What runs the blocks of a kernel, see host.h.
#include "host.h"

#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace jg_host {

int broken, reversed_order;
uint4 jg_shared[14 << 10];
static Runner first;
static std::vector<Runner*> others;
__thread Place gridDim, blockDim, blockIdx;
__thread Runner* runner = &first;

static void yield_() {
    int me = runner->current;
    if (!_setjmp(runner->fibers[me].back)) _longjmp(runner->scheduler, 1);
}
void pause_() {
    runner->patient = true;
    std::this_thread::yield();
    yield_();
}

static void wait_(volatile Barrier& barrier, int all) {
    unsigned generation = barrier.generation;
    int waiting = barrier.waiting = barrier.waiting + 1;
    if (waiting == all) { barrier.waiting = 0; barrier.generation = generation + 1; }
    else while (barrier.generation == generation) yield_();
}
void __syncthreads() { wait_(runner->block, runner->count); }
bool __syncthreads_or(int mine) {
    __syncthreads();  // the one before has been read
    if (runner->current == 0) runner->either = false;
    __syncthreads();
    if (mine) runner->either = true;
    __syncthreads();
    return runner->either;
}
void __syncwarp(unsigned) {
    int warp = runner->current >> 5;
    wait_(runner->warps[warp], std::min(32, runner->count - warp * 32));
}

// not part of the loop below: a fiber may go on in another thread of the host, where `runner` is elsewhere
__attribute__((noinline)) static void turn() {
    runner->kernel(runner->arguments);
    runner->fibers[runner->current].done = true;
    runner->alive--;
    yield_();
}
static void fiber_main() {
    for (;;) turn();
}

static int run_block(unsigned x, unsigned y) {
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

static void prepare(Runner& own, void (*body)(void**), void** args, unsigned threads) {
    own.kernel = body;
    own.arguments = args;
    own.count = (int)threads;
    memset(own.exchanged, 0, sizeof own.exchanged);
}

// blocks, too, in descending order where reversed
int run(void (*body)(void**), void** args, unsigned gx, unsigned gy, unsigned threads, unsigned shared) {
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
int run_together(void (*body)(void**), void** args, unsigned blocks, unsigned threads) {
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

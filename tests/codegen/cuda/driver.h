// The C functions of a driver whose device is the host: launches run the kernels' text, memory is a region that nobody
// may touch between them, so a host function that reads the device's memory by itself dies.
#pragma once
#include <sys/mman.h>
#include <stdint.h>
#include <string.h>

#include <mutex>

struct Entry {
    int (*run)(void (*)(void**), void**, unsigned, unsigned, unsigned, unsigned);
    int (*together)(void (*)(void**), void**, unsigned, unsigned);
    void (*body)(void**);
    int device;  // on which it was loaded
};
struct Launch { void* kernel; unsigned blocks, threads; };

struct Region { char* start; size_t size; int device; };
static Region regions[16];  // one for each driver of the process
static int region_count;
static Launch log_[1 << 16];
static unsigned launches, reads;
static int failing = -1;
static int current;  // the device that the host has chosen
static std::mutex busy;  // the host runs one thing after another

static void protect_(int what, int device) {
    for (int i = 0; i < region_count; i++)
        if (device < 0 || regions[i].device == device) mprotect(regions[i].start, regions[i].size, what);
}
static void open_() { protect_(PROT_READ | PROT_WRITE, current); }
static void close_() { protect_(PROT_NONE, -1); }

extern "C" {
void fake_current(int device) { current = device; }
char* fake_region(size_t size, int device) {
    char* start = (char*)mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    regions[region_count++] = {start, size, device};
    return start;
}
void fake_open() { protect_(PROT_READ | PROT_WRITE, -1); }
void fake_begin() { busy.lock(); open_(); }
void fake_end() { close_(); busy.unlock(); }
unsigned fake_launches() { return launches; }
Launch* fake_log() { return log_; }
void fake_clear() { launches = 0; }
void fake_fail(int after) { failing = after; }

static int launched(bool together, void* kernel, unsigned gx, unsigned gy, unsigned threads, unsigned shared,
                    void** arguments) {
    std::lock_guard<std::mutex> guard(busy);
    if (failing == 0) return 719;
    if (failing > 0) failing--;
    if (launches < (1 << 16)) log_[launches] = {kernel, gx, threads};
    launches++;
    Entry* entry = (Entry*)kernel;
    if (entry->device != current) return 400;  // cudaErrorInvalidResourceHandle
    open_();
    int status = together ? entry->together(entry->body, arguments, gx, threads)
                          : entry->run(entry->body, arguments, gx, gy, threads, shared);
    close_();
    return status ? 999 : 0;
}
int fake_launch(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, void* stream, void** arguments, void** extra) {
    return launched(false, kernel, gx, gy, bx, shared, arguments);
}
int fake_together(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void* stream, void** arguments, void** extra) {
    return launched(true, kernel, gx, gy, bx, shared, arguments);
}
unsigned fake_reads() { return reads; }
int fake_read(void* host, uint64_t device, size_t bytes, void* stream) {
    std::lock_guard<std::mutex> guard(busy);
    reads++;
    open_();
    memcpy(host, (void*)device, bytes);
    close_();
    return 0;
}
int fake_copy(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    std::lock_guard<std::mutex> guard(busy);
    open_();
    memmove((void*)to, (void*)from, bytes);
    close_();
    return 0;
}
}

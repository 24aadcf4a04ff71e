// A processor that stands in for a GPU: runs a kernel's blocks one after the other, and a block's threads as fibers.
#include "attention.h"
#include "decide.h"
#include "product.h"
#include "rows.h"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace emulated {

thread_local Dim3 thread, block, blocks, threads;
thread_local void* lent;

namespace {

// Leaves the present stack at `from` and goes on with the one that was left at `to`: what a call has to keep is on it.
extern "C" void espalier_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.type espalier_switch, @function
espalier_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");
constexpr int KEPT = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.type espalier_switch, %function
espalier_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#endif

constexpr std::size_t STACK = 128 << 10;

// Those who wait for each other: all who are left of a warp or of a block.
struct Barrier {
    unsigned left = 0, here = 0, turn = 0;
};

struct Fiber {
    void* context = nullptr;
    std::vector<char> stack = std::vector<char>(STACK);
    bool is_done = true;
    // What it waits for, and since which turn of that; may be none.
    const Barrier* waits = nullptr;
    unsigned since = 0;

    // Makes it begin when it is switched to.
    void begin();
};

struct Warp {
    Barrier barrier;
    // Of two exchanges, as some may still read of the one before.
    std::uint32_t words[2][32][8];
    unsigned exchanges[32];
};

thread_local std::vector<Fiber> fibers;
thread_local std::vector<Warp> warps;
thread_local Barrier all;
thread_local void* scheduler;
thread_local std::function<void()> kernel;

void open(Barrier& barrier) {
    if (barrier.here == barrier.left) {
        barrier.here = 0;
        ++barrier.turn;
    }
}

void wait(Barrier& barrier) {
    Fiber& own = fibers[thread.x];
    own.waits = &barrier;
    own.since = barrier.turn;
    ++barrier.here;
    open(barrier);
    if (own.since == barrier.turn) espalier_switch(&own.context, scheduler);
    own.waits = nullptr;
}

void run() {
    kernel();
    Fiber& own = fibers[thread.x];
    own.is_done = true;
    Barrier& warp = warps[thread.x / 32].barrier;
    --warp.left;
    --all.left;
    open(warp);
    open(all);
    espalier_switch(&own.context, scheduler);
}

void Fiber::begin() {
    auto end = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~std::uintptr_t(15);
#if defined(__x86_64__)
    // A call leaves the stack 8 bytes off.
    auto top = reinterpret_cast<void**>(end - 16);
    *top = reinterpret_cast<void*>(run);
    context = top - KEPT;
#else
    auto top = reinterpret_cast<void**>(end - 160);
    top[11] = reinterpret_cast<void*>(run);
    context = top;
#endif
    is_done = false;
    waits = nullptr;
}

void run_block() {
    const unsigned count = threads.x;
    if (fibers.size() < count) fibers.resize(count);
    warps.resize(count / 32);
    all = {count, 0, 0};
    for (Warp& warp : warps) warp = {};
    for (unsigned at = 0; at < count; ++at) {
        Fiber& fiber = fibers[at];
        fiber.begin();
        ++warps[at / 32].barrier.left;
    }
    for (unsigned left = count; left > 0;) {
        left = 0;
        for (unsigned at = 0; at < count; ++at) {
            Fiber& fiber = fibers[at];
            if (fiber.is_done) continue;
            ++left;
            if (fiber.waits && fiber.waits->turn == fiber.since) continue;
            thread = {at, 0, 0};
            espalier_switch(&scheduler, fiber.context);
        }
    }
}

template <typename Arguments>
std::function<void(const void*)> entry(void (*kernel)(Arguments)) {
    return [kernel](const void* arguments) { kernel(*static_cast<const std::remove_const_t<Arguments>*>(arguments)); };
}

const std::map<std::string, std::function<void(const void*)>>& kernels() {
#define ENTRY(name) {#name, entry(name)}
#define PRODUCT_ENTRIES(tiles) ENTRY(product_##tiles##_sums), ENTRY(product_##tiles##_gated), ENTRY(product_##tiles##_plain)
    static const std::map<std::string, std::function<void(const void*)>> all = {
        ENTRY(embed), ENTRY(keep), ENTRY(move_rows), ENTRY(add_norm), ENTRY(give), ENTRY(heads), ENTRY(merge), ENTRY(decide), ENTRY(add_bias), ENTRY(pack),
        ENTRY(attend_16), ENTRY(attend_32), ENTRY(attend_64), ENTRY(attend_80), ENTRY(attend_96), ENTRY(attend_128),
        ENTRY(attend_256),
        PRODUCT_ENTRIES(1), PRODUCT_ENTRIES(2), PRODUCT_ENTRIES(4), PRODUCT_ENTRIES(8),
    };
    return all;
}

}  // namespace

const std::uint32_t (*exchange(const std::uint32_t* own, int words))[8] {
    Warp& warp = warps[thread.x / 32];
    auto& given = warp.words[warp.exchanges[thread.x % 32]++ % 2];
    std::copy(own, own + words, given[thread.x % 32]);
    wait(warp.barrier);
    return given;
}

void wait_for_block() { wait(all); }
void wait_for_warp() { wait(warps[thread.x / 32].barrier); }
void let_others() { espalier_switch(&fibers[thread.x].context, scheduler); }

}  // namespace emulated

// Runs a kernel to its end, whose blocks are lent so many bytes; 0 if there is one of this name.
extern "C" int espalier_emulate(const char* name, const unsigned* grid, unsigned threads, unsigned bytes, const void* arguments) {
    const auto found = emulated::kernels().find(name);
    if (found == emulated::kernels().end()) return 1;
    std::vector<std::max_align_t> lent(bytes / sizeof(std::max_align_t) + 1);
    emulated::lent = lent.data();
    emulated::threads = {threads, 1, 1};
    emulated::blocks = {grid[0], grid[1], grid[2]};
    emulated::kernel = [&] { found->second(arguments); };
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                emulated::block = {x, y, z};
                emulated::run_block();
            }
    return 0;
}

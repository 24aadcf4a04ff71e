// What all kernels share: the sizes that they agree on with the host, and the few things that the processor's stand-in for
// a GPU (emulated.h) does in another way.
#pragma once

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define SHARED __shared__
// Shared memory of the size that a launch says.
#define LENT(kind, name)                                   \
    extern __shared__ __align__(128) unsigned char lent[]; \
    kind* name = (kind*)lent
#else
#include "emulated.h"
#endif

typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Where a row stands: what the host tells of it, and how it finds the keys and values that it sees.
struct RowAt {
    // Positions that it sees, its own among them; 0 for a row that is only there to fill up.
    u32 end;
    // Positions before this one lie in the slots of the same number.
    u32 shared;
    // The others lie in runs of slots: {first position, first slot} each.
    u32 runs_at, runs;
    // The blocks of its sequence.
    u32 blocks_at;
    // So many positions, the first ones, have hidden states beside them.
    u32 stated;
    // Where the keys and values of each layer are: two addresses each.
    u32 memory_at;
    // Where its own key and value go.
    u32 place;
};

namespace {

// Threads that do the same at once.
constexpr int WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
// Positions of a block of keys and values, and of a tile of attention.
constexpr int BLOCK = 64;
// Numbers of which a step of a product takes as many of each row.
constexpr int STEP = 32;
// Most parts that a sum comes in: splits of a product, or ranks.
constexpr int PARTS = 8;
// What a row has seen before it sees anything: less than any score.
constexpr float NOTHING = -1e30f;

#ifdef __CUDACC__

// Waits until the kernel before this one has written all it writes.
DEVICE void wait_for_inputs() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the kernel after this one begin, up to where it waits.
DEVICE void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// In shared memory: opens each time when as many threads have come as it was made for, and as many bytes as were announced.
typedef u64 Gate;

DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

DEVICE void make_gate(Gate* gate, u32 threads) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(gate)), "r"(threads) : "memory");
}

// Gates are made before this, and used after the next __syncthreads.
DEVICE void gates_are_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void come(Gate* gate) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(gate)) : "memory");
}

DEVICE void come_and_announce(Gate* gate, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(gate)), "r"(bytes) : "memory");
}

// Waits until a gate has opened an odd number of times where `turn` is 0, an even one where it is 1.
DEVICE void wait_for(Gate* gate, u32 turn) {
    asm volatile(
        "{\n"
        ".reg .pred open;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared.b64 open, [%0], %1;\n"
        "@!open bra again;\n"
        "}" ::"r"(shared_address(gate)), "r"(turn) : "memory");
}

// Copies bytes, a multiple of 16, into shared memory, and has a gate told of them once they are there. Nobody will read them
// again soon.
DEVICE void stream(void* to, const void* from, u32 bytes, Gate* gate) {
    asm volatile(
        "{\n"
        ".reg .b64 policy;\n"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy;\n"
        "}" ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(gate)) : "memory");
}

// The same with what others read, too.
DEVICE void fetch(void* to, const void* from, u32 bytes, Gate* gate) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(gate)) : "memory");
}

// Has a line of memory brought near, for whoever reads it next.
DEVICE void bring_near(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Has all that this thread wrote seen by other GPUs before what it tells them next.
DEVICE void be_seen_by_ranks() { __threadfence_system(); }

DEVICE void tell_rank(u32* at, u32 turn) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(turn) : "memory"); }

// Waits until a rank has told this turn, or a later one. One that has not in ten seconds has failed: so does this one then.
DEVICE void wait_for_rank(const u32* at, u32 turn) {
    constexpr u64 LONGEST = 10000000000ull;
    const auto now = [] {
        u64 nanoseconds;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
        return nanoseconds;
    };
    const auto told = [at] {
        u32 turn;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(turn) : "l"(at) : "memory");
        return turn;
    };
    for (const u64 begun = now(); int(told() - turn) < 0;)
        if (now() - begun > LONGEST) __trap();
}

DEVICE bf16 to_bf16(float number) {
    bf16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(number));
    return rounded;
}

DEVICE float from_bits(u32 bits) { return __uint_as_float(bits); }

DEVICE float exp_of(float x) { return __expf(x); }

DEVICE int leading_zeros(u64 bits) { return __clzll(bits); }

// Adds a 16 x 16 tile of a matrix times 16 numbers of 8 rows. Lane l has of the sums those of outputs l / 4 and l / 4 + 8 in
// rows 2 (l % 4) and one more: {output, row} {0, 0} {0, 1} {8, 0} {8, 1}.
DEVICE void multiply_add(float (&sums)[4], const uint4& weights, u32 low, u32 high) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(weights.x), "r"(weights.y), "r"(weights.z), "r"(weights.w), "r"(low), "r"(high));
}

// Of a matrix of 8 x 8 numbers, of which lane l has 2 (l % 4) and one more of row l / 4, the one with rows for columns.
DEVICE u32 transposed(u32 pair) {
    u32 told;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(told) : "r"(pair));
    return told;
}

#endif

DEVICE float low_bf16(u32 pair) { return from_bits(pair << 16); }
DEVICE float high_bf16(u32 pair) { return from_bits(pair & 0xffff0000u); }
DEVICE float from_bf16(bf16 number) { return from_bits(u32(number) << 16); }

// Where number k of a row lies among rows that are packed for a product of so many steps: 8 * `tiles` rows side by side,
// each 8 rows of a step in the order in which lanes multiply them.
DEVICE u64 packed_place(int row, int k, int steps, int tiles) {
    const int group = row / (8 * tiles), tile = row / 8 % tiles, step = k / STEP;
    const int lane = row % 8 * 4 + k % 8 / 2, half = k % STEP / 16, high = k % 16 / 8;
    return ((u64(group) * steps + step) * tiles + tile) * (8 * STEP) + lane * 8 + half * 4 + high * 2 + k % 2;
}

DEVICE float warp_sum(float x) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
    return x;
}

// The sum over all threads of a block, which all are told. `sums` has a number for each warp.
DEVICE float block_sum(float x, float* sums) {
    x = warp_sum(x);
    const int warps = blockDim.x / WARP;
    __syncthreads();
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < warps; ++warp) sum += sums[warp];
    return sum;
}

// The keys, or with `which` 1 the values, of a layer where a row has them.
DEVICE bf16* memory_of(const RowAt& row, const u32* lists, int layer, int which) {
    return (bf16*)((const u64*)(lists + row.memory_at))[2 * layer + which];
}

// Where a position of a row lies among the slots of all blocks.
DEVICE u32 place_of(const RowAt& row, const u32* lists, u32 position) {
    u32 slot = position;
    if (position >= row.shared) {
        const u32* run = lists + row.runs_at;
        u32 last = row.runs - 1;
        while (last > 0 && run[2 * last] > position) --last;
        slot = run[2 * last + 1] + (position - run[2 * last]);
    }
    return lists[row.blocks_at + slot / BLOCK] * BLOCK + slot % BLOCK;
}

}  // namespace

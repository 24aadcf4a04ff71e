// What kernels need of a GPU, on a processor: each thread of a block is a fiber, and those that wait for each other take
// turns. Slow, and exact enough to test what kernels compute and how they wait.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>

#define DEVICE inline
#define KERNEL(threads, blocks) extern "C" void
#define SHARED static thread_local
#define LENT(kind, name) kind* name = (kind*)emulated::lent

struct uint4 {
    unsigned x, y, z, w;
};

struct float2 {
    float x, y;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

struct Dim3 {
    unsigned x, y, z;
};

namespace emulated {

extern thread_local Dim3 thread, block, blocks, threads;

// Shared memory that a block is lent.
extern thread_local void* lent;

// What the lanes of the present thread's warp give each other: 8 words each. All who are still at work have given theirs
// when it returns.
const std::uint32_t (*exchange(const std::uint32_t* own, int words))[8];

void wait_for_block();
void wait_for_warp();
// Lets the other threads of the block go on.
void let_others();

template <typename Number>
Number shuffle(Number number, int from) {
    std::uint32_t word;
    std::memcpy(&word, &number, sizeof word);
    const std::uint32_t got = exchange(&word, 1)[from % 32][0];
    std::memcpy(&number, &got, sizeof number);
    return number;
}

}  // namespace emulated

#define threadIdx emulated::thread
#define blockIdx emulated::block
#define blockDim emulated::threads
#define gridDim emulated::blocks

using std::max;
using std::min;

#define __syncthreads emulated::wait_for_block
#define __syncwarp emulated::wait_for_warp
#define __shfl_sync(lanes, number, from) emulated::shuffle(number, from)
#define __shfl_xor_sync(lanes, number, offset) emulated::shuffle(number, int(threadIdx.x % 32) ^ int(offset))

inline void wait_for_inputs() {}
inline void let_next_begin() {}
inline void gates_are_made() {}
inline void bring_near(const void*) {}

struct Gate {
    unsigned threads, left, opened;
    long bytes;
};

inline void make_gate(Gate* gate, unsigned threads) { *gate = {threads, threads, 0, 0}; }
inline void open_if_due(Gate* gate) {
    if (gate->left > 0 || gate->bytes > 0) return;
    gate->left = gate->threads;
    ++gate->opened;
}
inline void come_and_announce(Gate* gate, unsigned bytes) {
    gate->bytes += bytes;
    --gate->left;
    open_if_due(gate);
}
inline void come(Gate* gate) { come_and_announce(gate, 0); }
inline void wait_for(Gate* gate, unsigned turn) {
    while (gate->opened % 2 == turn) emulated::let_others();
}
inline void fetch(void* to, const void* from, unsigned bytes, Gate* gate) {
    std::memcpy(to, from, bytes);
    gate->bytes -= bytes;
    open_if_due(gate);
}
inline void stream(void* to, const void* from, unsigned bytes, Gate* gate) { fetch(to, from, bytes, gate); }
// Ranks are threads of the processor, and have the same memory.
inline void be_seen_by_ranks() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void tell_rank(unsigned* at, unsigned turn) { __atomic_store_n(at, turn, __ATOMIC_RELEASE); }
inline void wait_for_rank(const unsigned* at, unsigned turn) {
    while (int(__atomic_load_n(at, __ATOMIC_ACQUIRE) - turn) < 0) {
        std::this_thread::yield();
        emulated::let_others();
    }
}
inline float from_bits(unsigned bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}
inline unsigned short to_bf16(float number) {
    unsigned bits;
    std::memcpy(&bits, &number, sizeof bits);
    if (number != number) return (unsigned short)((bits >> 16) | 0x40);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float exp_of(float x) { return std::exp(x); }
inline int leading_zeros(unsigned long long bits) { return bits ? __builtin_clzll(bits) : 64; }

inline unsigned transposed(unsigned pair) {
    const auto lanes = emulated::exchange(&pair, 1);
    const int column = int(threadIdx.x % 32) / 4, row = int(threadIdx.x % 4) * 2;
    const auto number = [&](int row) { return lanes[row * 4 + column / 2][0] >> (column % 2 * 16) & 0xffff; };
    return number(row) | number(row + 1) << 16;
}

// See common.h. Lane l has of the matrix' tile rows l / 4 and l / 4 + 8, of each the numbers 2 (l % 4) and one more, and the
// same 8 further on; of the other rows row l / 4 and the same numbers.
inline void multiply_add(float (&sums)[4], const uint4& weights, unsigned low, unsigned high) {
    const std::uint32_t own[6] = {weights.x, weights.y, weights.z, weights.w, low, high};
    const auto lanes = emulated::exchange(own, 6);
    const int lane = int(threadIdx.x % 32);
    const auto half = [](std::uint32_t pair, int which) { return from_bits(which ? pair & 0xffff0000u : pair << 16); };
    for (int i = 0; i < 4; ++i) {
        const int output = lane / 4 + i / 2 * 8, row = lane % 4 * 2 + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; ++k) {
            const auto& weight = lanes[output % 8 * 4 + k % 8 / 2];
            const auto& number = lanes[row * 4 + k % 8 / 2];
            sum += half(weight[k / 8 * 2 + output / 8], k % 2) * half(number[4 + k / 8], k % 2);
        }
        sums[i] += sum;
    }
}

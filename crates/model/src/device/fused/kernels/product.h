// Rows times a matrix. Its weights stream from memory straight into registers, in the order in which tensor cores want them;
// how a row's sums are added up does not depend on the rows beside it.
#pragma once
#include "common.h"

struct Product {
    // (tiles of 32 outputs, steps, 2 of 16 outputs, 2 of 16 numbers, lanes, 8)
    const uint4* weights;
    // Rows that are packed for so many steps.
    const uint4* x;
    // (splits, rows, outputs), where sums are wanted.
    float* sums;
    // Packed rows of what activations come to, where those are wanted.
    bf16* units;
    // (2, outputs) for gates and what they let pass, (outputs) for plain activations; may be missing.
    const float* bias;
    int tiles, steps, outputs, splits, rows, activation, unit_steps, filler;
};

namespace {

enum Outcome { SUMS, GATED, PLAIN };
enum Activation { SILU, GELU, GELU_TANH, RELU };

// A block of threads has so many warps side by side, each with 32 outputs, and as many warps share the steps.
constexpr int WIDE = 4;
constexpr int DEEP = 2;

DEVICE float activated(float x, int activation) {
    switch (activation) {
        case SILU: return x / (1.0f + exp_of(-x));
        case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        default: return fmaxf(x, 0.0f);
    }
}

// TILES times 8 rows. How many steps are loaded ahead is a matter of registers.
template <int TILES, int OUTCOME>
DEVICE void product(const Product& p) {
    constexpr int AHEAD = TILES > 4 ? 2 : 4;
    SHARED float others[WIDE * WARP * TILES * 8];
    let_next_begin();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, wide = warp % WIDE, deep = warp / WIDE;
    const int tile = blockIdx.y * WIDE + wide, group = blockIdx.x;
    const int each = (p.steps + p.splits * DEEP - 1) / (p.splits * DEEP), part = blockIdx.z * DEEP + deep;
    const int first = tile < p.tiles ? min(part * each, p.steps) : 0;
    const int last = tile < p.tiles ? min(first + each, p.steps) : 0;
    const uint4* weights = p.weights + u64(tile) * p.steps * 128 + lane;
    uint4 loaded[AHEAD][4];
    float sums[2][TILES][4] = {};
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead)
        if (first + ahead < last)
#pragma unroll
            for (int part = 0; part < 4; ++part)
                loaded[ahead][part] = load_once(weights + u64(first + ahead) * 128 + part * WARP);
    wait_for_inputs();
    const uint4* x = p.x + u64(group) * p.steps * TILES * WARP + lane;
    for (int from = first; from < last; from += AHEAD) {
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead) {
            const int step = from + ahead;
            if (step >= last) break;
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                const uint4 rows = x[u64(step * TILES + tile) * WARP];
#pragma unroll
                for (int upper = 0; upper < 2; ++upper) {
                    multiply_add(sums[upper][tile], loaded[ahead][2 * upper], rows.x, rows.y);
                    multiply_add(sums[upper][tile], loaded[ahead][2 * upper + 1], rows.z, rows.w);
                }
            }
            if (step + AHEAD < last)
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    loaded[ahead][part] = load_once(weights + u64(step + AHEAD) * 128 + part * WARP);
        }
    }
    // What the warps that share the steps came to, in their order.
    float* own = others + wide * WARP * TILES * 8 + lane;
    if (deep == 1)
#pragma unroll
        for (int i = 0; i < TILES * 8; ++i) own[i * WARP] = sums[i / (TILES * 4)][i / 4 % TILES][i % 4];
    __syncthreads();
    if (deep == 1 || tile >= p.tiles) return;
#pragma unroll
    for (int i = 0; i < TILES * 8; ++i) sums[i / (TILES * 4)][i / 4 % TILES][i % 4] += own[i * WARP];
#pragma unroll
    for (int i = 0; i < TILES * 4; ++i) {
        const int row = group * TILES * 8 + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int output = lane / 4 + i / 2 % 2 * 8;
        const float lower = sums[0][i / 4][i % 4], upper = sums[1][i / 4][i % 4];
        if (OUTCOME == GATED) {
            const int unit = tile * 16 + output;
            const float gate = p.bias && unit < p.outputs ? lower + p.bias[unit] : lower;
            const float let = p.bias && unit < p.outputs ? upper + p.bias[p.outputs + unit] : upper;
            const bf16 passed = to_bf16(activated(gate, p.activation) * let);
            if (unit < p.unit_steps * STEP) p.units[packed_place(row, unit, p.unit_steps, TILES)] = passed;
        }
#pragma unroll
        for (int half = 0; half < 2 && OUTCOME != GATED; ++half) {
            const int at = tile * 32 + half * 16 + output;
            const float sum = half ? upper : lower;
            if (OUTCOME == PLAIN) {
                const float biased = p.bias && at < p.outputs ? sum + p.bias[at] : sum;
                if (at < p.unit_steps * STEP)
                    p.units[packed_place(row, at, p.unit_steps, TILES)] = to_bf16(activated(biased, p.activation));
            } else if (at < p.outputs) {
                p.sums[(u64(blockIdx.z) * p.rows + row) * p.outputs + at] = sum;
            }
        }
    }
}

}  // namespace

#define PRODUCTS(TILES)                                                                   \
    KERNEL(256, 2) product_##TILES##_sums(const Product p) { product<TILES, SUMS>(p); }   \
    KERNEL(256, 2) product_##TILES##_gated(const Product p) { product<TILES, GATED>(p); } \
    KERNEL(256, 2) product_##TILES##_plain(const Product p) { product<TILES, PLAIN>(p); }

PRODUCTS(1)
PRODUCTS(2)
PRODUCTS(4)
PRODUCTS(8)

// Puts a matrix (outputs, inputs) into the order of products.
struct Pack {
    const bf16* from;
    bf16* to;
    int outputs, inputs, steps;
    // Its first output; where two matrices alternate, 16 outputs of each, whether it is the second one.
    int first, alternate;
};

KERNEL(256, 1) pack(const Pack p) {
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= u64(p.outputs) * p.inputs) return;
    const int unit = int(at / p.inputs), k = int(at % p.inputs);
    const int output = p.alternate ? unit / 16 * 32 + p.first + unit % 16 : p.first + unit;
    const int lane = output % 8 * 4 + k % 8 / 2;
    const int within = k % 16 / 8 * 4 + output % 16 / 8 * 2 + k % 2;
    const u64 tile = (u64(output / 32) * p.steps + k / STEP) * 4 + output % 32 / 16 * 2 + k % STEP / 16;
    p.to[(tile * WARP + lane) * 8 + within] = p.from[at];
}

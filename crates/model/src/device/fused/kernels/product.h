// Rows times a matrix. Weights stream from memory through a ring in shared memory, in the order in which tensor cores want
// them; how a row's sums are added up does not depend on the rows beside it.
#pragma once
#include "common.h"

struct Product {
    // (groups of tiles, steps, tiles of a group, 2 of 16 outputs, 2 of 16 numbers, lanes, 8), a tile being 32 outputs
    const uint4* weights;
    // Rows that are packed for so many steps.
    const uint4* x;
    // (splits, rows, outputs), where sums are wanted.
    float* sums;
    // Packed rows of what activations come to, where those are wanted.
    bf16* units;
    // (2, outputs) for gates and what they let pass, (outputs) for plain activations; may be missing.
    const float* bias;
    // Tiles of a group: `wide`; steps of a split: `each`; places of the ring: `places`.
    int tiles, wide, steps, each, splits, outputs, rows, activation, unit_steps, places;
};

namespace {

enum Outcome { SUMS, GATED, PLAIN };
enum Activation { SILU, GELU, GELU_TANH, RELU };

// Most places of a ring.
constexpr int PLACES_MAX = 32;
// Of 16 bytes: weights of a tile in a step, and numbers of 8 rows.
constexpr int TILE_LINES = 4 * WARP;
constexpr int ROW_LINES = WARP;
constexpr int LINE = sizeof(uint4);

DEVICE float activated(float x, int activation) {
    switch (activation) {
        case SILU: return x / (1.0f + exp_of(-x));
        case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        default: return fmaxf(x, 0.0f);
    }
}

// What a block of threads does between two of its results: some rows, times the steps of a split of a group of tiles.
struct Job {
    int rows, split, tiles, first, last;
};

// Blocks that work at the same time take the same weights to different rows.
template <int TILES>
DEVICE Job job_of(const Product& p, int at) {
    const int groups = p.rows / (8 * TILES), split = at / groups % p.splits;
    return {at % groups, split, at / groups / p.splits, split * p.each, min((split + 1) * p.each, p.steps)};
}

template <int TILES>
DEVICE int jobs_of(const Product& p) {
    return p.rows / (8 * TILES) * p.splits * ((p.tiles + p.wide - 1) / p.wide);
}

// All steps of a block of threads, those of one job after those of the other. Groups of tiles begin with different steps:
// else all blocks would ask for the same rows at the same time.
template <int TILES>
struct Steps {
    const Product& p;
    int at, jobs;
    Job job;
    int step, left;

    DEVICE Steps(const Product& p) : p(p), at(blockIdx.x), jobs(jobs_of<TILES>(p)) { begin(); }

    DEVICE bool are_left() const { return at < jobs; }

    DEVICE void begin() {
        job = job_of<TILES>(p, at);
        left = job.last - job.first;
        step = job.first + job.tiles % left;
    }

    DEVICE void next() {
        if (++step == job.last) step = job.first;
        if (--left > 0) return;
        at += gridDim.x;
        if (are_left()) begin();
    }

    DEVICE const uint4* weights() const { return p.weights + (u64(job.tiles) * p.steps + step) * p.wide * TILE_LINES; }
    DEVICE const uint4* rows() const { return p.x + (u64(job.rows) * p.steps + step) * TILES * ROW_LINES; }
};

// Places in shared memory, each with the weights and rows of a step: they are filled and emptied in turns.
struct Ring {
    uint4* lines;
    Gate *filled, *emptied;
    int places, lines_of_place;
    int place = 0;
    u32 turn = 0;

    DEVICE void next() {
        if (++place < places) return;
        place = 0;
        turn ^= 1;
    }

    DEVICE uint4* weights() const { return lines + place * lines_of_place; }
    DEVICE uint4* rows(int wide) const { return weights() + wide * TILE_LINES; }
};

// Fills a ring: with weights as far as it goes before anything else is there, as they depend on nothing.
template <int TILES>
DEVICE void fill(const Product& p, Ring ring) {
    const u32 of_weights = p.wide * TILE_LINES * LINE, of_rows = TILES * ROW_LINES * LINE;
    Steps<TILES> of(p), late(p);
    int early = 0;
    for (; early < ring.places && of.are_left(); ++early, of.next(), ring.next()) {
        come_and_announce(ring.filled + ring.place, of_weights + of_rows);
        stream(ring.weights(), of.weights(), of_weights, ring.filled + ring.place);
    }
    wait_for_inputs();
    ring.place = 0;
    ring.turn = 0;
    for (; early > 0; --early, late.next(), ring.next())
        fetch(ring.rows(p.wide), late.rows(), of_rows, ring.filled + ring.place);
    ring.turn = 0;
    for (; of.are_left(); of.next(), ring.next()) {
        wait_for(ring.emptied + ring.place, ring.turn);
        come_and_announce(ring.filled + ring.place, of_weights + of_rows);
        stream(ring.weights(), of.weights(), of_weights, ring.filled + ring.place);
        fetch(ring.rows(p.wide), of.rows(), of_rows, ring.filled + ring.place);
    }
}

// Tells what a warp's tile came to: sums of lane l are those of `multiply_add`, for 2 times 16 outputs and TILES times 8 rows.
template <int TILES, int OUTCOME>
DEVICE void tell(const Product& p, const Job& job, int tile, int lane, const float (&sums)[2][TILES][4]) {
#pragma unroll
    for (int i = 0; i < TILES * 4; ++i) {
        const int row = job.rows * TILES * 8 + i / 4 * 8 + lane % 4 * 2 + i % 2;
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
                p.sums[(u64(job.split) * p.rows + row) * p.outputs + at] = sum;
            }
        }
    }
}

// TILES times 8 rows. A block has a warp for each tile of a group, and one more that fills the ring.
template <int TILES, int OUTCOME>
DEVICE void product(const Product& p, uint4* lines) {
    SHARED Gate filled[PLACES_MAX], emptied[PLACES_MAX];
    let_next_begin();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (threadIdx.x == 0) {
        for (int place = 0; place < p.places; ++place) {
            make_gate(filled + place, 1);
            make_gate(emptied + place, p.wide);
        }
        gates_are_made();
    }
    __syncthreads();
    Ring ring = {lines, filled, emptied, p.places, p.wide * TILE_LINES + TILES * ROW_LINES};
    if (warp == p.wide) {
        if (lane == 0) fill<TILES>(p, ring);
        return;
    }
    wait_for_inputs();
    const int jobs = jobs_of<TILES>(p);
    for (int at = blockIdx.x; at < jobs; at += gridDim.x) {
        const Job job = job_of<TILES>(p, at);
        float sums[2][TILES][4] = {};
        for (int step = job.first; step < job.last; ++step, ring.next()) {
            wait_for(ring.filled + ring.place, ring.turn);
            const uint4* weights = ring.weights() + warp * TILE_LINES + lane;
            const uint4* rows = ring.rows(p.wide) + lane;
            uint4 loaded[4];
#pragma unroll
            for (int part = 0; part < 4; ++part) loaded[part] = weights[part * WARP];
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                const uint4 eight = rows[tile * ROW_LINES];
#pragma unroll
                for (int upper = 0; upper < 2; ++upper) {
                    multiply_add(sums[upper][tile], loaded[2 * upper], eight.x, eight.y);
                    multiply_add(sums[upper][tile], loaded[2 * upper + 1], eight.z, eight.w);
                }
            }
            __syncwarp();
            if (lane == 0) come(ring.emptied + ring.place);
        }
        const int tile = job.tiles * p.wide + warp;
        if (tile < p.tiles) tell<TILES, OUTCOME>(p, job, tile, lane, sums);
    }
}

}  // namespace

#define PRODUCT(TILES, NAME, OUTCOME)                               \
    KERNEL(288, 1) product_##TILES##_##NAME(const Product p) { \
        LENT(uint4, lines);                                      \
        product<TILES, OUTCOME>(p, lines);                       \
    }
#define PRODUCTS(TILES)         \
    PRODUCT(TILES, sums, SUMS)  \
    PRODUCT(TILES, gated, GATED) \
    PRODUCT(TILES, plain, PLAIN)

PRODUCTS(1)
PRODUCTS(2)
PRODUCTS(4)
PRODUCTS(8)

// Puts a matrix (outputs, inputs) into the order of products.
struct Pack {
    const bf16* from;
    bf16* to;
    // Steps, and tiles of a group.
    int outputs, inputs, steps, wide;
    // Its first output; where two matrices alternate, 16 outputs of each, whether it is the second one.
    int first, alternate;
};

KERNEL(256, 1) pack(const Pack p) {
    wait_for_inputs();
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= u64(p.outputs) * p.inputs) return;
    const int unit = int(at / p.inputs), k = int(at % p.inputs);
    const int output = p.alternate ? unit / 16 * 32 + p.first + unit % 16 : p.first + unit;
    const int lane = output % 8 * 4 + k % 8 / 2;
    const int within = k % 16 / 8 * 4 + output % 16 / 8 * 2 + k % 2;
    const int tile = output / 32;
    const u64 of_step = (u64(tile / p.wide) * p.steps + k / STEP) * p.wide + tile % p.wide;
    const u64 part = of_step * 4 + output % 32 / 16 * 2 + k % STEP / 16;
    p.to[(part * WARP + lane) * 8 + within] = p.from[at];
}

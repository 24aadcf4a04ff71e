// The best tokens of rows, so that few numbers leave the device.
#pragma once
#include "common.h"

struct Decide {
    // (rows, vocabulary)
    const float* logits;
    // For each wanted row: the first faulty token, the sums of weights and of weights times scores relative to the best, and
    // `count` times a logit and its token.
    float* said;
    // Which rows are wanted, and of how many tokens the first ones count.
    const u32 *rows, *limits;
    int vocabulary, count;
};

namespace {

constexpr float NO_TOKEN = 16777216.0f;
// What is far below the best adds less than f32 can tell.
constexpr float LEAST_SCORE = -80.0f;
constexpr float LOWEST = -3.402823466e38f;

struct Candidate {
    float logit;
    u32 token;
};

// Larger, or equal and the smaller token.
DEVICE bool is_better(const Candidate& one, const Candidate& other) {
    return one.logit > other.logit || (one.logit == other.logit && one.token < other.token);
}

DEVICE bool is_faulty(float logit) { return !(logit <= 3.402823466e38f); }

// Does something for each logit of a thread, in the order of tokens: by fours, many of them on their way at once.
template <typename Work>
DEVICE void each_logit(const float* logits, u32 limit, Work work) {
    constexpr int AT_ONCE = 8;
    const bool by_fours = u64(logits) % sizeof(float4) == 0;
    const u32 fours = by_fours ? limit / 4 : 0;
    for (u32 from = threadIdx.x; from < fours; from += AT_ONCE * blockDim.x) {
        float4 loaded[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (from + i * blockDim.x < fours) loaded[i] = ((const float4*)logits)[from + i * blockDim.x];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const u32 four = from + i * blockDim.x;
            if (four >= fours) break;
            work(4 * four, loaded[i].x);
            work(4 * four + 1, loaded[i].y);
            work(4 * four + 2, loaded[i].z);
            work(4 * four + 3, loaded[i].w);
        }
    }
    for (u32 token = 4 * fours + threadIdx.x; token < limit; token += blockDim.x) work(token, logits[token]);
}

}  // namespace

KERNEL(1024, 1) decide(const Decide p) {
    SHARED float sums[32];
    SHARED Candidate found[32];
    let_next_begin();
    wait_for_inputs();
    const Candidate none = {-INFINITY, u32(NO_TOKEN)};
    const float* logits = p.logits + u64(p.rows[blockIdx.x]) * p.vocabulary;
    float* said = p.said + u64(blockIdx.x) * (3 + 2 * p.count);
    const u32 limit = p.limits[blockIdx.x];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Candidate best = none;
    u32 faulty = u32(NO_TOKEN);
    each_logit(logits, limit, [&](u32 token, float logit) {
        const Candidate here = {logit, token};
        if (is_faulty(logit)) {
            faulty = min(faulty, token);
        } else if (is_better(here, best)) {
            best = here;
        }
    });
    float peak = LOWEST;
    for (int round = -1; round < p.count; ++round) {
        // The best of all threads' best; in the first round for the peak alone.
        Candidate first = best;
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
            const Candidate other = {__shfl_xor_sync(ALL_LANES, first.logit, offset), __shfl_xor_sync(ALL_LANES, first.token, offset)};
            if (is_better(other, first)) first = other;
        }
        __syncthreads();
        if (lane == 0) found[warp] = first;
        __syncthreads();
        first = found[0];
        for (int other = 1; other < int(blockDim.x) / WARP; ++other)
            if (is_better(found[other], first)) first = found[other];
        if (round < 0) {
            peak = fmaxf(first.logit, LOWEST);
            float weights = 0, moment = 0;
            each_logit(logits, limit, [&](u32, float logit) {
                if (is_faulty(logit)) return;
                const float score = fmaxf(logit - peak, LEAST_SCORE), weight = exp_of(score);
                weights += weight;
                moment += weight * score;
            });
            weights = block_sum(weights, sums);
            moment = block_sum(moment, sums);
            for (int offset = WARP / 2; offset > 0; offset /= 2) faulty = min(faulty, __shfl_xor_sync(ALL_LANES, faulty, offset));
            __syncthreads();
            if (lane == 0) found[warp].token = faulty;
            __syncthreads();
            if (threadIdx.x == 0) {
                for (int other = 0; other < int(blockDim.x) / WARP; ++other) faulty = min(faulty, found[other].token);
                said[0] = float(faulty);
                said[1] = weights;
                said[2] = moment;
            }
            continue;
        }
        if (threadIdx.x == 0) {
            said[3 + 2 * round] = first.logit;
            said[4 + 2 * round] = float(first.token);
        }
        // Whose it was looks for its next one.
        if (first.token == best.token && round + 1 < p.count && first.token != none.token) {
            best = none;
            each_logit(logits, limit, [&](u32 token, float logit) {
                const Candidate here = {logit, token};
                if (!is_faulty(logit) && is_better(first, here) && is_better(here, best)) best = here;
            });
        }
    }
}

// Adds a bias to rows.
struct AddBias {
    float* rows;
    const float* bias;
    int width;
};

KERNEL(256, 1) add_bias(const AddBias p) {
    let_next_begin();
    wait_for_inputs();
    float* row = p.rows + u64(blockIdx.x) * p.width;
    for (int k = threadIdx.x; k < p.width; k += blockDim.x) row[k] += p.bias[k];
}

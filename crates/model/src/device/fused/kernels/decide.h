// The best tokens of rows, so that few numbers leave the device.
#pragma once
#include "common.h"

// What is wanted of a row.
struct Wanted {
    u32 row;
    // So many tokens count, the first ones of the vocabulary.
    u32 limit;
    // Under noise, what the noise of all tokens is made of, and by what logits are multiplied; without, the latter is 0.
    u32 key_low, key_high;
    float scale;
};

struct Decide {
    // (rows, vocabulary)
    const float* logits;
    // For each wanted row: the first faulty token, the sums of weights and of weights times scores relative to the best, and
    // `count` times a logit and its token. Under noise the greatest logit and 0 stand for the sums, and the order of tokens
    // is that of their scores.
    float* said;
    const Wanted* wanted;
    // Of the vocabulary this rank has so many tokens, from the first one on.
    int vocabulary, count, first;
};

namespace {

constexpr float NO_TOKEN = 16777216.0f;
// What is far below the best adds less than f32 can tell.
constexpr float LEAST_SCORE = -80.0f;
constexpr float LOWEST = -3.402823466e38f;

struct Candidate {
    float score;
    u32 token;
};

// Larger, or equal and the smaller token.
DEVICE bool is_better(const Candidate& one, const Candidate& other) {
    return one.score > other.score || (one.score == other.score && one.token < other.token);
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

// What the host's SplitMix64 makes of bits.
DEVICE u64 mix(u64 bits) {
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebull;
    return bits ^ bits >> 31;
}

// -ln(-ln u), rounded to f32 a few times, where 52 bits name the middle of a cell of (0, 1) as u. Near 1 the rest up to 1
// tells more than u.
DEVICE float gumbel(u64 bits) {
    constexpr u64 ONE = 1ull << 53;
    const u64 u = (bits >> 12) * 2 + 1;
    const float wait = u < ONE / 2 ? -logf(float(u) / float(ONE)) : -log1pf(-(float(ONE - u) / float(ONE)));
    return -logf(wait);
}

// What decides between the tokens of a row.
struct Rule {
    float peak, scale;
    u64 key;

    // A token's logit, or its score under noise; minus infinity if that is below `floor`.
    DEVICE float score(u32 token, float logit, float floor) const {
        constexpr u64 GOLDEN = 0x9e3779b97f4a7c15ull;
        // Of bits that begin with so many ones, noise is below one more of these.
        constexpr float OF_ONE = 0.69315f;
        if (scale == 0) return logit;
        const float score = (logit - peak) * scale;
        const u64 bits = mix(key + (u64(token) + 1) * GOLDEN);
        if (score + OF_ONE * float(leading_zeros(~bits) + 1) < floor) return -INFINITY;
        // Rounded in one way wherever it is inlined.
        return fmaf(logit - peak, scale, gumbel(bits));
    }
};

// The best of all threads' candidates, which all are told. `found` has one for each warp.
DEVICE Candidate best_of_block(Candidate best, Candidate* found) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const float score = __shfl_xor_sync(ALL_LANES, best.score, offset);
        const Candidate other = {score, __shfl_xor_sync(ALL_LANES, best.token, offset)};
        if (is_better(other, best)) best = other;
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = best;
    __syncthreads();
    best = found[0];
    for (int other = 1; other < int(blockDim.x) / WARP; ++other)
        if (is_better(found[other], best)) best = found[other];
    return best;
}

}  // namespace

KERNEL(1024, 1) decide(const Decide p) {
    SHARED float sums[32];
    SHARED Candidate found[32];
    let_next_begin();
    wait_for_inputs();
    const Candidate none = {-INFINITY, u32(NO_TOKEN)};
    const Wanted wanted = p.wanted[blockIdx.x];
    const u32 first = u32(p.first), limit = u32(min(max(int(wanted.limit) - p.first, 0), p.vocabulary));
    const float* logits = p.logits + u64(wanted.row) * p.vocabulary;
    float* said = p.said + u64(blockIdx.x) * (3 + 2 * p.count);
    Candidate best = none;
    u32 faulty = u32(NO_TOKEN);
    each_logit(logits, limit, [&](u32 at, float logit) {
        const Candidate here = {logit, first + at};
        if (is_faulty(logit)) {
            faulty = min(faulty, here.token);
        } else if (is_better(here, best)) {
            best = here;
        }
    });
    const float peak = fmaxf(best_of_block(best, found).score, LOWEST);
    // A thread's best among those that come after another.
    const Rule rule = {peak, wanted.scale, u64(wanted.key_high) << 32 | wanted.key_low};
    const auto next_after = [&](const Candidate& other) {
        best = none;
        each_logit(logits, limit, [&](u32 at, float logit) {
            if (is_faulty(logit)) return;
            const u32 token = first + at;
            const Candidate here = {rule.score(token, logit, best.score), token};
            if (is_better(other, here) && is_better(here, best)) best = here;
        });
    };
    float weights = peak, moment = 0;
    if (rule.scale == 0) {
        weights = 0;
        each_logit(logits, limit, [&](u32, float logit) {
            if (is_faulty(logit)) return;
            const float score = fmaxf(logit - peak, LEAST_SCORE), weight = exp_of(score);
            weights += weight;
            moment += weight * score;
        });
        weights = block_sum(weights, sums);
        moment = block_sum(moment, sums);
    } else {
        next_after({INFINITY, 0});
    }
    // The least of faulty tokens is the best of those that are worth the same.
    faulty = best_of_block({0, faulty}, found).token;
    if (threadIdx.x == 0) {
        said[0] = float(faulty);
        said[1] = weights;
        said[2] = moment;
    }
    for (int round = 0; round < p.count; ++round) {
        const Candidate next = best_of_block(best, found);
        if (threadIdx.x == 0) {
            said[3 + 2 * round] = next.token == none.token ? -INFINITY : logits[next.token - first];
            said[4 + 2 * round] = float(next.token);
        }
        // Whose it was looks for its next one.
        if (next.token == best.token && round + 1 < p.count && next.token != none.token) next_after(next);
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

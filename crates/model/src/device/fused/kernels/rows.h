// What is done to the stream of rows between products.
#pragma once
#include "common.h"

struct Embed {
    const u32* tokens;
    // (tokens, width)
    const bf16* embedding;
    // (rows, width)
    float* x;
    // Where rows go instead, if they are parts of a sum: (rows, width), or missing.
    float* sums;
    // The first token that there is a row of, and how many.
    int width, first, count;
};

KERNEL(256, 1) embed(const Embed p) {
    let_next_begin();
    wait_for_inputs();
    const u64 row = blockIdx.x, first = row * p.width;
    const u32 token = p.tokens[row] - u32(p.first);
    // Other ranks have the others.
    const bool is_own = token < u32(p.count);
    const bf16* from = p.embedding + u64(is_own ? token : 0) * p.width;
    for (int k = threadIdx.x; k < p.width; k += blockDim.x) {
        const float number = is_own ? from_bf16(from[k]) : 0.0f;
        if (p.sums) p.sums[first + k] = number;
        p.x[first + k] = p.sums ? 0.0f : number;
    }
}

// Some rows, to the first places.
struct Keep {
    const u32* rows;
    const float* from;
    float* to;
    int width;
};

KERNEL(256, 1) keep(const Keep p) {
    let_next_begin();
    wait_for_inputs();
    const u64 row = blockIdx.x, from = p.rows[row];
    for (int k = threadIdx.x; k < p.width; k += blockDim.x) p.to[row * p.width + k] = p.from[from * p.width + k];
}

// Moves rows of keys and values in all layers, one after the other.
struct MoveRows {
    // Where the addresses of keys and values are among the lists, and then {from, to} for each.
    const u32 *moves, *lists;
    // Numbers of a row.
    int count, width;
};

// A block for the keys, and one for the values, of each layer. A thread moves the same numbers of every row, so a row that
// was moved may be moved again.
KERNEL(256, 1) move_rows(const MoveRows p) {
    let_next_begin();
    wait_for_inputs();
    u32* all = (u32*)((const u64*)(p.lists + p.moves[0]))[blockIdx.x];
    const u64 width = p.width / 2;
    for (int move = 0; move < p.count; ++move) {
        const u64 from = p.moves[1 + 2 * move], to = p.moves[2 + 2 * move];
        for (u64 k = threadIdx.x; k < width; k += blockDim.x) all[to * width + k] = all[from * width + k];
    }
}

// Adds what a product came to, and then a norm.
struct AddNorm {
    // (rows, width)
    float* x;
    // (parts, a number of rows, width); not read where there are no parts. Of parts that ranks give there are two places,
    // one after the other.
    const float* sums;
    // Where these say so, a part has come: see `Give`. Missing where all parts are this rank's own.
    const u32 *given, *turns;
    // (width), or missing.
    const float* bias;
    // Of the norm: (width) each; none if nothing but the sum is wanted.
    const float *weight, *weight_bias;
    // What comes of the norm: packed rows of so many steps.
    bf16* normed;
    float eps;
    int width, parts, rows, is_centred, steps, tiles;
};

// Gives all ranks this one's part of a sum.
struct Give {
    // (splits, rows, width)
    const float* sums;
    // (width), or missing.
    const float* bias;
    // Of each rank: (2, ranks, most rows, width).
    float* inboxes[PARTS];
    // Of each rank: (ranks, most rows), the last turn in which a part of that row came from that rank.
    u32* given[PARTS];
    // (most rows): turns of each row so far.
    u32* turns;
    int width, splits, rows, most_rows, rank, ranks;
};

namespace {

DEVICE float4 added(const float4& a, const float4& b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

DEVICE float sum_of(const float4& a) { return a.x + a.y + a.z + a.w; }

DEVICE float square_of(const float4& a, float mean) {
    const float4 off = {a.x - mean, a.y - mean, a.z - mean, a.w - mean};
    return off.x * off.x + off.y * off.y + off.z * off.z + off.w * off.w;
}

// Four numbers of a row, each the sum of some parts in their order; parts are so many fours apart.
DEVICE float4 sum_of_parts(const float* row, u64 apart, int count, int k, const float* bias) {
    float4 parts[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
        if (part < count) parts[part] = ((const float4*)row)[part * apart + k];
    float4 sum = {0, 0, 0, 0};
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
        if (part < count) sum = added(sum, parts[part]);
    return bias ? added(sum, ((const float4*)bias)[k]) : sum;
}

}  // namespace

// A block for each row, which reads a row again rather than to hold it: so it finds room beside blocks of products.
KERNEL(512, 2) add_norm(const AddNorm p) {
    SHARED float warps[16];
    let_next_begin();
    wait_for_inputs();
    const int row = blockIdx.x, fours = p.width / 4;
    const u64 apart = u64(p.rows) * fours;
    float4* x = (float4*)(p.x + u64(row) * p.width);
    const float* sums = p.sums + u64(row) * p.width;
    if (p.given) {
        const u32 turn = p.turns[row];
        if (int(threadIdx.x) < p.parts) wait_for_rank(p.given + u64(threadIdx.x) * p.rows + row, turn);
        __syncthreads();
        sums += turn % 2 * p.parts * apart * 4;
    }
    float sum = 0, squares = 0;
#pragma unroll 2
    for (int k = threadIdx.x; k < fours; k += blockDim.x) {
        float4 here = x[k];
        if (p.parts > 0) {
            here = added(here, sum_of_parts(sums, apart, p.parts, k, p.bias));
            x[k] = here;
        }
        sum += sum_of(here);
        squares += square_of(here, 0);
    }
    if (!p.normed) return;
    float mean = 0;
    if (p.is_centred) {
        mean = block_sum(sum, warps) / p.width;
        squares = 0;
        for (int k = threadIdx.x; k < fours; k += blockDim.x) squares += square_of(x[k], mean);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, warps) / p.width + p.eps);
    for (int k = threadIdx.x; 4 * k < p.steps * STEP; k += blockDim.x) {
        float4 told = {0, 0, 0, 0};
        if (k < fours) {
            const float4 here = x[k], weight = ((const float4*)p.weight)[k];
            told = {(here.x - mean) * scale * weight.x, (here.y - mean) * scale * weight.y,
                    (here.z - mean) * scale * weight.z, (here.w - mean) * scale * weight.w};
            if (p.weight_bias) told = added(told, ((const float4*)p.weight_bias)[k]);
        }
        u32* to = (u32*)(p.normed + packed_place(row, 4 * k, p.steps, p.tiles));
        to[0] = u32(to_bf16(told.x)) | u32(to_bf16(told.y)) << 16;
        // The next lane's numbers.
        to[4] = u32(to_bf16(told.z)) | u32(to_bf16(told.w)) << 16;
    }
}

// A block for each row. A row's parts go to one of two places by turns: the place of the turn before is read until the
// next kernel of the same rank has come to its end, and no rank is further than that.
KERNEL(256, 2) give(const Give p) {
    let_next_begin();
    wait_for_inputs();
    const int row = blockIdx.x, fours = p.width / 4;
    const u32 turn = p.turns[row] + 1;
    const float* sums = p.sums + u64(row) * p.width;
    const u64 to = ((turn % 2 * p.ranks + p.rank) * u64(p.most_rows) + row) * fours;
    for (int k = threadIdx.x; k < fours; k += blockDim.x) {
        const float4 part = sum_of_parts(sums, u64(p.rows) * fours, p.splits, k, p.bias);
        for (int rank = 0; rank < p.ranks; ++rank) ((float4*)p.inboxes[rank])[to + k] = part;
    }
    be_seen_by_ranks();
    __syncthreads();
    if (int(threadIdx.x) < p.ranks) tell_rank(p.given[threadIdx.x] + u64(p.rank) * p.most_rows + row, turn);
    if (threadIdx.x == 0) p.turns[row] = turn;
}

// Makes queries, keys and values of what a product came to: biases, norms of heads, rotations.
struct Heads {
    // (splits, rows, (query heads + 2 key heads) * size)
    const float* sums;
    // As many, or missing.
    const float* bias;
    // (size) each, or missing.
    const float *query_norm, *key_norm;
    // (positions, rotated / 2, 2): cosine and sine.
    const float* rotations;
    // (rows, query heads, size)
    float* queries;
    const RowAt* at;
    const u32* lists;
    float eps, scale;
    int size, heads, kv_heads, rotated, splits, rows, is_centred, layer;
};

// A warp for each head of each row.
KERNEL(128, 1) heads(const Heads p) {
    constexpr int LARGEST = 256, EACH = LARGEST / WARP;
    SHARED float heads[4][LARGEST];
    let_next_begin();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = blockIdx.x;
    const int all = p.heads + 2 * p.kv_heads, head = blockIdx.y * 4 + warp;
    const RowAt at = p.at[row];
    const bool is_value = head >= p.heads + p.kv_heads, is_key = !is_value && head >= p.heads;
    // Nobody looks for fillers.
    const bool works = head < all && at.end > 0;
    const float* norm = is_value ? nullptr : is_key ? p.key_norm : p.query_norm;
    const int half = p.rotated / 2;
    const float2* turns = (const float2*)p.rotations + u64(max(at.end, 1u) - 1) * half;
    float2 turn[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int k = i * WARP + lane;
        turn[i] = {1, 0};
        if (works && !is_value && k < p.rotated) turn[i] = turns[k < half ? k : k - half];
    }
    wait_for_inputs();
    float held[EACH], sum = 0, squares = 0;
    const u64 apart = u64(p.rows) * all * p.size;
    const float* sums = p.sums + (u64(row) * all + head) * p.size;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int k = i * WARP + lane;
        held[i] = 0;
        if (!works || k >= p.size) continue;
        float added[PARTS];
#pragma unroll
        for (int split = 0; split < PARTS; ++split) added[split] = split < p.splits ? sums[split * apart + k] : 0.0f;
#pragma unroll
        for (int split = 0; split < PARTS; ++split) held[i] += added[split];
        if (p.bias) held[i] += p.bias[head * p.size + k];
        sum += held[i];
        squares += held[i] * held[i];
    }
    if (norm) {
        float mean = 0;
        if (p.is_centred) {
            mean = warp_sum(sum) / p.size;
            squares = 0;
#pragma unroll
            for (int i = 0; i < EACH; ++i)
                if (i * WARP + lane < p.size) squares += (held[i] - mean) * (held[i] - mean);
        }
        const float scale = 1.0f / sqrtf(warp_sum(squares) / p.size + p.eps);
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (i * WARP + lane < p.size) held[i] = (held[i] - mean) * scale * norm[i * WARP + lane];
    }
    float* own = heads[warp];
#pragma unroll
    for (int i = 0; i < EACH; ++i) own[i * WARP + lane] = held[i];
    __syncwarp();
    if (!works) return;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int k = i * WARP + lane;
        if (k >= p.size) continue;
        float value = held[i];
        if (!is_value && k < p.rotated)
            value = k < half ? value * turn[i].x - own[k + half] * turn[i].y : value * turn[i].x + own[k - half] * turn[i].y;
        if (head < p.heads) {
            p.queries[(u64(row) * p.heads + head) * p.size + k] = value * p.scale;
        } else {
            const int kv_head = is_value ? head - p.heads - p.kv_heads : head - p.heads;
            bf16* to = memory_of(at, p.lists, p.layer, is_value ? 1 : 0);
            to[(u64(at.place) * p.kv_heads + kv_head) * p.size + k] = to_bf16(value);
        }
    }
}

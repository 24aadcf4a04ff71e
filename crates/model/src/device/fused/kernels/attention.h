// Attention over paths. A row sees the positions of its own path, in tiles of 32 absolute positions. What tiles come to is
// merged in their order: that of a part, 16 tiles or 8, where it is computed, and that of parts by `merge`. So a row's bits
// depend on its path alone.
//
// A warp takes a tile for 16 queries at once: the heads that share a key head, of as many neighbouring rows as that makes.
// Rows that all see the same positions of a tile read it once; else each reads its own, by whichever warp is next.
#pragma once
#include "common.h"

struct Attend {
    // (rows, heads, size), rotated and scaled
    const float* queries;
    // (rows, heads, parts, 2 + size): the largest score, the sum of weights relative to it, and the sum of values weighted
    // so; not written where there is one part.
    float* parts;
    // Packed rows of so many steps.
    bf16* out;
    const RowAt* at;
    const u32* lists;
    // `beside` is the layer of states that stand beside tokens, or -1; the window 0 if there is none.
    int heads, kv_heads, size, layer, beside, window, part_count, steps, tiles, first_row, rows, filler;
};

namespace {

// Positions of a tile, and warps that share a part.
constexpr int TILE = 32;
constexpr int WARPS = 8;
// Queries of a product.
constexpr int QUERIES = 16;

// Tiles of a part: what they come to has room in shared memory.
DEVICE constexpr int tiles_of_part(int size) { return size > 128 ? 8 : 16; }

// The numbers of a head that a lane has of each step of 16: pairs beside each other in memory, in an order of their own, the
// same for queries and keys.
template <int SIZE>
DEVICE constexpr int pair_at(int step, int lane, int pair) {
    return step < SIZE / 32 * 2 ? step / 2 * 32 + lane % 4 * 8 + step % 2 * 4 + pair * 2
                                : SIZE / 32 * 32 + lane % 4 * 4 + pair * 2;
}

// A row of a head as a lane has it: of each step two pairs.
template <int SIZE>
DEVICE void load_pairs(const bf16* from, int lane, u32 (&pairs)[SIZE / 16][2]) {
#pragma unroll
    for (int block = 0; block < SIZE / 32; ++block) {
        const uint4 loaded = *(const uint4*)(from + block * 32 + lane % 4 * 8);
        pairs[2 * block][0] = loaded.x;
        pairs[2 * block][1] = loaded.y;
        pairs[2 * block + 1][0] = loaded.z;
        pairs[2 * block + 1][1] = loaded.w;
    }
    if (SIZE % 32 != 0) {
        const u32* rest = (const u32*)(from + SIZE / 32 * 32 + lane % 4 * 4);
        pairs[SIZE / 16 - 1][0] = rest[0];
        pairs[SIZE / 16 - 1][1] = rest[1];
    }
}

// What a row sees of a tile.
struct Seen {
    // The first position of the tile, and those that are seen, counted from it.
    int start, from, to;
    int layer;
};

// Tiles of states come before those of tokens; none where states are not seen.
DEVICE int tiles_of_states(const Attend& p, const RowAt& at) {
    return p.beside < 0 ? 0 : int(min(at.stated, at.end) + TILE - 1) / TILE;
}

DEVICE int tiles_of(const Attend& p, const RowAt& at) { return tiles_of_states(p, at) + int(at.end + TILE - 1) / TILE; }

DEVICE Seen seen_of(const Attend& p, const RowAt& at, int tile) {
    const int of_states = tiles_of_states(p, at);
    const bool is_state = tile < of_states;
    const int start = (is_state ? tile : tile - of_states) * TILE, end = int(is_state ? min(at.stated, at.end) : at.end);
    const int first = p.window > 0 ? max(int(at.end) - p.window, 0) : 0;
    return {start, max(first - start, 0), min(end - start, TILE), is_state ? p.beside : p.layer};
}

// Keys and values of a warp's tiles are brought near while the kernel before this one works. Those of the pass itself may
// not be there yet, which does no harm.
template <int SIZE>
DEVICE void bring_near_what_is_seen(const Attend& p, const RowAt& at, int kv_head) {
    // Numbers of 128 bytes.
    constexpr int AT_ONCE = 64;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, first = blockIdx.z * tiles_of_part(SIZE);
    for (int tile = first + warp; tile < first + tiles_of_part(SIZE); tile += WARPS) {
        const Seen seen = seen_of(p, at, tile);
        if (seen.from >= seen.to) continue;
        const u64 place = place_of(at, p.lists, seen.start + min(lane, seen.to - 1));
        for (int which = 0; which < 2; ++which) {
            const bf16* numbers = memory_of(at, p.lists, seen.layer, which) + (place * p.kv_heads + kv_head) * SIZE;
            for (int i = 0; i < SIZE; i += AT_ONCE) bring_near(numbers + i);
        }
    }
}

// Writes two neighbouring numbers of a head of a row.
DEVICE void tell(const Attend& p, int row, int head, int i, float low, float high) {
    const u64 place = packed_place(row, head * p.size + i, p.steps, p.tiles);
    *(u32*)(p.out + place) = u32(to_bf16(low)) | u32(to_bf16(high)) << 16;
}

// Makes of each tile's largest score what its values weigh beside those of the other tiles, for each query: a thread for each
// of both. What all tiles come to is told.
template <int SIZE>
DEVICE void weigh_tiles(float* sums, int tiles, float* largest, float* total) {
    constexpr int MOST = 16;
    const int query = threadIdx.x / MOST, tile = threadIdx.x % MOST;
    float* of = sums + (min(tile, tiles_of_part(SIZE) - 1) * QUERIES + query) * (SIZE + 2);
    const bool is_seen = tile < tiles && of[1] > 0;
    const float score = is_seen ? of[0] : NOTHING;
    float higher = score;
    for (int offset = MOST / 2; offset > 0; offset /= 2) higher = fmaxf(higher, __shfl_xor_sync(ALL_LANES, higher, offset));
    const float kept = is_seen ? exp_of(score - higher) : 0.0f;
    float sum = is_seen ? kept * of[1] : 0.0f;
    for (int offset = MOST / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    if (tile < tiles) of[0] = kept;
    if (tile > 0) return;
    largest[query] = higher;
    total[query] = sum;
}

template <int SIZE>
DEVICE void attend(const Attend& p, float* sums) {
    SHARED float largest[QUERIES], total[QUERIES];
    constexpr int STEPS = SIZE / 16, EACH = SIZE + 2, PART = tiles_of_part(SIZE);
    let_next_begin();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, query_lane = lane / 4;
    const int group = p.heads / p.kv_heads, heads = min(group, QUERIES), sets = (group + QUERIES - 1) / QUERIES;
    const int rows = QUERIES / heads, first_row = p.first_row + blockIdx.x * rows, last_row = p.first_row + p.rows;
    const int kv_head = blockIdx.y / sets, first_head = blockIdx.y % sets * QUERIES;
    // Of the two queries of a lane the row, counted from the first, and the head; beyond all rows if there is none.
    int query_row[2], query_head[2];
    for (int i = 0; i < 2; ++i) {
        const int query = query_lane + 8 * i;
        query_row[i] = query / heads;
        query_head[i] = first_head + query % heads;
        if (query_row[i] >= rows || first_row + query_row[i] >= last_row || query_head[i] >= group) query_row[i] = rows;
    }
    const int present = min(rows, last_row - first_row);
    // Whether all rows are of one sequence, and up to where they then see the same.
    bool is_one = true;
    RowAt one = p.at[first_row];
    u32 shared = one.shared;
    const int first_tile = blockIdx.z * PART;
    int tiles = min(tiles_of(p, one) - first_tile, PART);
    for (int row = 1; row < present; ++row) {
        const RowAt& at = p.at[first_row + row];
        if (at.end == 0) continue;
        is_one = is_one && at.blocks_at == one.blocks_at && at.memory_at == one.memory_at && at.stated == one.stated;
        shared = min(shared, at.shared);
        tiles = max(tiles, min(tiles_of(p, at) - first_tile, PART));
    }
    // What nobody sees weighs nothing.
    for (int at = threadIdx.x; at < PART * QUERIES; at += blockDim.x) sums[at * EACH + 1] = 0;
    __syncthreads();
    bring_near_what_is_seen<SIZE>(p, one, kv_head);
    wait_for_inputs();
    u32 queries[STEPS][4];
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int which = i % 2;
            u32 pair = 0;
            if (query_row[which] < rows) {
                const int row = first_row + query_row[which], head = kv_head * group + query_head[which];
                const float2 numbers =
                    *(const float2*)(p.queries + (u64(row) * p.heads + head) * SIZE + pair_at<SIZE>(step, lane, i / 2));
                pair = u32(to_bf16(numbers.x)) | u32(to_bf16(numbers.y)) << 16;
            }
            queries[step][i] = pair;
        }
    // A tile for the rows that share it, or for one of the others: warps take turns.
    int turn = 0;
    for (int of_part = 0; of_part < tiles; ++of_part) {
        const int tile = first_tile + of_part;
        const Seen first = seen_of(p, one, tile);
        const bool is_shared = is_one && first.start + TILE <= int(shared);
        for (int list = 0; list < (is_shared ? 1 : present); ++list) {
            const RowAt at = list == 0 ? one : p.at[first_row + list];
            const Seen seen = list == 0 ? first : seen_of(p, at, tile);
            if (!is_shared && seen.from >= seen.to) continue;
            if (turn++ % WARPS != warp) continue;
            const int last = is_shared ? TILE - 1 : seen.to - 1;
            const u32 own_place = place_of(at, p.lists, seen.start + min(lane, last));
            const bf16* keys = memory_of(at, p.lists, seen.layer, 0) + u64(kv_head) * SIZE;
            const bf16* summed = memory_of(at, p.lists, seen.layer, 1) + u64(kv_head) * SIZE;
            float scores[TILE / 8][4] = {};
            u32 loaded[TILE / 8][STEPS][2];
#pragma unroll
            for (int eight = 0; eight < TILE / 8; ++eight) {
                const u32 place = __shfl_sync(ALL_LANES, own_place, eight * 8 + query_lane);
                load_pairs<SIZE>(keys + u64(place) * p.kv_heads * SIZE, lane, loaded[eight]);
            }
#pragma unroll
            for (int eight = 0; eight < TILE / 8; ++eight)
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    const uint4 query = {queries[step][0], queries[step][1], queries[step][2], queries[step][3]};
                    multiply_add(scores[eight], query, loaded[eight][step][0], loaded[eight][step][1]);
                }
            // Values are on their way while scores become weights.
#pragma unroll
            for (int eight = 0; eight < TILE / 8; ++eight) {
                const u32 place = __shfl_sync(ALL_LANES, own_place, eight * 8 + query_lane);
                load_pairs<SIZE>(summed + u64(place) * p.kv_heads * SIZE, lane, loaded[eight]);
            }
            // What each query sees of it.
            bool takes_part[2];
            float peak[2], weight_sum[2];
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                takes_part[which] = is_shared ? query_row[which] < rows : query_row[which] == list;
                // Who shares a tile may see less of it, by a window.
                const bool has_own = is_shared && takes_part[which];
                const Seen own = has_own ? seen_of(p, p.at[first_row + query_row[which]], tile) : seen;
                float higher = NOTHING, sum = 0;
#pragma unroll
                for (int i = 0; i < TILE / 4; ++i) {
                    const int position = i / 2 * 8 + lane % 4 * 2 + i % 2;
                    float& score = scores[i / 2][2 * which + i % 2];
                    if (!takes_part[which] || position < own.from || position >= own.to) score = NOTHING;
                    higher = fmaxf(higher, score);
                }
                higher = fmaxf(higher, __shfl_xor_sync(ALL_LANES, higher, 1));
                higher = fmaxf(higher, __shfl_xor_sync(ALL_LANES, higher, 2));
#pragma unroll
                for (int i = 0; i < TILE / 4; ++i) {
                    float& score = scores[i / 2][2 * which + i % 2];
                    score = score > NOTHING ? exp_of(score - higher) : 0.0f;
                    sum += score;
                }
                sum += __shfl_xor_sync(ALL_LANES, sum, 1);
                sum += __shfl_xor_sync(ALL_LANES, sum, 2);
                peak[which] = higher;
                weight_sum[which] = sum;
            }
            float values[STEPS][2][4] = {};
            // 16 positions at a time.
#pragma unroll
            for (int pair = 0; pair < TILE / 16; ++pair) {
                u32 weight[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float* of = scores[2 * pair + i / 2] + i % 2 * 2;
                    weight[i] = u32(to_bf16(of[0])) | u32(to_bf16(of[1])) << 16;
                }
                const uint4 weights = {weight[0], weight[1], weight[2], weight[3]};
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
#pragma unroll
                    for (int which = 0; which < 2; ++which)
                        multiply_add(values[step][which], weights, transposed(loaded[2 * pair][step][which]),
                                     transposed(loaded[2 * pair + 1][step][which]));
            }
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                if (!takes_part[which]) continue;
                float* own = sums + (of_part * QUERIES + query_lane + 8 * which) * EACH;
                if (lane % 4 == 0) {
                    own[0] = peak[which];
                    own[1] = weight_sum[which];
                }
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
#pragma unroll
                    for (int pair = 0; pair < 2; ++pair) {
                        float* two = own + 2 + pair_at<SIZE>(step, lane, pair);
                        two[0] = values[step][pair][2 * which];
                        two[1] = values[step][pair][2 * which + 1];
                    }
            }
        }
    }
    __syncthreads();
    weigh_tiles<SIZE>(sums, tiles, largest, total);
    __syncthreads();
    for (int at = threadIdx.x; at < QUERIES * SIZE / 2; at += blockDim.x) {
        const int query = at / (SIZE / 2), i = at % (SIZE / 2) * 2, row = query / heads, head = first_head + query % heads;
        if (row >= rows || first_row + row >= last_row || head >= group) continue;
        float low = 0, high = 0;
        for (int tile = 0; tile < tiles; ++tile) {
            const float* of = sums + (tile * QUERIES + query) * EACH;
            if (!(of[0] > 0)) continue;
            low += of[0] * of[2 + i];
            high += of[0] * of[3 + i];
        }
        const int all_head = kv_head * group + head;
        if (p.part_count == 1) {
            const float scale = total[query] > 0 ? 1.0f / total[query] : 0.0f;
            tell(p, first_row + row, all_head, i, low * scale, high * scale);
        } else {
            const u64 row_of_parts = first_row + row - p.first_row;
            float* part = p.parts + ((row_of_parts * p.heads + all_head) * p.part_count + blockIdx.z) * EACH;
            part[2 + i] = low;
            part[3 + i] = high;
            if (i == 0) {
                part[0] = largest[query];
                part[1] = total[query];
            }
        }
    }
}

}  // namespace

// What all parts of a row's head came to.
KERNEL(128, 1) merge(const Attend p) {
    let_next_begin();
    wait_for_inputs();
    const int row = p.first_row + blockIdx.x, head = blockIdx.y, each = 2 + p.size;
    const float* parts = p.parts + (u64(blockIdx.x) * p.heads + head) * p.part_count * each;
    float higher = NOTHING;
    for (int part = 0; part < p.part_count; ++part) higher = fmaxf(higher, parts[part * each]);
    for (int i = 2 * threadIdx.x; i < p.size; i += 2 * blockDim.x) {
        float total = 0, low = 0, high = 0;
        for (int part = 0; part < p.part_count; ++part) {
            const float* of = parts + part * each;
            const float kept = exp_of(of[0] - higher);
            total += kept * of[1];
            low += kept * of[2 + i];
            high += kept * of[3 + i];
        }
        const float scale = total > 0 ? 1.0f / total : 0.0f;
        tell(p, row, head, i, low * scale, high * scale);
    }
}

#define ATTEND(SIZE)                             \
    KERNEL(256, 1) attend_##SIZE(const Attend p) { \
        LENT(float, sums);                       \
        attend<SIZE>(p, sums);                   \
    }

ATTEND(16)
ATTEND(32)
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
ATTEND(256)

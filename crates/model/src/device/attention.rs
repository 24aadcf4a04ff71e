//! Attention over paths, in tiles of positions.
//!
//! A row sees the positions of its own path, the committed ones and its ancestors, wherever they lie. They are walked in
//! tiles of [`BLOCK`] positions; what a tile adds is merged into what those before it came to. A tile has the same size
//! whatever a row sees, and what it does not see weighs nothing, so a row's result depends on its path alone.

use candle_core::{D, DType, Result, Tensor};

use crate::attention::AttentionShape;
use crate::kv_cache::{BLOCK, BlockTable, KeysAndValues};
use crate::placed::Placed;

/// Rows that are attended to at once: what they see is gathered, and takes memory.
const ROWS_AT_ONCE: usize = 64;

/// What a row sees, before it sees anything: less than any score.
const NOTHING: f32 = -1e30;

/// Rows of sequences whose keys and values lie in the same memory.
pub(super) struct Group {
    /// Its memory.
    pub(super) blocks: BlockTable,
    /// Its first row in the stream.
    pub(super) first_row: usize,
    /// What each row sees, and where.
    rows: Vec<Seen>,
}

/// What a row sees.
struct Seen {
    /// Where the key and value of each of its positions lie, its own last.
    places: Vec<u32>,
    /// So many positions, the first ones, have hidden states beside them, in the same places of another layer.
    stated: usize,
}

/// Some of the rows of a group, and their queries in f32: (rows, kv_heads, heads of each, head_dim).
struct Queries<'a> {
    rows: &'a [Seen],
    queries: Tensor,
    window: Option<usize>,
}

/// A tile of positions: where they lie (rows * BLOCK), and what is added to their scores (rows, 1, 1, BLOCK).
struct Tile {
    places: Tensor,
    unseen: Tensor,
}

/// What tiles came to so far, for each query: the largest score, the sum of weights relative to it, and the sum of values.
struct Sums {
    /// (rows, kv_heads, heads of each, 1)
    largest: Tensor,
    total: Tensor,
    /// (rows, kv_heads, heads of each, head_dim)
    values: Tensor,
}

impl Group {
    /// The groups of all rows of a pass.
    pub(super) fn all(placed: &[Placed]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for placed in placed.iter().filter(|placed| placed.rows() > 0) {
            match groups.last_mut().filter(|group| group.blocks.shares_memory(&placed.blocks)) {
                Some(group) => group.rows.extend(Seen::all(placed)),
                None => groups.push(Self {
                    blocks: placed.blocks.clone(),
                    first_row: placed.first_row,
                    rows: Seen::all(placed).collect(),
                }),
            }
        }
        groups
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Stores the keys and values (rows, kv_heads, head_dim) of its rows.
    pub(super) fn store(&self, memory: &KeysAndValues, keys: &Tensor, values: &Tensor) -> Result<()> {
        let mut from = 0;
        while from < self.rows.len() {
            let place = |row: usize| self.rows[row].place();
            let runs_on = |row: &usize| *row < self.rows.len() && place(*row) == place(from) + (row - from);
            let len = (from..).take_while(runs_on).count();
            for (tensor, rows) in [(&memory.keys, keys), (&memory.values, values)] {
                let rows = rows.narrow(0, from, len)?.to_dtype(tensor.dtype())?.force_contiguous()?;
                tensor.slice_set(&rows, 0, place(from))?;
            }
            from += len;
        }
        Ok(())
    }

    /// What the queries (rows, heads, head_dim) of its rows, rotated and scaled, make of the values of what they see:
    /// (rows, heads * head_dim). `beside` are the states beside tokens.
    pub(super) fn attend(
        &self,
        shape: &AttentionShape,
        queries: &Tensor,
        [tokens, beside]: [Option<&KeysAndValues>; 2],
    ) -> Result<Tensor> {
        let AttentionShape { heads, kv_heads, head_dim, window } = *shape;
        let attend = |(number, rows): (usize, &[Seen])| {
            let queries = queries.narrow(0, number * ROWS_AT_ONCE, rows.len())?.to_dtype(DType::F32)?;
            let queries = queries.reshape((rows.len(), kv_heads, heads / kv_heads, head_dim))?.force_contiguous()?;
            let queries = Queries { rows, queries, window };
            let mut sums = queries.nothing()?;
            for (memory, seen) in [(beside, Seen::stated as fn(&Seen) -> usize), (tokens, Seen::end)] {
                if let Some(memory) = memory {
                    sums = queries.walk(memory, sums, seen)?;
                }
            }
            sums.values.broadcast_div(&sums.total)?.reshape((rows.len(), heads * head_dim))
        };
        let parts: Vec<Tensor> = self.rows.chunks(ROWS_AT_ONCE).enumerate().map(attend).collect::<Result<_>>()?;
        Tensor::cat(&parts, 0)
    }
}

impl Seen {
    fn all(placed: &Placed) -> impl Iterator<Item = Self> {
        let place = |slot: usize| placed.blocks.place(slot) as u32;
        let shared: Vec<u32> = (0..placed.shared).map(place).collect();
        placed.paths.iter().map(move |path| {
            let own = path.iter().flat_map(|run| run.slot..run.slot + run.len).map(place);
            Self { places: shared.iter().copied().chain(own).collect(), stated: placed.stated }
        })
    }

    /// One more than its position.
    fn end(&self) -> usize {
        self.places.len()
    }

    fn stated(&self) -> usize {
        self.stated.min(self.end())
    }

    /// Where its own key and value lie.
    fn place(&self) -> usize {
        self.places.last().map_or(0, |place| *place as usize)
    }
}

impl Queries<'_> {
    fn nothing(&self) -> Result<Sums> {
        let (rows, kv_heads, heads, head_dim) = self.queries.dims4()?;
        let device = self.queries.device();
        Ok(Sums {
            largest: Tensor::full(NOTHING, (rows, kv_heads, heads, 1), device)?,
            total: Tensor::zeros((rows, kv_heads, heads, 1), DType::F32, device)?,
            values: Tensor::zeros((rows, kv_heads, heads, head_dim), DType::F32, device)?,
        })
    }

    /// Adds the first positions of a memory, so many of each row as it sees.
    fn walk(&self, memory: &KeysAndValues, mut sums: Sums, seen: fn(&Seen) -> usize) -> Result<Sums> {
        let most = self.rows.iter().map(seen).max().unwrap_or(0);
        let first = self.rows.iter().map(|row| self.first(row)).min().unwrap_or(0);
        for from in (first / BLOCK * BLOCK..most).step_by(BLOCK) {
            let seen = |row: &Seen| self.first(row)..seen(row);
            let visible = |row: &Seen| -> [f32; BLOCK] {
                let seen = seen(row);
                std::array::from_fn(|i| if seen.contains(&(from + i)) { 0.0 } else { NOTHING })
            };
            let place = |row: &Seen| -> [u32; BLOCK] {
                std::array::from_fn(|i| row.places.get(from + i).or(row.places.first()).copied().unwrap_or(0))
            };
            let unseen: Vec<f32> = self.rows.iter().flat_map(visible).collect();
            let places: Vec<u32> = self.rows.iter().flat_map(place).collect();
            let (rows, len, device) = (self.rows.len(), places.len(), self.queries.device());
            let places = Tensor::from_vec(places, len, device)?;
            let unseen = Tensor::from_vec(unseen, (rows, 1, 1, BLOCK), device)?;
            sums = self.add(memory, &Tile { places, unseen }, sums)?;
        }
        Ok(sums)
    }

    /// The first position that a row sees.
    fn first(&self, row: &Seen) -> usize {
        self.window.map_or(0, |window| row.end().saturating_sub(window))
    }

    fn add(&self, memory: &KeysAndValues, tile: &Tile, sums: Sums) -> Result<Sums> {
        let (rows, kv_heads, _, head_dim) = self.queries.dims4()?;
        // (rows, BLOCK, kv_heads, head_dim), and from that (rows, kv_heads, BLOCK, head_dim)
        let gather = |memory: &Tensor| {
            let seen = memory.index_select(&tile.places, 0)?.to_dtype(DType::F32)?;
            seen.reshape((rows, BLOCK, kv_heads, head_dim))?.transpose(1, 2)?.force_contiguous()
        };
        let (keys, values) = (gather(&memory.keys)?, gather(&memory.values)?);
        // (rows, kv_heads, heads of each, BLOCK)
        let scores = self.queries.matmul(&keys.transpose(2, 3)?.force_contiguous()?)?.broadcast_add(&tile.unseen)?;
        let largest = scores.max_keepdim(D::Minus1)?.maximum(&sums.largest)?;
        let weights = scores.broadcast_sub(&largest)?.exp()?;
        let kept = (sums.largest - &largest)?.exp()?;
        Ok(Sums {
            total: ((sums.total * &kept)? + weights.sum_keepdim(D::Minus1)?)?,
            values: (sums.values.broadcast_mul(&kept)? + weights.matmul(&values)?)?,
            largest,
        })
    }
}

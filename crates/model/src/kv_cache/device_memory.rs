//! Keys and values on a device.

use std::mem::take;
use std::sync::OnceLock;

use candle_core::{DType, Device, Result, Tensor};
use parking_lot::{Mutex, MutexGuard};

use super::block::{BLOCK, BlockId, BlockRow};
use super::cache_shape::CacheShape;
use super::device_place::{DevicePart, DevicePlace};
use super::fault::PoolFault;

/// The keys and values that ranks keep, each on its device those of its own layers and heads.
pub(super) struct DeviceMemory(Vec<RankMemory>);

/// For each layer the slots of all blocks, side by side: a block's number and a row in it say which. Tensors are written in
/// place, and the ledger says by whom.
pub(super) struct RankMemory {
    device: Device,
    dtype: DType,
    /// (blocks * BLOCK, kv_heads, head_dim)
    slots: [usize; 3],
    layers: usize,
    made: Mutex<Vec<KeysAndValues>>,
    /// For each layer where keys and values are, once somebody has asked.
    addresses: OnceLock<Vec<u64>>,
    /// Rows that the next pass moves in all layers, in this order, if they are not moved at once.
    moves: Option<Mutex<Vec<Move>>>,
}

/// A row to move: from one of all slots to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Those of a layer: (blocks * BLOCK, kv_heads, head_dim) each.
#[derive(Clone)]
pub(crate) struct KeysAndValues {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
}

impl BlockRow {
    /// Its place among the slots of all blocks.
    pub(super) fn slot(self) -> usize {
        let BlockId(block) = self.block;
        block * BLOCK + self.row
    }
}

impl DeviceMemory {
    pub(super) fn new(shape: CacheShape, place: &DevicePlace, blocks: usize) -> Self {
        let DevicePlace { parts, dtype, moves_later } = place;
        let memory = |part: &DevicePart| RankMemory {
            device: part.device.clone(),
            dtype: *dtype,
            slots: [blocks * BLOCK, part.kv_heads, shape.head_dim],
            layers: part.layers,
            made: Mutex::default(),
            addresses: OnceLock::new(),
            moves: moves_later.then(Mutex::default),
        };
        Self(parts.iter().map(memory).collect())
    }

    /// That of a rank.
    pub(super) fn of_rank(&self, rank: usize) -> Option<&RankMemory> {
        self.0.get(rank)
    }

    /// Makes all of it, if it is not there yet.
    ///
    /// # Errors
    /// A device has no room for it.
    pub(super) fn make(&self) -> Result<()> {
        self.0.iter().try_for_each(|memory| memory.layers().map(drop))
    }

    /// See [`super::memory::Memory::copy`].
    pub(super) fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> std::result::Result<(), PoolFault> {
        self.0.iter().try_for_each(|memory| memory.copy(from, to, rows)).map_err(|fault| {
            tracing::error!("keys and values could not be copied: {fault}");
            PoolFault::Device
        })
    }
}

impl RankMemory {
    /// Those of a layer.
    ///
    /// # Errors
    /// The device has no room for all layers.
    pub(super) fn layer(&self, layer: usize) -> Result<KeysAndValues> {
        Ok(self.layers()?[layer].clone())
    }

    /// Where the keys and the values of each layer are, as `address` tells of a tensor.
    ///
    /// # Errors
    /// The device has no room for them.
    pub(super) fn addresses(&self, address: impl Fn(&Tensor) -> Result<u64>) -> Result<&[u64]> {
        if let Some(known) = self.addresses.get() {
            return Ok(known);
        }
        let of_layer = |layer: &KeysAndValues| Ok([address(&layer.keys)?, address(&layer.values)?]);
        let found = self.layers()?.iter().map(of_layer).collect::<Result<Vec<_>>>()?.concat();
        Ok(self.addresses.get_or_init(|| found))
    }

    /// Takes the moves that are to be done before anything is read.
    pub(super) fn take_moves(&self) -> Vec<Move> {
        self.moves.as_ref().map(|moves| take(&mut *moves.lock())).unwrap_or_default()
    }

    /// Puts moves back that were not done, before those that came later.
    pub(super) fn put_back(&self, mut undone: Vec<Move>) {
        if let Some(moves) = &self.moves {
            let mut moves = moves.lock();
            undone.append(&mut moves);
            *moves = undone;
        }
    }

    /// Those of all layers, made when first asked for.
    fn layers(&self) -> Result<MutexGuard<'_, Vec<KeysAndValues>>> {
        let mut made = self.made.lock();
        if made.is_empty() {
            let zeros = || Tensor::zeros(&self.slots, self.dtype, &self.device);
            let make = |_| Ok(KeysAndValues { keys: zeros()?, values: zeros()? });
            *made = (0..self.layers).map(make).collect::<Result<_>>()?;
        }
        Ok(made)
    }

    fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> Result<()> {
        if let Some(moves) = &self.moves {
            let slots = (from.slot()..from.slot() + rows).zip(to.slot()..);
            moves.lock().extend(slots.map(|(from, to)| Move { from: from as u32, to: to as u32 }));
            return Ok(());
        }
        let copy = |tensor: &Tensor| {
            let rows = tensor.narrow(0, from.slot(), rows)?.force_contiguous()?;
            tensor.slice_set(&rows, 0, to.slot())
        };
        self.layers()?.iter().try_for_each(|KeysAndValues { keys, values }| copy(keys).and_then(|()| copy(values)))
    }
}

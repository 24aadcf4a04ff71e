//! A model on a machine that runs kernels: its weights, what passes work in, and what is known of earlier passes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Result as Computed};

use super::buffers::Buffers;
use super::machine::Machine;
use super::run::Run;
use super::sheet::Sheet;
use super::weights::Weights;
use super::work::{GRAPH_ROWS_MAX, Stream, Work};
use crate::device::rank_place::RankPlace;
use crate::error::Result;
use crate::model_info::ModelInfo;
use crate::raw_parts::RawStage;

/// Most graphs that are kept; beyond that all are forgotten.
const GRAPHS_MAX: usize = 256;

/// A model on a machine that runs kernels.
pub(in crate::device) struct FusedModel {
    pub(super) info: Arc<ModelInfo>,
    pub(super) place: RankPlace,
    pub(super) machine: Box<dyn Machine>,
    weights: Weights,
    pub(super) buffers: Buffers,
    graphs: HashMap<Key, Known>,
    /// The graph of the last work, if it was done by one and may be done anew.
    last: Option<usize>,
    /// What it failed of: it is not asked again.
    fault: Option<String>,
}

/// All that shapes the launches of a list of work.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) stream: Stream,
    pub(super) work: Vec<Work>,
}

/// What is known of a list of work.
enum Known {
    /// That it has been done once.
    Seen,
    Graph {
        number: usize,
        stream: Stream,
    },
}

/// The machine of a device.
fn machine(device: &Device) -> Result<Box<dyn Machine>> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Ok(Box::new(super::gpu::Gpu::new(device)?)),
        #[cfg(feature = "emulated")]
        Device::Cpu => Ok(Box::<super::emulated::Emulated>::default()),
        _ => Err(candle_core::Error::Msg("kernels run on no such device".to_owned()).into()),
    }
}

impl FusedModel {
    /// Loads a model that [`supports`](super::supports) says kernels can run; `progress` is told
    /// `(layers loaded, layers in all)`.
    ///
    /// # Errors
    /// What is wrong with the model, or with the device.
    pub(in crate::device) fn load(
        info: &Arc<ModelInfo>,
        raw: &RawStage<'_>,
        place: &RankPlace,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let mut machine = machine(&place.device)?;
        let config = &info.config;
        let weights = Weights::load(&mut *machine, config, raw, progress)?;
        let buffers = Buffers::none(&*machine, config)?;
        let (info, place) = (info.clone(), place.clone());
        Ok(Self { info, place, machine, weights, buffers, graphs: HashMap::new(), last: None, fault: None })
    }

    /// Multiply-adds of one row.
    pub(in crate::device) fn multiply_adds(&self) -> usize {
        self.weights.multiply_adds()
    }

    /// How long each takes when the last work is done anew so many times; none where it was not done by a graph, or
    /// moved rows from where others are now.
    pub(in crate::device) fn repeat(&mut self, times: usize) -> Result<Option<Duration>> {
        let Some(graph) = self.last else { return Ok(None) };
        self.attempt(|model| {
            model.machine.finish()?;
            let begun = Instant::now();
            (0..times).try_for_each(|_| model.machine.replay(graph))?;
            model.machine.finish()?;
            Ok(Some(begun.elapsed() / times as u32))
        })
    }

    /// Does a list of work with the numbers of a sheet; what is known of the stream then.
    pub(super) fn run(&mut self, key: Key, sheet: &Sheet) -> Result<Stream> {
        self.attempt(|model| model.do_work(key, sheet))
    }

    /// Waits for all work, and tells the numbers that are somewhere then.
    pub(super) fn tell(&mut self, from: u64, count: usize) -> Result<Vec<f32>> {
        self.attempt(|model| model.machine.download(from, count))
    }

    /// Waits for all work.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.attempt(|model| model.machine.finish())
    }

    /// Does something with the machine. What fails for anything but memory ends the model: nobody knows what is done then.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Computed<T>) -> Result<T> {
        if let Some(fault) = self.fault.clone() {
            return Err(self.place.failed(fault));
        }
        // The thread may have had to do with the machine of another stage.
        let done = self.machine.begin().and_then(|()| work(self));
        done.map_err(|fault| {
            let failed = self.place.failed(fault.to_string());
            if failed.is_fatal() {
                tracing::error!("{failed}");
                self.fault = Some(fault.to_string());
            }
            failed
        })
    }

    fn do_work(&mut self, key: Key, sheet: &Sheet) -> Computed<Stream> {
        self.make_room(&key, sheet)?;
        self.last = None;
        self.machine.upload(self.buffers.fixed(0), &self.buffers.bytes_of(sheet))?;
        match self.graphs.get(&key) {
            Some(Known::Graph { number, stream }) => {
                self.last = key.may_be_repeated().then_some(*number);
                self.machine.replay(*number)?;
                Ok(*stream)
            }
            Some(Known::Seen) => {
                self.machine.begin_graph()?;
                let stream = self.launch(&key);
                let number = self.machine.end_graph();
                let (stream, number) = (stream?, number?);
                self.last = key.may_be_repeated().then_some(number);
                self.graphs.insert(key, Known::Graph { number, stream });
                self.machine.replay(number)?;
                Ok(stream)
            }
            None => {
                let stream = self.launch(&key)?;
                if key.rows() <= GRAPH_ROWS_MAX {
                    if self.graphs.len() == GRAPHS_MAX {
                        self.forget_graphs()?;
                    }
                    self.graphs.insert(key, Known::Seen);
                }
                Ok(stream)
            }
        }
    }

    fn launch(&mut self, key: &Key) -> Computed<Stream> {
        let Self { info, machine, weights, buffers, .. } = self;
        Run { info, weights, buffers, machine: &mut **machine, stream: key.stream, pending: None }.all(&key.work)
    }

    fn make_room(&mut self, key: &Key, sheet: &Sheet) -> Computed<()> {
        let sizes = self.buffers.sizes().with(&self.info.config, key.stream.rows, &key.work, sheet);
        if sizes != self.buffers.sizes() {
            self.forget_graphs()?;
            self.buffers.grow(&*self.machine, &self.info.config, &self.weights, sizes)?;
        }
        Ok(())
    }

    /// Forgets all graphs, once none is at work.
    fn forget_graphs(&mut self) -> Computed<()> {
        self.machine.finish()?;
        self.graphs.clear();
        self.machine.forget_graphs();
        Ok(())
    }
}

impl Key {
    /// Whether the work does the same when it is done twice.
    fn may_be_repeated(&self) -> bool {
        !self.work.iter().any(|work| matches!(work, Work::Move { .. }))
    }

    /// Most rows that the stream has.
    fn rows(&self) -> usize {
        let of_work = self.work.iter().map(|work| match work {
            Work::Embed { rows, .. } | Work::Load { rows, .. } => *rows,
            _ => 0,
        });
        of_work.max().unwrap_or(0).max(self.stream.rows)
    }
}

//! A model on machines that run kernels, one for each rank: its weights, what passes work in, and what is known of earlier
//! passes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Result as Computed;

use super::buffers::Buffers;
use super::exchange::{Exchange, Mailbox, Turn};
use super::machine::{Launch, Machine};
use super::run::Run;
use super::sheet::Sheet;
use super::weights::{Loader, Weights};
use super::work::{GRAPH_ROWS_MAX, Stream, Work};
use crate::device::rank_place::RankPlace;
use crate::error::Result;
use crate::model_info::ModelInfo;
use crate::raw_parts::RawStage;

/// Most graphs that are kept; beyond that all are forgotten.
const GRAPHS_MAX: usize = 256;

/// A model on machines that run kernels.
pub(in crate::device) struct FusedModel {
    pub(super) info: Arc<ModelInfo>,
    /// Those that share its layers, at least one.
    pub(super) ranks: Vec<FusedRank>,
    /// Of each rank; none where there is only one.
    mailboxes: Vec<Mailbox>,
    /// While ranks may be at work that exchanges sums.
    turn: Option<Turn>,
    graphs: HashMap<Key, Known>,
    /// The graph of the last work, if it was done by one and may be done anew.
    last: Option<usize>,
    /// What a rank failed of: the model is not asked again.
    fault: Option<Fault>,
}

/// A rank of it.
pub(super) struct FusedRank {
    /// Its part of the model.
    pub(super) info: ModelInfo,
    pub(super) place: RankPlace,
    pub(super) machine: Box<dyn Machine>,
    weights: Weights,
    pub(super) buffers: Buffers,
}

/// What a rank failed of.
#[derive(Clone)]
struct Fault {
    /// Its number among those that share the layers.
    rank: usize,
    what: String,
}

/// What comes of asking ranks for something.
type Asked<T> = std::result::Result<T, Fault>;

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
    /// Each rank's graph of it has this number.
    Graph { number: usize, stream: Stream },
}

/// The machine of one of some ranks, all of which exchange sums.
fn machine(places: &[RankPlace], rank: usize) -> Result<Box<dyn Machine>> {
    match &places[rank].device {
        #[cfg(feature = "cuda")]
        candle_core::Device::Cuda(device) => {
            Ok(Box::new(super::gpu::Gpu::new(device, places.iter().map(|place| &place.device))?))
        }
        #[cfg(feature = "emulated")]
        candle_core::Device::Cpu => Ok(Box::new(super::emulated::Emulated::start()?)),
        _ => Err(candle_core::Error::Msg("kernels run on no such device".to_owned()).into()),
    }
}

impl FusedModel {
    /// Loads a model that [`supports`](super::supports) says kernels can run, for ranks at these places; `progress` is told
    /// `(layers loaded, layers in all)`.
    ///
    /// # Errors
    /// What is wrong with the model, or with a device.
    pub(in crate::device) fn load(
        info: &Arc<ModelInfo>,
        raw: &RawStage<'_>,
        places: &[RankPlace],
        progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let mut machines = (0..places.len()).map(|rank| machine(places, rank)).collect::<Result<Vec<_>>>()?;
        let loaders = machines.iter_mut().zip(places).map(|(machine, place)| Loader {
            machine: &mut **machine,
            config: &info.config,
            shard: place.shard,
        });
        let weights = Weights::load(loaders.collect(), raw, progress)?;
        let ranks = places.iter().zip(machines).zip(weights).map(|((place, mut machine), weights)| {
            machine.begin()?;
            let info = info.with_config(place.shard.config(&info.config));
            let buffers = Buffers::none(&*machine, &info.config)?;
            Ok(FusedRank { info, place: place.clone(), machine, weights, buffers })
        });
        let ranks = ranks.collect::<Result<_>>()?;
        let (info, mailboxes, graphs) = (info.clone(), Vec::new(), HashMap::new());
        Ok(Self { info, ranks, mailboxes, turn: None, graphs, last: None, fault: None })
    }

    /// Multiply-adds of one row.
    pub(in crate::device) fn multiply_adds(&self) -> usize {
        self.ranks.iter().map(|rank| rank.weights.multiply_adds()).sum()
    }

    /// How long each takes when the last work is done anew so many times; none where it was not done by a graph, or
    /// moved rows from where others are now.
    pub(in crate::device) fn repeat(&mut self, times: usize) -> Result<Option<Duration>> {
        let Some(graph) = self.last else { return Ok(None) };
        self.take_turn();
        self.wait(|model| {
            model.finish_all()?;
            let begun = Instant::now();
            for _ in 0..times {
                model.each(|rank| rank.machine.replay(graph))?;
            }
            model.finish_all()?;
            Ok(Some(begun.elapsed() / times as u32))
        })
    }

    /// Does a list of work with the numbers of a sheet; what is known of the stream then.
    pub(super) fn run(&mut self, key: Key, sheet: &Sheet) -> Result<Stream> {
        self.take_turn();
        let done = self.attempt(|model| model.do_work(key, sheet));
        if done.is_err() {
            self.turn = None;
        }
        done
    }

    /// Waits for all work, and tells so many rows of the stream, which is the same on all ranks.
    pub(super) fn tell_stream(&mut self, stream: Stream, rows: usize) -> Result<Vec<f32>> {
        let count = rows * self.info.config.hidden;
        self.wait(|model| {
            let tell = |rank: &mut FusedRank| {
                let from = rank.buffers.streams[usize::from(stream.is_second)].address;
                rank.machine.download(from, count)
            };
            model.ask(0, tell)
        })
    }

    /// Waits for all work, and tells what all ranks have of so many rows, side by side. `of` says where a rank has that, and
    /// how many numbers of a row.
    pub(super) fn tell(&mut self, rows: usize, of: impl Fn(&FusedRank) -> (u64, usize)) -> Result<Vec<f32>> {
        self.wait(|model| {
            let tell = |rank: &mut FusedRank| {
                let (from, width) = of(rank);
                rank.machine.download(from, rows * width)
            };
            let parts = (0..model.ranks.len()).map(|rank| model.ask(rank, tell)).collect::<Asked<Vec<_>>>()?;
            Ok(side_by_side(parts, rows))
        })
    }

    /// Waits for all work.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.wait(Self::finish_all)
    }

    /// Waits until no other model exchanges sums, if this one does.
    fn take_turn(&mut self) {
        if self.ranks.len() > 1 && self.turn.is_none() {
            self.turn = Some(Turn::wait());
        }
    }

    /// Does something at whose end no rank waits for another one.
    fn wait<T>(&mut self, work: impl FnOnce(&mut Self) -> Asked<T>) -> Result<T> {
        let done = self.attempt(work);
        self.turn = None;
        done
    }

    /// Does something with the machines. What fails for anything but memory ends the model: nobody knows what is done then.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Asked<T>) -> Result<T> {
        if let Some(Fault { rank, what }) = self.fault.clone() {
            return Err(self.ranks[rank].place.failed(what));
        }
        work(self).map_err(|fault| {
            let failed = self.ranks[fault.rank].place.failed(fault.what.clone());
            if failed.is_fatal() {
                tracing::error!("{failed}");
                self.fault = Some(fault);
            }
            failed
        })
    }

    /// Asks a rank for something.
    fn ask<T>(&mut self, rank: usize, work: impl FnOnce(&mut FusedRank) -> Computed<T>) -> Asked<T> {
        let asked = &mut self.ranks[rank];
        // The thread may have had to do with another machine.
        let done = asked.machine.begin().and_then(|()| work(asked));
        done.map_err(|fault| Fault { rank, what: fault.to_string() })
    }

    /// Asks all ranks, one after the other.
    fn each(&mut self, mut work: impl FnMut(&mut FusedRank) -> Computed<()>) -> Asked<()> {
        (0..self.ranks.len()).try_for_each(|rank| self.ask(rank, &mut work))
    }

    fn finish_all(&mut self) -> Asked<()> {
        self.each(|rank| rank.machine.finish())
    }

    fn do_work(&mut self, key: Key, sheet: &Sheet) -> Asked<Stream> {
        self.make_room(&key, sheet)?;
        self.last = None;
        self.each(|rank| {
            let bytes = rank.buffers.bytes_of(sheet, rank.place.shard.rank);
            rank.machine.upload(rank.buffers.fixed(0), &bytes)
        })?;
        match self.graphs.get(&key) {
            Some(&Known::Graph { number, stream }) => {
                self.last = key.may_be_repeated().then_some(number);
                self.each(|rank| rank.machine.replay(number))?;
                Ok(stream)
            }
            Some(Known::Seen) => {
                let (number, stream) = self.note_down(&key)?;
                self.last = key.may_be_repeated().then_some(number);
                self.graphs.insert(key, Known::Graph { number, stream });
                self.each(|rank| rank.machine.replay(number))?;
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

    /// The launches of a rank for a list of work, and what is known of the stream then.
    fn launches(&mut self, rank: usize, key: &Key) -> Asked<(Vec<Launch>, Stream)> {
        let exchange = Exchange::of(&self.mailboxes, rank);
        self.ask(rank, |FusedRank { info, weights, buffers, .. }| {
            Run::new(info, weights, buffers, exchange, key.stream).all(&key.work)
        })
    }

    /// Launches a list of work on all ranks, the same step on each before the next one: a step may wait for what other ranks
    /// did in the one before it, and the first launch of a kernel may wait until nothing is at work.
    fn launch(&mut self, key: &Key) -> Asked<Stream> {
        let all = (0..self.ranks.len()).map(|rank| self.launches(rank, key)).collect::<Asked<Vec<_>>>()?;
        for step in 0..all[0].0.len() {
            self.each(|rank| rank.machine.launch(&all[rank.place.shard.rank].0[step]))?;
        }
        Ok(all[0].1)
    }

    /// Has each rank note down a list of work as a graph; the number of the graphs, and what is known of the stream then.
    fn note_down(&mut self, key: &Key) -> Asked<(usize, Stream)> {
        let mut noted = (0, Stream::default());
        for rank in 0..self.ranks.len() {
            let (launches, stream) = self.launches(rank, key)?;
            let number = self.ask(rank, |FusedRank { machine, .. }| {
                machine.begin_graph()?;
                let launched = launches.iter().try_for_each(|launch| machine.launch(launch));
                let number = machine.end_graph();
                launched.and(number)
            })?;
            noted = (number, stream);
        }
        Ok(noted)
    }

    fn make_room(&mut self, key: &Key, sheet: &Sheet) -> Asked<()> {
        let need = |rank: &FusedRank| rank.buffers.sizes().with(&rank.info.config, key.stream.rows, &key.work, sheet);
        if self.ranks.iter().all(|rank| need(rank) == rank.buffers.sizes()) {
            return Ok(());
        }
        self.forget_graphs()?;
        self.each(|rank| {
            let sizes = need(rank);
            let FusedRank { info, machine, weights, buffers, .. } = rank;
            buffers.grow(&**machine, &info.config, weights, sizes)
        })?;
        self.make_mailboxes()
    }

    /// Makes mailboxes for as many rows as go through a layer at once, anew for all ranks or for none: they count together.
    fn make_mailboxes(&mut self) -> Asked<()> {
        let (ranks, hidden) = (self.ranks.len(), self.info.config.hidden);
        let rows = self.ranks[0].buffers.sizes().rows_at_once();
        let are_there = self.mailboxes.iter().any(|mailbox| mailbox.rows() >= rows);
        if ranks == 1 || are_there {
            return Ok(());
        }
        let make = |rank: &mut FusedRank| Mailbox::new(&*rank.machine, ranks, rows, hidden);
        self.mailboxes = (0..ranks).map(|rank| self.ask(rank, make)).collect::<Asked<_>>()?;
        // What one is zero with is zero before another rank writes there.
        self.finish_all()
    }

    /// Forgets all graphs, once none is at work.
    fn forget_graphs(&mut self) -> Asked<()> {
        self.finish_all()?;
        self.graphs.clear();
        self.each(|rank| {
            rank.machine.forget_graphs();
            Ok(())
        })
    }
}

/// So many rows of which each part has its numbers.
fn side_by_side(mut parts: Vec<Vec<f32>>, rows: usize) -> Vec<f32> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let row = |row| parts.iter().flat_map(move |part| &part[row * part.len() / rows..(row + 1) * part.len() / rows]);
    (0..rows).flat_map(row).copied().collect()
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

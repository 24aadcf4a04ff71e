//! How ranks exchange what each has a part of.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use parking_lot::{Condvar, Mutex};

/// One rank's way to the others. All ranks ask for the same exchanges in the same order.
pub(crate) trait Collective: Send {
    /// What every rank gave, in the order of ranks. All give tensors of the same shape.
    ///
    /// # Errors
    /// Another rank gave up, or the way is broken.
    fn gather(&self, part: &Tensor) -> Result<Vec<Tensor>>;

    /// Tells the others, who may be waiting, that this rank will give no more.
    fn give_up(&self);
}

/// The sum of what all ranks gave, added in their order: so its bits do not depend on who came first.
pub(crate) fn sum(way: &dyn Collective, part: &Tensor) -> Result<Tensor> {
    let parts = way.gather(part)?;
    let Some((first, others)) = parts.split_first() else { return Ok(part.clone()) };
    others.iter().try_fold(first.clone(), |sum, part| sum + part)
}

/// Where ranks that are threads of one process meet.
pub(crate) struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

/// The way there of one of them.
pub(crate) struct Member {
    rank: usize,
    meeting: Arc<Meeting>,
}

struct State {
    /// What each rank gave to the present exchange.
    parts: Vec<Option<Tensor>>,
    /// Ranks that have taken all of it.
    taken: usize,
    given_up: bool,
}

impl Meeting {
    /// For so many ranks.
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        let state = State { parts: vec![None; ranks], taken: 0, given_up: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The way of a rank.
    pub(crate) fn member(self: &Arc<Self>, rank: usize) -> Member {
        Member { rank, meeting: self.clone() }
    }

    /// Makes it as new after a rank gave up, once no rank is in an exchange.
    pub(crate) fn resume(&self) {
        let mut state = self.state.lock();
        state.clear();
        state.given_up = false;
    }
}

impl Collective for Member {
    fn gather(&self, part: &Tensor) -> Result<Vec<Tensor>> {
        let Meeting { state, changed } = &*self.meeting;
        let mut state = state.lock();
        // The exchange before this one lasts until all have taken its parts.
        changed.wait_while(&mut state, |state| !state.given_up && state.parts[self.rank].is_some());
        if !state.given_up {
            state.parts[self.rank] = Some(part.clone());
            changed.notify_all();
        }
        changed.wait_while(&mut state, |state| !state.given_up && state.parts.iter().any(Option::is_none));
        if state.given_up {
            return Err(candle_core::Error::Msg("another rank has failed".to_owned()));
        }
        let parts: Vec<Tensor> = state.parts.iter().flatten().cloned().collect();
        state.taken += 1;
        if state.taken == state.parts.len() {
            state.clear();
            changed.notify_all();
        }
        drop(state);
        parts.iter().map(|other| other.to_device(part.device())).collect()
    }

    fn give_up(&self) {
        self.meeting.state.lock().given_up = true;
        self.meeting.changed.notify_all();
    }
}

impl State {
    fn clear(&mut self) {
        self.parts.fill(None);
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use candle_core::Device;

    use super::*;

    fn number(value: f32) -> Tensor {
        Tensor::new(&[value], &Device::Cpu).unwrap()
    }

    #[test]
    fn sums_are_those_of_each_exchange_in_the_order_of_ranks() {
        // Added in another order these make 0 or 1.
        let parts = [1.0, 1e8, -1e8];
        for ranks in [1, 2, 3] {
            thread::scope(|scope| {
                let meeting = Meeting::new(ranks);
                for rank in 0..ranks {
                    let way = meeting.member(rank);
                    scope.spawn(move || {
                        for turn in 0..200 {
                            let sum = sum(&way, &number(parts[rank] * (turn + 1) as f32)).unwrap();
                            let expected = parts[..ranks].iter().map(|part| part * (turn + 1) as f32);
                            assert_eq!(sum.to_vec1::<f32>().unwrap(), [expected.reduce(|a, b| a + b).unwrap()]);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn nobody_waits_for_a_rank_that_gave_up() {
        let meeting = Meeting::new(3);
        let ways = [0, 1, 2].map(|rank| meeting.member(rank));
        thread::scope(|scope| {
            let waiting: Vec<_> = ways[1..].iter().map(|way| scope.spawn(|| way.gather(&number(1.0)))).collect();
            ways[0].give_up();
            for waiting in waiting {
                assert!(waiting.join().unwrap().unwrap_err().to_string().contains("another rank has failed"));
            }
        });
        meeting.resume();
        thread::scope(|scope| {
            let all: Vec<_> = ways.iter().map(|way| scope.spawn(|| sum(way, &number(2.0)))).collect();
            for sum in all {
                assert_eq!(sum.join().unwrap().unwrap().to_vec1::<f32>().unwrap(), [6.0]);
            }
        });
    }
}

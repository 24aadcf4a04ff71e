//! Whether a pass waits for rounds that are about to come.
//!
//! Who misses a pass waits until it has ended. Sequences that draft come back one after the other, each some time after its
//! outcome was told; a pass that begins with the first of them has the others miss it, and the next time too. So a pass may
//! be put off for a moment, as long as what those gain who come meanwhile is more than what those lose who are there.
//! Where drafter and target share processors, putting it off costs less: while trees are grown, a pass would slow them down.

use std::time::Duration;

/// Share of its weight that a measurement loses in the mean when a new one arrives.
const FADE: f64 = 0.2;

/// How long after an outcome a sequence usually comes back, and how far off that is, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Return {
    mean: f64,
    deviation: f64,
}

impl Return {
    /// It came back after so long.
    pub fn observe(known: &mut Option<Self>, took: Duration) {
        let ms = took.as_secs_f64() * 1e3;
        match known {
            None => *known = Some(Self { mean: ms, deviation: ms / 2.0 }),
            Some(known) => {
                let off = ms - known.mean;
                known.mean += FADE * off;
                known.deviation += FADE * (off.abs() - known.deviation);
            }
        }
    }

    /// By when it is mostly back.
    pub fn by(self) -> Duration {
        Duration::from_secs_f64((self.mean + self.deviation) / 1e3)
    }
}

/// A pass that could begin now.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// What it takes.
    pub took: Duration,
    /// Whether its processors compute for others meanwhile.
    pub shared: bool,
}

impl Pass {
    /// How long to put it off, if at all, where `ready` sequences are and others are `due` after these times.
    ///
    /// If it begins now, the `k`-th of the others, due after `w`, and those before it wait until it has ended, `pass - w`
    /// each, and those that are ready would have waited for `w`. Where processors are shared, both it and the trees that are
    /// grown take longer by the other: the others lose `pass` each, and those that are ready `pass` too.
    pub fn put_off(self, ready: usize, due: &mut [Duration]) -> Option<Duration> {
        due.sort_unstable();
        let (pass, all_ready) = (self.took.as_secs_f64(), ready as f64);
        let gain = |(k, wait): (usize, &Duration)| {
            let (others, wait) = (k as f64, wait.as_secs_f64());
            let gain = if self.shared { (others + all_ready) * pass } else { others * (pass - wait) };
            (gain - all_ready * wait, wait)
        };
        let best = (1..).zip(due.iter()).map(gain).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (ready > 0 && best.0 > 0.0).then(|| Duration::from_secs_f64(best.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_off_ms(ready: usize, pass: Pass, due: &[u64]) -> Option<u128> {
        let mut due: Vec<Duration> = due.iter().map(|&ms| Duration::from_millis(ms)).collect();
        pass.put_off(ready, &mut due).map(|wait| wait.as_millis())
    }

    fn wait_ms(ready: usize, pass: u64, due: &[u64]) -> Option<u128> {
        put_off_ms(ready, Pass { took: Duration::from_millis(pass), shared: false }, due)
    }

    #[test]
    fn a_pass_waits_for_those_who_come_soon() {
        assert_eq!(wait_ms(1, 10, &[2]), Some(2));
        assert_eq!(wait_ms(1, 10, &[6]), None, "half of the pass is the limit for one and one");
        assert_eq!(wait_ms(1, 10, &[6, 6, 7]), Some(7));
    }

    #[test]
    fn the_more_are_there_the_shorter_they_wait() {
        assert_eq!(wait_ms(3, 10, &[2]), Some(2));
        assert_eq!(wait_ms(9, 10, &[2]), None);
        assert_eq!(wait_ms(3, 10, &[9, 2, 1]), Some(2));
    }

    #[test]
    fn where_processors_are_shared_the_trees_that_are_grown_are_waited_for() {
        let pass = Pass { took: Duration::from_millis(10), shared: true };
        assert_eq!(put_off_ms(1, pass, &[6]), Some(6));
        assert_eq!(put_off_ms(1, pass, &[19]), Some(19), "two passes are the limit for one and one");
        assert_eq!(put_off_ms(1, pass, &[21]), None);
        assert_eq!(put_off_ms(9, pass, &[12]), None, "little more than one for nine and one");
        assert_eq!(put_off_ms(1, pass, &[6, 500]), Some(6), "who is away is not");
        assert_eq!(put_off_ms(0, pass, &[6]), None);
    }

    #[test]
    fn nobody_waits_where_nobody_is_ready_or_due() {
        assert_eq!(wait_ms(0, 10, &[1]), None);
        assert_eq!(wait_ms(2, 10, &[]), None);
        assert_eq!(wait_ms(1, 0, &[1]), None);
    }

    #[test]
    fn a_sequence_that_comes_back_as_ever_is_expected_by_then() {
        let mut known = None;
        (0..50).for_each(|i| Return::observe(&mut known, Duration::from_millis(if i % 2 == 0 { 4 } else { 6 })));
        let by = known.map(Return::by).unwrap_or_default();
        assert!((Duration::from_micros(5500)..Duration::from_micros(6600)).contains(&by), "{by:?}");
    }
}

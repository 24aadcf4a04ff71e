//! The processors of one process: a team of threads for one pass at a time, and two threads beside it: one handles
//! messages, the other reads requests. Where a sequence is alone at an engine, the thread for messages computes its passes:
//! it handles no messages meanwhile, and is awake when they end.
//!
//! A pass that others wait for gives way between layers once it has computed for a slice, as `espalier_model::Team` has it:
//! whoever waits longest is next. A thread beside it that is woken is given the processor of one that has computed for as
//! long as the system lets it, or that goes to sleep; until then it waits, and whether that time is over is seen at ticks of
//! the system's clock. While it has the processor the team goes on with what is left. And who ends a pass while others wait
//! wakes the next of them, which is given the waker's processor if it has computed less. Then the waker sees to what its pass
//! found when it has a processor again: at a tick, or when nobody computes.

use std::collections::VecDeque;
use std::time::Duration;

use espalier_service_kit::Seat;
use espalier_speculation::Curve;

use crate::handler::{Handler, NOTHING};
use crate::time::{Time, of_ms};

/// How long a pass computes before it lets another go first.
const SLICE: Duration = Duration::from_micros(300);

/// What a team computes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    pub(crate) cores: usize,
    /// Of the team.
    pub(crate) threads: usize,
    /// What waking a thread takes, for messages or a pass that waited.
    pub(crate) wake: Duration,
    /// Of the system's clock.
    pub(crate) tick: Duration,
    /// How long a thread computes before it has to make way for one that was woken.
    pub(crate) stay: Duration,
}

/// A thread beside the team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Handles messages.
    Messages,
    /// Reads requests.
    Requests,
}

/// Whose thread computes a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The engine's.
    Engine,
    /// That for messages, which handles none meanwhile.
    Messages,
}

impl By {
    /// Who computes what is asked for at an engine that holds so many sequences and whose passes take so long: whoever is
    /// alone there does, as a [`Seat`] has it.
    pub(crate) fn who_asks(sequences: usize, passes: &Curve) -> Self {
        if sequences == 1 && of_ms(passes.at(1)) <= Seat::SHORT { Self::Messages } else { Self::Engine }
    }
}

/// A pass to be computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<P> {
    pub(crate) whose: P,
    pub(crate) by: By,
    pub(crate) takes: Duration,
    pub(crate) layers: usize,
}

/// Processors, and what they have to do: passes of `P`, and messages of `M`.
#[derive(Debug)]
pub(crate) struct Team<P, M> {
    processors: Processors,
    /// How long each has computed; whoever comes after a pause is at most a tick behind the others.
    computed: Vec<(P, Duration)>,
    /// The first has the team.
    passes: VecDeque<Pass<P>>,
    /// Passes that have ended, whose threads have no processor, and by when they have one.
    ended: VecDeque<Ended<P, M>>,
    beside: [Handler<M>; 2],
    /// Since when the first pass computes.
    since: Time,
    now: Time,
}

/// A pass whose thread has a processor again by some time.
#[derive(Debug)]
struct Ended<P, M> {
    until: Time,
    by: By,
    done: Done<P, M>,
}

#[derive(Debug)]
struct Pass<P> {
    whose: P,
    by: By,
    layer: f64,
    work: f64,
    left: f64,
    /// What was left when its turn began.
    turn: f64,
    /// How long it had the team.
    had: Duration,
    asked: Time,
}

/// What is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done<P, M> {
    /// A pass, which had waited for others so long.
    Pass(P, Duration),
    /// A message was handled.
    Message(M),
}

impl<P: Copy + Eq, M> Team<P, M> {
    /// A team that computes on these.
    pub(crate) fn new(processors: Processors) -> Self {
        let (passes, ended, beside) = (VecDeque::new(), VecDeque::new(), Default::default());
        Self { processors, computed: Vec::new(), passes, ended, beside, since: Time::ZERO, now: Time::ZERO }
    }

    /// Whether a pass computes.
    pub(crate) fn is_busy(&self) -> bool {
        !self.passes.is_empty()
    }

    /// A pass wants the team. [`Self::advance`] came before.
    pub(crate) fn compute(&mut self, pass: Work<P>) {
        let Work { whose, by, takes, layers } = pass;
        self.enter(whose);
        if by == By::Messages {
            self.messages().computes();
        }
        let work = (takes.as_nanos() as f64).max(1.0);
        let layer = work / layers.max(1) as f64;
        if self.passes.is_empty() {
            self.since = self.now;
        }
        self.passes.push_back(Pass {
            whose,
            by,
            layer,
            work,
            left: work,
            turn: work,
            had: Duration::ZERO,
            asked: self.now,
        });
    }

    /// A message is to be handled. [`Self::advance`] came before.
    pub(crate) fn handle(&mut self, beside: Beside, message: M, takes: Duration) {
        let from = self.has_room();
        let thread = &mut self.beside[beside as usize];
        if thread.sleeps(self.now) {
            thread.wakes(from);
            thread.take(message, takes + self.processors.wake);
        } else {
            thread.take(message, takes);
        }
    }

    /// From when a thread that is woken now has a processor, if none becomes free before.
    fn has_room(&self) -> Time {
        let Processors { cores, threads, stay, .. } = self.processors;
        let spare = cores > threads + self.others();
        let stayed = self.now.saturating_sub(self.since) >= stay;
        let free = spare || stayed || self.passes.is_empty() || self.since == self.now;
        if free { self.now } else { self.tick_after(self.since + stay) }
    }

    /// Lets time go by, up to what [`Self::next`] said at the most; whatever is done by then.
    pub(crate) fn advance(&mut self, now: Time) -> Vec<Done<P, M>> {
        let went = now.saturating_sub(self.now);
        let (pace, went_ns) = (self.pace(), went.as_nanos() as f64);
        let run = self.beside.each_ref().map(|thread| thread.runs(self.now));
        self.now = now;
        if let Some(pass) = self.passes.front_mut() {
            pass.left -= went_ns * pace;
            pass.had += went;
            let whose = pass.whose;
            self.computed.iter_mut().filter(|(other, _)| *other == whose).for_each(|(_, computed)| *computed += went);
        }
        let mut done = Vec::new();
        for (thread, _) in self.beside.iter_mut().zip(run).filter(|(_, runs)| *runs) {
            thread.work(went);
            done.extend(thread.end(now).map(Done::Message));
        }
        let pass = self.end_pass().or_else(|| self.go_on());
        pass.into_iter().chain(done).collect()
    }

    /// When the next is done, or a pass gives way.
    pub(crate) fn next(&self) -> Option<Time> {
        let pace = self.pace();
        let pass = self.passes.front().map(|pass| pass.until(self.passes.len() > 1) / pace);
        let pass = pass.map(|pass| self.now + Duration::from_nanos(pass.max(0.0).ceil() as u64));
        let beside = self.beside.iter().filter_map(|thread| thread.next(self.now));
        pass.into_iter().chain(beside).chain(self.goes_on()).min()
    }

    /// When the first of those that have ended has a processor.
    fn goes_on(&self) -> Option<Time> {
        let first = self.ended.front()?;
        Some(if self.passes.is_empty() { self.now } else { first.until })
    }

    fn go_on(&mut self) -> Option<Done<P, M>> {
        self.goes_on().filter(|&at| at <= self.now)?;
        let Ended { by, done, .. } = self.ended.pop_front()?;
        self.has_ended(by);
        Some(done)
    }

    /// The thread that computed a pass goes on with what it found.
    fn has_ended(&mut self, by: By) {
        let now = self.now;
        if by == By::Messages {
            self.messages().has_computed(now);
        }
    }

    fn messages(&mut self) -> &mut Handler<M> {
        &mut self.beside[Beside::Messages as usize]
    }

    /// Whether who wakes the first of the passes loses its processor to it.
    fn is_put_aside(&self, waker: P) -> bool {
        let woken = self.passes.front().map(|pass| self.computed(pass.whose));
        self.processors.cores <= self.processors.threads && woken < Some(self.computed(waker))
    }

    fn computed(&self, whose: P) -> Duration {
        self.computed.iter().find(|(other, _)| *other == whose).map_or(Duration::ZERO, |(_, computed)| *computed)
    }

    /// Whoever wants to compute is not further behind than a pause lets it be.
    fn enter(&mut self, whose: P) {
        let most = self.computed.iter().map(|(_, computed)| *computed).max().unwrap_or_default();
        let least = most.saturating_sub(self.processors.tick);
        match self.computed.iter_mut().find(|(other, _)| *other == whose) {
            Some((_, computed)) => *computed = (*computed).max(least),
            None => self.computed.push((whose, least)),
        }
    }

    /// The next tick after some time.
    fn tick_after(&self, time: Time) -> Time {
        let tick = self.processors.tick.as_nanos().max(1);
        Duration::from_nanos(((time.as_nanos() / tick + 1) * tick) as u64)
    }

    /// Threads beside the team that have a processor.
    fn others(&self) -> usize {
        self.beside.iter().filter(|thread| thread.runs(self.now)).count()
    }

    fn pace(&self) -> f64 {
        let Processors { cores, threads, .. } = self.processors;
        let used = cores.min(threads).max(1);
        (cores.saturating_sub(self.others()) as f64 / used as f64).clamp(0.05, 1.0)
    }

    /// Ends the first pass if it is done, or has it give way if others wait. Who ends one while nobody waits goes on at once.
    fn end_pass(&mut self) -> Option<Done<P, M>> {
        let waits = self.passes.len() > 1;
        let first = self.passes.front()?;
        if first.left < NOTHING {
            let Pass { whose, by, had, asked, .. } = self.passes.pop_front()?;
            let done = Done::Pass(whose, (self.now - asked).saturating_sub(had));
            self.begin_turn();
            if !waits || !self.is_put_aside(whose) {
                self.has_ended(by);
                return Some(done);
            }
            self.ended.push_back(Ended { until: self.tick_after(self.now), by, done });
        } else if first.until(waits) < NOTHING {
            self.passes.rotate_left(1);
            self.begin_turn();
        }
        None
    }

    /// Has the first pass go on, whose thread was asleep. Those of the one before go to sleep, and leave room.
    fn begin_turn(&mut self) {
        self.since = self.now;
        self.beside.iter_mut().for_each(|thread| thread.is_offered(self.now));
        let wake = self.processors.wake.as_nanos() as f64;
        if let Some(first) = self.passes.front_mut() {
            first.turn = first.left;
            first.left += wake;
        }
    }
}

impl<P> Pass<P> {
    /// Work until it is done, or gives way if another `waits`: at the first end of a layer after a slice.
    fn until(&self, waits: bool) -> f64 {
        if !waits {
            return self.left;
        }
        let done = self.work - self.left;
        let slice = self.work - self.turn + SLICE.as_nanos() as f64;
        let least = done.max(slice) - NOTHING;
        let boundary = (least / self.layer).ceil() * self.layer;
        (boundary.min(self.work) - done).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn team(cores: usize, wake: Duration) -> Team<char, u8> {
        let tick = Duration::from_millis(4);
        Team::new(Processors { cores, threads: 2, wake, tick, stay: US(1400) })
    }

    fn compute(team: &mut Team<char, u8>, whose: char, us: u64, layers: usize) {
        team.compute(Work { whose, by: By::Engine, takes: US(us), layers });
    }

    /// What is done by when, in microseconds, and what had waited for how long.
    fn run(team: &mut Team<char, u8>) -> Vec<(u128, Done<char, u8>)> {
        let mut found = Vec::new();
        while let Some(next) = team.next() {
            found.extend(team.advance(next).into_iter().map(|done| (next.as_micros(), done)));
        }
        found
    }

    #[test]
    fn what_a_sequence_alone_asks_for_is_computed_by_whoever_asks_unless_it_takes_long() {
        let curve = |ms: f64| crate::scenario::curve(&[(1, ms)]);
        assert_eq!(By::who_asks(1, &curve(5.0)), By::Messages);
        assert_eq!(By::who_asks(2, &curve(5.0)), By::Engine);
        assert_eq!(By::who_asks(1, &curve(5.1)), By::Engine);
    }

    #[test]
    fn a_pass_alone_takes_its_time() {
        let mut team = team(2, US(5));
        compute(&mut team, 'a', 1000, 10);
        assert_eq!(run(&mut team), [(1000, Done::Pass('a', US(0)))]);
    }

    #[test]
    fn passes_give_way_to_each_other_between_layers_after_a_slice() {
        let mut team = team(3, US(0));
        compute(&mut team, 'a', 1000, 10);
        compute(&mut team, 'b', 250, 5);
        // `a` computes for three layers, then `b` to its end: it is shorter than a slice.
        assert_eq!(run(&mut team), [(550, Done::Pass('b', US(300))), (1250, Done::Pass('a', US(250)))]);
    }

    #[test]
    fn whose_turn_it_is_has_to_wake_up() {
        let mut team = team(3, US(30));
        compute(&mut team, 'a', 100, 1);
        compute(&mut team, 'b', 100, 1);
        assert_eq!(run(&mut team), [(100, Done::Pass('a', US(0))), (230, Done::Pass('b', US(100)))]);
    }

    #[test]
    fn whose_processor_is_given_away_goes_on_at_a_tick() {
        let mut team = team(1, US(0));
        compute(&mut team, 'a', 500, 1);
        compute(&mut team, 'b', 1000, 1);
        let mut found = Vec::new();
        while let Some(next) = team.next() {
            for done in team.advance(next) {
                found.push((next.as_micros(), done));
                // `b` has one pass after the other.
                if found.len() < 5 && matches!(found.last(), Some((_, Done::Pass('b', _)))) {
                    compute(&mut team, 'b', 1000, 1);
                }
            }
        }
        let ended: Vec<(u128, char)> = found
            .into_iter()
            .filter_map(|(at, done)| if let Done::Pass(whose, _) = done { Some((at, whose)) } else { None })
            .collect();
        assert_eq!(ended, [(1500, 'b'), (2500, 'b'), (3500, 'b'), (4000, 'a'), (4500, 'b')]);
    }

    #[test]
    fn passes_of_few_layers_give_way_late() {
        let mut team = team(3, US(0));
        compute(&mut team, 'a', 1000, 2);
        compute(&mut team, 'b', 600, 1);
        assert_eq!(run(&mut team), [(1100, Done::Pass('b', US(500))), (1600, Done::Pass('a', US(600)))]);
    }

    #[test]
    fn messages_are_paid_for_by_passes() {
        let mut team = team(2, US(10));
        compute(&mut team, 'a', 1000, 1);
        team.handle(Beside::Messages, 1, US(90));
        team.handle(Beside::Messages, 2, US(100));
        // For 200 microseconds the pass has one of two processors.
        let expected = [(100, Done::Message(1)), (200, Done::Message(2)), (1100, Done::Pass('a', US(0)))];
        assert_eq!(run(&mut team), expected);
    }

    #[test]
    fn who_is_woken_waits_until_who_computes_has_to_make_way() {
        let mut team = team(2, US(0));
        compute(&mut team, 'a', 9000, 1);
        assert_eq!(team.advance(US(500)), []);
        team.handle(Beside::Messages, 1, US(100));
        // `a` may stay for 1.4 ms, and the first tick after that is at 4 ms.
        assert_eq!(run(&mut team), [(4100, Done::Message(1)), (9050, Done::Pass('a', US(0)))]);
    }

    #[test]
    fn who_is_woken_late_has_a_processor_at_once_and_requests_are_read_beside_messages() {
        let mut team = team(2, US(0));
        compute(&mut team, 'a', 4000, 1);
        assert_eq!(team.advance(US(2000)), []);
        team.handle(Beside::Messages, 1, US(100));
        team.handle(Beside::Requests, 2, US(100));
        let ended = run(&mut team);
        assert_eq!(ended[..2], [(2100, Done::Message(1)), (2100, Done::Message(2))]);
        // They had both processors.
        assert!(ended[2].0 > 4080, "{ended:?}");
    }

    #[test]
    fn whoever_goes_to_sleep_leaves_its_processor_to_who_was_woken() {
        let mut team = team(2, US(0));
        compute(&mut team, 'a', 1000, 1);
        compute(&mut team, 'b', 600, 1);
        assert_eq!(team.advance(US(500)), []);
        team.handle(Beside::Messages, 1, US(100));
        assert_eq!(run(&mut team)[0], (1100, Done::Message(1)));
    }

    #[test]
    fn who_computes_a_pass_itself_handles_messages_after_it_and_is_awake() {
        let mut team = team(2, US(50));
        team.compute(Work { whose: 'a', by: By::Messages, takes: US(1000), layers: 1 });
        team.handle(Beside::Messages, 1, US(100));
        assert_eq!(team.advance(US(1000)), [Done::Pass('a', US(0))]);
        team.handle(Beside::Messages, 2, US(100));
        assert_eq!(run(&mut team), [(1100, Done::Message(1)), (1200, Done::Message(2))]);
    }

    #[test]
    fn whoever_has_just_handled_a_message_is_awake() {
        let mut team = team(2, US(50));
        team.handle(Beside::Messages, 1, US(100));
        assert_eq!(team.advance(US(150)), [Done::Message(1)]);
        team.handle(Beside::Messages, 2, US(100));
        assert_eq!(run(&mut team), [(250, Done::Message(2))]);
        assert_eq!(team.advance(US(300)), []);
        team.handle(Beside::Messages, 3, US(100));
        assert_eq!(run(&mut team), [(450, Done::Message(3))]);
    }

    #[test]
    fn with_a_processor_of_their_own_messages_cost_passes_nothing() {
        let mut team = team(3, US(0));
        compute(&mut team, 'a', 1000, 1);
        team.handle(Beside::Messages, 1, US(100));
        assert_eq!(run(&mut team).last(), Some(&(1000, Done::Pass('a', US(0)))));
    }
}

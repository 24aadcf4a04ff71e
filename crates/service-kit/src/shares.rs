//! Who is served next where not all can be: by what each has had, over its weight.
//!
//! This is told by virtual time. Each of those who share has a clock that runs on by what it is given over its weight, and
//! the one whose clock is behind is next. The present time is the clock of one that is always given its share, and no more:
//! it runs on by what all are given over their weights, who wants less than its share leaving more to the others. Who comes
//! back begins at the present time, so nobody saves up, and nobody is served for ever by coming anew. What is given while
//! there is enough for all is nobody's loss, and is not counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;

/// How far the clock of one of weight 1 runs on for one unit: the weights divide it well enough.
const UNIT: u64 = 1 << 20;

/// What those had who share, since there was not enough for all.
#[derive(Debug)]
pub struct Shares<K> {
    /// The present time.
    now: u64,
    clocks: BTreeMap<K, Clock>,
    /// The furthest that a clock has run on at once.
    uneven: u64,
}

#[derive(Debug)]
struct Clock {
    at: u64,
    weight: NonZeroU32,
    /// How far it ran on in this turn.
    given: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It wanted nothing.
    Away,
    /// It wanted some.
    Asks,
    /// It wanted more than it was given.
    Left,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { now: 0, clocks: BTreeMap::new(), uneven: 0 }
    }
}

impl<K: Ord + Clone> Shares<K> {
    /// Begins a turn, in which these want some.
    pub fn begin(&mut self, asking: impl IntoIterator<Item = (K, NonZeroU32)>) {
        let mut before = std::mem::take(&mut self.clocks);
        for (key, weight) in asking {
            let at = before.get(&key).map_or(self.now, |clock| self.begins(clock));
            self.clocks.insert(key, Clock { at, weight, given: 0, state: State::Asks });
        }
        before.retain(|key, clock| clock.at > self.now && !self.clocks.contains_key(key));
        before.values_mut().for_each(|clock| (clock.given, clock.state) = (0, State::Away));
        self.clocks.append(&mut before);
    }

    /// Where one begins that was there in the last turn, or is ahead since an earlier one. Who was left waiting is owed all
    /// that it is behind; who had all that it wanted is owed nothing, but for what steps are uneven by.
    fn begins(&self, clock: &Clock) -> u64 {
        match clock.state {
            State::Left => clock.at,
            State::Asks => clock.at.max(self.now.saturating_sub(self.uneven)),
            State::Away => clock.at.max(self.now),
        }
    }

    /// How far one is: who is behind is next.
    pub fn clock(&self, key: &K) -> u64 {
        self.clocks.get(key).map_or(self.now, |clock| clock.at)
    }

    /// How far one will be that is given all that it asks for: who is next where whoever is done sooner goes first.
    pub fn done(&self, ask: &Ask<K>) -> u64 {
        let weight = self.clocks.get(&ask.key).map_or(NonZeroU32::MIN, |clock| clock.weight);
        self.clock(&ask.key).saturating_add(runs_on(ask.amount, weight))
    }

    /// One that wants some is given so much of it.
    pub fn give(&mut self, key: &K, amount: usize) {
        if let Some(clock) = self.clocks.get_mut(key) {
            let runs_on = runs_on(amount, clock.weight);
            clock.given = clock.given.saturating_add(runs_on);
            clock.at = clock.at.saturating_add(runs_on);
            self.uneven = self.uneven.max(runs_on);
        }
    }

    /// Ends the turn, in which these had to go without something that they wanted.
    pub fn end(&mut self, left: impl IntoIterator<Item = K>) {
        let mut all = true;
        for key in left {
            all = false;
            if let Some(clock) = self.clocks.get_mut(&key) {
                clock.state = State::Left;
            }
        }
        if all {
            // Nobody has lost anything by it, and nobody is there who might lose by what was before.
            self.clocks.retain(|_, clock| clock.state == State::Asks);
            self.clocks.values_mut().for_each(|clock| clock.at -= clock.given);
            return;
        }
        let asking = self.clocks.values().filter(|clock| clock.state != State::Away);
        self.now = self.now.saturating_add(level(asking.collect()));
    }

    /// A whole turn of those that count the same: which of the `asks`, the one that waits longest first, are served until
    /// they have had `enough`. Nobody waits before that, and what is given is over by less than one of them.
    pub fn choose(&mut self, asks: &[Ask<K>], enough: usize) -> Vec<usize> {
        self.begin(asks.iter().map(|ask| (ask.key.clone(), NonZeroU32::MIN)));
        if asks.iter().map(Ask::counts).sum::<usize>() <= enough {
            self.end([]);
            return (0..asks.len()).collect();
        }
        let mut waiting: BinaryHeap<Reverse<(u64, usize)>> =
            asks.iter().enumerate().map(|(index, ask)| Reverse((self.clock(&ask.key), index))).collect();
        let (mut chosen, mut given) = (Vec::new(), 0);
        while given < enough {
            let Some(Reverse((_, next))) = waiting.pop() else { break };
            let ask = &asks[next];
            self.give(&ask.key, ask.amount);
            given += ask.counts();
            chosen.push(next);
        }
        self.end(waiting.into_iter().map(|Reverse((_, index))| asks[index].key.clone()));
        chosen
    }

    /// Which of those that wait is next, by their numbers among the `asks`: of equals the one that waits longest.
    pub fn next_of(&self, asks: &[Ask<K>], waiting: &[usize]) -> Option<usize> {
        waiting.iter().copied().min_by_key(|&index| (self.clock(&asks[index].key), index))
    }
}

/// How far a clock of some weight runs on by an amount: nothing is for nothing.
fn runs_on(amount: usize, weight: NonZeroU32) -> u64 {
    amount.max(1) as u64 * UNIT / u64::from(weight.get())
}

/// How far the clock of one runs on that is given its share: who wanted less than that leaves more to the others.
fn level(mut asking: Vec<&Clock>) -> u64 {
    // Who was left waiting would have taken more.
    asking.sort_by_key(|clock| (clock.state == State::Left, clock.given));
    let weight = |clock: &Clock| u64::from(clock.weight.get());
    let mut weights: u64 = asking.iter().map(|clock| weight(clock)).sum();
    let mut given: u64 = asking.iter().map(|clock| clock.given.saturating_mul(weight(clock))).sum();
    for clock in asking {
        if clock.state == State::Left || clock.given.saturating_mul(weights) > given {
            break;
        }
        given -= clock.given * weight(clock);
        weights -= weight(clock);
    }
    given.checked_div(weights).unwrap_or(0)
}

/// What one of those who share wants. In a turn of [`Shares::choose`] each has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<K> {
    /// Who wants it.
    pub key: K,
    /// How much.
    pub amount: usize,
}

impl<K> Ask<K> {
    /// What it counts: nothing is for nothing.
    fn counts(&self) -> usize {
        self.amount.max(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The largest step, those who may be there at once, and what is enough for a turn.
    const STEP_MAX: usize = 100;
    const PRESENT_MAX: usize = 8;
    const ENOUGH: usize = 64;

    /// The largest share of each in a turn, where as many want some as may be there.
    const SHARE_MAX: usize = (ENOUGH + STEP_MAX) / PRESENT_MAX;

    fn ask(key: u64, amount: usize) -> Ask<u64> {
        Ask { key, amount }
    }

    /// Who waits, and how much others have had meanwhile.
    #[derive(Debug, Clone, Copy)]
    struct Waiting {
        ask: Ask<u64>,
        others: usize,
    }

    fn turn(shares: &mut Shares<u64>, waiting: &mut Vec<Waiting>) -> Vec<Ask<u64>> {
        let asks: Vec<Ask<u64>> = waiting.iter().map(|one| one.ask).collect();
        let chosen = shares.choose(&asks, ENOUGH);
        let given: usize = chosen.iter().map(|&index| asks[index].amount).sum();
        let left = asks.len() - chosen.len();
        assert!(left == 0 || given >= ENOUGH, "somebody waits though there is room");
        let last = chosen.last().map_or(0, |&index| asks[index].amount);
        assert!(given - last < ENOUGH, "no more than one runs over");
        let mut index = 0;
        waiting.retain_mut(|one| {
            let stays = !chosen.contains(&index);
            index += 1;
            one.others += given;
            stays
        });
        chosen.into_iter().map(|index| asks[index]).collect()
    }

    /// What may happen to one of those who are there before a turn: it wants so much, or it goes and another comes.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Nothing,
        Wants(usize),
        IsReplaced(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Vec<Event>>> {
        let event = prop_oneof![
            Just(Event::Nothing),
            (1..=STEP_MAX).prop_map(Event::Wants),
            (1..=STEP_MAX).prop_map(Event::Wants),
            (1..=STEP_MAX).prop_map(Event::IsReplaced),
        ];
        vec(vec(event, PRESENT_MAX), 1..200)
    }

    proptest! {
        #[test]
        fn whoever_waits_waits_for_a_bounded_amount_whoever_comes_and_goes(turns in events()) {
            let (mut shares, mut waiting, mut keys) = (Shares::default(), Vec::<Waiting>::new(), PRESENT_MAX as u64);
            let mut present: Vec<u64> = (0..keys).collect();
            for turn_events in turns {
                for (place, event) in turn_events.into_iter().enumerate() {
                    if waiting.iter().any(|one| one.ask.key == present[place]) {
                        continue;
                    }
                    let amount = match event {
                        Event::Nothing => continue,
                        Event::Wants(amount) => amount,
                        Event::IsReplaced(amount) => {
                            present[place] = keys;
                            keys += 1;
                            amount
                        }
                    };
                    waiting.push(Waiting { ask: ask(present[place], amount), others: 0 });
                }
                turn(&mut shares, &mut waiting);
                let most = waiting.iter().map(|one| one.others).max().unwrap_or(0);
                prop_assert!(most <= 3 * PRESENT_MAX * STEP_MAX, "{most} were given to others meanwhile");
                prop_assert!(shares.clocks.len() <= 8 * PRESENT_MAX, "{} are remembered", shares.clocks.len());
            }
        }

        #[test]
        fn who_wants_much_at_once_has_no_more_than_who_wants_little_often(
            sizes in vec(SHARE_MAX..=STEP_MAX, PRESENT_MAX), turns in 1..400_usize,
        ) {
            let mut shares = Shares::default();
            let mut had = vec![0; sizes.len()];
            let want = |key: usize| Waiting { ask: ask(key as u64, sizes[key]), others: 0 };
            let mut waiting: Vec<Waiting> = (0..sizes.len()).map(want).collect();
            for _ in 0..turns {
                for given in turn(&mut shares, &mut waiting) {
                    had[given.key as usize] += given.amount;
                    waiting.push(want(given.key as usize));
                }
            }
            let (most, least) = (had.iter().max().unwrap(), had.iter().min().unwrap());
            prop_assert!(most - least <= 2 * STEP_MAX, "{had:?} of {sizes:?}");
        }
    }

    #[test]
    fn a_stream_of_those_who_come_anew_keeps_nobody_waiting_who_was_there() {
        let mut shares = Shares::default();
        let mut waiting = vec![Waiting { ask: ask(0, 100), others: 0 }, Waiting { ask: ask(1, 64), others: 0 }];
        turn(&mut shares, &mut waiting);
        waiting.push(Waiting { ask: ask(0, 100), others: 0 });
        let ran_again = (2..).position(|newcomer| {
            waiting.push(Waiting { ask: ask(newcomer, 64), others: 0 });
            turn(&mut shares, &mut waiting).iter().any(|given| given.key == 0)
        });
        assert!(ran_again.unwrap() < 5, "{ran_again:?}");
    }

    #[test]
    fn who_wanted_little_has_saved_nothing_up() {
        let mut shares = Shares::default();
        let turn = |shares: &mut Shares<u64>, amount: usize| {
            let asks = [ask(0, amount), ask(1, 40), ask(2, 40), ask(3, 40)];
            shares.choose(&asks, ENOUGH).contains(&0)
        };
        assert!((0..100).all(|_| turn(&mut shares, 1)), "it wants less than its share");
        let ran = (0..8).filter(|_| turn(&mut shares, 64)).count();
        assert!(ran <= 3, "{ran} of 8");
    }

    #[test]
    fn what_is_given_while_there_is_enough_for_all_does_not_count() {
        let mut shares = Shares::default();
        for _ in 0..1000 {
            assert_eq!(shares.choose(&[ask(0, 60)], ENOUGH), [0]);
        }
        assert_eq!(shares.choose(&[ask(0, 60), ask(1, 60), ask(2, 60)], ENOUGH), [0, 1]);
        assert_eq!(
            shares.choose(&[ask(2, 60), ask(0, 60), ask(1, 60)], ENOUGH),
            [0, 1],
            "who waited, and of equals the first"
        );
    }

    #[test]
    fn a_step_larger_than_a_turn_is_served_alone() {
        let asks = [ask(0, 3), ask(1, 4096), ask(2, 4096), ask(3, 1)];
        assert_eq!(Shares::default().choose(&asks, ENOUGH), [0, 1]);
    }
}

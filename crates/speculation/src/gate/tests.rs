#![allow(clippy::unwrap_used)]

use super::*;

/// What each way really makes with so many open sequences, in tokens a millisecond of all together.
type Machine = fn(usize) -> [f64; 2];

/// Sequences in a loop: each round takes what the way makes, with some jitter, and its outcome is told to the gate.
struct Sequences {
    gate: Gate,
    machine: Machine,
    /// Whether each sequence's last round was drafted for.
    last: Vec<Option<bool>>,
    jitter: SplitMix64,
    /// Milliseconds that the first round of drafting takes on top.
    catch_up: f64,
    /// The share of rounds in which the machine stands still, and for how many milliseconds.
    hiccup: (f64, f64),
    /// Tokens that were made, and milliseconds of all sequences that it took.
    tokens: f64,
    ms: f64,
    /// Rounds that were drafted for, and all.
    drafted: usize,
    rounds: usize,
}

impl Sequences {
    fn new(machine: Machine) -> Self {
        let (gate, jitter) = (Gate::new(7), SplitMix64::new(11));
        let (catch_up, hiccup) = (0.0, (0.0, 0.0));
        Self { gate, machine, last: Vec::new(), jitter, catch_up, hiccup, tokens: 0.0, ms: 0.0, drafted: 0, rounds: 0 }
    }

    /// Another draw of everything.
    fn seeded(machine: Machine, seed: u64) -> Self {
        Self { gate: Gate::new(seed), jitter: SplitMix64::new(seed + 100), ..Self::new(machine) }
    }

    /// So many rounds of each of `open` sequences; gives the share of those that were drafted for.
    fn run(&mut self, open: usize, rounds: usize) -> f64 {
        (self.last.len()..open).for_each(|_| self.gate.enter());
        (open..self.last.len()).for_each(|_| self.gate.leave());
        self.last.resize(open, None);
        (self.drafted, self.rounds, self.tokens, self.ms) = (0, 0, 0.0, 0.0);
        for _ in 0..rounds {
            let drafts = self.gate.mode().drafts();
            let rate = (self.machine)(open)[usize::from(drafts)] / open as f64;
            for sequence in 0..open {
                let tokens = if drafts { 1 + (self.jitter.next_u64() % 5) as usize } else { 1 };
                let mean = if drafts { 3.0 } else { 1.0 };
                let ms = mean / rate * (0.9 + 0.2 * self.jitter.unit());
                let changed = self.last[sequence].replace(drafts).is_some_and(|before| before != drafts);
                let ms = if changed && drafts { ms + self.catch_up } else { ms };
                let ms = if self.jitter.unit() < self.hiccup.0 { ms + self.hiccup.1 } else { ms };
                self.gate.observe(&GateRound { drafted: drafts, changed, tokens, ms, open });
                (self.tokens, self.ms) = (self.tokens + tokens as f64, self.ms + ms);
                self.drafted += usize::from(drafts);
                self.rounds += 1;
            }
        }
        self.drafted as f64 / self.rounds as f64
    }
}

#[test]
fn plain_decoding_is_measured_first_and_drafting_mostly_tried_next() {
    let drafts_next = |seed: &u64| {
        let mut gate = Gate::new(*seed);
        for round in 0..EPOCH_ROUNDS * EPOCH_ROUNDS + EPOCH_ROUNDS / 2 {
            assert_eq!(gate.mode(), Mode::Measure, "{round}");
            gate.observe(&GateRound { drafted: false, changed: false, tokens: 1, ms: 2.0, open: 1 });
        }
        gate.mode().drafts()
    };
    // What is hoped for is a standard error above 1: five draws in six.
    assert!((0..60).filter(drafts_next).count() > 40);
}

#[test]
fn what_makes_more_is_done_nearly_always() {
    for open in [1, 4, 16] {
        let mut pays = Sequences::new(|_| [1.0, 1.5]);
        pays.run(open, 400);
        assert!(pays.run(open, 2000) > 0.97, "{open}");
        assert_eq!(pays.gate.mode(), Mode::Draft);
        let drafted = |seed| {
            let mut costs = Sequences::seeded(|_| [1.0, 0.8], seed);
            costs.run(open, 400);
            costs.run(open, 2000)
        };
        let drafted = (0..20).map(drafted).sum::<f64>() / 20.0;
        assert!(drafted < 0.03, "{open}: {drafted}");
    }
}

#[test]
fn little_is_lost_by_trying_however_near_the_two_are() {
    for [plain, draft] in [[1.0, 0.5], [1.0, 0.9], [1.0, 0.97], [0.97, 1.0], [0.8, 1.0], [0.5, 1.0]] {
        let mut lost = 0.0;
        for seed in 0..8 {
            let mut sequences = Sequences::seeded(|_| [1.0, 1.0], seed);
            let rate = [plain, draft];
            sequences.machine = MACHINES[MACHINES.iter().position(|machine| machine(1) == rate).unwrap()];
            sequences.run(4, 200);
            let share = sequences.run(4, 2000);
            let best = plain.max(draft);
            lost += (1.0 - (share * draft + (1.0 - share) * plain) / best) / 8.0;
        }
        assert!(lost < 0.025, "{plain} {draft}: {lost}");
    }
}

/// A function pointer for each pair, as machines hold no state.
const MACHINES: [Machine; 6] =
    [|_| [1.0, 0.5], |_| [1.0, 0.9], |_| [1.0, 0.97], |_| [0.97, 1.0], |_| [0.8, 1.0], |_| [0.5, 1.0]];

#[test]
fn what_tries_cost_is_a_small_share_of_all_however_dear_they_are() {
    for catch_up in [0.0, 100.0, 2000.0] {
        let mut sequences = Sequences::new(|_| [1.0, 0.9]);
        sequences.catch_up = catch_up;
        sequences.run(16, 500);
        sequences.run(16, 20_000);
        let made = sequences.tokens / sequences.ms * 16.0;
        assert!(made > 0.985, "{catch_up} ms: {made}");
    }
}

#[test]
fn who_drafts_in_vain_finds_out_although_nothing_is_saved_for_tries() {
    let mut sequences = Sequences::new(|open| if open < 16 { [1.0, 1.2] } else { [1.0, 0.85] });
    sequences.catch_up = 2000.0;
    sequences.run(8, 400);
    sequences.run(16, 400);
    assert!(sequences.gate.savings < 0.0);
    assert!(sequences.run(16, 1000) < 0.05);
}

#[test]
fn a_change_is_noticed_after_a_while() {
    let mut sequences = Sequences::new(|_| [1.0, 0.8]);
    sequences.run(2, 3000);
    sequences.machine = |_| [1.0, 2.0];
    sequences.run(2, 4000);
    assert!(sequences.run(2, 1000) > 0.9);
    sequences.machine = |_| [1.0, 0.5];
    sequences.run(2, 8000);
    assert!(sequences.run(2, 1000) < 0.1);
}

#[test]
fn a_machine_whose_pace_drifts_slows_both_ways_alike() {
    /// A pace that others take and give: each second epoch or so is another one.
    fn shared(turn: usize) -> Machine {
        [|_| [1.0, 0.8], |_| [1.3, 1.04], |_| [0.8, 0.64], |_| [1.6, 1.28]][turn % 4]
    }
    let mut sequences = Sequences::new(shared(0));
    sequences.run(4, 400);
    let drafted: f64 = (0..40)
        .map(|turn| {
            sequences.machine = shared(turn);
            sequences.run(4, 60) / 40.0
        })
        .sum();
    assert!(drafted < 0.06, "{drafted}");
}

#[test]
fn each_load_has_its_own_answer_and_is_remembered() {
    let mut sequences = Sequences::new(|open| if open < 4 { [1.0, 1.6] } else { [1.0, 0.7] });
    for open in [1, 16] {
        sequences.run(open, 600);
    }
    for (open, expected) in [(1, 1.0), (16, 0.0), (1, 1.0), (16, 0.0)] {
        // The load is as it seems until the last of those that have ended have told of their rounds.
        let share = sequences.run(open, 200);
        assert!((share - expected).abs() < 0.2, "{open}: {share}");
    }
}

#[test]
fn one_spoilt_try_does_not_keep_it_from_drafting() {
    for open in [1, 4, 16] {
        for seed in 0..40 {
            let mut sequences = Sequences::seeded(|_| [1.0, 1.4], seed);
            // The first epoch that drafts is spoilt: each of its rounds takes ten times as long.
            while !sequences.gate.mode().drafts() {
                sequences.run(open, 1);
            }
            sequences.machine = |_| [1.0, 0.14];
            let first = sequences.gate.epochs;
            while sequences.gate.epochs == first {
                sequences.run(open, 1);
            }
            sequences.machine = |_| [1.0, 1.4];
            sequences.run(open, 2500);
            let share = sequences.run(open, 300);
            assert!(share > 0.75, "{open} {seed}: {share}");
        }
    }
}

#[test]
fn a_spoilt_measure_of_plain_decoding_does_not_have_it_draft() {
    for seed in 0..40 {
        // The first measure is spoilt: each of its rounds takes ten times as long.
        let mut sequences = Sequences::seeded(|_| [0.1, 0.6], seed);
        while !sequences.gate.mode().drafts() {
            sequences.run(4, 1);
        }
        sequences.machine = |_| [1.0, 0.6];
        let share = sequences.run(4, 200);
        assert!(share < 0.4, "{seed}: {share}");
    }
}

#[test]
fn a_machine_that_slows_down_while_drafting_is_tried_is_not_taken_for_a_loss() {
    for open in [1, 4] {
        let drafted = |seed| {
            let mut sequences = Sequences::seeded(|_| [1.0, 1.15], seed);
            while !sequences.gate.mode().drafts() {
                sequences.run(open, 1);
            }
            // Somebody else begins to use it, and stays.
            sequences.machine = |_| [0.45, 0.45 * 1.15];
            sequences.run(open, 400);
            sequences.run(open, 600)
        };
        let drafted = (0..40).map(drafted).sum::<f64>() / 40.0;
        assert!(drafted > 0.75, "{open}: {drafted}");
    }
}

#[test]
fn what_loses_by_far_is_seen_in_few_rounds() {
    for seed in 0..40 {
        let drafted = Sequences::seeded(|_| [1.0, 0.12], seed).run(1, 300) * 300.0;
        assert!(drafted < 26.0, "{seed}: {drafted}");
    }
}

#[test]
fn a_machine_that_stands_still_now_and_then_is_seen_through() {
    for (machine, drafts) in [(MACHINES[4], true), (MACHINES[1], false)] {
        let share: f64 = (0..40)
            .map(|seed| {
                let mut sequences = Sequences::seeded(machine, seed);
                sequences.hiccup = (0.01, 100.0);
                sequences.run(1, 400);
                sequences.run(1, 2000) / 40.0
            })
            .sum();
        assert!(if drafts { share > 0.85 } else { share < 0.1 }, "{drafts} {share}");
    }
}

#[test]
fn many_that_begin_at_once_are_decided_for_before_their_first_rounds() {
    let mut sequences = Sequences::new(|open| if open < 4 { [1.0, 1.6] } else { [1.0, 0.7] });
    for open in [1, 16, 1] {
        sequences.run(open, 600);
    }
    assert_eq!(sequences.gate.mode(), Mode::Draft);
    (0..15).for_each(|_| sequences.gate.enter());
    assert_eq!(sequences.gate.mode(), Mode::Rest);
    // Of the last of them, when the others have ended, there is time to find out.
    (0..15).for_each(|_| sequences.gate.leave());
    assert_eq!(sequences.gate.mode(), Mode::Rest);
    assert!(sequences.run(1, 200) > 0.7);
}

#[test]
fn at_a_load_that_is_not_known_plain_decoding_is_measured_and_the_nearest_followed() {
    let mut sequences = Sequences::new(|_| [1.0, 0.4]);
    sequences.run(16, 600);
    let share = sequences.run(64, 40);
    assert!(share < 0.2, "{share}");
}

#[test]
fn a_sequence_that_follows_another_is_no_other_load() {
    let mut sequences = Sequences::new(|open| if open == 2 { [1.0, 0.5] } else { [1.0, 1.5] });
    sequences.run(2, 400);
    let mut drafted = 0.0;
    for _ in 0..50 {
        // One of two is between its texts for the time of a round.
        drafted += sequences.run(1, 1) / 100.0 + sequences.run(2, 40) / 100.0;
    }
    assert!(drafted < 0.05, "{drafted}");
}

#[test]
fn rounds_of_the_other_kind_do_not_count() {
    let mut gate = Gate::new(1);
    (0..100).for_each(|_| gate.observe(&GateRound { drafted: true, changed: false, tokens: 1, ms: 1.0, open: 1 }));
    assert_eq!(gate.mode(), Mode::Measure);
}

//! A verifier: who is open, what a pass runs, and when it begins. Its rules are those of `espalier-verifier`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use espalier_service_kit::{Ask, Shares};
use espalier_speculation::{Curve, PassLoad, Tree};
use espalier_verifier::{Pass, PromptTime, Return, TURN_ROWS_MAX, choose_prompts};

use crate::counts::PassCounts;
use crate::team::By;
use crate::time::{Time, of_ms};
use crate::who::{Key, Who};

/// How often it is looked whether those that a pass waits for have come.
const LOOK: Duration = Duration::from_micros(50);

/// What is submitted.
#[derive(Debug, Clone)]
pub(crate) enum Submission {
    /// A tree, as it is to be verified.
    Tree(Tree),
    /// So many tokens of plain decoding.
    Credit(usize),
}

/// One verifier.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) target: usize,
    costs: PassCosts,
    slots: usize,
    held: BTreeMap<Key, Held>,
    next_key: Key,
    rounds: Shares<Key>,
    prompts: Shares<Key>,
    prompt_time: PromptTime,
    /// What a pass takes.
    pass: Duration,
    turn: Option<Turn>,
    /// Since when a pass is put off, if one is.
    pub(crate) gathers: Option<Time>,
    /// What has to be done for sequences that came meanwhile, before the next pass.
    pub(crate) owed: Duration,
    pub(crate) counts: PassCounts,
}

/// What a pass takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassCosts {
    /// By its rows.
    pub(crate) curve: Curve,
    /// For each token of a prompt that it reads, in milliseconds; as for any row if absent.
    pub(crate) prompt_ms: Option<f64>,
    /// For each token that a sequence of it has behind it, in milliseconds.
    pub(crate) context_ms: f64,
    /// What an engine does beside it, and for each sequence of it.
    pub(crate) beside: [Duration; 2],
}

impl PassCosts {
    fn of(&self, pass: &PassRows) -> Duration {
        let rows = match self.prompt_ms {
            Some(ms) => self.curve.at((pass.rows - pass.prompt_rows).max(1)) + ms * pass.prompt_rows as f64,
            None => self.curve.at(pass.rows),
        };
        of_ms(rows + self.context_ms * pass.context as f64) + self.beside[0] + self.beside[1] * pass.sequences as u32
    }
}

/// What a pass runs.
struct PassRows {
    rows: usize,
    /// Tokens of prompts among them.
    prompt_rows: usize,
    sequences: usize,
    /// Tokens that these have behind them.
    context: usize,
}

#[derive(Debug)]
struct Held {
    who: Who,
    /// Positions that its cache holds.
    context: usize,
    unread: usize,
    submitted: VecDeque<Submitted>,
    answered: Time,
    has_decided: bool,
    returns: Option<Return>,
    prompts_told: Duration,
}

#[derive(Debug)]
struct Submitted {
    submission: Submission,
    arrived: Time,
}

/// A turn under way.
#[derive(Debug)]
struct Turn {
    plans: Vec<Plan>,
    begun: Time,
    load: PassLoad,
    prompt_rows: usize,
}

#[derive(Debug)]
struct Plan {
    key: Key,
    /// The round that is decided on, and since when it could have been.
    round: Option<Round>,
}

#[derive(Debug)]
struct Round {
    tree: Tree,
    ready: Time,
}

/// A round that was run, for whoever is to decide on it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) who: Who,
    pub(crate) key: Key,
    pub(crate) tree: Tree,
    pub(crate) timing: Timing,
}

/// What an outcome tells of its pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) compute: Duration,
    pub(crate) queue: Duration,
    pub(crate) load: PassLoad,
    pub(crate) prompts: Duration,
}

impl Held {
    fn has_work(&self) -> bool {
        self.unread > 0 || !self.submitted.is_empty()
    }

    /// After what time it is to be back, if it was answered and is not due yet.
    fn due_after(&self, now: Time) -> Option<Duration> {
        if self.has_work() || !self.has_decided {
            return None;
        }
        (self.answered + self.returns?.by()).checked_sub(now).filter(|after| !after.is_zero())
    }

    /// Its next round, if it is past its prompt: since when it could be run, and its rows.
    fn waiting_round(&self) -> Option<(Time, usize)> {
        let first = self.submitted.front().filter(|_| self.unread == 0)?;
        Some((self.answered.max(first.arrived), first.rows()))
    }

    /// Takes the next round: a tree, or one token of its credit.
    fn next_round(&mut self) -> Option<Round> {
        let first = self.submitted.front_mut()?;
        let ready = first.arrived.max(self.answered);
        let tree = match &mut first.submission {
            Submission::Credit(tokens) => {
                *tokens = tokens.saturating_sub(1);
                Tree::new()
            }
            Submission::Tree(tree) => std::mem::take(tree),
        };
        if !matches!(first.submission, Submission::Credit(1..)) {
            self.submitted.pop_front();
        }
        Some(Round { tree, ready })
    }
}

impl Submitted {
    fn rows(&self) -> usize {
        match &self.submission {
            Submission::Credit(_) => 1,
            Submission::Tree(tree) => 1 + tree.len(),
        }
    }
}

impl Verifier {
    pub(crate) fn new(target: usize, costs: PassCosts, slots: usize) -> Self {
        Self {
            target,
            costs,
            slots,
            held: BTreeMap::new(),
            next_key: 0,
            rounds: Shares::default(),
            prompts: Shares::default(),
            prompt_time: PromptTime::new(costs.curve),
            pass: Duration::ZERO,
            turn: None,
            gathers: None,
            owed: Duration::ZERO,
            counts: PassCounts::default(),
        }
    }

    /// What a pass of so many rows takes where nothing else runs, in milliseconds.
    pub(crate) fn curve(&self) -> &Curve {
        &self.costs.curve
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    pub(crate) fn is_running(&self) -> bool {
        self.turn.is_some()
    }

    /// Takes a sequence that has so many committed tokens to read, after so many that are known; none if all slots are taken.
    pub(crate) fn open(&mut self, who: Who, context: usize, unread: usize, now: Time) -> Option<Key> {
        if self.held.len() >= self.slots {
            return None;
        }
        let key = self.next_key;
        self.next_key += 1;
        let held = Held {
            who,
            context,
            unread,
            submitted: VecDeque::new(),
            answered: now,
            has_decided: false,
            returns: None,
            prompts_told: self.prompt_time.spent(),
        };
        self.held.insert(key, held);
        Some(key)
    }

    /// A sequence has committed so many tokens more.
    pub(crate) fn committed(&mut self, key: Key, tokens: usize) {
        if let Some(held) = self.held.get_mut(&key) {
            held.context += tokens;
        }
    }

    pub(crate) fn close(&mut self, key: Key) {
        self.held.remove(&key);
    }

    /// Takes what was submitted; nothing of a sequence that has ended.
    pub(crate) fn submit(&mut self, key: Key, submission: Submission, now: Time) {
        let Some(held) = self.held.get_mut(&key) else { return };
        if held.submitted.is_empty() && held.has_decided {
            Return::observe(&mut held.returns, now.saturating_sub(held.answered));
        }
        held.submitted.push_back(Submitted { submission, arrived: now });
    }

    pub(crate) fn has_work(&self) -> bool {
        self.held.values().any(Held::has_work)
    }

    /// Whose thread computes for a tree that was submitted.
    pub(crate) fn computed_by(&self) -> By {
        By::who_asks(self.held.len(), &self.costs.curve)
    }

    /// How long a pass that could begin is put off; `shared`: others compute on its processors.
    pub(crate) fn put_off(&self, now: Time, shared: bool) -> Option<Duration> {
        let ready = self.held.values().filter(|held| held.has_work()).count();
        if ready == self.held.len() {
            return None;
        }
        let mut due: Vec<Duration> = self.held.values().filter_map(|held| held.due_after(now)).collect();
        Pass { took: self.pass, shared }.put_off(ready, &mut due)
    }

    /// Plans a turn and begins it: what it takes, or nothing if there is nothing to run.
    pub(crate) fn begin_turn(&mut self, now: Time) -> Option<Duration> {
        let mut plans = Vec::new();
        let rounds = self.plan_rounds(&mut plans);
        let (mut rows, mut prompt_rows) = (rounds, 0);
        self.plan_prompts(rounds, &mut plans, |read, decided| {
            prompt_rows += read;
            rows += read + decided;
        });
        if plans.is_empty() {
            return None;
        }
        plans.sort_by_key(|plan| plan.key);
        let trees = plans.iter().filter(|plan| plan.round.is_some()).count();
        let past_prompt = self.held.values().filter(|held| held.unread == 0).count();
        self.counts.add(rows, trees, past_prompt);
        let load = PassLoad { rows, trees, open: self.held.len() };
        let context = plans.iter().filter_map(|plan| self.held.get(&plan.key)).map(|held| held.context).sum();
        let work = self.costs.of(&PassRows { rows, prompt_rows, sequences: plans.len(), context });
        self.turn = Some(Turn { plans, begun: now, load, prompt_rows });
        self.gathers = None;
        Some(work + std::mem::take(&mut self.owed))
    }

    fn plan_rounds(&mut self, plans: &mut Vec<Plan>) -> usize {
        let mut waiting: Vec<(Time, Key, usize)> = self
            .held
            .iter()
            .filter_map(|(&key, held)| held.waiting_round().map(|(since, rows)| (since, key, rows)))
            .collect();
        waiting.sort_unstable();
        let asks: Vec<Ask<Key>> = waiting.iter().map(|&(_, key, amount)| Ask { key, amount }).collect();
        let mut rows = 0;
        for index in self.rounds.choose(&asks, TURN_ROWS_MAX) {
            let Ask { key, amount } = asks[index];
            let round = self.held.get_mut(&key).and_then(Held::next_round);
            rows += amount;
            plans.push(Plan { key, round });
        }
        rows
    }

    /// `reads` hears of the rows of each prompt and of the round that follows.
    fn plan_prompts(&mut self, rows: usize, plans: &mut Vec<Plan>, mut reads: impl FnMut(usize, usize)) {
        let unread = self.held.iter().map(|(&key, held)| Ask { key, amount: held.unread });
        let asks: Vec<Ask<Key>> = unread.filter(|ask| ask.amount > 0).collect();
        let (held, prompts) = (&mut self.held, &mut self.prompts);
        choose_prompts(prompts, asks, rows, |Ask { key, amount }| {
            let Some(held) = held.get_mut(&key) else { return 0 };
            held.unread -= amount;
            held.context += amount;
            let round = if held.unread == 0 { held.next_round() } else { None };
            let decided = round.as_ref().map_or(0, |round| 1 + round.tree.len());
            reads(amount, decided);
            plans.push(Plan { key, round });
            decided
        });
    }

    /// Ends the turn, which had to wait for others so long: the rounds that it decides on, oldest sequence first.
    pub(crate) fn end_turn(&mut self, now: Time, waited: Duration) -> Vec<Answer> {
        let Some(Turn { plans, begun, load, prompt_rows }) = self.turn.take() else { return Vec::new() };
        let took = now - begun;
        let compute = took.saturating_sub(waited);
        self.counts.busy += compute;
        self.prompt_time.add(load.rows, prompt_rows, compute);
        self.pass = (self.pass * 3 + took.min(self.pass * 3 + LOOK)) / 4;
        let spent = self.prompt_time.spent();
        let answer = |Plan { key, round }: Plan| {
            let (Round { tree, ready }, held) = (round?, self.held.get_mut(&key)?);
            let prompts = spent.saturating_sub(held.prompts_told);
            (held.answered, held.has_decided, held.prompts_told) = (now, true, spent);
            let timing = Timing { compute, queue: begun.saturating_sub(ready) + waited, load, prompts };
            Some(Answer { who: held.who, key, tree, timing })
        };
        plans.into_iter().filter_map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn verifier() -> Verifier {
        let curve = Curve::through([(1, 1.0), (8, 1.0), (64, 8.0), (512, 64.0)]).unwrap();
        Verifier::new(0, PassCosts { curve, prompt_ms: None, context_ms: 0.0, beside: [Duration::ZERO; 2] }, 8)
    }

    fn who(request: u32) -> Who {
        Who { request, life: 1 }
    }

    #[test]
    fn a_prompt_is_read_and_its_first_round_decided_in_one_pass() {
        let mut verifier = verifier();
        let key = verifier.open(who(3), 0, 40, Time::ZERO).unwrap();
        verifier.submit(key, Submission::Credit(4), Time::ZERO);
        assert_eq!(verifier.begin_turn(Time::ZERO), Some(of_ms(verifier.curve().at(41))));
        let answers = verifier.end_turn(of_ms(5.0), Duration::ZERO);
        assert_eq!(answers.iter().map(|answer| (answer.who, answer.tree.len())).collect::<Vec<_>>(), [(who(3), 0)]);
        assert_eq!(answers[0].timing.load, PassLoad { rows: 41, trees: 1, open: 1 });
        // The credit goes on, a token a pass.
        assert_eq!(verifier.begin_turn(of_ms(5.0)), Some(of_ms(1.0)));
        assert_eq!(verifier.end_turn(of_ms(6.0), Duration::ZERO).len(), 1);
    }

    #[test]
    fn tokens_of_prompts_have_a_price_of_their_own() {
        let mut verifier = verifier();
        verifier.costs.prompt_ms = Some(0.05);
        let key = verifier.open(who(3), 0, 40, Time::ZERO).unwrap();
        verifier.submit(key, Submission::Credit(4), Time::ZERO);
        // One row decides.
        assert_eq!(verifier.begin_turn(Time::ZERO), Some(of_ms(1.0 + 40.0 * 0.05)));
    }

    #[test]
    fn a_long_prompt_takes_several_passes_beside_which_others_go_on() {
        let mut verifier = verifier();
        let long = verifier.open(who(1), 0, 600, Time::ZERO).unwrap();
        let short = verifier.open(who(2), 0, 10, Time::ZERO).unwrap();
        for key in [long, short] {
            verifier.submit(key, Submission::Credit(9), Time::ZERO);
        }
        let mut decided = Vec::new();
        for pass in 0..4 {
            verifier.begin_turn(of_ms(10.0 * f64::from(pass))).unwrap();
            let answers = verifier.end_turn(of_ms(10.0 * f64::from(pass) + 9.0), Duration::ZERO);
            decided.push(answers.iter().map(|answer| answer.who.request).collect::<Vec<_>>());
        }
        assert_eq!(decided, [vec![2], vec![2], vec![1, 2], vec![1, 2]]);
    }

    #[test]
    fn who_finds_no_slot_is_not_taken() {
        let mut verifier = verifier();
        let keys: Vec<Option<Key>> = (0..9).map(|i| verifier.open(who(i), 0, 1, Time::ZERO)).collect();
        assert_eq!(keys.iter().filter(|key| key.is_none()).count(), 1);
        verifier.close(keys[0].unwrap());
        assert!(verifier.open(who(9), 0, 1, Time::ZERO).is_some());
    }
}

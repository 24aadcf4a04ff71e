//! One turn of the engine: the rows of many sequences in one forward pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use espalier_model::{Asked, BestOf, Decoder, Logits, ModelError, Output, Row, Segment, Workspace};
use espalier_proto::RoundCounts;
use espalier_service_kit::Ask;
use espalier_speculation::{PassLoad, Token};
use tokio::time::Instant;

use super::command::Key;
use super::round::{Found, Round, Timing, WaitingRound};
use super::sequences::{Sequence, Sequences};
use super::turn_rows::{TURN_ROWS_MAX, choose_prompts};
use crate::counts::Counts;
use crate::error::VerifierError;

/// What a sequence runs in a turn.
struct Plan {
    /// Those of committed tokens that had not been run, then the root and the nodes of the tree.
    rows: Vec<Row>,
    /// How many of them are committed tokens'.
    read: usize,
    /// The round to decide on; none while the prompt is being read.
    round: Option<Round>,
}

impl Plan {
    /// Reads `prompt`, rows of committed tokens, and no more.
    fn reading(prompt: Vec<Row>) -> Self {
        Self { read: prompt.len(), rows: prompt, round: None }
    }

    /// Decides on `round` below the token `root`, after reading `prompt`: all that is left of it.
    fn deciding(prompt: Vec<Row>, root: Token, round: Round) -> Self {
        let (read, mut rows) = (prompt.len(), prompt);
        rows.push(Row { token: root, parent: read.checked_sub(1) });
        rows.extend(round.tree.tree().nodes().iter().map(|node| {
            let parent = Some(read + node.parent);
            Row { token: node.token, parent }
        }));
        Self { rows, read, round: Some(round) }
    }

    fn logits(&self) -> Logits {
        match self.round {
            Some(_) => Logits::Last(self.rows.len() - self.read),
            None => Logits::None,
        }
    }
}

/// Runs what is waiting, once, and answers.
///
/// # Errors
/// The model cannot be used any more, for the reason given; whoever waited for it was told to go elsewhere.
pub(super) fn turn(decoder: &Decoder, work: &mut Workspace, sequences: &mut Sequences) -> Result<(), String> {
    drop_abandoned(sequences);
    let plans = plan(sequences);
    if plans.is_empty() {
        return Ok(());
    }
    let Ran { ended, lost } = run(decoder, work, sequences, plans);
    ended.into_iter().for_each(|key| sequences.close(key));
    lost.map_or(Ok(()), Err)
}

/// What a pass did to those whose it was.
struct Ran {
    /// The sequences that ended.
    ended: Vec<Key>,
    /// Why the model cannot be used any more, if it cannot.
    lost: Option<String>,
}

fn drop_abandoned(sequences: &mut Sequences) {
    let abandoned: Vec<Key> =
        sequences.iter_mut().filter(|(_, sequence)| sequence.is_abandoned()).map(|(key, _)| key).collect();
    abandoned.into_iter().for_each(|key| sequences.close(key));
}

/// Rounds first, then prompts, with the round that waits for the end of each: no sequence waits a pass for its first token.
/// Where there is not enough for all, sequences share rows.
fn plan(sequences: &mut Sequences) -> BTreeMap<Key, Plan> {
    let mut plans = BTreeMap::new();
    let rows = plan_rounds(sequences, &mut plans);
    plan_prompts(sequences, rows, &mut plans);
    plans
}

/// Plans prompts beside so many rows of rounds.
fn plan_prompts(sequences: &mut Sequences, rows: usize, plans: &mut BTreeMap<Key, Plan>) {
    let mut shares = std::mem::take(&mut sequences.shares.prompts);
    let asks = sequences.iter_mut().map(|(key, sequence)| Ask { key, amount: sequence.unread() }).collect();
    choose_prompts(&mut shares, asks, rows, |read| plan_prompt(sequences, plans, &read));
    sequences.shares.prompts = shares;
}

/// The next tokens of a prompt, and the first round if these are all; gives the rows of the round.
fn plan_prompt(sequences: &mut Sequences, plans: &mut BTreeMap<Key, Plan>, read: &Ask<Key>) -> usize {
    let Some(sequence) = sequences.get_mut(read.key) else { return 0 };
    let prompt = sequence.unread_rows(read.amount);
    let round = if read.amount == sequence.unread() { sequence.next_round() } else { None };
    let plan = match round {
        Some(round) => Plan::deciding(prompt, sequence.root_token(), round),
        None => Plan::reading(prompt),
    };
    let rows = plan.rows.len() - plan.read;
    plans.insert(read.key, plan);
    rows
}

/// Plans rounds and returns how many rows they take.
fn plan_rounds(sequences: &mut Sequences, plans: &mut BTreeMap<Key, Plan>) -> usize {
    let mut waiting: Vec<(Key, WaitingRound)> =
        sequences.iter_mut().filter_map(|(key, sequence)| Some((key, sequence.waiting_round()?))).collect();
    waiting.sort_by_key(|(key, round)| (round.since, *key));
    let asks: Vec<Ask<Key>> =
        waiting.iter().map(|&(key, WaitingRound { rows: amount, .. })| Ask { key, amount }).collect();
    let mut rows = 0;
    for key in sequences.shares.rounds.choose(&asks, TURN_ROWS_MAX).into_iter().map(|index| asks[index].key) {
        let Some(sequence) = sequences.get_mut(key) else { continue };
        if let Some(round) = sequence.next_round() {
            let plan = Plan::deciding(Vec::new(), sequence.root_token(), round);
            rows += plan.rows.len();
            plans.insert(key, plan);
        }
    }
    rows
}

/// Runs the plans in one pass, and answers.
fn run(decoder: &Decoder, work: &mut Workspace, sequences: &mut Sequences, mut plans: BTreeMap<Key, Plan>) -> Ran {
    let (open, counts) = (sequences.len(), sequences.counts.clone());
    let missed =
        sequences.iter_mut().filter(|(key, sequence)| sequence.unread() == 0 && !plans.contains_key(key)).count();
    let trees = plans.values().filter(|plan| plan.round.is_some()).count();
    let (all, prompts) = sequences.with_prompt_time();
    let mut running: Vec<(Key, &mut Sequence, Plan)> =
        all.filter_map(|(key, sequence)| Some((key, sequence, plans.remove(&key)?))).collect();
    let taps = tapped_layers(&running);
    let load = PassLoad { rows: running.iter().map(|(_, _, plan)| plan.rows.len()).sum(), trees, open };
    let prompt_rows = running.iter().map(|(_, _, plan)| plan.read).sum();
    let begun = Instant::now();
    let pass = forward(decoder, work, &mut running, &taps);
    let took = begun.elapsed();
    let waited = pass.as_ref().map_or(Duration::ZERO, Output::waited);
    let compute = took.saturating_sub(waited);
    prompts.add(load.rows, prompt_rows, compute);
    let ran = RanPass { timing: Timing { begun, waited, compute, load, prompts: prompts.spent() }, counts: &counts };
    let lost = pass.as_ref().err().filter(|fault| fault.is_fatal()).map(ToString::to_string);
    let pass = pass.map_err(|fault| if fault.is_fatal() { VerifierError::Stopped } else { fault.into() });
    counts.passes.add(load.rows, running.len(), took);
    counts.passes.miss(missed);
    let mut ended = Vec::new();
    for (segment, (key, sequence, plan)) in running.into_iter().enumerate() {
        let answered = match &pass {
            Ok(output) => {
                let tap = sequence.tapped_layer().and_then(|layer| taps.iter().position(|tap| *tap == layer));
                answer(sequence, plan, &Found { output, segment, tap }, &ran)
            }
            Err(error) => Err(error.clone()),
        };
        match answered {
            Ok(false) => {}
            Ok(true) => ended.push(key),
            Err(error) => {
                tracing::error!(%error, "a sequence failed");
                sequence.reply(Err(error));
                ended.push(key);
            }
        }
    }
    Ran { ended, lost }
}

/// The layers that any of the sequences wants hidden states of, each once.
fn tapped_layers(running: &[(Key, &mut Sequence, Plan)]) -> Vec<usize> {
    let layers = running.iter().filter_map(|(_, sequence, _)| sequence.tapped_layer());
    layers.collect::<BTreeSet<_>>().into_iter().collect()
}

fn forward<'w>(
    decoder: &Decoder,
    work: &'w mut Workspace,
    running: &mut [(Key, &mut Sequence, Plan)],
    taps: &[usize],
) -> Result<Output<'w>, ModelError> {
    let best: Vec<Option<BestOf>> = running.iter().map(|(_, sequence, _)| sequence.best()).collect();
    let mut segments: Vec<Segment<'_>> = running
        .iter_mut()
        .map(|(_, sequence, plan)| Segment { cache: sequence.cache(), rows: &plan.rows, logits: plan.logits() })
        .collect();
    decoder.forward(work, &mut segments, Asked { taps, best: &best, ..Asked::default() })
}

/// Uses what the pass found for one sequence; `true` if the sequence ended.
fn answer(sequence: &mut Sequence, plan: Plan, found: &Found<'_>, pass: &RanPass<'_>) -> Result<bool, VerifierError> {
    let Some(round) = plan.round else {
        let read: Vec<usize> = (0..plan.rows.len()).collect();
        sequence.cache().keep_path(&read)?;
        sequence.keep_states(&read, found);
        return Ok(false);
    };
    let decision = sequence.decide(&round.tree, plan.read, found)?;
    let [verified, accepted, tokens] =
        [round.tree.tree().len(), decision.path.len(), decision.tokens.len()].map(|count| count as u64);
    // Who has the answer finds it counted.
    pass.counts.rounds.add(&RoundCounts { rounds: 1, drafted: 0, verified, accepted, tokens });
    Ok(sequence.settle(round, decision, &pass.timing))
}

/// A pass that has run, and where rounds are counted.
struct RanPass<'a> {
    timing: Timing,
    counts: &'a Counts,
}

//! What was survived.

use std::collections::BTreeMap;
use std::time::Duration;

use espalier_service_kit::Role;
use espalier_tests::hostile::{Rpc, Sent, wrong};
use serde_json::{Value, json};

use crate::good::Heard;

/// Bytes by which a process may have grown since a tenth of all messages was sent: what its allocator keeps.
const GROWTH_MAX: u64 = 32 << 20;

/// Wrong answers that are told of, of each sort.
const TOLD_MAX: usize = 2;

/// How often what was answered.
type Counts = BTreeMap<String, usize>;

/// All answers, counted.
#[derive(Default)]
pub(crate) struct Tally {
    sent: usize,
    by_rpc: BTreeMap<String, Counts>,
    by_kind: BTreeMap<&'static str, Counts>,
    slowest: BTreeMap<String, Duration>,
    wrong: usize,
    /// By RPC and answer.
    told: BTreeMap<String, Vec<String>>,
}

impl Tally {
    pub(crate) fn add(&mut self, sent: Sent) {
        let Sent { case, ended, took } = sent;
        let (rpc, name) = (case.rpc.to_string(), ended.name());
        let slowest = self.slowest.entry(rpc.clone()).or_default();
        *slowest = took.max(*slowest);
        *self.by_kind.entry(case.kind.name()).or_default().entry(name.clone()).or_default() += 1;
        if let Some(wrong) = wrong(&case, &ended) {
            self.wrong += 1;
            let told: &mut Vec<String> = self.told.entry(format!("{rpc} {} {name}", case.kind.name())).or_default();
            if told.len() < TOLD_MAX {
                told.push(wrong);
            }
        }
        *self.by_rpc.entry(rpc).or_default().entry(name).or_default() += 1;
        self.sent += 1;
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    pub(crate) fn wrong(&self) -> usize {
        self.wrong
    }
}

/// What is resident of each process.
#[derive(Default)]
pub(crate) struct Memory {
    /// After a tenth of all messages.
    pub(crate) early: Vec<(Role, u64)>,
    /// After all of them.
    pub(crate) late: Vec<(Role, u64)>,
}

/// What is resident of one process.
struct Resident {
    role: Role,
    early: u64,
    late: u64,
}

impl Memory {
    fn of_each(&self) -> impl Iterator<Item = Resident> {
        let both = self.early.iter().zip(&self.late);
        both.map(|(&(role, early), &(_, late))| Resident { role, early, late })
    }

    fn is_bounded(&self) -> bool {
        !self.late.is_empty() && self.of_each().all(|of| of.late <= of.early + GROWTH_MAX)
    }
}

/// All that there is to say.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) memory: Memory,
    pub(crate) alone: Heard,
    pub(crate) beside: Heard,
    pub(crate) took: Duration,
    pub(crate) faults: Vec<String>,
}

impl Report {
    /// Whether all is as it must be.
    pub(crate) fn is_good(&self) -> bool {
        let texts = [&self.alone, &self.beside].iter().all(|heard| heard.answers > 0 && heard.wrong.is_empty());
        texts && self.tally.wrong == 0 && self.faults.is_empty() && self.memory.is_bounded()
    }

    pub(crate) fn print(&self, json: bool) {
        if json {
            return println!("{}", self.as_json());
        }
        self.print_table();
        let Self { tally, alone, beside, took, .. } = self;
        let (rate, seconds) = (tally.sent as f64 / took.as_secs_f64(), took.as_secs_f64());
        println!("{} messages in {seconds:.0} s, {rate:.0} a second; {} wrong answers", tally.sent, tally.wrong);
        let (before, during) = (alone.tokens_per_second(), beside.tokens_per_second());
        let (answers, wrong, slowest) = (beside.answers, beside.wrong.len(), beside.slowest.as_secs_f64());
        println!("the good client: {answers} answers, {wrong} wrong; {during:.0} tokens/s, alone {before:.0}");
        println!("  {} of its tokens were drafted; its slowest answer took {slowest:.2} s", beside.drafted);
        for Resident { role, early, late } in self.memory.of_each() {
            let (name, limit) = (role.name(), GROWTH_MAX >> 20);
            println!("{name:<9} {} MiB after a tenth, {} MiB at the end (limit +{limit})", early >> 20, late >> 20);
        }
        let texts = [&self.alone, &self.beside].into_iter().flat_map(|heard| heard.wrong.iter().take(TOLD_MAX));
        let wrong = tally.told.values().flatten().chain(texts).chain(&self.faults);
        wrong.for_each(|wrong| println!("wrong: {wrong}"));
    }

    fn print_table(&self) {
        for rpc in Rpc::all().iter().map(Rpc::to_string) {
            let slowest = self.tally.slowest.get(&rpc).copied().unwrap_or_default().as_millis();
            println!("{rpc:<31} {} (slowest {slowest} ms)", listed(self.tally.by_rpc.get(&rpc)));
        }
        println!();
        for (kind, counts) in &self.tally.by_kind {
            println!("{kind:<31} {}", listed(Some(counts)));
        }
        println!();
    }

    fn as_json(&self) -> Value {
        let heard = |heard: &Heard| {
            json!({
                "answers": heard.answers, "wrong": heard.wrong, "tokens_per_s": heard.tokens_per_second(),
                "drafted": heard.drafted, "slowest_s": heard.slowest.as_secs_f64(),
            })
        };
        let memory = self.memory.of_each().map(
            |Resident { role, early, late }| json!({ "who": role.name(), "after_a_tenth": early, "at_the_end": late }),
        );
        json!({
            "good": self.is_good(), "messages": self.tally.sent, "seconds": self.took.as_secs_f64(),
            "by_rpc": self.tally.by_rpc, "by_kind": self.tally.by_kind, "wrong": self.tally.wrong,
            "told": self.tally.told, "faults": self.faults, "alone": heard(&self.alone),
            "beside": heard(&self.beside), "resident_bytes": memory.collect::<Vec<_>>(),
        })
    }
}

/// Counts in a line, most first.
fn listed(counts: Option<&Counts>) -> String {
    let mut counts: Vec<_> = counts.into_iter().flatten().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(*count));
    let texts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    texts.join(", ")
}

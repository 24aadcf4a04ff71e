//! `espalier bench load`: many requests at once through the gateway, plain and speculative in one run.
//!
//! Each prompt is first answered by plain decoding alone: its text is what every later answer is held against. Then a
//! system is started with all targets and drafters, whose caches know nothing yet. Level by level, plain decoding and the
//! other arms are put under the same load in turns, in an order that changes from turn to turn, so that a machine that slows
//! down slows down all alike. Each turn goes on with the prompts where the one before it ended: where there are enough of
//! them, none comes twice, and no arm profits from what another left in a cache.

mod args;
mod arms;
mod chart;
mod drive;
mod figures;
mod filled;
mod level;
mod memory;
mod outcome;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use espalier_client::Client;
use espalier_command::{Decoding, Form, Verdict, prompts, report, request, start};
use espalier_local::{Plan, SystemArgs};
use espalier_proto::GenerationRequest;
use indicatif::ProgressBar;

use self::arms::{Arm, Compared, EACH, SHARED};
use self::drive::{Asking, Question};
use self::figures::{Figures, Turn};
use self::filled::Filled;
use self::level::{Level, arrivals};
use self::outcome::Text;
use crate::error::BenchError;
use crate::limits::AT_ONCE_MAX;
use crate::turns::order;

pub use args::Load;

/// Slots of each service when requests arrive at a rate, unless told otherwise.
const OPEN_SLOTS: usize = 64;

pub(crate) async fn run(system: &SystemArgs, args: &Load) -> Result<Verdict, BenchError> {
    // What is wrong with the request is said before anything is loaded.
    let levels = levels(args);
    let prompts = mixed(args)?;
    let Compared { plan, targets, arms } = Compared::new(args, slots(args), system)?;
    let decoding = Decoding::of(args.answers);
    request("", "", Form::Chat, &decoding)?;

    let requests = requests(&targets, &prompts, &decoding)?;
    let texts = texts(&plan, &requests).await?;
    let questions = arms.iter().map(|arm| questions(arm, &requests, &texts)).collect();
    let running = start(plan).await?;
    let client = Client::new(running.gateway())?;
    let found = Bench { client, args, arms, targets, questions, asked: AtomicUsize::new(0) }.run(&levels).await;
    running.stop().await?;
    let found = found?;
    show(&found, args)?;
    Ok(found.iter().all(|figures| figures.finished > 0 && figures.is_sound()).into())
}

/// Prints what was found, and plots it if that is wanted.
fn show(found: &[Figures], args: &Load) -> Result<(), BenchError> {
    if args.json {
        found.iter().for_each(report::json);
    } else {
        tables::print(found);
    }
    if let Some(path) = &args.plot {
        report::write(path, &chart::chart(found)?)?;
    }
    Ok(())
}

/// What is asked for: rates, or else numbers of requests at once.
fn levels(args: &Load) -> Vec<Level> {
    if args.rate.is_empty() {
        args.concurrency.iter().map(|&count| Level::Concurrency(count)).collect()
    } else {
        args.rate.iter().map(|&rate| Level::Rate(rate)).collect()
    }
}

/// Slots of each service: enough that no client of a closed loop is refused, unless told otherwise. A drafter keeps one free
/// for each target that holds less than its share, so there is one more for each further target.
fn slots(args: &Load) -> usize {
    let open = (!args.rate.is_empty()).then_some(OPEN_SLOTS);
    let closed = || args.concurrency.iter().copied().max().unwrap_or(1) + args.targets.len().saturating_sub(1);
    args.slots.or(open).unwrap_or_else(|| closed().min(AT_ONCE_MAX))
}

/// Prompts of all files in turns, so that however few are asked are of all lengths that there are.
fn mixed(args: &Load) -> Result<Vec<String>, BenchError> {
    let read = |path: &PathBuf| prompts::read(path, Some(args.limit.get()));
    let files = args.prompts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let longest = files.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..longest).flat_map(|i| files.iter().filter_map(move |file| file.get(i).cloned())).collect())
}

/// What is asked of one target, whoever drafts.
#[derive(Debug, Clone)]
struct Asked {
    /// The target's index.
    target: usize,
    request: GenerationRequest,
}

/// Each prompt asked of each target, targets in turns.
fn requests(targets: &[String], prompts: &[String], decoding: &Decoding) -> Result<Vec<Asked>, BenchError> {
    let pairs =
        prompts.iter().flat_map(|prompt| targets.iter().enumerate().map(move |(i, target)| (i, target, prompt)));
    let asked = |(i, target, prompt): (usize, &String, &String)| {
        Ok(Asked { target: i, request: request(target, prompt, Form::Chat, decoding)? })
    };
    pairs.map(asked).collect()
}

/// One arm at one level, for so many requests.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The arm's index.
    arm: usize,
    level: Level,
    requests: usize,
    /// How often the arm was at the level before.
    repeat: usize,
}

/// What a run needs at every level.
struct Bench<'a> {
    client: Client,
    args: &'a Load,
    arms: Vec<Arm>,
    targets: Vec<String>,
    /// What each arm asks, by its index.
    questions: Vec<Vec<Question>>,
    /// Requests of the turns so far.
    asked: AtomicUsize,
}

impl Bench<'_> {
    /// The figures of all arms at all levels.
    async fn run(self, levels: &[Level]) -> Result<Vec<Figures>, BenchError> {
        let turns = self.arms.len() * self.args.repeats.get();
        let all: usize = levels.iter().map(|&level| self.requests(level) * turns).sum();
        let bar = report::progress(all as u64, "requests");
        let found = self.levels(levels, &bar).await;
        bar.finish_and_clear();
        found
    }

    async fn levels(&self, levels: &[Level], bar: &ProgressBar) -> Result<Vec<Figures>, BenchError> {
        // Every arm is asked once before anything counts: that wakes it up, and shows what it cannot answer.
        for (arm, _) in self.arms.iter().enumerate() {
            let step = Step { arm, level: Level::Concurrency(1), requests: self.targets.len(), repeat: 0 };
            self.turn(step, &ProgressBar::hidden()).await?;
        }
        let mut found = Vec::new();
        for &level in levels {
            found.extend(self.level(level, bar).await?);
        }
        Ok(found)
    }

    /// All arms at one level in turns.
    async fn level(&self, level: Level, bar: &ProgressBar) -> Result<Vec<Figures>, BenchError> {
        let repeats = self.args.repeats.get();
        let mut turns: Vec<Vec<Turn>> = vec![Vec::with_capacity(repeats); self.arms.len()];
        for repeat in 0..repeats {
            for arm in order(self.arms.len(), repeat, repeats) {
                let turn = self.turn(Step { arm, level, requests: self.requests(level), repeat }, bar).await?;
                if let Some(turns) = turns.get_mut(arm) {
                    turns.push(turn);
                }
            }
        }
        Ok(self.figures(level, &turns))
    }

    /// The figures of all arms at one level, from the turns of each.
    fn figures(&self, level: Level, turns: &[Vec<Turn>]) -> Vec<Figures> {
        let turns: Vec<Vec<&Turn>> = turns.iter().map(|turns| turns.iter().collect()).collect();
        let plain = turns.first().map_or(&[][..], Vec::as_slice);
        // What the same policy makes with a drafter for each target.
        let each = |arm: &Arm| {
            let is_each = |other: &Arm| arm.name == SHARED && other.name == EACH && other.policy == arm.policy;
            self.arms.iter().position(is_each).and_then(|each| turns.get(each))
        };
        let of_arm = |(arm, of_arm): (&Arm, &Vec<&Turn>)| {
            let figures = Figures { targets: self.targets.clone(), ..Figures::new(arm, level, of_arm, plain) };
            match each(arm) {
                Some(each) => figures.beside_each(of_arm, each),
                None => figures,
            }
        };
        self.arms.iter().zip(&turns).map(of_arm).collect()
    }

    /// One arm at one level until its requests are through.
    async fn turn(&self, step: Step, bar: &ProgressBar) -> Result<Turn, BenchError> {
        let Step { arm, level, requests, repeat } = step;
        let heard = bar.clone();
        let asking = Arc::new(Asking {
            client: self.client.clone(),
            questions: self.questions.get(arm).cloned().unwrap_or_default(),
            first: self.asked.fetch_add(requests, Ordering::Relaxed),
            requests,
            deadline: Duration::from_secs(self.args.deadline),
            heard: Box::new(move || heard.inc(1)),
        });
        memory::forget();
        let before = Filled::read(&self.client).await?;
        let begun = Instant::now();
        let outcomes = match level {
            Level::Concurrency(clients) => drive::closed(asking, clients).await?,
            Level::Rate(rate) => {
                // All arms meet the same arrivals.
                let seed = self.args.answers.seed.wrapping_add(repeat as u64);
                drive::open(asking, arrivals(rate, requests, seed)).await?
            }
        };
        let took = begun.elapsed();
        let filled = Filled::read(&self.client).await?.since(before);
        Ok(Turn { outcomes, took, filled, peak_bytes: memory::peak_bytes() })
    }

    /// Requests of a turn.
    fn requests(&self, level: Level) -> usize {
        self.args.requests.unwrap_or_else(|| level.requests())
    }
}

/// The text of every request by plain decoding alone, one after the other, in a system that is there for nothing else.
async fn texts(plan: &Plan, requests: &[Asked]) -> Result<Vec<Text>, BenchError> {
    let running = start(Plan { drafters: Vec::new(), ..plan.clone() }).await?;
    let mut client = Client::new(running.gateway())?;
    let bar = report::progress(requests.len() as u64, "plain texts");
    let mut texts = Vec::with_capacity(requests.len());
    for Asked { request, .. } in requests {
        let alone = GenerationRequest { speculate: false, ..request.clone() };
        let answer = client.generate(alone, |_| {}).await;
        bar.inc(1);
        texts.push(Text::from(&answer.inspect_err(|_| bar.finish_and_clear())?));
    }
    bar.finish_and_clear();
    running.stop().await?;
    Ok(texts)
}

/// What an arm is asked, and the texts that have to come.
fn questions(arm: &Arm, requests: &[Asked], texts: &[Text]) -> Vec<Question> {
    let question = |(Asked { target, request }, expected): (&Asked, &Text)| {
        let (drafter, policy) = (arm.drafters.get(*target).cloned(), arm.policy.clone());
        Question { request: GenerationRequest { drafter, policy, ..request.clone() }, expected: expected.clone() }
    };
    requests.iter().zip(texts).map(question).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! `espalier bench load`: many requests at once through the gateway, plain and speculative in one run.
//!
//! Each prompt is first answered by plain decoding alone: its text is what every later answer is held against. Then a
//! system is started with all targets and drafters, whose caches know nothing yet. Level by level, plain decoding and the
//! other arms are put under the same load in turns, in an order that changes from turn to turn, so that a machine that slows
//! down slows down all alike. Each turn goes on with the prompts where the one before it ended: where there are enough of
//! them, none comes twice, and no arm profits from what another left in a cache.

mod arms;
mod chart;
mod drive;
mod figures;
mod level;
mod memory;
mod outcome;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use espalier_client::Client;
use espalier_local::Plan;
use espalier_proto::GenerationRequest;
use indicatif::ProgressBar;

use self::arms::{Arm, EACH, SHARED};
use self::drive::{Asking, Question};
use self::figures::{Figures, Turn};
use self::level::{Level, arrivals};
use self::outcome::Text;
use super::policies::order;
use crate::Verdict;
use crate::args::{Decoding, Load, SystemArgs};
use crate::error::CliError;
use crate::request::{Form, request};
use crate::{prompts, report, system};

/// Places of each service when requests arrive at a rate, unless told otherwise.
const OPEN_PLACES: usize = 64;

pub(crate) async fn run(system: &SystemArgs, args: &Load) -> Result<Verdict, CliError> {
    // What is wrong with the request is said before anything is loaded.
    let levels = levels(args);
    let prompts = mixed(args)?;
    let (plan, targets, arms) = arms::arms(args, places(args), system)?;
    let decoding = Decoding::of(args.answers);
    request("", "", Form::Chat, &decoding)?;

    let requests = requests(&targets, &prompts, &decoding)?;
    let texts = texts(&plan, &requests).await?;
    let questions = arms.iter().map(|arm| questions(arm, &requests, &texts)).collect();
    let running = system::start(plan).await?;
    let client = Client::new(running.gateway())?;
    let found = Bench { client, args, arms, targets, questions, asked: AtomicUsize::new(0) }.run(&levels).await;
    running.stop().await?;
    let found = found?;

    print(&found, args.json);
    if let Some(path) = &args.plot {
        chart::chart(&found).save(path)?;
    }
    let answered = found.iter().all(|figures| figures.finished > 0);
    Ok((answered && found.iter().all(Figures::is_sound)).into())
}

fn print(found: &[Figures], json: bool) {
    if json {
        found.iter().for_each(report::json);
    } else {
        tables::print(found);
    }
}

/// What is asked for: rates, or else numbers of requests at once.
fn levels(args: &Load) -> Vec<Level> {
    if args.rate.is_empty() {
        args.concurrency.iter().map(|&count| Level::Concurrency(count)).collect()
    } else {
        args.rate.iter().map(|&rate| Level::Rate(rate)).collect()
    }
}

/// Places of each service: enough that no client of a closed loop is refused, unless told otherwise.
fn places(args: &Load) -> usize {
    let open = (!args.rate.is_empty()).then_some(OPEN_PLACES);
    args.places.or(open).unwrap_or_else(|| args.concurrency.iter().copied().max().unwrap_or(1))
}

/// Prompts of all files in turns, so that however few are asked are of all lengths that there are.
fn mixed(args: &Load) -> Result<Vec<String>, CliError> {
    let read = |path: &PathBuf| prompts::read(path, Some(args.limit.get()));
    let files = args.prompts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let longest = files.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..longest).flat_map(|i| files.iter().filter_map(move |file| file.get(i).cloned())).collect())
}

/// Each prompt asked of each target, targets in turns.
fn requests(
    targets: &[String],
    prompts: &[String],
    decoding: &Decoding,
) -> Result<Vec<(usize, GenerationRequest)>, CliError> {
    let pairs =
        prompts.iter().flat_map(|prompt| targets.iter().enumerate().map(move |(i, target)| (i, target, prompt)));
    pairs.map(|(i, target, prompt)| Ok((i, request(target, prompt, Form::Chat, decoding)?))).collect()
}

/// What a run needs at every level.
struct Bench<'a> {
    client: Client,
    args: &'a Load,
    arms: Vec<Arm>,
    targets: Vec<String>,
    /// What each arm asks, by its place.
    questions: Vec<Vec<Question>>,
    /// Requests of the turns so far.
    asked: AtomicUsize,
}

impl Bench<'_> {
    /// The figures of all arms at all levels.
    async fn run(self, levels: &[Level]) -> Result<Vec<Figures>, CliError> {
        let turns = self.arms.len() * self.args.repeats.get();
        let all: usize = levels.iter().map(|&level| self.requests(level) * turns).sum();
        let bar = report::progress(all as u64, "requests");
        let found = self.levels(levels, &bar).await;
        bar.finish_and_clear();
        found
    }

    async fn levels(&self, levels: &[Level], bar: &ProgressBar) -> Result<Vec<Figures>, CliError> {
        // Every arm is asked once before anything counts: that wakes it up, and shows what it cannot answer.
        for (arm, _) in self.arms.iter().enumerate() {
            self.turn(arm, Level::Concurrency(1), (self.targets.len(), 0), &ProgressBar::hidden()).await?;
        }
        let mut found = Vec::new();
        for &level in levels {
            found.extend(self.level(level, bar).await?);
        }
        Ok(found)
    }

    /// All arms at one level in turns.
    async fn level(&self, level: Level, bar: &ProgressBar) -> Result<Vec<Figures>, CliError> {
        let repeats = self.args.repeats.get();
        let mut turns: Vec<Vec<Turn>> = vec![Vec::with_capacity(repeats); self.arms.len()];
        for repeat in 0..repeats {
            for arm in order(self.arms.len(), repeat, repeats) {
                let turn = self.turn(arm, level, (self.requests(level), repeat), bar).await?;
                if let Some(turns) = turns.get_mut(arm) {
                    turns.push(turn);
                }
            }
        }
        let turns: Vec<Vec<&Turn>> = turns.iter().map(|turns| turns.iter().collect()).collect();
        let plain = turns.first().map_or(&[][..], Vec::as_slice);
        let each = self.arms.iter().position(|arm| arm.name == EACH).and_then(|each| turns.get(each));
        let of_arm = |(arm, turns): (&Arm, &Vec<&Turn>)| {
            let figures = Figures { targets: self.targets.clone(), ..Figures::new(arm, level, turns, plain) };
            match each {
                Some(each) if arm.name == SHARED => figures.beside_each(turns, each),
                _ => figures,
            }
        };
        Ok(self.arms.iter().zip(&turns).map(of_arm).collect())
    }

    /// One arm at one level until its requests are through.
    async fn turn(
        &self,
        arm: usize,
        level: Level,
        (requests, repeat): (usize, usize),
        bar: &ProgressBar,
    ) -> Result<Turn, CliError> {
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
        let begun = Instant::now();
        let outcomes = match level {
            Level::Concurrency(clients) => drive::closed(asking, clients).await?,
            // All arms meet the same arrivals.
            Level::Rate(rate) => {
                drive::open(asking, arrivals(rate, requests, self.args.answers.seed.wrapping_add(repeat as u64)))
                    .await?
            }
        };
        Ok(Turn { outcomes, took: begun.elapsed(), peak_bytes: memory::peak_bytes() })
    }

    /// Requests of a turn.
    fn requests(&self, level: Level) -> usize {
        self.args.requests.unwrap_or_else(|| level.requests())
    }
}

/// The text of every request by plain decoding alone, one after the other, in a system that is there for nothing else.
async fn texts(plan: &Plan, requests: &[(usize, GenerationRequest)]) -> Result<Vec<Text>, CliError> {
    let running = system::start(Plan { drafters: Vec::new(), ..plan.clone() }).await?;
    let mut client = Client::new(running.gateway())?;
    let bar = report::progress(requests.len() as u64, "plain texts");
    let mut texts = Vec::with_capacity(requests.len());
    for (_, request) in requests {
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
fn questions(arm: &Arm, requests: &[(usize, GenerationRequest)], texts: &[Text]) -> Vec<Question> {
    let question = |((target, request), expected): (&(usize, GenerationRequest), &Text)| {
        let (drafter, policy) = (arm.drafters.get(*target).cloned(), arm.policy.clone());
        Question { request: GenerationRequest { drafter, policy, ..request.clone() }, expected: expected.clone() }
    };
    requests.iter().zip(texts).map(question).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! Answers are asked for, evenly over a time, and a fault comes every second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use espalier_speculation::SplitMix64;
use espalier_tests::{Said, Watch, persist};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{interval, timeout};

use crate::fault::{Fault, Kind, Standing, choose};
use crate::questions::Timed;
use crate::service::Service;
use crate::system::System;
use crate::timeline::Timeline;

/// The time between two faults.
const FAULT_EVERY: Duration = Duration::from_secs(1);

/// What becomes of everything within this time after the last request was sent.
const END_MAX: Duration = Duration::from_secs(60);

/// What is to be done.
pub(crate) struct Plan {
    pub(crate) generations: usize,
    /// The time over which they are asked for.
    pub(crate) span: Duration,
    pub(crate) seed: u64,
    /// Restart one after the other instead of faults at random.
    pub(crate) rolling: bool,
    /// An answer to which faults add more is told of in the timeline.
    pub(crate) added_max: Duration,
}

/// What became of one request.
pub(crate) struct Outcome {
    /// Why it failed, or what was wrong with the text.
    pub(crate) wrong: Option<String>,
    /// Beyond what the question usually takes.
    pub(crate) added: Duration,
    /// How often its stream broke.
    pub(crate) resumed: u32,
    /// How often its sequence was opened again by the gateway that ended it.
    pub(crate) failovers: u32,
}

/// Faults by what was hit, and how.
pub(crate) type Faults = BTreeMap<(String, Kind), usize>;

/// Questions for a system that is being broken.
pub(crate) struct Storm<'s> {
    pub(crate) system: &'s System,
    pub(crate) questions: &'s [Timed],
    pub(crate) timeline: &'s Timeline,
    pub(crate) plan: Plan,
}

/// An answer of which it is noted that it is asked for again.
struct Noted<'t> {
    index: usize,
    timeline: &'t Timeline,
}

impl Watch for Noted<'_> {
    fn is_refused(&mut self, why: &espalier_proto::Fault) {
        self.timeline.note(format_args!("answer {} is asked for again: {why}", self.index));
    }
}

impl Storm<'_> {
    /// Asks and breaks until all is answered.
    pub(crate) async fn run(&self) -> (Vec<Outcome>, Faults) {
        let mut faults = Faults::new();
        let breaking = async {
            match self.plan.rolling {
                true => self.restart_all(&mut faults).await,
                false => self.break_on(&mut faults).await,
            }
        };
        let answers = tokio::select! {
            answers = self.ask_all() => answers,
            () = breaking => unreachable!("faults come for ever"),
        };
        (answers, faults)
    }

    async fn ask_all(&self) -> Vec<Outcome> {
        let generations = self.plan.generations;
        let mut due = interval(self.plan.span / generations as u32);
        let (mut asking, mut outcomes) = (FuturesUnordered::new(), Vec::new());
        for index in 0..generations {
            loop {
                tokio::select! {
                    _ = due.tick() => break,
                    Some(outcome) = asking.next() => outcomes.push(outcome),
                }
            }
            asking.push(self.ask(index));
            if index % 50 == 0 {
                eprintln!("{index} of {generations} were asked for, {} are answered", outcomes.len());
            }
        }
        let rest = async {
            while let Some(outcome) = asking.next().await {
                outcomes.push(outcome);
            }
        };
        if timeout(END_MAX, rest).await.is_err() {
            let wrong = || Some(format!("no end came within {END_MAX:?}"));
            let without = || Outcome { wrong: wrong(), added: END_MAX, resumed: 0, failovers: 0 };
            outcomes.resize_with(generations, without);
        }
        outcomes
    }

    async fn ask(&self, index: usize) -> Outcome {
        let Timed { question, usual } = &self.questions[index % self.questions.len()];
        let begun = Instant::now();
        let mut noted = Noted { index, timeline: self.timeline };
        let answered = persist(|| self.system.client(), &question.request, &mut noted).await;
        let added = begun.elapsed().saturating_sub(*usual);
        let outcome = match answered {
            Err(error) => Outcome { wrong: Some(error.to_string()), added, resumed: 0, failovers: 0 },
            Ok(answer) => {
                let said = Said::from(&answer);
                let wrong = (said != question.right).then(|| format!("{said:?} where {:?} is right", question.right));
                Outcome { wrong, added, resumed: answer.resumed, failovers: answer.completion.speculation.failovers }
            }
        };
        if outcome.wrong.is_some() || added > self.plan.added_max {
            let Outcome { resumed, failovers, .. } = outcome;
            let (target, drafted) = (&question.request.target, outcome.wrong.is_none());
            self.timeline.note(format_args!(
                "answer {index} of {target} was {added:.2?} late: resumed {resumed}, failovers {failovers}, right {drafted}"
            ));
        }
        outcome
    }

    /// As an upgrade does.
    async fn restart_all(&self, faults: &mut Faults) {
        for service in self.system.services.iter().cycle() {
            *faults.entry((service.group.clone(), Kind::Restarted)).or_default() += 1;
            self.timeline.note(format_args!("{} is restarted", service.name()));
            service.suffer(Kind::Restarted, Duration::ZERO).await;
            self.timeline.note(format_args!("{} does its work again", service.name()));
        }
    }

    async fn break_on(&self, faults: &mut Faults) {
        let services = &self.system.services;
        let mut random = SplitMix64::new(self.plan.seed);
        let (mut due, mut suffering) = (interval(FAULT_EVERY), FuturesUnordered::new());
        loop {
            tokio::select! {
                _ = due.tick() => {}
                Some(service) = suffering.next() => {
                    self.timeline.note(format_args!("{} does its work again", Service::name(service)));
                    continue;
                }
            }
            let standings: Vec<_> =
                services.iter().map(|one| Standing { group: &one.group, well: one.is_well() }).collect();
            let Some(Fault { service, kind, away }) = choose(&mut random, &standings) else { continue };
            let service = &services[service];
            *faults.entry((service.group.clone(), kind)).or_default() += 1;
            self.timeline.note(format_args!("{} is {kind}, {away:.1?}", service.name()));
            suffering.push(async move {
                service.suffer(kind, away).await;
                service
            });
        }
    }
}

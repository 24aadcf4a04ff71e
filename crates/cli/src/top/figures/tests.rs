#![allow(clippy::unwrap_used)]

use super::*;
use crate::top::tests::{counted, system};

#[test]
fn rates_are_differences_over_the_time_between() {
    let (before, now) = (system(1_000, 10), system(3_000, 30));
    let figures = Figures::between(Some(&before), &now);
    // Twenty more rounds of 4 nodes, 3 tokens and 2 accepted in two seconds.
    let pace = Pace { tokens_per_second: Some(30.0), tau: Some(3.0), nodes: Some(4.0), accepted: Some(0.5) };
    assert_eq!(figures.gateway.pace, pace);
    let target = figures.targets[0].work.as_ref().unwrap();
    assert_eq!((target.pace, target.rows, target.shared_by), (pace, Some(12.0), Some(2.0)));
    assert_eq!((target.sequences, target.sequences_max, target.trees), (3, 8, 2));
    let drafter = figures.drafters[0].work.as_ref().unwrap();
    assert_eq!(drafter.targets.iter().map(|target| target.pace).collect::<Vec<_>>(), [pace]);
    assert_eq!((drafter.kv.held, drafter.kv.blocks), (8, 32));
}

#[test]
fn one_reading_has_levels_and_no_rates() {
    let figures = Figures::between(None, &system(1_000, 10));
    assert_eq!(figures.gateway.pace, Pace::default());
    let work = figures.targets[0].work.as_ref().unwrap();
    assert_eq!((work.pace, work.rows, work.sequences), (Pace::default(), None, 3));
}

#[test]
fn a_service_that_was_started_anew_has_no_rates_until_it_is_read_again() {
    let (before, mut now) = (system(9_000, 50), system(10_000, 60));
    let restarted = now.verifiers[0].status.as_mut().unwrap();
    restarted.process.uptime = Duration::from_millis(500);
    let figures = Figures::between(Some(&before), &now);
    assert_eq!(figures.targets[0].work.as_ref().unwrap().pace, Pace::default());
    assert!(figures.gateway.pace.tau.is_some());

    // It may have been up for longer than before; then its counts give it away.
    let restarted = now.verifiers[0].status.as_mut().unwrap();
    restarted.process.uptime = Duration::from_secs(11);
    restarted.rounds = counted(5);
    let figures = Figures::between(Some(&before), &now);
    assert_eq!(figures.targets[0].work.as_ref().unwrap().pace, Pace::default());
}

#[test]
fn nothing_done_is_a_rate_of_0_and_no_tau() {
    let figures = Figures::between(Some(&system(1_000, 10)), &system(2_000, 10));
    let idle = Pace { tokens_per_second: Some(0.0), ..Pace::default() };
    assert_eq!(figures.gateway.pace, idle);
    assert_eq!(figures.drafters[0].work.as_ref().unwrap().rows, None);
}

#[test]
fn services_are_told_apart_by_address_and_new_ones_have_no_rates() {
    let (mut before, mut now) = (system(1_000, 10), system(2_000, 20));
    before.verifiers[0].url = "http://elsewhere:1".to_owned();
    now.verifiers.push(before.verifiers[0].clone());
    let figures = Figures::between(Some(&before), &now);
    let tau = |service: &Service| service.work.as_ref().unwrap().pace.tau;
    assert_eq!(tau(&figures.targets[0]), None);
    // The same counts at the same uptime: no time has passed.
    assert_eq!(tau(&figures.targets[1]), None);

    // A target that a drafter meets for the first time begins at 0.
    before.drafters[0].status.as_mut().unwrap().targets.clear();
    let figures = Figures::between(Some(&before), &now);
    assert_eq!(figures.drafters[0].work.as_ref().unwrap().targets[0].pace.tokens_per_second, Some(60.0));
}

#[test]
fn who_does_not_tell_has_no_work() {
    let mut now = system(2_000, 20);
    now.verifiers[0].status = None;
    let figures = Figures::between(Some(&system(1_000, 10)), &now);
    assert_eq!(figures.targets[0].work, None);
    let json = serde_json::to_value(&figures).unwrap();
    assert!(json["targets"][0]["work"].is_null() && json["gateway"]["pace"]["tau"] == 3.0, "{json}");
}

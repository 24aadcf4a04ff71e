//! Many cases, some at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use espalier_service_kit::Role;
use futures::{Stream, StreamExt, stream};

use super::case::{Case, Kind};
use super::line::{Ended, Line};
use super::rpc::Rpc;
use super::usual::Surroundings;

/// Connections to each service. The last one is for wrong heads alone: what is far too large takes its connection with it.
const LINES: usize = 4;

/// Where the services are.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The gateway's URL.
    pub gateway: String,
    /// The drafter's.
    pub drafter: String,
    /// The verifier's.
    pub verifier: String,
}

impl Addresses {
    /// That of a service.
    pub fn of(&self, role: Role) -> &str {
        match role {
            Role::Gateway => &self.gateway,
            Role::Drafter => &self.drafter,
            Role::Verifier => &self.verifier,
        }
    }
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Decides on all that is random.
    pub seed: u64,
    /// Cases of each RPC.
    pub count: usize,
    /// Cases that are under way at once.
    pub at_once: usize,
    /// What they name.
    pub around: Surroundings,
}

/// A case, and what became of it.
#[derive(Debug)]
pub struct Sent {
    /// What was sent.
    pub case: Case,
    /// What became of it.
    pub ended: Ended,
    /// How long that took.
    pub took: Duration,
}

/// Sends all cases of a plan, those of all RPCs in turns.
pub fn volley<'a>(plan: &'a Plan, addresses: &Addresses) -> impl Stream<Item = Sent> + use<'a> {
    let lines_to = |role| (0..LINES).map(|_| Line::new(addresses.of(role))).collect();
    let lines: Vec<Vec<Line>> = Role::ALL.into_iter().map(lines_to).collect();
    let (rpcs, lines) = (Rpc::all().len(), Arc::new(lines));
    let sent = stream::iter(0..rpcs * plan.count).map(move |index| {
        let case = Case::new(plan.seed, index % rpcs, index / rpcs, &plan.around);
        let lines = Arc::clone(&lines);
        async move {
            let (begun, line) = (Instant::now(), &lines[case.rpc.role as usize][line_of(&case)]);
            let ended = line.send(&case).await;
            Sent { case, ended, took: begun.elapsed() }
        }
    });
    sent.buffer_unordered(plan.at_once)
}

fn line_of(case: &Case) -> usize {
    if case.kind == Kind::Http { LINES - 1 } else { case.number % (LINES - 1) }
}

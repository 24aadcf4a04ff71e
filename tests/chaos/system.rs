//! All processes.

use std::path::Path;

use espalier_client::Client;
use espalier_tests::{free, model};
use futures::future::join_all;

use crate::front::Front;
use crate::questions::TARGETS;
use crate::service::{Service, Start};

/// So many of each.
const REPLICAS: usize = 2;

/// Two drafters, two replicas of each target, and two gateways behind one address.
pub(crate) struct System {
    pub(crate) services: Vec<Service>,
    front: Front,
}

impl System {
    /// Starts all, and returns when all do their work.
    pub(crate) async fn start(programs: &Path, logs: &Path) -> Self {
        let path = |name: &str| model(name).to_string_lossy().into_owned();
        let start = |program: &str, args: Vec<String>| Start { program: programs.join(program), args, listen: free() };
        let hosting = |name: &str| vec!["--model".to_owned(), path(name), "--threads".to_owned(), "1".to_owned()];
        let mut services = Vec::new();
        for target in TARGETS {
            for _ in 0..REPLICAS {
                services.push(Service::start(target, start("espalier-verifier", hosting(target)), logs).await);
            }
        }
        let verifiers = urls(&services, "--verifier");
        let mut drafters = Vec::new();
        for _ in 0..REPLICAS {
            let args = [hosting("small"), vec!["--layers".to_owned(), "2".to_owned()]].concat();
            drafters.push(Service::start("drafter", start("espalier-drafter", args), logs).await);
        }
        let known = [verifiers, urls(&drafters, "--drafter")].concat();
        let mut gateways = Vec::new();
        for _ in 0..REPLICAS {
            gateways.push(Service::start("gateway", start("espalier-gateway", known.clone()), logs).await);
        }
        let front = Front::start(gateways.iter().map(|gateway| gateway.url().to_owned()).collect()).await;
        services.extend(drafters);
        services.extend(gateways);
        join_all(services.iter().map(Service::recover)).await;
        Self { services, front }
    }

    /// A client of the one address; its own connection, so that not all share one gateway.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.front.url()).unwrap()
    }
}

fn urls(services: &[Service], option: &str) -> Vec<String> {
    services.iter().flat_map(|service| [option.to_owned(), service.url().to_owned()]).collect()
}

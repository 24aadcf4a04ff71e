//! Services of one kind that join and leave while the gateway runs, and who of them takes a sequence.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::address::{Address, Location, ServiceName};
use crate::balance::{Candidate, choose};
use crate::config::PEERS_MAX;
use crate::health::{RETRY_INTERVAL, keep_asking};
use crate::peers::{Card, Held, Peer, Standing};
use crate::surroundings::Surroundings;

/// Verifiers, or drafters.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    surroundings: Surroundings,
    names: Vec<Name>,
    members: RwLock<Vec<Member<T>>>,
    /// Choices made so far. Held while one is made, so that each sees what those before it took.
    turn: Mutex<usize>,
    /// Whether names have been looked up for so long that services which were started with this gateway have addresses.
    settled: AtomicBool,
    /// Told when one of the peers has come up.
    ups: Arc<Notify>,
}

#[derive(Debug)]
struct Member<T> {
    /// The name that it was found by; absent if it was given by its address.
    name: Option<usize>,
    peer: Arc<Peer<T>>,
}

/// A name, and what was last complained of about it, so that nothing is said twice.
#[derive(Debug)]
struct Name {
    service: ServiceName,
    failing: AtomicBool,
    left_out: AtomicUsize,
}

impl Name {
    fn new(service: ServiceName) -> Self {
        Self { service, failing: AtomicBool::new(false), left_out: AtomicUsize::new(0) }
    }
}

impl<T: Card> Pool<T> {
    pub(crate) fn new(locations: &[Location], surroundings: &Surroundings) -> Self {
        let (mut names, mut members) = (Vec::new(), Vec::new());
        let ups = Arc::<Notify>::default();
        for location in locations {
            match location.clone() {
                Location::At(address) => members.push(Member { name: None, peer: Arc::new(Peer::new(address, &ups)) }),
                Location::Named(service) => names.push(Name::new(service)),
            }
        }
        let members = RwLock::new(members);
        Self {
            surroundings: surroundings.clone(),
            names,
            members,
            turn: Mutex::new(0),
            settled: AtomicBool::new(false),
            ups,
        }
    }

    /// Looks up every name and asks every service once.
    pub(crate) async fn refresh(&self) {
        self.resolve().await;
        join_all(self.peers().iter().map(|peer| peer.refresh(self.surroundings.workplace))).await;
    }

    /// Goes on asking, each service on its own, and looking names up, until the future is dropped. Services that are started
    /// together get their addresses one by one, so names are looked up more often at first: after a quarter of a second,
    /// and each time after twice as long.
    pub(crate) async fn watch(&self) {
        let mut asking = JoinSet::new();
        for peer in self.peers() {
            asking.spawn(keep_asking(peer, self.surroundings.clone()));
        }
        let usual = self.surroundings.resolver.interval;
        let mut pause = RETRY_INTERVAL.min(usual);
        loop {
            sleep(self.surroundings.chance.jittered(pause)).await;
            for peer in self.resolve().await {
                asking.spawn(keep_asking(peer, self.surroundings.clone()));
            }
            while asking.try_join_next().is_some() {}
            if pause == usual {
                self.settled.store(true, Ordering::Relaxed);
            }
            pause = usual.min(pause * 2);
        }
    }

    /// All that there are at present.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer<T>>> {
        let members = self.members.read();
        members.iter().map(|member| Arc::clone(&member.peer)).collect()
    }

    /// What those are that have described themselves, those that answer first.
    pub(crate) fn known(&self) -> Vec<(Standing, Arc<T>)> {
        let known = |peer: Arc<Peer<T>>| Some((peer.standing(), peer.card()?));
        let mut known: Vec<_> = self.peers().into_iter().filter_map(known).collect();
        known.sort_by_key(|&(standing, _)| standing);
        known
    }

    /// How many have never said what they are: services that did not answer yet, and names that stand for nobody or may
    /// stand for more in a moment.
    pub(crate) fn silent(&self) -> usize {
        let members = self.members.read();
        let unheard = members.iter().filter(|member| member.peer.card().is_none()).count();
        let named = |index| members.iter().any(|member| member.name == Some(index));
        let settled = self.settled.load(Ordering::Relaxed);
        unheard + (0..self.names.len()).filter(|&index| !settled || !named(index)).count()
    }

    /// Those that take sequences and suit.
    fn suiting(&self, suits: impl Fn(&Peer<T>, &T) -> bool) -> Vec<(Arc<Peer<T>>, Arc<T>)> {
        let up = self.peers().into_iter().filter(|peer| peer.standing() == Standing::Up);
        let known = up.filter_map(|peer| Some((peer.card()?, peer)));
        known.filter(|(card, peer)| suits(peer, card)).map(|(card, peer)| (peer, card)).collect()
    }

    /// Whether one of the peers takes sequences and suits.
    pub(crate) fn has(&self, suits: impl Fn(&Peer<T>, &T) -> bool) -> bool {
        !self.suiting(suits).is_empty()
    }

    /// Ready when [`Self::has`] holds.
    pub(crate) async fn until_has(&self, suits: impl Fn(&Peer<T>, &T) -> bool) {
        loop {
            let told = self.ups.notified();
            if self.has(&suits) {
                return;
            }
            told.await;
        }
    }

    /// Gives a sequence to one of the peers that take some and suit it.
    pub(crate) fn choose(&self, key: u64, suits: impl Fn(&Peer<T>, &T) -> bool) -> Option<Held<T>> {
        let mut turn = self.turn.lock();
        let suiting = self.suiting(suits);
        let candidates: Vec<_> =
            suiting.iter().map(|(peer, card)| Candidate { url: peer.url(), occupancy: peer.occupancy(card) }).collect();
        let chosen = choose(&candidates, key, *turn)?;
        *turn = turn.wrapping_add(1);
        let (peer, card) = suiting.into_iter().nth(chosen)?;
        Some(Held::new(&peer, card))
    }

    /// Looks up every name; those who joined.
    async fn resolve(&self) -> Vec<Arc<Peer<T>>> {
        let found = join_all(self.names.iter().map(|name| self.surroundings.resolver.resolve(&name.service))).await;
        let found = self.names.iter().enumerate().zip(found);
        found.flat_map(|((index, name), found)| self.apply(index, name, found)).collect()
    }

    /// A name that cannot be looked up keeps its peers: that they are there, they say themselves.
    fn apply(&self, index: usize, name: &Name, found: io::Result<Vec<SocketAddr>>) -> Vec<Arc<Peer<T>>> {
        let was_failing = name.failing.swap(found.is_err(), Ordering::Relaxed);
        let host = &name.service.host;
        match found {
            Ok(found) => self.replace(index, name, &found),
            Err(error) => {
                if !was_failing {
                    tracing::warn!(host, %error, "a name cannot be resolved; its last addresses are kept");
                }
                Vec::new()
            }
        }
    }

    /// Has those leave that a name no longer stands for, and those join that are new.
    fn replace(&self, index: usize, name: &Name, found: &[SocketAddr]) -> Vec<Arc<Peer<T>>> {
        let dialer = &name.service.dialer;
        let urls: BTreeSet<String> = found.iter().map(|address| format!("{}://{address}", dialer.scheme())).collect();
        let mut members = self.members.write();
        members.retain(|member| {
            let stays = member.name != Some(index) || urls.contains(member.peer.url());
            if !stays {
                member.peer.leave();
            }
            stays
        });
        let (mut joined, mut left_out) = (Vec::new(), 0);
        for url in urls {
            if members.iter().any(|member| member.peer.url() == url) {
                continue;
            }
            match Address::parse(&url, dialer) {
                Ok(address) if members.len() < PEERS_MAX => {
                    let peer = Arc::new(Peer::new(address, &self.ups));
                    tracing::info!(url, "a service joins");
                    members.push(Member { name: Some(index), peer: Arc::clone(&peer) });
                    joined.push(peer);
                }
                _ => left_out += 1,
            }
        }
        let before = name.left_out.swap(left_out, Ordering::Relaxed);
        if left_out > 0 && left_out != before {
            let (host, limit) = (&name.service.host, PEERS_MAX);
            tracing::warn!(host, left_out, limit, "a name stands for more addresses than there may be peers");
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;
    use std::time::Duration;

    use espalier_proto::DrafterCard;
    use espalier_service_kit::Dialer;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::resolver::Resolver;

    fn address(last: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + last as u32), 50053))
    }

    /// What a name stands for: addresses by number, or nothing that can be found.
    type Answer = Arc<Mutex<Option<Vec<usize>>>>;

    fn pool(locations: &[&str], answer: &Answer) -> Pool<DrafterCard> {
        let parse = |location: &&str| Location::parse(location, &Dialer::default()).unwrap();
        let locations: Vec<Location> = locations.iter().map(parse).collect();
        let answer = Arc::clone(answer);
        let resolver = Resolver::new(Duration::from_secs(1), move |_, _| {
            let found = answer.lock().clone().map(|found| found.into_iter().map(address).collect());
            async { found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)) }
        });
        Pool::new(&locations, &Surroundings { resolver, ..Surroundings::default() })
    }

    fn urls(pool: &Pool<DrafterCard>) -> Vec<String> {
        pool.peers().iter().map(|peer| peer.url().to_owned()).collect()
    }

    const FIXED: &str = "http://10.0.0.9:50053";
    const NAMED: &str = "dns+http://drafters:50053";

    #[tokio::test]
    async fn who_a_name_stands_for_joins_and_who_it_does_not_leaves() {
        let answer = Answer::default();
        let pool = pool(&[FIXED, NAMED], &answer);
        let mut steps = Vec::new();
        for found in [Some(vec![1, 2]), None, Some(vec![3, 2, 2, 9]), Some(vec![])] {
            answer.lock().clone_from(&found);
            let joined: Vec<String> = pool.resolve().await.iter().map(|peer| peer.url().to_owned()).collect();
            steps.push((joined.len(), urls(&pool)));
        }
        let [one, two, three] = [1, 2, 3].map(|last| format!("http://10.0.0.{last}:50053"));
        let fixed = FIXED.to_owned();
        assert_eq!(steps[0], (2, vec![fixed.clone(), one.clone(), two.clone()]));
        assert_eq!(steps[1], (0, vec![fixed.clone(), one, two.clone()]), "what cannot be found changes nothing");
        assert_eq!(steps[2], (1, vec![fixed.clone(), two, three]), "the address that was given stands once");
        assert_eq!(steps[3], (0, vec![fixed]));
    }

    #[tokio::test]
    async fn a_peer_that_is_found_again_is_the_same_and_one_that_left_is_asked_no_more() {
        let answer = Answer::default();
        let pool = pool(&[NAMED], &answer);
        *answer.lock() = Some(vec![1]);
        let first = pool.resolve().await.remove(0);
        pool.resolve().await;
        assert!(Arc::ptr_eq(&first, &pool.peers()[0]));
        *answer.lock() = Some(vec![2]);
        pool.resolve().await;
        // Ends, because the peer has left.
        keep_asking(first, Surroundings::default()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_more_often_at_first_and_may_stand_for_more_until_then() {
        let (looks, begun) = (Arc::<Mutex<Vec<Duration>>>::default(), Instant::now());
        let told = Arc::clone(&looks);
        let resolver = Resolver::new(Duration::from_secs(5), move |_, _| {
            told.lock().push(begun.elapsed());
            async { Ok(Vec::new()) }
        });
        let pool = Pool {
            surroundings: Surroundings { resolver, ..Surroundings::default() },
            ..pool(&[NAMED], &Answer::default())
        };
        pool.apply(0, &pool.names[0], Ok(vec![address(1)]));
        assert_eq!(pool.silent(), 2, "who has not answered, and who may join in a moment");
        pool.resolve().await;
        assert!(timeout(Duration::from_secs(60), pool.watch()).await.is_err());
        let looks = std::mem::take(&mut *looks.lock());
        let pauses: Vec<f64> = looks.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
        assert!(pauses[0] < 0.5 && pauses[..5].iter().sum::<f64>() < 10.0, "{pauses:?}");
        assert!(pauses[5..].iter().all(|&pause| pause > 4.0), "{pauses:?}");
        pool.apply(0, &pool.names[0], Ok(vec![address(1)]));
        assert_eq!(pool.silent(), 1, "no more are to be expected");
    }

    #[tokio::test]
    async fn no_more_peers_join_than_there_may_be() {
        let answer = Answer::default();
        let pool = pool(&[FIXED, NAMED], &answer);
        *answer.lock() = Some((1000..1000 + 2 * PEERS_MAX).collect());
        assert_eq!(pool.resolve().await.len(), PEERS_MAX - 1);
        assert_eq!(urls(&pool).len(), PEERS_MAX);
        assert_eq!(pool.names[0].left_out.load(Ordering::Relaxed), PEERS_MAX + 1);
    }
}

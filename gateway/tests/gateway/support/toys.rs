//! The verifier and the drafter, and how they are started.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use espalier_proto::pb::drafter_server::{Drafter, DrafterServer};
use espalier_proto::pb::verifier_server::{Verifier, VerifierServer};
use espalier_proto::{
    DrafterCard, DrafterStatus, FILE_DESCRIPTOR_SET, Grant, Model, Open, Outcome, Party, Process, Slots, Start,
    Submission, TokenizerFiles, VerifierCard, VerifierEvent, VerifierStatus, Vocabulary, pb,
};
use espalier_round::{Driver, EVENTS_MAX, Event, Grants, Ngram, RemoteVerifier, Sequence};
use espalier_service_kit::{Drain, bind, channel};
use espalier_speculation::{NgramLimits, PassLoad, Token, Tree, TreeBounds, commit, walk};
use espalier_text::{Parts, Tokenizer};
use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::life::{Guest, Life};
use super::target::*;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct ToyVerifier {
    name: String,
    tokenizer: Tokenizer,
    life: Arc<Life>,
}

impl ToyVerifier {
    fn tree_nodes_max(&self) -> usize {
        match self.life.tree_nodes_max.load(Ordering::SeqCst) {
            0 => 64,
            max => max,
        }
    }

    fn context(&self) -> usize {
        match self.life.context.load(Ordering::SeqCst) {
            0 => CONTEXT,
            context => context,
        }
    }

    fn card(&self) -> VerifierCard {
        VerifierCard {
            name: self.name.clone(),
            vocabulary: Vocabulary { size: VOCAB, fingerprint: self.tokenizer.fingerprint().to_owned() },
            context: self.context(),
            tree_nodes_max: self.tree_nodes_max(),
            sequences_max: 8,
            end_tokens: if self.life.ends_more.load(Ordering::SeqCst) { vec![END, END + 1] } else { vec![END] },
            costs: vec![],
            model: Model {
                fingerprint: format!("the model of {}", self.name),
                layers: 1,
                hidden_size: 1,
                arithmetic: "f32".to_owned(),
                revision: self.life.revision.load(Ordering::SeqCst),
            },
        }
    }
}

/// One sequence of the toy target.
struct ToySequence {
    up: Streaming<pb::VerifyRequest>,
    open: Open,
    max_nodes: usize,
    /// The number of the next token that there is credit for, and of how many there is.
    credit: (u64, usize),
    opened: bool,
    over: bool,
    guest: Guest,
}

impl ToySequence {
    async fn next(&mut self) -> Result<Option<VerifierEvent>, Status> {
        if !std::mem::replace(&mut self.opened, true) {
            return Ok(Some(VerifierEvent::Opened { reused_prefix: 0 }));
        }
        let Some((round, tree)) = self.next_tree().await? else { return Ok(None) };
        self.guest.0.round()?;
        let outcome = self.verify(round, &tree);
        self.over = outcome.finish.is_some();
        Ok(Some(VerifierEvent::Outcome(outcome)))
    }

    async fn next_tree(&mut self) -> Result<Option<(u64, Tree)>, Status> {
        let bounds = TreeBounds { vocab: VOCAB, max_nodes: self.max_nodes, max_depth: 64 };
        if self.credit.1 == 0 {
            let Some(message) = self.up.message().await? else { return Ok(None) };
            match Submission::read(message, &bounds, self.open.sequence.sampling.acceptance()).unwrap() {
                Submission::Tree(numbered) => return Ok(Some((numbered.round, numbered.tree.tree().clone()))),
                Submission::Credit(credit) => self.credit = (credit.round, credit.tokens),
            }
        }
        let round = self.credit.0;
        self.credit = (round + 1, self.credit.1 - 1);
        Ok(Some((round, Tree::new())))
    }

    fn verify(&mut self, round: u64, tree: &Tree) -> Outcome {
        let decide = |node: usize| {
            let path = tree.path(node).into_iter().map(|id| tree.node(id).unwrap().token);
            let text: Vec<Token> = self.open.sequence.committed.iter().copied().chain(path).collect();
            Ok::<_, ()>(next_token(&text))
        };
        let walk = walk(tree, decide).unwrap();
        let stops = [&[END], self.open.sequence.stop_tokens.as_slice()].concat();
        let committed = commit(tree, &walk, &stops, self.open.sequence.max_tokens);
        self.open.sequence.commit(&committed.tokens);
        Outcome {
            round,
            path: walk.path[..committed.accepted].to_vec(),
            tokens: committed.tokens,
            logprobs: vec![],
            finish: committed.finish,
            compute: Duration::from_micros(10),
            queue: Duration::ZERO,
            load: PassLoad::default(),
            prompts: Duration::ZERO,
            states: None,
        }
    }
}

#[tonic::async_trait]
impl Verifier for ToyVerifier {
    type FetchTokenizerStream = Answers<pb::FetchTokenizerResponse>;
    type VerifyStream = Answers<pb::VerifyResponse>;

    async fn describe(
        &self,
        _: Request<pb::DescribeVerifierRequest>,
    ) -> Result<Response<pb::DescribeVerifierResponse>, Status> {
        self.life.describe()?;
        Ok(Response::new(self.card().into()))
    }

    async fn fetch_tokenizer(
        &self,
        _: Request<pb::FetchTokenizerRequest>,
    ) -> Result<Response<Self::FetchTokenizerStream>, Status> {
        let parts = self.tokenizer.parts().clone();
        let files =
            TokenizerFiles { tokenizer: parts.tokenizer, config: parts.config, chat_template: parts.chat_template };
        let chunks = stream::iter(files.into_chunks().map(Ok));
        Ok(Response::new(match self.life.stalls.load(Ordering::SeqCst) {
            true => chunks.take(1).chain(stream::pending()).boxed(),
            false => chunks.boxed(),
        }))
    }

    async fn verify(
        &self,
        request: Request<Streaming<pb::VerifyRequest>>,
    ) -> Result<Response<Self::VerifyStream>, Status> {
        self.life.admit(Party::Verifier)?;
        let mut up = request.into_inner();
        let open = Open::read(up.message().await?.unwrap(), &self.card()).unwrap();
        let (max_nodes, guest) = (self.tree_nodes_max(), Guest::new(&self.life));
        let sequence = ToySequence { up, open, max_nodes, credit: (0, 0), opened: false, over: false, guest };
        let answers = stream::unfold(Some(sequence), |sequence| async {
            let mut sequence = sequence?;
            match sequence.next().await {
                Ok(Some(event)) => {
                    let over = sequence.over;
                    Some((Ok(event.into()), Some(sequence).filter(|_| !over)))
                }
                Ok(None) => None,
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn status(
        &self,
        _: Request<pb::VerifierStatusRequest>,
    ) -> Result<Response<pb::VerifierStatusResponse>, Status> {
        self.life.speaks().await;
        let (process, rounds) = (Process::default(), self.life.counts());
        let sequences = Slots { open: self.life.open(), max: 8 };
        Ok(Response::new(VerifierStatus { process, sequences, rounds, ..VerifierStatus::default() }.into()))
    }
}

struct ToyDrafter {
    card: DrafterCard,
    life: Arc<Life>,
}

#[tonic::async_trait]
impl Drafter for ToyDrafter {
    type SpeculateStream = Answers<pb::SpeculateResponse>;

    async fn describe(
        &self,
        _: Request<pb::DescribeDrafterRequest>,
    ) -> Result<Response<pb::DescribeDrafterResponse>, Status> {
        self.life.describe()?;
        Ok(Response::new(self.card.clone().into()))
    }

    async fn speculate(
        &self,
        request: Request<Streaming<pb::SpeculateRequest>>,
    ) -> Result<Response<Self::SpeculateStream>, Status> {
        self.life.admit(Party::Drafter)?;
        self.life.reach()?;
        let mut up = request.into_inner();
        let start = Start::read(up.message().await?.unwrap(), &self.card.bounds()).unwrap();
        let guest = Guest::new(&self.life);
        self.life.thresholds.lock().unwrap().clone_from(&start.exit_thresholds);
        let acceptance = start.sequence.sampling.acceptance();
        let sequence = Sequence::new(start.sequence.committed.clone(), start.sequence.max_tokens);
        let open = Open { sequence: start.sequence, tap: None };
        let verifier = channel(&start.verifier).unwrap();
        let verifier = RemoteVerifier::open(verifier, open, MetadataMap::new()).await?;
        let (events, read) = mpsc::channel::<Event>(EVENTS_MAX);
        let grants = Grants::new();
        let proposer = Ngram::new(vec![], NgramLimits::default(), acceptance);
        tokio::spawn(Driver::new(sequence, proposer, verifier).run(grants.clone(), events));
        tokio::spawn(async move {
            while let Ok(Some(message)) = up.message().await {
                grants.add(Grant::read(message).unwrap()).unwrap();
            }
            grants.close();
        });
        let answers = ReceiverStream::new(read).map(move |event| {
            guest.0.round()?;
            Ok(event.map_err(Status::from)?.into())
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn status(
        &self,
        _: Request<pb::DrafterStatusRequest>,
    ) -> Result<Response<pb::DrafterStatusResponse>, Status> {
        self.life.speaks().await;
        let (process, rounds) = (Process::default(), self.life.counts());
        let sequences = Slots { open: self.life.open(), max: 8 };
        Ok(Response::new(DrafterStatus { process, sequences, rounds, ..DrafterStatus::default() }.into()))
    }
}

/// A service at work, and where.
pub struct Toy {
    pub url: String,
    pub life: Arc<Life>,
    stop: Arc<Notify>,
}

impl Toy {
    fn new(url: String) -> Self {
        Self { url, life: Arc::default(), stop: Arc::default() }
    }

    /// A service at an address where nobody listens any more.
    pub async fn gone() -> Self {
        Self::new(bind(ANY_PORT).await.unwrap().url())
    }

    pub fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Asks the service to end; what runs there goes on.
    pub fn drain(&self) {
        self.stop.notify_one();
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let stop = Arc::clone(&self.stop);
        async move { stop.notified().await }
    }
}

/// Time enough for a gateway to see that a toy drains.
const DRAIN: Drain = Drain { announce: Duration::from_secs(20), limit: Duration::from_secs(20) };

pub async fn verifier(name: &str) -> Toy {
    verifier_with(name, tokenizer()).await
}

/// A verifier with a chat template of its own.
pub async fn templated_verifier(name: &str, template: &str) -> Toy {
    let chat_template = Some(template.as_bytes().to_vec());
    let parts = Parts { chat_template, ..tokenizer().parts().clone() };
    verifier_with(name, Tokenizer::from_parts(parts).unwrap()).await
}

async fn verifier_with(name: &str, tokenizer: Tokenizer) -> Toy {
    let bound = bind(ANY_PORT).await.unwrap().with_drain(DRAIN);
    let toy = Toy::new(bound.url());
    let service = ToyVerifier { name: name.to_owned(), tokenizer, life: Arc::clone(&toy.life) };
    tokio::spawn(bound.serve(VerifierServer::new(service), FILE_DESCRIPTOR_SET, toy.stopped()));
    toy
}

/// A verifier that answers everything, but says that it takes no calls.
pub async fn unready_verifier(name: &str) -> Toy {
    let listener = TcpListener::bind(ANY_PORT).await.unwrap();
    let toy = Toy::new(format!("http://{}", listener.local_addr().unwrap()));
    let service = ToyVerifier { name: name.to_owned(), tokenizer: tokenizer(), life: Arc::clone(&toy.life) };
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    let server = Server::builder().add_service(VerifierServer::new(service)).add_service(health_service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    toy
}

/// A drafter; `fingerprint` is that of the shipped tokenizer unless given.
pub async fn drafter(name: &str, fingerprint: Option<&str>) -> Toy {
    let bound = bind(ANY_PORT).await.unwrap().with_drain(DRAIN);
    let toy = Toy::new(bound.url());
    let fingerprint = fingerprint.map_or_else(|| tokenizer().fingerprint().to_owned(), str::to_owned);
    let card = DrafterCard {
        name: name.to_owned(),
        vocabulary: Vocabulary { size: VOCAB, fingerprint },
        kind: "independent".to_owned(),
        layers: 1,
        context: CONTEXT,
        only_target: None,
        exits: 3,
        arithmetic: "f32".to_owned(),
    };
    let service = ToyDrafter { card, life: Arc::clone(&toy.life) };
    tokio::spawn(bound.serve(DrafterServer::new(service), FILE_DESCRIPTOR_SET, toy.stopped()));
    toy
}

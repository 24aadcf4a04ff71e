//! What services tell those who watch them: the three programs, a collector of OTLP, and a scraper.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use espalier_client::{Answer, Client};
use espalier_metrics::catalogue::ALL;
use espalier_tests::{Collector, Process, SpanOf, answer, free, model, prompts, request, sampling, until_known};

/// The three services of a system, each a process that sends all its traces, and tells its metrics to scrapers.
struct Services {
    collector: Collector,
    drafter: Option<Process>,
    _others: Vec<Process>,
    /// Where the gateway, the drafter and the verifier tell their metrics.
    metrics: [SocketAddr; 3],
}

impl Services {
    async fn start() -> (Self, Client) {
        let (collector, sent_to) = Collector::start().await;
        let [gateway, drafter, verifier] = [(); 3].map(|()| free());
        let metrics = [(); 3].map(|()| free());
        let start = |name: &str, listen: SocketAddr, metrics: SocketAddr, own: &[&str]| {
            let (sent_to, metrics) = (format!("http://{sent_to}"), metrics.to_string());
            let watched = ["--otlp-endpoint", &sent_to, "--trace-ratio", "1", "--metrics-listen", &metrics];
            Process::start(&programs(), name, listen, &[own, &watched].concat(), None)
        };
        let url = |address: SocketAddr| format!("http://{address}");
        let folder = |name: &str| model(name).to_str().unwrap().to_owned();
        let own = ["--verifier", &url(verifier), "--drafter", &url(drafter)];
        let others = vec![
            start("verifier", verifier, metrics[2], &["--model", &folder("medium"), "--threads", "1"]),
            start("gateway", gateway, metrics[0], &own),
        ];
        let drafter = start("drafter", drafter, metrics[1], &["--model", &folder("sorted"), "--threads", "1"]);
        let client = Client::new(&url(gateway)).unwrap();
        until_known(&client, 1).await;
        (Self { collector, drafter: Some(drafter), _others: others, metrics }, client)
    }
}

/// The folder of the programs that are built with the tests of their packages: above that of test programs.
fn programs() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// What is told at a path of the port for scrapers.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let accept = "application/openmetrics-text;version=1.0.0";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

async fn ask(client: &Client, case: usize, speculate: bool) -> Answer {
    let (prompt, _) = prompts("medium").swap_remove(case);
    let request = request("medium", &prompt, 24, sampling(0.0, 0));
    let request = espalier_proto::GenerationRequest { speculate, ..request };
    answer(client, request).await
}

/// The spans of each trace that a request began.
fn by_trace(spans: &[SpanOf]) -> BTreeMap<Vec<u8>, Vec<SpanOf>> {
    let mut traces: BTreeMap<Vec<u8>, Vec<SpanOf>> = BTreeMap::new();
    for span in spans {
        traces.entry(span.span.trace_id.clone()).or_default().push(span.clone());
    }
    traces.retain(|_, spans| spans.iter().any(|of| of.span.name.ends_with("/Generate")));
    traces
}

fn named<'a>(spans: &'a [SpanOf], service: &str, ending: &str) -> Vec<&'a SpanOf> {
    spans.iter().filter(|of| of.service == service && of.span.name.ends_with(ending)).collect()
}

/// The rounds of a trace whose outcomes came.
fn rounds(spans: &[SpanOf]) -> Vec<&SpanOf> {
    spans.iter().filter(|of| of.span.name == "round" && of.integer("round").is_some()).collect()
}

#[tokio::test]
async fn a_request_is_one_connected_trace_through_all_services_with_a_span_a_round() {
    let (services, client) = Services::start().await;
    let mut expected = Vec::new();
    for case in 0..3 {
        let told = ask(&client, case, true).await.completion.speculation;
        expected.push([told.rounds as usize, told.verified as usize, told.accepted as usize]);
    }
    let all: usize = expected.iter().map(|told| told[0]).sum();
    let complete = |collector: &Collector| {
        let spans = collector.spans();
        let ended = |service, ending| named(&spans, service, ending).len() >= expected.len();
        rounds(&spans).len() >= all
            && ended("espalier-gateway", "/Generate")
            && ended("espalier-drafter", "/Speculate")
            && ended("espalier-verifier", "/Verify")
    };
    let spans = services.collector.until(complete).await;
    let traces = by_trace(&spans);
    assert_eq!(traces.len(), expected.len(), "one trace a request");
    let mut found = Vec::new();
    for spans in traces.values() {
        let one = |service: &str, ending: &str| match named(spans, service, ending)[..] {
            [one] => one.clone(),
            ref others => panic!("{} spans of {ending} in {service}", others.len()),
        };
        let asked = one("espalier-gateway", "/Generate");
        let drafted = one("espalier-drafter", "/Speculate");
        let verified = one("espalier-verifier", "/Verify");
        assert_eq!(asked.span.parent_span_id, [] as [u8; 0], "the client sends no trace");
        assert_eq!(drafted.span.parent_span_id, asked.span.span_id);
        assert_eq!(verified.span.parent_span_id, drafted.span.span_id);
        let rounds = rounds(spans);
        assert!(rounds.iter().all(|round| round.span.parent_span_id == drafted.span.span_id));
        let sum = |name| rounds.iter().filter_map(|round| round.integer(name)).sum::<i64>() as usize;
        found.push([rounds.len(), sum("tree.nodes"), sum("accepted")]);
    }
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "rounds, nodes and accepted tokens are those that clients were told");
}

#[tokio::test]
async fn every_metric_of_the_catalogue_is_told_and_no_other() {
    let (mut services, client) = Services::start().await;
    for case in 0..3 {
        ask(&client, case, true).await;
    }
    let refused = espalier_proto::GenerationRequest {
        target: "nobody".to_owned(),
        ..request("medium", &[1], 1, sampling(0.0, 0))
    };
    client.clone().generate(refused, |_| {}).await.unwrap_err();
    let mut told: Vec<String> = services.metrics.iter().map(|address| get(*address, "/metrics")).collect();
    // A drafter that is killed in mid-text makes a failover.
    let (prompt, _) = prompts("medium").swap_remove(0);
    let long = request("medium", &prompt, 100, sampling(0.0, 0));
    client.clone().generate(long, |_| drop(services.drafter.take())).await.unwrap();
    told.push(get(services.metrics[0], "/metrics"));

    let names: BTreeSet<&str> = told
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let known: Vec<String> = ALL.iter().map(|metric| metric.prometheus_name()).collect();
    let known: BTreeSet<&str> = known.iter().map(|name| name.strip_suffix("_total").unwrap_or(name)).collect();
    let missing: Vec<_> = known.difference(&names).collect();
    assert!(missing.is_empty(), "never told: {missing:?}");
    assert_eq!(names.difference(&known).count(), 0, "in no catalogue");
    assert!(told[0].contains("# {trace_id=\""), "exemplars link to traces");
}

#[tokio::test]
async fn a_collector_and_a_scraper_are_told_the_same_metrics() {
    let (services, client) = Services::start().await;
    ask(&client, 0, true).await;
    let of_three = |collector: &Collector| {
        let services: BTreeSet<String> = collector.metrics().into_iter().map(|(service, _)| service).collect();
        services.len() == 3
    };
    services.collector.until(of_three).await;
    for (service, names) in services.collector.metrics() {
        assert!(names.iter().any(|name| name == "espalier.build_info"), "{service}");
        assert!(names.iter().all(|name| ALL.iter().any(|metric| metric.name == name)), "{names:?}");
    }
}

#[tokio::test]
async fn probes_are_answered_while_a_model_loads_and_when_it_is_there() {
    let (services, _client) = Services::start().await;
    for address in services.metrics {
        for path in ["/livez", "/startupz", "/readyz"] {
            assert!(get(address, path).starts_with("HTTP/1.1 200"), "{path} of {address}");
        }
    }
}

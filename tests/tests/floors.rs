//! The floors of the workspace: a crate uses only crates of lower floors, so what it can know shows in where it stands.
//!
//! Normal and build dependencies count, optional ones and those of other platforms included. Development dependencies
//! are exempt: a test may use whatever it needs.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Node, PackageId};

/// The crates of each floor by package name, the lowest floor first.
const FLOORS: [&[&str]; 8] = [
    &["espalier-certs", "espalier-gguf", "espalier-metrics", "espalier-speculation"],
    &["espalier-model", "espalier-proto", "espalier-text", "espalier-vectors"],
    &["espalier-constraint", "espalier-openai", "espalier-round", "espalier-service-kit", "espalier-trace"],
    &["espalier-client", "espalier-drafter", "espalier-gateway", "espalier-trainer", "espalier-verifier"],
    &["espalier-local", "espalier-planner"],
    &["espalier-command"],
    &["espalier-bench", "espalier-fuzz"],
    &["espalier", "espalier-tests"],
];

/// The workspace as cargo resolves it for this machine.
static WORKSPACE: LazyLock<Metadata> = LazyLock::new(|| {
    let mut command = MetadataCommand::new();
    command.manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    // Crates that only other platforms need have not been downloaded.
    command.other_options(["--locked", "--filter-platform", "host-tuple"].map(str::to_owned));
    command.exec().unwrap()
});

fn floor_of(package: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&package))
}

fn counts(kind: DependencyKind) -> bool {
    matches!(kind, DependencyKind::Normal | DependencyKind::Build)
}

/// Every `(user, used)` among the workspace's own crates.
fn edges(workspace: &Metadata) -> Vec<(String, String)> {
    let ours = |dependency: &&Dependency| dependency.path.is_some() && counts(dependency.kind);
    let of_package = |package: &cargo_metadata::Package| {
        let used = package.dependencies.iter().filter(ours);
        used.map(|used| (package.name.to_string(), used.name.clone())).collect::<Vec<_>>()
    };
    workspace.workspace_packages().into_iter().flat_map(of_package).collect()
}

/// What is wrong with an edge, if anything is.
fn fault((user, used): &(String, String)) -> Option<String> {
    let (Some(from), Some(to)) = (floor_of(user), floor_of(used)) else {
        return Some(format!("{user} uses {used}, and one of them stands on no floor"));
    };
    (to >= from).then(|| format!("{user} (floor {from}) uses {used} (floor {to}), but may only use lower floors"))
}

/// The shortest chain of normal dependencies from a crate to one that is `forbidden`, as `a -> b -> c`.
fn chain_to(workspace: &Metadata, from: &str, forbidden: impl Fn(&str) -> bool) -> Option<String> {
    let start = &workspace.packages.iter().find(|package| package.name == from).unwrap().id;
    let nodes: HashMap<&PackageId, &Node> =
        workspace.resolve.as_ref().unwrap().nodes.iter().map(|node| (&node.id, node)).collect();
    let mut user_of: HashMap<&PackageId, Option<&PackageId>> = HashMap::from([(start, None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(id) = queue.pop_front() {
        if forbidden(&workspace[id].name) {
            let upwards = std::iter::successors(Some(id), |id| user_of[id]);
            let names: Vec<&str> = upwards.map(|id| workspace[id].name.as_str()).collect();
            return Some(names.into_iter().rev().collect::<Vec<_>>().join(" -> "));
        }
        for used in normal_dependencies(nodes[id]) {
            user_of.entry(used).or_insert_with(|| {
                queue.push_back(used);
                Some(id)
            });
        }
    }
    None
}

fn normal_dependencies(node: &Node) -> impl Iterator<Item = &PackageId> {
    let normal = |used: &&cargo_metadata::NodeDep| used.dep_kinds.iter().any(|d| d.kind == DependencyKind::Normal);
    node.deps.iter().filter(normal).map(|used| &used.pkg)
}

/// Whether `package` is `family` or one of its parts (`tokio`, `tokio-stream`).
fn belongs_to(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

#[test]
fn every_crate_stands_on_one_floor() {
    let mut members: Vec<&str> = WORKSPACE.workspace_packages().iter().map(|package| package.name.as_str()).collect();
    let mut placed = FLOORS.concat();
    members.sort_unstable();
    placed.sort_unstable();
    assert_eq!(members, placed, "the workspace's members are not the crates of FLOORS");
}

#[test]
fn crates_use_lower_floors_only() {
    let faults: Vec<String> = edges(&WORKSPACE).iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_gateway_links_no_tensor_library() {
    let chain = chain_to(&WORKSPACE, "espalier-gateway", |package| belongs_to(package, "candle"));
    assert!(chain.is_none(), "the gateway holds no weights, but: {}", chain.unwrap());
}

#[test]
fn speculation_is_pure() {
    for family in ["candle", "clap", "tokio", "tonic"] {
        let chain = chain_to(&WORKSPACE, "espalier-speculation", |package| belongs_to(package, family));
        assert!(chain.is_none(), "speculation knows no {family}, but: {}", chain.unwrap());
    }
}

#[test]
fn what_is_forbidden_would_be_found() {
    let edge = |user: &str, used: &str| fault(&(user.to_owned(), used.to_owned()));
    assert_eq!(edge("espalier-round", "espalier-proto"), None);
    let sideways = "espalier-text (floor 1) uses espalier-model (floor 1), but may only use lower floors";
    assert_eq!(edge("espalier-text", "espalier-model").as_deref(), Some(sideways));
    assert!(edge("espalier-proto", "espalier-new").unwrap().contains("espalier-new"));
    assert!(edges(&WORKSPACE).contains(&("espalier-round".to_owned(), "espalier-proto".to_owned())));

    let chain = chain_to(&WORKSPACE, "espalier-verifier", |package| belongs_to(package, "candle"));
    assert_eq!(chain.as_deref(), Some("espalier-verifier -> espalier-model -> candle-core"));
    assert!(belongs_to("tokio-stream", "tokio") && !belongs_to("tokiox", "tokio"));
}

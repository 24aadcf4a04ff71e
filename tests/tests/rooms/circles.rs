//! Which files use which, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{Names, Resolved};
use crate::source::Crate;
use crate::uses::uses_of;

/// For each file, the files that it uses and what of them.
pub(crate) struct Edges(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Edges {
    pub(crate) fn of(of: &Crate) -> Self {
        let names = Names::of(of);
        let mut edges: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for file in &of.files {
            let used: &mut BTreeMap<_, BTreeSet<_>> = edges.entry(file.name.clone()).or_default();
            for found in uses_of(file) {
                if let Some(Resolved::Item { file: other, name }) = names.resolve(&found.module, &found.path)
                    && other != file.name
                {
                    used.entry(other).or_default().insert(name);
                }
            }
        }
        Self(edges)
    }

    /// What one file uses of another.
    pub(crate) fn items(&self, user: &str, used: &str) -> Vec<&str> {
        self.0[user].get(used).into_iter().flatten().map(String::as_str).collect()
    }

    fn files(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Every file that can be reached from one along the edges; itself only if a circle leads back.
    fn reached_from(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.0[file].keys().map(String::as_str).collect();
        while let Some(file) = next.pop() {
            if reached.insert(file) {
                next.extend(self.0[file].keys().map(String::as_str));
            }
        }
        reached
    }
}

/// The sets of files that can all be reached from each other.
pub(crate) fn circles(edges: &Edges) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.files().map(|file| (file, edges.reached_from(file))).collect();
    let circle_of = |file: &str| {
        let tied = reached[file].iter().copied().filter(|other| reached[other].contains(file));
        tied.collect::<Vec<_>>()
    };
    let all: BTreeSet<Vec<&str>> = edges.files().map(circle_of).filter(|circle| !circle.is_empty()).collect();
    all.into_iter().collect()
}

/// Each edge inside the circles on a line, with what is used.
pub(crate) fn message(edges: &Edges, circles: &[Vec<&str>]) -> String {
    let mut lines = vec![];
    for circle in circles {
        let pairs = circle.iter().flat_map(|user| circle.iter().map(move |used| (user, used)));
        for (user, used) in pairs {
            let items = edges.items(user, used);
            if !items.is_empty() {
                lines.push(format!("  {user} -> {used}: {}", items.join(", ")));
            }
        }
    }
    lines.join("\n")
}

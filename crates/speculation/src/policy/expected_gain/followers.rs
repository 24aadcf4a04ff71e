//! What a level yet to be drafted is likely to hold, from what such levels lately held.

use super::acceptance::{Acceptance, CLASSES, Child, DEPTHS, middle};

/// Nodes to be seen at a depth before they count as much as what is believed of it.
const NODES_BELIEF: f64 = 6.0;

/// Share of its weight that experience keeps in a round.
const NODES_KEEP: f64 = 0.99;

/// First children, and others, of each class of probability: what is believed of a node's
/// children before any is seen. Hopeful: who tries in vain soon knows better, and who does not try never does.
const FIRST_CHILDREN: [f64; CLASSES] = [0.0, 0.0, 0.01, 0.05, 0.08, 0.09, 0.10, 0.12, 0.14, 0.15, 0.10, 0.08, 0.08];
const OTHER_CHILDREN: [f64; CLASSES] = [1.2, 0.8, 0.5, 0.2, 0.1, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// Children by group (others, first) and class.
type Children = [[f64; CLASSES]; 2];

/// The children that nodes had, by the nodes' depth; likelier nodes count more.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers {
    depths: [Seen; DEPTHS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    nodes: f64,
    children: Children,
}

/// A kind of child: how many a node is expected to have, and the chance of each.
#[derive(Debug, Clone, Copy)]
struct Kind {
    first: bool,
    count: f64,
    chance: f64,
}

/// The children that nodes of each depth are expected to have, worked out where first asked for.
#[derive(Debug, Default)]
pub(super) struct Expected(Vec<Following>);

impl Expected {
    /// Forgets what was worked out.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The children to be expected of a node of `depth`.
    pub(super) fn below(&mut self, depth: usize, followers: &Followers, acceptance: &Acceptance) -> &Following {
        let depth = depth.min(DEPTHS - 1);
        while self.0.len() <= depth {
            let above = self.0.last().map_or([OTHER_CHILDREN, FIRST_CHILDREN], |above| above.children);
            self.0.push(followers.following(self.0.len(), above, acceptance));
        }
        &self.0[depth]
    }
}

/// The children that a node is expected to have.
#[derive(Debug)]
pub(super) struct Following {
    children: Children,
    /// The chance of the first child.
    pub(super) likeliest: f64,
    /// Chances of their kinds, falling.
    chances: Vec<f64>,
    /// Children of the first 0, 1, ... kinds, and the sum of their chances.
    sums: Vec<Gain>,
}

/// What running one node may bring.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gain {
    /// Children.
    pub(super) count: f64,
    /// What they are worth.
    pub(super) worth: f64,
}

impl Following {
    fn new(children: Children, mut kinds: Vec<Kind>) -> Self {
        let firsts = || kinds.iter().filter(|kind| kind.first);
        let likeliest = firsts().map(|kind| kind.count * kind.chance).sum::<f64>()
            / firsts().map(|kind| kind.count).sum::<f64>().max(1.0);
        kinds.sort_by(|a, b| b.chance.total_cmp(&a.chance));
        let (mut sums, mut sum) = (Vec::with_capacity(kinds.len() + 1), Gain::default());
        sums.push(sum);
        for kind in &kinds {
            sum = Gain { count: sum.count + kind.count, worth: sum.worth + kind.count * kind.chance };
            sums.push(sum);
        }
        Self { children, likeliest, chances: kinds.into_iter().map(|kind| kind.chance).collect(), sums }
    }

    /// A first child of this chance.
    #[cfg(test)]
    pub(super) fn one(chance: f64) -> Self {
        Self::new(Children::default(), vec![Kind { first: true, count: 1.0, chance }])
    }

    /// What running a node of this `chance` brings, where a child counts by how far its chance exceeds `threshold`.
    pub(super) fn gain(&self, chance: f64, threshold: f64) -> Gain {
        // Without branches a look at all is faster than a search.
        let better = self.chances.iter().filter(|&following| chance * following > threshold).count();
        let Gain { count, worth } = self.sums[better];
        Gain { count, worth: chance * worth - threshold * count }
    }
}

impl Followers {
    /// A node of `depth` was run; it counts `weight`.
    pub(super) fn expanded(&mut self, depth: usize, weight: f64) {
        self.depths[depth.min(DEPTHS - 1)].nodes += weight;
    }

    /// It had this child.
    pub(super) fn followed(&mut self, depth: usize, weight: f64, child: Child) {
        self.depths[depth.min(DEPTHS - 1)].children[usize::from(child.first)][child.class()] += weight;
    }

    /// A round goes by.
    pub(super) fn fade(&mut self) {
        for seen in &mut self.depths {
            seen.nodes *= NODES_KEEP;
            seen.children.iter_mut().flatten().for_each(|count| *count *= NODES_KEEP);
        }
    }

    /// What follows nodes of `depth`, `believed` being what follows those one level above: a depth that is not known yet is
    /// like that.
    fn following(&self, depth: usize, believed: Children, acceptance: &Acceptance) -> Following {
        let (seen, mut children) = (&self.depths[depth], believed);
        let share = 1.0 / (seen.nodes + NODES_BELIEF);
        for (believed, found) in children.iter_mut().flatten().zip(seen.children.iter().flatten()) {
            *believed = (found + NODES_BELIEF * *believed) * share;
        }
        // The likely classes first: they are all but sorted then.
        let mut kinds = Vec::with_capacity(2 * CLASSES);
        for (class, first) in (0..CLASSES).rev().flat_map(|class| [(class, true), (class, false)]) {
            let count = children[usize::from(first)][class];
            if count > 0.0 {
                kinds.push(Kind { first, count, chance: acceptance.chance(depth, Child::new(middle(class), first)) });
            }
        }
        Following::new(children, kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected accepted children of a node at `depth`.
    fn accepted(followers: &Followers, depth: usize) -> f64 {
        Expected::default().below(depth, followers, &Acceptance::default()).gain(1.0, 0.0).worth
    }

    /// Rounds whose nodes at `depth` have one child, of probability `prob`.
    fn after(rounds: usize, depth: usize, prob: f64) -> Followers {
        let mut followers = Followers::default();
        for _ in 0..rounds {
            followers.fade();
            followers.expanded(depth, 1.0);
            followers.followed(depth, 1.0, Child::new(prob, true));
        }
        followers
    }

    #[test]
    fn what_is_believed_of_children_is_possible() {
        assert!((FIRST_CHILDREN.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((0.5..1.0).contains(&accepted(&Followers::default(), 0)));
    }

    #[test]
    fn what_was_seen_is_expected() {
        assert!((accepted(&after(300, 0, 0.95), 0) - 0.935).abs() < 0.05);
        assert!(accepted(&after(300, 0, 0.01), 0) < 0.1);
    }

    #[test]
    fn a_depth_not_seen_yet_is_like_the_one_above() {
        let followers = after(300, 1, 0.01);
        assert!(accepted(&followers, 0) > 0.5);
        assert!(accepted(&followers, 2) < 0.1 && accepted(&followers, 99) < 0.1);
    }

    #[test]
    fn unlikely_nodes_count_little() {
        let mut followers = after(300, 0, 0.95);
        for _ in 0..100 {
            followers.expanded(0, 0.001);
            followers.followed(0, 0.001, Child::new(0.01, true));
        }
        assert!(accepted(&followers, 0) > 0.85);
    }
}

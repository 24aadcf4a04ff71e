//! Trees as text.

use std::fmt::Write;

use crate::round::{Fate, Round};

/// What a piece of a drawing is, for whoever colours it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Lines, numbers and what was pruned.
    Faint,
    /// What the target said.
    Accepted,
    /// What was sent in vain.
    Rejected,
    /// What the target added.
    Bonus,
}

/// Draws a round's tree: a line for each node, its children below it. `paint` colours pieces.
pub fn tree(round: &Round, paint: &impl Fn(Ink, &str) -> String) -> String {
    let mut out = String::new();
    branches(round, 0, "", paint, &mut out);
    for token in round.bonus() {
        let (mark, text) = (paint(Ink::Faint, "  +  "), paint(Ink::Bonus, &quoted(&token.text)));
        let _ = writeln!(out, "{mark}{text}");
    }
    out
}

/// The numbers of a round in one line: the round itself, its nodes by their fates, and its times.
pub fn summary(number: usize, round: &Round) -> String {
    let [accepted, rejected, pruned] = [Fate::Accepted, Fate::Rejected, Fate::Pruned].map(|fate| round.count(fate));
    format!(
        "round {number} at {:.1} ms: {} tokens, {} drafted, {} sent, {accepted} accepted; \
         drafting {:.2} ms, target {:.2} ms, waiting {:.2} ms",
        round.at_ms,
        round.tokens.len(),
        accepted + rejected + pruned,
        accepted + rejected,
        round.draft_ms,
        round.verify_ms,
        round.wait_ms,
    )
}

/// A tree is as deep as it has nodes at the most, and that is bounded where it is read.
fn branches(round: &Round, parent: usize, before: &str, paint: &impl Fn(Ink, &str) -> String, out: &mut String) {
    let children: Vec<usize> = round.children(parent).collect();
    for (index, &number) in children.iter().enumerate() {
        let Some(node) = round.node(number) else { continue };
        let last = index + 1 == children.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let ink = match node.fate {
            Fate::Accepted => Ink::Accepted,
            Fate::Rejected => Ink::Rejected,
            Fate::Pruned => Ink::Faint,
        };
        let mark = match node.fate {
            Fate::Accepted => "  accepted",
            Fate::Rejected => "",
            Fate::Pruned => "  pruned",
        };
        let lines = paint(Ink::Faint, &format!("{before}{branch}"));
        let rest = paint(Ink::Faint, &format!(" {:.2}{mark}", node.prob));
        let _ = writeln!(out, "{lines}{}{rest}", paint(ink, &quoted(&node.text)));
        branches(round, number, &format!("{before}{below}"), paint, out);
    }
}

/// A text in which what cannot be seen is written out.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{Node, Token};

    #[test]
    fn a_tree_is_drawn_with_what_became_of_each_node() {
        let node = |parent, text: &str, prob, fate| Node { id: 7, text: text.to_owned(), parent, prob, fate };
        let round = Round {
            tokens: vec![Token { id: 9, text: "!\n".to_owned(), drafted: false }],
            nodes: vec![
                node(0, " a", 0.7, Fate::Accepted),
                node(0, " b", 0.2, Fate::Rejected),
                node(1, " c", 0.5, Fate::Pruned),
            ],
            ..Round::default()
        };
        let drawn = tree(&round, &|_, text| text.to_owned());
        let expected = "├─ \" a\" 0.70  accepted\n│  └─ \" c\" 0.50  pruned\n└─ \" b\" 0.20\n  +  \"!\\n\"\n";
        assert_eq!(drawn, expected);
        let painted = tree(&round, &|ink, text| if ink == Ink::Bonus { format!("<{text}>") } else { String::new() });
        assert_eq!(painted.trim(), "<\"!\\n\">");
    }
}

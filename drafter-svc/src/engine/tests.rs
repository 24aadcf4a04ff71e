//! Drafters of several kinds in the engine: what they draft depends on what is committed, and on nothing else.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use espalier_model::{DraftKind, DraftModel, LoadOptions};
use espalier_proto::{HiddenStates, Outcome, SequenceId, SequenceSpec};
use espalier_round::Proposed;
use espalier_service_kit::{Bytes, MemoryBudget};
use espalier_speculation::{Restriction, RestrictionFault, Token};
use futures::future::join_all;

use super::testing::{Bench, edd, edd_beside, independent, outcome, sorted, states, target, text};
use super::{Exits, Memory};
use crate::config::Config;

#[tokio::test]
async fn an_edd_drafts_the_same_however_the_states_came() {
    for (model, drafts_at_once) in [(edd(), false), (edd_beside(), true)] {
        let bench = Bench::new(model, None);
        // Longer than what is read in one pass.
        let text = text(300);
        let expected = bench.drafted(&text).await;
        assert!(!expected.tree().unwrap().tree().is_empty());

        let mut one_by_one = bench.sequence(&text[..297]);
        assert_eq!(one_by_one.can_draft(), drafts_at_once, "the target has told nothing of the prompt");
        one_by_one.commit_plain(&outcome(&text[..298], 297, states(&text[..297], 0))).unwrap();
        for known in [298, 299] {
            one_by_one.commit_plain(&outcome(&text[..=known], known, states(&text[..known], known - 1))).unwrap();
        }
        assert_eq!(bench.grow(one_by_one).await.1, expected);
    }
}

#[tokio::test]
async fn an_edd_drafts_after_a_tree_what_it_drafts_without_one() {
    for model in [edd(), edd_beside()] {
        let bench = Bench::new(model, None);
        let text = text(40);
        let before = &text[..39];
        let mut drafting = bench.sequence(before);
        drafting.commit_plain(&outcome(&text, 39, states(before, 0))).unwrap();
        let (mut drafting, proposed) = bench.grow(drafting).await;

        let accepted = proposed.tree().unwrap().tree().node(1).unwrap().token;
        let whole = [&text[..], &[accepted, 77]].concat();
        let taken = Outcome { path: vec![1], ..outcome(&whole, 40, states(&whole[..41], 39)) };
        drafting.commit(&taken, None).unwrap();
        assert_eq!(bench.grow(drafting).await.1, bench.drafted(&whole).await);
    }
}

#[tokio::test]
async fn an_edd_that_reads_tokens_drafts_from_them_alone_at_first_and_with_states_as_soon_as_they_come() {
    let bench = Bench::new(edd_beside(), None);
    for length in [5, 300] {
        let text = text(length);
        let (mut drafting, proposed) = bench.grow(bench.sequence(&text)).await;
        assert!(!proposed.tree().unwrap().tree().is_empty(), "{length} tokens");
        assert_ne!(proposed, bench.drafted(&text).await, "states say more");

        let accepted = proposed.tree().unwrap().tree().node(1).unwrap().token;
        let whole = [&text[..], &[accepted, 77]].concat();
        let taken = Outcome { path: vec![1], ..outcome(&whole, length, states(&whole[..length + 1], 0)) };
        drafting.commit(&taken, None).unwrap();
        assert_eq!(bench.grow(drafting).await.1, bench.drafted(&whole).await, "{length} tokens");
    }
}

#[tokio::test]
async fn tokens_beside_states_reach_the_model_too() {
    let bench = Bench::new(edd_beside(), None);
    let text = text(40);
    let mut other = text.clone();
    other[20] += 1;
    let drafted = async |text: &[Token], states: HiddenStates| {
        let mut drafting = bench.sequence(&text[..39]);
        drafting.commit_plain(&outcome(text, 39, states)).unwrap();
        bench.grow(drafting).await.1
    };
    let known = states(&text[..39], 0);
    assert_ne!(drafted(&text, known.clone()).await, drafted(&other, known).await);
}

#[tokio::test]
async fn states_of_other_positions_are_an_error() {
    let (bench, text) = (Bench::new(edd(), None), text(9));
    let refusal = bench.sequence(&text[..8]).commit_plain(&outcome(&text, 8, states(&text[..8], 1))).unwrap_err();
    assert!(refusal.to_string().ends_with("the hidden states of position 1 came where those of 0 were expected"));
}

#[tokio::test]
async fn states_may_come_with_a_later_outcome() {
    for model in [edd(), edd_beside()] {
        let (bench, text) = (Bench::new(model, None), text(40));
        let known = states(&text[..39], 0);
        let mut at_once = bench.sequence(&text[..39]);
        at_once.commit_plain(&outcome(&text, 39, known.clone())).unwrap();

        let mut late = bench.sequence(&text[..38]);
        late.commit_plain(&Outcome { states: None, ..outcome(&text[..39], 38, known.clone()) }).unwrap();
        late.commit_plain(&outcome(&text, 39, known)).unwrap();
        assert!(late.can_draft());
        assert_eq!(bench.grow(late).await.1, bench.grow(at_once).await.1);
    }
}

#[tokio::test]
async fn states_that_have_come_are_read_before_the_tokens_after_them_whatever_was_read_when() {
    let bench = Bench::new(edd_beside(), None);
    // What follows the positions whose states are known is read in one pass, or in several.
    for behind in [2, 30, 54, 60, 64, 65, 200] {
        let (text, known) = (text(11 + behind), 10);
        let stated = outcome(&text[..11], 10, states(&text[..known], 0));
        let unstated = Outcome { states: None, ..outcome(&text, 11, HiddenStates::new(0, 64)) };
        let mut unread = bench.sequence(&text[..10]);
        unread.commit_plain(&stated).unwrap();
        unread.commit_plain(&unstated).unwrap();

        let mut read = bench.sequence(&text[..10]);
        read.commit_plain(&stated).unwrap();
        let mut read = bench.grow(read).await.0;
        read.commit(&unstated, None).unwrap();
        assert_eq!(bench.grow(unread).await.1, bench.grow(read).await.1, "{behind} tokens behind");
    }
}

#[tokio::test]
async fn what_was_read_while_the_target_went_on_is_known_like_anything_else() {
    for model in [independent(), edd(), edd_beside()] {
        let bench = Bench::new(model, None);
        let text = text(200);
        let mut drafting = bench.sequence(&text[..189]);
        drafting.commit_plain(&outcome(&text[..190], 189, states(&text[..189], 0))).unwrap();
        assert!(drafting.has_much_to_read() && drafting.can_read());
        let mut drafting = bench.read(drafting).await;
        assert!(!drafting.has_much_to_read() && !drafting.can_read());
        for known in 190..200 {
            let states = states(&text[..known], known - 1);
            drafting.commit_plain(&outcome(&text[..=known], known, states)).unwrap();
        }
        assert_eq!(bench.grow(drafting).await.1, bench.drafted(&text).await);
    }
}

#[tokio::test]
async fn where_states_are_to_come_nothing_is_read_before() {
    for model in [edd(), edd_beside()] {
        let bench = Bench::new(model, None);
        assert!(!bench.sequence(&text(100)).can_read());
    }
}

#[tokio::test]
async fn sequences_that_share_a_pass_draft_what_they_draft_alone() {
    for model in [edd(), edd_beside(), sorted(&[1, 2, 4]), sorted(&[4])] {
        let bench = Bench::new(model, None);
        let texts: Vec<Vec<Token>> = [5, 290, 30, 140, 12].map(text).to_vec();
        let together = join_all(texts.iter().map(|text| bench.drafted(text))).await;
        for (text, among_others) in texts.iter().zip(together) {
            assert_eq!(bench.drafted(text).await, among_others, "{} tokens", text.len());
        }
    }
}

/// A sequence that goes on by one token.
fn spec(text: &[Token]) -> SequenceSpec {
    SequenceSpec::new(SequenceId::from(1), text.to_vec(), 1)
}

#[tokio::test]
async fn a_sequence_drafts_the_same_with_what_another_has_read() {
    for exits in [&[4][..], &[1, 2, 4]] {
        let text = text(200);
        let bench = Bench::new(sorted(exits), None);
        let expected = bench.drafted(&text).await;
        // What was read before the round; rows that left early are of no use to others.
        let known = bench.memory.open(&bench.model, &spec(&text)).unwrap().committed();
        assert!(known == 192 || exits.len() > 1, "{known} positions are known");
        let of_another_tenant = SequenceSpec { tenant: 7, ..spec(&text) };
        assert_eq!(bench.memory.open(&bench.model, &of_another_tenant).unwrap().committed(), 0);
        assert_eq!(bench.drafted(&text).await, expected);
    }
}

#[tokio::test]
async fn what_is_known_by_states_is_not_shared_and_who_finds_no_memory_is_refused() {
    let bench = Bench::new(edd_beside(), None);
    let text = text(300);
    bench.drafted(&text).await;
    assert_eq!(bench.memory.open(&bench.model, &spec(&text)).unwrap().committed(), 0);

    let config = Config::new(PathBuf::new(), None, std::num::NonZeroUsize::MIN);
    let budget = Some(MemoryBudget::Bytes(Bytes(bench.model.decoder().context_bytes())));
    let memory = Memory::new(&bench.model, &Config { kv_memory: budget, ..config }).unwrap();
    let first = memory.open(&bench.model, &spec(&text)).unwrap();
    assert!(memory.open(&bench.model, &spec(&text)).is_err());
    drop(first);
    assert!(memory.open(&bench.model, &spec(&text)).is_ok());
}

#[tokio::test]
async fn thresholds_decide_which_exit_answers() {
    let text = text(40);
    let drafted = async |exits: &[usize], thresholds| Bench::new(sorted(exits), thresholds).drafted(&text).await;
    let cut = |layers| {
        let options = LoadOptions { layers: Some(layers), ..LoadOptions::default() };
        Bench::new(DraftModel::open(&target(), None, &options).unwrap(), None)
    };
    let (first, last) = (cut(1).drafted(&text).await, cut(4).drafted(&text).await);
    assert_ne!(first, last);
    assert_eq!(drafted(&[1, 2, 4], Some("0,0")).await, first);
    assert_eq!(drafted(&[1, 2, 4], Some("1,0")).await, cut(2).drafted(&text).await);
    assert_eq!(drafted(&[1, 2, 4], Some("1,1")).await, last);
}

#[test]
fn a_drafter_that_is_cut_answers_after_its_last_layer_alone_unless_told_otherwise() {
    let exits = |model: &DraftModel, layers, thresholds: Option<&str>| {
        let config = Config::new(PathBuf::new(), layers, std::num::NonZeroUsize::MIN);
        Exits::new(model, &Config { thresholds: thresholds.map(str::to_owned), ..config }, 512)
    };
    let model = sorted(&[1, 2, 4]);
    assert_eq!(*model.kind(), DraftKind::Sorted);
    assert!(exits(&model, None, None).unwrap().are_several());
    assert!(!exits(&model, Some(4), None).unwrap().are_several());
    assert!(exits(&model, Some(4), Some("0.5,0.5")).unwrap().are_several());
    let refusal = exits(&edd(), None, Some("0.5")).unwrap_err().to_string();
    assert_eq!(refusal, "1 thresholds were given for 1 exits, which take 0");
}

/// Holds two of four tokens of a text, and may tell which must follow or let the model find out.
#[derive(Debug)]
struct Two {
    length: usize,
    tells: bool,
}

impl Two {
    fn at(&self, path: &[Token]) -> Option<Token> {
        let place = self.length + path.len();
        (place % 4 < 2).then_some((place * 7 % 400 + 3) as Token)
    }
}

impl Restriction for Two {
    fn restrict(&mut self, path: &[Token], logits: &mut [f32]) -> Result<(), RestrictionFault> {
        if let Some(only) = self.at(path) {
            let others = (0..).zip(logits).filter(|(token, _)| *token != only);
            others.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        }
        Ok(())
    }

    fn allows(&mut self, path: &[Token], token: Token) -> bool {
        self.at(path).is_none_or(|only| only == token)
    }

    fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token> {
        self.at(path).filter(|_| self.tells && most > 0).into_iter().collect()
    }

    fn push(&mut self, generated: &[Token]) {
        self.length += generated.len();
    }
}

#[tokio::test]
async fn what_must_follow_is_drafted_without_the_model_and_changes_nothing_of_what_it_says() {
    for policy in ["constant,k=16", "vanilla-tree,width=2,depth=5", "eagle2,total=12,depth=6,k=3"] {
        for model in [independent(), edd(), edd_beside(), sorted(&[1, 2, 4]), sorted(&[4])] {
            let bench = Bench::new(model, None);
            for length in 30..34 {
                let text = text(length + 1);
                let drafted = async |tells| {
                    let held = Box::new(Two { length: 0, tells });
                    let mut drafting = bench.sequence_held(policy, &text[..length], held);
                    drafting.commit_plain(&outcome(&text, length, states(&text[..length], 0))).unwrap();
                    let (mut drafting, first) = bench.grow(drafting).await;
                    // It goes on from what was run, and from what was not.
                    let path = first.tree().unwrap().tree().path(3);
                    let tokens = path.iter().filter_map(|&node| Some(first.tree()?.tree().node(node)?.token));
                    let longer: Vec<Token> = text.iter().copied().chain(tokens).chain([9]).collect();
                    let known = states(&longer[..longer.len() - 1], length);
                    let accepted = Outcome { path, ..outcome(&longer, text.len(), known) };
                    drafting.commit(&accepted, None).unwrap();
                    (first, bench.grow(drafting).await.1)
                };
                let (told, found) = (drafted(true).await, drafted(false).await);
                let nodes = |proposed: &Proposed| proposed.tree().unwrap().tree().nodes().to_vec();
                for (told, found) in [(&told.0, &found.0), (&told.1, &found.1)] {
                    assert!(nodes(found).len() >= 3, "{policy}");
                    // What hangs behind the tree comes after it.
                    assert_eq!(nodes(told)[..nodes(found).len()], nodes(found), "{policy}");
                }
            }
        }
    }
}

//! Whether checkpoints are whole, and suit each other.

use espalier_local::{FoundBy, LocalError, ModelsFolder};
use espalier_service_kit::chain;

use super::facts::{Facts, Kind, NamedFacts, Part, Seen, Size, Unusable, readable};
use super::finding::{Finding, counted};

/// What is to be done about a checkpoint that is not there.
const FIND: &str = "a name in the folder of models, or a path; `espalier pull URL` fetches checkpoints";

/// What is to be done about a checkpoint that is not whole.
const MEND: &str = "fetch it again (`espalier pull URL` goes on where it stopped), or take another";

/// Where models are.
pub(crate) fn judge_folder(folder: &Result<ModelsFolder, LocalError>, seen: &[Seen]) -> Finding {
    const CHECK: &str = "models";
    match folder {
        Ok(ModelsFolder { path, found_by }) => {
            let how = match found_by {
                FoundBy::Argument => "as --models or ESPALIER_MODELS says",
                FoundBy::WorkingDirectory => "in the working directory",
                FoundBy::Program => "beside the program or above it",
                FoundBy::UserData => "among the user's data",
            };
            Finding::ok(
                CHECK,
                format!("{}, {how}: {} were looked at", path.display(), counted(seen.len(), "checkpoint")),
            )
        }
        // Whoever brings all models by path needs no folder.
        Err(error) if seen.iter().all(|seen| seen.found.is_ok()) => Finding::ok(CHECK, chain(error)),
        Err(error) => Finding::fault(
            CHECK,
            chain(error),
            "run it in a clone of the repository, whose `models` has checkpoints to try, or fetch some",
        ),
    }
}

/// One finding for each checkpoint, and one for each two that do not suit each other.
pub(crate) fn judge(seen: &[Seen]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = seen.iter().map(judge_one).collect();
    findings.extend(readable(seen, Part::Drafter).filter_map(|drafter| judge_drafter(drafter, seen)));
    findings.extend(readable(seen, Part::Beside).filter_map(|beside| judge_beside(beside, seen)));
    findings
}

fn judge_one(Seen { name, part, found }: &Seen) -> Finding {
    let check = match part {
        Part::Target => format!("target {name}"),
        Part::Drafter => format!("drafter {name}"),
        Part::Beside => format!("checkpoint {name}"),
    };
    let facts = match found {
        Ok(facts) => facts,
        Err(Unusable { why, .. }) if *part == Part::Beside => {
            return Finding::warning(check, why, "nothing asks for it; mend it or take it away");
        }
        Err(Unusable { why, is_missing: true }) => return Finding::fault(check, why, FIND),
        Err(Unusable { why, is_missing: false }) => return Finding::fault(check, why, MEND),
    };
    let says = described(facts);
    if let Some(size) = facts.size.as_ref().filter(|size| facts.tokens.count > size.vocab) {
        let says = format!("{says}; its tokenizer has {} tokens, the model only {}", facts.tokens.count, size.vocab);
        return Finding::fault(check, says, "the tokenizer is another model's: fetch both from one place");
    }
    if *part == Part::Target && facts.kind != Kind::Model {
        return Finding::fault(
            check,
            format!("{says}; it is no target"),
            "name the target that it was made for, and this one as --drafter",
        );
    }
    if *part == Part::Target && !facts.tokens.has_template {
        let advice = "put its `chat_template.jinja` beside it; texts (`--raw`) work without";
        return Finding::warning(
            check,
            format!("{says}; it has no chat template, so conversations are refused"),
            advice,
        );
    }
    Finding::ok(check, says)
}

/// What a checkpoint is, in words.
pub(crate) fn described(facts: &Facts) -> String {
    let kind = match &facts.kind {
        Kind::Model => String::new(),
        Kind::Only { kind, target } => format!("{kind} for `{}` alone; ", target.name),
        Kind::Predictor { .. } => "a predictor of acceptance; ".to_owned(),
    };
    let size = facts.size.as_ref().map_or_else(String::new, |size| {
        let Size { layers, parameters, context, arithmetic, .. } = size;
        format!(
            "{layers} layers, {} parameters, a context of {context} tokens, in {arithmetic}; ",
            millions(*parameters)
        )
    });
    format!("whole: {kind}{size}{} tokens", facts.tokens.count)
}

fn millions(parameters: usize) -> String {
    match parameters as f64 / 1e6 {
        millions if millions >= 1e3 => format!("{:.1} B", millions / 1e3),
        millions => format!("{millions:.1} M"),
    }
}

/// What keeps a drafter from the targets, if anything does.
fn judge_drafter(drafter: NamedFacts<'_>, seen: &[Seen]) -> Option<Finding> {
    let check = format!("drafter {}", drafter.name);
    let targets: Vec<NamedFacts<'_>> = readable(seen, Part::Target).collect();
    let unsuited: Vec<String> = targets.iter().filter_map(|target| unsuited(drafter, *target)).collect();
    if unsuited.is_empty() {
        return None;
    }
    let (says, advice) = (unsuited.join("; "), "another --drafter; `ngram` suits every target");
    match unsuited.len() == targets.len() {
        true => Some(Finding::fault(check, format!("it suits no target: {says}"), advice)),
        // What was made for one target is meant to leave the others alone.
        false if matches!(drafter.facts.kind, Kind::Only { .. }) => None,
        false => Some(Finding::warning(check, format!("it does not suit all targets: {says}"), advice)),
    }
}

/// Why a drafter cannot draft for a target, if it cannot.
fn unsuited(drafter: NamedFacts<'_>, target: NamedFacts<'_>) -> Option<String> {
    if drafter.facts.tokens.fingerprint != target.facts.tokens.fingerprint {
        return Some(format!("`{}` has another tokenizer", target.name));
    }
    let Kind::Only { target: made_for, .. } = &drafter.facts.kind else { return None };
    let found = target.facts.fingerprint.as_ref()?;
    (made_for.fingerprint != *found)
        .then(|| format!("it was made for `{}`, and `{}` has other weights", made_for.name, target.name))
}

/// What is wrong with a drafter or predictor that nothing asks for: that what it was made for is here no more.
fn judge_beside(beside: NamedFacts<'_>, seen: &[Seen]) -> Option<Finding> {
    let known = |fingerprint: &str| {
        let mut all = seen.iter().filter_map(|seen| seen.found.as_ref().ok()?.fingerprint.as_deref()).peekable();
        // Without any nothing was compared.
        all.peek().is_none() || all.any(|found| found == fingerprint)
    };
    let (fingerprint, what) = match &beside.facts.kind {
        Kind::Only { target, .. } => (&target.fingerprint, "target"),
        Kind::Predictor { drafter } => (drafter, "drafter"),
        Kind::Model => return None,
    };
    let says = format!("the {what} that it was made for is not here: none has the fingerprint {fingerprint}");
    (!known(fingerprint))
        .then(|| Finding::warning(format!("checkpoint {}", beside.name), says, "it is of use beside that one alone"))
}

#[cfg(test)]
mod tests {
    use espalier_model::{Arithmetic, TargetCard};

    use super::super::facts::Tokens;
    use super::super::finding::Level;
    use super::*;

    fn card(fingerprint: &str) -> TargetCard {
        let (name, tokenizer) = ("made-for".to_owned(), "t".to_owned());
        TargetCard { name, fingerprint: fingerprint.to_owned(), tokenizer, layers: 2, hidden_size: 8 }
    }

    fn seen(name: &str, part: Part, kind: Kind) -> Seen {
        let arithmetic = Arithmetic::F32;
        let size = Size {
            layers: 2,
            parameters: 7_300_000,
            context: 2048,
            vocab: 4096,
            arithmetic,
            weights: 1,
            of_context: 1,
        };
        let tokens = Tokens { fingerprint: "t".to_owned(), count: 4096, has_template: true };
        let facts = Facts { kind, size: Some(size), tokens, fingerprint: Some(format!("of {name}")) };
        Seen { name: name.to_owned(), part, found: Ok(facts) }
    }

    fn with(mut seen: Seen, change: impl FnOnce(&mut Facts)) -> Seen {
        if let Ok(facts) = &mut seen.found {
            change(facts);
        }
        seen
    }

    /// The findings that are not as they should be: level, check, and what they say.
    fn wrong(seen: &[Seen]) -> Vec<(Level, String, String)> {
        let wrong = judge(seen).into_iter().filter(|finding| finding.level != Level::Ok);
        wrong.map(|finding| (finding.level, finding.check, finding.says)).collect()
    }

    #[test]
    fn models_that_suit_each_other_are_described() {
        let only = Kind::Only { kind: "edd", target: card("of a") };
        let all = [
            seen("a", Part::Target, Kind::Model),
            seen("b", Part::Target, Kind::Model),
            seen("d", Part::Drafter, only),
        ];
        assert_eq!(wrong(&all), []);
        let says = judge(&all).remove(0).says;
        assert_eq!(says, "whole: 2 layers, 7.3 M parameters, a context of 2048 tokens, in f32; 4096 tokens");
    }

    #[test]
    fn a_broken_checkpoint_is_a_fault_if_it_is_asked_for() {
        let broken = |part| Seen {
            name: "a".to_owned(),
            part,
            found: Err(Unusable { why: "it is cut short".to_owned(), is_missing: false }),
        };
        let level = |part| wrong(&[broken(part)]).remove(0).0;
        assert_eq!(
            [Part::Target, Part::Drafter, Part::Beside].map(level),
            [Level::Fault, Level::Fault, Level::Warning]
        );
    }

    #[test]
    fn a_drafter_of_another_tokenizer_suits_no_target_or_not_all() {
        let targets = [
            seen("a", Part::Target, Kind::Model),
            with(seen("b", Part::Target, Kind::Model), |facts| facts.tokens.fingerprint = "u".to_owned()),
        ];
        let drafter = seen("d", Part::Drafter, Kind::Model);
        let one = wrong(&[targets[1].clone(), drafter.clone()]);
        assert_eq!(
            one,
            [(Level::Fault, "drafter d".to_owned(), "it suits no target: `b` has another tokenizer".to_owned())]
        );
        let both = wrong(&[targets.to_vec(), vec![drafter]].concat());
        assert_eq!(both[0].0, Level::Warning, "{both:?}");
    }

    #[test]
    fn what_was_made_for_other_weights_is_told_by_both_names() {
        let drafter = seen("d", Part::Drafter, Kind::Only { kind: "edd", target: card("gone") });
        let found = wrong(&[seen("a", Part::Target, Kind::Model), drafter]);
        assert_eq!(found[0].2, "it suits no target: it was made for `made-for`, and `a` has other weights");
        let predictor = seen("p", Part::Beside, Kind::Predictor { drafter: "of d".to_owned() });
        assert_eq!(wrong(&[predictor.clone(), seen("d", Part::Beside, Kind::Model)]), []);
        let stray = wrong(&[predictor, seen("e", Part::Beside, Kind::Model)]);
        assert!(stray[0].0 == Level::Warning && stray[0].2.ends_with("none has the fingerprint of d"), "{stray:?}");
    }

    #[test]
    fn a_target_needs_a_tokenizer_of_its_own_and_should_have_a_template() {
        let target = || seen("a", Part::Target, Kind::Model);
        let large = wrong(&[with(target(), |facts| facts.tokens.count = 5000)]);
        assert!(
            large[0].0 == Level::Fault && large[0].2.ends_with("has 5000 tokens, the model only 4096"),
            "{large:?}"
        );
        let plain = wrong(&[with(target(), |facts| facts.tokens.has_template = false)]);
        assert!(plain[0].0 == Level::Warning && plain[0].2.contains("no chat template"), "{plain:?}");
        let predictor = wrong(&[seen("p", Part::Target, Kind::Predictor { drafter: "of p".to_owned() })]);
        assert_eq!(predictor[0].0, Level::Fault);
    }
}

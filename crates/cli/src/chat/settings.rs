//! Who answers, and how.

use espalier_command::{Decoding, Form, request};
use espalier_proto::{GenerationRequest, Message, Prompt, TargetCard};

use crate::error::CliError;

/// Those who draft without a model.
const WITHOUT_MODELS: [&str; 2] = ["ngram", "none"];

/// Who answers, and how.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The targets that there are.
    pub(crate) known: Vec<TargetCard>,
    pub(crate) target: String,
    /// Who proposes; anybody who suits when none.
    pub(crate) drafter: Option<String>,
    pub(crate) decoding: Decoding,
}

impl Settings {
    /// The request for an answer to these messages. One that does not fit the context is refused, or, with `cut`, given as
    /// many tokens as fit.
    pub(crate) fn request(&self, messages: Vec<Message>, cut: bool) -> Result<GenerationRequest, CliError> {
        let request = request(&self.target, "", Form::Chat, &self.decoding)?;
        let (prompt, drafter) = (Prompt::Conversation(messages.into()), self.drafter.clone());
        Ok(GenerationRequest { prompt, drafter, cut_to_context: cut, ..request })
    }

    /// The same with how tokens are drafted and chosen changed, if that makes sense.
    pub(crate) fn decoding(&mut self, change: impl FnOnce(&mut Decoding)) -> Result<(), CliError> {
        let mut decoding = self.decoding.clone();
        change(&mut decoding);
        let changed = Self { decoding, ..self.clone() };
        changed.request(Vec::new(), false)?;
        *self = changed;
        Ok(())
    }

    /// Has another target answer.
    pub(crate) fn take_target(&mut self, name: String) -> Result<(), CliError> {
        if !self.known.iter().any(|card| card.name == name) {
            let known = self.known.iter().map(|card| card.name.as_str());
            return Err(CliError::NotServed { what: "target", name, known: listed(known) });
        }
        self.target = name;
        // A drafter that was asked for may suit the other one alone.
        let keeps = self.drafter.as_deref().is_none_or(|drafter| self.drafters().any(|known| known == drafter));
        self.drafter = self.drafter.take().filter(|_| keeps);
        Ok(())
    }

    /// Has another drafter propose, or anybody.
    pub(crate) fn take_drafter(&mut self, name: Option<String>) -> Result<(), CliError> {
        if let Some(name) = name.as_ref().filter(|name| !self.drafters().any(|known| known == **name)) {
            return Err(CliError::NotServed { what: "drafter", name: name.clone(), known: listed(self.drafters()) });
        }
        self.drafter = name;
        Ok(())
    }

    /// Who may propose for the target.
    fn drafters(&self) -> impl Iterator<Item = &str> {
        let card = self.known.iter().find(|card| card.name == self.target);
        card.into_iter().flat_map(|card| card.drafters.iter().map(String::as_str)).chain(WITHOUT_MODELS)
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_command::Decoding;
    use espalier_proto::Vocabulary;

    use super::*;

    fn settings() -> Settings {
        let card = |name: &str, drafters: &[&str]| TargetCard {
            name: name.to_owned(),
            vocabulary: Vocabulary { size: 8, fingerprint: "0".repeat(64) },
            context: 64,
            drafters: drafters.iter().map(ToString::to_string).collect(),
        };
        let known = vec![card("a", &["both", "only-a"]), card("b", &["both"])];
        Settings { known, target: "a".to_owned(), drafter: None, decoding: Decoding::greedy(8) }
    }

    #[test]
    fn a_drafter_is_kept_where_it_suits_the_next_target_too() {
        let after = |drafter: &str| {
            let mut settings = settings();
            settings.take_drafter(Some(drafter.to_owned())).unwrap();
            settings.take_target("b".to_owned()).unwrap();
            settings.drafter
        };
        assert_eq!(["both", "only-a", "none"].map(after), [Some("both".to_owned()), None, Some("none".to_owned())]);
    }

    #[test]
    fn what_is_not_served_is_refused_with_what_is() {
        let mut settings = settings();
        let target = settings.take_target("c".to_owned()).unwrap_err().to_string();
        assert_eq!(target, "no target `c` is served here; there are a, b");
        let drafter = settings.take_drafter(Some("only-b".to_owned())).unwrap_err().to_string();
        assert_eq!(drafter, "no drafter `only-b` is served here; there are both, only-a, ngram, none");
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let mut settings = settings();
        assert!(settings.decoding(|decoding| decoding.answers.temperature = -1.0).is_err());
        assert!(settings.decoding(|decoding| decoding.policy.policy = Some("guess".to_owned())).is_err());
        assert_eq!(settings.decoding.answers.temperature, 0.0);
        settings.decoding(|decoding| decoding.policy.policy = Some("eagle2".to_owned())).unwrap();
        let request = settings.request(Vec::new(), true).unwrap();
        assert_eq!((request.policy.as_deref(), request.cut_to_context), (Some("eagle2"), true));
    }
}

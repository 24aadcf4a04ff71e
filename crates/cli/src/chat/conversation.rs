//! What was said so far.

use espalier_proto::Message;
use serde::Serialize;

/// One turn of each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exchange {
    question: String,
    answer: String,
}

/// A conversation, oldest exchange first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// What is said before all else, if anything is.
    pub(crate) system: Option<String>,
    exchanges: Vec<Exchange>,
}

/// A message as files and OpenAI's API have it.
#[derive(Serialize)]
struct Written<'a> {
    role: &'a str,
    content: &'a str,
}

impl Conversation {
    /// One in which nothing was said but, before all else, this.
    pub(crate) fn new(system: Option<String>) -> Self {
        Self { system, exchanges: Vec::new() }
    }

    /// The messages of a request that asks a further question, if there is one.
    pub(crate) fn messages(&self, question: Option<&str>) -> Vec<Message> {
        let said = |role: &str, content: &str| Message::new(role, content);
        let system = self.system.iter().map(|text| said("system", text));
        let told = self.exchanges.iter();
        let told = told.flat_map(|Exchange { question, answer }| [said("user", question), said("assistant", answer)]);
        system.chain(told).chain(question.map(|text| said("user", text))).collect()
    }

    pub(crate) fn add(&mut self, question: String, answer: String) {
        self.exchanges.push(Exchange { question, answer });
    }

    /// Leaves out the oldest exchange, if there is one.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let any = !self.exchanges.is_empty();
        self.exchanges.drain(..usize::from(any));
        any
    }

    /// Begins anew; what is said before all else stays.
    pub(crate) fn reset(&mut self) {
        self.exchanges.clear();
    }

    /// All that was said, as JSON: an object of the target's name and the messages.
    pub(crate) fn to_json(&self, target: &str) -> String {
        let messages = self.messages(None);
        let written = messages.iter().map(|message| Written { role: &message.role, content: &message.content });
        let messages: Vec<Written<'_>> = written.collect();
        format!("{:#}\n", serde_json::json!({ "model": target, "messages": messages }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn roles(messages: &[Message]) -> Vec<(&str, &str)> {
        messages.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect()
    }

    #[test]
    fn what_was_said_comes_in_order_and_the_oldest_is_forgotten_first() {
        let mut conversation = Conversation { system: Some("be brief".to_owned()), ..Conversation::default() };
        conversation.add("one".to_owned(), "1".to_owned());
        conversation.add("two".to_owned(), "2".to_owned());
        assert!(conversation.forget_oldest());
        let expected = [("system", "be brief"), ("user", "two"), ("assistant", "2"), ("user", "three")];
        assert_eq!(roles(&conversation.messages(Some("three"))), expected);
        assert!(conversation.forget_oldest() && !conversation.forget_oldest());
        assert_eq!(roles(&conversation.messages(None)), [("system", "be brief")]);
    }

    #[test]
    fn a_file_has_what_a_request_of_openais_has() {
        let mut conversation = Conversation::default();
        conversation.add("one".to_owned(), "1".to_owned());
        let written: serde_json::Value = serde_json::from_str(&conversation.to_json("medium")).unwrap();
        let messages =
            serde_json::json!([{ "role": "user", "content": "one" }, { "role": "assistant", "content": "1" }]);
        assert_eq!(written, serde_json::json!({ "model": "medium", "messages": messages }));
        conversation.reset();
        assert_eq!(conversation, Conversation::default());
    }
}

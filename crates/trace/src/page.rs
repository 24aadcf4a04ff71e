//! Trees as a page that needs nothing but a browser.

use crate::trace::Trace;

/// Draws a round's tree into an element: `drawRound(element, round, text before it)`. Defines it alone, and needs nothing.
pub const DRAWING: &str = include_str!("../assets/trees.js");

/// How drawn trees look, light and dark.
pub const STYLE: &str = include_str!("../assets/trees.css");

const PAGE: &str = include_str!("../assets/page.html");

/// The page of an answer's rounds, one file.
pub fn page(trace: &Trace) -> String {
    // In a script nothing ends it but its end tag, of which no text may hold the beginning.
    let rounds = serde_json::to_string(trace).unwrap_or_default().replace('<', "\\u003c");
    let title = escaped(&format!("{} drafted by {}", trace.target, trace.drafter));
    // What is put in last may hold anything: nothing is looked for in it.
    PAGE.replace("{{title}}", &title)
        .replace("{{style}}", STYLE)
        .replace("{{drawing}}", DRAWING)
        .replace("{{trace}}", &rounds)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{Round, Token};

    #[test]
    fn texts_cannot_end_the_script_or_begin_elements() {
        let token = Token { id: 1, text: "</script><b>{{title}}".to_owned(), drafted: true };
        let trace = Trace {
            target: "<i>".to_owned(),
            drafter: "d".to_owned(),
            policy: "pct".to_owned(),
            prompt: "p".to_owned(),
            seed: 1,
            rounds: vec![Round { tokens: vec![token], ..Round::default() }],
        };
        let page = page(&trace);
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("<title>&lt;i> drafted by d</title>"));
        assert!(page.contains("\\u003c/script>\\u003cb>{{title}}"));
        assert!(!page.contains("http://") || page.matches("http").count() == page.matches("http://www.w3.org").count());
    }
}

//! The commands of a shell snippet. Only what the pages need is understood: one command a line, continued lines,
//! quotes, comments, and `&` at the end.

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
}

/// What a word may not be: whoever writes such a snippet has to mark it or to write it in simpler ways.
const OPERATORS: [&str; 8] = ["|", "||", "&&", ";", ">", ">>", "<", "do"];

/// The commands of a snippet.
pub(crate) fn commands(text: &str) -> Result<Vec<Command>, String> {
    let joined = text.replace("\\\n", " ");
    joined.lines().map(command).filter_map(Result::transpose).collect()
}

/// The command of a line; none where there is nothing but a comment.
fn command(line: &str) -> Result<Option<Command>, String> {
    let mut words = shlex::split(line).ok_or_else(|| format!("a quote is not closed in `{line}`"))?;
    words.pop_if(|last| last == "&");
    if let Some(operator) = words.iter().find(|word| OPERATORS.contains(&word.as_str())) {
        return Err(format!("`{operator}` in `{line}` is more shell than this test understands"));
    }
    Ok((!words.is_empty()).then_some(Command { words }))
}

impl Command {
    pub(crate) fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(crate) fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The words after `flag`, wherever it stands.
    pub(crate) fn values<'c>(&'c self, flag: &'c str) -> impl Iterator<Item = &'c str> {
        self.words.windows(2).filter(move |pair| pair[0] == flag).map(|pair| pair[1].as_str())
    }

    /// What `espalier` is asked for by this command, if it is run by it: directly, or by `cargo run`.
    pub(crate) fn espalier(&self) -> Option<Vec<String>> {
        match (self.program(), self.args().first().map(String::as_str)) {
            ("espalier", _) => Some(self.args().to_vec()),
            ("cargo", Some("run")) => {
                let rest = self.words.iter().skip_while(|word| *word != "--").skip(1);
                Some(rest.cloned().collect())
            }
            _ => None,
        }
    }
}

#[test]
fn lines_are_joined_split_and_freed_of_comments() {
    let text = "# nothing\na \\\n    --b 'c; d'   # said\n\ne &\ncargo run --release -- bench kernels\n";
    let found = commands(text).unwrap();
    let words: Vec<&[String]> = found.iter().map(|command| command.words.as_slice()).collect();
    let run = ["cargo", "run", "--release", "--", "bench", "kernels"];
    assert_eq!(words, [&["a", "--b", "c; d"][..], &["e"], &run]);
    assert_eq!(found[2].espalier().unwrap(), ["bench", "kernels"]);
    assert_eq!(found[0].values("--b").collect::<Vec<_>>(), ["c; d"]);
    assert!(commands("a | b").is_err() && commands("a 'b").is_err());
}

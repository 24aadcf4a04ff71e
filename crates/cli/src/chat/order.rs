//! What a line that was typed asks for.

use std::path::PathBuf;

/// What begins the lines that are no messages.
const SLASH: char = '/';

/// What `/help` prints.
pub(crate) const HELP: &str = "\
/policy P        grow trees by this policy, with parameters if wanted; without P by the usual one
/drafter D       have this drafter propose; `ngram` the text itself, `none` nobody; without D any that suits
/target T        have this target answer from now on
/temperature X   draw tokens at this temperature; 0 takes the most probable one
/seed N          draw by this seed: the same seed gives the same text
/system TEXT     say this before all else; without TEXT nothing
/reset           begin the conversation anew
/save FILE       write the conversation as JSON, as OpenAI's API has it; no file is replaced
/help            print this
/quit            end; so does Ctrl-D
//TEXT           a message that begins with a slash
Ctrl-C           stop the answer";

/// What a line asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    Nothing,
    Say(String),
    Policy(Option<String>),
    Drafter(Option<String>),
    Target(String),
    Temperature(f64),
    Seed(u64),
    System(Option<String>),
    Reset,
    Save(PathBuf),
    Help,
    Quit,
}

impl Order {
    /// Reads a line.
    ///
    /// # Errors
    /// In one sentence, what is wrong with it.
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(Self::Nothing);
        }
        let Some(command) = line.strip_prefix(SLASH) else { return Ok(Self::Say(line.to_owned())) };
        if command.starts_with(SLASH) {
            return Ok(Self::Say(command.to_owned()));
        }
        let (name, given) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        Self::command(name, given.trim())
    }

    fn command(name: &str, given: &str) -> Result<Self, String> {
        let optional = || Some(given.to_owned()).filter(|text| !text.is_empty());
        let required = |what: &str| optional().ok_or_else(|| format!("/{name} needs {what}"));
        let wrong = |what: &str| format!("`{given}` is not {what}");
        let alone =
            |order| if given.is_empty() { Ok(order) } else { Err(format!("/{name} takes nothing, not `{given}`")) };
        match name {
            "policy" => Ok(Self::Policy(optional())),
            "drafter" => Ok(Self::Drafter(optional())),
            "system" => Ok(Self::System(optional())),
            "target" => required("the name of a target").map(Self::Target),
            "save" => required("the name of a file").map(|file| Self::Save(file.into())),
            "temperature" => given.parse().map(Self::Temperature).map_err(|_| wrong("a number")),
            "seed" => given.parse().map(Self::Seed).map_err(|_| wrong("a whole number of at least 0")),
            "reset" => alone(Self::Reset),
            "help" => alone(Self::Help),
            "quit" => alone(Self::Quit),
            _ => Err(format!("there is no /{name}; /help lists what there is")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_unless_they_begin_with_one_slash() {
        let say = |text: &str| Ok(Order::Say(text.to_owned()));
        assert_eq!(Order::read("  Ann has 3 dogs. "), say("Ann has 3 dogs."));
        assert_eq!(Order::read("//etc is a folder"), say("/etc is a folder"));
        assert_eq!(Order::read(" \t"), Ok(Order::Nothing));
    }

    #[test]
    fn commands_take_what_they_need_and_nothing_else() {
        let policy = "eagle2,total=30";
        assert_eq!(Order::read(&format!("/policy {policy}")), Ok(Order::Policy(Some(policy.to_owned()))));
        assert_eq!(Order::read("/policy"), Ok(Order::Policy(None)));
        assert_eq!(Order::read("/system  be brief "), Ok(Order::System(Some("be brief".to_owned()))));
        assert_eq!(Order::read("/temperature 0.7"), Ok(Order::Temperature(0.7)));
        assert_eq!(Order::read("/save a b.json"), Ok(Order::Save("a b.json".into())));
        assert_eq!(Order::read("/quit"), Ok(Order::Quit));
        for (line, words) in [
            ("/temperature hot", "`hot` is not a number"),
            ("/seed -1", "`-1` is not a whole number of at least 0"),
            ("/target", "/target needs the name of a target"),
            ("/reset all", "/reset takes nothing, not `all`"),
            ("/polcy x", "there is no /polcy; /help lists what there is"),
        ] {
            assert_eq!(Order::read(line), Err(words.to_owned()));
        }
    }

    #[test]
    fn help_tells_of_every_command() {
        let told: Vec<&str> =
            HELP.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix('/')).collect();
        for name in told.iter().filter(|name| !name.starts_with('/')) {
            let read = Order::read(&format!("/{name} 1")).or_else(|_| Order::read(&format!("/{name}")));
            assert!(read.is_ok(), "{name}: {read:?}");
        }
        assert_eq!(told.len(), 11);
    }
}

//! The pages, and the code blocks, links and headings in them.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

/// A code block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    page: PathBuf,
    line: usize,
    /// The first word of its info string; `indented` where it has no fence.
    pub(crate) language: String,
    /// Whether nothing says `no-run`.
    pub(crate) runs: bool,
    pub(crate) text: String,
}

impl Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page.display(), self.line)
    }
}

/// A page of documentation.
pub(crate) struct Page {
    /// Relative to the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Adds the pages in a folder of the repository and those in it, where `wanted` by their names.
fn find(folder: &Path, wanted: fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let mut entries: Vec<_> = entries.map(Result::unwrap).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            find(&path, wanted, found);
        } else if wanted(&path) {
            found.push(path);
        }
    }
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn is_readme(path: &Path) -> bool {
    path.ends_with("README.md")
}

impl Page {
    pub(crate) fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        Self { path, text }
    }

    /// README.md, those below clients and deploy, and all pages below docs.
    pub(crate) fn all() -> Vec<Self> {
        let mut paths = vec![PathBuf::from("README.md")];
        ["clients", "deploy"].iter().for_each(|top| find(Path::new(top), is_readme, &mut paths));
        find(Path::new("docs"), is_page, &mut paths);
        paths.into_iter().map(Self::read).collect()
    }

    /// Those, and all others that the book is made of.
    pub(crate) fn everywhere() -> Vec<Self> {
        let mut paths = vec![PathBuf::from("CHANGELOG.md"), PathBuf::from("SECURITY.md")];
        ["models", "tests"].iter().for_each(|top| find(Path::new(top), is_readme, &mut paths));
        Self::all().into_iter().chain(paths.into_iter().map(Self::read)).collect()
    }

    fn events(&self) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    blocks.push(self.block(&kind, self.text[..range.start].matches('\n').count() + 1));
                    inside = true;
                }
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => blocks.last_mut().unwrap().text.push_str(&text),
                _ => {}
            }
        }
        blocks
    }

    fn block(&self, kind: &CodeBlockKind<'_>, line: usize) -> Block {
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.clone(),
            CodeBlockKind::Indented => CowStr::Borrowed("indented"),
        };
        let mut words = info.split_whitespace().map(str::to_owned);
        let language = words.next().unwrap_or_default();
        let runs = !words.any(|word| word == "no-run");
        Block { page: self.path.clone(), line, language, runs, text: String::new() }
    }

    /// Where its links lead, as written.
    pub(crate) fn links(&self) -> Vec<String> {
        let target = |(event, _)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
            _ => None,
        };
        self.events().filter_map(target).collect()
    }

    /// What its headings are linked by.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        let mut inside = false;
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    anchors.push(String::new());
                    inside = true;
                }
                Event::End(TagEnd::Heading(_)) => inside = false,
                Event::Text(text) | Event::Code(text) if inside => anchors.last_mut().unwrap().push_str(&slug(&text)),
                _ => {}
            }
        }
        anchors
    }
}

/// A heading's text as the fragment of an address: small letters, hyphens for spaces, no punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect()
}

#[test]
fn blocks_have_a_language_a_line_and_perhaps_a_mark() {
    let text = "# A `b`, c\n\n```sh no-run\nx\n```\n\n    y\n\n[l](d.md#e)\n".to_owned();
    let page = Page { path: "p.md".into(), text };
    let blocks = page.blocks();
    let seen: Vec<_> = blocks.iter().map(|b| (b.to_string(), b.language.as_str(), b.runs, b.text.as_str())).collect();
    assert_eq!(seen, [("p.md:3".to_owned(), "sh", false, "x\n"), ("p.md:7".to_owned(), "indented", true, "y\n")]);
    assert_eq!((page.links(), page.anchors()), (vec!["d.md#e".to_owned()], vec!["a-b-c".to_owned()]));
}

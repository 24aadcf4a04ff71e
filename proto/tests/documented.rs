//! docs/reference/api.md is what the protocol files say: every call, message and field, with its comment.
//!
//! `ESPALIER_BLESS=1 cargo test -p espalier-proto --test documented` writes it.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    OneofDescriptor, ServiceDescriptor,
};

/// What has the page written instead of read when it is set.
const BLESS: &str = "ESPALIER_BLESS";

/// The longest line of prose, in characters.
const LINE_MAX: usize = 120;

const HEAD: &str = "# The protocol

Services and clients speak gRPC by the files in [proto/espalier/v1](../../proto/espalier/v1); this page is made of them,
and a test holds it against them. Clients need `Generation` alone: [a client of your own](../clients.md) shows how. A
server tells all of it by reflection, too. Numbers of fields are those on the wire; a field that is absent has the value
0, or is empty, unless it says otherwise.

";

/// The files, clients' first.
const FILES: [&str; 5] = ["generation", "common", "drafter", "verifier", "status"];

/// The comment above what stands at `path` of a file, on one line.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let locations = file.file_descriptor_proto().source_code_info.iter().flat_map(|info| &info.location);
    let above =
        locations.filter(|location| location.path == path).find_map(|location| location.leading_comments.clone());
    above.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text in lines that a page may have.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= LINE_MAX {
            let _ = write!(line, " {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// A paragraph, if there is anything to say.
fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{}\n\n", wrapped(text)) }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A message or an enumeration, as a link to its heading.
fn linked(name: &str) -> String {
    format!("[`{name}`](#{})", name.to_lowercase())
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => linked(message.name()),
        Kind::Enum(listed) => linked(listed.name()),
        scalar => format!("`{scalar:?}`"),
    }
}

fn field_type(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("map from {} to {}", kind(&key.kind()), kind(&value.kind()))
        }
        of if field.is_list() => format!("list of {}", kind(&of)),
        of => kind(&of),
    }
}

/// What a field is one of: of several, at most one of which is there, or of what may be absent.
fn presence(field: &FieldDescriptor) -> String {
    match field.containing_oneof() {
        Some(oneof) if !is_synthetic(&oneof) => format!("one of `{}`", oneof.name()),
        Some(_) => "may be absent".to_owned(),
        None => String::new(),
    }
}

/// Whether a group of one stands for the word `optional`.
fn is_synthetic(oneof: &OneofDescriptor) -> bool {
    oneof.fields().len() == 1 && oneof.name().starts_with('_')
}

fn field_row(field: &FieldDescriptor) -> String {
    let said = cell(&comment(&field.parent_file(), field.path()));
    format!("| `{}` | {} | {} | {} | {said} |\n", field.name(), field.number(), field_type(field), presence(field))
}

fn message(message: &MessageDescriptor) -> String {
    let mut text = format!("### {}\n\n{}", message.name(), paragraph(&comment(&message.parent_file(), message.path())));
    for oneof in message.oneofs().filter(|oneof| !is_synthetic(oneof)) {
        let said = comment(&message.parent_file(), oneof.path());
        if !said.is_empty() {
            text.push_str(&paragraph(&format!("`{}`: {said}", oneof.name())));
        }
    }
    let rows: String = message.fields().map(|field| field_row(&field)).collect();
    if rows.is_empty() {
        return text + "It has no fields.\n\n";
    }
    text + "| field | number | type | | |\n|---|---|---|---|---|\n" + &rows + "\n"
}

fn listed(listed: &EnumDescriptor) -> String {
    let rows: String = listed
        .values()
        .map(|value| {
            let said = cell(&comment(&listed.parent_file(), value.path()));
            format!("| `{}` | {} | {said} |\n", value.name(), value.number())
        })
        .collect();
    let said = paragraph(&comment(&listed.parent_file(), listed.path()));
    format!("### {}\n\n{said}| value | number | |\n|---|---|---|\n{rows}\n", listed.name())
}

fn method_row(method: &MethodDescriptor) -> String {
    let stream = |of: bool, name: &str| if of { format!("stream of {}", linked(name)) } else { linked(name) };
    let asked = stream(method.is_client_streaming(), method.input().name());
    let answered = stream(method.is_server_streaming(), method.output().name());
    let said = cell(&comment(&method.parent_file(), method.path()));
    format!("| `{}` | {asked} | {answered} | {said} |\n", method.name())
}

fn service(service: &ServiceDescriptor) -> String {
    let said = paragraph(&comment(&service.parent_file(), service.path()));
    let rows: String = service.methods().map(|method| method_row(&method)).collect();
    format!("### Service {}\n\n{said}| call | request | answer | |\n|---|---|---|---|\n{rows}\n", service.name())
}

fn file(file: &FileDescriptor) -> String {
    let mut text = format!("## {}\n\n", file.name());
    file.services().for_each(|of| text.push_str(&service(&of)));
    file.messages().for_each(|of| text.push_str(&message(&of)));
    file.enums().for_each(|of| text.push_str(&listed(&of)));
    text
}

fn expected() -> String {
    let pool = DescriptorPool::decode(espalier_proto::FILE_DESCRIPTOR_SET).unwrap();
    let files = FILES.map(|name| pool.get_file_by_name(&format!("espalier/v1/{name}.proto")).unwrap());
    assert_eq!(files.len(), pool.files().len(), "a file of the protocol is not in the list");
    let text: String = files.iter().map(file).collect();
    format!("{}\n", (HEAD.to_owned() + &text).trim_end())
}

#[test]
fn the_page_is_that_of_the_files() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/api.md");
    let expected = expected();
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&page, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(found == expected, "docs/reference/api.md: {differs:?}; {BLESS}=1 writes it anew");
}

#[test]
fn comments_and_links_are_in_it() {
    let page = expected();
    for told in [
        "| `max_tokens` | 5 | `uint32` |  | At most so many tokens are generated; at least 1, and prompt and answer",
        "| `sampling` | 6 | [`Sampling`](#sampling) |  | Greedy when absent. |",
        "| `text` | 2 | `string` | one of `prompt` | Text as it is,",
        "| `Verify` | stream of [`VerifyRequest`](#verifyrequest) | stream of [`VerifyResponse`](#verifyresponse) |",
        "| `top_p` | 3 | `double` | may be absent |",
        "| `logit_bias` | 9 | map from `uint32` to `double` |",
        "### Sampling\n\nHow the target turns logits into tokens.",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

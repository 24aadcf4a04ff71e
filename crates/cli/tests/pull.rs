//! `espalier pull` from a real server on this machine: connections that break, checksums that are wrong, files that are not
//! there.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, LOCATION, RANGE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

type Body = StreamBody<futures::stream::Iter<std::vec::IntoIter<io::Result<Frame<Bytes>>>>>;

/// Where a hub has the files of a model.
const FOLDER: &str = "/org/tiny/resolve/main/";

/// What a server has, and what it does with it.
#[derive(Default)]
struct Site {
    files: HashMap<String, Vec<u8>>,
    /// Connections break after so many bytes of a file of this name, as often as this.
    breaks: HashMap<String, (usize, u32)>,
    knows_ranges: bool,
    /// The paths that were asked for, with the ranges.
    asked: Vec<String>,
}

impl Site {
    fn of(model: &str) -> Self {
        let folder = models().join(model);
        let read = |name: &str| (name.to_owned(), fs::read(folder.join(name)).unwrap());
        let names =
            ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors"];
        Self { files: names.map(read).into(), knows_ranges: true, ..Self::default() }
    }

    fn with_sums(mut self) -> Self {
        let lines = self.files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
        let list: String = lines.collect();
        self.files.insert("SHA256SUMS".to_owned(), list.into_bytes());
        self
    }

    fn answer(&mut self, request: &Request<Incoming>) -> Response<Body> {
        let told = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = request.uri().path();
        if request.method() == Method::GET {
            self.asked.push(format!("{path} {}", told(RANGE)).trim().to_owned());
        }
        if let Some(name) = path.strip_prefix("/moved/") {
            return empty(StatusCode::FOUND).header(LOCATION, format!("{FOLDER}{name}")).body(body(vec![])).unwrap();
        }
        let name = path.strip_prefix(FOLDER).unwrap_or_default();
        let Some(bytes) = self.files.get(name) else { return empty(StatusCode::NOT_FOUND).body(body(vec![])).unwrap() };
        let (tag, total) = (format!("\"{}\"", &sha256(bytes)[..16]), bytes.len());
        let from = told(RANGE).strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')?.parse::<usize>().ok());
        let is_same = told(IF_RANGE).is_empty() || told(IF_RANGE) == tag;
        let from = from.filter(|_| self.knows_ranges && is_same);
        let sent = &bytes[from.unwrap_or(0).min(total)..];
        let response = empty(from.map_or(StatusCode::OK, |_| StatusCode::PARTIAL_CONTENT));
        let response = match from {
            Some(from) if from >= total => {
                let range = format!("bytes */{total}");
                return empty(StatusCode::RANGE_NOT_SATISFIABLE)
                    .header(CONTENT_RANGE, range)
                    .body(body(vec![]))
                    .unwrap();
            }
            Some(from) => response.header(CONTENT_RANGE, format!("bytes {from}-{}/{total}", total - 1)),
            None => response,
        };
        let mut frames: Vec<io::Result<Frame<Bytes>>> =
            sent.chunks(1 << 16).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect();
        if let Some((after, times)) = self.breaks.get_mut(name).filter(|(_, times)| *times > 0) {
            *times -= 1;
            frames.truncate(after.div_ceil(1 << 16));
            frames.push(Err(io::ErrorKind::BrokenPipe.into()));
        }
        response.header(ETAG, tag).header(CONTENT_LENGTH, sent.len()).body(body(frames)).unwrap()
    }
}

fn empty(status: StatusCode) -> hyper::http::response::Builder {
    Response::builder().status(status)
}

fn body(frames: Vec<io::Result<Frame<Bytes>>>) -> Body {
    StreamBody::new(futures::stream::iter(frames))
}

/// A server on this machine, which ends with the test.
struct Server {
    address: SocketAddr,
    site: Arc<Mutex<Site>>,
    _runtime: Runtime,
}

impl Server {
    fn start(site: Site) -> Self {
        let runtime = Runtime::new().unwrap();
        let site = Arc::new(Mutex::new(site));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&site));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = Arc::clone(&shared);
                let answer = service_fn(move |request: Request<Incoming>| {
                    let response = site.lock().unwrap().answer(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, site, _runtime: runtime }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.site.lock().unwrap().asked)
    }

    fn change(&self, change: impl FnOnce(&mut Site)) {
        change(&mut self.site.lock().unwrap());
    }
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pull(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.arg("pull").args(args).env("ESPALIER_MODELS", home).env("NO_PROXY", "*").stdin(Stdio::null());
    command.output().unwrap()
}

fn failed(output: &Output, code: i32) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    error
}

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_comes_whole_although_connections_break_and_can_be_served() {
    let server = Server::start(Site::of("small").with_sums());
    server.change(|site| {
        site.breaks.insert("model.safetensors".to_owned(), (5 << 20, 2));
    });
    let home = tempfile::tempdir().unwrap();
    let output = pull(home.path(), &[&server.url("/org/tiny/resolve/main")]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("as expected").count(), 5, "{said}");
    assert!(said.contains("espalier serve --targets tiny --drafter ngram"), "{said}");
    let folder = home.path().join("tiny");
    let expected =
        ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    assert_eq!(names(&folder), expected);
    for name in expected {
        assert!(fs::read(folder.join(name)).unwrap() == fs::read(models().join("small").join(name)).unwrap(), "{name}");
    }
    let is_of_weights = |asked: &String| asked.split(' ').any(|word| word.ends_with("/model.safetensors"));
    let asked: Vec<String> = server.asked().into_iter().filter(is_of_weights).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[1].contains("bytes=") && asked[2].contains("bytes="), "{asked:?}");

    // A second time all is there.
    let output = pull(home.path(), &[&server.url(FOLDER)]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches("kept, as expected").count(), 5);
    assert!(!server.asked().iter().any(is_of_weights));
}

#[test]
fn what_broke_off_is_gone_on_with_by_the_same_command() {
    let server = Server::start(Site::of("small"));
    // No byte comes beyond the first megabyte.
    server.change(|site| {
        site.breaks.insert("model.safetensors".to_owned(), (1 << 20, 1));
        site.knows_ranges = true;
    });
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("tiny");
    fs::create_dir(&folder).unwrap();
    let whole = fs::read(models().join("small/model.safetensors")).unwrap();
    fs::write(folder.join("model.safetensors.part"), &whole[..100_000]).unwrap();
    fs::write(folder.join("model.safetensors.part.tag"), format!("\"{}\"", &sha256(&whole)[..16])).unwrap();
    let output = pull(home.path(), &[&server.url(FOLDER)]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("nothing was held against checksums"), "{told}");
    assert!(server.asked().contains(&format!("{FOLDER}model.safetensors bytes=100000-")));
    assert!(fs::read(folder.join("model.safetensors")).unwrap() == whole);
}

#[test]
fn the_beginning_of_another_version_is_thrown_away() {
    for knows_ranges in [true, false] {
        let server = Server::start(Site { knows_ranges, ..Site::of("small") });
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("tiny");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("model.safetensors.part"), [7; 1000]).unwrap();
        fs::write(folder.join("model.safetensors.part.tag"), "\"another\"").unwrap();
        let output = pull(home.path(), &[&server.url(FOLDER)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = fs::read(folder.join("model.safetensors")).unwrap();
        assert!(found == fs::read(models().join("small/model.safetensors")).unwrap());
    }
}

#[test]
fn a_wrong_checksum_keeps_nothing_and_replaces_nothing() {
    let server = Server::start(Site::of("small"));
    let home = tempfile::tempdir().unwrap();
    let wrong = format!("model.safetensors={}", "0".repeat(64));
    let error = failed(&pull(home.path(), &[&server.url(FOLDER), "--sha256", &wrong]), 1);
    assert!(error.contains("model.safetensors has the checksum") && error.contains(&"0".repeat(64)), "{error}");
    let folder = home.path().join("tiny");
    assert!(!names(&folder).iter().any(|name| name.starts_with("model.safetensors")), "{:?}", names(&folder));

    fs::write(folder.join("model.safetensors"), "mine").unwrap();
    let error = failed(&pull(home.path(), &[&server.url(FOLDER), "--sha256", &wrong]), 1);
    assert!(error.contains("take it away to fetch it again"), "{error}");
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), b"mine");
}

#[test]
fn a_missing_file_is_told_by_its_address_and_what_is_no_checkpoint_with_what_is_wrong() {
    let server = Server::start(Site::of("small"));
    let home = tempfile::tempdir().unwrap();
    let error = failed(&pull(home.path(), &[&server.url("/org/none/resolve/main/")]), 2);
    assert!(error.contains(&format!("there is no {}", server.url("/org/none/resolve/main/config.json"))), "{error}");
    server.change(|site| drop(site.files.remove("model.safetensors")));
    let error = failed(&pull(home.path(), &[&server.url(FOLDER)]), 2);
    assert!(error.contains("model.safetensors; the address of a folder is wanted"), "{error}");
    let server = Server::start(Site::of("small").with_sums());
    server.change(|site| drop(site.files.remove("tokenizer_config.json")));
    let other = tempfile::tempdir().unwrap();
    let error = failed(&pull(other.path(), &[&server.url(FOLDER)]), 1);
    assert!(error.contains("tokenizer_config.json"), "{error}");

    let server = Server::start(Site::of("small"));
    server.change(|site| drop(site.files.insert("model.safetensors".to_owned(), b"no weights".to_vec())));
    let elsewhere = home.path().join("elsewhere");
    let error = failed(&pull(home.path(), &[&server.url(FOLDER), "--to", elsewhere.to_str().unwrap()]), 1);
    assert!(error.contains("is not a safetensors file"), "{error}");
}

#[test]
fn files_of_two_models_are_not_mixed() {
    let home = tempfile::tempdir().unwrap();
    let small = Server::start(Site::of("small"));
    assert!(pull(home.path(), &[&small.url(FOLDER)]).status.success());
    let medium = Server::start(Site::of("medium"));
    let error = failed(&pull(home.path(), &[&medium.url(FOLDER)]), 1);
    assert!(
        error.contains("tiny/config.json has ") && error.contains("take it away, or name another folder"),
        "{error}"
    );
}

#[test]
fn sizes_and_addresses_are_bounded_and_servers_may_point_elsewhere() {
    let server = Server::start(Site::of("small"));
    let home = tempfile::tempdir().unwrap();
    let error = failed(&pull(home.path(), &[&server.url(FOLDER), "--size-max", "1MiB"]), 1);
    assert!(error.contains("model.safetensors has") && error.contains("at most 1048576 are fetched"), "{error}");
    let error = failed(&pull(home.path(), &["http://mirror.example/org/tiny/"]), 2);
    assert!(error.contains("in the clear") && error.contains("--insecure"), "{error}");
    let output = pull(home.path(), &[&server.url("/moved/")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&home.path().join("moved")).len(), 5);
}

#[test]
fn a_single_gguf_file_is_put_among_the_models() {
    let made = tempfile::tempdir().unwrap();
    let file = made.path().join("tiny.gguf");
    let mut convert = Command::new(env!("CARGO_BIN_EXE_espalier"));
    convert.args(["convert", "small", file.to_str().unwrap(), "--type", "q8_0"]).env("ESPALIER_MODELS", models());
    assert!(convert.output().unwrap().status.success());
    let bytes = fs::read(&file).unwrap();
    let sum = sha256(&bytes);
    let server = Server::start(Site {
        files: HashMap::from([("tiny.gguf".to_owned(), bytes)]),
        knows_ranges: true,
        ..Site::default()
    });
    let home = tempfile::tempdir().unwrap();
    let output = pull(home.path(), &[&server.url(&format!("{FOLDER}tiny.gguf")), "--sha256", &sum]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("as expected") && said.contains("espalier serve --targets tiny --drafter ngram"), "{said}");
    assert_eq!(names(home.path()), ["tiny.gguf"]);
}

//! The command line as a person or a script meets it: exit codes, one-sentence errors, JSON, signals.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn espalier(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(args).env("ESPALIER_MODELS", models()).env_remove("ESPALIER_GATEWAY").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    espalier(args).output().unwrap()
}

/// The exit code and the one line of the error.
fn refusal(args: &[&str]) -> (i32, String) {
    let output = run(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "one sentence: {error}");
    (output.status.code().unwrap(), error.trim_end().to_owned())
}

fn jsonl(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn what_is_asked_wrongly_is_refused_in_one_sentence_with_exit_code_2() {
    let broken = jsonl("{\"prompt\": \"a\"}\n{\"prompt\"\n");
    let broken = broken.path().to_str().unwrap();
    let generate = ["generate", "--target", "small"];
    let cases: &[(&[&str], &str)] = &[
        (&["--prompt", ""], "the prompt is empty"),
        (&["--prompt", "a", "--temperature", "-1"], "temperature -1 is not a finite number of at least 0"),
        (&["--prompt", "a", "--temperature", "nan"], "temperature NaN is not a finite number of at least 0"),
        (&["--prompt", "a", "--max-tokens", "0"], "max_tokens is 0; it must be at least 1"),
        (&["--prompt", "a", "--max-tokens", "2048"], "the context of `small` has room for"),
        (&["--prompt", "a", "--policy", "guess"], "unknown policy `guess`; there are constant"),
        (&["--prompt", "a", "--drafter", "small:0"], "`small:0` is no drafter"),
        (&["--prompt", "a", "--gateway", "here"], "`here` is not an address of the form http://host:port"),
        (&["--prompts", broken], ", line 2: EOF while parsing"),
        (&["--prompts", "/nowhere.jsonl"], "cannot read /nowhere.jsonl"),
    ];
    for (args, words) in cases {
        let (code, error) = refusal(&[&generate, *args].concat());
        assert!(error.contains(words), "{args:?}: {error}");
        assert_eq!(code, 2, "{args:?}: {error}");
    }
    let (code, error) = refusal(&["top", "--once", "--gateway", "here"]);
    assert!(code == 2 && error.contains("`here` is not an address"), "{error}");
    let (code, error) = refusal(&["generate", "--target", "huge", "--prompt", "a"]);
    assert!(code == 2 && error.starts_with("error: there is no checkpoint `huge`"), "{error}");
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    let long = "one two three ".repeat(2_000);
    let (code, error) = refusal(&["generate", "--target", "small", "--prompt", &long]);
    assert!(code == 2 && error.contains("but the context of `small` is 2048 tokens"), "{error}");
}

#[test]
fn a_broken_checkpoint_is_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |model: &str, name: &str| {
        std::fs::copy(models().join(model).join(name), folder.path().join(name)).unwrap();
    };
    for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
        copy("small", name);
    }
    let path = folder.path().to_str().unwrap();
    let expect = |words: &str| {
        let (code, error) = refusal(&["generate", "--target", path, "--prompt", "a", "--no-speculation"]);
        assert!(code == 1 && error.contains(words), "{error}");
    };
    expect("has no model.safetensors");
    copy("medium", "model.safetensors");
    expect("model.embed_tokens.weight has shape [4096, 384], expected [4096, 256]");
    copy("small", "model.safetensors");
    std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("model.safetensors"))
        .unwrap()
        .set_len(99_999)
        .unwrap();
    expect("is truncated");
}

/// Converts a model into a folder of its own; gives the file and what the command says.
fn convert(model: &str, kind: &str) -> (tempfile::TempDir, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{model}-{kind}.gguf")).to_str().unwrap().to_owned();
    let output = run(&["convert", model, &file, "--type", kind, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = serde_json::from_slice(&output.stdout).unwrap();
    (folder, file, said)
}

#[test]
fn a_converted_model_says_what_the_checkpoint_says() {
    let (folder, file, said) = convert("small", "bf16");
    assert_eq!((&said["tensors"], &said["tokenizer_inside"]), (&Value::from(74), &Value::from(true)));
    assert_eq!(said["bytes"].as_u64().unwrap(), std::fs::metadata(&file).unwrap().len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "one file, and nothing half written");
    let answer = |target: &str| {
        let prompt = ["--prompt", "Ann has 3 dogs.", "--max-tokens", "12", "--json"];
        let output = run(&[&["generate", "--target", target, "--drafter", target], &prompt[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (found, expected) = (answer(&file), answer("small"));
    assert_eq!(found["token_ids"], expected["token_ids"]);
    assert_eq!((&found["target"], &found["drafter"]), (&Value::from("small-bf16"), &Value::from("small-bf16")));
    assert_eq!(answer(folder.path().to_str().unwrap())["token_ids"], expected["token_ids"]);
}

#[test]
fn quantized_models_answer() {
    for kind in ["q8_0", "q4_0"] {
        let (_folder, file, _) = convert("small", kind);
        let answer = run(&["generate", "--target", &file, "--no-speculation", "--prompt", "Ann has 3 dogs."]);
        assert!(answer.status.success() && !answer.stdout.is_empty(), "{kind}");
    }
}

#[test]
fn what_would_be_overwritten_or_mistaken_is_refused() {
    let (folder, file, _) = convert("small", "q8_0");
    let refused = |out: &str, words: &str| {
        let (code, error) = refusal(&["convert", "small", out]);
        assert!(code == 2 && error.contains(words), "{error}");
    };
    refused(&file, "exists already");
    refused(folder.path().join("x.bin").to_str().unwrap(), "does not end in `.gguf`");
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    refused(folder.path().join("x.gguf").to_str().unwrap(), "is of another tokenizer than small's");
}

#[test]
fn a_drafter_with_another_tokenizer_is_refused_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(models().join("small")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let tokenizer = folder.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&std::fs::read(&tokenizer).unwrap()).unwrap();
    let merges = json["model"]["merges"].as_array_mut().unwrap();
    let last = merges.len() - 1;
    merges.swap(last, last - 1);
    std::fs::write(&tokenizer, serde_json::to_vec(&json).unwrap()).unwrap();
    let drafter = folder.path().to_str().unwrap();
    let (code, error) = refusal(&["generate", "--target", "small", "--prompt", "a", "--drafter", drafter]);
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert!(code == 2 && error.contains(name) && error.contains("`small`"), "{error}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn training_on_a_gpu_takes_a_program_for_gpus() {
    let text = jsonl("{\"question\": \"What is 1 and 1?\", \"answer\": \"2\"}\n");
    let (text, folder) = (text.path().to_str().unwrap(), tempfile::tempdir().unwrap());
    let out = folder.path().join("never");
    let out = out.to_str().unwrap();
    let asked: [&[&str]; 2] = [
        &["train", "edd", "--target", "small", "--data", text, "--out", out, "--device", "cuda"],
        &["train", "text", "--target", "small", "--prompts", text, "--out", out, "--device", "cuda"],
    ];
    for args in asked {
        let (code, error) = refusal(args);
        assert!(
            error.contains("this program was built without the feature `cuda`, which device cuda:0 needs"),
            "{error}"
        );
        assert_eq!((code, Path::new(out).exists()), (1, false), "{args:?}");
    }
}

#[test]
fn json_output_says_all_there_is_to_say() {
    let prompts = jsonl("{\"question\": \"Ann has 3 dogs.\"}\n{\"turns\": [\"Bob runs.\", \"And then?\"]}\n");
    let prompts = prompts.path().to_str().unwrap();
    let ask = |extra: &[&str]| -> Vec<Value> {
        let args = ["generate", "--target", "small", "--prompts", prompts, "--max-tokens", "12", "--json"];
        let output = run(&[&args, extra].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (drafted, plain) = (ask(&["--policy", "constant,k=3,gate=off"]), ask(&["--no-speculation"]));
    assert_eq!(drafted.len(), 2);
    for (drafted, plain) in drafted.iter().zip(&plain) {
        for key in ["target", "drafter", "policy", "finish_reason", "text"] {
            assert!(drafted[key].is_string(), "{key}");
        }
        for key in ["prompt_tokens", "rounds", "drafted", "accepted", "tau", "elapsed_ms", "tokens_per_second"] {
            assert!(drafted[key].is_number(), "{key}");
        }
        assert_eq!(drafted["token_ids"], plain["token_ids"]);
        assert_eq!(drafted["text"], plain["text"]);
        assert!(drafted["rounds"].as_u64() < plain["rounds"].as_u64());
        assert!(drafted["accepted_by_depth"].as_array().is_some_and(|depths| !depths.is_empty()));
    }
}

/// A serving process that ends with the test.
struct Serving {
    process: Child,
    gateway: String,
}

impl Serving {
    fn start() -> Self {
        let ports = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"];
        let mut command = espalier(&[&["serve", "--targets", "small", "--drafter", "small:2"], &ports[..]].concat());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines.by_ref().take_while(|line| line != "ready").collect();
        let gateway = said.iter().find_map(|line| line.strip_prefix("gateway")?.split_whitespace().last());
        let gateway = gateway.unwrap_or_else(|| panic!("{said:?}")).to_owned();
        Self { process, gateway }
    }

    /// Asks the process to end and returns its exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
    }
}

#[test]
fn serving_lasts_until_a_signal_and_ends_well() {
    for signal in ["-TERM", "-INT"] {
        let serving = Serving::start();
        let answer =
            run(&["generate", "--gateway", &serving.gateway, "--target", "small", "--prompt", "Ann", "--json"]);
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let (code, error) = refusal(&["generate", "--gateway", &serving.gateway, "--target", "x", "--prompt", "a"]);
        assert!(code == 2 && error.contains("`x`") && error.contains("`small`"), "{error}");
        assert_eq!(serving.end(signal), Some(0));
    }
}

#[test]
fn what_a_running_system_does_is_told_as_json_and_as_a_table() {
    let serving = Serving::start();
    let gateway = ["--gateway", &serving.gateway];
    let ask = ["generate", "--target", "small", "--prompt", "Ann", "--max-tokens", "9", "--policy", "constant,k=3"];
    assert!(run(&[&ask, &gateway[..]].concat()).status.success());
    let top = ["top", "--once", "--interval", "100ms"];
    let output = run(&[&top, &gateway[..], &["--json"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["gateway"]["pace"]["tokens_per_second"], 0.0, "{told}");
    let ended = &told["gateway"]["ended"];
    assert_eq!(ended["stop"].as_u64().unwrap() + ended["length"].as_u64().unwrap(), 1, "{told}");
    for (services, name) in [("targets", "small"), ("drafters", "small-2")] {
        let service = &told[services][0];
        assert_eq!((service["name"].as_str(), service["up"].as_bool()), (Some(name), Some(true)), "{told}");
        assert!(service["work"]["kv"]["blocks"].as_u64() > Some(0), "{told}");
    }
    let table = run(&[&top, &gateway[..]].concat());
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(["small-2", "→ small", "tokens/s", "KV memory"].iter().all(|word| table.contains(word)), "{table}");
    // Standard output is no terminal here.
    let (code, error) = refusal(&[&["top"], &gateway[..]].concat());
    assert!(code == 2 && error.contains("there is no terminal"), "{error}");

    assert_eq!(serving.end("-TERM"), Some(0));
}

#[test]
fn a_port_in_use_is_named_before_anything_is_loaded() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, error) = refusal(&["serve", "--port", &port]);
    assert_eq!((code, error), (1, format!("error: the address 127.0.0.1:{port} is already in use")));
}

#[test]
fn golden_checkpoints_and_vectors_pass_and_a_wrong_one_fails() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
    let output = run(&["golden", golden.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with("3 passed, 0 failed\n"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    for name in ["config.json", "generation_config.json", "model.safetensors", "golden.json", "golden.safetensors"] {
        std::fs::copy(golden.join("qwen3").join(name), wrong.join(name)).unwrap();
    }
    let config = std::fs::read_to_string(wrong.join("config.json")).unwrap();
    std::fs::write(wrong.join("config.json"), config.replace("10000.0", "9000.0")).unwrap();
    let output = run(&["golden", folder.path().to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.code() == Some(1) && said.contains("logits differ") && said.ends_with("0 passed, 1 failed\n")
    );

    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../speculation/tests/vectors");
    assert!(run(&["vectors", vectors.to_str().unwrap()]).status.success());
}

#[test]
fn a_plan_is_told_as_json_and_a_wrong_scenario_by_its_field() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.json");
    let example = example.to_str().unwrap();
    let output = run(&["plan", example, "--quick", "--json", "--seed", "3"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let planned: Value = serde_json::from_slice(&output.stdout).unwrap();
    let targets = planned["report"]["targets"].as_array().unwrap();
    assert_eq!((targets.len(), &planned["report"]["unfinished"]), (2, &Value::from(0)));
    assert!(targets.iter().all(|target| target["finished"].as_u64() > Some(20)), "{planned}");
    let again = run(&["plan", example, "--quick", "--json", "--seed", "3"]);
    assert_eq!(output.stdout, again.stdout, "the same seed gives the same report");

    let text = std::fs::read_to_string(example).unwrap();
    let wrong = jsonl(&text.replacen("\"slots\": 64", "\"slots\": 0", 1));
    let (code, error) = refusal(&["plan", wrong.path().to_str().unwrap()]);
    assert_eq!((code, error.contains("`targets[0].slots` is 0; it must be 1 to 65536")), (2, true), "{error}");
}

//! Whole runs of small models: repeated, interrupted, resumed, and stopped by what goes wrong.
#![allow(clippy::unwrap_used)]

mod devices;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use candle_core::Tensor;
use espalier_model::{Checkpoint, Decoder, DeviceKind, LoadOptions, Predictor, fingerprint};
use espalier_text::Tokenizer;
use serde_json::Value;
use tempfile::TempDir;

use super::{Outcome, Run, Watch, resume, train};
use crate::error::TrainError;
use crate::observer::{Blind, Observer, Plan, Speed};
use crate::output::{Entry, Summary, Validation};
use crate::recipe::{
    BaseMethod, CaliTsMethod, DataOptions, EarlyExitMethod, EddMethod, Method, OptimiserOptions, Options, Precision,
    Recipe, SortedMethod,
};
use crate::testing::{checkpoint, tiny_config};

/// A target, a text and a place for results.
struct Bench {
    target: TempDir,
    work: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { target: checkpoint(&tiny_config()), work: tempfile::tempdir().unwrap() };
        let chat = |i| format!("{{\"question\": \"What is {i} and {i}?\", \"answer\": \"It is {}.\"}}\n", 2 * i);
        fs::write(bench.text(), (0..30).map(chat).collect::<String>()).unwrap();
        bench
    }

    fn text(&self) -> PathBuf {
        self.work.path().join("text.jsonl")
    }

    fn out(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn edd(&self) -> Method {
        Method::Edd(EddMethod::new(self.target.path().to_owned()))
    }

    /// A sorted drafter taught by its own target.
    fn taught(&self) -> Method {
        let target = self.target.path().to_owned();
        Method::Sorted(SortedMethod { teachers: vec![target.clone()], ..SortedMethod::new(target, vec![1, 2]) })
    }

    fn early_exit(&self) -> Method {
        Method::EarlyExit(EarlyExitMethod { target: self.target.path().to_owned(), shared_layers: 2 })
    }

    fn base(&self) -> Method {
        Method::Base(BaseMethod::Checkpoint(self.target.path().to_owned()))
    }

    /// The same as [`Self::recipe`] by tensor operations alone, as on a GPU.
    fn recipe_on_device(&self, method: Method) -> Recipe {
        let recipe = self.recipe(method);
        Recipe { options: Options { device: DeviceKind::Candle, ..recipe.options.clone() }, ..recipe }
    }

    /// Twelve steps, checked on texts set apart after every fourth.
    fn recipe(&self, method: Method) -> Recipe {
        let data = DataOptions {
            files: vec![self.text()],
            validation_share: 0.1,
            length: 32,
            batch: 2,
            accumulate: 2,
            epochs: 3,
            steps_max: Some(12),
            ..DataOptions::default()
        };
        let options = Options {
            evaluate_every: 4,
            checkpoint_every: 5,
            precision: Precision::F32,
            threads: 2,
            optimiser: OptimiserOptions { learning_rate: 0.01, ..OptimiserOptions::default() },
            ..Options::default()
        };
        Recipe { method, data, options }
    }

    fn train(&self, recipe: &Recipe, name: &str) -> Summary {
        finished(train(recipe, &self.out(name), &mut Blind, &AtomicBool::new(false)).unwrap())
    }
}

fn finished(outcome: Outcome) -> Summary {
    match outcome {
        Outcome::Finished(summary) => summary,
        Outcome::Interrupted { step } => panic!("interrupted after step {step}"),
    }
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).unwrap()
}

/// The log without the time it took.
fn log(folder: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(folder.join("log.jsonl")).unwrap();
    let entry = |line| Entry { seconds: 0.0, ..serde_json::from_str(line).unwrap() };
    text.lines().map(entry).collect()
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Tells the run to stop after some step.
struct StopAfter<'a> {
    step: usize,
    stop: &'a AtomicBool,
}

impl Observer for StopAfter<'_> {
    fn began(&mut self, _: &Plan) {}
    fn stepped(&mut self, entry: &Entry, _: Speed) {
        if entry.step == self.step {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
    fn validated(&mut self, _: usize, _: &Validation, _: bool) {}
    fn saved(&mut self, _: usize) {}
}

/// Trains up to a step, leaving a checkpoint.
fn interrupt(recipe: &Recipe, out: &Path, step: usize) {
    let stop = AtomicBool::new(false);
    let outcome = train(recipe, out, &mut StopAfter { step, stop: &stop }, &stop).unwrap();
    assert_eq!(outcome, Outcome::Interrupted { step });
}

#[test]
fn two_runs_of_one_recipe_are_identical() {
    let bench = Bench::new();
    for method in [bench.edd(), bench.taught(), bench.base()] {
        let recipe = bench.recipe(method);
        let (one, two) = (recipe.method.name(), format!("{}-again", recipe.method.name()));
        bench.train(&recipe, one);
        bench.train(&recipe, &two);
        assert_eq!(weights(&bench.out(one)), weights(&bench.out(&two)));
        assert_eq!(log(&bench.out(one)), log(&bench.out(&two)));
        let mut other = recipe.clone();
        other.options.seed = 1;
        bench.train(&other, &format!("{two}-and-again"));
        assert_ne!(weights(&bench.out(one)), weights(&bench.out(&format!("{two}-and-again"))));
    }
}

#[test]
fn a_resumed_run_ends_at_the_same_bits() {
    let bench = Bench::new();
    // In the middle of nothing, at a checkpoint, right before an evaluation, and three times in one run.
    for stops in [&[2][..], &[5], &[8], &[1, 6, 11]] {
        ends_at_the_same_bits(&bench, &bench.recipe(bench.edd()), stops);
    }
    ends_at_the_same_bits(&bench, &bench.recipe(bench.taught()), &[3, 7]);
}

fn ends_at_the_same_bits(bench: &Bench, recipe: &Recipe, stops: &[usize]) {
    let name = format!("{}-{stops:?}", recipe.method.name());
    let (out, whole) = (bench.out(&name), format!("{name}-whole"));
    bench.train(recipe, &whole);
    interrupt(recipe, &out, stops[0]);
    for &step in &stops[1..] {
        let stop = AtomicBool::new(false);
        let outcome = resume(&out, &mut StopAfter { step, stop: &stop }, &stop).unwrap();
        assert_eq!(outcome, Outcome::Interrupted { step });
    }
    finished(resume(&out, &mut Blind, &AtomicBool::new(false)).unwrap());
    assert_eq!(weights(&out), weights(&bench.out(&whole)), "{name}");
    assert_eq!(log(&out), log(&bench.out(&whole)), "{name}");
    assert!(!out.join("checkpoint").exists());
}

#[test]
fn a_run_that_was_killed_goes_on_from_its_last_checkpoint() {
    let bench = Bench::new();
    let recipe = bench.recipe(bench.edd());
    bench.train(&recipe, "whole");
    let (out, kept) = (bench.out("killed"), bench.out("kept"));
    interrupt(&recipe, &out, 5);
    fs::create_dir(&kept).unwrap();
    let names = ["checkpoint/state.safetensors", "checkpoint/best.safetensors", "log.jsonl"];
    for name in names {
        fs::copy(out.join(name), kept.join(Path::new(name).file_name().unwrap())).unwrap();
    }
    // What follows is lost, but for what the killed run wrote between two checkpoints: a better model, a longer log.
    let stop = AtomicBool::new(false);
    resume(&out, &mut StopAfter { step: 9, stop: &stop }, &stop).unwrap();
    fs::copy(kept.join("state.safetensors"), out.join(names[0])).unwrap();
    assert_eq!(log(&out).len(), 9);
    finished(resume(&out, &mut Blind, &AtomicBool::new(false)).unwrap());
    assert_eq!(weights(&out), weights(&bench.out("whole")));
    assert_eq!(log(&out), log(&bench.out("whole")));
}

#[test]
fn accumulated_batches_are_one_large_batch() {
    let bench = Bench::new();
    let mut recipe = bench.recipe(bench.base());
    bench.train(&recipe, "two-of-two");
    (recipe.data.batch, recipe.data.accumulate) = (4, 1);
    bench.train(&recipe, "one-of-four");
    recipe.options.threads = 1;
    bench.train(&recipe, "one-thread");
    let reference = log(&bench.out("two-of-two"));
    for name in ["one-of-four", "one-thread"] {
        for (a, b) in reference.iter().zip(log(&bench.out(name))) {
            assert!((a.loss - b.loss).abs() < 1e-3 && (a.tokens, a.epoch) == (b.tokens, b.epoch), "{a:?} {b:?}");
        }
    }
}

#[test]
fn a_finished_model_can_be_loaded_and_says_what_it_is() {
    let bench = Bench::new();
    let target = bench.target.path().to_owned();
    let mut recipe = bench.recipe(Method::Sorted(SortedMethod::new(target, vec![2, 4])));
    recipe.options.precision = Precision::Bf16;
    let summary = bench.train(&recipe, "sorted");
    let out = bench.out("sorted");
    let checkpoint = Checkpoint::open(&out).unwrap();
    assert_eq!(Decoder::load(&checkpoint, &LoadOptions::default()).unwrap().layers(), 4);
    let config = json(out.join("config.json"));
    assert_eq!((&config["espalier_exits"], &config["dtype"]), (&serde_json::json!([2, 4]), &Value::from("bfloat16")));
    let tokenizer = |folder: &Path| Tokenizer::open(folder).unwrap().fingerprint().to_owned();
    assert_eq!(tokenizer(&out), tokenizer(bench.target.path()));
    let scores = summary.validation.unwrap();
    assert_eq!(
        scores.exits.iter().map(|exit| &*exit.name).collect::<Vec<_>>(),
        ["exit after layer 2", "exit after layer 4"]
    );
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    for fact in ["# sorted", "| exits after layers | [2, 4] |", "text.jsonl", &summary.text_fingerprint, "12 of 12"] {
        assert!(card.contains(fact), "{fact}\n{card}");
    }
    assert_eq!(log(&out).iter().filter(|entry| entry.validation.is_some()).count(), 3);
    assert!(fs::read_to_string(out.join("loss.svg")).unwrap().contains("<polyline"));
}

#[test]
fn a_drafter_names_its_target_and_holds_its_own_parts() {
    let bench = Bench::new();
    let target = bench.target.path().to_owned();
    bench.train(&bench.recipe(bench.edd()), "edd");
    bench.train(&bench.recipe(bench.early_exit()), "early-exit");
    for (name, key, value) in [("edd", "tapped_layer", 2), ("early-exit", "shared_layers", 2)] {
        let config = json(bench.out(name).join("config.json"));
        assert_eq!(config["model_type"], format!("espalier_{}", name.replace('-', "_")));
        assert_eq!((&config[key], &config["decoder"]["num_hidden_layers"]), (&Value::from(value), &Value::from(1)));
        assert_eq!(config["target"]["fingerprint"], fingerprint(&target).unwrap());
        // The decoder inside is a model of one layer like any other.
        let nested = config["decoder"].to_string();
        let inner = espalier_model::ModelConfig::parse(&nested, None).unwrap();
        let bytes = weights(&bench.out(name));
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut names = tensors.names();
        names.retain(|name| !name.starts_with("model.layers.0."));
        names.sort_unstable();
        let expected: &[&str] = match name {
            "edd" => &["model.embed_tokens.weight", "model.norm.weight"],
            _ => &["lm_head.weight", "model.norm.weight"],
        };
        assert_eq!((names.as_slice(), inner.tied), (expected, name == "edd"));
    }
}

#[test]
fn a_predictor_is_for_the_drafter_that_it_was_trained_with() {
    let bench = Bench::new();
    bench.train(&bench.recipe(bench.edd()), "edd");
    let (target, drafter) = (bench.target.path().to_owned(), bench.out("edd"));
    let summary = bench.train(&bench.recipe(Method::CaliTs(CaliTsMethod { target, drafter })), "cali-ts");
    assert!(summary.validation.unwrap().positions > 0);
    let predictor = Predictor::open(&bench.out("cali-ts")).unwrap();
    assert_eq!(predictor.config().drafter, fingerprint(&bench.out("edd")).unwrap());
}

#[test]
fn patience_ends_a_training_and_the_best_model_is_kept() {
    let bench = Bench::new();
    let mut recipe = bench.recipe(bench.edd());
    // Steps so large that the drafter only gets worse once the warm-up is over.
    recipe.options.optimiser.learning_rate = 3.0;
    recipe.options.evaluate_every = 1;
    recipe.options.patience = Some(2);
    let summary = bench.train(&recipe, "impatient");
    assert!(summary.steps < 12 && summary.best_step == summary.steps - 2, "{summary:?}");
    let best = log(&bench.out("impatient"))[summary.best_step - 1].validation.clone();
    assert_eq!(best, summary.validation);
    // The weights of the best step are those of a run that ends there on the same schedule.
    let out = bench.out("until-then");
    interrupt(&recipe, &out, summary.best_step);
    let archive = crate::output::Archive::open(&out.join("checkpoint/state.safetensors")).unwrap();
    let all = weights(&bench.out("impatient"));
    let saved = safetensors::SafeTensors::deserialize(&all).unwrap();
    let norm = Tensor::zeros(32, candle_core::DType::F32, &candle_core::Device::Cpu).unwrap();
    let expected: Vec<f32> = archive.tensor_like("model.norm.weight", &norm).unwrap().to_vec1().unwrap();
    let bytes: Vec<u8> = expected.into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(saved.tensor("model.norm.weight").unwrap().data(), bytes);
}

#[test]
fn a_loss_that_is_not_finite_stops_at_its_step_and_keeps_the_checkpoint() {
    let bench = Bench::new();
    let out = bench.out("poisoned");
    let (mut blind, never) = (Blind, AtomicBool::new(false));
    let mut run = Run::new(bench.recipe(bench.edd()), &out, Watch { observer: &mut blind, stop: &never }).unwrap();
    assert!(run.step().unwrap() && run.step().unwrap());
    run.save().unwrap();
    assert!(run.step().unwrap());
    let (_, var) = run.objective.params().trained().next().unwrap();
    var.set(&(var.as_tensor() * f64::NAN).unwrap()).unwrap();
    let fault = run.step().unwrap_err();
    assert_eq!(fault.to_string(), "the loss of step 4 is not finite; the checkpoint of step 2 is kept");
    // It is a good one: the run goes on from there.
    let resumed = finished(resume(&out, &mut Blind, &never).unwrap());
    assert_eq!(resumed.steps, 12);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_the_run_and_the_last_checkpoint_can_be_resumed() {
    let bench = Bench::new();
    let recipe = bench.recipe(bench.edd());
    bench.train(&recipe, "whole");
    let out = bench.out("full");
    interrupt(&recipe, &out, 3);
    let part = out.join("checkpoint/state.safetensors.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let fault = resume(&out, &mut Blind, &AtomicBool::new(false)).unwrap_err().to_string();
    let expected = format!("cannot write {}", out.join("checkpoint/state.safetensors").display());
    assert!(fault.starts_with(&expected) && fault.contains("No space left on device"), "{fault}");
    finished(resume(&out, &mut Blind, &AtomicBool::new(false)).unwrap());
    assert_eq!(weights(&out), weights(&bench.out("whole")));
}

#[test]
fn nothing_is_overwritten_and_nothing_else_is_resumed() {
    let bench = Bench::new();
    let recipe = bench.recipe(bench.edd());
    let (out, never) = (bench.out("edd"), AtomicBool::new(false));
    let refusal =
        |result: Result<Outcome, TrainError>| result.unwrap_err().to_string().replace(&*out.to_string_lossy(), "OUT");
    assert_eq!(refusal(resume(&out, &mut Blind, &never)), "OUT holds no unfinished training");
    interrupt(&recipe, &out, 1);
    let again = refusal(train(&recipe, &out, &mut Blind, &never));
    assert_eq!(again, "OUT already holds an unfinished training, which can be resumed");
    let text = fs::read_to_string(bench.text()).unwrap();
    fs::write(bench.text(), text.replacen("30", "31", 1)).unwrap();
    let changed = refusal(resume(&out, &mut Blind, &never));
    assert!(changed.contains("is not a checkpoint of this training: its text had the fingerprint"), "{changed}");
    fs::write(bench.text(), text).unwrap();
    finished(resume(&out, &mut Blind, &never).unwrap());
    assert_eq!(refusal(train(&recipe, &out, &mut Blind, &never)), "OUT already holds a model (config.json)");
}

#[test]
fn bad_text_and_a_bad_recipe_are_refused_before_anything_is_written() {
    let bench = Bench::new();
    let out = bench.out("never");
    let refusal = |recipe: &Recipe| train(recipe, &out, &mut Blind, &AtomicBool::new(false)).unwrap_err().to_string();
    let mut recipe = bench.recipe(bench.edd());
    recipe.data.length = 65;
    assert_eq!(refusal(&recipe), "the length of a row is 65, expected 1 to 64");
    recipe.data.length = 32;
    let Method::Edd(edd) = &mut recipe.method else { unreachable!() };
    edd.tapped_layer = Some(6);
    assert_eq!(refusal(&recipe), "the tapped layer is 6, expected 1 to 5");
    let exit = EarlyExitMethod { target: bench.target.path().to_owned(), shared_layers: 5 };
    let exit = bench.recipe(Method::EarlyExit(exit));
    assert_eq!(refusal(&exit), "6 layers were asked for, but the model has 5 and at least 1 is needed");
    fs::write(bench.text(), "{\"text\": \"fine\"}\n{\"txt\": 1}\n").unwrap();
    let fault = refusal(&bench.recipe(bench.edd()));
    assert!(
        fault.ends_with("line 2: the object has neither `text` nor `token_ids` nor both `question` and `answer`"),
        "{fault}"
    );
    assert!(!out.exists());
}

//! Every objective: its gradients against finite differences, its model against its own text.
#![allow(clippy::unwrap_used)]

use candle_core::{DType, Tensor, Var};
use espalier_model::{Checkpoint, DeviceKind, Logits, Reference};

use super::edd::{EddDrafter, EddStart};
use super::frozen::Frozen;
use super::{Objective, Prediction, Setting, loss_sum, open};
use crate::data::Batch;
use crate::nn::{Params, Start};
use crate::optimiser::{AdamW, Gradients, Stride};
use crate::place::Place;
use crate::random::{Draws, Purpose};
use crate::recipe::{
    BaseMethod, CaliTsMethod, EarlyExitMethod, EddMethod, Method, ModelShape, OptimiserOptions, Sight, SortedMethod,
};
use crate::target::Target;
use crate::testing::{checkpoint, golden, max_abs, noise, processor, shipped, tiny_config};

fn methods(folder: &std::path::Path) -> Vec<(&'static str, Method)> {
    let edd = EddMethod { block_min: 2, block_max: 4, ..EddMethod::new(folder.to_owned()) };
    let sorted = SortedMethod::new(folder.to_owned(), vec![1, 2, 4]);
    let taught = SortedMethod { teachers: vec![folder.to_owned()], teacher_weight: 1.0, ..sorted.clone() };
    let shape = ModelShape { layers: 2, hidden: 16, heads: 4, kv_heads: 2, ffn: 24, context: 32 };
    vec![
        ("base from a checkpoint", Method::Base(BaseMethod::Checkpoint(folder.to_owned()))),
        ("base from nothing", Method::Base(BaseMethod::Scratch { tokenizer: folder.to_owned(), shape })),
        ("sorted", Method::Sorted(sorted)),
        ("sorted, taught", Method::Sorted(taught)),
        ("edd", Method::Edd(edd.clone())),
        ("edd, head frozen", Method::Edd(EddMethod { freeze_head: true, ..edd.clone() })),
        ("edd, no states", Method::Edd(EddMethod { sight: Sight::Tokens, ..edd.clone() })),
        ("edd, the paper's", Method::Edd(EddMethod { sight: Sight::States, ..edd.clone() })),
        ("edd, no divergence", Method::Edd(EddMethod { divergence: false, ..edd })),
        ("early-exit", Method::EarlyExit(EarlyExitMethod { target: folder.to_owned(), shared_layers: 2 })),
        ("cali-ts", Method::CaliTs(CaliTsMethod { target: folder.to_owned(), drafter: shipped("small") })),
    ]
}

fn objective(method: &Method, dtype: DType) -> Box<dyn Objective> {
    objective_on(DeviceKind::Cpu, method, dtype)
}

fn objective_on(kind: DeviceKind, method: &Method, dtype: DType) -> Box<dyn Objective> {
    open(method, &setting(kind, dtype)).unwrap()
}

fn setting(kind: DeviceKind, dtype: DType) -> Setting {
    Setting { dtype, place: Place::open(kind).unwrap(), seed: 4, length: 32 }
}

/// Two rows, one of them of two texts.
fn batch() -> Batch {
    Batch::of_pieces(&[&[&[1, 17, 900, 4000, 33, 8], &[5, 6, 7]], &[&[2, 250, 3, 77, 77, 1000, 12]]])
}

fn predict(objective: &dyn Objective, batch: &Batch) -> Prediction {
    objective.predict(batch, Draws::new(0, Purpose::Training, 0)).unwrap()
}

fn loss(objective: &dyn Objective, batch: &Batch) -> f64 {
    predict(objective, batch).loss().unwrap().to_scalar().unwrap()
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    (a * b).unwrap().sum_all().unwrap().to_scalar().unwrap()
}

/// How fast the loss changes along `direction`, by a central difference.
fn slope(objective: &dyn Objective, batch: &Batch, var: &Var, direction: &Tensor) -> f64 {
    const STEP: f64 = 1e-5;
    let origin = var.as_tensor().copy().unwrap();
    let at = |distance: f64| {
        var.set(&(&origin + (direction * distance).unwrap()).unwrap()).unwrap();
        loss(objective, batch)
    };
    let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
    var.set(&origin).unwrap();
    slope
}

#[test]
fn every_trained_tensor_has_the_gradient_of_finite_differences() {
    let (target, batch) = (checkpoint(&tiny_config()), batch());
    // Nothing pleases both the text and two teachers, so that this one is not among those to be learned by heart.
    let mut sorted = SortedMethod::new(target.path().to_owned(), vec![1, 4]);
    sorted.teachers = vec![target.path().to_owned(), shipped("small")];
    let torn = ("sorted, taught by two and the text", Method::Sorted(sorted));
    for (name, method) in methods(target.path()).into_iter().chain([torn]) {
        has_the_gradient_of_finite_differences(name, objective(&method, DType::F64).as_ref(), &batch);
    }
}

/// What only devices compute: frozen models and goals of tensors, and the loss towards them.
#[test]
fn every_gradient_on_a_device_is_that_of_finite_differences() {
    let (target, batch) = (checkpoint(&tiny_config()), batch());
    let mut sorted = SortedMethod::new(target.path().to_owned(), vec![1]);
    sorted.teachers = vec![target.path().to_owned()];
    let edd = EddMethod { block_min: 2, block_max: 4, ..EddMethod::new(target.path().to_owned()) };
    let exit = EarlyExitMethod { target: target.path().to_owned(), shared_layers: 2 };
    for method in [Method::Sorted(sorted), Method::Edd(edd), Method::EarlyExit(exit)] {
        let objective = objective_on(DeviceKind::Candle, &method, DType::F64);
        has_the_gradient_of_finite_differences(method.name(), objective.as_ref(), &batch);
    }
}

fn has_the_gradient_of_finite_differences(name: &str, objective: &dyn Objective, batch: &Batch) {
    let gradients = predict(objective, batch).loss().unwrap().backward().unwrap();
    for (tensor, var) in objective.params().trained() {
        let gradient = gradients.get(var.as_tensor()).unwrap_or_else(|| panic!("{name}: {tensor} has no gradient"));
        assert!(dot(gradient, gradient) > 0.0, "{name}: the gradient of {tensor} is 0");
        let direction = noise("direction", var.as_tensor(), 1.0);
        let (expected, found) = (slope(objective, batch, var, &direction), dot(gradient, &direction));
        let scale = dot(gradient, gradient).sqrt() * dot(&direction, &direction).sqrt();
        assert!((found - expected).abs() < 1e-6 * scale, "{name}: {tensor} has slope {expected}, gradient {found}");
    }
}

#[test]
fn one_batch_is_learned_by_heart() {
    let (target, batch) = (checkpoint(&tiny_config()), batch());
    let options = OptimiserOptions { weight_decay: 0.0, ..OptimiserOptions::default() };
    for (name, method) in methods(target.path()) {
        let objective = objective(&method, DType::F32);
        let mut optimiser = AdamW::new(objective.params(), &options).unwrap();
        let mut mean = f32::INFINITY;
        for step in 1..=150 {
            let prediction = predict(objective.as_ref(), &batch);
            let (loss, counted) = (prediction.loss().unwrap(), prediction.goal.counted() as f64);
            mean = loss.to_scalar::<f32>().unwrap() / counted as f32;
            let mut gradients = Gradients::default();
            gradients.add(objective.params(), loss.backward().unwrap()).unwrap();
            let stride = Stride { step, learning_rate: 0.02, scale: 1.0 / counted };
            optimiser.step(objective.params(), &gradients, stride).unwrap();
        }
        // Blocks hide hidden states here and there, and a frozen head cannot follow everywhere.
        assert!(mean < 0.05, "{name}: {mean}");
    }
}

#[test]
fn every_exit_learns_from_every_teacher_and_the_text() {
    let (folder, other) = (checkpoint(&tiny_config()), shipped("small"));
    let mut method = SortedMethod::new(folder.path().to_owned(), vec![2, 4]);
    let batch = batch();
    let mut loss_with = |teachers: &[&std::path::Path], weight| {
        method.teachers = teachers.iter().map(|teacher| teacher.to_path_buf()).collect();
        method.teacher_weight = weight;
        loss(objective(&Method::Sorted(method.clone()), DType::F64).as_ref(), &batch)
    };
    let (text, one, two) = (loss_with(&[], 0.5), loss_with(&[folder.path()], 1.0), loss_with(&[&other], 1.0));
    let all = loss_with(&[folder.path(), &other], 0.6);
    assert!((all - (0.4 * text + 0.3 * one + 0.3 * two)).abs() < 1e-4, "{all} of {text}, {one}, {two}");
    assert_eq!(loss_with(&[folder.path()], 0.0), text);
}

#[test]
fn a_teacher_that_speaks_of_other_tokens_is_refused() {
    let pupil = checkpoint(&tiny_config());
    let mut config = tiny_config();
    config["vocab_size"] = 4100.into();
    let padded = checkpoint(&config);
    let foreign = checkpoint(&tiny_config());
    let tokenizer = foreign.path().join("tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).unwrap();
    std::fs::write(&tokenizer, text.replacen("<|user|>", "<|usor|>", 1)).unwrap();
    let refusal = |teacher: &std::path::Path| {
        let teachers = vec![teacher.to_owned()];
        let method = SortedMethod { teachers, ..SortedMethod::new(pupil.path().to_owned(), vec![2]) };
        let setting = Setting { dtype: DType::F32, place: processor(), seed: 4, length: 32 };
        let fault = open(&Method::Sorted(method), &setting).err().unwrap().to_string();
        fault.replace(&*teacher.to_string_lossy(), "TEACHER")
    };
    assert_eq!(refusal(padded.path()), "the teacher TEACHER has a vocabulary of 4100, expected 4096");
    assert!(refusal(foreign.path()).starts_with("TEACHER has the tokenizer "), "{}", refusal(foreign.path()));
}

#[test]
fn the_frozen_target_sees_what_the_reference_sees() {
    let folder = checkpoint(&tiny_config());
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let (target, reference) =
        (Target::load(&checkpoint, None, &processor()).unwrap(), Reference::load(&checkpoint).unwrap());
    let batch = batch();
    let seen = target.see(&batch, 2, Logits::All).unwrap();
    let states_alone = target.see(&batch, 2, Logits::None).unwrap();
    assert_eq!((&seen.states, states_alone.logits.len()), (&states_alone.states, 0));
    for span in batch.spans() {
        let first = batch.first_of(span);
        let expected = reference.forward_causal(&batch.tokens()[first..][..span.length]).unwrap();
        let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let (states, logits) = (flat(&expected.hidden_after[1]), flat(&expected.logits));
        assert!(max_abs(&seen.states[first * 32..][..states.len()], &states) < 1e-4);
        assert!(max_abs(&seen.logits[first * 4096..][..logits.len()], &logits) < 1e-3);
    }
    let padding = batch.holds_text().iter().position(|holds| !holds).unwrap();
    assert!(seen.states[padding * 32..][..32].iter().all(|x| *x == 0.0));
}

#[test]
fn a_frozen_model_teaches_the_same_on_a_device() {
    let folder = checkpoint(&tiny_config());
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let batch = batch();
    let (mut states, mut losses) = (Vec::new(), Vec::new());
    for kind in [DeviceKind::Cpu, DeviceKind::Candle] {
        let frozen = Frozen::load(&checkpoint, None, &setting(kind, DType::F32)).unwrap();
        let lesson = frozen.teach(&batch, 2, &batch.holds_text()).unwrap();
        let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(flat(&frozen.states(&batch, 2).unwrap()), flat(&lesson.states));
        // Where there is no text, states are of no consequence, and differ.
        let text = batch.holds_text().into_iter().flat_map(|holds| [holds; 32]);
        states.push(flat(&lesson.states).into_iter().zip(text).map(|(x, holds)| if holds { x } else { 0.0 }).collect());
        let positions = batch.rows() * batch.length();
        let like = Tensor::zeros((positions, 4096), DType::F32, processor().device()).unwrap();
        let logits = noise("logits", &like, 1.0);
        losses.push(loss_sum(&logits, &lesson.goal.into()).unwrap().to_scalar::<f32>().unwrap());
    }
    let states: [Vec<f32>; 2] = states.try_into().unwrap();
    assert!(max_abs(&states[0], &states[1]) < 1e-4, "{}", max_abs(&states[0], &states[1]));
    assert!((losses[0] - losses[1]).abs() < 1e-4 * losses[0], "{losses:?}");
}

#[test]
fn on_a_device_a_model_of_another_family_teaches_nothing() {
    let neox = golden("gpt-neox");
    assert!(Frozen::load(&neox, None, &setting(DeviceKind::Cpu, DType::F32)).is_ok());
    let fault = Frozen::load(&neox, None, &setting(DeviceKind::Candle, DType::F32)).err().unwrap().to_string();
    assert_eq!(
        fault,
        "a model with LayerNorm teaches only on the processor: on device candle only the Llama family does"
    );
}

/// The positions whose logits differ.
fn affected(before: &[Vec<f32>], after: &[Vec<f32>]) -> Vec<bool> {
    before.iter().zip(after).map(|(before, after)| before != after).collect()
}

#[test]
fn an_edd_reads_the_states_before_its_block_and_the_tokens_of_its_sight() {
    let folder = checkpoint(&tiny_config());
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let weights = checkpoint.weights().unwrap();
    let starts = [0, 0, 2, 2, 2, 5];
    for sight in [Sight::Tokens, Sight::States, Sight::TokensAndStates] {
        let mut params = Params::new(DType::F32, &processor());
        let (outer, layer) = (Start::Copy(&weights), Start::Random { seed: 4 });
        let start = EddStart { outer, frozen: false, layer, sight };
        let drafter = EddDrafter::build(&checkpoint.config, &mut params, start).unwrap();
        let logits = |tokens: &[u32], states: &[f32]| {
            let batch = Batch::of_texts(&[tokens.to_vec()]);
            let states = Tensor::from_slice(states, (1, 6, 32), processor().device()).unwrap();
            drafter.logits(&batch, &starts, &states).unwrap().to_vec2::<f32>().unwrap()
        };
        let tokens = [5, 6, 7, 8, 9, 10];
        let states: Vec<f32> = (0..6 * 32).map(|i| (i as f32).sin()).collect();
        let before = logits(&tokens, &states);
        for changed in 0..6 {
            let mut other = states.clone();
            other[changed * 32..][..32].iter_mut().for_each(|x| *x = 1.0 - *x);
            let sees = |position: usize| sight != Sight::Tokens && changed < starts[position];
            let expected: Vec<bool> = (0..6).map(sees).collect();
            assert_eq!(affected(&before, &logits(&tokens, &other)), expected, "{sight:?}, state {changed}");
            let mut other = tokens;
            other[changed] = 99;
            let first = |position: usize| if sight == Sight::States { starts[position] } else { 0 };
            let expected: Vec<bool> = (0..6).map(|position| (first(position)..=position).contains(&changed)).collect();
            assert_eq!(affected(&before, &logits(&other, &states)), expected, "{sight:?}, token {changed}");
        }
    }
}

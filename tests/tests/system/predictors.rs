//! Predictors of acceptance end chains, and never change a text.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;

use candle_core::{DType, Device, Tensor};
use espalier_client::Answer;
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{Plan, System};
use espalier_model::{
    Asked, Checkpoint, Decoder, LoadOptions, Logits, PREDICTOR_STEPS, PredictorConfig, PredictorKind, Row, Segment,
    TargetCard, Workspace, fingerprint, normalise_state,
};
use espalier_proto::GenerationRequest;
use espalier_service_kit::chain;
use espalier_speculation::Token;
use espalier_tests::{answer, client, model, plan, prompts, request, sampling};
use tempfile::TempDir;

/// The target, and the drafter too: whatever is drafted is accepted, and both models' states are the same.
const TARGET: &str = "small";
const TOKENS: usize = 40;

/// What `espalier train cali-ts` would say of a predictor for the two.
fn config() -> PredictorConfig {
    let checkpoint = Checkpoint::open(model(TARGET)).unwrap();
    let own = fingerprint(&model(TARGET)).unwrap();
    PredictorConfig {
        model_type: PredictorKind::CaliTs,
        target: TargetCard {
            name: TARGET.to_owned(),
            fingerprint: own.clone(),
            tokenizer: String::new(),
            layers: checkpoint.config.layers,
            hidden_size: checkpoint.config.hidden,
        },
        tapped_layer: checkpoint.config.layers,
        drafter: own,
        draft_hidden_size: checkpoint.config.hidden,
    }
}

/// Weights under which each of the target's states along an answer comes to more than 0.
fn favouring(prompt: &[Token], greedy: &[Token]) -> Vec<f32> {
    let text = [prompt, greedy].concat();
    let decoder = Decoder::load(&Checkpoint::open(model(TARGET)).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(&text, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    let depth = Asked { taps: &[decoder.layers()], ..Asked::default() };
    let output = decoder.forward(&mut work, &mut segments, depth).unwrap();
    let mut states: Vec<Vec<f32>> = (prompt.len() - 1..text.len()).map(|row| output.tap(0, 0, row).to_vec()).collect();
    states.iter_mut().for_each(|state| normalise_state(state));
    let mut weights = vec![0.0; decoder.config().hidden];
    let product = |weights: &[f32], state: &[f32]| weights.iter().zip(state).map(|(a, b)| a * b).sum::<f32>();
    // A perceptron: there are fewer states than numbers in each, so it gets there.
    while let Some(state) = states.iter().find(|state| product(&weights, state) <= 1.0) {
        weights.iter_mut().zip(state).for_each(|(weight, number)| *weight += 0.01 * number);
    }
    weights
}

/// How much of a favoured state makes a chance one or, where it is negative, the other.
const SURE: f32 = 50.0;

/// A predictor that weighs both models' states with `weights`: so many times at each step, that of the target, and that of
/// the drafter.
fn predictor(weights: &[f32], of_target: [f32; PREDICTOR_STEPS], of_draft: f32) -> TempDir {
    let (folder, config, device) = (tempfile::tempdir().unwrap(), config(), &Device::Cpu);
    let [(matrices, shape), (output, width)] = config.shapes();
    let identity = Tensor::eye(shape[1], DType::F32, device).unwrap();
    let steps = of_target.map(|times| identity.affine(f64::from(times), 0.0).unwrap());
    let both = [weights.to_vec(), weights.iter().map(|weight| weight * of_draft).collect()].concat();
    let tensors = HashMap::from([
        (matrices, Tensor::stack(&steps, 0).unwrap()),
        (output, Tensor::from_vec(both, width, device).unwrap()),
    ]);
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    fs::write(folder.path().join("config.json"), serde_json::json!(config).to_string()).unwrap();
    folder
}

fn drafter(name: &str, predictors: &[&TempDir]) -> DrafterConfig {
    let config = DrafterConfig::new(model(TARGET), None, NonZeroUsize::MIN);
    let predictors = predictors.iter().map(|folder| folder.path().to_owned()).collect();
    DrafterConfig { name: name.to_owned(), predictors, ..config }
}

fn with(drafters: Vec<DrafterConfig>) -> Plan {
    Plan { drafters, ..plan(&[TARGET], None, 2) }
}

/// Nodes drafted in a round after the first. Before it the target has told no state, so that `first` nodes are drafted there.
fn later_rounds(answer: &Answer, first: u64) -> f64 {
    let speculation = &answer.completion.speculation;
    (speculation.drafted - first) as f64 / (speculation.rounds - 1) as f64
}

#[tokio::test]
async fn a_predictor_decides_how_long_chains_get_and_changes_no_text() {
    let (prompt, greedy) = prompts(TARGET).remove(0);
    let weights = favouring(&prompt, &greedy[..TOKENS.min(greedy.len())]);
    let mut two = [-SURE; PREDICTOR_STEPS];
    two[..2].fill(SURE);
    let stops = predictor(&weights, [0.0; PREDICTOR_STEPS], -SURE);
    let runs = predictor(&weights, [SURE; PREDICTOR_STEPS], 0.0);
    let third = predictor(&weights, two, 0.0);
    let drafters = [("unaided", None), ("stops", Some(&stops)), ("runs", Some(&runs)), ("third", Some(&third))];
    let drafters = drafters.map(|(name, folder)| drafter(name, folder.as_slice()));
    let system = System::start(with(drafters.to_vec()), |_: &str, _, _| {}).await.unwrap();
    let client = client(&system);

    let ask = async |drafter: &str, policy: &str, temperature: f64, hoped: u64| {
        let request = request(TARGET, &prompt, TOKENS, sampling(temperature, 7));
        let plain = answer(&client, GenerationRequest { speculate: false, ..request.clone() }).await;
        let policy = Some(format!("{},gate=off", policy.replace("HOPED", &hoped.to_string())));
        let request = GenerationRequest { drafter: Some(drafter.to_owned()), policy, ..request };
        let drafted = answer(&client, request).await;
        let speculation = &drafted.completion.speculation;
        assert_eq!((speculation.drafter.as_str(), speculation.failovers), (drafter, 0));
        assert_eq!((drafted.ids(), drafted.text()), (plain.ids(), plain.text()), "{drafter}");
        drafted
    };
    for policy in [
        "cali-ts,s_m=0.001,theta_hat0=HOPED,max_depth=5",
        "vanilla-tree,width=1,depth=5,stop=cali-ts,stop.s_m=0.001,stop.theta_hat0=HOPED",
    ] {
        // What the policy hopes for without a prediction is the contrary of what is predicted.
        assert_eq!(later_rounds(&ask("stops", policy, 0.0, 1).await, 5), 1.0, "{policy}");
        assert_eq!(later_rounds(&ask("third", policy, 0.0, 0).await, 1).round(), 3.0, "{policy}");
        assert!(later_rounds(&ask("runs", policy, 0.0, 0).await, 1) > 4.0, "{policy}");
        // Without a predictor, what was observed decides.
        assert!(later_rounds(&ask("unaided", policy, 0.0, 1).await, 5) > 2.0, "{policy}");
        ask("third", policy, 0.8, 0).await;
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_predictor_that_was_trained_with_another_drafter_keeps_a_drafter_from_starting() {
    let folder = predictor(&[0.0; 256], [0.0; PREDICTOR_STEPS], 0.0);
    let stray = PredictorConfig { drafter: "another".to_owned(), ..config() };
    fs::write(folder.path().join("config.json"), serde_json::json!(stray).to_string()).unwrap();
    let fault = System::start(with(vec![drafter("stray", &[&folder])]), |_: &str, _, _| {}).await.unwrap_err();
    let told = format!("was trained with a drafter of fingerprint another, not {}", config().drafter);
    let fault = chain(&fault);
    assert!(fault.ends_with(&told), "{fault}");
}

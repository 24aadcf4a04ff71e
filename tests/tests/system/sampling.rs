//! Every sampling parameter through all services: the text stays the target's own, logprobs are the same whoever drafts,
//! and stop strings cut exactly.

use espalier_client::Client;
use espalier_model::Arithmetic;
use espalier_proto::{GeneratedToken, GenerationRequest};
use espalier_speculation::{FinishReason, Penalties, Sampling, Shaping, StopStrings, Token};
use espalier_tests::{Oracle, answer, client, prompts, request, sampling, start};

const TARGETS: [&str; 2] = ["small", "medium"];

const POLICIES: [&str; 4] = ["constant,k=5", "svip", "pct", "eagle2"];

/// Everything at once; the bias moves tokens of `prompt`, some of them out of reach.
fn everything(temperature: f64, seed: u64, prompt: &[Token]) -> Sampling {
    let bias = prompt.iter().zip([-100.0, 1.5, -0.5, 3.0]).map(|(&token, bias)| (token, bias));
    let bias: std::collections::BTreeMap<Token, f64> = bias.collect();
    let penalties = Penalties { repetition: 1.3, presence: 0.4, frequency: 0.2 };
    let sampling = Sampling::new(temperature, 50, 0.95, seed).unwrap().with_min_p(0.02).unwrap();
    sampling.with_shaping(Shaping::new(penalties, bias).unwrap())
}

#[tokio::test]
async fn with_all_parameters_the_text_and_its_logprobs_are_the_target_s_whoever_drafts() {
    const TOKENS: usize = 40;
    let system = start(&TARGETS, None, 2).await;
    let client = client(&system);
    for target in TARGETS {
        let oracle = Oracle::load(target, Arithmetic::F32).await;
        for (i, (prompt, greedy)) in prompts(target).into_iter().enumerate().take(2) {
            for temperature in [0.0, 0.9] {
                let sampling = everything(temperature, i as u64, &prompt);
                let asked =
                    GenerationRequest { logprobs: Some(3), ..request(target, &prompt, TOKENS, sampling.clone()) };
                let plain = answer(&client, GenerationRequest { speculate: false, ..asked.clone() }).await;
                assert_eq!(plain.ids(), oracle.continuation(&prompt, TOKENS, sampling).await, "{target}");
                assert_ne!(plain.ids(), greedy[..TOKENS.min(greedy.len())], "the parameters change something");
                assert!(plain.tokens.iter().all(|token| token.logprob.is_some() && token.alternatives.len() == 3));
                for policy in POLICIES {
                    let policy = Some(policy.to_owned());
                    let drafted = answer(&client, GenerationRequest { policy, ..asked.clone() }).await;
                    assert_eq!(undrafted(drafted.tokens), undrafted(plain.tokens.clone()), "{target}");
                }
                let drafter = Some("ngram".to_owned());
                let copied = answer(&client, GenerationRequest { drafter, ..asked }).await;
                assert_eq!(undrafted(copied.tokens), undrafted(plain.tokens), "{target}, n-grams");
            }
        }
    }
    system.stop().await.unwrap();
}

/// The tokens without saying who thought of them first.
fn undrafted(tokens: Vec<GeneratedToken>) -> Vec<GeneratedToken> {
    tokens.into_iter().map(|token| GeneratedToken { drafted: false, ..token }).collect()
}

#[tokio::test]
async fn a_drafter_that_shapes_as_the_target_does_is_still_believed() {
    let system = start(&["small"], None, 2).await;
    let client = client(&system);
    let (prompt, _) = prompts("small").remove(0);
    // The whole target drafts for itself: it must guess every token, whatever shapes them.
    for temperature in [0.0, 0.9] {
        let sampling = everything(temperature, 3, &prompt);
        let policy = Some("constant,k=3,gate=off".to_owned());
        let answer = answer(&client, GenerationRequest { policy, ..request("small", &prompt, 40, sampling) }).await;
        let speculation = &answer.completion.speculation;
        // All three of each round but the last, in which fewer may follow.
        assert!(speculation.accepted >= 3 * (speculation.rounds - 1), "{speculation:?}");
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn logprobs_are_the_target_s_own_and_come_only_if_asked_for() {
    let system = start(&["small"], None, 2).await;
    let client = client(&system);
    let (prompt, greedy) = prompts("small").remove(0);
    let asked = GenerationRequest { logprobs: Some(2), ..request("small", &prompt, 16, sampling(0.0, 0)) };
    let explained = answer(&client, asked.clone()).await;
    assert_eq!(explained.ids(), greedy[..16]);
    for token in &explained.tokens {
        let [best, second] = &token.alternatives[..] else { panic!("{token:?}") };
        assert_eq!((best.id, Some(best.logprob)), (token.id, token.logprob), "greedy takes the most probable");
        assert!(second.logprob < best.logprob && best.logprob.exp() + second.logprob.exp() <= 1.0 + 1e-6);
    }
    let alone = answer(&client, GenerationRequest { logprobs: Some(0), ..asked.clone() }).await;
    assert!(alone.tokens.iter().all(|token| token.logprob.is_some() && token.alternatives.is_empty()));
    let unasked = answer(&client, GenerationRequest { logprobs: None, ..asked }).await;
    assert!(unasked.tokens.iter().all(|token| token.logprob.is_none()));
    // The first token's logprob is the same before shaping, whatever is shaped.
    let shaped = GenerationRequest {
        logprobs: Some(2),
        ..request("small", &prompt, 1, sampling(1.7, 1).with_shaping(biased(greedy[0], -5.0)))
    };
    let shaped = answer(&client, shaped).await;
    assert_eq!(shaped.tokens[0].alternatives, explained.tokens[0].alternatives);
    system.stop().await.unwrap();
}

fn biased(token: Token, bias: f64) -> Shaping {
    Shaping::new(Penalties::NONE, [(token, bias)]).unwrap()
}

/// The rounds of an answer, each with its tokens.
async fn rounds(client: &Client, request: GenerationRequest) -> Vec<Vec<GeneratedToken>> {
    let mut rounds = Vec::new();
    client.clone().generate(request, |tokens| rounds.push(tokens.to_vec())).await.unwrap();
    rounds
}

/// A text and its pieces, and where its rounds end, in tokens.
struct Whole {
    pieces: Vec<String>,
    ends: Vec<usize>,
}

impl Whole {
    fn of(rounds: &[Vec<GeneratedToken>]) -> Self {
        let pieces = rounds.iter().flatten().map(|token| token.text.clone()).collect();
        let ends = rounds.iter().scan(0, |end, round| {
            *end += round.len();
            Some(*end)
        });
        Self { pieces, ends: ends.collect() }
    }

    /// How many tokens it takes until `stop` is complete, and the text before it.
    fn cut(&self, stop: &str) -> (usize, String) {
        let text = |count: usize| self.pieces[..count].concat();
        let count = (1..=self.pieces.len()).find(|&count| text(count).contains(stop)).unwrap();
        let begin = text(count).find(stop).unwrap();
        (count, text(count)[..begin].to_owned())
    }

    /// Parts of the text over one to three tokens, from within one to within another.
    fn parts(&self) -> Vec<String> {
        let inner = |text: String| {
            let mut chars = text.chars();
            chars.next();
            chars.next_back();
            chars.as_str().to_owned()
        };
        let windows = (1..=3).flat_map(|size| self.pieces.windows(size).map(<[String]>::concat));
        windows.flat_map(|text| [inner(text.clone()), text]).filter(|part| !part.is_empty()).collect()
    }
}

#[tokio::test]
async fn stop_strings_cut_accepted_runs_exactly() {
    let system = start(&["medium"], None, 2).await;
    let client = client(&system);
    let (prompt, greedy) = prompts("medium").remove(1);
    let asked = GenerationRequest {
        policy: Some("constant,k=8,gate=off".to_owned()),
        ..request("medium", &prompt, greedy.len().min(32), sampling(0.0, 0))
    };
    let whole = Whole::of(&rounds(&client, asked.clone()).await);
    let (mut inside, mut across) = (0, 0);
    for stop in whole.parts().into_iter().step_by(3) {
        let (count, text) = whole.cut(&stop);
        inside += usize::from(!whole.ends.contains(&count));
        across += usize::from(text.len() < whole.pieces[..round_begin(&whole.ends, count)].concat().len());
        let stops = vec!["never said".to_owned(), stop.clone()];
        let asked = GenerationRequest { stop_strings: StopStrings::new(stops).unwrap(), ..asked.clone() };
        for speculate in [true, false] {
            let cut = answer(&client, GenerationRequest { speculate, ..asked.clone() }).await;
            assert_eq!((cut.text(), cut.ids()), (text.clone(), greedy[..count].to_vec()), "{stop:?}");
            let completion = &cut.completion;
            assert_eq!((completion.reason, completion.stop_string.as_ref()), (FinishReason::Stop, Some(&stop)));
            assert_eq!(completion.completion_tokens, count);
            let drafted = cut.tokens.iter().filter(|token| token.drafted).count();
            assert_eq!(completion.speculation.accepted, drafted as u64, "what was cut off was not accepted");
        }
    }
    assert!(inside > 5, "stop strings in the middle of accepted runs: {inside}");
    assert!(across > 5, "stop strings that begin in one round and end in another: {across}");
    system.stop().await.unwrap();
}

/// The end of the last round before the one in which token `count` was said.
fn round_begin(ends: &[usize], count: usize) -> usize {
    ends.iter().copied().filter(|&end| end < count).max().unwrap_or(0)
}

#[tokio::test]
async fn what_never_becomes_a_stop_string_is_said() {
    let system = start(&["medium"], None, 2).await;
    let client = client(&system);
    let (prompt, _) = prompts("medium").remove(1);
    let asked = request("medium", &prompt, 24, sampling(0.0, 0));
    let text = answer(&client, asked.clone()).await.text();
    // The end of the text is held back until it is over.
    let hopeful: String = text.chars().skip(text.chars().count() - 5).chain(['\u{1F980}']).collect();
    let stop_strings = StopStrings::new(vec![hopeful]).unwrap();
    let held = answer(&client, GenerationRequest { stop_strings, ..asked }).await;
    assert_eq!((held.text(), held.completion.reason), (text, FinishReason::Length));
    assert_eq!(held.completion.text.chars().count(), 5);
    assert_eq!(held.completion.stop_string, None);
    system.stop().await.unwrap();
}

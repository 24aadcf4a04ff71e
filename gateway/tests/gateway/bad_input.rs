//! What cannot be served is refused, in one sentence, with the value and the limit.

use crate::support::*;
use espalier_proto::{Conversation, GenerationRequest, Message, Prompt, pb};
use espalier_speculation::{Acceptance, Penalties, Sampling, Shaping};
use tonic::Code;

async fn refusal(url: &str, request: GenerationRequest) -> String {
    let status = generate(url, request).await.err().unwrap();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    status.message().to_owned()
}

#[tokio::test]
async fn each_rule_has_words_of_its_own() {
    let (toy, other) = (verifier("toy").await, verifier("other").await);
    let (small, alien) = (drafter("small", None).await, drafter("alien", Some("another")).await);
    let url = gateway(&[&toy, &other], &[&small, &alien]).await;
    let drafter = |name: &str| GenerationRequest { drafter: Some(name.to_owned()), ..request(5) };
    let prompt = |prompt| GenerationRequest { prompt, ..request(5) };
    let unknown = Shaping::new(Penalties::NONE, [(4096, 1.0)]).unwrap();
    let cases = [
        (
            GenerationRequest { target: "huge".to_owned(), ..request(5) },
            "unknown target `huge`; known targets are `other`, `toy`",
        ),
        (drafter("tiny"), "unknown drafter `tiny`; known drafters are `small`, `alien`, `ngram`, `none`"),
        (drafter("alien"), "drafter `alien` and target `toy` have different tokenizers"),
        (prompt(Prompt::Tokens(vec![])), "the prompt is empty"),
        (prompt(Prompt::Text(String::new())), "the prompt is empty"),
        (prompt(Prompt::Conversation(Conversation::default())), "the prompt is empty"),
        (prompt(Prompt::Tokens(vec![1, 5000])), "the prompt holds token 5000, but `toy` has tokens 0 to 4095"),
        (
            prompt(Prompt::Tokens(vec![7; 600])),
            "the prompt has 600 tokens, but the context of `toy` is 600 tokens, answer included",
        ),
        (request(0), "max_tokens is 0; it must be at least 1"),
        (request(597), "max_tokens is 597, but after a prompt of 4 tokens the context of `toy` has room for 596"),
        (
            GenerationRequest { stop_tokens: vec![4096], ..request(5) },
            "stop_tokens holds token 4096, but `toy` has tokens 0 to 4095",
        ),
        (GenerationRequest { stop_tokens: vec![1; 17], ..request(5) }, "stop_tokens is 17, beyond the limit of 16"),
        (GenerationRequest { generated: vec![1; 6], ..request(5) }, "generated has 6 tokens, but max_tokens is 5"),
        (
            GenerationRequest { generated: vec![4096], ..request(5) },
            "generated holds token 4096, but `toy` has tokens 0 to 4095",
        ),
        (
            GenerationRequest { generated: vec![7, 8, 9], stop_tokens: vec![8], ..request(5) },
            "generated has 3 tokens, but the answer ends with the first 2 of them",
        ),
        (
            GenerationRequest { generated: vec![7], sampling: Sampling::new(0.8, 0, 1.0, 0).unwrap(), ..request(5) },
            "tokens were drawn for an answer that is to go on, and the seed that they were drawn with is not given",
        ),
        (GenerationRequest { logprobs: Some(21), ..request(5) }, "logprobs is 21, beyond the limit of 20"),
        (
            GenerationRequest { sampling: Sampling::greedy().with_shaping(unknown), ..request(5) },
            "logit_bias holds token 4096, but `toy` has tokens 0 to 4095",
        ),
    ];
    for (request, words) in cases {
        assert_eq!(refusal(&url, request).await, words);
    }
    let policy = GenerationRequest { policy: Some("guess".to_owned()), ..request(5) };
    let words = refusal(&url, policy).await;
    assert!(words.contains("`guess`") && words.contains("pct") && words.contains("constant"), "{words}");
    let rejection = Sampling::new(0.8, 0, 1.0, 0).unwrap().with_acceptance(Acceptance::Rejection);
    let pruning = GenerationRequest { policy: Some("eagle2".to_owned()), sampling: rejection, ..request(5) };
    let words = refusal(&url, pruning).await;
    assert!(words.starts_with("policy eagle2 chooses among drawn tokens") && words.contains("svip"), "{words}");
    assert_eq!(generate(&url, request(596)).await.unwrap().ids().len(), 596, "the limit itself is served");
}

#[tokio::test]
async fn sampling_that_makes_no_sense_is_refused() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    for (temperature, top_p) in [(-0.1, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0), (0.5, 0.0), (0.5, 1.5)] {
        let sampling = pb::Sampling { temperature, top_p: Some(top_p), ..pb::Sampling::default() };
        let wire = pb::GenerateRequest { sampling: Some(sampling), ..request(5).into() };
        let status = client(&url).generate(wire).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let value = if top_p == 1.0 { temperature } else { top_p };
        assert!(status.message().contains(&value.to_string()), "{status}");
    }
}

#[tokio::test]
async fn stop_strings_that_make_no_sense_are_refused() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    for (stop_strings, words) in [
        (vec!["x".to_owned(); 17], "17 stop strings exceed the limit of 16"),
        (vec![String::new()], "stop string 0 is empty"),
        (vec!["x".repeat(257)], "stop string 0 has 257 bytes, beyond the limit of 256"),
    ] {
        let wire = pb::GenerateRequest { stop_strings, ..request(5).into() };
        let status = client(&url).generate(wire).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, words));
    }
}

#[tokio::test]
async fn a_name_of_a_session_that_is_none_is_refused() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let status = generate_in_session(&url, "two words", request(5)).await.err().unwrap();
    let words = "x-espalier-session `two words` is not 1 to 128 visible ASCII characters";
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, words));
}

#[tokio::test]
async fn a_request_without_a_prompt_and_a_role_that_no_template_knows_are_refused() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let wire = pb::GenerateRequest { prompt: None, ..request(5).into() };
    let status = client(&url).generate(wire).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "prompt is missing"));
    // Whatever a template makes of an unknown role, the answer is an answer or a refusal.
    let said = vec![Message::new("oracle", "?")].into();
    let asked = GenerationRequest { prompt: Prompt::Conversation(said), ..request(5) };
    if let Err(status) = generate(&url, asked).await {
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_bad_request_costs_nobody_else_anything() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let good = generate(&url, request(100));
    let bad = futures::future::join_all((0..20).map(|_| refusal(&url, request(0))));
    let (answer, refusals) = tokio::join!(good, bad);
    assert_eq!(answer.unwrap().ids(), plain_text(&PROMPT, 100));
    assert_eq!(refusals.len(), 20);
}

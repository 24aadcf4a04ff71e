//! Chat templates that want too much end themselves, and nothing else.

use std::time::Instant;

use espalier_gateway::{Config, Renderer};
use espalier_proto::{GenerationRequest, Message, Prompt};
use tonic::Code;

use crate::support::*;

/// On a machine that is busy with other tests time may run out before memory does.
const GREEDY: &str = "the target's chat template took more than ";
const FAILED: &str = "the chat template failed: ";

/// Templates that would take all memory, all time, or the whole stack, and what is said of them.
const HOSTILE: [(&str, &str); 9] = [
    ("{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", GREEDY),
    (
        "{% set ns = namespace(x=['ab']) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|list }}",
        "",
    ),
    ("{{ 'a\nb' | indent(100000000000000) }}", ""),
    ("{{ 'a' * 1000000000000 }}", FAILED),
    ("{{ 'a' * 100000000 ~ 'b' * 100000000 ~ 'c' * 100000000 ~ 'd' * 100000000 }}", GREEDY),
    ("{% set x = 'a' * 100000 %}{{ x | replace('a', x) }}", FAILED),
    ("{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}", GREEDY),
    (
        "{% for i in range(3000) %}{{ 'a' * 4096 }}{% endfor %}",
        "the chat template made a prompt of more than 8388608 bytes",
    ),
    (
        "{% set f = '%A %B %d ' * 100 %}{% for i in range(90000) %}{% set y = strftime_now(f) %}{% endfor %}",
        "took more than 2 s",
    ),
];

const GOOD: &str = "{{ bos_token }}Q: {{ messages[0].content }}\nA:";

fn conversation(target: &str) -> GenerationRequest {
    let said = vec![Message::new("user", "How many?")].into();
    GenerationRequest { target: target.to_owned(), prompt: Prompt::Conversation(said), ..request(5) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_survives_what_templates_want() {
    let mut verifiers = vec![templated_verifier("good", GOOD).await];
    for (number, (template, _)) in HOSTILE.iter().enumerate() {
        verifiers.push(templated_verifier(&format!("hostile-{number}"), template).await);
    }
    let mut program = Program::start(&verifiers, "").await;
    let expected = generate(&program.url, conversation("good")).await.unwrap().ids();
    for (number, (template, words)) in HOSTILE.into_iter().enumerate() {
        let began = Instant::now();
        let status = generate(&program.url, conversation(&format!("hostile-{number}"))).await.err().unwrap();
        println!("{template}: {:?}, {}", began.elapsed(), status.message());
        assert_eq!(status.code(), Code::InvalidArgument, "{template}: {status}");
        assert!(status.message().contains(words), "{template}: {status}");
        assert_eq!(generate(&program.url, conversation("good")).await.unwrap().ids(), expected);
    }
    assert!(program.runs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_gives_the_prompt_that_this_one_would() {
    let toy = templated_verifier("toy", GOOD).await;
    let config = || Config::new(std::slice::from_ref(&toy.url), &[]).unwrap();
    let here = start(config()).await;
    let program = Renderer::program(env!("CARGO_BIN_EXE_espalier-gateway").into());
    let there = start(config().with_renderer(program)).await;
    let (here, there) = (generate(&here, conversation("toy")).await, generate(&there, conversation("toy")).await);
    assert_eq!(there.unwrap().ids(), here.unwrap().ids());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_process_can_be_started_conversations_are_refused() {
    let toy = verifier("toy").await;
    let config = Config::new(std::slice::from_ref(&toy.url), &[]).unwrap();
    for program in ["/nowhere", "/bin/true"] {
        let url = start(config.clone().with_renderer(Renderer::program(program.into()))).await;
        let status = generate(&url, conversation("toy")).await.err().unwrap();
        assert_eq!(status.code(), Code::Internal, "{status}");
        assert!(status.message().starts_with("no process that renders chat templates can be started: "), "{status}");
        assert_eq!(generate(&url, request(5)).await.unwrap().ids().len(), 5);
    }
}

//! What a command line asks of a gateway.

use espalier_proto::{GenerationRequest, Message, Prompt};
use espalier_speculation::{Acceptance, Penalties, Sampling, SamplingError, Shaping, StopStrings, parse_policy};

use crate::decoding::Decoding;
use crate::error::CommandError;

/// How a prompt is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As one turn of a conversation, in the target's chat template.
    Chat,
    /// As it is.
    Raw,
}

/// The request that the command line describes, checked as far as it can be here.
///
/// # Errors
/// Sampling parameters out of range, a text that is no policy, and one that does not suit acceptance by rejection.
pub fn request(target: &str, prompt: &str, form: Form, decoding: &Decoding) -> Result<GenerationRequest, CommandError> {
    let sampling = sampling(decoding)?;
    let policy = decoding.policy.policy.as_deref();
    if let Some(policy) = policy.map(parse_policy).transpose()?
        && sampling.acceptance() == Acceptance::Rejection
    {
        policy.suiting_drawn()?;
    }
    let prompt = match form {
        Form::Raw => Prompt::Text(prompt.to_owned()),
        Form::Chat => Prompt::Conversation(vec![Message::new("user", prompt)].into()),
    };
    Ok(GenerationRequest {
        target: target.to_owned(),
        prompt,
        max_tokens: decoding.answers.max_tokens as usize,
        sampling,
        seeded: true,
        stop_tokens: Vec::new(),
        stop_strings: StopStrings::default(),
        logprobs: None,
        policy: policy.map(str::to_owned),
        drafter: None,
        speculate: !decoding.no_speculation,
        generated: Vec::new(),
        cut_to_context: false,
        rounds: false,
        constraint: None,
    })
}

fn sampling(decoding: &Decoding) -> Result<Sampling, SamplingError> {
    let Decoding { answers, shaping, .. } = decoding;
    let penalties = Penalties {
        repetition: shaping.repetition_penalty,
        presence: shaping.presence_penalty,
        frequency: shaping.frequency_penalty,
    };
    let sampling = Sampling::new(answers.temperature, decoding.top_k as usize, decoding.top_p, answers.seed)?;
    let shaping = Shaping::new(penalties, shaping.logit_bias.iter().copied())?;
    Ok(sampling.with_min_p(decoding.min_p)?.with_shaping(shaping).with_acceptance(decoding.acceptance))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    /// A command with nothing but these options.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        decoding: Decoding,
    }

    /// The request of a command with these flags.
    fn asked(flags: &[&str]) -> Result<GenerationRequest, CommandError> {
        let line = Line::try_parse_from(["command"].iter().chain(flags)).unwrap();
        request("small", "x", Form::Raw, &line.decoding)
    }

    #[test]
    fn an_acceptance_that_does_not_exist_is_refused_with_those_that_do() {
        let error = Line::try_parse_from(["command", "--acceptance=typical"]).map(drop).unwrap_err().to_string();
        assert!(error.contains("unknown acceptance `typical`; there are coupled and rejection"), "{error}");
    }

    #[test]
    fn without_flags_nothing_is_shaped() {
        assert_eq!(asked(&[]).unwrap().sampling, Sampling::greedy());
    }

    #[test]
    fn every_flag_reaches_the_sampling_parameters() {
        let flags = [
            "--temperature=0.8",
            "--top-k=40",
            "--top-p=0.9",
            "--min-p=0.05",
            "--seed=7",
            "--acceptance=rejection",
            "--repetition-penalty=1.1",
            "--presence-penalty=-0.5",
            "--frequency-penalty=0.25",
            "--logit-bias=9=-100,3=1.5",
        ];
        let penalties = Penalties { repetition: 1.1, presence: -0.5, frequency: 0.25 };
        let shaping = Shaping::new(penalties, [(3, 1.5), (9, -100.0)]).unwrap();
        let expected = Sampling::new(0.8, 40, 0.9, 7).unwrap().with_min_p(0.05).unwrap().with_shaping(shaping);
        let expected = expected.with_acceptance(Acceptance::Rejection);
        assert_eq!(asked(&flags).unwrap().sampling, expected);
    }

    #[test]
    fn by_rejection_only_policies_that_keep_what_is_drawn_can_be_asked_for() {
        let with = |temperature, policy| asked(&["--acceptance=rejection", temperature, policy]);
        assert!(matches!(with("--temperature=0.8", "--policy=eagle2"), Err(CommandError::Pruning(_))));
        assert!(with("--temperature=0.8", "--policy=svip").is_ok());
        assert!(with("--temperature=0", "--policy=eagle2").is_ok(), "this is greedy");
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for flag in ["--min-p=1.5", "--repetition-penalty=0", "--presence-penalty=3", "--logit-bias=1=101"] {
            assert!(matches!(asked(&[flag]), Err(CommandError::Sampling(_))), "{flag}");
        }
    }
}

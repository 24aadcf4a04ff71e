//! Asks all arms in turns.

use espalier_client::{Answer, Client, ClientError};
use espalier_command::{Answers, Decoding, Form, PolicyArg, request};
use espalier_proto::{FaultKind, GenerationRequest};

use super::arms::Arm;
use super::figures::{Figures, Sample};
use super::labelled::Group;
use crate::error::BenchError;
use crate::turns::order;

/// What every arm is asked once before anything counts: it shows whether the arm can answer at all, and wakes it up.
const TRIAL: &str = "How much is 12 times 3?";

/// Tokens of that answer at most.
const TRIAL_TOKENS: u32 = 32;

/// Who answers, and how.
pub(super) struct Bench {
    pub(super) client: Client,
    pub(super) target: String,
    pub(super) decoding: Decoding,
}

/// What cannot be measured, and why.
#[derive(Debug)]
pub(super) struct Skipped<T> {
    pub(super) what: T,
    pub(super) why: String,
}

/// What a comparison found.
#[derive(Debug)]
pub(super) struct Compared {
    /// Plain decoding first, then the other arms; label after label.
    pub(super) groups: Vec<Vec<Figures>>,
    pub(super) skipped_arms: Vec<Skipped<Arm>>,
    /// Labels of prompts that the models have no room for.
    pub(super) skipped_prompts: Vec<Skipped<String>>,
}

impl Compared {
    /// Whether anything was compared, and every text of every arm is plain decoding's.
    pub(super) fn identical(&self) -> bool {
        let mut compared = self.groups.iter().flat_map(|group| group.iter().skip(1));
        compared.clone().any(|figures| figures.prompts > 0) && compared.all(|figures| figures.different == 0)
    }
}

impl Bench {
    /// Lets plain decoding and `arms` answer every prompt in turns. `progress` hears how many answers there are of how
    /// many.
    pub(super) async fn compare(
        &mut self,
        arms: Vec<Arm>,
        groups: &[Group],
        progress: impl Fn(usize, usize),
    ) -> Result<Compared, BenchError> {
        let (arms, skipped_arms) = self.admit(arms).await?;
        let mut compared = Compared { groups: Vec::new(), skipped_arms, skipped_prompts: Vec::new() };
        let prompts: usize = groups.iter().map(|group| group.prompts.len()).sum();
        let mut turns = 0;
        for group in groups {
            let mut rows = Vec::new();
            for prompt in &group.prompts {
                let answered = |answers| progress(turns * arms.len() + answers, prompts * arms.len());
                match self.turn(&arms, prompt, order(arms.len(), turns, prompts), answered).await {
                    Ok(row) => rows.push(row),
                    Err(error) => {
                        let why = refusal(error)?;
                        compared.skipped_prompts.push(Skipped { what: group.label.clone(), why });
                    }
                }
                turns += 1;
            }
            compared.groups.push(self.figures(&arms, &group.label, &rows));
        }
        Ok(compared)
    }

    /// Plain decoding and those of `arms` that can answer; the others with the reason.
    async fn admit(&mut self, arms: Vec<Arm>) -> Result<(Vec<Arm>, Vec<Skipped<Arm>>), BenchError> {
        let answers = self.decoding.answers;
        let answers = Answers { max_tokens: TRIAL_TOKENS.min(answers.max_tokens), ..answers };
        let short = Decoding { answers, ..self.decoding.clone() };
        self.answer(&Arm::plain(), TRIAL, &short).await?;
        let (mut admitted, mut skipped) = (vec![Arm::plain()], Vec::new());
        for arm in arms {
            match self.answer(&arm, TRIAL, &short).await {
                Ok(_) => admitted.push(arm),
                Err(error) => skipped.push(Skipped { what: arm, why: refusal(error)? }),
            }
        }
        Ok((admitted, skipped))
    }

    /// One prompt answered by all arms in this order; `answered` hears by how many so far.
    async fn turn(
        &mut self,
        arms: &[Arm],
        prompt: &str,
        order: impl Iterator<Item = usize>,
        answered: impl Fn(usize),
    ) -> Result<Vec<Sample>, BenchError> {
        let decoding = self.decoding.clone();
        let mut answers = Vec::with_capacity(arms.len());
        for arm in order {
            answered(answers.len());
            answers.push((arm, self.answer(&arms[arm], prompt, &decoding).await?));
        }
        answers.sort_by_key(|(arm, _)| *arm);
        let plain = answers.first().map(|(_, plain)| plain);
        Ok(plain.into_iter().flat_map(|plain| answers.iter().map(|(_, answer)| Sample::new(answer, plain))).collect())
    }

    async fn answer(&mut self, arm: &Arm, prompt: &str, decoding: &Decoding) -> Result<Answer, BenchError> {
        let decoding = Decoding { policy: PolicyArg { policy: arm.policy.clone() }, ..decoding.clone() };
        let request = request(&self.target, prompt, Form::Chat, &decoding)?;
        let request = GenerationRequest { drafter: Some(arm.drafter.clone()), ..request };
        Ok(self.client.generate(request, |_| {}).await?)
    }

    /// The figures of all arms; `rows` hold a sample of each arm, plain decoding's first.
    fn figures(&self, arms: &[Arm], label: &str, rows: &[Vec<Sample>]) -> Vec<Figures> {
        let of_arm = |(i, arm): (usize, &Arm)| {
            let samples: Vec<(&Sample, &Sample)> =
                rows.iter().filter_map(|row| Some((row.first()?, row.get(i)?))).collect();
            Figures {
                target: self.target.clone(),
                label: label.to_owned(),
                temperature: self.decoding.answers.temperature,
                seed: self.decoding.answers.seed,
                ..Figures::of(arm, &samples)
            }
        };
        arms.iter().enumerate().map(of_arm).collect()
    }
}

/// Why a request was refused for what it asks; any other error remains one.
fn refusal(error: BenchError) -> Result<String, BenchError> {
    match error {
        BenchError::Client(ClientError::Fault(fault)) if fault.kind == FaultKind::BadInput => Ok(fault.to_string()),
        error => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;

    use espalier_command::start;
    use espalier_local::{DrafterChoice, Plan};

    use super::*;
    use crate::testing::shipped;

    fn arm(drafter: &str, policy: &str) -> Arm {
        Arm { drafter: drafter.to_owned(), policy: Some(policy.to_owned()) }
    }

    fn group(label: &str, prompts: &[&str]) -> Group {
        Group { label: label.to_owned(), prompts: prompts.iter().map(|&prompt| prompt.to_owned()).collect() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_can_answer_is_compared_and_the_rest_is_named() {
        let shipped = shipped();
        let drafter = DrafterChoice::parse("small:2", &shipped).unwrap();
        let running = start(Plan::new(&["small"], &[drafter], &shipped).unwrap()).await.unwrap();
        let client = Client::new(running.gateway()).unwrap();
        let mut bench = Bench { client, target: "small".to_owned(), decoding: Decoding::greedy(12) };

        let long = "word ".repeat(4000);
        let groups =
            [group("short", &["What is 2 + 3?", "How old is Ann?"]), group("long", &[&long, "What is 7 - 5?"])];
        let arms = vec![arm("small-2", "constant,k=2,gate=off"), arm("absent", "svip"), arm("ngram", "svip")];
        let heard = RefCell::new(Vec::new());
        let compared = bench.compare(arms, &groups, |done, all| heard.borrow_mut().push((done, all))).await.unwrap();
        running.stop().await.unwrap();

        assert!(compared.identical());
        let names = |group: &[Figures]| group.iter().map(|figures| figures.drafter.clone()).collect::<Vec<_>>();
        assert_eq!(names(&compared.groups[0]), ["none", "small-2", "ngram"]);
        assert_eq!(compared.groups.iter().map(|group| group[1].prompts).collect::<Vec<_>>(), [2, 1]);
        let chain = &compared.groups[0][1];
        assert!(chain.accepted > 0 && chain.mean_depth.unwrap() <= 2.0 && chain.speedup.is_some());
        assert_eq!(compared.groups[0][0].speedup, Some(1.0));

        let [Skipped { what, why }] = compared.skipped_arms.as_slice() else { panic!("{compared:?}") };
        assert!(what.drafter == "absent" && why.contains("`absent`"), "{why}");
        let [Skipped { what, why }] = compared.skipped_prompts.as_slice() else { panic!("{compared:?}") };
        assert!(what == "long" && why.contains("context"), "{why}");
        assert!(heard.borrow().iter().all(|&(done, all)| done < all && all == 12));
    }
}

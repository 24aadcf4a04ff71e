//! Who asks: clients that are refused ask again, and those whose stream broke go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use espalier_client::Client;
use espalier_proto::{Fault, GeneratedToken};
use espalier_speculation::SplitMix64;
use espalier_tests::{Question, Said, Watch, persist};
use futures::future::join_all;
use tokio::time::sleep;

use crate::held::still_held;
use crate::network::{front, url};
use crate::story::Story;
use crate::world::{Failure, STARTED};

/// Clients, each of which asks one question after the other.
const CLIENTS: usize = 3;
const QUESTIONS_EACH: usize = 4;

/// Places of those who went without a word are free after this time: that is how long a server waits for a sign of life.
const SETTLED: Duration = Duration::from_secs(32);

/// All clients.
pub(crate) struct Clients {
    pub(crate) seed: u64,
    pub(crate) questions: Vec<Question>,
    pub(crate) story: Story,
    /// What they find to be wrong.
    pub(crate) wrong: Rc<RefCell<Vec<String>>>,
    /// Whether all is answered, so that nothing need fail any more.
    pub(crate) answered: Rc<Cell<bool>>,
}

impl Clients {
    /// All questions, then a look at whether anything is still held.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        sleep(STARTED).await;
        join_all((0..CLIENTS).map(|number| self.ask_all(number))).await;
        self.answered.set(true);
        sleep(SETTLED).await;
        let held = still_held().await?;
        self.wrong.borrow_mut().extend(held);
        self.story.tell(format_args!("all is over"));
        Ok(())
    }

    /// The questions of one client, one after the other.
    async fn ask_all(&self, number: usize) {
        let name = format!("client-{number}");
        for turn in 0..QUESTIONS_EACH {
            let index = SplitMix64::mix(self.seed ^ (number * QUESTIONS_EACH + turn) as u64) as usize;
            let asked = self.ask(&name, &self.questions[index % self.questions.len()]).await;
            self.wrong.borrow_mut().extend(asked.err());
        }
    }

    /// Asks and holds the answer against what is right.
    ///
    /// # Errors
    /// What is wrong with the answer, or why there is none.
    async fn ask(&self, name: &str, question: &Question) -> Result<(), String> {
        let story = &self.story;
        story.tell(format_args!("{name} asks"));
        let connections = front();
        let connect = || Client::over(&connections, &url("gateways")).unwrap().named(name).unwrap();
        let answered = persist(connect, &question.request, &mut Told { name, story }).await;
        let answer = answered.map_err(|error| format!("{name} has no answer: {error}"))?;
        let (failovers, resumed) = (answer.completion.speculation.failovers, answer.resumed);
        story.tell(format_args!("{name} is answered, {failovers} failovers, {resumed} resumed"));
        match Said::from(&answer) {
            said if said == question.right => Ok(()),
            said => Err(format!("{name} hears {said:?} instead of {:?}", question.right)),
        }
    }
}

/// An answer that is told of in the story.
struct Told<'s> {
    name: &'s str,
    story: &'s Story,
}

impl Watch for Told<'_> {
    fn hears(&mut self, new: &[GeneratedToken]) {
        let ids: Vec<_> = new.iter().map(|token| token.id).collect();
        self.story.tell(format_args!("{} hears {ids:?}", self.name));
    }

    fn is_refused(&mut self, why: &Fault) {
        self.story.tell(format_args!("{} is refused: {why}", self.name));
    }
}

//! Who asks: a client that is refused asks again, and one whose stream broke goes on.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use espalier_client::{Answer, Client, ClientError};
use espalier_proto::FaultKind;
use espalier_tests::Said;
use tokio::time::{Instant, sleep};

use crate::questions::Question;

/// How long a client asks again without coming any further.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause before a request is sent again that no gateway has let in.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What happened, in its order, with the simulated time of each.
pub(crate) type Story = Rc<RefCell<Vec<String>>>;

/// Asks and holds the answer against what is right.
///
/// # Errors
/// What is wrong with the answer, or why there is none.
pub(crate) async fn ask(mut client: Client, question: &Question, name: String, story: Story) -> Result<(), String> {
    let begun = Instant::now();
    let tell = |what: String| story.borrow_mut().push(format!("{:>6} {name} {what}", at()));
    tell("asks".to_owned());
    let answer = loop {
        let answered = client.generate(question.request.clone(), |new| {
            tell(format!("hears {:?}", new.iter().map(|token| token.id).collect::<Vec<_>>()));
        });
        match answered.await {
            Err(ClientError::Fault(fault))
                if matches!(fault.kind, FaultKind::Gone | FaultKind::Overloaded) && begun.elapsed() < PATIENCE =>
            {
                tell(format!("is refused: {fault}"));
                sleep(fault.retry_after.unwrap_or(AGAIN_AFTER)).await;
            }
            answered => break answered.map_err(|error| format!("{name} has no answer: {error}"))?,
        }
    };
    let Answer { resumed, .. } = answer;
    tell(format!("is answered, {} failovers, {resumed} resumed", answer.completion.speculation.failovers));
    match Said::from(&answer) {
        said if said == question.right => Ok(()),
        said => Err(format!("{name} hears {said:?} instead of {:?}", question.right)),
    }
}

/// Milliseconds of simulated time.
pub(crate) fn at() -> u128 {
    turmoil::sim_elapsed().unwrap_or_default().as_millis()
}

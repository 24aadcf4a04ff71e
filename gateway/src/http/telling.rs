//! Answers on their way to the client.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use espalier_openai::{Answer, Choice, ErrorReply, Names, Part, Telling};
use espalier_proto::{Chunk, Fault, FaultKind, GenerationEvent, Party, SequenceId, pb};
use espalier_trace::Round;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use tonic::Status;

use super::reply;

/// What a call of `Generate` tells.
pub(super) type Texts = Pin<Box<dyn Stream<Item = Result<pb::GenerateResponse, Status>> + Send>>;

/// How long a stream says nothing before it shows that it is alive.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The last event of a stream, as the API has it.
const DONE: &str = "[DONE]";

/// All choices of an answer, under way.
pub(super) struct Choices {
    id: SequenceId,
    /// The choice that began first.
    first: usize,
    /// What comes of each, by its index.
    events: SelectAll<BoxStream<'static, Result<(usize, GenerationEvent), Fault>>>,
    choices: Vec<Choice>,
    /// How far a stream has told each.
    told: Vec<Telling>,
    /// The rounds of each, if they are told at the end.
    rounds: Vec<Vec<Round>>,
    /// Choices of each prompt.
    of_each: usize,
}

impl Choices {
    /// Waits until one has begun; what fails until then is a failure of the request. Nobody waits for the others: each may
    /// need the place of one that has ended.
    pub(super) async fn begin(
        calls: impl Iterator<Item = impl Future<Output = Result<Texts, Fault>> + Send + 'static>,
        of_each: usize,
    ) -> Result<Self, Fault> {
        let of = |(index, call)| {
            let texts = stream::once(call).map_ok(|texts: Texts| texts.map(read)).try_flatten();
            texts.map_ok(move |event| (index, event)).boxed()
        };
        let mut events = select_all(calls.enumerate().map(of));
        let count = events.len();
        let unbegun = || Fault::new(Party::Gateway, FaultKind::Internal, "an answer did not begin with its beginning");
        match events.try_next().await? {
            Some((first, GenerationEvent::Begun(begun))) => {
                let (choices, rounds) = (vec![Choice::default(); count], vec![Vec::new(); count]);
                let told = vec![Telling::default(); count];
                let id = begun.id.clone();
                let mut all = Self { id, first, events, choices, told, rounds, of_each };
                all.take(first, GenerationEvent::Begun(begun));
                Ok(all)
            }
            _ => Err(unbegun()),
        }
    }

    /// Names the choice that began first in the logs of all services.
    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The whole answer, once all choices have ended.
    pub(super) async fn whole(mut self, names: &Names) -> Result<Response, Fault> {
        while let Some((index, event)) = self.events.try_next().await? {
            self.take(index, event);
        }
        let traced = self.rounds.iter().any(|rounds| !rounds.is_empty());
        let own = traced.then(|| json!({"rounds": self.rounds}));
        Ok(reply::json(&names.whole(&self.choices, self.of_each).telling(own)))
    }

    fn take(&mut self, index: usize, event: GenerationEvent) {
        let Some(choice) = self.choices.get_mut(index) else { return };
        match event {
            GenerationEvent::Begun(begun) => {
                if let Some(told) = self.told.get_mut(index) {
                    *told = Telling::nothing(begun.call_form.clone());
                }
                *choice = Choice::begun(begun.call_form);
            }
            GenerationEvent::Tokens(chunk) => {
                if let (Some(rounds), Some(round)) = (self.rounds.get_mut(index), &chunk.round) {
                    rounds.push(Round::new(&chunk.tokens, round));
                }
                choice.push(chunk.tokens);
            }
            GenerationEvent::Finished(completion) => choice.end(*completion),
        }
    }

    /// The answer piece by piece, and at its end what was used, if that is wanted.
    pub(super) fn stream(mut self, names: Names, tells_usage: bool) -> Response {
        let first = stream::iter(names.beginning(self.first).map(|piece| event(&piece)));
        let mut over = false;
        let rest = stream::poll_fn(move |context| {
            if over {
                return Poll::Ready(None);
            }
            let next = ready!(self.events.poll_next_unpin(context));
            let told = match next {
                Some(Ok((index, found))) => {
                    self.piece(&names, index, found).map(|piece| event(&piece)).into_iter().collect()
                }
                Some(Err(fault)) => {
                    over = true;
                    vec![event(&ErrorReply::from(&fault).body)]
                }
                None => {
                    over = true;
                    let usage = tells_usage.then(|| event(&names.usage(&self.choices, self.of_each)));
                    usage.into_iter().chain([Event::default().data(DONE)]).collect()
                }
            };
            Poll::Ready(Some(stream::iter(told)))
        });
        let events = first.chain(rest.flatten()).map(Ok::<_, Infallible>);
        Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE_MAX)).into_response()
    }

    /// What is told of an event, if anything is.
    fn piece<'n>(&mut self, names: &'n Names, index: usize, found: GenerationEvent) -> Option<Answer<'n>> {
        let told = self.told.get_mut(index)?;
        match found {
            GenerationEvent::Begun(_) => {
                self.take(index, found);
                names.beginning(index)
            }
            GenerationEvent::Tokens(chunk) => {
                let part = Part { index, tokens: &chunk.tokens, rest: "", reason: None };
                Some(names.part(&part, told).telling(own(&chunk)))
            }
            GenerationEvent::Finished(ref completion) => {
                let part = Part { index, tokens: &[], rest: &completion.text, reason: Some(completion.reason) };
                let piece = names.part(&part, told);
                // Of a stream nothing but its end is needed later.
                self.take(index, found);
                Some(piece)
            }
        }
    }
}

/// The round that tokens are from, if it is to be told.
fn own(chunk: &Chunk) -> Option<Value> {
    let round = chunk.round.as_ref()?;
    Some(json!({"round": Round::new(&chunk.tokens, round)}))
}

fn read(told: Result<pb::GenerateResponse, Status>) -> Result<GenerationEvent, Fault> {
    let unread = |error| Fault::new(Party::Gateway, FaultKind::Internal, error);
    let told = told.map_err(|status| Fault::from_status(Party::Gateway, &status))?;
    GenerationEvent::try_from(told).map_err(unread)
}

/// An event of a stream. None of the objects that are told can fail to be written, or holds the end of a line.
fn event(object: &impl Serialize) -> Event {
    Event::default().data(serde_json::to_string(object).unwrap_or_default())
}

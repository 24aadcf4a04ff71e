//! Messages on their way in: so many bytes at once over all connections, whoever sends them.
//!
//! A message says how long it is before it comes. From then on it counts, or waits until there is room, the first that came
//! first: what waits is not read, and flow control stops its sender. A message that is there counts no longer; those that
//! wait for a slot are counted by the door.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Party};
use http_body::{Body as HttpBody, Frame};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

/// Bytes of messages that may be on their way in at once.
const BYTES_MAX: usize = 256 << 20;

/// A message has to be there so long after it was let in, so that nobody holds room by sending slowly.
pub(crate) const DELIVERY_MAX: Duration = Duration::from_secs(10);

/// What is before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

type Data = <Body as HttpBody>::Data;

/// Ready when there is room.
type Entering = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The room for messages that are on their way in.
#[derive(Debug, Clone)]
pub(crate) struct Intake(Arc<Semaphore>);

impl Default for Intake {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BYTES_MAX)))
    }
}

impl Intake {
    /// A body with one message, which is read when there is room for it. One that is longer than `longest` will be refused
    /// by its length, and needs none.
    pub(crate) fn meter(&self, body: Body, longest: usize) -> Body {
        Body::new(Metered { body, room: Arc::clone(&self.0), longest, stage: Stage::Prefix(Vec::new()) })
    }

    /// Room for a message of so many bytes, as long as it is held.
    pub(crate) async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.min(BYTES_MAX)).ok()?;
        // Nobody closes it.
        Arc::clone(&self.0).acquire_many_owned(bytes).await.ok()
    }
}

struct Metered {
    body: Body,
    room: Arc<Semaphore>,
    longest: usize,
    stage: Stage,
}

/// How far a message is.
enum Stage {
    /// So much of what is before it has come.
    Prefix(Vec<u8>),
    /// There is no room for it yet; the frame with its beginning waits.
    Waiting { frame: Option<Frame<Data>>, room: Entering },
    /// It may come, until it is due.
    Coming { due: Pin<Box<Sleep>>, _room: OwnedSemaphorePermit },
    /// It is refused by its length.
    Unwanted,
}

impl Metered {
    /// Takes note of what comes before the message; its length, once that is known.
    fn length(&mut self, frame: &Frame<Data>) -> Option<usize> {
        let Stage::Prefix(prefix) = &mut self.stage else { return None };
        let data: &[u8] = frame.data_ref()?;
        prefix.extend(data.iter().take(PREFIX_BYTES - prefix.len()));
        let [_, length @ ..] = <[u8; PREFIX_BYTES]>::try_from(prefix.as_slice()).ok()?;
        Some(u32::from_be_bytes(length) as usize)
    }

    /// Whether the frame has to wait until there is room.
    fn note(&mut self, frame: Frame<Data>) -> Option<Frame<Data>> {
        let Some(length) = self.length(&frame) else { return Some(frame) };
        match u32::try_from(length) {
            Ok(bytes) if length <= self.longest => {
                let room = Arc::clone(&self.room).acquire_many_owned(bytes);
                self.stage = Stage::Waiting { frame: Some(frame), room: Box::pin(room) };
                None
            }
            _ => {
                self.stage = Stage::Unwanted;
                Some(frame)
            }
        }
    }
}

impl HttpBody for Metered {
    type Data = Data;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Data>, Status>>> {
        loop {
            match &mut self.stage {
                Stage::Waiting { frame, room } => {
                    // Nobody closes it.
                    let room = ready!(room.as_mut().poll(cx)).map_err(|_| too_slow())?;
                    let frame = frame.take();
                    self.stage = Stage::Coming { due: Box::pin(sleep(DELIVERY_MAX)), _room: room };
                    return Poll::Ready(frame.map(Ok));
                }
                Stage::Coming { due, .. } => {
                    let late = due.as_mut().poll(cx).is_ready();
                    let polled = Pin::new(&mut self.body).poll_frame(cx);
                    return if polled.is_pending() && late { Poll::Ready(Some(Err(too_slow()))) } else { polled };
                }
                Stage::Unwanted => return Pin::new(&mut self.body).poll_frame(cx),
                Stage::Prefix(_) => match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        if let Some(frame) = self.note(frame) {
                            return Poll::Ready(Some(Ok(frame)));
                        }
                    }
                    end => return Poll::Ready(end),
                },
            }
        }
    }
}

/// What is said to whom sends too slowly.
fn too_slow() -> Status {
    let what = format!("the request did not come within {DELIVERY_MAX:?}");
    Fault::new(Party::Client, FaultKind::Late, what).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::{FutureExt, poll};
    use tokio::sync::mpsc;
    use tokio::time::Instant;
    use tonic::Code;

    use super::*;

    /// What a client sends, frame by frame.
    struct Sent(mpsc::UnboundedReceiver<Vec<u8>>);

    impl HttpBody for Sent {
        type Data = Data;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Data>, Status>>> {
            self.0.poll_recv(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes.into()))))
        }
    }

    struct Sender {
        frames: mpsc::UnboundedSender<Vec<u8>>,
        body: Body,
    }

    impl Sender {
        fn new(intake: &Intake) -> Self {
            let (frames, sent) = mpsc::unbounded_channel();
            Self { frames, body: intake.meter(Body::new(Sent(sent)), 100) }
        }

        /// The beginning of a message, which says that it is so long, in frames of so many bytes.
        fn begin(&self, length: u32, frame: usize) {
            let bytes: Vec<u8> = [0].into_iter().chain(length.to_be_bytes()).chain([7]).collect();
            bytes.chunks(frame).for_each(|frame| self.frames.send(frame.to_vec()).unwrap());
        }

        async fn next(&mut self) -> Option<Result<usize, Status>> {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            frame.map(|frame| frame.map(|frame| frame.into_data().unwrap().len()))
        }
    }

    fn intake(bytes: usize) -> Intake {
        Intake(Arc::new(Semaphore::new(bytes)))
    }

    #[tokio::test]
    async fn what_has_no_room_waits_in_its_order_until_there_is_some() {
        let intake = intake(100);
        let [mut first, mut second, mut third] = [(); 3].map(|()| Sender::new(&intake));
        first.begin(60, 6);
        second.begin(60, 6);
        third.begin(40, 6);
        assert_eq!(first.next().await.unwrap().unwrap(), 6);
        assert!(second.next().now_or_never().is_none());
        assert!(third.next().now_or_never().is_none(), "it would fit, but it came later");
        drop(first);
        assert_eq!(second.next().await.unwrap().unwrap(), 6);
        assert_eq!(third.next().await.unwrap().unwrap(), 6);
        drop((second, third));
        assert_eq!(intake.0.available_permits(), 100);
    }

    #[tokio::test]
    async fn who_goes_away_while_it_waits_keeps_nobody_waiting() {
        let intake = intake(100);
        let [mut first, mut second, mut third] = [(); 3].map(|()| Sender::new(&intake));
        first.begin(60, 6);
        second.begin(60, 6);
        third.begin(40, 6);
        first.next().await.unwrap().unwrap();
        let mut waiting = Box::pin(second.next());
        assert!(poll!(&mut waiting).is_pending());
        drop(waiting);
        let mut waiting = Box::pin(third.next());
        assert!(poll!(&mut waiting).is_pending());
        drop(second);
        assert_eq!(waiting.await.unwrap().unwrap(), 6);
    }

    #[tokio::test]
    async fn a_length_may_come_byte_by_byte_and_what_is_too_long_needs_no_room() {
        let intake = intake(100);
        let [mut slow, mut long] = [(); 2].map(|()| Sender::new(&intake));
        slow.begin(90, 1);
        long.begin(101, 6);
        for _ in 0..6 {
            assert_eq!(slow.next().await.unwrap().unwrap(), 1);
        }
        assert_eq!(intake.0.available_permits(), 10);
        assert_eq!(long.next().await.unwrap().unwrap(), 6);
        drop(slow.frames);
        assert!(std::future::poll_fn(|cx| Pin::new(&mut slow.body).poll_frame(cx)).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_too_slowly_is_cut_off() {
        let intake = intake(100);
        let mut slow = Sender::new(&intake);
        slow.begin(90, 6);
        slow.next().await.unwrap().unwrap();
        let frames = slow.frames.clone();
        let sending = async move {
            loop {
                tokio::time::advance(Duration::from_secs(1)).await;
                drop(frames.send(vec![0]));
                tokio::task::yield_now().await;
            }
        };
        let receiving = async {
            loop {
                if let Err(status) = slow.next().await.unwrap() {
                    return status;
                }
            }
        };
        let begun = Instant::now();
        let status = tokio::select! {
            () = sending => panic!("it goes on for ever"),
            status = receiving => status,
        };
        assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "the request did not come within 10s"));
        assert!(begun.elapsed() <= DELIVERY_MAX + Duration::from_secs(1));
    }
}

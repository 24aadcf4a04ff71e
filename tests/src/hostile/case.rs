//! One case: what is sent, and what must become of it.

use std::fmt;
use std::time::Duration;

use espalier_proto::MESSAGE_BYTES_MAX;

use super::body::{HEADER_BYTES, Readable, frame, frame_as};
use super::call::{Call, End};
use super::http;
use super::rpc::Rpc;
use super::usual::{self, Surroundings};
use super::values::{self, Must, Spoiled};
use espalier_fuzz::Dice;
use espalier_fuzz::spoil;

/// What is wrong with a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A message of random bytes.
    Random,
    /// A good message, some bytes of which were changed.
    Spoiled,
    /// A message that is well made and says what must not be.
    Values,
    /// Frames that say something wrong of what is in them.
    Frames,
    /// Headers, a method or a path that are wrong.
    Http,
    /// A stream that begins well, and its second message is one of those above.
    Second,
    /// A call that ends before all of it was sent, or is taken back.
    Early,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Random, Self::Spoiled, Self::Values, Self::Frames, Self::Http, Self::Second, Self::Early];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Spoiled => "spoiled",
            Self::Values => "values",
            Self::Frames => "frames",
            Self::Http => "http",
            Self::Second => "second",
            Self::Early => "early",
        }
    }

    /// The kind of an RPC's case of this number.
    fn of(rpc: Rpc, number: usize) -> Self {
        match Self::ALL[number % Self::ALL.len()] {
            Self::Second if !rpc.is_stream() => Self::Values,
            kind => kind,
        }
    }
}

/// A call that no client of ours makes.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is called.
    pub rpc: Rpc,
    /// Its number among those of the RPC.
    pub number: usize,
    /// What is wrong with it.
    pub kind: Kind,
    pub(super) call: Call,
    pub(super) must: Must,
    pub(super) readable: Readable,
}

impl Case {
    /// The case of an RPC, its index among all, and a number; a seed decides on all that is random.
    pub fn new(seed: u64, index: usize, number: usize, around: &Surroundings) -> Self {
        let (rpc, mut dice) = (Rpc::all()[index], Dice::of(seed, index, number));
        let kind = Kind::of(rpc, number);
        let maker = Maker { rpc, around };
        let made = maker.make(kind, &mut dice);
        let readable = Readable::of(rpc, &made.message.body());
        Self { rpc, number, kind, call: made.message, must: made.must, readable }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.rpc, self.number, self.kind.name())
    }
}

/// Makes calls of one RPC.
struct Maker<'a> {
    rpc: Rpc,
    around: &'a Surroundings,
}

impl Maker<'_> {
    fn make(&self, kind: Kind, dice: &mut Dice) -> Spoiled<Call> {
        let any = |call| Spoiled { message: call, must: Must::Any };
        match kind {
            Kind::Random => any(self.call(vec![frame(&random(dice))])),
            Kind::Spoiled => any(self.call(vec![frame(&self.spoiled(&self.good(dice)[0], dice))])),
            Kind::Values => {
                let Spoiled { message, must } = values::first(self.rpc, self.around, dice);
                Spoiled { message: self.call(vec![frame(&message)]), must }
            }
            Kind::Frames => any(self.call(frames(&self.good(dice)[0], dice))),
            Kind::Http => {
                let mut call = self.whole(dice);
                http::spoil(&mut call, dice);
                any(call)
            }
            Kind::Second => self.second(dice),
            Kind::Early => any(self.early(dice)),
        }
    }

    fn call(&self, pieces: Vec<Vec<u8>>) -> Call {
        Call::new(self.rpc.path, pieces)
    }

    fn good(&self, dice: &mut Dice) -> Vec<Vec<u8>> {
        usual::messages(self.rpc, self.around, dice)
    }

    fn whole(&self, dice: &mut Dice) -> Call {
        self.call(self.good(dice).iter().map(|message| frame(message)).collect())
    }

    /// A message, some bytes of which were changed: it does not disturb those who have nothing to do with it.
    fn spoiled(&self, good: &[u8], dice: &mut Dice) -> Vec<u8> {
        let mut tries = (0..8).map(|_| spoil(good, dice));
        tries.find(|spoiled| !self.around.is_left_by(self.rpc, spoiled)).unwrap_or_default()
    }

    /// A good beginning, and then something else.
    fn second(&self, dice: &mut Dice) -> Spoiled<Call> {
        let good = self.good(dice);
        let opening = frame(&good[0]);
        let then = good.get(1).unwrap_or(&good[0]);
        let Spoiled { message, must } = match dice.below(4) {
            0 => Spoiled { message: vec![frame(&random(dice))], must: Must::Any },
            1 => Spoiled { message: vec![frame(&self.spoiled(then, dice))], must: Must::Any },
            2 => Spoiled { message: frames(then, dice), must: Must::Any },
            _ => {
                let second = values::second(self.rpc, self.around, dice);
                Spoiled { message: vec![frame(&second.message)], must: second.must }
            }
        };
        Spoiled { message: self.call([vec![opening], message].concat()), must }
    }

    /// A good call, cut short.
    fn early(&self, dice: &mut Dice) -> Call {
        let mut call = self.whole(dice);
        match dice.below(4) {
            0 => call.pieces.clear(),
            1 => cut(&mut call.pieces, dice),
            2 => {
                cut(&mut call.pieces, dice);
                call.end = End::Reset(Duration::ZERO);
            }
            _ => call.end = End::Reset(Duration::from_micros(dice.below(5000) as u64)),
        }
        call
    }
}

/// Random bytes: mostly few, now and then many.
fn random(dice: &mut Dice) -> Vec<u8> {
    let count = match dice.below(100) {
        0 => 1 << 16,
        1..20 => dice.below(4096),
        _ => dice.below(64),
    };
    dice.bytes(count)
}

/// Takes away some of the last bytes.
fn cut(pieces: &mut Vec<Vec<u8>>, dice: &mut Dice) {
    let kept = dice.below(pieces.len());
    pieces.truncate(kept + 1);
    if let Some(last) = pieces.last_mut() {
        last.truncate(dice.below(last.len()));
    }
}

/// A message in frames that are none.
fn frames(message: &[u8], dice: &mut Dice) -> Vec<Vec<u8>> {
    let length = message.len() as u32;
    let body = match dice.below(9) {
        0 => frame_as(0, length + 1 + dice.below(1000) as u32, message),
        1 => frame_as(0, dice.below(message.len()) as u32, message),
        2 => frame_as(1, length, message),
        3 => frame_as(2 + dice.below(254) as u8, length, message),
        4 => frame_as(0, MESSAGE_BYTES_MAX as u32 + 1 + dice.below(1 << 31) as u32, message),
        5 => frame_as(0, u32::MAX, message),
        6 => frame(message)[..1 + dice.below(HEADER_BYTES - 1)].to_vec(),
        7 => [frame(message), frame(message)].concat(),
        _ => [frame(message), dice.bytes(3)].concat(),
    };
    // In pieces of any size, which no frame ends with.
    let piece = 1 + body.len() / 16 + dice.below(body.len());
    body.chunks(piece).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        Surroundings { target: "small".to_owned(), verifier: url(50052), nowhere: url(1) }
    }

    #[test]
    fn a_seed_and_a_number_decide_a_case() {
        let around = surroundings();
        for index in 0..Rpc::all().len() {
            // Entries of a map are sent in any order.
            let sorted = |mut call: Call| {
                call.pieces.iter_mut().for_each(|piece| piece.sort_unstable());
                call
            };
            let calls =
                |seed: u64| (0..70).map(move |number| sorted(Case::new(seed, index, number, &surroundings()).call));
            assert!(calls(1).eq(calls(1)));
            assert!(calls(1).ne(calls(2)));
            let kinds: std::collections::BTreeSet<Kind> =
                (0..7).map(|number| Case::new(1, index, number, &around).kind).collect();
            assert_eq!(kinds.len(), if Rpc::all()[index].is_stream() { 7 } else { 6 });
        }
    }

    #[test]
    fn what_is_good_can_be_read_and_what_is_cut_short_cannot() {
        for rpc in Rpc::all() {
            let (around, mut dice) = (surroundings(), Dice::of(1, 0, 0));
            let maker = Maker { rpc, around: &around };
            let body = maker.whole(&mut dice).body();
            assert_eq!(Readable::of(rpc, &body), Readable { first: true, all: true, too_long: false });
            let cut = [&body[..], &[0, 0, 0]].concat();
            assert_eq!(Readable::of(rpc, &cut), Readable { first: true, all: false, too_long: false });
            let long = frame_as(0, u32::MAX, &[]);
            assert_eq!(Readable::of(rpc, &long), Readable { first: false, all: false, too_long: true });
        }
    }

    #[test]
    fn no_case_has_a_drafter_connect_to_who_has_not_asked_for_it() {
        let (around, rpcs) = (surroundings(), Rpc::all());
        let index = rpcs.iter().position(|rpc| rpc.to_string() == "drafter Speculate").unwrap_or_default();
        for number in 0..7000 {
            let Case { rpc, call, .. } = Case::new(1, index, number, &around);
            let body = call.body();
            let message = body.get(HEADER_BYTES..).unwrap_or_default();
            assert!(!around.is_left_by(rpc, message), "case {number}");
        }
    }
}

//! What may be answered to what.

use tonic::Code;

use super::case::{Case, Kind};
use super::line::Ended;
use super::rpc::Asks;
use super::values::Must;

/// Bytes of a head that services take; HTTP/2 lets them give up the connection of who sends more.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What is wrong with an answer, if anything is.
pub fn wrong(case: &Case, ended: &Ended) -> Option<String> {
    let allowed = match ended {
        Ended::Status { code, own, .. } => allows(case, *code, *own),
        Ended::Answered => allows(case, Code::Ok, true),
        // gRPC is a part of HTTP: what is none of it is refused as HTTP says.
        Ended::Http(status) => case.kind == Kind::Http && (400..500).contains(status),
        Ended::Left => case.kind == Kind::Early,
        // A head that is too large, or a body that nobody wants.
        Ended::Reset(_) => matches!(case.kind, Kind::Http),
        Ended::Lost(_) => case.call.head_bytes() > HEAD_BYTES_MAX,
        Ended::Silent => false,
    };
    (!allowed).then(|| format!("{case}: {ended:?}"))
}

fn allows(case: &Case, code: Code, own: bool) -> bool {
    let Case { rpc, kind, must, readable, .. } = case;
    match code {
        // What cannot be read is not answered; a call of one message needs no more than that one.
        // Reflection ends a stream that it cannot read as if it were over; that is tonic's, and nothing depends on it.
        Code::Ok if rpc.asks == Asks::Reflection => true,
        Code::Ok => *must == Must::Any && if rpc.is_stream() { readable.all } else { readable.first },
        Code::InvalidArgument => true,
        // gRPC's own code for bytes that are no message, or for none. A service of ours does not say it.
        Code::Internal => !(own || readable.first && readable.all),
        Code::OutOfRange => !own && readable.too_long,
        Code::Unimplemented => !own && (*kind == Kind::Http || rpc.asks == Asks::Reflection),
        Code::NotFound => matches!(rpc.asks, Asks::Check | Asks::Watch | Asks::Reflection),
        Code::ResourceExhausted => own && rpc.takes_places(),
        // A sequence of the same name was opened meanwhile.
        Code::FailedPrecondition => own && matches!(rpc.asks, Asks::Verify | Asks::Speculate),
        // It is sent where nobody listens.
        Code::Unavailable => own && rpc.asks == Asks::Speculate && *must == Must::Any && readable.first,
        Code::DeadlineExceeded => *kind == Kind::Http,
        _ => false,
    }
}

//! Calls whose headers, method or path are wrong.

use super::call::{Call, Header};
use espalier_fuzz::Dice;

/// Spoils the head of a call.
pub(super) fn spoil(call: &mut Call, dice: &mut Dice) {
    let way = *dice.pick(&WAYS);
    way(call, dice);
}

type Way = fn(&mut Call, &mut Dice);

const WAYS: [Way; 18] = [
    |call, dice| call.method = *dice.pick(&["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "BREW"]),
    |call, dice| {
        let types: [&str; 5] = ["text/html", "application/json", "application/grpc-web", "application/grpc+json", ""];
        call.set("content-type", dice.pick(&types).as_bytes().to_vec());
    },
    |call, _| call.headers.clear(),
    |call, dice| call.set("content-type", high_bytes(dice, 30)),
    |call, _| call.path.push('s'),
    |call, _| call.path = "/".to_owned(),
    |call, _| call.path = call.path.to_uppercase(),
    |call, _| call.path = format!("/{}", call.path),
    |call, _| call.path.push_str("?generate=all"),
    |call, _| call.path = "/espalier.v1.Nobody/Nothing".to_owned(),
    |call, _| call.path = "/%00%ff/../../etc/passwd".to_owned(),
    |call, dice| call.path = "/a".repeat(1 + dice.below(3000)),
    |call, dice| {
        let encodings: [&str; 5] = ["gzip", "zstd", "br", "identity", "no-such"];
        call.set("grpc-encoding", dice.pick(&encodings).as_bytes().to_vec());
    },
    |call, dice| {
        let timeouts: [&str; 7] = ["", "1", "-1S", "123456789S", "1s", "99999999H", "\u{e9}S"];
        call.set("grpc-timeout", dice.pick(&timeouts).as_bytes().to_vec());
    },
    |call, dice| call.set("grpc-timeout", dice.pick(&["0S", "1n", "1u", "1m"]).as_bytes().to_vec()),
    |call, dice| {
        let (name, count) = (*dice.pick(&NAMES), dice.below(400));
        call.headers.push(Header { name, value: high_bytes(dice, count) });
    },
    |call, dice| call.set("x-padding", vec![b'x'; 1 << (10 + dice.below(5))]),
    |call, dice| {
        let count = 1 + dice.below(200);
        call.headers.extend((0..count).map(|_| Header { name: "x-more", value: b"1".to_vec() }));
    },
];

/// What services read of headers.
const NAMES: [&str; 5] =
    ["x-espalier-client", "x-espalier-session", "traceparent", "tracestate", "grpc-accept-encoding"];

/// Bytes that a header may have and no text has.
fn high_bytes(dice: &mut Dice, count: usize) -> Vec<u8> {
    (0..count).map(|_| 0x80 | dice.byte()).collect()
}

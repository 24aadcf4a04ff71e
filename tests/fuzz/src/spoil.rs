//! Messages whose bytes are changed.

use crate::dice::Dice;

/// The most bytes by which a message grows at once.
const GROWTH_MAX: usize = 4096;

/// Changes some bytes of a message, in 1 to 4 ways.
pub fn spoil(message: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut spoiled = message.to_vec();
    for _ in 0..1 + dice.below(4) {
        let how = *dice.pick(&WAYS);
        how(&mut spoiled, dice);
    }
    spoiled
}

type Way = fn(&mut Vec<u8>, &mut Dice);

const WAYS: [Way; 12] = [
    |bytes, dice| flip(bytes, dice),
    |bytes, dice| set(bytes, dice),
    cut,
    insert,
    remove,
    swell_varint,
    claim_much,
    repeat_field,
    repeat_all,
    overlong_varint,
    nest_groups,
    add_unknown,
];

fn flip(bytes: &mut [u8], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << dice.below(8);
    }
}

fn set(bytes: &mut [u8], dice: &mut Dice) {
    let (at, value) = (dice.below(bytes.len()), *dice.pick(&[0, 1, 0x7f, 0x80, 0xfe, 0xff]));
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

fn cut(bytes: &mut Vec<u8>, dice: &mut Dice) {
    bytes.truncate(dice.below(bytes.len()));
}

fn insert(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let (at, count) = (dice.below(bytes.len() + 1), 1 + dice.below(8));
    let new = dice.bytes(count);
    bytes.splice(at..at, new);
}

fn remove(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    let end = (at + 1 + dice.below(4)).min(bytes.len());
    bytes.drain(at..end);
}

/// One of the last bytes of varints gets a successor: a number or a length becomes a large one.
fn swell_varint(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte |= 0x80;
        let more = 1 + dice.below(0x7f) as u8;
        bytes.insert(at + 1, more);
    }
}

/// A field that says to hold 2³¹ bytes or more, and has none.
fn claim_much(bytes: &mut Vec<u8>, dice: &mut Dice) {
    put_key(bytes, field_number(dice), LENGTH_DELIMITED);
    let length = *dice.pick(&[1 << 20, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX]);
    put_varint(bytes, length);
}

/// A field that comes again and again.
fn repeat_field(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let field = fields(bytes).get(dice.below(16)).cloned();
    if let Some(field) = field.map(|range| bytes[range].to_vec()).filter(|field| !field.is_empty()) {
        let times = 1 + dice.below(GROWTH_MAX / field.len() + 1);
        bytes.extend(field.repeat(times));
    }
}

fn repeat_all(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let times = 1 + dice.below(3);
    *bytes = bytes.repeat(times);
}

/// A number of more bytes than a number may have.
fn overlong_varint(bytes: &mut Vec<u8>, dice: &mut Dice) {
    put_key(bytes, field_number(dice), VARINT);
    bytes.extend(vec![0x80 | dice.byte(); 9 + dice.below(4)]);
    bytes.push(1);
}

/// Groups in groups, deeper than anybody follows.
fn nest_groups(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.below(GROWTH_MAX) {
        put_key(bytes, 15, GROUP);
    }
}

fn add_unknown(bytes: &mut Vec<u8>, dice: &mut Dice) {
    put_key(bytes, 1000 + dice.below(1 << 20) as u64, LENGTH_DELIMITED);
    let count = dice.below(GROWTH_MAX);
    put_varint(bytes, count as u64);
    bytes.extend(dice.bytes(count));
}

const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;
const GROUP: u64 = 3;

fn field_number(dice: &mut Dice) -> u64 {
    1 + dice.below(15) as u64
}

fn put_key(bytes: &mut Vec<u8>, field: u64, wire: u64) {
    put_varint(bytes, (field << 3) | wire);
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Where the fields of a message are, as far as it can be read.
fn fields(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(end) = end_of_field(bytes, at) {
        found.push(at..end);
        at = end;
    }
    found
}

fn end_of_field(bytes: &[u8], at: usize) -> Option<usize> {
    let key = varint(bytes, at)?;
    let end = match key.value & 7 {
        0 => varint(bytes, key.end)?.end,
        1 => key.end + 8,
        2 => {
            let length = varint(bytes, key.end)?;
            length.end.checked_add(usize::try_from(length.value).ok()?)?
        }
        5 => key.end + 4,
        _ => return None,
    };
    (end <= bytes.len()).then_some(end)
}

struct Varint {
    value: u64,
    end: usize,
}

fn varint(bytes: &[u8], at: usize) -> Option<Varint> {
    let mut value = 0;
    for (index, byte) in bytes.get(at..)?.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(Varint { value, end: at + index + 1 });
        }
    }
    None
}

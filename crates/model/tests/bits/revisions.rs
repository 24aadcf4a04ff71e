//! What each revision of an arithmetic computes. Where this fails other bits are computed: if that is meant, the revision has
//! to grow, so that no text that an older version began goes on in them.

use espalier_model::{Arithmetic, LoadOptions, Row, Workspace};

use crate::rows::{load_with, run, text};

/// Of each arithmetic its revision, and what the bits of its logits come to with the weights of `small`.
const KNOWN: [(Arithmetic, u32, u64); 5] = [
    (Arithmetic::F32, 1, 0x99d2_e5c8_5c46_a3b0),
    (Arithmetic::Bf16, 1, 0x4070_a7dc_d087_1987),
    (Arithmetic::Bf16Dot, 1, 0x4167_d704_c510_c602),
    (Arithmetic::Int8, 1, 0x32e8_959a_3821_16fd),
    (Arithmetic::Int8Q4, 2, 0xbabd_2488_7d45_545f),
];

/// FNV-1a over words of 32 bits.
fn digest(bits: impl Iterator<Item = u32>) -> u64 {
    bits.fold(0xcbf2_9ce4_8422_2325, |digest, word| (digest ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn bits_are_those_of_the_revision() {
    let found = Arithmetic::ALL.map(|arithmetic| {
        let decoder = load_with("../../models/small", LoadOptions { arithmetic, ..LoadOptions::default() });
        let rows = Row::chain(&text(40, 1), 0);
        let logits = run(&decoder, &mut Workspace::new(2), &mut decoder.new_cache(), &rows);
        (arithmetic, arithmetic.revision(), digest(logits.into_iter().flatten()))
    });
    assert_eq!(found, KNOWN);
}

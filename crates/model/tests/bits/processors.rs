//! What only kernels on the processor have: arithmetics, formats of weights, threads and instruction sets.

use espalier_model::{Arithmetic, LoadOptions, Row, WeightFormat, Workspace};

use crate::rows::{any_number_of_rows_gives_the_bits_of_one, load_with, run, text};
use crate::workspaces;

const SMALL: &str = "../../models/small";

#[test]
fn so_it_does_in_every_arithmetic() {
    for arithmetic in Arithmetic::ALL {
        for (path, layers) in [("../../models/small", Some(2)), ("tests/golden/qwen3", None)] {
            let decoder = load_with(path, LoadOptions { arithmetic, layers, ..LoadOptions::default() });
            any_number_of_rows_gives_the_bits_of_one(&decoder, &text(20, 1), &[3, 20]);
        }
    }
}

#[test]
fn threads_do_not_change_bits() {
    let decoder = load_with(SMALL, LoadOptions::default());
    for set in Workspace::instruction_sets() {
        let of = |threads| {
            let mut work = Workspace::with_instruction_set(threads, set).unwrap();
            run(&decoder, &mut work, &mut decoder.new_cache(), &Row::chain(&text(30, 2), 0))
        };
        assert!(of(1) == of(2) && of(1) == of(4), "{set}");
    }
}

#[test]
fn a_wider_format_does_not_change_bits() {
    let (stored, wide) = (
        load_with(SMALL, LoadOptions::default()),
        load_with(SMALL, LoadOptions { format: WeightFormat::F32, ..LoadOptions::default() }),
    );
    assert!(stored.weight_bytes() < wide.weight_bytes());
    for mut work in workspaces() {
        let rows = Row::chain(&text(20, 3), 0);
        let bits = run(&stored, &mut work, &mut stored.new_cache(), &rows);
        assert!(bits == run(&wide, &mut work, &mut wide.new_cache(), &rows), "{}", work.instruction_set());
    }
}

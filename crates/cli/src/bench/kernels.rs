//! `espalier bench kernels`: one forward pass over several tokens, next to what the machine allows at best.

mod together;

use std::time::Instant;

use espalier_model::{
    Checkpoint, Decoder, Depth, KvCache, LoadOptions, Logits, ModelError, Row, Segment, WeightFormat, Workspace,
};
use serde::Serialize;

use self::together::Together;
use super::statistics::median;
use crate::Verdict;
use crate::args::{Kernels, SystemArgs};
use crate::error::CliError;
use crate::{models, report, system};

/// Tokens verified at once.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Tokens before them.
const CONTEXT: usize = 256;

/// Passes over each number of rows, taken in turns; medians count.
const PASSES: usize = 41;

/// Bytes read to find the bandwidth of memory: beyond any cache.
const MEMORY_BYTES: usize = 512 << 20;

/// What the machine can do.
#[derive(Serialize)]
struct Machine {
    instruction_set: &'static str,
    threads: usize,
    /// Bytes per second of streaming reads from memory.
    memory_bandwidth: f64,
    /// Floating-point operations per second in registers.
    peak_flops: f64,
}

/// One model in one format of its weights.
#[derive(Serialize)]
struct Measured {
    target: String,
    weights: &'static str,
    weight_bytes: usize,
    /// Bytes per second of streaming reads of as many bytes: partly from the caches where they are large.
    bandwidth: f64,
    passes: Vec<Pass>,
    /// Several sequences in one pass.
    together: Vec<Together>,
}

/// Passes over one number of rows.
#[derive(Serialize)]
struct Pass {
    rows: usize,
    /// Median time.
    ms: f64,
    /// Relative to one row.
    to_one_row: f64,
    /// Reading weights and cache once, or doing the arithmetic at peak: the longer of the two.
    floor_ms: f64,
    /// What sets the floor.
    bound: &'static str,
    /// Relative to the floor.
    to_floor: f64,
}

pub(crate) fn run(system: &SystemArgs, args: &Kernels) -> Result<Verdict, CliError> {
    let mut work = Workspace::new(system::threads(system));
    let machine = Machine {
        instruction_set: work.instruction_set(),
        threads: work.threads(),
        memory_bandwidth: work.read_bandwidth(MEMORY_BYTES),
        peak_flops: work.peak_flops(),
    };
    print_machine(&machine, args.json);
    for target in &args.targets {
        let checkpoint = Checkpoint::open(models::checkpoint(target, system)?)?;
        for format in [WeightFormat::Stored, WeightFormat::F32] {
            let decoder = Decoder::load(&checkpoint, &LoadOptions { layers: None, format })?;
            let measured = measure(target, format, &decoder, &mut work, &machine)?;
            print(&measured, args.json);
        }
    }
    Ok(Verdict::Good)
}

fn measure(
    target: &str,
    format: WeightFormat,
    decoder: &Decoder,
    work: &mut Workspace,
    machine: &Machine,
) -> Result<Measured, ModelError> {
    let weight_bytes = decoder.weight_bytes();
    let bandwidth = work.read_bandwidth(weight_bytes);
    let mut cache = cache(decoder, work)?;
    let mut times = [const { Vec::new() }; ROWS.len()];
    for _ in 0..PASSES {
        for (times, rows) in times.iter_mut().zip(ROWS) {
            let begun = Instant::now();
            pass(decoder, work, &mut cache, &tree(decoder, rows))?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            cache.keep_path(&[])?;
        }
    }
    let medians = times.map(|times| median(times).unwrap_or(f64::NAN));
    let floor = |rows: usize| {
        let reading = (weight_bytes + decoder.cache_bytes(CONTEXT)) as f64 / bandwidth * 1e3;
        let computing = (rows * decoder.flops(CONTEXT)) as f64 / machine.peak_flops * 1e3;
        if reading > computing { (reading, "memory") } else { (computing, "arithmetic") }
    };
    let passes = ROWS.iter().zip(medians).map(|(&rows, ms)| {
        let (floor_ms, bound) = floor(rows);
        Pass { rows, ms, to_one_row: ms / medians[0], floor_ms, bound, to_floor: ms / floor_ms }
    });
    let weights = if format == WeightFormat::F32 { "f32" } else { "as stored" };
    let (passes, together) = (passes.collect(), together::measure(decoder, work)?);
    Ok(Measured { target: target.to_owned(), weights, weight_bytes, bandwidth, passes, together })
}

/// A cache that holds the context.
fn cache(decoder: &Decoder, work: &mut Workspace) -> Result<KvCache, ModelError> {
    let mut cache = decoder.new_cache();
    pass(decoder, work, &mut cache, &Row::chain(&[7; CONTEXT], 0))?;
    cache.keep_path(&(0..CONTEXT).collect::<Vec<_>>())?;
    Ok(cache)
}

/// So many rows of a tree in which every node has two children.
fn tree(decoder: &Decoder, rows: usize) -> Vec<Row> {
    let vocab = decoder.config().vocab;
    let row = |i: usize| Row { token: (17 * i % vocab) as u32, parent: i.checked_sub(1).map(|i| i / 2) };
    (0..rows).map(row).collect()
}

fn pass(decoder: &Decoder, work: &mut Workspace, cache: &mut KvCache, rows: &[Row]) -> Result<(), ModelError> {
    let mut segments = [Segment { cache, rows, logits: Logits::All }];
    decoder.forward(work, &mut segments, Depth::default()).map(drop)
}

fn print_machine(machine: &Machine, json: bool) {
    if json {
        return report::json(machine);
    }
    anstream::println!(
        "{} threads with {}: {:.1} GB/s of streaming reads from memory, {:.0} GFLOP/s of f32 multiply-adds",
        machine.threads,
        machine.instruction_set,
        machine.memory_bandwidth / 1e9,
        machine.peak_flops / 1e9,
    );
}

fn print(measured: &Measured, json: bool) {
    if json {
        return report::json(measured);
    }
    anstream::println!(
        "\n{}, weights {}: {:.1} MB, of which {:.1} GB/s can be read over and over; context {CONTEXT}",
        measured.target,
        measured.weights,
        measured.weight_bytes as f64 / 1e6,
        measured.bandwidth / 1e9,
    );
    let rows = measured.passes.iter().map(|pass| {
        let floor = format!("{:.3} ({})", pass.floor_ms, pass.bound);
        let ratios = [format!("{:.2}", pass.to_one_row), floor, format!("{:.2}", pass.to_floor)];
        [vec![pass.rows.to_string(), format!("{:.3}", pass.ms)], ratios.to_vec()].concat()
    });
    let header = ["tokens", "time (ms)", "to one token", "floor (ms)", "to the floor"];
    anstream::println!("{}", report::table(&header, rows));
    let together = measured.together.iter().map(|pass| {
        let [ms, alone] = [pass.ms, pass.alone_ms].map(|ms| format!("{ms:.3}"));
        vec![pass.rows.to_string(), ms, alone, format!("{:.2}", pass.to_alone)]
    });
    let header = ["tokens of each", "together (ms)", "one by one (ms)", "to one by one"];
    anstream::println!("{} sequences in one pass:\n{}", together::SEQUENCES, report::table(&header, together));
}

//! `espalier bench kernels`: one forward pass over several tokens, next to what the machine allows at best.

mod pass;
mod together;

use std::time::Instant;

use espalier_command::{Verdict, report};
use espalier_local::{DEFAULT_TARGETS, SystemArgs, checkpoint};
use espalier_model::{Arithmetic, Checkpoint, Decoder, LoadOptions, ModelError, WeightFormat, Workspace};
use serde::Serialize;

use self::pass::{CONTEXT, PASSES, cache, pass, tree};
use self::together::Together;
use crate::error::BenchError;
use crate::statistics::median;

/// Tokens verified at once.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Bytes read to find the bandwidth of memory: beyond any cache.
const MEMORY_BYTES: usize = 512 << 20;

/// The options of `espalier bench kernels`.
#[derive(Debug, clap::Args)]
pub struct Kernels {
    /// Models to measure.
    #[arg(long, value_delimiter = ',', default_values = DEFAULT_TARGETS, value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

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
    weights: String,
    weight_bytes: usize,
    /// Bytes per second of streaming reads of as many bytes: partly from the caches where they are large.
    bandwidth: f64,
    passes: Vec<PassTime>,
    /// Several sequences in one pass.
    together: Vec<Together>,
}

/// Passes over one number of rows.
#[derive(Serialize)]
struct PassTime {
    rows: usize,
    /// Median time.
    ms: f64,
    /// Relative to one row.
    to_one_row: f64,
    /// Reading weights and cache once, or doing f32 arithmetic at peak: the longer of the two. How fast bytes could be
    /// multiplied is not measured: in `int8` it is the time of reading.
    floor_ms: f64,
    /// What sets the floor.
    bound: &'static str,
    /// Relative to the floor.
    to_floor: f64,
}

pub(crate) fn run(system: &SystemArgs, args: &Kernels) -> Result<Verdict, BenchError> {
    let mut work = Workspace::new(system.threads());
    let machine = Machine::of(&mut work);
    print_machine(&machine, args.json);
    for target in &args.targets {
        let checkpoint = Checkpoint::open(checkpoint(target, system)?)?;
        for (weights, options) in ways() {
            let decoder = Decoder::load(&checkpoint, &options)?;
            let measured = Measured { target: target.clone(), weights, ..measure(&decoder, &mut work, &machine)? };
            print(&measured, args.json);
        }
    }
    Ok(Verdict::Good)
}

/// How weights are held and multiplied, and what that is called.
fn ways() -> Vec<(String, LoadOptions)> {
    let stored = LoadOptions::default();
    let in_f32 = [
        ("as stored, in f32 arithmetic".to_owned(), stored),
        ("in f32, in f32 arithmetic".to_owned(), LoadOptions { format: WeightFormat::F32, ..stored }),
    ];
    let rounded = Arithmetic::ALL.into_iter().filter(|arithmetic| *arithmetic != Arithmetic::F32);
    let rounded =
        rounded.map(|arithmetic| (format!("in {arithmetic} arithmetic"), LoadOptions { arithmetic, ..stored }));
    in_f32.into_iter().chain(rounded).collect()
}

impl Machine {
    fn of(work: &mut Workspace) -> Self {
        Self {
            instruction_set: work.instruction_set(),
            threads: work.threads(),
            memory_bandwidth: work.read_bandwidth(MEMORY_BYTES),
            peak_flops: work.peak_flops(),
        }
    }
}

/// What the least time of a pass is reckoned from.
struct Floors {
    /// Reading weights and cache once.
    reading_ms: f64,
    /// Doing the arithmetic of one row at peak; 0 where that is not known.
    computing_ms: f64,
}

impl Floors {
    fn new(decoder: &Decoder, bandwidth: f64, peak_flops: f64) -> Self {
        let f32_ms = decoder.flops(CONTEXT) as f64 / peak_flops * 1e3;
        Self {
            reading_ms: (decoder.weight_bytes() + decoder.cache_bytes(CONTEXT)) as f64 / bandwidth * 1e3,
            computing_ms: if decoder.arithmetic() == Arithmetic::F32 { f32_ms } else { 0.0 },
        }
    }

    /// The figures of a pass over so many rows, of which one alone takes `one_row_ms`.
    fn pass(&self, rows: usize, ms: f64, one_row_ms: f64) -> PassTime {
        let computing_ms = rows as f64 * self.computing_ms;
        let (floor_ms, bound) =
            if self.reading_ms > computing_ms { (self.reading_ms, "memory") } else { (computing_ms, "arithmetic") };
        PassTime { rows, ms, to_one_row: ms / one_row_ms, floor_ms, bound, to_floor: ms / floor_ms }
    }
}

/// Measures one model; what it is called is left to the caller.
fn measure(decoder: &Decoder, work: &mut Workspace, machine: &Machine) -> Result<Measured, ModelError> {
    let weight_bytes = decoder.weight_bytes();
    let bandwidth = work.read_bandwidth(weight_bytes);
    let medians = medians_ms(decoder, work)?;
    let floors = Floors::new(decoder, bandwidth, machine.peak_flops);
    let passes = ROWS.iter().zip(medians).map(|(&rows, ms)| floors.pass(rows, ms, medians[0])).collect();
    let together = together::measure(decoder, work)?;
    Ok(Measured { target: String::new(), weights: String::new(), weight_bytes, bandwidth, passes, together })
}

/// The median time of a pass over each number of rows.
fn medians_ms(decoder: &Decoder, work: &mut Workspace) -> Result<[f64; ROWS.len()], ModelError> {
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
    Ok(times.map(|times| median(times).unwrap_or(f64::NAN)))
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
    anstream::println!("{}", passes_table(&measured.passes));
    anstream::println!("{} sequences in one pass:\n{}", together::SEQUENCES, together_table(&measured.together));
}

fn passes_table(passes: &[PassTime]) -> comfy_table::Table {
    let row = |pass: &PassTime| {
        vec![
            pass.rows.to_string(),
            format!("{:.3}", pass.ms),
            format!("{:.2}", pass.to_one_row),
            format!("{:.3} ({})", pass.floor_ms, pass.bound),
            format!("{:.2}", pass.to_floor),
        ]
    };
    report::table(&["tokens", "time (ms)", "to one token", "floor (ms)", "to the floor"], passes.iter().map(row))
}

fn together_table(passes: &[Together]) -> comfy_table::Table {
    let row = |pass: &Together| {
        let [ms, alone] = [pass.ms, pass.alone_ms].map(|ms| format!("{ms:.3}"));
        vec![pass.rows.to_string(), ms, alone, format!("{:.2}", pass.to_alone)]
    };
    report::table(&["tokens of each", "together (ms)", "one by one (ms)", "to one by one"], passes.iter().map(row))
}

//! `espalier bench kernels`: one forward pass over several tokens, next to what the machine allows at best.

mod pass;
mod reading;
mod shapes;
mod subject;
mod together;

use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use espalier_command::{Verdict, report};
use espalier_local::{DEFAULT_TARGETS, SystemArgs};
use espalier_model::{Arithmetic, Decoder, ModelError, Workspace};
use serde::Serialize;

use self::pass::{CONTEXT, Turns, cache, pass, settled, tree};
use self::reading::Reading;
use self::shapes::{Shape, Sizes};
use self::subject::{Subject, Way};
use self::together::Together;
use crate::error::BenchError;
use crate::statistics::median;

/// Tokens verified at once.
const ROWS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// How often a device does a pass's work anew, to tell its time from the host's.
const REPEATED: usize = 5;

/// Bytes read to find the bandwidth of memory: beyond any cache.
const MEMORY_BYTES: usize = 512 << 20;

/// The options of `espalier bench kernels`.
#[derive(Debug, clap::Args)]
pub struct Kernels {
    /// Models to measure.
    #[arg(long, value_delimiter = ',', default_values = DEFAULT_TARGETS, value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Measure models of these shapes, of random weights that are made in memory, instead.
    ///
    /// A pass costs what it does with trained weights. The names are those of Llama 3.2 (1 B and 3 B parameters), Llama 3.1
    /// (8 B), Llama 2 (13 B), Mistral (7 B) and Qwen 2.5; `1.1b` is `llama-1b` with a vocabulary of 32 000. A shape that
    /// does not fit into memory in every arithmetic is refused before anything is measured.
    #[arg(long, value_delimiter = ',', value_parser = shape_parser(), conflicts_with = "targets", value_name = "S[,S…]")]
    shape: Vec<Shape>,
    /// Multiply in these arithmetics: in turns, or one after the other where memory cannot hold all of them at once.
    #[arg(long, value_delimiter = ',', default_values_t = Arithmetic::ALL, value_name = "A[,A…]")]
    arithmetics: Vec<Arithmetic>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes the name of a shape; its help lists them.
fn shape_parser() -> impl TypedValueParser<Value = Shape> {
    PossibleValuesParser::new(Shape::names()).try_map(|name| name.parse::<Shape>())
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
    shape: Sizes,
    /// Whether weights are random.
    random: bool,
    weights: String,
    weight_bytes: usize,
    /// Bytes per second of streaming reads of as many bytes, up to [`MEMORY_BYTES`]: partly from the caches where they are
    /// large. On a device, of a copy.
    bandwidth: f64,
    passes: Vec<PassTime>,
    /// Several sequences in one pass.
    together: Vec<Together>,
    /// A prompt.
    reading: Reading,
}

/// Passes over one number of rows.
#[derive(Serialize)]
struct PassTime {
    rows: usize,
    /// How often it was measured.
    turns: usize,
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
    /// On a device, what the time is beyond that of its own work, in microseconds.
    host_us: Option<f64>,
}

pub(crate) fn run(system: &SystemArgs, args: &Kernels) -> Result<Verdict, BenchError> {
    let subjects = subjects(system, args)?;
    for subject in &subjects {
        subject.ways(system, &args.arithmetics)?.iter().try_for_each(|way| subject.check_memory(way))?;
    }
    let mut work = Workspace::new(system.threads());
    let machine = Machine::of(&mut work);
    print_machine(&machine, args.json);
    for subject in &subjects {
        let ways = subject.ways(system, &args.arithmetics)?;
        let at_once = if subject.fits_in_all(&ways)? { ways.len() } else { 1 };
        for ways in ways.chunks(at_once.max(1)) {
            let measured = measure(subject, ways, &mut work, &machine)?;
            measured.iter().for_each(|measured| print(measured, args.json));
        }
    }
    Ok(Verdict::Good)
}

/// What is to be measured: shapes, if any were named.
fn subjects(system: &SystemArgs, args: &Kernels) -> Result<Vec<Subject>, BenchError> {
    match args.shape[..] {
        [] => args.targets.iter().map(|target| Subject::target(target, system)).collect(),
        ref shapes => shapes.iter().map(|&shape| Subject::random(shape)).collect(),
    }
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
            computing_ms: if decoder.by_kernels() == Some(Arithmetic::F32) { f32_ms } else { 0.0 },
        }
    }

    /// The figures of passes over so many rows, of which one alone takes `one_row_ms`.
    fn pass(&self, rows: usize, times: &Times, one_row_ms: f64) -> PassTime {
        let ms = median_ms(&times.whole);
        let host_us = median(times.of_device.iter().copied()).map(|of_device| (ms - of_device) * 1e3);
        let computing_ms = rows as f64 * self.computing_ms;
        let (floor_ms, bound) =
            if self.reading_ms > computing_ms { (self.reading_ms, "memory") } else { (computing_ms, "arithmetic") };
        let (to_one_row, to_floor) = (ms / one_row_ms, ms / floor_ms);
        PassTime { rows, turns: times.whole.len(), ms, to_one_row, floor_ms, bound, to_floor, host_us }
    }
}

/// Measures a model in some ways, in turns: a machine's pace changes from minute to minute, and what one way is to another
/// is what one wants to know.
fn measure(
    subject: &Subject,
    ways: &[Way],
    work: &mut Workspace,
    machine: &Machine,
) -> Result<Vec<Measured>, BenchError> {
    let decoders = ways.iter().map(|way| subject.load(way)).collect::<Result<Vec<_>, _>>()?;
    let bandwidth = |decoder: &Decoder| decoder.bandwidth(work, decoder.weight_bytes().min(MEMORY_BYTES));
    let bandwidths = decoders.iter().map(bandwidth).collect::<Result<Vec<f64>, _>>()?;
    let times = times_ms(&decoders, work)?;
    let together = together::measure(&decoders, work, subject.is_random())?;
    let readings = reading::measure(&decoders, work)?;
    let mut measured = Vec::with_capacity(ways.len());
    for (((((way, decoder), bandwidth), times), together), reading) in
        ways.iter().zip(&decoders).zip(bandwidths).zip(times).zip(together).zip(readings)
    {
        let floors = Floors::new(decoder, bandwidth, machine.peak_flops);
        let one_row_ms = median_ms(&times[0].whole);
        measured.push(Measured {
            target: subject.name().to_owned(),
            shape: Sizes::of(subject.config()),
            random: subject.is_random(),
            weights: way.weights.clone(),
            weight_bytes: decoder.weight_bytes(),
            bandwidth,
            passes: ROWS.iter().zip(&times).map(|(&rows, times)| floors.pass(rows, times, one_row_ms)).collect(),
            together,
            reading,
        });
    }
    Ok(measured)
}

/// The times of passes over each number of rows.
type PassTimes = [Times; ROWS.len()];

/// Those of passes over one number of rows, and how long each took the device alone, in milliseconds.
#[derive(Clone, Default)]
struct Times {
    whole: Vec<f64>,
    of_device: Vec<f64>,
}

/// The times of passes over each number of rows by each model, taken in turns.
fn times_ms(decoders: &[Decoder], work: &mut Workspace) -> Result<Vec<PassTimes>, ModelError> {
    let mut caches = decoders.iter().map(|decoder| cache(decoder, work)).collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![PassTimes::default(); decoders.len()];
    let mut turns = Turns::of(decoders.len());
    while turns.another() {
        for ((decoder, cache), times) in decoders.iter().zip(&mut caches).zip(&mut times) {
            for (times, rows) in times.iter_mut().zip(ROWS.map(|rows| tree(decoder, rows))) {
                let timed = || -> Result<f64, ModelError> {
                    let begun = Instant::now();
                    pass(decoder, work, cache, &rows)?;
                    let took = begun.elapsed();
                    cache.keep_path(&[])?;
                    Ok(took.as_secs_f64() * 1e3)
                };
                times.whole.push(settled(timed)?);
                let of_device = decoder.device_time(REPEATED)?;
                times.of_device.extend(of_device.map(|time| time.as_secs_f64() * 1e3));
            }
        }
    }
    Ok(times)
}

fn median_ms(times: &[f64]) -> f64 {
    median(times.iter().copied()).unwrap_or(f64::NAN)
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
        "\n{}{}, weights {}: {:.1} MB, of which {:.1} GB/s can be read over and over; context {CONTEXT}",
        if measured.random { "random numbers of the shape " } else { "" },
        measured.target,
        measured.weights,
        measured.weight_bytes as f64 / 1e6,
        measured.bandwidth / 1e9,
    );
    anstream::println!("{}", passes_table(&measured.passes));
    anstream::println!("several sequences in one pass:\n{}", together_table(&measured.together));
    let Reading { tokens, ms, tokens_per_second, .. } = &measured.reading;
    anstream::println!("a prompt of {tokens} tokens is read in {ms:.2} ms: {tokens_per_second:.0} tokens/s");
}

fn passes_table(passes: &[PassTime]) -> comfy_table::Table {
    let mut header = vec!["tokens", "time (ms)", "to one token", "floor (ms)", "to the floor"];
    if passes.iter().any(|pass| pass.host_us.is_some()) {
        header.push("host (µs)");
    }
    let row = |pass: &PassTime| {
        let mut row = vec![
            pass.rows.to_string(),
            format!("{:.3}", pass.ms),
            format!("{:.2}", pass.to_one_row),
            format!("{:.3} ({})", pass.floor_ms, pass.bound),
            format!("{:.2}", pass.to_floor),
        ];
        row.extend(pass.host_us.map(|host_us| format!("{host_us:.0}")));
        row
    };
    report::table(&header, passes.iter().map(row))
}

fn together_table(passes: &[Together]) -> comfy_table::Table {
    let row = |pass: &Together| {
        let [ms, alone] = [pass.ms, pass.alone_ms].map(|ms| format!("{ms:.3}"));
        let rate = format!("{:.0}", pass.rows_per_second);
        vec![pass.sequences.to_string(), pass.rows.to_string(), ms, alone, format!("{:.2}", pass.to_alone), rate]
    };
    let header = ["sequences", "tokens of each", "together (ms)", "one by one (ms)", "to one by one", "tokens/s"];
    report::table(&header, passes.iter().map(row))
}

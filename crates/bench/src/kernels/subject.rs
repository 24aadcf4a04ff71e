//! What is measured: a model that is at hand, or one of a real size with random weights.

use espalier_command::report;
use espalier_local::{SystemArgs, checkpoint};
use espalier_model::{Arithmetic, Checkpoint, Decoder, DeviceKind, LoadOptions, ModelConfig, ModelError, WeightFormat};
use espalier_service_kit::Bytes;

use super::shapes::Shape;
use crate::error::BenchError;

/// What random weights begin from.
const SEED: u64 = 1;

/// Memory that a measurement takes beside the weights: what bandwidth is measured with, keys and values, activations.
const BESIDE_BYTES: usize = 1 << 30;

/// A model to measure.
pub(super) enum Subject {
    /// One that was trained.
    Checkpoint {
        /// How it was asked for.
        name: String,
        checkpoint: Checkpoint,
    },
    /// One of random weights.
    Random { shape: Shape, config: ModelConfig },
}

/// How weights are held and multiplied.
pub(super) struct Way {
    /// What that is called.
    pub(super) weights: String,
    options: LoadOptions,
}

impl Subject {
    /// The model of a name or path.
    pub(super) fn target(name: &str, system: &SystemArgs) -> Result<Self, BenchError> {
        let checkpoint = Checkpoint::open(checkpoint(name, system)?)?;
        Ok(Self::Checkpoint { name: name.to_owned(), checkpoint })
    }

    /// A model of a shape.
    pub(super) fn random(shape: Shape) -> Result<Self, BenchError> {
        Ok(Self::Random { shape, config: shape.config()? })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Checkpoint { name, .. } => name,
            Self::Random { shape, .. } => shape.name,
        }
    }

    /// Whether its weights are random.
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Self::Random { .. })
    }

    pub(super) fn config(&self) -> &ModelConfig {
        match self {
            Self::Checkpoint { checkpoint, .. } => &checkpoint.config,
            Self::Random { config, .. } => config,
        }
    }

    /// All ways to hold and multiply it where the system has its targets, in these arithmetics as far as there are such
    /// there. That bf16 can be held as f32 too says something of the kernels and not of large models, which nobody holds
    /// so.
    ///
    /// # Errors
    /// There is none there.
    pub(super) fn ways(&self, system: &SystemArgs, arithmetics: &[Arithmetic]) -> Result<Vec<Way>, ModelError> {
        let place = LoadOptions { device: system.device, parallel: system.parallel(), ..LoadOptions::default() };
        if system.device != DeviceKind::Cpu {
            let on_device = |arithmetic: &&Arithmetic| Arithmetic::ON_DEVICES.contains(arithmetic);
            let way = |&arithmetic: &Arithmetic| Way {
                weights: format!("in {arithmetic}, in {arithmetic} arithmetic on {}", system.device),
                options: LoadOptions { arithmetic, ..place },
            };
            let ways: Vec<Way> = arithmetics.iter().filter(on_device).map(way).collect();
            return match arithmetics {
                [arithmetic, ..] if ways.is_empty() => Err(ModelError::NotOnDevices { arithmetic: *arithmetic }),
                _ => Ok(ways),
            };
        }
        let ways = |&arithmetic: &Arithmetic| {
            let stored = Way::of(LoadOptions { arithmetic, ..place });
            let widened = arithmetic == Arithmetic::F32 && !self.is_random();
            let wide = || Way {
                weights: "in f32, in f32 arithmetic".to_owned(),
                options: LoadOptions { format: WeightFormat::F32, ..place },
            };
            [Some(stored), widened.then(wide)]
        };
        Ok(arithmetics.iter().flat_map(ways).flatten().collect())
    }

    /// Refuses a model of random weights that this machine has no memory for. A device refuses for itself.
    pub(super) fn check_memory(&self, way: &Way) -> Result<(), BenchError> {
        let Self::Random { shape, config } = self else { return Ok(()) };
        if way.options.device != DeviceKind::Cpu {
            return Ok(());
        }
        let needed = Bytes(Decoder::memory(config, &way.options)?.saturating_add(BESIDE_BYTES));
        Need { shape, arithmetic: way.options.arithmetic, needed }.check(Bytes::available())
    }

    /// Whether there is memory for it in all these ways at once. How much a GPU has it tells when it has too little.
    pub(super) fn fits_in_all(&self, ways: &[Way]) -> Result<bool, BenchError> {
        if ways.iter().any(|way| matches!(way.options.device, DeviceKind::Cuda(_))) {
            return Ok(false);
        }
        let of_way = |way: &Way| Decoder::memory(self.config(), &way.options);
        let needed = ways.iter().map(of_way).sum::<Result<usize, _>>()?.saturating_add(BESIDE_BYTES);
        Ok(Bytes::available().is_none_or(|available| Bytes(needed) <= available))
    }

    /// Loads it under a bar.
    pub(super) fn load(&self, way: &Way) -> Result<Decoder, ModelError> {
        let bar = report::progress(self.config().layers as u64, &format!("packing {}", self.name()));
        let step = |packed: usize, _| bar.set_position(packed as u64);
        let loaded = match self {
            Self::Checkpoint { checkpoint, .. } => Decoder::load_with_progress(checkpoint, &way.options, step),
            Self::Random { config, .. } => Decoder::random(config, SEED, &way.options, step),
        };
        bar.finish_and_clear();
        loaded
    }
}

impl Way {
    /// An arithmetic, with weights as it holds them.
    fn of(options: LoadOptions) -> Self {
        let weights = match options.arithmetic {
            Arithmetic::F32 => "as stored, in f32 arithmetic",
            Arithmetic::Bf16 => "in bf16, in bf16 arithmetic",
            Arithmetic::Bf16Dot => "in bf16, in bf16-dot arithmetic",
            Arithmetic::Int8 => "in 8 bits, in int8 arithmetic",
            Arithmetic::Int8Q4 => "in 4 bits, in int8 arithmetic",
        };
        Self { weights: weights.to_owned(), options }
    }
}

/// What a shape takes in an arithmetic.
struct Need<'a> {
    shape: &'a Shape,
    arithmetic: Arithmetic,
    needed: Bytes,
}

impl Need<'_> {
    /// Refuses what does not fit; what a machine has that does not tell is not known.
    fn check(&self, available: Option<Bytes>) -> Result<(), BenchError> {
        let (shape, arithmetic, needed) = (self.shape.name, self.arithmetic, self.needed);
        match available.filter(|available| *available < needed) {
            Some(available) => Err(BenchError::Memory { shape, arithmetic, needed, available }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_it_needs() {
        let shape = "llama-8b".parse().unwrap();
        let need = Need { shape: &shape, arithmetic: Arithmetic::Int8, needed: Bytes(10_000_000_000) };
        assert!([None, Some(Bytes(10_000_000_000))].into_iter().all(|available| need.check(available).is_ok()));
        let refusal = need.check(Some(Bytes(7_123_456_789))).unwrap_err();
        let sentence = "llama-8b in int8 arithmetic needs 10000000000 bytes of memory, but 7123456789 are available";
        assert_eq!((refusal.to_string().as_str(), refusal.is_of_the_request()), (sentence, true));
    }

    #[test]
    fn on_a_device_it_is_measured_in_what_that_has() {
        let shape = Subject::random("qwen-0.5b".parse().unwrap()).unwrap();
        let system = SystemArgs { device: DeviceKind::Candle, ..SystemArgs::default() };
        let ways = shape.ways(&system, &Arithmetic::ALL).unwrap();
        let found: Vec<_> = ways.iter().map(|way| (way.weights.as_str(), way.options.device)).collect();
        let expected = ["in f32, in f32 arithmetic on candle", "in bf16, in bf16 arithmetic on candle"];
        assert_eq!(found, expected.map(|weights| (weights, DeviceKind::Candle)));
        let refusal = shape.ways(&system, &[Arithmetic::Int8]).err().unwrap().to_string();
        assert!(refusal.starts_with("int8 is computed by the processor alone"), "{refusal}");
    }

    #[test]
    fn a_shape_is_measured_in_every_arithmetic_that_is_asked_for() {
        let shape = Subject::random("qwen-7b".parse().unwrap()).unwrap();
        let system = SystemArgs::default();
        let ways = |arithmetics: &[Arithmetic]| shape.ways(&system, arithmetics).unwrap().len();
        assert_eq!((ways(&Arithmetic::ALL), ways(&[Arithmetic::Int8])), (Arithmetic::ALL.len(), 1));
        let way = Way::of(LoadOptions::default());
        let parameters = shape.config().parameters();
        let needed = Decoder::memory(shape.config(), &way.options).unwrap();
        assert!((2.0..2.3).contains(&(needed as f64 / parameters as f64)), "{needed} bytes for {parameters} weights");
    }
}

//! Over how many devices a model is spread, and in which way.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use crate::device;
use crate::device_kind::DeviceKind;
use crate::error::{ModelError, Result};
use crate::model_info::ModelInfo;

/// How a model is spread over ranks, each on a device of its own. Both together take `tensor * pipeline` devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parallel {
    /// Ranks that share every layer: heads, feed-forward and vocabulary are cut.
    pub tensor: Degree,
    /// Stages, each some of the layers in their order.
    pub pipeline: Degree,
}

/// A number of ranks or of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Degree {
    /// As many as there are devices, but no more than the model has parts for.
    Auto,
    /// So many.
    Number(NonZeroUsize),
}

/// No degree is called that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no number of ranks or stages: it must be auto or a whole number from 1 on")]
pub struct UnknownDegree {
    found: String,
}

/// What both degrees come to for a model on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Degrees {
    pub(crate) tensor: usize,
    pub(crate) pipeline: usize,
}

impl Parallel {
    /// Ranks of each layer and no more stages than one.
    pub fn tensor(tensor: Degree) -> Self {
        Self { tensor, ..Self::default() }
    }

    /// Stages, each on one device.
    pub fn pipeline(pipeline: Degree) -> Self {
        Self { pipeline, ..Self::default() }
    }

    /// Both degrees for a model, from a device on.
    ///
    /// # Errors
    /// Several ranks or stages on the processor, or a device that cannot be had.
    pub(crate) fn of(self, device: DeviceKind, info: &ModelInfo) -> Result<Degrees> {
        let is_auto = [self.tensor, self.pipeline].contains(&Degree::Auto);
        let devices = match device {
            DeviceKind::Cuda(first) if is_auto => device::count()?.saturating_sub(first),
            _ => 1,
        };
        let degrees = self.on(devices, info);
        let several =
            [("tensor", degrees.tensor), ("pipeline", degrees.pipeline)].into_iter().find(|(_, ranks)| *ranks > 1);
        match (device, several) {
            (DeviceKind::Cpu, Some((way, ranks))) => Err(ModelError::RanksOnCpu { way, ranks }),
            _ => Ok(degrees),
        }
    }

    /// Both degrees for a model on so many devices. What is not told takes what the other leaves, heads first.
    fn on(self, devices: usize, info: &ModelInfo) -> Degrees {
        let most = devices / self.pipeline.number().unwrap_or(1);
        let shares = || (1..=most).rev().find(|ranks| device::divides(&info.config, *ranks)).unwrap_or(1);
        let tensor = self.tensor.number().unwrap_or_else(shares);
        let stages = || (devices / tensor).min(info.layers).max(1);
        Degrees { tensor, pipeline: self.pipeline.number().unwrap_or_else(stages) }
    }
}

impl Degree {
    fn number(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Number(number) => Some(number.get()),
        }
    }
}

impl Default for Degree {
    fn default() -> Self {
        Self::Number(NonZeroUsize::MIN)
    }
}

impl fmt::Display for Degree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl FromStr for Degree {
    type Err = UnknownDegree;

    fn from_str(text: &str) -> Result<Self, UnknownDegree> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Number).map_err(|_| UnknownDegree { found: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::ModelConfig;
    use crate::rotations::Rotations;

    #[test]
    fn a_degree_is_a_number_or_auto() {
        for text in ["auto", "1", "8"] {
            assert_eq!(text.parse::<Degree>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "two", ""] {
            let refusal = text.parse::<Degree>().unwrap_err().to_string();
            assert_eq!(
                refusal,
                format!("{text:?} is no number of ranks or stages: it must be auto or a whole number from 1 on")
            );
        }
    }

    #[test]
    fn auto_takes_what_divides_and_no_more_stages_than_layers() {
        let config = r#"{"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 96, "intermediate_size": 250,
            "vocab_size": 301, "num_attention_heads": 6, "num_key_value_heads": 2}"#;
        let config = ModelConfig::parse(config, None).unwrap();
        let info = ModelInfo { rotations: Rotations::new(&config), config, layers: 3, layers_of_states: 0 };
        let on = |tensor: &str, pipeline: &str, devices| {
            let parallel = Parallel { tensor: tensor.parse().unwrap(), pipeline: pipeline.parse().unwrap() };
            let Degrees { tensor, pipeline } = parallel.on(devices, &info);
            [tensor, pipeline]
        };
        // 6 heads with 2 of keys and values are shared by 1, 2 or 6.
        assert_eq!([1, 2, 4, 8].map(|devices| on("auto", "1", devices)), [[1, 1], [2, 1], [2, 1], [6, 1]]);
        assert_eq!([0, 1, 2, 8].map(|devices| on("1", "auto", devices)), [[1, 1], [1, 1], [1, 2], [1, 3]]);
        assert_eq!([4, 8].map(|devices| on("auto", "auto", devices)), [[2, 2], [6, 1]]);
        assert_eq!([on("auto", "3", 8), on("2", "auto", 8), on("4", "5", 1)], [[2, 3], [2, 3], [4, 5]]);
    }
}

//! Where a model runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What computes a model's passes. In JSON it goes by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceKind {
    /// Our kernels, on the processor.
    #[default]
    Cpu,
    /// Candle's tensors on the processor: what runs on other devices, to be tried where there is none. Slow.
    Candle,
    /// What runs on GPUs, on the processor thread by thread: for tests.
    Emulated,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

/// No device has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no device is called {found:?}, only cpu, candle, cuda and cuda:N are known")]
pub struct UnknownDevice {
    found: String,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Candle => f.write_str("candle"),
            Self::Emulated => f.write_str("emulated"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "candle" => Ok(Self::Candle),
            #[cfg(feature = "emulated")]
            "emulated" => Ok(Self::Emulated),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number.map(Self::Cuda).ok_or_else(|| UnknownDevice { found: name.to_owned() })
            }
        }
    }
}

impl TryFrom<String> for DeviceKind {
    type Error = UnknownDevice;

    fn try_from(name: String) -> Result<Self, UnknownDevice> {
        name.parse()
    }
}

impl From<DeviceKind> for String {
    fn from(device: DeviceKind) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_device_goes_by_a_name_and_another_name_is_refused() {
        for (name, device) in
            [("cpu", DeviceKind::Cpu), ("candle", DeviceKind::Candle), ("cuda:3", DeviceKind::Cuda(3))]
        {
            assert_eq!(name.parse::<DeviceKind>().unwrap(), device);
            assert_eq!(device.to_string(), name);
            assert_eq!(serde_json::to_string(&device).unwrap(), format!("{name:?}"));
            assert_eq!(serde_json::from_str::<DeviceKind>(&format!("{name:?}")).unwrap(), device);
        }
        assert_eq!("cuda".parse::<DeviceKind>().unwrap(), DeviceKind::Cuda(0));
        for name in ["gpu", "cuda:", "cuda:-1", "CPU"] {
            let refusal = name.parse::<DeviceKind>().unwrap_err().to_string();
            assert_eq!(refusal, format!("no device is called {name:?}, only cpu, candle, cuda and cuda:N are known"));
        }
    }
}

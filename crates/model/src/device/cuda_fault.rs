//! What a machine must have to run what was built for NVIDIA GPUs, and what is said where it has not.

use crate::device_kind::DeviceKind;

/// CUDA's release that programs are built with: major * 1000 + minor * 10.
const RELEASE: i32 = 13_000;

/// The oldest architecture that kernels are built for, as major * 10 + minor.
const CAPABILITY: i32 = 90;

/// What a machine has.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    /// A library that cannot be opened.
    pub(crate) missing: Option<&'static str>,
    /// The newest release of CUDA that the driver knows.
    pub(crate) release: i32,
    pub(crate) devices: usize,
    /// Of the device that is asked for.
    pub(crate) capability: i32,
}

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaFault {
    /// The program has no code for GPUs.
    #[error("this program was built without the feature `cuda`, which device {device} needs")]
    NotBuilt {
        /// The device.
        device: DeviceKind,
    },
    /// A library of the driver or of CUDA's is not there.
    #[error("device {device} needs {library}, which cannot be opened here: it comes with {from}")]
    Library {
        /// The device.
        device: DeviceKind,
        /// The library.
        library: &'static str,
        /// What it comes with.
        from: &'static str,
    },
    /// The driver is too old.
    #[error("device {device} needs a driver for CUDA {}, this one is for {}", release(*needed), release(*found))]
    Driver {
        /// The device.
        device: DeviceKind,
        /// The release that is needed, major * 1000 + minor * 10.
        needed: i32,
        /// The driver's.
        found: i32,
    },
    /// There is no such device.
    #[error("there is no device {device}: the machine has {devices} GPUs")]
    Absent {
        /// The device.
        device: DeviceKind,
        /// Devices of the machine.
        devices: usize,
    },
    /// The device is too old.
    #[error("device {device} is of compute capability {}, kernels are built for {} and newer", tenths(*found), tenths(*needed))]
    Capability {
        /// The device.
        device: DeviceKind,
        /// What is needed, major * 10 + minor.
        needed: i32,
        /// What it has.
        found: i32,
    },
}

/// Refuses a GPU, by its number, that a machine does not have or that cannot run what was built.
#[cfg_attr(not(any(test, feature = "cuda")), expect(dead_code, reason = "asked by programs for GPUs"))]
pub(crate) fn check(number: usize, machine: Machine) -> Result<(), CudaFault> {
    let device = DeviceKind::Cuda(number);
    let Machine { missing, release, devices, capability } = machine;
    if let Some(library) = missing {
        let driver = library.starts_with("libcuda.");
        let from = if driver { "NVIDIA's driver" } else { "CUDA 13 or the Python packages of its libraries" };
        return Err(CudaFault::Library { device, library, from });
    }
    if release < RELEASE {
        return Err(CudaFault::Driver { device, needed: RELEASE, found: release });
    }
    if number >= devices {
        return Err(CudaFault::Absent { device, devices });
    }
    if capability < CAPABILITY {
        return Err(CudaFault::Capability { device, needed: CAPABILITY, found: capability });
    }
    Ok(())
}

fn release(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

fn tenths(number: i32) -> String {
    format!("{}.{}", number / 10, number % 10)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const GOOD: Machine = Machine { missing: None, release: 13_000, devices: 2, capability: 90 };

    #[test]
    fn a_machine_that_does_not_suit_is_refused_with_what_it_lacks() {
        assert_eq!(check(1, GOOD), Ok(()));
        assert_eq!(check(0, Machine { release: 13_010, capability: 100, ..GOOD }), Ok(()));
        let cases = [
            (
                Machine { missing: Some("libcuda.so.1"), ..GOOD },
                "device cuda:1 needs libcuda.so.1, which cannot be opened here: it comes with NVIDIA's driver",
            ),
            (
                Machine { missing: Some("libcublas.so.13"), ..GOOD },
                "device cuda:1 needs libcublas.so.13, which cannot be opened here: it comes with CUDA 13 or the Python packages \
                 of its libraries",
            ),
            (Machine { release: 12_040, ..GOOD }, "device cuda:1 needs a driver for CUDA 13.0, this one is for 12.4"),
            (Machine { devices: 1, ..GOOD }, "there is no device cuda:1: the machine has 1 GPUs"),
            (
                Machine { capability: 86, ..GOOD },
                "device cuda:1 is of compute capability 8.6, kernels are built for 9.0 and newer",
            ),
        ];
        for (machine, sentence) in cases {
            assert_eq!(check(1, machine).unwrap_err().to_string(), sentence);
        }
    }
}

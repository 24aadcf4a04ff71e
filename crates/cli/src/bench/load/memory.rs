//! The most memory that this process had resident, where the system tells.

/// The peak since the process began or [`forget`] was called, in bytes; none where the system does not tell.
pub(super) fn peak_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Has the peak counted from now on. Where that cannot be had, it goes on from before.
pub(super) fn forget() {
    // 5 is Linux's request to reset the peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Reads Linux's `VmHWM: 1234 kB`.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_what_linux_says() {
        let status = "Name:\tespalier\nVmPeak:\t  900000 kB\nVmHWM:\t  204800 kB\nVmRSS:\t  100 kB\n";
        assert_eq!(peak_of(status), Some(200 << 20));
        assert_eq!(peak_of("Name:\tespalier\n"), None);
        assert_eq!(peak_of("VmHWM:\t many kB\n"), None);
    }
}

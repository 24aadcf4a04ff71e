//! The most memory that this process had resident, where the system tells.

use espalier_service_kit::Bytes;

/// The peak since the process began or [`forget`] was called, in bytes; none where the system does not tell.
pub(super) fn peak_bytes() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/status").ok()?;
    Bytes::told(&told, "VmHWM:").map(|Bytes(bytes)| bytes as u64)
}

/// Has the peak counted from now on. Where that cannot be had, it goes on from before.
pub(super) fn forget() {
    // 5 is Linux's request to reset the peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

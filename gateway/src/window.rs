//! How many rounds may run ahead of what the client has read.

use std::time::Duration;

/// What a sequence begins with: more rounds than are under way before one was measured, so who reads at once waits for no
/// grant.
const FIRST: usize = 8;

/// What a client is left with that does not keep up.
const MIN: usize = 4;

/// What a client that keeps up comes to.
pub(crate) const MAX: usize = 16;

/// Grants are sent when half of the window is free, not one by one: each is a message beside the tokens'.
const BATCH_SHARE: usize = 2;

/// A reader that comes back after so short a while has not been away.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Rounds that are granted and not yet read, and how many there may be: one more for each that the client reads in
/// time, half as many whenever rounds had to wait for it. So a client that stalls holds little, wherever it stalls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    size: usize,
    granted: usize,
}

impl Window {
    /// The window of a sequence that begins, and what is granted at once.
    pub(crate) fn new() -> (Self, usize) {
        (Self { size: FIRST, granted: FIRST }, FIRST)
    }

    /// A round was read: the reader waited for it for `wait`, and was then away for `pause` before it asked for the next.
    pub(crate) fn read(&mut self, wait: Duration, pause: Duration) {
        self.granted = self.granted.saturating_sub(1);
        self.size = if pause <= wait.max(PAUSE_MIN) { self.size + 1 } else { self.size / 2 }.clamp(MIN, MAX);
    }

    /// How many more rounds are to be granted now.
    pub(crate) fn top_up(&mut self) -> Option<usize> {
        let room = self.size.saturating_sub(self.granted);
        if room < (self.size / BATCH_SHARE).max(1) {
            return None;
        }
        self.granted += room;
        Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(1);

    fn read(window: &mut Window, times: usize, wait: Duration, pause: Duration) -> usize {
        for _ in 0..times {
            window.read(wait, pause);
            window.top_up();
        }
        window.size
    }

    #[test]
    fn a_client_that_reads_at_once_comes_to_the_greatest_window_and_never_waits_for_a_grant() {
        let (mut window, first) = Window::new();
        assert_eq!(first, FIRST);
        for _ in 0..100 {
            window.read(AT_ONCE, AT_ONCE);
            window.top_up();
            // A sequence at rest begins with credit for four rounds, which are granted already.
            assert!(window.granted > window.size / 2 && window.granted > 4, "{window:?}");
        }
        assert_eq!(window.size, MAX);
    }

    #[test]
    fn rounds_that_wait_for_their_reader_make_the_window_small() {
        let (mut window, _) = Window::new();
        assert_eq!(read(&mut window, 20, AT_ONCE, AT_ONCE), MAX);
        assert_eq!(read(&mut window, 1, AT_ONCE, LONG), MAX / 2);
        assert_eq!(read(&mut window, 1, AT_ONCE, LONG), MIN);
        assert_eq!(read(&mut window, 50, AT_ONCE, LONG), MIN);
        assert_eq!(read(&mut window, 50, AT_ONCE, AT_ONCE), MAX, "and large again when it is back");
    }

    #[test]
    fn a_reader_that_waits_for_slow_rounds_keeps_up_however_long_it_is_away() {
        let (mut window, _) = Window::new();
        assert_eq!(read(&mut window, 20, LONG, LONG), MAX);
    }

    #[test]
    fn what_is_granted_and_not_read_is_never_more_than_the_greatest_window() {
        let (mut window, first) = Window::new();
        let (mut granted, mut reads) = (first, 0);
        for step in 0..1000_usize {
            // A pattern of short and long pauses that comes to every size.
            window.read(AT_ONCE, if step % 23 < 3 { LONG } else { AT_ONCE });
            reads += 1;
            granted += window.top_up().unwrap_or(0);
            assert!(granted >= reads && granted - reads <= MAX);
            assert_eq!(granted - reads, window.granted);
        }
    }
}

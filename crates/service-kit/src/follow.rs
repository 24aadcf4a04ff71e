//! Files that are read again when they change, while what was made of them is used.

use std::error::Error;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::chain::chain;

/// How often files are looked at: what is taken away ceases to hold within five seconds, so this leaves two to read it on a
/// machine that is busy.
const LOOK_EVERY: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(3) };

/// What was made of files.
pub trait Followed: Send + Sync + 'static {
    /// What is in the files. It is compared, and not the time of their last change: not all file systems tell of two
    /// changes in one second, and a file that is put in the place of another may be older.
    type Contents: PartialEq + Send;

    /// Why files are of no use.
    type Error: Error;

    /// What they hold, in the plural, for the log.
    const WHAT: &'static str;

    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read.
    fn read(&self) -> Result<Self::Contents, Self::Error>;

    /// Puts what the files hold in the place of what they held before, all at once.
    ///
    /// # Errors
    /// It is of no use; then nothing was changed.
    fn replace(&self, contents: &Self::Contents) -> Result<(), Self::Error>;

    /// What is about to go wrong with what the files hold, if anything is.
    fn concern(&self, _contents: &Self::Contents) -> Option<String> {
        None
    }
}

/// What a look at the files came to, and what was told of it.
pub struct Seen<C> {
    contents: Result<C, String>,
    concern: Option<String>,
}

impl<C: PartialEq> Seen<C> {
    /// The files held this when they were read first.
    pub fn first(contents: C) -> Self {
        Self { contents: Ok(contents), concern: None }
    }

    /// Looks again. What is faulty changes nothing, and is told of once: it may be in the middle of being replaced.
    pub fn look<F: Followed<Contents = C>>(&mut self, followed: &F) {
        let found = followed.read().map_err(|error| chain(&error));
        if found != self.contents {
            let replaced = match &found {
                Ok(contents) => followed.replace(contents).map_err(|error| chain(&error)),
                Err(error) => Err(error.clone()),
            };
            match replaced {
                Ok(()) => tracing::info!("{} were read again", F::WHAT),
                Err(error) => tracing::warn!(error, "{} are faulty; those read before still hold", F::WHAT),
            }
            self.contents = found;
        }
        let concern = self.contents.as_ref().ok().and_then(|contents| followed.concern(contents));
        if let Some(concern) = concern.as_ref().filter(|_| concern != self.concern) {
            tracing::warn!("{concern}");
        }
        self.concern = concern;
    }
}

/// Looks at the files again and again, for as long as somebody uses what was made of them.
pub async fn follow<F: Followed>(followed: Weak<F>, mut seen: Seen<F::Contents>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(followed) = followed.upgrade() else { return };
        let looked = spawn_blocking(move || {
            seen.look(&*followed);
            seen
        });
        // Only the runtime's end, or a fault of ours, ends it.
        let Ok(looked) = looked.await else { return };
        seen = looked;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fmt;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A number in a file, which must not be negative.
    #[derive(Default)]
    struct Number {
        file: Mutex<Option<i32>>,
        holds: Mutex<Vec<i32>>,
    }

    #[derive(Debug)]
    struct Faulty;

    impl fmt::Display for Faulty {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("faulty")
        }
    }

    impl Error for Faulty {}

    impl Followed for Number {
        type Contents = i32;
        type Error = Faulty;
        const WHAT: &'static str = "the numbers";

        fn read(&self) -> Result<i32, Faulty> {
            self.file.lock().ok_or(Faulty)
        }

        fn replace(&self, number: &i32) -> Result<(), Faulty> {
            if *number < 0 {
                return Err(Faulty);
            }
            self.holds.lock().push(*number);
            Ok(())
        }
    }

    #[test]
    fn a_change_is_taken_once_and_what_is_faulty_changes_nothing() {
        let number = Number::default();
        let mut seen = Seen::first(1);
        for file in [Some(1), Some(2), Some(2), Some(-1), Some(-1), None, None, Some(2), Some(3)] {
            *number.file.lock() = file;
            seen.look(&number);
        }
        // The 2 that comes after what was faulty may be another one.
        assert_eq!(*number.holds.lock(), [2, 2, 3]);
    }

    #[tokio::test]
    async fn files_are_followed_until_nobody_needs_them() {
        let number = Arc::new(Number::default());
        *number.file.lock() = Some(5);
        let following = tokio::spawn(follow(Arc::downgrade(&number), Seen::first(1)));
        while number.holds.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*number.holds.lock(), [5]);
        drop(number);
        following.await.unwrap();
    }
}

//! Checks whether a source has changed.
//!
//! Where the protocol guards each read by an entity tag, that decides. Elsewhere size and modification time are
//! checked again, but not before every single range: stripe checksums catch changes between two checks.

use engine::source::{Result, SourceError, Version};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Validity of a check. A guess: short compared with a staging, long compared with a range.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Time of the last check.
#[derive(Default)]
pub struct Guard(Mutex<Option<Instant>>);

impl Guard {
    /// Checks the version when a check is due: `stat` returns the present version.
    pub fn check(&self, expected: &Version, stat: impl FnOnce() -> Result<Version>) -> Result<()> {
        if self.0.lock().is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return Ok(());
        }
        same(expected, &stat()?)?;
        *self.0.lock() = Some(Instant::now());
        Ok(())
    }
}

/// Returns `Changed` if the two versions cannot have the same data.
pub fn same(expected: &Version, now: &Version) -> Result<()> {
    let changed = |what: &str, was: String, is: String| {
        Err(SourceError::Changed(format!("{what} was {was} and is {is}; stage it in again")))
    };
    if expected.size != now.size {
        return changed("its size", expected.size.to_string(), now.size.to_string());
    }
    match (&expected.etag, &now.etag) {
        (Some(was), Some(is)) if was != is => return changed("its entity tag", was.clone(), is.clone()),
        (Some(_), Some(_)) => return Ok(()),
        _ => {}
    }
    match (expected.modified_ns, now.modified_ns) {
        (Some(was), Some(is)) if was != is => changed("its modification time (ns)", was.to_string(), is.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(size: u64, etag: Option<&str>, modified_ns: Option<u64>) -> Version {
        Version { size, etag: etag.map(str::to_string), modified_ns }
    }

    #[test]
    fn size_tag_time() {
        assert!(same(&v(1, None, None), &v(2, None, None)).is_err());
        assert!(same(&v(1, Some("a"), Some(1)), &v(1, Some("a"), Some(2))).is_ok(), "the tag decides");
        assert!(same(&v(1, Some("a"), Some(1)), &v(1, Some("b"), Some(1))).is_err());
        assert!(same(&v(1, None, Some(1)), &v(1, None, Some(2))).is_err());
        assert!(same(&v(1, Some("a"), Some(1)), &v(1, None, Some(1))).is_ok());
    }

    #[test]
    fn a_look_is_good_for_a_while_but_a_failed_one_is_not() {
        let guard = Guard::default();
        assert!(guard.check(&v(1, None, None), || Ok(v(2, None, None))).is_err());
        assert!(guard.check(&v(1, None, None), || Ok(v(1, None, None))).is_ok());
        assert!(guard.check(&v(1, None, None), || panic!("looked again at once")).is_ok());
    }
}

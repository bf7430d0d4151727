//! Whether bytes move faster over a connection's library than over its mount: a few writes and reads of a file of our own, in turn.

use crate::aligned::Aligned;
use crate::mounts::Root;
use crate::opened::Opened;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of each write and read: a request of the kernel's.
const REQUEST_BYTES: usize = 1 << 20;
/// Rounds at most, after one that is not counted.
const ROUNDS: u64 = 12;
/// No round begins after so long.
const LONG: Duration = Duration::from_millis(400);
/// So much shorter must the library's time be: what is closer is noise, and the mount is the simpler way.
const WORTH: f64 = 0.9;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Time of all rounds over the mount.
    pub mount: Duration,
    /// And over the library.
    pub library: Duration,
}

impl Measured {
    /// Whether the library is to be used.
    pub fn library_is_faster(&self) -> bool {
        self.library.as_secs_f64() < WORTH * self.mount.as_secs_f64()
    }
}

/// Measures over one connection that has both, with a file `name` that is gone afterwards.
pub fn measure(root: &Root, name: &str) -> Result<Measured> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    drop(openat(root.fd(), name, create, Mode::RUSR | Mode::WUSR)?);
    let measured = both(root, Path::new(name));
    let _ = unlinkat(root.fd(), name, AtFlags::empty());
    measured
}

fn both(root: &Root, name: &Path) -> Result<Measured> {
    let client = root.client().ok_or(Errno::NOTSUP)?;
    let over_mount = Opened::new(root.open(name, OFlags::RDWR)?, OFlags::RDWR, None);
    let over_library = Opened::new(root.open(name, OFlags::RDWR)?, OFlags::RDWR, Some(client));
    let data = Aligned::room(REQUEST_BYTES);
    let mut room = Aligned::room(REQUEST_BYTES);
    let mut once = |file: &Opened, round: u64| -> Result<Duration> {
        let began = Instant::now();
        file.write(round * REQUEST_BYTES as u64, &data)?;
        file.read(round * REQUEST_BYTES as u64, &mut room)?;
        Ok(began.elapsed())
    };
    let began = Instant::now();
    let mut measured = Measured { mount: Duration::ZERO, library: Duration::ZERO };
    for round in 0..=ROUNDS {
        let (mount, library) = (once(&over_mount, round)?, once(&over_library, round)?);
        // Opening counts with the first one, and a slow link has shown enough by then.
        if round > 0 || began.elapsed() >= LONG {
            measured.mount += mount;
            measured.library += library;
        }
        if began.elapsed() >= LONG {
            break;
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_faster_is_not_enough() {
        let of = |library| Measured { mount: Duration::from_millis(100), library: Duration::from_millis(library) };
        assert!(of(80).library_is_faster());
        assert!(!of(95).library_is_faster() && !of(200).library_is_faster());
    }
}

//! Measures whether a connection's library moves bytes faster than its mount: a few writes and reads of a probe file,
//! in turn.
//!
//! The median round counts, since a single round may be disturbed by another program.

use crate::aligned::Aligned;
use crate::mounts::Root;
use crate::opened::Opened;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of each round's write and read: the largest request of the kernel.
const REQUEST_BYTES: usize = 1 << 20;
/// Bytes of the pieces in which each round reads a second time: small requests depend on latency, not on bandwidth.
const PIECE_BYTES: usize = 128 << 10;
/// Maximum of rounds, after one that is not counted.
const ROUNDS: u64 = 12;
/// No round begins after this time.
const LONG: Duration = Duration::from_millis(400);
/// The library is used unless the mount's time is below this share of the library's. A smaller difference is noise,
/// and here a thread waits for each answer of the library, unlike in service.
const WORTH: f64 = 0.9;

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Time of the median round over the mount.
    pub mount: Duration,
    /// Time of the median round over the library.
    pub library: Duration,
}

impl Measured {
    /// Returns whether the library is to be used: it is faster, or nearly.
    pub fn library_is_faster(&self) -> bool {
        WORTH * self.library.as_secs_f64() <= self.mount.as_secs_f64()
    }
}

/// Measures one connection that has both, with a file `name` that is removed afterwards.
pub fn measure(root: &Root, name: &str) -> Result<Measured> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    drop(openat(&root.fd, name, create, Mode::RUSR | Mode::WUSR)?);
    let measured = both(root, Path::new(name));
    let _ = unlinkat(&root.fd, name, AtFlags::empty());
    measured
}

fn both(root: &Root, name: &Path) -> Result<Measured> {
    let client = root.client().ok_or(Errno::NOTSUP)?;
    let over_mount = Opened::new(root.open(name, OFlags::RDWR)?, OFlags::RDWR, None);
    let over_library = Opened::new(root.open(name, OFlags::RDWR)?, OFlags::RDWR, Some(client));
    let data = Aligned::room(REQUEST_BYTES);
    let mut room = Aligned::room(REQUEST_BYTES);
    let mut once = |file: &Opened, round: u64| -> Result<Duration> {
        let (at, began) = (round * REQUEST_BYTES as u64, Instant::now());
        file.write(at, &data)?;
        file.read(at, &mut room)?;
        for piece in 0..REQUEST_BYTES / PIECE_BYTES {
            file.read(at + (piece * PIECE_BYTES) as u64, &mut room[..PIECE_BYTES])?;
        }
        Ok(began.elapsed())
    };
    let began = Instant::now();
    let (mut mount, mut library) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let took = (once(&over_mount, round)?, once(&over_library, round)?);
        // The first round includes opening; it counts only on a link too slow for another one.
        if round > 0 || began.elapsed() >= LONG {
            mount.push(took.0);
            library.push(took.1);
        }
        if began.elapsed() >= LONG {
            break;
        }
    }
    Ok(Measured { mount: median(mount), library: median(library) })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_has_to_be_clearly_faster() {
        let of = |library| Measured { mount: Duration::from_millis(100), library: Duration::from_millis(library) };
        assert!(of(80).library_is_faster());
        assert!(of(95).library_is_faster() && of(105).library_is_faster());
        assert!(!of(120).library_is_faster() && !of(200).library_is_faster());
    }

    #[test]
    fn a_round_that_met_something_else_does_not_count() {
        let of = |times: &[u64]| median(times.iter().copied().map(Duration::from_millis).collect());
        assert_eq!(of(&[5, 900, 4, 6, 5]), Duration::from_millis(5));
        assert_eq!(of(&[7]), Duration::from_millis(7));
    }
}

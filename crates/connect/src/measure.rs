//! Whether bytes move faster over a connection's library than over its mount: a few writes and reads of a file of our own, in turn.
//!
//! What counts is the median round, since one that met another program's turn says nothing.

use crate::aligned::Aligned;
use crate::mounts::Root;
use crate::opened::Opened;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of each round's write and read: a request of the kernel's.
const REQUEST_BYTES: usize = 1 << 20;
/// And it is read once more in pieces of so many bytes, since for small requests it is the way that counts and not the bytes.
const PIECE_BYTES: usize = 128 << 10;
/// Rounds at most, after one that is not counted.
const ROUNDS: u64 = 12;
/// No round begins after so long.
const LONG: Duration = Duration::from_millis(400);
/// The library is used unless the mount's time is shorter than so much of its: what is closer is noise, and here somebody waits for each answer of the library,
/// a thread more than when requests are served over it.
const WORTH: f64 = 0.9;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Time of the median round over the mount.
    pub mount: Duration,
    /// And over the library.
    pub library: Duration,
}

impl Measured {
    /// Whether the library is to be used: it is faster, or nearly.
    pub fn library_is_faster(&self) -> bool {
        WORTH * self.library.as_secs_f64() <= self.mount.as_secs_f64()
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
        // Opening counts with the first one, and a slow link has shown enough by then.
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

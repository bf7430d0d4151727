//! Measurement of a pair of devices as the two sides of a burst buffer: rates of writing, alone and beside demotion,
//! and of demotion.
//!
//! ```text
//!   write to the fast one                              write_max  (Bwmax)
//!   the same while fast -> slow is copied              write_min  (Bwmin), demote_max (Brmax)
//!   fast -> slow alone                                 demote_idle (Bdmax)
//! ```
//! The least demotion beside writing is a choice, not a property: a twentieth of the most, as in the paper's testbed.
//!
//! Source: Sung (2020), equation 5.1: the trade-off line goes through the two points.

use super::{Aligned, LARGE, Options, Scratch};
use object::workers::side_by_side;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Least demotion, as a share of the most.
const LEAST: f64 = 0.05;
/// Bytes between two syncs where the page cache cannot be bypassed.
const SYNC_BYTES: u64 = 16 << 20;

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Writing to the fast device alone.
    pub write_max: f64,
    /// Writing to it while its bytes are copied off at full speed.
    pub write_min: f64,
    /// Fastest copying to the slow device beside writing.
    pub demote_max: f64,
    /// Slowest copying to the slow device beside writing.
    pub demote_min: f64,
    /// Copying to the slow device alone.
    pub demote_idle: f64,
    /// Whether the page cache was bypassed on both devices.
    pub direct: bool,
}

/// Writes a file from beginning to end repeatedly while `until` allows; returns bytes per second.
fn write(to: &Scratch, until: impl Fn() -> bool) -> Result<f64> {
    let mut buffer = Aligned::new(LARGE);
    flow(to, until, |offset| to.file.write_all_at(buffer.part(LARGE), offset))
}

fn copy(from: &Scratch, to: &Scratch, until: impl Fn() -> bool) -> Result<f64> {
    let mut buffer = Aligned::new(LARGE);
    flow(to, until, |offset| {
        from.read(offset % from.bytes, buffer.part(LARGE))?;
        to.file.write_all_at(buffer.part(LARGE), offset)
    })
}

fn flow(to: &Scratch, until: impl Fn() -> bool, mut step: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    let mut done = 0;
    // At least one step, since the bytes are divided by its time.
    while done == 0 || !until() {
        step(done % to.bytes)?;
        done += LARGE as u64;
        if !to.direct && done.is_multiple_of(SYNC_BYTES) {
            to.file.sync_data()?;
        }
    }
    to.file.sync_data()?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Measures a pair.
///
/// # Errors
/// Errors of the file systems, such as no space or no right to write.
pub fn pair(fast: &Path, slow: &Path, options: Options) -> Result<Pair> {
    let bytes = (options.bytes.max(16 << 20) / LARGE as u64) * LARGE as u64;
    let (source, target) = (Scratch::new(fast, bytes)?, Scratch::new(fast, bytes)?);
    let below = Scratch::new(slow, bytes)?;
    let part = options.time / 3;
    let for_a_while = || {
        let began = Instant::now();
        move || began.elapsed() >= part.max(Duration::from_millis(1))
    };
    let write_max = write(&target, for_a_while())?;
    let stop = AtomicBool::new(false);
    let both = side_by_side(2, |number| match number {
        0 => {
            let beside = write(&target, for_a_while());
            stop.store(true, Ordering::Relaxed);
            beside
        }
        _ => copy(&source, &below, || stop.load(Ordering::Relaxed)),
    });
    let both = both.into_iter().collect::<Result<Vec<_>>>()?;
    let (beside, demote_max) = (both[0], both[1]);
    let demote_idle = copy(&source, &below, for_a_while())?;
    // If a device does both at no cost, the measuring error could make writing beside demotion the faster one.
    let write_min = beside.min(write_max * 0.99);
    let direct = source.direct && target.direct && below.direct;
    Ok(Pair { write_max, write_min, demote_max, demote_min: demote_max * LEAST, demote_idle, direct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_measured_and_left_as_it_was() {
        let (fast, slow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = Options { bytes: 16 << 20, time: Duration::from_millis(150), seed: 1 };
        let found = pair(fast.path(), slow.path(), options).unwrap();
        assert!(found.write_max > found.write_min && found.write_min > 0.0, "{found:?}");
        assert!(found.demote_max > found.demote_min && found.demote_min > 0.0 && found.demote_idle > 0.0, "{found:?}");
        for dir in [fast, slow] {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        assert!(pair(Path::new("/nonexistent"), Path::new("/tmp"), options).is_err());
    }
}

//! An emulated disk against the simulator: the same requests live and in virtual time.
//!
//! Requests are timed by the application that makes them, through the kernel and back. Then a second device at rest gets
//! them at the very moments at which they were made, in virtual time. What the means differ by is what the live path adds: the way
//! through the kernel, and timers and processors that come late.

use crate::device::Device;
use crate::disk::{EmulatedDisk, StartError};
use crate::extents::Run;
use policy::time::Time;
use serde::Serialize;
use sim::generate::Rng;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Instant;

/// Readers at once in the last phase.
const READERS: u32 = 4;
/// Bytes of a small request.
const SMALL_BYTES: u64 = 4096;
/// Bytes of a sequential request.
const LARGE_BYTES: u64 = 64 << 10;
/// The largest file that is made for it.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// How one kind of request went. Times are the device's own, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// What was asked.
    pub what: &'static str,
    /// How many requests.
    pub requests: u64,
    /// Mean response time in virtual time.
    pub simulated_ms: f64,
    /// Mean response time at the application.
    pub measured_ms: f64,
    /// `measured_ms / simulated_ms - 1`.
    pub error: f64,
}

/// A request as the application made it.
#[derive(Clone, Copy, Debug)]
struct Made {
    came: Time,
    took: Time,
    offset: u64,
    length: u64,
    write: bool,
    owner: u32,
}

/// Makes `requests` of each kind on a file of its own in the mount, which is removed again.
pub fn against_simulator(disk: &EmulatedDisk, requests: u64, seed: u64) -> Result<Vec<Phase>, StartError> {
    let path = disk.path().join(format!(".emulated-disk-check-{}", std::process::id()));
    let refused = |error| StartError::Directory { path: path.clone(), error };
    let made = on_file(disk, &path, requests.max(1), seed);
    drop(fs::remove_file(&path));
    let phases = made.map_err(refused)?;
    let options = disk.options();
    let mut device = Device::new(options.setup.storage()?, options.queue_depth);
    Ok(phases.iter().map(|(what, made)| compare(&mut device, what, made)).collect())
}

/// A request, and where its bytes lie.
type Placed = (Made, Vec<Run>);

fn on_file(
    disk: &EmulatedDisk,
    path: &std::path::Path,
    requests: u64,
    seed: u64,
) -> io::Result<Vec<(&'static str, Vec<Placed>)>> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let bytes = (disk.figures().free_bytes / 2).min(FILE_BYTES_MAX) / LARGE_BYTES * LARGE_BYTES;
    if bytes < 16 * LARGE_BYTES {
        return Err(io::Error::other("there is no room on the emulated disk for a file to measure on"));
    }
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    let inode = file.metadata()?.ino();
    let random = |stream: u32, write: bool, n: u64| {
        let mut rng = Rng::new(seed, u64::from(stream));
        let offset = move || rng.below(bytes / SMALL_BYTES) * SMALL_BYTES;
        std::iter::repeat_with(offset).take(n as usize).map(move |offset| (offset, SMALL_BYTES, write))
    };
    let from = Rng::new(seed, 99).below(bytes / 2 / LARGE_BYTES) * LARGE_BYTES;
    let length = requests.min((bytes - from) / LARGE_BYTES);
    let sequential = (0..length).map(|n| (from + n * LARGE_BYTES, LARGE_BYTES, false));
    let each = requests.div_ceil(u64::from(READERS));
    let together = std::thread::scope(|scope| {
        let reader = |owner: u32| {
            let file = &file;
            let mine = random(10 + owner, false, each);
            move || make(disk, file, owner, mine)
        };
        let phases = [
            ("random 4 KiB reads, one at a time", make(disk, &file, 0, random(1, false, requests))?),
            ("sequential 64 KiB reads", make(disk, &file, 0, sequential)?),
            ("random 4 KiB writes, one at a time", make(disk, &file, 0, random(2, true, requests))?),
        ];
        let readers: Vec<_> = (0..READERS).map(|owner| scope.spawn(reader(owner))).collect();
        let mut all = Vec::new();
        for reader in readers {
            all.extend(reader.join().map_err(|_| io::Error::other("a reader ended early"))??);
        }
        all.sort_by_key(|made| made.came);
        Ok::<_, io::Error>(phases.into_iter().chain([("random 4 KiB reads, 4 at a time", all)]).collect::<Vec<_>>())
    })?;
    let place = |made: Made| (made, disk.place(inode, made.offset, made.length));
    let placed = together.into_iter().map(|(what, made)| (what, made.into_iter().map(place).collect()));
    Ok(placed.collect())
}

/// Makes requests one after the other.
fn make(
    disk: &EmulatedDisk,
    file: &File,
    owner: u32,
    requests: impl Iterator<Item = (u64, u64, bool)>,
) -> io::Result<Vec<Made>> {
    let mut buffer = vec![0; LARGE_BYTES as usize];
    let mut all = Vec::new();
    for (offset, length, write) in requests {
        let buffer = &mut buffer[..length as usize];
        let (came, begun) = (disk.now(), Instant::now());
        if write {
            file.write_all_at(buffer, offset)?
        } else {
            file.read_exact_at(buffer, offset)?
        }
        let took = disk.pace().device_time(begun.elapsed());
        all.push(Made { came, took, offset, length, write, owner });
    }
    Ok(all)
}

/// The same requests in virtual time.
fn compare(device: &mut Device, what: &'static str, made: &[Placed]) -> Phase {
    for (tag, (made, runs)) in made.iter().enumerate() {
        device.submit(made.came, tag as u64, runs, made.write, made.owner);
    }
    while let Some(next) = device.next_at() {
        device.advance(next);
    }
    let mean_ms = |sum: u64| sum as f64 / made.len().max(1) as f64 / 1e6;
    let simulated_ms = mean_ms(device.take_done().iter().map(|done| done.at.since(done.came).0).sum());
    let measured_ms = mean_ms(made.iter().map(|(made, _)| made.took.0).sum());
    let error = if simulated_ms > 0.0 { measured_ms / simulated_ms - 1.0 } else { 0.0 };
    Phase { what, requests: made.len() as u64, simulated_ms, measured_ms, error }
}

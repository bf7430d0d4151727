//! Comparison of an emulated disk with the simulator: the same requests live and in virtual time.
//!
//! The application times its requests, through the kernel and back. Then a second, idle device gets them in virtual
//! time, in the order and at the times at which they reached the first one. So every request must complete there at
//! the same time. The application's additional wait is the cost of the live path: the way through the kernel, and
//! late timers and processors. The application's own times are not used for the second device. By a few microseconds,
//! concurrent requests could reach its queue in another order, and the scheduler would then choose differently.

use crate::device::Device;
use crate::disk::{EmulatedDisk, StartError};
use crate::extents::Run;
use crate::spindle::Arrival;
use policy::time::Time;
use serde::Serialize;
use sim::generate::Rng;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Instant;

/// Concurrent readers in the last phase.
const READERS: u32 = 4;
/// Size of a small request.
const SMALL_BYTES: u64 = 4096;
/// Size of a sequential request.
const LARGE_BYTES: u64 = 64 << 10;
/// Largest size of the file for the measurement.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Result for one kind of request. Times are the device's own, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Kind of the requests.
    pub what: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Mean response time in virtual time.
    pub simulated_ms: f64,
    /// Mean response time at the application.
    pub measured_ms: f64,
    /// `measured_ms / simulated_ms - 1`.
    pub error: f64,
    /// Additional wait of the application over virtual time, for the request answered most promptly; negative if
    /// early.
    pub late_least_ms: f64,
    /// Median of this additional wait.
    pub late_median_ms: f64,
    /// Requests whose completion time on the live device differs from virtual time; 0 unless one device is wrong.
    pub apart: u64,
}

/// A request as the application made it.
#[derive(Clone, Copy, Debug)]
struct Made {
    came: Time,
    took: Time,
    offset: u64,
    length: u64,
    write: bool,
}

/// Makes `requests` of each kind on a file of its own in the mount, which is removed afterwards.
pub fn against_simulator(disk: &EmulatedDisk, requests: u64, seed: u64) -> Result<Vec<Phase>, StartError> {
    let path = disk.path().join(format!(".emulated-disk-check-{}", std::process::id()));
    let refused = |error| StartError::Directory { path: path.clone(), error };
    disk.record();
    let made = on_file(disk, &path, requests.max(1), seed);
    let arrivals = disk.recorded();
    drop(fs::remove_file(&path));
    let phases = made.map_err(refused)?;
    let options = disk.options();
    let ends = in_virtual_time(Device::new(options.setup.storage()?, options.queue_depth), &arrivals);
    let mut unmatched: Vec<_> = arrivals.iter().zip(ends).collect();
    let phases = phases.iter().map(|(what, made)| compare(&mut unmatched, what, made));
    phases.collect::<Option<_>>().ok_or_else(|| {
        refused(io::Error::other(
            "the device did not get the requests that were made; check that no other program uses the mount",
        ))
    })
}

/// Returns the times at which `device`, idle at first, completes each of `arrivals`.
fn in_virtual_time(mut device: Device, arrivals: &[Arrival]) -> Vec<Time> {
    for (tag, arrival) in arrivals.iter().enumerate() {
        device.submit(arrival.came, tag as u64, &arrival.runs, arrival.write, arrival.owner);
    }
    while let Some(next) = device.next_at() {
        device.advance(next);
    }
    let mut ends = vec![Time::ZERO; arrivals.len()];
    device.take_done().iter().for_each(|done| ends[done.tag as usize] = done.at);
    ends
}

/// A request, and the sectors of its bytes.
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
            move || make(disk, file, mine)
        };
        let phases = [
            ("random 4 KiB reads, one at a time", make(disk, &file, random(1, false, requests))?),
            ("sequential 64 KiB reads", make(disk, &file, sequential)?),
            ("random 4 KiB writes, one at a time", make(disk, &file, random(2, true, requests))?),
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
fn make(disk: &EmulatedDisk, file: &File, requests: impl Iterator<Item = (u64, u64, bool)>) -> io::Result<Vec<Made>> {
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
        all.push(Made { came, took, offset, length, write });
    }
    Ok(all)
}

/// Compares the application's response times in `made` with the completion times in virtual time. Each request
/// removes its arrival from `unmatched`. Returns `None` if one never arrived.
fn compare(unmatched: &mut Vec<(&Arrival, Time)>, what: &'static str, made: &[Placed]) -> Option<Phase> {
    let (mut simulated_ns, mut measured_ns, mut apart) = (0, 0, 0);
    let mut late_ns = Vec::with_capacity(made.len());
    for (made, runs) in made {
        let during = made.came..=made.came + made.took;
        let at = unmatched.iter().position(|(arrival, _)| {
            during.contains(&arrival.came) && arrival.runs == *runs && arrival.write == made.write
        })?;
        let (arrival, end) = unmatched.remove(at);
        let response = end.since(arrival.came);
        simulated_ns += response.0;
        measured_ns += made.took.0;
        late_ns.push(made.took.0 as i64 - response.0 as i64);
        apart += u64::from(arrival.done != Some(end));
    }
    late_ns.sort_unstable();
    let late_ms = |at: usize| late_ns.get(at).map_or(0.0, |&ns| ns as f64 / 1e6);
    let mean_ms = |sum: u64| sum as f64 / made.len().max(1) as f64 / 1e6;
    let (simulated_ms, measured_ms) = (mean_ms(simulated_ns), mean_ms(measured_ns));
    Some(Phase {
        what,
        requests: made.len() as u64,
        simulated_ms,
        measured_ms,
        error: if simulated_ms > 0.0 { measured_ms / simulated_ms - 1.0 } else { 0.0 },
        late_least_ms: late_ms(0),
        late_median_ms: late_ms(late_ns.len() / 2),
        apart,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::setup::Setup;

    fn arrival(came_ms: u64, sector: u64, done: Option<Time>) -> Arrival {
        Arrival { came: Time::from_millis(came_ms), runs: vec![(sector, 8)], write: false, owner: 0, done }
    }

    fn made(came_ms: u64, took_ms: u64, sector: u64) -> Placed {
        let (came, took) = (Time::from_millis(came_ms), Time::from_millis(took_ms));
        (Made { came, took, offset: 0, length: 4096, write: false }, vec![(sector, 8)])
    }

    #[test]
    fn early_late_and_wrong_answers_are_told_apart() {
        let setup = Setup { disk: "plain:latency=20ms".into(), ..Setup::default() };
        let ends = |arrivals: &[Arrival]| in_virtual_time(Device::new(setup.storage().unwrap(), 8), arrivals);
        let right = [arrival(1, 0, Some(Time::from_millis(21))), arrival(2, 800, Some(Time::from_millis(41)))];
        let compared = |arrivals: &[Arrival], all: &[Placed]| {
            let mut unmatched = arrivals.iter().zip(ends(arrivals)).collect();
            compare(&mut unmatched, "reads", all)
        };
        // The arrivals have another order than the requests.
        let late = compared(&right, &[made(0, 43, 800), made(1, 21, 0)]).unwrap();
        assert_eq!((late.simulated_ms, late.measured_ms), (29.5, 32.0));
        assert_eq!((late.late_least_ms, late.late_median_ms, late.apart), (1.0, 4.0, 0));
        let early = compared(&right, &[made(1, 19, 0), made(2, 40, 800)]).unwrap();
        assert_eq!((early.late_least_ms, early.apart), (-1.0, 0));
        let wrong = [arrival(1, 0, Some(Time::from_millis(22))), arrival(2, 800, None)];
        assert_eq!(compared(&wrong, &[made(1, 21, 0), made(2, 40, 800)]).unwrap().apart, 2);
        assert_eq!(compared(&right, &[made(1, 21, 8)]), None, "another sector");
        assert_eq!(compared(&right, &[made(1, 21, 0), made(1, 21, 0)]), None, "once each");
        assert_eq!(compared(&right, &[made(2, 21, 0)]), None, "before it was made");
    }
}

//! Measurement of a device, through a scratch file on it, for the model of stripe widths.
//!
//! ```text
//!   random reads of 4 KiB and of 1 MiB    mean(4 KiB) = latency + 4 KiB / rate,  mean(1 MiB) = latency + 1 MiB / rate
//!   random reads of 4 KiB, many at once   channels = how many times as many come back in the same time
//!   a task handed to a thread and back    overhead per stripe
//! ```
//! Bypasses the page cache (`O_DIRECT`) if the file system can; else pages are dropped before each read, and the report
//! records it. The slowest twentieth of each kind is left out, as disturbed by other use of the device.

mod pair;

pub use pair::{Pair, pair};

use object::workers::{apart, side_by_side};
use policy::stripe::device::Measured;
use rustix::fs::{Advice, Mode, OFlags, fadvise, open, unlink};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const SMALL: usize = 4096;
const LARGE: usize = 1 << 20;
/// Most reads of each kind.
const SAMPLES_MAX: usize = 400;
/// Least reads of each kind, even if the time is over.
const SAMPLES_MIN: usize = 16;
/// Most threads that read at the same time.
const CHANNELS_MAX: usize = 32;
/// Least spread of the times of small reads, as a share of their mean, of a device that positions an arm. A guess.
const SPREAD_MIN: f64 = 0.1;

/// Options of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of the scratch file, in bytes; at least 16 MiB.
    pub bytes: u64,
    /// Approximate duration of the measurement.
    pub time: Duration,
    /// Seed of the random offsets.
    pub seed: u64,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Parameters of the device.
    pub measured: Measured,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// Mean and standard deviation of a 4 KiB read, in seconds.
    pub small_read_s: (f64, f64),
    /// As above, of a 1 MiB read.
    pub large_read_s: (f64, f64),
    /// As above, of a 1 MiB write.
    pub large_write_s: (f64, f64),
    /// 4 KiB reads per second, by the number of concurrent reads.
    pub parallel: Vec<(usize, f64)>,
}

/// A scratch file without a name.
struct Scratch {
    fd: OwnedFd,
    direct: bool,
    bytes: u64,
}

/// Page-aligned memory, as `O_DIRECT` requires.
struct Aligned {
    memory: Vec<u8>,
    from: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        let memory = vec![0x5a; len + SMALL];
        let from = memory.as_ptr().align_offset(SMALL);
        Aligned { memory, from }
    }

    fn part(&mut self, len: usize) -> &mut [u8] {
        &mut self.memory[self.from..self.from + len]
    }
}

/// Pseudo-random offsets, which depend only on the seed.
struct Offsets(u64);

impl Offsets {
    fn next(&mut self, scratch: &Scratch, len: usize) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let places = (scratch.bytes - len as u64) / SMALL as u64 + 1;
        (self.0 >> 20) % places * SMALL as u64
    }
}

impl Scratch {
    /// Makes a filled file in `dir`: reading unwritten bytes takes no time.
    fn new(dir: &Path, bytes: u64) -> std::io::Result<Scratch> {
        let path = dir.join(format!(".entrepot-bench-{}", std::process::id()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let (fd, direct) = match open(&path, flags | OFlags::DIRECT, mode) {
            Ok(fd) => (fd, true),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                // The open may have made the file before it failed.
                let _ = unlink(&path);
                (open(&path, flags, mode)?, false)
            }
            Err(e) => return Err(e.into()),
        };
        unlink(&path)?;
        let scratch = Scratch { fd, direct, bytes };
        let mut buffer = Aligned::new(LARGE);
        for offset in (0..bytes).step_by(LARGE) {
            scratch.write(offset, buffer.part(LARGE))?;
        }
        rustix::fs::fsync(&scratch.fd)?;
        Ok(scratch)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            done += pwrite(&self.fd, &bytes[done..], offset + done as u64)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<Duration, Errno> {
        if !self.direct {
            fadvise(self.fd.as_fd(), offset, std::num::NonZero::new(bytes.len() as u64), Advice::DontNeed)?;
        }
        let began = Instant::now();
        let mut done = 0;
        while done < bytes.len() {
            match pread(&self.fd, &mut bytes[done..], offset + done as u64)? {
                0 => return Err(Errno::IO),
                read => done += read,
            }
        }
        Ok(began.elapsed())
    }
}

/// Mean and standard deviation without the slowest twentieth.
fn mean(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() - times.len() / 20).max(1));
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    (mean, (times.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt())
}

/// Takes samples until there are enough or the time is over.
fn samples(time: Duration, mut one: impl FnMut() -> Result<Duration, Errno>) -> Result<(f64, f64), Errno> {
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < SAMPLES_MIN || (times.len() < SAMPLES_MAX && began.elapsed() < time) {
        times.push(one()?.as_secs_f64());
    }
    Ok(mean(times))
}

/// Reads of 4 KiB per second with that number of threads.
fn throughput(scratch: &Scratch, threads: usize, time: Duration, seed: u64) -> Result<f64, Errno> {
    let began = Instant::now();
    let read = |n: usize| {
        let (mut buffer, mut offsets) = (Aligned::new(SMALL), Offsets(seed ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9)));
        let mut count = 0u64;
        while began.elapsed() < time || count == 0 {
            scratch.read(offsets.next(scratch, SMALL), buffer.part(SMALL))?;
            count += 1;
        }
        Ok::<u64, Errno>(count)
    };
    let counts = side_by_side(threads, read).into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(counts.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64())
}

/// Time to hand a task to a thread and to receive its result, in seconds.
fn overhead() -> f64 {
    const TASKS: u32 = 1000;
    let (give, take) = channel::<()>();
    let (done, heard) = channel::<()>();
    drop(apart("measure", move || while take.recv().is_ok() && done.send(()).is_ok() {}));
    let began = Instant::now();
    for _ in 0..TASKS {
        if give.send(()).is_err() || heard.recv().is_err() {
            break;
        }
    }
    began.elapsed().as_secs_f64() / f64::from(TASKS)
}

/// Measures the device on which `dir` lies. The scratch file has no name and goes with the process.
///
/// # Errors
/// Errors of the file system, such as no space or no right to write.
pub fn device(dir: &Path, options: Options) -> std::io::Result<Report> {
    let scratch = Scratch::new(dir, (options.bytes.max(16 << 20) / LARGE as u64) * LARGE as u64)?;
    let mut offsets = Offsets(options.seed);
    let mut buffer = Aligned::new(LARGE);
    let part = options.time / 5;
    let small = samples(part, || scratch.read(offsets.next(&scratch, SMALL), buffer.part(SMALL)))?;
    let large = samples(part, || scratch.read(offsets.next(&scratch, LARGE), buffer.part(LARGE)))?;
    let write = samples(part, || {
        let offset = offsets.next(&scratch, LARGE);
        let began = Instant::now();
        scratch.write(offset, buffer.part(LARGE))?;
        rustix::fs::fdatasync(&scratch.fd)?;
        Ok(began.elapsed())
    })?;
    let mut parallel = Vec::new();
    for threads in (0..).map(|n| 1usize << n).take_while(|n| *n <= CHANNELS_MAX) {
        let each = part / 4;
        parallel.push((threads, throughput(&scratch, threads, each, options.seed)?));
        if let [.., (_, before), (_, now)] = parallel.as_slice()
            && now < &(before * 1.1)
        {
            break;
        }
    }
    let more = (LARGE - SMALL) as f64;
    let slope = |large: f64, small: f64| if large > small { more / (large - small) } else { LARGE as f64 / large };
    let read_rate = slope(large.0, small.0);
    let latency_s = (small.0 - SMALL as f64 / read_rate).max(1e-7);
    let write_rate = slope(write.0, latency_s.min(write.0 / 2.0));
    let (one, most) = (parallel[0].1, parallel.iter().map(|(_, rate)| *rate).fold(0.0, f64::max));
    let channels = (most / one.max(1e-9)).round().max(1.0);
    // A disk has one arm, whose positioning times vary; its own queue speeds up concurrent reads a little.
    let is_disk = channels < 3.0 && latency_s > 1e-3 && small.1 > SPREAD_MIN * latency_s;
    let measured = match is_disk {
        true => Measured::disk_from(latency_s, small.1 * small.1, read_rate, write_rate, overhead()),
        false => Measured { disk: None, latency_s, channels, read_rate, write_rate, overhead_s: overhead() },
    };
    Ok(Report {
        measured,
        direct: scratch.direct,
        small_read_s: small,
        large_read_s: large,
        large_write_s: write,
        parallel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_twentieth_does_not_count() {
        let mut times = vec![0.010; 95];
        times.extend([9.0; 5]);
        let (middle, spread) = mean(times);
        assert!((middle - 0.010).abs() < 1e-12 && spread < 1e-9);
    }

    #[test]
    fn a_directory_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { bytes: 16 << 20, time: Duration::from_millis(200), seed: 1 };
        let report = device(dir.path(), options).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let of = report.measured;
        assert!(of.read_rate > 0.0 && of.write_rate > 0.0 && of.latency_s > 0.0 && of.channels >= 1.0, "{of}");
        let again: Measured = of.to_string().parse().unwrap();
        assert_eq!(again.to_string(), of.to_string(), "what is written is read back");
        assert!(device(&dir.path().join("none"), options).is_err());
    }
}

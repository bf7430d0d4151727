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
use rustix::io::Errno;
use sim::generate::Rng;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
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
    file: File,
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

impl Scratch {
    /// Makes a filled file in `dir`: reading unwritten bytes takes no time.
    fn new(dir: &Path, bytes: u64) -> Result<Scratch> {
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
        let scratch = Scratch { file: File::from(fd), direct, bytes };
        let mut buffer = Aligned::new(LARGE);
        for offset in (0..bytes).step_by(LARGE) {
            scratch.file.write_all_at(buffer.part(LARGE), offset)?;
        }
        scratch.file.sync_all()?;
        Ok(scratch)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<Duration> {
        if !self.direct {
            fadvise(&self.file, offset, std::num::NonZero::new(bytes.len() as u64), Advice::DontNeed)?;
        }
        let began = Instant::now();
        self.file.read_exact_at(bytes, offset)?;
        Ok(began.elapsed())
    }

    /// A random place of `len` bytes.
    fn place(&self, random: &mut Rng, len: usize) -> u64 {
        random.below((self.bytes - len as u64) / SMALL as u64 + 1) * SMALL as u64
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
fn samples(time: Duration, mut one: impl FnMut() -> Result<Duration>) -> Result<(f64, f64)> {
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < SAMPLES_MIN || (times.len() < SAMPLES_MAX && began.elapsed() < time) {
        times.push(one()?.as_secs_f64());
    }
    Ok(mean(times))
}

/// Reads of 4 KiB per second with that number of threads.
fn throughput(scratch: &Scratch, threads: usize, time: Duration, seed: u64) -> Result<f64> {
    let began = Instant::now();
    let read = |n: usize| -> Result<u64> {
        let (mut buffer, mut random) = (Aligned::new(SMALL), Rng::new(seed, n as u64 + 1));
        let mut count = 0u64;
        while began.elapsed() < time || count == 0 {
            scratch.read(scratch.place(&mut random, SMALL), buffer.part(SMALL))?;
            count += 1;
        }
        Ok(count)
    };
    let counts = side_by_side(threads, read).into_iter().collect::<Result<Vec<_>>>()?;
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
pub fn device(dir: &Path, options: Options) -> Result<Report> {
    let scratch = Scratch::new(dir, (options.bytes.max(16 << 20) / LARGE as u64) * LARGE as u64)?;
    let mut random = Rng::new(options.seed, 0);
    let mut buffer = Aligned::new(LARGE);
    let part = options.time / 5;
    let small = samples(part, || scratch.read(scratch.place(&mut random, SMALL), buffer.part(SMALL)))?;
    let large = samples(part, || scratch.read(scratch.place(&mut random, LARGE), buffer.part(LARGE)))?;
    let write = samples(part, || {
        let offset = scratch.place(&mut random, LARGE);
        let began = Instant::now();
        scratch.file.write_all_at(buffer.part(LARGE), offset)?;
        scratch.file.sync_data()?;
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

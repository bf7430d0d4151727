//! Reads at random times and places of a file, whatever becomes of those before.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that read: more than ever wait at once, unless the disks cannot bear the load.
const THREADS: usize = 48;

/// Reads of one size.
#[derive(Clone, Copy)]
pub struct RequestClass {
    /// Requests per second.
    pub rate: f64,
    /// Bytes of a request.
    pub bytes: u64,
}

/// Results of runs.
#[derive(Default)]
pub struct Measured {
    /// Response time of each read, from when it was due, in milliseconds.
    times: Vec<f64>,
}

impl Measured {
    /// This and another run.
    pub fn and(mut self, other: Measured) -> Measured {
        self.times.extend(other.times);
        self
    }

    /// Mean response time.
    pub fn mean_ms(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64
    }

    /// Mean, 95th percentile and number.
    pub fn text(&self) -> String {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let p95_ms = times.get(times.len() * 95 / 100).copied().unwrap_or(f64::NAN);
        format!("{:.2} ({:.2}, {} reads)", self.mean_ms(), p95_ms, times.len())
    }
}

struct Read {
    due: Duration,
    offset: u64,
    bytes: usize,
}

/// The reads of a run, the same for the same seed: exponential gaps, sizes by their rates, aligned offsets.
fn reads(asked: &[RequestClass], file_bytes: u64, span: f64, seed: u64) -> Vec<Read> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let rate: f64 = asked.iter().map(|of| of.rate).sum();
    let (mut at, mut all) = (0.0, Vec::new());
    loop {
        at += -unit().ln() / rate;
        if at >= span {
            return all;
        }
        let mut which = unit() * rate;
        let of = asked.iter().find(|of| {
            which -= of.rate;
            which < 0.0
        });
        let bytes = of.unwrap_or(&asked[asked.len() - 1]).bytes;
        let offset = (unit() * (file_bytes / bytes) as f64) as u64 * bytes;
        all.push(Read { due: Duration::from_secs_f64(at), offset, bytes: bytes as usize });
    }
}

/// Reads for `warm_up` and then `seconds`; what is due in the latter is counted.
pub fn run(path: &Path, asked: &[RequestClass], warm_up: f64, seconds: f64, seed: u64) -> Measured {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let all = reads(asked, file.metadata().expect("metadata").len(), warm_up + seconds, seed);
    let (next, times) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // On a page's border: else the kernel makes two requests of one.
                let mut memory = vec![0; (1 << 20) + 4096];
                let from = memory.as_ptr().align_offset(4096);
                let buffer = &mut memory[from..];
                while let Some(read) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    std::thread::sleep((began + read.due).saturating_duration_since(Instant::now()));
                    file.read_exact_at(&mut buffer[..read.bytes], read.offset).expect("bytes of the volume");
                    if read.due.as_secs_f64() >= warm_up {
                        let took = began.elapsed() - read.due;
                        times.lock().expect("no panic").push(took.as_secs_f64() * 1e3);
                    }
                }
            });
        }
    });
    Measured { times: times.into_inner().expect("no panic") }
}

//! The workloads: large sequential I/O, random reads, many small files, and one file shared by several writers.
//!
//! Each returns a rate. Data is in the page cache of the file system underneath, so what differs is what the layer on
//! top costs; files are written without fsync and removed afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A named measurement.
pub struct Workload {
    /// The row's heading.
    pub name: &'static str,
    /// What the number counts.
    pub unit: &'static str,
    /// Runs once in a directory, with files of that many MiB; gives the rate.
    pub run: fn(&Path, usize, usize) -> f64,
}

const BLOCK: usize = 1 << 20;
const SMALL_FILES: usize = 10_000;
const SMALL_BYTES: usize = 3_901; // mdtest-hard's file size
const RECORD: usize = 47_008; // ior-hard's record size

/// All of them, in the order of the table.
pub fn all(_mib: usize) -> Vec<Workload> {
    let row = |name, unit, run| Workload { name, unit, run };
    vec![
        row("write, 1 stream", "MiB/s", |d, m, _| write_streams(d, m, 1)),
        row("read, 1 stream", "MiB/s", |d, m, _| read_streams(d, m, 1)),
        row("write, 4 streams", "MiB/s", |d, m, _| write_streams(d, m, 4)),
        row("read, 4 streams", "MiB/s", |d, m, _| read_streams(d, m, 4)),
        row("random 4 KiB reads, 4 threads", "1/s", random_reads),
        row("create", "1/s", |d, _, _| small_files(d, Step::Create)),
        row("stat", "1/s", |d, _, _| small_files(d, Step::Stat)),
        row("unlink", "1/s", |d, _, _| small_files(d, Step::Unlink)),
        row("shared file, 4 writers", "MiB/s", |d, m, _| shared_file(d, m, true)),
        row("shared file, 4 readers", "MiB/s", |d, m, _| shared_file(d, m, false)),
    ]
}

fn fill(path: &Path, mib: usize) {
    let block = vec![0x5a_u8; BLOCK];
    let mut file = File::create(path).expect("create");
    for _ in 0..mib {
        file.write_all(&block).expect("write");
    }
}

/// Runs `job` in `count` threads at once and gives the seconds until the last has ended.
fn together(count: usize, job: impl Fn(usize) + Sync) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for i in 0..count {
            let job = &job;
            scope.spawn(move || job(i));
        }
    });
    start.elapsed().as_secs_f64()
}

fn write_streams(dir: &Path, mib: usize, streams: usize) -> f64 {
    let each = mib / streams;
    let name = |i| dir.join(format!("seq{i}"));
    let secs = together(streams, |i| fill(&name(i), each));
    (0..streams).for_each(|i| fs::remove_file(name(i)).expect("remove"));
    (each * streams) as f64 / secs
}

fn read_streams(dir: &Path, mib: usize, streams: usize) -> f64 {
    let each = mib / streams;
    let name = |i| dir.join(format!("seq{i}"));
    (0..streams).for_each(|i| fill(&name(i), each));
    let secs = together(streams, |i| {
        let mut file = File::open(name(i)).expect("open");
        let mut block = vec![0_u8; BLOCK];
        let mut total = 0;
        loop {
            match file.read(&mut block).expect("read") {
                0 => break,
                n => total += n,
            }
        }
        assert_eq!(total, each * BLOCK);
    });
    (0..streams).for_each(|i| fs::remove_file(name(i)).expect("remove"));
    (each * streams) as f64 / secs
}

fn random_reads(dir: &Path, mib: usize, round: usize) -> f64 {
    const SPAN: Duration = Duration::from_secs(2);
    let path = dir.join("random");
    fill(&path, mib);
    let pages = (mib * BLOCK / 4096) as u64;
    let done = std::sync::atomic::AtomicU64::new(0);
    let secs = together(4, |i| {
        let file = File::open(&path).expect("open");
        let mut page = [0_u8; 4096];
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64 ^ ((round as u64) << 32) ^ (i as u64 + 1);
        let (mut count, start) = (0_u64, Instant::now());
        while start.elapsed() < SPAN {
            for _ in 0..64 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                file.read_exact_at(&mut page, seed % pages * 4096).expect("read");
            }
            count += 64;
        }
        done.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
    });
    fs::remove_file(&path).expect("remove");
    done.into_inner() as f64 / secs
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Create,
    Stat,
    Unlink,
}

fn small_files(dir: &Path, measured: Step) -> f64 {
    let dir = dir.join("small");
    fs::create_dir(&dir).expect("mkdir");
    let data = vec![7_u8; SMALL_BYTES];
    let name = |i: usize| dir.join(format!("file.{i:05}"));
    let mut rate = 0.0;
    for step in [Step::Create, Step::Stat, Step::Unlink] {
        let start = Instant::now();
        for i in 0..SMALL_FILES {
            match step {
                Step::Create => fs::write(name(i), &data).expect("create"),
                Step::Stat => assert_eq!(fs::metadata(name(i)).expect("stat").len(), SMALL_BYTES as u64),
                Step::Unlink => fs::remove_file(name(i)).expect("unlink"),
            }
        }
        if step == measured {
            rate = SMALL_FILES as f64 / start.elapsed().as_secs_f64();
        }
    }
    fs::remove_dir(&dir).expect("rmdir");
    rate
}

/// Writers (or readers) take turns over one file, record by record.
fn shared_file(dir: &Path, mib: usize, measure_write: bool) -> f64 {
    let path = dir.join("shared");
    let records = mib * BLOCK / 2 / RECORD;
    File::create(&path).expect("create");
    let write = together(4, |i| {
        let file = OpenOptions::new().write(true).open(&path).expect("open");
        let record = vec![i as u8 + 1; RECORD];
        for k in (i..records).step_by(4) {
            file.write_all_at(&record, (k * RECORD) as u64).expect("write");
        }
    });
    let read = together(4, |i| {
        let file = File::open(&path).expect("open");
        let mut record = vec![0_u8; RECORD];
        for k in (i..records).step_by(4) {
            file.read_exact_at(&mut record, (k * RECORD) as u64).expect("read");
            assert!(record.iter().all(|&b| b == i as u8 + 1), "record {k} was torn");
        }
    });
    fs::remove_file(&path).expect("remove");
    let bytes = (records * RECORD) as f64 / BLOCK as f64;
    bytes / if measure_write { write } else { read }
}

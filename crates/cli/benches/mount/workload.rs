//! The workloads: large sequential I/O, random reads, many small files, and one file shared by several writers.
//!
//! Each returns a rate. Data is in the page cache of the file system underneath, so what differs is what the layer on
//! top costs; files are written without fsync and removed afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// One measured rate.
pub struct Rate {
    /// The row's heading.
    pub name: &'static str,
    /// Unit of the number.
    pub unit: &'static str,
    /// Number of these per second.
    pub value: f64,
}

/// Runs once in a directory, with files of that many MiB; `round` makes the random numbers others each time.
pub type Workload = fn(dir: &Path, mib: usize, round: usize) -> Vec<Rate>;

const BLOCK: usize = 1 << 20;
const SMALL_FILES: usize = 10_000;
const SMALL_BYTES: usize = 3_901; // mdtest-hard's file size
const RECORD: usize = 47_008; // ior-hard's record size

/// All of them with the names that `ENTREPOT_BENCH_ONLY` takes, in the order of the table.
pub fn all() -> Vec<(&'static str, Workload)> {
    vec![
        ("write", |dir, mib, _| vec![mib_per_s("write, 1 stream", write_streams(dir, mib, 1))]),
        ("read", |dir, mib, _| vec![mib_per_s("read, 1 stream", read_streams(dir, mib, 1))]),
        ("write", |dir, mib, _| vec![mib_per_s("write, 4 streams", write_streams(dir, mib, 4))]),
        ("read", |dir, mib, _| vec![mib_per_s("read, 4 streams", read_streams(dir, mib, 4))]),
        ("random", |dir, mib, round| vec![per_s("random 4 KiB reads, 4 threads", random_reads(dir, mib, round))]),
        ("shared", |dir, mib, _| shared_file(dir, mib)),
        ("small", |dir, _, round| small_files(dir, round)),
        ("small", |dir, _, round| vec![per_s("unlink", unlink_small_files(dir, round))]),
    ]
}

fn mib_per_s(name: &'static str, value: f64) -> Rate {
    Rate { name, unit: "MiB/s", value }
}

fn per_s(name: &'static str, value: f64) -> Rate {
    Rate { name, unit: "1/s", value }
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

/// The small files stay until all rounds of all subjects have made theirs. ext4 passes one by one over inodes that were
/// deleted in the last minutes; after ten thousand deletions any process spends nine tenths of a creation on that.
fn small_files(dir: &Path, round: usize) -> Vec<Rate> {
    let dir = small_dir(dir, round);
    fs::create_dir(&dir).expect("mkdir");
    let data = vec![7_u8; SMALL_BYTES];
    let create = small_rate(&dir, &|path| fs::write(path, &data).expect("create"));
    let stat = small_rate(&dir, &|path| assert_eq!(fs::metadata(path).expect("stat").len(), SMALL_BYTES as u64));
    vec![per_s("create", create), per_s("stat", stat)]
}

fn unlink_small_files(dir: &Path, round: usize) -> f64 {
    let dir = small_dir(dir, round);
    let unlink = small_rate(&dir, &|path| fs::remove_file(path).expect("unlink"));
    fs::remove_dir(&dir).expect("rmdir");
    unlink
}

fn small_dir(dir: &Path, round: usize) -> PathBuf {
    dir.join(format!("small{round}"))
}

/// Does one step with each small file, one after the other.
fn small_rate(dir: &Path, step: &dyn Fn(&Path)) -> f64 {
    let start = Instant::now();
    (0..SMALL_FILES).for_each(|i| step(&dir.join(format!("file.{i:05}"))));
    SMALL_FILES as f64 / start.elapsed().as_secs_f64()
}

/// Writers, then readers, take turns over one file, record by record.
fn shared_file(dir: &Path, mib: usize) -> Vec<Rate> {
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
    vec![mib_per_s("shared file, 4 writers", bytes / write), mib_per_s("shared file, 4 readers", bytes / read)]
}

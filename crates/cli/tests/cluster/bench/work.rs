//! Work of a process on a host for a row of the benchmark.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Records that belong to no page and no stripe.
pub const RECORD: usize = crate::writers::RECORD;
/// Bytes of one call for a large file.
const CALL: usize = 1 << 20;

/// A part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Work {
    Directory {
        path: String,
    },
    Touch {
        path: String,
    },
    Write {
        path: String,
        bytes: u64,
    },
    Read {
        path: String,
        bytes: u64,
    },
    /// Every so many-th record of a file that others write, too: one writer for each of the first ones.
    Records {
        path: String,
        first: Vec<u64>,
        step: u64,
        count: u64,
    },
    Create {
        dir: String,
        files: u64,
        bytes: usize,
    },
    /// Writes at the end of one open file.
    Append {
        path: String,
        times: u64,
        bytes: usize,
    },
    Stat {
        dir: String,
        files: u64,
    },
    ReadAll {
        dir: String,
        files: u64,
        bytes: usize,
    },
    Overwrite {
        dir: String,
        files: u64,
        bytes: usize,
    },
    Remove {
        dir: String,
        files: u64,
    },
}

/// Does it; how long it took.
pub fn seconds(work: &Work) -> Result<f64, Errno> {
    let began = Instant::now();
    carry(work).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(began.elapsed().as_secs_f64())
}

fn carry(work: &Work) -> io::Result<()> {
    let file = |dir: &str, n: u64| format!("{dir}/{n}");
    match work {
        Work::Directory { path } => std::fs::create_dir_all(path),
        Work::Touch { path } => File::create_new(path).map(drop),
        Work::Write { path, bytes } => {
            let (mut file, block) = (File::create_new(path)?, vec![0x5a; CALL]);
            (0..bytes / CALL as u64).try_for_each(|_| file.write_all(&block))?;
            file.sync_all()
        }
        Work::Read { path, bytes } => {
            let (mut file, mut block) = (File::open(path)?, vec![0; CALL]);
            (0..bytes / CALL as u64).try_for_each(|_| file.read_exact(&mut block))?;
            if file.read(&mut block)? == 0 { Ok(()) } else { Err(Errno::FBIG.into()) }
        }
        Work::Records { path, first, step, count } => {
            let (step, count) = (*step, *count);
            std::thread::scope(|scope| {
                let writes = |first: &u64| {
                    let first = *first;
                    scope.spawn(move || records(path, first, step, count))
                };
                let writers: Vec<_> = first.iter().map(writes).collect();
                writers.into_iter().try_for_each(|writer| writer.join().expect("no panic"))
            })
        }
        Work::Create { dir, files, bytes } => {
            let block = vec![1; *bytes];
            (0..*files).try_for_each(|n| File::create_new(file(dir, n))?.write_all(&block))
        }
        Work::Append { path, times, bytes } => {
            let (mut file, block) = (File::options().append(true).create(true).open(path)?, vec![3; *bytes]);
            (0..*times).try_for_each(|_| file.write_all(&block))
        }
        Work::Stat { dir, files } => (0..*files).try_for_each(|n| std::fs::metadata(file(dir, n)).map(drop)),
        Work::ReadAll { dir, files, bytes } => (0..*files).try_for_each(|n| {
            let read = std::fs::read(file(dir, n))?;
            if read.len() == *bytes { Ok(()) } else { Err(Errno::IO.into()) }
        }),
        Work::Overwrite { dir, files, bytes } => {
            let block = vec![2; *bytes];
            (0..*files).try_for_each(|n| File::options().write(true).open(file(dir, n))?.write_all_at(&block, 0))
        }
        Work::Remove { dir, files } => (0..*files).try_for_each(|n| std::fs::remove_file(file(dir, n))),
    }
}

fn records(path: &str, first: u64, step: u64, count: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let (record, mut n) = (vec![first as u8 + 1; RECORD], first);
    while n < count {
        file.write_all_at(&record, n * RECORD as u64)?;
        n += step;
    }
    file.sync_all()
}

//! The workload on a volume of the real binary, over an emulated array.

use crate::simulated::array;
use crate::workload::Workload;
use crate::{Figures, Policy};
use emulate::{EmulatedDisk, Options};
use sim::trace::Record;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Think time of a video stream.
const THINK: Duration = Duration::from_millis(33);
/// Time between two looks at the cache.
const LOOK: Duration = Duration::from_millis(250);

/// An emulated array with a volume that has all files; the volume is up while something runs.
pub struct Rig {
    dir: PathBuf,
    disk: EmulatedDisk,
}

impl Rig {
    /// Makes it, and the files of the workload that needs most of each.
    pub fn start(base: &Path, workloads: &[Workload]) -> Rig {
        let dir = base.join(format!("entrepot-prefetch-{}", std::process::id()));
        for name in ["backing", "disk", "namespace", "state", "mnt"] {
            std::fs::create_dir_all(dir.join(name)).unwrap_or_else(|e| panic!("cannot make {}: {e}", dir.display()));
        }
        let options = Options {
            setup: array(),
            capacity_bytes: None,
            queue_depth: 128,
            speedup: 1.0,
            page_cache: false,
            sync: false,
            extent_bytes: 8 << 20,
        };
        let disk = EmulatedDisk::start(&dir.join("backing"), &dir.join("disk"), options)
            .unwrap_or_else(|e| panic!("no emulated disk: {e}"));
        std::fs::create_dir(dir.join("disk/target")).expect("a directory on the emulated disk");
        let rig = Rig { dir, disk };
        rig.up(None);
        let mut bytes: Vec<(u32, u64)> = Vec::new();
        let mut at: HashMap<u32, usize> = HashMap::new();
        for (file, long) in workloads.iter().flat_map(Workload::files) {
            let index = *at.entry(file).or_insert_with(|| {
                bytes.push((file, 0));
                bytes.len() - 1
            });
            bytes[index].1 = bytes[index].1.max(long);
        }
        for (file, long) in bytes {
            let path = rig.file(file);
            let file = File::create(&path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, long)
                .expect("room on the emulated disk");
        }
        rig.down();
        rig
    }

    fn file(&self, number: u32) -> PathBuf {
        self.dir.join("mnt").join(format!("f{number}"))
    }

    /// Mounts the volume, with a cache of so many blocks and this policy, or without.
    fn up(&self, cache: Option<(&Policy, u64)>) {
        let dir = self.dir.display();
        let mut toml = format!(
            "name = \"prefetch\"\nnamespace = \"{dir}/namespace\"\nstate = \"{dir}/state\"\n[tier.disk]\n\
             [[target]]\nname = \"array\"\npath = \"{dir}/disk/target\"\ntier = \"disk\"\n\
             [layout]\nstripe_count = 1\nsingle_max = \"1TiB\"\n[health]\ndeadline = \"60s\"\n"
        );
        if let Some((policy, blocks)) = cache {
            let (prefetch, trigger) = (policy.prefetch, policy.trigger);
            let bytes = blocks * 4096;
            toml += &format!("[cache]\nsize = {bytes}\nprefetch = \"{prefetch}\"\ntrigger = \"{trigger}\"\n");
        }
        let path = self.dir.join("volume.toml");
        std::fs::write(&path, toml).expect("volume.toml");
        let at = self.dir.join("mnt");
        self.entrepot(&["up".as_ref(), path.as_ref(), "--at".as_ref(), at.as_ref(), "--detach".as_ref()]);
    }

    fn down(&self) {
        self.entrepot(&["--volume".as_ref(), self.dir.join("volume.toml").as_ref(), "down".as_ref()]);
    }

    fn entrepot(&self, words: &[&Path]) {
        let out = Command::new(env!("CARGO_BIN_EXE_entrepot")).args(words).output().expect("the binary runs");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Numbers of the cache.
    fn cache(&self) -> HashMap<String, f64> {
        let text = std::fs::read_to_string(self.dir.join("mnt/.stats")).expect(".stats");
        let words = text.lines().filter_map(|line| line.strip_prefix("cache_")?.split_once(' '));
        words.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect()
    }

    pub fn run(&self, workload: &Workload, policy: &Policy, blocks: u64) -> Figures {
        let streams = workload.streams() as u64;
        self.up(Some((policy, blocks * streams)));
        let until = Instant::now() + Duration::from_secs(workload.seconds);
        let over = AtomicBool::new(false);
        let (read, ahead) = std::thread::scope(|scope| {
            let readers: Vec<_> = workload
                .by_stream()
                .into_iter()
                .map(|records| scope.spawn(move || self.stream(&records, workload.copies, until)))
                .collect();
            let watcher = scope.spawn(|| self.watch(&over));
            let read: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("a stream")).collect();
            over.store(true, Ordering::Relaxed);
            (read, watcher.join().expect("a look at the cache"))
        });
        let cache = self.cache();
        self.down();
        let of = |name: &str| cache.get(name).copied().unwrap_or_default();
        let share = |part: &str| of(part) / of("prefetched").max(1.0);
        let seconds = workload.seconds as f64;
        let (requests, waited): (u64, Duration) =
            read.iter().fold((0, Duration::ZERO), |(n, sum), r| (n + r.1, sum + r.2));
        Figures {
            streams_mb_s: read.iter().map(|r| r.0 as f64 / seconds / 1e6).collect(),
            mb_s: read.iter().map(|r| r.0).sum::<u64>() as f64 / seconds / 1e6,
            response_ms: waited.as_secs_f64() * 1e3 / requests.max(1) as f64,
            hit_ratio: of("hit_ratio"),
            late: share("prefetch_late"),
            wasted: share("prefetch_wasted"),
            ahead_kib: Some(ahead * 4.0 / streams as f64),
        }
    }

    /// Blocks that were prefetched and not asked for yet, mean over time.
    fn watch(&self, over: &AtomicBool) -> f64 {
        let (mut sum, mut looks) = (0.0, 0u32);
        while !over.load(Ordering::Relaxed) {
            let cache = self.cache();
            let of = |name: &str| cache.get(name).copied().unwrap_or_default();
            sum += of("prefetched") - of("prefetch_used") - of("prefetch_wasted");
            looks += 1;
            std::thread::sleep(LOOK);
        }
        sum / f64::from(looks.max(1))
    }

    /// One stream: bytes that it read, requests, time that it waited for them.
    fn stream(&self, records: &[Record], paced: bool, until: Instant) -> (u64, u64, Duration) {
        let mut buffer = vec![0; 1 << 20];
        let (mut bytes, mut requests, mut waited) = (0, 0, Duration::ZERO);
        let mut open: Option<(u32, File)> = None;
        let Some(first) = records.first() else { return (0, 0, waited) };
        let mut due = Instant::now() + Duration::from_nanos(first.time_ns);
        for (n, record) in records.iter().enumerate() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let came = Instant::now();
            if came >= until {
                break;
            }
            let file = match &open {
                Some((number, file)) if *number == record.file => file,
                _ => {
                    let file = File::open(self.file(record.file)).expect("a file of the volume");
                    &open.insert((record.file, file)).1
                }
            };
            file.read_exact_at(&mut buffer[..record.length as usize], record.offset).expect("bytes of the volume");
            let answered = Instant::now();
            (bytes, requests, waited) = (bytes + u64::from(record.length), requests + 1, waited + (answered - came));
            let gap = records.get(n + 1).map_or(0, |next| next.time_ns - record.time_ns);
            due = if paced { (came + Duration::from_nanos(gap)).max(answered) } else { answered + THINK };
        }
        (bytes, requests, waited)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let toml = self.dir.join("volume.toml");
            drop(
                Command::new(env!("CARGO_BIN_EXE_entrepot"))
                    .arg("--volume")
                    .arg(toml)
                    .args(["down", "--force"])
                    .output(),
            );
        }
        drop(self.disk.unmount().or_else(|_| self.disk.detach()));
        drop(self.disk.wait());
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

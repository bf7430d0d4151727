//! Cost of the sensors: processor time of the daemon per read, with and without.
//!
//! Two volumes are up at a time, one with sensors and one without, and are read in turns of a fraction of a second. So
//! other load of the machine falls on both. Reader and daemons share one processor: else half of the result would
//! depend on where threads wake up.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pairs of turns: so many that chance leaves a few tenths of a percent.
const ROUNDS: usize = 300;
/// Reads of a turn.
const READS: u64 = 5_000;
const FILE_BYTES: u64 = 16 << 20;

struct Volume {
    dir: PathBuf,
    pid: u64,
    file: File,
}

fn entrepot(words: &[&str]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_entrepot")).args(words).output().expect("the binary runs");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// Time that all threads of a process were on a processor, in nanoseconds.
fn busy_ns(pid: u64) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}

impl Volume {
    fn up(base: &Path, sensors: bool) -> Volume {
        let dir = base.join(if sensors { "with" } else { "without" });
        for name in ["n", "s", "a", "b", "mnt"] {
            std::fs::create_dir_all(dir.join(name)).unwrap_or_else(|e| panic!("cannot make {}: {e}", dir.display()));
        }
        let (toml, mnt, shown) = (dir.join("volume.toml"), dir.join("mnt"), dir.display());
        let mut text =
            format!("namespace = \"{shown}/n\"\nstate = \"{shown}/s\"\n[layout]\nstripe_count = 2\nsingle_max = 0\n");
        text += &format!("[mount]\nio = \"direct\"\n[stripes]\nsensors = {sensors}\n");
        for name in ["a", "b"] {
            text += &format!("[[target]]\nname = \"{name}\"\npath = \"{shown}/{name}\"\n");
        }
        std::fs::write(&toml, text).expect("volume.toml");
        let words = [toml.to_str().expect("UTF-8"), mnt.to_str().expect("UTF-8")];
        entrepot(&["up", words[0], "--at", words[1], "--detach"]);
        let status = entrepot(&["--volume", words[0], "status", "--output", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
        std::fs::write(mnt.join("file"), vec![1; FILE_BYTES as usize]).expect("write");
        let file = File::open(mnt.join("file")).expect("open");
        Volume { dir, pid: status["pid"].as_u64().expect("a process"), file }
    }

    /// The daemon's time for one read, in nanoseconds, over a turn of them.
    fn turn(&self, round: u64) -> f64 {
        let mut buffer = vec![0; 4096];
        let before = busy_ns(self.pid);
        for n in 0..READS {
            let page = (round * READS + n).wrapping_mul(2_654_435_761) % (FILE_BYTES / 4096);
            self.file.read_exact_at(&mut buffer, page * 4096).expect("read");
        }
        (busy_ns(self.pid) - before) as f64 / READS as f64
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let toml = self.dir.join("volume.toml");
        let mut down = Command::new(env!("CARGO_BIN_EXE_entrepot"));
        drop(down.arg("--volume").arg(toml).args(["down", "--force"]).output());
    }
}

/// Keeps this thread, and the daemons that it starts, on one processor.
fn on_one_processor() {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("all processors are used ({error}): expect noise");
    }
}

/// Reads of 4 KiB on a striped file, one at a time: the dearest case, since each is a request of its own.
pub fn cost(base: &Path) {
    let dir = base.join(format!("entrepot-sensors-{}", std::process::id()));
    on_one_processor();
    let [without, with] = [Volume::up(&dir, false), Volume::up(&dir, true)];
    let (mut ratios, mut sums) = (Vec::new(), [0.0; 2]);
    for round in 0..ROUNDS + 2 {
        // The order changes from pair to pair.
        let (a, b) = match round % 2 {
            0 => (without.turn(round as u64), with.turn(round as u64)),
            _ => {
                let b = with.turn(round as u64);
                (without.turn(round as u64), b)
            }
        };
        // The first two fill caches.
        if round >= 2 {
            ratios.push(b / a);
            (sums[0], sums[1]) = (sums[0] + a, sums[1] + b);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let of = |share: usize| percent(ratios[ROUNDS * share / 4]);
    println!(
        "\nsensors: {:.2} us of the daemon's processor time per 4 KiB read with, {:.2} us without; of {ROUNDS} pairs of turns of {READS} \
         reads the median is {:+.2} % (quartiles {:+.2} and {:+.2} %)",
        sums[1] / ROUNDS as f64 / 1e3,
        sums[0] / ROUNDS as f64 / 1e3,
        of(2),
        of(1),
        of(3)
    );
    drop((with, without));
    drop(std::fs::remove_dir_all(&dir));
}
